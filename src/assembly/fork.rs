//! Makes a fork: the copied log, a workspace made from the tree of that moment, the fact that says so.
//! Whether it goes on or is only made is the caller's decision.

mod clone;
mod instead;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use instead::Instead;
use instead::Replaced;

use crate::arena::Attendance;
use crate::assembly::prepared::{Loaded, Prepared, Unfinished};
use crate::assembly::taken_up::{self, Origin};
use crate::assembly::{Changes, Place, WireError, ownership, providers, store};
use crate::config::{Config, ModelName};
use crate::eventlog::{LogError, SessionPath, SessionStore, session_status};
use crate::ports::{EventLog, Workspace};
use crate::protocol::event::SessionForked;
use crate::protocol::{ArenaEvent, RULES};
use crate::sandbox::crash_journal;
use crate::session::Session;
use crate::workspace::WorkspaceStore;

/// What is forked, where, and what is changed.
#[derive(Clone, Debug, Default)]
pub struct ForkPlan {
    /// The session, as named by the person.
    pub session: String,
    /// The last entry that is copied; the last of the log when absent.
    pub at: Option<u64>,
    /// What is different from here on.
    pub changes: Changes,
    /// The one fact that is given again; then the copy ends before it.
    pub instead: Option<Instead>,
    /// True when the copy goes on for a session that was ended in the middle.
    pub goes_on: bool,
}

impl ForkPlan {
    /// What is different in the copy, for people.
    fn in_words(&self) -> Option<String> {
        let instead = self.instead.as_ref().and_then(Instead::in_words).map(str::to_owned);
        let words: Vec<String> = self.changes.in_words().into_iter().chain(instead).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

/// Copies a session up to an entry into a new one with a workspace of its own, neither recorded as a fork nor started.
/// When that fails nothing is left of it.
pub async fn fork(config: &Config, plan: &ForkPlan, attended: Attendance) -> Result<Prepared, WireError> {
    let store = store(config);
    let parent = store.find(&plan.session)?;
    let last = match plan.at {
        Some(at) => at,
        None => last_entry(&store, &parent)?,
    };
    let replaced = match &plan.instead {
        Some(instead) => Some(instead.find(store.read(&parent)?, last)?),
        None => None,
    };
    let at = replaced.as_ref().map_or(last, |replaced| replaced.after);
    let mut loaded = Loaded::new();
    let id = loaded.id.clone();
    loaded.log = Some(store.fork(&parent, at, &id, &mut |entry| loaded.apply(entry))?);
    let unfinished = Unfinished::copy(&config.places().state, &id);
    let mut made = take_up(config, plan, (Copied { store, parent, loaded }, replaced), attended).await?;
    let name = name(&config.places().state, &id);
    if plan.changes.in_copy {
        let home = format!("works in a copy of the workspace; `agon apply {name}` brings its changes home");
        made.notes.insert(0, home);
    }
    made.unfinished = unfinished;
    Ok(made)
}

/// A new session in a copy of the configured workspace as it is now. It is the fork of one that only begins there, so it
/// comes home like every fork.
pub async fn open_copy(
    config: &Config,
    model: &ModelName,
    wanted: &Changes,
    attended: Attendance,
) -> Result<Prepared, WireError> {
    let begins = Changes { reads_only: true, squad: None, ..wanted.clone() };
    let begun = super::open(config, model, &begins, Attendance::Unattended).await?;
    let session = begun.id.clone();
    begun.record().await?;
    let plan = ForkPlan { session: session.clone(), changes: wanted.clone(), ..ForkPlan::default() };
    let made = fork(config, &plan, attended).await;
    if made.is_err() {
        let store = store(config);
        // The first error is the one to show.
        let _ = store.find(&session).and_then(|path| store.remove(&path));
    }
    made
}

/// Gives a fork a name that is easy to type: `fork-3`. One without a name is found by its id as well.
fn name(state: &Path, id: &str) -> String {
    let sessions = state.join("sessions");
    let names = std::fs::read_dir(&sessions).into_iter().flatten().flatten();
    let numbers = names
        .filter_map(|entry| session_status::name(&entry.path())?.strip_prefix("fork-")?.parse::<u64>().ok());
    let next = numbers.max().unwrap_or(0) + 1;
    let name = format!("fork-{next}");
    // The name is a help and no part of the fork.
    match session_status::rename(&sessions.join(id), &name) {
        Ok(()) => name,
        Err(_) => id.to_owned(),
    }
}

/// The folder of a fork's files.
pub(super) fn folder(state: &Path, id: &str) -> PathBuf {
    state.join("forks").join(id)
}

/// A copied log that no arena has taken up yet.
struct Copied {
    store: SessionStore,
    parent: SessionPath,
    loaded: Loaded,
}

async fn take_up(
    config: &Config,
    plan: &ForkPlan,
    (copied, replaced): (Copied, Option<Replaced>),
    attended: Attendance,
) -> Result<Prepared, WireError> {
    let (id, session) = (copied.loaded.id.clone(), copied.loaded.recorded.session());
    let spec = session.spec().cloned().ok_or_else(|| LogError::NeverOpened(copied.parent.id.clone()))?;
    let state = &config.places().state;
    let (origin, began_in) = taken_up::origin(state, &copied.parent);
    let kind = taken_up::kind(config, &plan.changes, &spec.workspace.sandbox)?;
    let mut notes = Vec::new();
    let root = plan.changes.root.clone().or(began_in);
    let root = root.ok_or_else(|| PathBuf::from(&spec.workspace.root));
    let parents = root.clone().ok();
    let (tree, lacks) = tree_at(config, &copied, session, root, &mut notes).await?;
    let folder = folder(state, &id);
    let objects = WorkspaceStore::open(config.workspace(), state).map_err(WireError::Workspace)?;
    objects.restore_into(&tree, &folder).await.map_err(WireError::Workspace)?;
    if let Some(parent) = parents {
        notes.extend(clone::repository(&parent, &folder, state).await);
    }
    let held = (plan.changes.rules.as_slice(), plan.changes.consent.clone());
    let mut place = Place::configured(config, kind, (&folder, &id), held).await?;
    let wanted = (&plan.changes, origin);
    let (changed, spec) = place.take_over(config, (&id, session), &spec, wanted).await?;
    place.notes.splice(0..0, notes);
    if origin == Origin::Own {
        ownership::mark(state, &id, &folder)?;
    }
    let forked = SessionForked {
        id,
        rules: RULES,
        parent: copied.parent.id,
        seq: session.next_seq().saturating_sub(1),
        head: copied.loaded.log.as_ref().map(|log| log.head().hash).unwrap_or_default(),
        workspace: spec.workspace.root.clone(),
        tree: Some(tree),
        changed,
        change: plan.in_words(),
        active_ms: copied.loaded.recorded.active_ms(),
        awaits: replaced.as_ref().and_then(|replaced| replaced.awaits),
        goes_on: plan.goes_on,
        foreign: origin == Origin::Foreign,
    };
    let lock = super::lock_for(config, &spec, &place.vault.specs())?;
    let connected = providers::connect(config, &spec.models, &copied.loaded.answered)?;
    let facts = vec![ArenaEvent::SessionForked(forked)];
    let made = copied.loaded.prepare(state, (place, lock), (connected, attended), (&spec, facts))?;
    Ok(made.copied(lacks, replaced.map(|replaced| replaced.fact)))
}

/// The workspace as it was at the fork: as recorded, or as recorded next when nothing was started in between
/// that could change it. Without any record it is what is there now: then nothing was ever changed. `root` is the
/// folder that may be read for that; an error is the folder that only the log names.
async fn tree_at(
    config: &Config,
    copied: &Copied,
    session: &Session,
    root: Result<PathBuf, PathBuf>,
    notes: &mut Vec<String>,
) -> Result<(String, Option<String>), WireError> {
    let known = session.tree().map(str::to_owned);
    let running: Vec<&str> = session.changing().collect();
    match known {
        Some(tree) if session.is_recorded() => return Ok((tree, None)),
        Some(tree) if !running.is_empty() => {
            let words =
                format!("`{}` ran at this entry; what it did is not in the copy", running.join("`, `"));
            return Ok((tree, Some(words)));
        }
        known => match (recorded_next(copied, session)?, known) {
            (Some(tree), _) => return Ok((tree, None)),
            (None, Some(tree)) => {
                let words =
                    "what was changed last before this entry was never recorded; it is not in the copy";
                return Ok((tree, session.has_touched().then(|| words.to_owned())));
            }
            (None, None) => {}
        },
    }
    let root = root.map_err(|root| WireError::ForeignRoot { id: copied.parent.id.clone(), root })?;
    if !root.is_dir() {
        return Err(WireError::WorkspaceGone(root));
    }
    if let Some(why) = config.wide(&root) {
        // What is recorded there is in the copy, where agents work.
        return Err(WireError::Wide { workspace: root, why });
    }
    // What a call of another session made that was cut off is no part of a copy.
    let journal = crash_journal::notes_of(&config.places().state);
    notes.extend(crash_journal::settle(&journal, &root).map_err(WireError::Workspace)?);
    let now = WorkspaceStore::open(&root, &config.places().state).map_err(WireError::Workspace)?;
    Ok((now.checkpoint().await.map_err(WireError::Workspace)?.tree, None))
}

/// The first tree the parent recorded after the fork, before it started anything that may change files.
fn recorded_next(copied: &Copied, session: &Session) -> Result<Option<String>, WireError> {
    let mut later = session.clone();
    let mut reader = copied.store.read(&copied.parent)?;
    // Damage after the fork is none of its business.
    while let Ok(Some(entry)) = reader.next_entry() {
        if entry.seq < session.next_seq() {
            continue;
        }
        match entry.fact() {
            Some(ArenaEvent::WorkspaceCheckpointed(data)) if !entry.is_void() => {
                return Ok(Some(data.body.tree.clone()));
            }
            // From here on it is another folder.
            Some(ArenaEvent::SessionForked(_)) => return Ok(None),
            _ => {}
        }
        if later.apply(&Arc::new(entry)).is_err() || later.changing().next().is_some() {
            return Ok(None);
        }
    }
    Ok(None)
}

fn last_entry(store: &SessionStore, parent: &SessionPath) -> Result<u64, WireError> {
    let mut reader = store.read(parent)?;
    while reader.next_line()?.is_some() {}
    Ok(reader.ending().count.saturating_sub(1))
}

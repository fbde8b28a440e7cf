//! Makes a fork: the copied log, a workspace made from the tree of that moment, the fact that says so.

use std::path::Path;
use std::sync::Arc;

use crate::arena::{Arena, replay};
use crate::config::Config;
use crate::eventlog::{SessionLog, SessionPath, SessionStore};
use crate::ports::{EventLog, Workspace};
use crate::protocol::event::SessionForked;
use crate::protocol::{ArenaEvent, Entry, RULES};
use crate::session::Session;
use crate::wiring::{Changes, Place, Running, WireError, changes, kind_of, providers, store};
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
}

/// Copies, restores, records. When that fails nothing is left of the fork.
pub(super) async fn fork(config: &Config, plan: &ForkPlan, attended: bool) -> Result<Running, WireError> {
    let store = store(config);
    let parent = store.find(&plan.session)?;
    let at = match plan.at {
        Some(at) => at,
        None => last_entry(&store, &parent)?,
    };
    let id = uuid::Uuid::now_v7().to_string();
    let mut recorded = Vec::new();
    let log = store.fork(&parent, at, &id, &mut |entry| recorded.push(Arc::new(entry)))?;
    let running =
        take_up(config, plan, Copied { store: &store, parent, id: &id, recorded, log }, attended).await;
    if running.is_err() {
        // The first error is the one to tell; a copy that cannot be removed is only a stray session.
        let _ = store.find(&id).and_then(|path| store.remove(&path));
    }
    running
}

/// A copied log that no arena has taken up yet.
struct Copied<'a> {
    store: &'a SessionStore,
    parent: SessionPath,
    id: &'a str,
    recorded: Vec<Arc<Entry>>,
    log: SessionLog,
}

async fn take_up(
    config: &Config,
    plan: &ForkPlan,
    copied: Copied<'_>,
    attended: bool,
) -> Result<Running, WireError> {
    let session = Session::fold(&copied.recorded).map_err(crate::arena::ArenaError::from)?;
    let spec = session.spec().cloned().ok_or_else(|| WireError::NeverOpened(copied.parent.id.clone()))?;
    let kind = plan.changes.sandbox.unwrap_or_else(|| kind_of(&spec.workspace.sandbox));
    let tree = match session.tree() {
        Some(tree) => tree.to_owned(),
        None => tree_before_changes(config, &copied, Path::new(&spec.workspace.root)).await?,
    };
    let folder = config.places().state.join("forks").join(copied.id);
    let objects =
        WorkspaceStore::open(config.workspace(), &config.places().state).map_err(WireError::Workspace)?;
    objects.restore_into(&tree, &folder).await.map_err(WireError::Workspace)?;
    let place = Place::configured(config, kind, &folder)?;
    let (changed, spec) = changes(config, spec, place.workspace_spec(), &plan.changes)?;
    let active_ms = replay::active_ms(&copied.recorded);
    let Copied { parent, id, recorded, log, .. } = copied;
    let forked = SessionForked {
        id: id.to_owned(),
        rules: RULES,
        parent: parent.id,
        seq: recorded.last().map_or(0, |entry| entry.seq),
        head: log.head().hash,
        workspace: spec.workspace.root.clone(),
        tree: Some(tree),
        changed,
        change: plan.changes.in_words(),
        active_ms,
    };
    let lock = super::lock_for(config, &spec)?;
    let connected = providers::connect(config, &spec.models, &recorded)?;
    let ports = place.ports(log, connected, attended);
    let arena = Arena::take_up(&recorded, vec![ArenaEvent::SessionForked(forked)], active_ms, ports).await?;
    // Open approvals are withdrawn by the fork and asked again as new calls, so none is open yet.
    let has_open_turn = session.has_open_turn();
    Ok(Running {
        arena,
        id: id.to_owned(),
        recorded,
        asks: Vec::new(),
        has_open_turn,
        sandbox: spec.workspace.sandbox,
        lock,
    })
}

/// The workspace as it was when nothing had been changed yet: the first tree recorded after this entry,
/// which is taken before the first change, or what is there now when nothing was ever changed.
async fn tree_before_changes(config: &Config, copied: &Copied<'_>, root: &Path) -> Result<String, WireError> {
    let mut reader = copied.store.read(&copied.parent)?;
    while let Some(entry) = reader.next_entry()? {
        if let (true, Some(ArenaEvent::WorkspaceCheckpointed(data))) =
            (entry.seq >= copied.recorded.len() as u64, entry.fact())
        {
            return Ok(data.body.tree.clone());
        }
    }
    if !root.is_dir() {
        return Err(WireError::WorkspaceGone(root.to_owned()));
    }
    let now = WorkspaceStore::open(root, &config.places().state).map_err(WireError::Workspace)?;
    Ok(now.checkpoint().await.map_err(WireError::Workspace)?.tree)
}

fn last_entry(store: &SessionStore, parent: &SessionPath) -> Result<u64, WireError> {
    let mut reader = store.read(parent)?;
    while reader.next_line()?.is_some() {}
    Ok(reader.ending().count.saturating_sub(1))
}

//! Makes a fork: the copied log, a workspace made from the tree of that moment, the fact that says so.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::arena::{Arena, replay};
use crate::config::{Config, ModelName};
use crate::eventlog::{SessionPath, SessionStore};
use crate::ports::{EventLog, Workspace};
use crate::protocol::event::SessionForked;
use crate::protocol::spec::{Setting, Spec};
use crate::protocol::{ArenaEvent, Entry, RULES};
use crate::session::Session;
use crate::wiring::{Place, Running, WireError, kind_of, providers, spec, store};
use crate::workspace::WorkspaceStore;

/// What is forked, where, and what is changed.
#[derive(Clone, Debug, Default)]
pub struct ForkPlan {
    /// The session, as named by the person.
    pub session: String,
    /// The last entry that is copied; the last of the log when absent.
    pub at: Option<u64>,
    /// Another default model from here on.
    pub model: Option<ModelName>,
    /// Another persona from here on.
    pub persona: Option<String>,
}

/// Copies, restores, records.
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
    let made = prepare(config, plan, &store, &parent, &recorded, &id).await;
    let (place, fact, asks) = match made {
        Ok(made) => made,
        Err(error) => {
            // Half a fork helps nobody: the copy goes away again, and the first error is what is told.
            drop(log);
            let _ = store.find(&id).and_then(|path| store.remove(&path));
            return Err(error);
        }
    };
    let (spec, session) = fact.spec;
    let connected = providers::connect(config, &spec.models, &recorded)?;
    let mut forked = fact.forked;
    forked.head = log.head().hash;
    let sandbox = spec.workspace.sandbox.clone();
    let active_ms = forked.active_ms;
    let ports = place.ports(log, connected, attended);
    let arena = Arena::take_up(&recorded, vec![ArenaEvent::SessionForked(forked)], active_ms, ports).await?;
    Ok(Running { arena, id, recorded, asks, has_open_turn: session, sandbox })
}

/// The fact of a fork before its head is known, the spec it leads to, and whether a turn is open.
struct Made {
    forked: SessionForked,
    spec: (Spec, bool),
}

type Prepared = (Place, Made, Vec<(crate::protocol::CallId, String)>);

async fn prepare(
    config: &Config,
    plan: &ForkPlan,
    store: &SessionStore,
    parent: &SessionPath,
    recorded: &[Arc<Entry>],
    id: &str,
) -> Result<Prepared, WireError> {
    let session = Session::fold(recorded).map_err(crate::arena::ArenaError::from)?;
    let mut spec = session.spec().cloned().ok_or_else(|| WireError::NeverOpened(parent.id.clone()))?;
    let kind = kind_of(&spec.workspace.sandbox);
    let root = PathBuf::from(&spec.workspace.root);
    let tree = match session.tree() {
        Some(tree) => tree.to_owned(),
        None => tree_before_changes(config, store, parent, recorded, &root).await?,
    };
    let folder = config.places().state.join("forks").join(id);
    let workspaces =
        WorkspaceStore::open(config.workspace(), &config.places().state).map_err(WireError::Workspace)?;
    workspaces.restore_into(&tree, &folder).await.map_err(WireError::Workspace)?;
    let place = Place::open(config, kind, &folder)?;
    spec.workspace = place.workspace_spec();
    let mut changed = vec![Setting::Workspace(spec.workspace.clone())];
    let mut words = Vec::new();
    if let Some(name) = &plan.model {
        let model = spec::model(config, name)?;
        words.push(format!("model {name}"));
        spec.models.retain(|known| known.name != model.name);
        spec.models.insert(0, model.clone());
        changed.push(Setting::Model { spec: model, default: true });
    }
    if let Some(persona) = &plan.persona {
        words.push(format!("persona {persona}"));
        changed.push(Setting::Persona { spec: spec::named_persona(config, persona)?, default: true });
    }
    spec::check(&spec)?;
    let forked = SessionForked {
        id: id.to_owned(),
        rules: RULES,
        parent: parent.id.clone(),
        seq: recorded.last().map_or(0, |entry| entry.seq),
        head: String::new(),
        workspace: spec.workspace.root.clone(),
        tree: Some(tree),
        changed,
        change: (!words.is_empty()).then(|| words.join(", ")),
        active_ms: replay::active_ms(recorded),
    };
    // Open approvals are withdrawn by the fork and asked again as new calls.
    Ok((place, Made { forked, spec: (spec, session.has_open_turn()) }, Vec::new()))
}

/// The workspace as it was when nothing had been changed yet: the first tree recorded after this entry,
/// which is taken before the first change, or what is there now when nothing was ever changed.
async fn tree_before_changes(
    config: &Config,
    store: &SessionStore,
    parent: &SessionPath,
    recorded: &[Arc<Entry>],
    root: &Path,
) -> Result<String, WireError> {
    let mut reader = store.read(parent)?;
    while let Some(entry) = reader.next_entry()? {
        if let (true, Some(ArenaEvent::WorkspaceCheckpointed(data))) =
            (entry.seq >= recorded.len() as u64, entry.fact())
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

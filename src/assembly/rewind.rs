//! Records in the log of a session that no process has open that turns are taken back: no arena is started, no model, tool
//! or sandbox needed.

use std::path::Path;
use std::sync::Arc;

use super::{LogError, SystemClock, WireError, load};
use crate::arena::PROGRAM;
use crate::eventlog::SessionStore;
use crate::ports::{AppendError, Clock, EventLog, PathChange, Workspace};
use crate::protocol::effect::{Bare, Order};
use crate::protocol::event::{Answered, FaultRecovered, InterruptRequested, SessionResumed};
use crate::protocol::{ArenaEvent, Entry, Fact, Input, RULES};
use crate::sandbox::{self, crash_journal};
use crate::session::Session;
use crate::session::convergence::Scorers;
pub use crate::workspace::{MergePlan, UndoPlan, WorkspaceStore};

/// A session's log, open for writing.
pub struct ClosedSession {
    session: Session,
    log: Box<dyn EventLog>,
    recovered: Option<FaultRecovered>,
    active_ms: u64,
}

impl ClosedSession {
    /// Opens the log of a session and hands each of its entries to `take`. Refused while another process has it.
    pub fn open(state: &Path, name: &str, take: &mut dyn FnMut(&Entry)) -> Result<Self, WireError> {
        let (_, recovered, loaded) = load(SessionStore::new(state), name, take)?;
        let active_ms = loaded.recorded.active_ms();
        let log = loaded.log.ok_or_else(|| LogError::NeverOpened(loaded.id.clone()))?;
        let session = loaded.recorded.into_session(&Scorers::default())?;
        Ok(ClosedSession { session, log: Box::new(log), recovered, active_ms })
    }

    /// Ends the turn that a process left open: what ran then is lost, and nothing of it is run again.
    pub async fn end_turn(&mut self, workspace: &WorkspaceStore) -> Result<(), WireError> {
        let mut facts: Vec<ArenaEvent> =
            self.recovered.take().map(ArenaEvent::FaultRecovered).into_iter().collect();
        if self.session.has_open_turn() {
            facts.push(ArenaEvent::InterruptRequested(InterruptRequested { spark: None, call: None }));
            facts.push(ArenaEvent::SessionResumed(SessionResumed {
                rules: RULES,
                program: PROGRAM.to_owned(),
                changed: Vec::new(),
                active_ms: self.active_ms,
                foreign: false,
            }));
        }
        self.record(facts).await?;
        let recording = self
            .session
            .outstanding()
            .into_iter()
            .find(|one| matches!(self.session.order_of(one.call), Some(Order::Checkpoint(Bare))));
        if let Some(call) = recording {
            let body = workspace.checkpoint().await.map_err(WireError::Workspace)?;
            let answered = Answered { call: call.call, attempt: call.attempt, body };
            self.record(vec![ArenaEvent::WorkspaceCheckpointed(answered)]).await?;
        }
        match self.session.has_open_turn() {
            true => Err(WireError::Undo {
                why: "its last turn cannot be ended here".to_owned(),
                hint: Some(format!("resume it, then interrupt it: agon resume {}", self.session.id())),
            }),
            false => Ok(()),
        }
    }

    /// Writes facts down. A fact that the session refuses is an error, and not written.
    pub async fn record(&mut self, facts: Vec<ArenaEvent>) -> Result<(), WireError> {
        let mut entries = Vec::new();
        let mut session = self.session.clone();
        for event in facts {
            let fact = Fact::new(event)
                .map_err(|event| WireError::Internal(format!("`{}` is no fact", event.kind())))?;
            let entry = session.handle(Input { at: SystemClock.now(), fact });
            if let (true, Some(ArenaEvent::InputRefused(refused))) = (entry.is_void(), entry.events.get(1)) {
                return Err(WireError::Undo { why: refused.reason.clone(), hint: None });
            }
            entries.push(Arc::clone(&entry));
        }
        if !entries.is_empty() {
            self.log.append(entries).await.map_err(|error: AppendError| WireError::Arena(error.into()))?;
        }
        self.session = session;
        Ok(())
    }
}

/// Applies changes to a workspace; gives each path that is not as it should be, and why.
pub async fn put_back(
    store: &WorkspaceStore,
    root: &Path,
    changes: Vec<PathChange>,
) -> Result<Vec<(String, String)>, WireError> {
    use crate::ports::FileError;
    let (store, root) = (store.clone(), root.to_owned());
    let work = move || {
        let failed = sandbox::put_back(&root, &changes, &mut |sha256| store.recorded(sha256))?;
        let words = |error| match error {
            FileError::Changed(_) => "it was changed meanwhile".to_owned(),
            FileError::Io { error, .. } => error,
            other => other.to_string(),
        };
        Ok(failed.into_iter().map(|(path, error)| (path, words(error))).collect())
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| WireError::Internal(error.to_string()))?.map_err(WireError::Workspace)
}

/// Records a workspace; gives its tree.
pub async fn record(store: &WorkspaceStore) -> Result<String, WireError> {
    Ok(store.checkpoint().await.map_err(WireError::Workspace)?.tree)
}

/// Opens a workspace to be recorded, once what a killed call left in it is settled.
pub fn workspace(state: &Path, root: &Path) -> Result<WorkspaceStore, WireError> {
    if !root.is_dir() {
        return Err(WireError::WorkspaceGone(root.to_owned()));
    }
    crash_journal::settle(&crash_journal::notes_of(state), root).map_err(WireError::Workspace)?;
    WorkspaceStore::open(root, state).map_err(WireError::Workspace)
}

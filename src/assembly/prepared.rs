//! The one way to an arena: a session's record, its workspace, settings, providers and lock, put together and started.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::place::Place;
use super::providers::{AnsweredCounts, Connected};
use super::{Running, WireError, WorkspaceLock, fork, ownership};
use crate::arena::{Arena, ArenaPorts, Attendance, Recorded};
use crate::eventlog::{LogError, SessionLog, SessionStore};
use crate::ports::SignalBus;
use crate::projection::Board;
use crate::protocol::event::QuestionAnswered;
use crate::protocol::spec::{SandboxSpec, Spec};
use crate::protocol::{ArenaEvent, Entry};

/// What is known of a session before this process works on it: nothing of a new one.
pub(super) struct Loaded {
    pub id: String,
    /// None of a new session: its log is made last, so that a session that cannot begin leaves nothing.
    pub log: Option<SessionLog>,
    pub recorded: Recorded,
    pub answered: AnsweredCounts,
    board: Board,
}

impl Loaded {
    /// A session with an id and no entry.
    pub fn named(id: String) -> Self {
        let (recorded, answered, board) = (Recorded::default(), AnsweredCounts::default(), Board::default());
        Loaded { id, log: None, recorded, answered, board }
    }

    /// A new session.
    pub fn new() -> Self {
        Loaded::named(uuid::Uuid::now_v7().to_string())
    }

    /// Takes the next recorded entry.
    pub fn apply(&mut self, entry: Entry) {
        self.answered.apply(&entry);
        self.board.apply(&entry);
        self.recorded.apply(&Arc::new(entry));
    }

    /// The settings it was last held to.
    pub fn spec(&self) -> Result<Spec, WireError> {
        let spec = self.recorded.session().spec().cloned();
        Ok(spec.ok_or_else(|| LogError::NeverOpened(self.id.clone()))?)
    }

    /// The fact that a person answers the question the session asks; none where it asks nothing.
    pub fn answered_with(&self, (text, by): (String, String)) -> Option<ArenaEvent> {
        let open = self.board.questions().next()?;
        let (call, text) = (open.call, open.asked.answer(&text).to_owned());
        Some(ArenaEvent::QuestionAnswered(QuestionAnswered { call, text, by }))
    }

    /// The last steps, alike for every session: the log of a new one, and everything the arena needs.
    pub fn prepare(
        self,
        state: &Path,
        (mut place, lock): (Place, Option<WorkspaceLock>),
        (connected, attended): (Connected, Attendance),
        (spec, facts): (&Spec, Vec<ArenaEvent>),
    ) -> Result<Prepared, WireError> {
        let log = match self.log {
            Some(log) => log,
            None => {
                let log = SessionStore::new(state).create(&self.id)?;
                ownership::mark(state, &self.id, &place.root)?;
                log
            }
        };
        let session = self.recorded.session();
        Ok(Prepared {
            recorded: session.next_seq(),
            has_open_turn: session.has_open_turn(),
            sandbox: spec.workspace.sandbox.clone(),
            workspace: place.root.clone(),
            notes: std::mem::take(&mut place.notes),
            lacks: None,
            board: self.board,
            id: self.id,
            loaded: self.recorded,
            ports: place.ports(log, connected, attended),
            state: state.to_owned(),
            facts,
            lock,
            unfinished: Unfinished::default(),
        })
    }
}

/// A session that only has to be started. Nothing of it is recorded yet, but for the copied entries of a fork.
pub struct Prepared {
    /// The session's id.
    pub id: String,
    /// Entries that were recorded before; none of a new session.
    pub recorded: u64,
    /// True when a turn is open and goes on by itself.
    pub has_open_turn: bool,
    /// What confines the tools.
    pub sandbox: SandboxSpec,
    /// The folder it works in.
    pub workspace: PathBuf,
    /// What people have to know of how it was opened.
    pub notes: Vec<String>,
    /// What the files of a copy lack of what the session had at that entry, for people.
    pub lacks: Option<String>,
    /// How the session was left.
    pub board: Board,
    /// Keeps other processes that write out of the workspace; none when nothing here can write.
    pub lock: Option<WorkspaceLock>,
    /// The state folder.
    pub state: PathBuf,
    loaded: Recorded,
    facts: Vec<ArenaEvent>,
    ports: ArenaPorts,
    /// A fork that is neither started nor recorded is removed again, its log closed before.
    pub(super) unfinished: Unfinished,
}

impl Prepared {
    /// The same as a copy of another session.
    pub(super) fn copied(mut self, lacks: Option<String>, replaced: Option<ArenaEvent>) -> Self {
        // A prompt that is given again opens its turn.
        self.has_open_turn |= replaced.is_some();
        self.facts.extend(replaced);
        Prepared { lacks, ..self }
    }

    /// The same with ports of the caller's.
    pub(super) fn with_ports(mut self, change: impl FnOnce(ArenaPorts) -> ArenaPorts) -> Self {
        self.ports = change(self.ports);
        self
    }

    /// Puts something between the arena and its bus.
    pub fn listen(&mut self, between: impl FnOnce(Arc<dyn SignalBus>) -> Arc<dyn SignalBus>) {
        self.ports.bus = between(Arc::clone(&self.ports.bus));
    }

    /// Starts it.
    pub async fn start(mut self) -> Result<Running, WireError> {
        let arena = Arena::take_up(self.loaded, self.facts, self.ports).await?;
        self.unfinished.0 = None;
        Ok(Running {
            arena,
            id: self.id,
            recorded: self.recorded,
            has_open_turn: self.has_open_turn,
            sandbox: self.sandbox,
            lock: self.lock,
            workspace: self.workspace,
            notes: self.notes,
        })
    }

    /// Only records that it was made: nothing is asked, run or sent.
    pub async fn record(mut self) -> Result<(), WireError> {
        Arena::record(self.loaded, self.facts, &self.ports).await?;
        self.unfinished.0 = None;
        Ok(())
    }
}

/// A copy that is removed unless it is finished, also when nothing waits for it any more; none of another session.
#[derive(Default)]
pub(super) struct Unfinished(Option<(PathBuf, String)>);

impl Unfinished {
    pub fn copy(state: &Path, id: &str) -> Self {
        Unfinished(Some((state.to_owned(), id.to_owned())))
    }
}

impl Drop for Unfinished {
    /// The first error is the one to tell; a copy that cannot be removed is only a stray session.
    fn drop(&mut self) {
        let Some((state, id)) = &self.0 else { return };
        let store = SessionStore::new(state);
        let _ = store.find(id).and_then(|path| store.remove(&path));
        let folder = fork::folder(state, id);
        remove(&folder);
        remove(&folder.with_extension("git-clone"));
    }
}

/// Removes a folder. What was killed a moment ago may still write in it.
pub(super) fn remove(folder: &Path) {
    for _ in 0..50 {
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
                std::thread::sleep(Duration::from_millis(10));
            }
            _ => return,
        }
    }
}

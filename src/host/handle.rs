//! An open session in the hands of a front end: commands in, entries out.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::session_state::{Pending, SessionState};
use super::{Answers, OpenSessions, Updates};
use crate::arena::{Arena, Ending, SubmitError};
use crate::assembly::{self, Changes, Prepared, WireError};
use crate::config::Config;
use crate::ports::Head;
use crate::projection::Board;
use crate::projection::board::OpenApproval;
use crate::protocol::spec::{Mode, PermissionLevel, SandboxSpec, Setting, Spec};
use crate::protocol::{ArenaEvent, CallId, Command, Entry, SparkId, StopCause};

/// How long a session that is left may take to end what it runs.
const PARTING: Duration = Duration::from_secs(8);

/// The most a prompt may hold as JSON, so that its entry fits into a line of the log.
const MAX_PROMPT: usize = 700 * 1024;

/// The command that gives a task, refused when its entry could not be a line of the log.
pub fn task(text: String, mode: Mode, schema: Option<serde_json::Value>) -> Result<Command, WireError> {
    let command = Command::Prompt { text, mode, schema };
    let bytes = serde_json::to_string(&command).map_or(usize::MAX, |text| text.len());
    match bytes > MAX_PROMPT {
        true => Err(WireError::LongPrompt { bytes, max: MAX_PROMPT }),
        false => Ok(command),
    }
}

/// The level among settings.
fn level_in(settings: &[Setting]) -> Option<PermissionLevel> {
    settings.iter().rev().find_map(|setting| match setting {
        Setting::Permission(level) => Some(*level),
        _ => None,
    })
}

/// Why a command came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Another front end, or an earlier process, was first.
    #[error("{0} is already answered")]
    AlreadyAnswered(CallId),
    /// The session refused it, or it has ended.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The settings it needs, or its workspace, cannot be had.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// An open session. Clones are handles on the same one; any of them may be used from any task.
#[derive(Clone)]
pub struct Handle(Arc<OpenSession>);

pub(super) struct OpenSession {
    pub arena: Arena,
    pub state: Arc<SessionState>,
    pub answers: Answers,
    /// Front ends that listen.
    pub listening: AtomicUsize,
    recorded: u64,
    notes: Vec<String>,
    sandbox: SandboxSpec,
    workspace: std::path::PathBuf,
    host: Weak<OpenSessions>,
}

impl Handle {
    pub(super) async fn start(
        mut prepared: Prepared,
        answers: Answers,
        host: Weak<OpenSessions>,
    ) -> Result<Self, WireError> {
        let board = std::mem::take(&mut prepared.board);
        let lock = (prepared.lock.take(), prepared.state.clone(), prepared.workspace.clone());
        let mut state = None;
        prepared.listen(|bus| {
            let between = Arc::new(SessionState::new(bus, board, lock));
            state = Some(Arc::clone(&between));
            between
        });
        let running = prepared.start().await?;
        let state = state.ok_or_else(|| WireError::Internal("no bus was asked for".to_owned()))?;
        Ok(Handle(Arc::new(OpenSession {
            arena: running.arena,
            state,
            answers,
            listening: AtomicUsize::new(0),
            recorded: running.recorded,
            notes: running.notes,
            sandbox: running.sandbox,
            workspace: running.workspace,
            host,
        })))
    }

    pub(super) fn inner(&self) -> &OpenSession {
        &self.0
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        self.0.arena.id()
    }

    /// Entries that were recorded before this process; none of a new session.
    pub fn recorded(&self) -> u64 {
        self.0.recorded
    }

    /// True while a turn is open.
    pub fn has_open_turn(&self) -> bool {
        self.0.state.look(Board::has_open_turn)
    }

    /// What people have to know of how it was opened.
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }

    /// What confines the tools, as it was opened.
    pub fn sandbox(&self) -> &SandboxSpec {
        &self.0.sandbox
    }

    /// The folder it works in.
    pub fn workspace(&self) -> &Path {
        &self.0.workspace
    }

    /// The settings in force; none once the session has ended.
    pub async fn spec(&self) -> Option<Spec> {
        self.0.arena.spec().await
    }

    /// Hands a command in; gives the entry that took it, once that is on disk. A task keeps others who write out of the
    /// workspace until its turn is over. Of several answers to an approval the first valid one counts.
    pub async fn command(&self, command: Command) -> Result<u64, CommandError> {
        let _held = match &command {
            Command::Prompt { .. } => Some(self.0.state.hold(None)?),
            Command::Set { settings } => self.held_for(level_in(settings))?,
            _ => None,
        };
        let answers = match &command {
            Command::Answer { call, .. } | Command::Reply { call, .. } => Some(*call),
            _ => None,
        };
        if let Some(call) = answers.filter(|call| self.is_answered(*call)) {
            return Err(CommandError::AlreadyAnswered(call));
        }
        match self.0.arena.submit(command).await {
            Err(SubmitError::Refused(why)) => Err(match answers.filter(|call| self.is_answered(*call)) {
                Some(call) => CommandError::AlreadyAnswered(call),
                None => SubmitError::Refused(why).into(),
            }),
            done => Ok(done?),
        }
    }

    /// Keeps others who write out of the workspace until the returned value is dropped.
    pub(super) fn hold(&self) -> Result<Pending<'_>, WireError> {
        // What is taken back is written, whatever the level.
        self.0.state.hold(Some(PermissionLevel::Ask))
    }

    /// Changes settings as far as they differ, then gives a task.
    pub async fn prompt(
        &self,
        config: &Config,
        wanted: &Changes,
        task: Command,
    ) -> Result<u64, CommandError> {
        let _held = self.0.state.hold(wanted.permission)?;
        assembly::change(config, &self.0.arena, wanted, true).await?;
        self.command(task).await
    }

    /// Changes settings from the next call on; gives how many.
    pub async fn change(&self, config: &Config, wanted: &Changes) -> Result<usize, WireError> {
        let _held = self.held_for(wanted.permission)?;
        assembly::change(config, &self.0.arena, wanted, !self.has_open_turn()).await
    }

    /// A turn whose level is raised from `plan` may write from there on.
    fn held_for(&self, level: Option<PermissionLevel>) -> Result<Option<Pending<'_>>, WireError> {
        let level = level.filter(|_| self.has_open_turn());
        level.map(|level| self.0.state.hold(Some(level))).transpose()
    }

    /// Ends what runs in the background; gives the command lines.
    pub(super) async fn stop_background(&self) -> Result<Vec<String>, CommandError> {
        let running = |board: &Board| -> Vec<(CallId, String)> {
            board.background().map(|(call, order)| (call, order.command.clone())).collect()
        };
        let all = self.0.state.look(running);
        for (call, _) in &all {
            match self.command(Command::StopBackground { call: *call }).await {
                // It ended meanwhile.
                Ok(_) | Err(CommandError::Submit(SubmitError::Refused(_))) => {}
                Err(error) => return Err(error),
            }
        }
        // A call that is told to stop ends within its grace.
        while !self.0.state.look(running).is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(all.into_iter().map(|(_, command)| command).collect())
    }

    /// The approvals that wait for an answer, the oldest first.
    pub fn asks(&self) -> Vec<OpenApproval> {
        self.0.state.look(|board| board.approvals.clone())
    }

    /// What a person's words do while a turn is open: they are said to a spark, or answer the oldest question, else they
    /// are said to the agent.
    pub fn said(&self, text: String, to: Option<SparkId>, by: &str) -> Command {
        self.0.state.look(|board| match board.questions().next().filter(|_| to.is_none()) {
            Some(open) => Command::Reply {
                call: open.call,
                text: open.asked.answer(&text).to_owned(),
                by: by.to_owned(),
            },
            None => Command::Steer { spark: to, text },
        })
    }

    /// True for an approval or a question that was answered and is asked no longer.
    fn is_answered(&self, call: CallId) -> bool {
        let asks = |board: &Board| {
            board.approvals.iter().any(|ask| ask.call == call)
                || board.questions().any(|open| open.call == call)
        };
        if self.0.state.look(asks) {
            return false;
        }
        let answers = |event: &ArenaEvent| match event {
            ArenaEvent::ApprovalAnswered(data) => data.call == call,
            ArenaEvent::QuestionAnswered(data) => data.call == call,
            _ => false,
        };
        let mut found = false;
        let read = self.visit(0..u64::MAX, &mut |entry| {
            found = entry.effective().any(|(_, event)| answers(event));
            !found
        });
        found && read.is_ok()
    }

    /// Listens from an entry on; entries that are recorded come first.
    pub fn subscribe(&self, from: u64) -> Updates {
        Updates::of(self.clone(), from)
    }

    /// The recorded entries of these positions.
    pub fn read(&self, range: Range<u64>) -> io::Result<Vec<Arc<Entry>>> {
        let mut entries = Vec::new();
        self.visit(range, &mut |entry| {
            entries.push(Arc::new(entry));
            true
        })?;
        Ok(entries)
    }

    /// Shows `take` the recorded entries of these positions until it says false.
    pub fn visit(&self, range: Range<u64>, take: &mut dyn FnMut(Entry) -> bool) -> io::Result<()> {
        let (mut at, mut bad) = (range.start, None);
        if range.is_empty() {
            return Ok(());
        }
        self.lines(range.start, &mut |line| {
            at += 1;
            match Entry::read(line) {
                Ok(entry) => take(entry) && at < range.end,
                Err(error) => {
                    bad = Some(error);
                    false
                }
            }
        })?;
        bad.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Shows `take` the lines of the log from an entry on, byte for byte, until it says false.
    pub fn lines(&self, from: u64, take: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<()> {
        self.0.arena.log().visit(from, take)
    }

    /// Where the log ends.
    pub fn head(&self) -> Head {
        self.0.arena.log().head()
    }

    /// Waits for the end: sealed, paused, failed or cut off.
    pub async fn ended(&self) -> Ending {
        let ending = self.0.arena.ended().await;
        self.forget();
        ending
    }

    /// Goes away. While another front end listens nothing else happens, and open approvals stay open. After the last
    /// one the session ends here: finished between two turns, else stopped. Returns once what ran has let go.
    pub async fn leave(&self) {
        if self.0.listening.load(Ordering::Acquire) > 0 {
            return;
        }
        let cause = if self.has_open_turn() { StopCause::Quit } else { StopCause::Finished };
        // A session that ended meanwhile needs no stop.
        let _ = self.0.arena.submit(Command::Stop { cause }).await;
        if tokio::time::timeout(PARTING, self.0.arena.ended()).await.is_err() {
            self.0.arena.stop_hard().await;
        }
        self.forget();
    }

    /// Ends the session here with its turn and its approvals left open, which is recorded. It can be resumed.
    pub async fn pause(&self) {
        self.0.arena.leave().await;
        self.forget();
    }

    /// The same at once, without a word in the log.
    pub async fn cut_off(&self) {
        self.0.arena.stop_hard().await;
        self.forget();
    }

    /// Nothing runs here any more.
    fn forget(&self) {
        self.0.state.end();
        if let Some(open) = self.0.host.upgrade() {
            let is_this = |handle: &mut Handle| Arc::ptr_eq(&handle.0, &self.0);
            let gone = open.with(|open| match open.get_mut(self.id()).is_some_and(is_this) {
                true => open.remove(self.id()),
                false => None,
            });
            // Dropped outside of the lock.
            drop(gone);
        }
    }
}

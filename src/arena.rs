//! The runtime of one session: drives the pure session and carries out its effects; names no adapter.

mod driver;
mod executor;
mod live;
mod local_workers;
mod provider_pool;
mod recorded;
pub mod redact;
pub mod replay;
mod role_sandboxes;
mod size_limits;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ports::{
    AppendError, Checks, Clock, EventLog, Learnings, Provider, Sandbox, SignalBus, Subscription, TeamCache,
    Workers, Workspace,
};
use crate::protocol::event::{ArenaEvent, PauseCause, SessionOpened, SessionPaused, TurnClosed};
use crate::protocol::spec::Spec;
use crate::protocol::{CallKind, Command, Fact, Input, RULES};
use crate::session::convergence::Scorers;
use crate::session::{OutOfOrder, Session};
use crate::toolvault::ToolVault;

pub use recorded::Recorded;
use redact::Redactor;
pub use redact::unfit as unfit_to_hide;
pub use role_sandboxes::RoleSandboxes;

/// Messages a driver's inbox holds before executors wait.
const INBOX: usize = 1024;

/// Name and version of this program, as logs record it.
pub const PROGRAM: &str = concat!("agon ", env!("CARGO_PKG_VERSION"));

/// Everything an arena touches the world through.
#[derive(Clone)]
pub struct ArenaPorts {
    /// The session's durable log, empty for a new session.
    pub log: Arc<dyn EventLog>,
    /// Where news goes.
    pub bus: Arc<dyn SignalBus>,
    /// The tools.
    pub vault: Arc<ToolVault>,
    /// Where tools touch files and run commands.
    pub sandbox: Arc<dyn Sandbox>,
    /// The same for roles of a squad that have a place of their own.
    pub places: Arc<RoleSandboxes>,
    /// What runs a blueprint's checks.
    pub checks: Arc<dyn Checks>,
    /// What records the workspace.
    pub workspace: Arc<dyn Workspace>,
    /// Recorded runs of squads; none when it is off.
    pub cache: Option<Arc<dyn TeamCache>>,
    /// Providers by the name before a model's first slash.
    pub providers: BTreeMap<String, Arc<dyn Provider>>,
    /// Calls that may be under way at one provider at once; absent means 16.
    pub provider_limits: BTreeMap<String, usize>,
    /// Where it is kept what models refuse; nowhere when absent.
    pub learnings: Option<Arc<dyn Learnings>>,
    /// Who carries out these kinds of work in place of the arena's own workers.
    pub workers: BTreeMap<CallKind, Arc<dyn Workers>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// How debates are scored: the built-in scorers and those a program registers.
    pub scorers: Scorers,
    /// Secrets that must not reach log, screen or stream: name and value.
    pub secrets: Vec<(String, String)>,
    /// Who can answer an approval. One that stays open where none can pauses the session.
    pub attended: Attendance,
}

/// Who can answer approvals while a session runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attendance {
    /// No person, and nothing answers for one.
    #[default]
    Unattended,
    /// No person; what stays in the sandbox is answered with yes.
    SaysYes,
    /// People at a front end.
    Attended,
}

/// Why an arena cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// The log would not take the first entry.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The recorded entries do not follow one another.
    #[error(transparent)]
    OutOfOrder(#[from] OutOfOrder),
    /// Secrets could not be kept out of log and screen.
    #[error("secrets cannot be looked for: {0}")]
    Redaction(String),
    /// The session refused to be opened so.
    #[error("the session cannot be opened: {0}")]
    Refused(String),
    /// The log is from a newer program.
    #[error(
        "entry {0} was written by a newer agon: unknown {1}; this one can show the session, not continue it"
    )]
    Newer(u64, String),
    /// A debate of the log names a scorer that is not among the ports.
    #[error("entry {0} holds a debate scored by `{1}`, which is no scorer of this program")]
    NoScorer(u64, String),
}

/// Why a command was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The session said no; it is in the log too.
    #[error("{0}")]
    Refused(String),
    /// The log would not take it: it is not recorded, and nothing came of it.
    #[error(transparent)]
    Log(#[from] AppendError),
    /// The arena has ended.
    #[error("the session has ended")]
    Ended,
}

/// How an arena ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The session was sealed; how its last turn ended.
    Sealed(Option<TurnClosed>),
    /// An approval is open that nobody can answer. It can be resumed.
    Paused,
    /// The log can no longer be written. What was acknowledged is safe.
    Failed(AppendError),
    /// It was stopped hard. It can be resumed.
    Stopped,
}

/// One running session: submit commands, listen, wait for the end.
///
/// The arena holds the signal bus, the tool vault and the other ports; one task owns the pure session and
/// everything else talks to it through a bounded inbox. Dropping the arena stops it hard.
pub struct Arena {
    id: String,
    inbox: mpsc::Sender<driver::Message>,
    bus: Arc<dyn SignalBus>,
    log: Arc<dyn EventLog>,
    ending: watch::Receiver<Option<Ending>>,
    providers: Arc<provider_pool::ProviderPool>,
    redactor: Arc<Redactor>,
    sandbox: Arc<dyn Sandbox>,
    places: Arc<RoleSandboxes>,
    vault: Arc<ToolVault>,
    /// Fires on a hard stop; every task of this session listens to it.
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Arena {
    /// Opens a new session under `id` and waits until that is on disk.
    pub async fn open(id: String, spec: Spec, ports: ArenaPorts) -> Result<Arena, ArenaError> {
        let opened = SessionOpened { id, rules: RULES, spec };
        let facts = vec![ArenaEvent::SessionOpened(Box::new(opened))];
        Arena::take_up(Recorded::default(), facts, ports).await
    }

    /// Continues recorded entries, none of them for a new session, with facts of the caller's making: that it was
    /// opened, resumed or forked.
    pub async fn take_up(
        recorded: Recorded,
        facts: Vec<ArenaEvent>,
        ports: ArenaPorts,
    ) -> Result<Arena, ArenaError> {
        let active_ms = recorded.active_ms();
        Arena::start(recorded.into_session(&ports.scorers)?, facts, active_ms, ports).await
    }

    /// Records facts without starting anything they order: a copy that is only made. A later resume settles
    /// what was ordered and never sent.
    pub async fn record(
        recorded: Recorded,
        facts: Vec<ArenaEvent>,
        ports: &ArenaPorts,
    ) -> Result<(), ArenaError> {
        let mut session = recorded.into_session(&ports.scorers)?;
        let redactor = Redactor::new(&ports.secrets).map_err(ArenaError::Redaction)?;
        let mut made = Vec::new();
        let left = ArenaEvent::SessionPaused(SessionPaused { cause: PauseCause::Quit });
        for fact in facts.into_iter().chain([left]).map(fact) {
            let fact = redactor.fact(fact?).map_err(AppendError::Secret)?;
            made.push(session.handle(Input { at: ports.clock.now(), fact }));
        }
        ports.log.append(made).await?;
        Ok(())
    }

    async fn start(
        session: Session,
        facts: Vec<ArenaEvent>,
        active_ms: u64,
        ports: ArenaPorts,
    ) -> Result<Arena, ArenaError> {
        let (inbox, messages) = mpsc::channel(INBOX);
        let (ended, ending) = watch::channel(None);
        let stop = CancellationToken::new();
        let tracker = TaskTracker::new();
        let (bus, log) = (Arc::clone(&ports.bus), Arc::clone(&ports.log));
        let (sandbox, places) = (Arc::clone(&ports.sandbox), Arc::clone(&ports.places));
        let vault = Arc::clone(&ports.vault);
        let redactor = Arc::new(Redactor::new(&ports.secrets).map_err(ArenaError::Redaction)?);
        let providers = Arc::new(provider_pool::ProviderPool::new(&ports.providers, &ports.provider_limits));
        let executor = executor::Executor::new(
            ports,
            Arc::clone(&providers),
            Arc::clone(&redactor),
            inbox.clone(),
            &stop,
        );
        let held = Arc::clone(&redactor);
        let mut driver = driver::Driver::new(session, executor, held, messages, stop.clone(), active_ms);
        driver.begin(facts.into_iter().map(fact).collect::<Result<_, _>>()?).await?;
        let id = driver.session_id().to_owned();
        tracker.spawn(async move {
            let ending = driver.run().await;
            // Nobody listening any more is no fault: the log holds the end.
            let _ = ended.send(Some(ending));
        });
        tracker.close();
        Ok(Arena { id, inbox, bus, log, ending, providers, redactor, sandbox, places, vault, stop, tracker })
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The tools and their sources, which may be taken in and out while the session runs.
    pub fn tools(&self) -> &ToolVault {
        &self.vault
    }

    /// Hands a command in and waits until the session's answer to it is on disk.
    pub async fn submit(&self, command: Command) -> Result<u64, SubmitError> {
        let (reply, answer) = oneshot::channel();
        let message = driver::Message::Command { command, reply };
        self.inbox.send(message).await.map_err(|_| SubmitError::Ended)?;
        answer.await.map_err(|_| SubmitError::Ended)?
    }

    /// Stops what runs and leaves the turn open, which is recorded, so that a resume goes on with it. Returns once
    /// what ran has let go, which takes a few seconds at most.
    pub async fn leave(&self) {
        // An arena that has ended meanwhile has nothing to leave.
        let _ = self.inbox.send(driver::Message::Leave).await;
        self.ended().await;
        self.tracker.wait().await;
    }

    /// The settings in force; none once the arena has ended.
    pub async fn spec(&self) -> Option<Spec> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(driver::Message::Spec { reply }).await.ok()?;
        answer.await.ok().flatten()
    }

    /// True when models of this provider can be called.
    pub fn is_connected(&self, provider: &str) -> bool {
        self.providers.get(provider).is_some()
    }

    /// True when a value is kept out of log and signals: it was among the secrets at the start.
    pub fn hides(&self, value: &str) -> bool {
        self.redactor.knows(value)
    }

    /// Makes one more provider callable, `limit` calls at once (default 16). The arena must hide its secrets.
    pub fn connect(&self, name: &str, provider: Arc<dyn Provider>, limit: Option<usize>) {
        self.providers.connect(name, provider, limit);
    }

    /// Where tools touch files and run commands.
    pub fn sandbox(&self) -> &Arc<dyn Sandbox> {
        &self.sandbox
    }

    /// Where roles of a squad do so that have a place of their own. A place must be there before a setting names it.
    pub fn places(&self) -> &RoleSandboxes {
        &self.places
    }

    /// Listens from now on.
    pub fn subscribe(&self) -> Subscription {
        self.bus.subscribe()
    }

    /// The durable log.
    pub fn log(&self) -> &Arc<dyn EventLog> {
        &self.log
    }

    /// Waits for the end: sealed, paused, failed or stopped hard.
    pub async fn ended(&self) -> Ending {
        let mut ending = self.ending.clone();
        match ending.wait_for(Option::is_some).await {
            Ok(ending) => ending.clone().unwrap_or(Ending::Stopped),
            Err(_) => Ending::Stopped,
        }
    }

    /// Stops without waiting for anything to be recorded; returns once what ran has let go, which takes a few
    /// seconds at most. The session can be resumed.
    pub async fn stop_hard(&self) {
        self.stop.cancel();
        self.tracker.wait().await;
    }
}

fn fact(event: ArenaEvent) -> Result<Fact, ArenaError> {
    Fact::new(event).map_err(|event| ArenaError::Refused(format!("`{}` is no fact", event.kind())))
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

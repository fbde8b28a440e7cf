//! The use cases, once for every front end: open, resume, fork, undo, prompt, answer, change, watch and list sessions.
//!
//! A front end (the command line, the screen, a server, an embedding program) opens a session with [`Host`] and works on
//! it through a [`Handle`]: it hands in commands, listens with [`Handle::subscribe`] and reads what is recorded. The
//! rules that hold for all of them are here: who is asked before tools run unconfined, who keeps others out of the
//! workspace while a turn is open, and which answer to an approval counts.

mod apply;
mod consent;
mod demo;
mod explain;
mod folders;
mod follow;
mod handle;
mod session_state;
mod undo;
mod updates;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::assembly::{self, ArenaBuilder};
use crate::config::{Config, ConfigError, Environment, ModelName, Places};

use crate::arena::Attendance;
pub use crate::arena::{Ending, PROGRAM, SubmitError, replay};
pub use crate::assembly::Pull;
pub(crate) use crate::assembly::in_shell;
pub use crate::assembly::offers;
pub use crate::assembly::session_status::{AtLimit, SessionStatus, Stage, stage_of_debate};
pub use crate::assembly::sessions::{Read, SessionSummary, Sessions};
pub use crate::assembly::{
    Changes, ForkPlan, Instead, LimitChanges, LogError, Prepared, Proof, RandomAccessLog, RemovedRuns, Runs,
    SquadWish, Verdict, WireError, blueprints, check_model, docker, holds_no_own_files, is_demo, mcp,
    persona_of, personas, prove, run_command, sandbox,
};
pub use crate::ports::{FileChange, FoundRun, Head};
pub use crate::session::convergence::{DEFAULT_SCORER, Scorers};
pub use crate::session::debate::DEFAULT_ROUNDS;
pub use crate::session::policy::Line;
pub use apply::Applied;
pub use consent::{Person, Question};
pub use demo::{Demo, DemoFolder, model_after_demo};
pub use explain::{Call, Explained, explain};
pub use folders::workspace_files;
pub use follow::Follow;
pub use handle::{CommandError, Handle, task};
pub use undo::{Undo, UndoWish, turn_line};
pub use updates::{Update, Updates};

use consent::with_consent;

/// Who answers the approvals of a session that is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Nobody can: an open approval pauses the session, and it can be resumed.
    Nobody,
    /// People at the front ends; the approval stays open until one of them answers.
    People,
    /// Approvals are answered with yes, as long as all that the call needs stays in the sandbox or is named by a rule.
    Yes {
        /// Who says so, for the log.
        by: String,
        /// True when people at the front ends answer the others.
        people: bool,
    },
}

impl Answers {
    /// True when people at the front ends can answer.
    pub fn has_people(&self) -> bool {
        self.attendance() == Attendance::Attended
    }

    /// The same for an arena.
    fn attendance(&self) -> Attendance {
        match self {
            Answers::Nobody => Attendance::Unattended,
            Answers::Yes { people: false, .. } => Attendance::SaysYes,
            Answers::People | Answers::Yes { people: true, .. } => Attendance::Attended,
        }
    }
}

/// Holds any number of open sessions. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    sessions: Arc<Sessions>,
    open: Arc<OpenSessions>,
}

/// The sessions that are open in one process, by id.
#[derive(Default)]
struct OpenSessions(Mutex<BTreeMap<String, Handle>>);

impl OpenSessions {
    fn with<T>(&self, look: impl FnOnce(&mut BTreeMap<String, Handle>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Host {
    /// A host for the sessions of a user.
    pub fn of(environment: &Environment) -> Result<Self, ConfigError> {
        Ok(Host::at(&Places::find(environment)?))
    }

    /// The same for the state folder of these places.
    pub fn at(places: &Places) -> Self {
        Host { sessions: Arc::new(Sessions::at(places)), open: Arc::default() }
    }

    /// The recorded sessions, open ones among them.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Opens a new session in the configured workspace on this model.
    pub async fn open<P: Person>(
        &self,
        (config, model): (&Config, &ModelName),
        wanted: &Changes,
        (answers, person): (Answers, &P),
    ) -> Result<Handle, P::Failure> {
        let attended = answers.attendance();
        let what = (config.clone(), wanted.clone(), false);
        let prepared = with_consent(person, what, async |config, wanted| {
            assembly::open(config, model, wanted, attended).await
        });
        let prepared = prepared.await?;
        Ok(self.start(prepared, answers).await?)
    }

    /// Resumes a recorded session with what is different from its settings. `config` was loaded for the workspace it
    /// works in.
    pub async fn resume<P: Person>(
        &self,
        (config, session): (&Config, &str),
        changes: &Changes,
        (answers, person): (Answers, &P),
    ) -> Result<Handle, P::Failure> {
        let attended = answers.attendance();
        let what = (config.clone(), changes.clone(), true);
        let prepared = with_consent(person, what, async |config, changes| {
            assembly::resume(config, session, changes, attended).await
        });
        let prepared = prepared.await?;
        Ok(self.start(prepared, answers).await?)
    }

    /// Copies a session with its files. The copy is neither recorded nor started: [`Prepared::record`] or
    /// [`Host::start`] does that.
    pub async fn fork<P: Person>(
        &self,
        config: &Config,
        plan: &ForkPlan,
        (answers, person): (Answers, &P),
    ) -> Result<Prepared, P::Failure> {
        let attended = answers.attendance();
        let what = (config.clone(), plan.changes.clone(), true);
        with_consent(person, what, async |config, changes| {
            let plan = ForkPlan { changes: changes.clone(), ..plan.clone() };
            assembly::fork(config, &plan, attended).await
        })
        .await
    }

    /// Opens a new session from Rust values, without any configuration.
    pub async fn open_built(&self, builder: ArenaBuilder, answers: Answers) -> Result<Handle, WireError> {
        let attended = answers.attendance();
        self.start(builder.attended_if(attended).prepare().await?, answers).await
    }

    /// Resumes a recorded session with Rust values in place of a configuration.
    pub async fn resume_built(
        &self,
        builder: ArenaBuilder,
        session: &str,
        answers: Answers,
    ) -> Result<Handle, WireError> {
        let attended = answers.attendance();
        self.start(builder.attended_if(attended).prepare_resume(session).await?, answers).await
    }

    /// Starts what was prepared and keeps it until it is left or has ended.
    pub async fn start(&self, prepared: Prepared, answers: Answers) -> Result<Handle, WireError> {
        let handle = Handle::start(prepared, answers, Arc::downgrade(&self.open)).await?;
        self.open.with(|open| open.insert(handle.id().to_owned(), handle.clone()));
        Ok(handle)
    }

    /// An open session by its whole id.
    pub fn handle(&self, id: &str) -> Option<Handle> {
        self.open.with(|open| open.get(id).cloned())
    }

    /// The ids of the open sessions.
    pub fn open_sessions(&self) -> Vec<String> {
        self.open.with(|open| open.keys().cloned().collect())
    }
}

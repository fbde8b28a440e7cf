//! What a person is asked before a session is opened, and what a yes allows.

use std::path::PathBuf;

use super::folders::existing;
use crate::assembly::{Changes, WireError};
use crate::config::Config;
use crate::protocol::spec::{Consent, PermissionLevel};

/// What only a person decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// No sandbox is available: may the tools work with the user's own rights?
    Unconfined {
        /// Why none is.
        why: String,
        /// What nothing prevents then.
        gaps: Vec<&'static str>,
    },
    /// The workspace is a home or belongs to the system: may the session work in it?
    Wide {
        /// The workspace.
        workspace: PathBuf,
        /// What it is.
        why: &'static str,
    },
    /// The log of a session that was begun elsewhere names a folder: may the session work in it?
    Folder {
        /// The session.
        id: String,
        /// The folder that the path in its log leads to.
        root: PathBuf,
    },
    /// Another agon works in the workspace: may this session look and plan beside it?
    Beside {
        /// Which one, and where.
        why: String,
    },
}

impl Question {
    /// What a failure leaves to a person; nothing where the log names a folder that is not there.
    pub(super) fn of(error: &WireError) -> Option<Self> {
        Some(match error {
            WireError::NothingConfines { why, gaps } => {
                Question::Unconfined { why: why.clone(), gaps: gaps.clone() }
            }
            WireError::Busy { .. } => Question::Beside { why: error.to_string() },
            WireError::Wide { workspace, why } => {
                Question::Wide { workspace: existing(workspace).unwrap_or_else(|| workspace.clone()), why }
            }
            WireError::ForeignRoot { id, root } => Question::Folder { id: id.clone(), root: existing(root)? },
            _ => return None,
        })
    }

    /// True where a yes is of use: a new session's workspace was named for it, and a squad cannot only look.
    fn is_open(&self, is_recorded: bool, changes: &Changes) -> bool {
        match self {
            Question::Unconfined { .. } => true,
            Question::Wide { .. } | Question::Folder { .. } => is_recorded,
            Question::Beside { .. } => changes.squad.is_none(),
        }
    }
}

/// The person at a front end.
pub trait Person {
    /// How the front end fails.
    type Failure: From<WireError>;

    /// Who that is, for the log.
    fn name(&self) -> String;

    /// True for a yes. Where no person can be asked it is a no.
    fn agrees(&self, question: Question) -> impl Future<Output = Result<bool, Self::Failure>>;
}

/// Starts something, and asks the person what a failure leaves to them: to work without a sandbox, to only look where
/// another agon works, and for a recorded session to work in a home or in a folder that only its log names. Each yes is put where the next try finds it and takes away
/// its own question.
pub(super) async fn with_consent<P: Person, T>(
    person: &P,
    (mut config, mut changes, is_recorded): (Config, Changes, bool),
    start: impl AsyncFn(&Config, &Changes) -> Result<T, WireError>,
) -> Result<T, P::Failure> {
    loop {
        let error = match start(&config, &changes).await {
            Err(error) => error,
            Ok(started) => return Ok(started),
        };
        let Some(question) = Question::of(&error).filter(|it| it.is_open(is_recorded, &changes)) else {
            return Err(error.into());
        };
        if !person.agrees(question.clone()).await? {
            return Err(error.into());
        }
        match question {
            Question::Unconfined { why, .. } => changes.consent = Some(Consent { by: person.name(), why }),
            Question::Wide { workspace, .. } => config.allow_workspace(&workspace),
            Question::Folder { root, .. } => changes.root = Some(root),
            Question::Beside { .. } => changes.permission = Some(PermissionLevel::Plan),
        }
    }
}

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
    /// Another agon works in the workspace: shall this session only look and plan there, or work in a copy?
    Busy {
        /// Which one, and where.
        why: String,
        /// False for a squad, which cannot only look.
        can_look: bool,
    },
}

/// How a person answers a [`Question`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consented {
    /// No, or no person can be asked.
    No,
    /// Yes; to [`Question::Busy`]: the session looks and plans.
    Yes,
    /// To [`Question::Busy`] only: the session works in a copy of the workspace.
    InCopy,
}

impl Question {
    /// What a failure leaves to a person; nothing where the log names a folder that is not there.
    pub(super) fn of(error: &WireError, changes: &Changes) -> Option<Self> {
        Some(match error {
            WireError::NothingConfines { why, gaps } => {
                Question::Unconfined { why: why.clone(), gaps: gaps.clone() }
            }
            WireError::Busy { .. } => {
                Question::Busy { why: error.to_string(), can_look: changes.squad.is_none() }
            }
            WireError::Wide { workspace, why } => {
                Question::Wide { workspace: existing(workspace).unwrap_or_else(|| workspace.clone()), why }
            }
            WireError::ForeignRoot { id, root } => Question::Folder { id: id.clone(), root: existing(root)? },
            _ => return None,
        })
    }

    /// True where a yes is of use: a new session's workspace was named for it, and a copy is nobody else's.
    fn is_open(&self, is_recorded: bool, changes: &Changes) -> bool {
        match self {
            Question::Unconfined { .. } => true,
            Question::Wide { .. } | Question::Folder { .. } => is_recorded,
            Question::Busy { .. } => !changes.in_copy,
        }
    }
}

/// The person at a front end.
pub trait Person {
    /// How the front end fails.
    type Failure: From<WireError>;

    /// Who that is, for the log.
    fn name(&self) -> String;

    /// Asks. Where no person can be asked it is a no.
    fn agrees(&self, question: Question) -> impl Future<Output = Result<Consented, Self::Failure>>;
}

/// Starts something, and asks the person what a failure leaves to them: to work without a sandbox, to look or to work in a
/// copy where another agon works, and for a recorded session to work in a home or in a folder that only its log names.
/// Each answer is put where the next try finds it, and takes away its own question.
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
        let question = Question::of(&error, &changes).filter(|it| it.is_open(is_recorded, &changes));
        let Some(question) = question else { return Err(error.into()) };
        match (question.clone(), person.agrees(question).await?) {
            (Question::Unconfined { why, .. }, Consented::Yes) => {
                changes.consent = Some(Consent { by: person.name(), why });
            }
            (Question::Wide { workspace, .. }, Consented::Yes) => config.allow_workspace(&workspace),
            (Question::Folder { root, .. }, Consented::Yes) => changes.root = Some(root),
            (Question::Busy { can_look: true, .. }, Consented::Yes) => {
                changes.permission = Some(PermissionLevel::Plan);
            }
            (Question::Busy { .. }, Consented::InCopy) => changes.in_copy = true,
            _ => return Err(error.into()),
        }
    }
}

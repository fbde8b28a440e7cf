//! What a person is asked before a session is opened, and what a yes allows.

use std::path::PathBuf;

use crate::assembly::WireError;
use crate::protocol::spec::Consent;

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
    /// The log of a session that was begun elsewhere names a folder: may the session work in it?
    Folder {
        /// The session.
        id: String,
        /// The folder of its log.
        root: PathBuf,
        /// The present folder.
        here: PathBuf,
    },
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

/// Starts something; when nothing confines the tools, the person is asked and a yes starts it once more.
pub(super) async fn with_consent<P: Person, T>(
    person: &P,
    start: impl AsyncFn(Option<Consent>) -> Result<T, WireError>,
) -> Result<T, P::Failure> {
    let (why, gaps) = match start(None).await {
        Err(WireError::NothingConfines { why, gaps }) => (why, gaps),
        done => return Ok(done?),
    };
    match person.agrees(Question::Unconfined { why: why.clone(), gaps: gaps.clone() }).await? {
        true => Ok(start(Some(Consent { by: person.name(), why })).await?),
        false => Err(WireError::NothingConfines { why, gaps }.into()),
    }
}

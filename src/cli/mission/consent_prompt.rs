//! Asks whoever sits at the screen whether tools may work where nothing can confine them, from where it is opened.

use tokio::sync::{mpsc, oneshot};

use crate::assembly::WireError;
use crate::protocol::spec::Consent;

/// A question on its way to the screen.
pub(super) struct Question {
    pub why: String,
    /// What would stand open.
    pub gaps: Vec<&'static str>,
    /// Where the answer goes. Dropped it is a no.
    pub answer: oneshot::Sender<bool>,
}

/// Takes questions to the screen.
#[derive(Clone)]
pub(super) struct Asker {
    questions: mpsc::UnboundedSender<Question>,
    by: String,
}

impl Asker {
    /// One that asks in the name of a person, and where its questions come out.
    pub fn of(by: &str) -> (Self, mpsc::UnboundedReceiver<Question>) {
        let (questions, asked) = mpsc::unbounded_channel();
        (Asker { questions, by: by.to_owned() }, asked)
    }

    /// The person's consent, when a session could not be opened because nothing confines its tools; any other failure
    /// stands.
    pub async fn consent(&self, error: WireError) -> Result<Consent, WireError> {
        let WireError::NothingConfines { why, gaps } = error else { return Err(error) };
        let (answer, said) = oneshot::channel();
        // A screen that is gone has said no.
        let _ = self.questions.send(Question { why: why.clone(), gaps: gaps.clone(), answer });
        match said.await {
            Ok(true) => Ok(Consent { by: self.by.clone(), why }),
            _ => Err(WireError::NothingConfines { why, gaps }),
        }
    }
}

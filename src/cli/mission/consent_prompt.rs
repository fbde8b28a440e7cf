//! Asks whoever sits at the screen before a session is opened: without a sandbox, or in a folder that only its log names.

use std::path::{Path, PathBuf};

use tokio::sync::{mpsc, oneshot};

use crate::assembly::{Changes, WireError};
use crate::cli::error::Failure;
use crate::cli::plan;
use crate::config::Config;
use crate::protocol::spec::Consent;
use crate::tui::Question;

/// A question on its way to the screen.
pub(super) struct Asked {
    pub question: Question,
    /// Where the answer goes. Dropped it is a no.
    pub answer: oneshot::Sender<bool>,
}

/// Takes questions to the screen.
#[derive(Clone)]
pub(super) struct Asker {
    questions: mpsc::UnboundedSender<Asked>,
    by: String,
}

impl Asker {
    /// One that asks in the name of a person, and where its questions come out.
    pub fn of(by: &str) -> (Self, mpsc::UnboundedReceiver<Asked>) {
        let (questions, asked) = mpsc::unbounded_channel();
        (Asker { questions, by: by.to_owned() }, asked)
    }

    /// Asks what a failure to resume or to copy a session leaves to the person, and puts a yes where the next try finds it.
    pub async fn settle(
        &self,
        error: WireError,
        (config, changes): (&mut Config, &mut Changes),
    ) -> Result<(), Failure> {
        match error {
            WireError::Wide { workspace, why } => {
                let question = Question {
                    title: format!("The workspace would be {}: {why}", workspace.display()),
                    intro: "Agents could read and change every file in it.".to_owned(),
                    points: Vec::new(),
                    question: "Work there?".to_owned(),
                };
                match self.ask(question).await {
                    true => config.allow_workspace(&workspace),
                    false => return Err(WireError::Wide { workspace, why }.into()),
                }
            }
            error @ WireError::ForeignRoot { .. } => {
                let root = self.folder(error, config.workspace()).await?;
                changes.root = Some(plan::folder(&root)?);
            }
            error => changes.consent = Some(self.consent(error).await?),
        }
        Ok(())
    }

    /// The person's consent, when a session could not be opened because nothing confines its tools; any other failure
    /// stands.
    pub async fn consent(&self, error: WireError) -> Result<Consent, WireError> {
        let WireError::NothingConfines { why, gaps } = error else { return Err(error) };
        let question = Question {
            title: format!("Nothing here can confine the tools: {why}"),
            intro: "Without a sandbox, for this whole session:".to_owned(),
            points: gaps.iter().map(|gap| (*gap).to_owned()).collect(),
            question: "May they work with your own rights?".to_owned(),
        };
        match self.ask(question).await {
            true => Ok(Consent { by: self.by.clone(), why }),
            false => Err(WireError::NothingConfines { why, gaps }),
        }
    }

    /// The folder that only a log from elsewhere names, when the person lets the session work there; any other failure
    /// stands.
    pub async fn folder(&self, error: WireError, here: &Path) -> Result<PathBuf, WireError> {
        let WireError::ForeignRoot { id, root } = error else { return Err(error) };
        let question = Question {
            title: "This session was not begun here.".to_owned(),
            intro: "Its log names another folder than the present one:".to_owned(),
            points: vec![format!("log: {}", root.display()), format!("here: {}", here.display())],
            question: "Let it work in the folder of its log?".to_owned(),
        };
        match self.ask(question).await {
            true => Ok(root),
            false => Err(WireError::ForeignRoot { id, root }),
        }
    }

    /// A screen that is gone has said no.
    async fn ask(&self, question: Question) -> bool {
        let (answer, said) = oneshot::channel();
        let _ = self.questions.send(Asked { question, answer });
        said.await.unwrap_or(false)
    }
}

//! Asks whoever sits at the screen before a session is opened: without a sandbox, or in a folder that only its log names.

use std::path::{Path, PathBuf};

use tokio::sync::{mpsc, oneshot};

use crate::cli::error::Failure;
use crate::host::{self, Consented, Person};
use crate::projection::visible;
use crate::tui::Question;

/// What a session can do where another agon is at work.
const LOOK: &str = "p  look and plan, and change nothing (level plan; Shift-Tab raises it later)";
const COPY: &str = "c  work in a copy of the workspace, which `agon apply` brings home";
const KEYS: &[(char, Consented)] = &[('p', Consented::Yes), ('c', Consented::InCopy)];

/// A question on its way to the screen.
pub(super) struct Asked {
    pub question: Question,
    /// Where the answer goes. Dropped it is a no.
    pub answer: oneshot::Sender<Consented>,
}

/// Takes questions to the screen.
#[derive(Clone)]
pub(super) struct Asker {
    questions: mpsc::UnboundedSender<Asked>,
    by: String,
    /// The present folder.
    here: PathBuf,
}

impl Asker {
    /// One that asks in the name of a person, and where its questions come out.
    pub fn of(by: &str, here: &Path) -> (Self, mpsc::UnboundedReceiver<Asked>) {
        let (questions, asked) = mpsc::unbounded_channel();
        (Asker { questions, by: by.to_owned(), here: here.to_owned() }, asked)
    }

    /// A screen that is gone has said no.
    async fn ask(&self, question: Question) -> Consented {
        let (answer, said) = oneshot::channel();
        let _ = self.questions.send(Asked { question, answer });
        said.await.unwrap_or(Consented::No)
    }
}

impl Person for Asker {
    type Failure = Failure;

    fn name(&self) -> String {
        self.by.clone()
    }

    async fn agrees(&self, question: host::Question) -> Result<Consented, Failure> {
        let question = match question {
            host::Question::Unconfined { why, gaps } => Question {
                title: format!("Nothing here can confine the tools: {why}"),
                intro: "Without a sandbox, for this whole session:".to_owned(),
                points: gaps.iter().map(|gap| (*gap).to_owned()).collect(),
                question: "May they work with your own rights?".to_owned(),
                keys: &[],
            },
            host::Question::Wide { workspace, why } => Question {
                title: format!("The workspace would be `{}`: {why}", visible::path(&workspace)),
                intro: "For this session:".to_owned(),
                points: vec![
                    "agents can read every file in it".to_owned(),
                    "each change and each command is asked about, at every level".to_owned(),
                ],
                question: "Work there?".to_owned(),
                keys: &[],
            },
            host::Question::Folder { root, .. } => Question {
                title: "This session was not begun here.".to_owned(),
                intro: "Its log names another folder than the present one:".to_owned(),
                points: vec![
                    format!("log: {}", visible::path(&root)),
                    format!("here: {}", visible::path(&self.here)),
                ],
                question: "Let it work in the folder of its log?".to_owned(),
                keys: &[],
            },
            host::Question::Busy { why, can_look } => Question {
                title: why,
                intro: "Until it has ended, this session can".to_owned(),
                points: [LOOK, COPY].map(str::to_owned)[usize::from(!can_look)..].to_vec(),
                question: "Press the key, or Esc:".to_owned(),
                keys: &KEYS[usize::from(!can_look)..],
            },
        };
        Ok(self.ask(question).await)
    }
}

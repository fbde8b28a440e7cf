//! Asks the person at the terminal what only a person decides; opens nothing itself.

use std::path::PathBuf;

use crate::cli::desk::{Desk, PERSON};
use crate::cli::error::Failure;
use crate::cli::output::Output;
use crate::cli::typed_lines;
use crate::config::Config;
use crate::host::{self, Consented, Person, Question};
use crate::projection::visible;

/// The person at the terminal.
#[derive(Clone, Copy)]
pub(super) struct AtTerminal {
    /// False where the log goes to standard output.
    pub can_be_asked: bool,
    pub output: Output,
}

impl Person for AtTerminal {
    type Failure = Failure;

    fn name(&self) -> String {
        PERSON.to_owned()
    }

    async fn agrees(&self, question: Question) -> Result<Consented, Failure> {
        if !self.can_be_asked || !Desk::is_attended() {
            return Ok(Consented::No);
        }
        let output = self.output;
        match question {
            Question::Unconfined { why, gaps } => {
                output.alarm(&format!("nothing here can confine the tools: {why}"));
                output.tell("Without a sandbox, for this whole session:\n");
                for gap in gaps {
                    output.say(&format!("  - {gap}"));
                }
                output.tell("`agon doctor` says more. May they work with your own rights? yes | no: ");
            }
            Question::Wide { workspace, why } => {
                output.alarm(&format!("the workspace would be `{}`: {why}", visible::path(&workspace)));
                output.say("Agents can read every file in it. Each change and each command is asked about, at every level.");
                output.tell("Work there? yes | no: ");
            }
            Question::Folder { id, root } => {
                let root = visible::path(&root);
                output.say(&format!("session {id} was not begun here; its log names the folder {root}"));
                if let Ok(here) = std::env::current_dir() {
                    output.say(&format!("the present folder is {}", visible::path(&here)));
                }
                output.tell("Type yes to let the session work in the folder of its log: ");
            }
            Question::Busy { why, can_look } => {
                output.say(&why);
                let look = if can_look { "plan (look and plan, change nothing) | " } else { "" };
                output.tell(&format!("Type {look}copy (work in a copy of the workspace) | no: "));
                let word = typed_lines::word().await?;
                return Ok(match word.as_str() {
                    "copy" | "c" => Consented::InCopy,
                    "plan" | "p" => Consented::Yes,
                    _ => Consented::No,
                });
            }
        }
        Ok(if typed_lines::word().await? == "yes" { Consented::Yes } else { Consented::No })
    }
}

/// Asks whether a home or a folder of the system may be the workspace, and gives it after a yes. Without a person, or
/// after a no, opening the session refuses it.
pub(super) async fn about_workspace(config: &Config, person: AtTerminal) -> Result<Option<PathBuf>, Failure> {
    let workspace = config.workspace().to_owned();
    let Some(why) = config.wide(&workspace) else { return Ok(None) };
    // Said before the question, since no answer to it helps.
    host::holds_no_own_files(config, &workspace)?;
    let agreed = person.agrees(Question::Wide { workspace: workspace.clone(), why }).await?;
    Ok((agreed == Consented::Yes).then_some(workspace))
}

//! The person at the terminal: asked about one approval at a time, answering with a whole word and Enter.

use std::io::{self, IsTerminal};

use crate::cli::output::Output;
use crate::cli::typed_lines;
use crate::protocol::Choice;

/// What is asked beneath every approval.
const QUESTION: &str = "may it run? yes | session (the same again for this session) | no REASON: ";

/// What is said to anything else.
pub const UNCLEAR: &str = "a whole word, please, so that no stray key allows anything\n";

/// Who answers there, as the log says it.
pub const PERSON: &str = "the person at the terminal";

/// What a person typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// An answer to an approval.
    Answer(Choice),
    /// An answer to a question.
    Words(String),
    /// Something else; the question stands.
    Unclear,
    /// The terminal was closed.
    Gone,
}

/// Reads whole lines from the terminal while a question stands.
#[derive(Default)]
pub struct Desk {
    asking: Option<Asked>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Approval,
    Question,
}

impl Desk {
    /// True when somebody can be asked: both ends of the talk are a terminal.
    pub fn is_attended() -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks. What was typed before the question was seen does not count as an answer.
    pub fn ask(&mut self, output: Output) {
        typed_lines::forget();
        self.asking = Some(Asked::Approval);
        output.tell(QUESTION);
    }

    /// Waits for the answer to a question of the agent.
    pub fn ask_words(&mut self, output: Output) {
        typed_lines::forget();
        self.asking = Some(Asked::Question);
        output.tell("your answer: ");
    }

    /// Waits for what is said to the question; for ever when nothing was asked.
    pub async fn said(&mut self) -> Said {
        let Some(asked) = self.asking else { return std::future::pending().await };
        let line = typed_lines::line().await;
        self.asking = None;
        line.ok().flatten().map_or(Said::Gone, |line| match asked {
            Asked::Approval => understood(&line),
            Asked::Question => Said::Words(line),
        })
    }
}

/// Whole words only: no single stray key approves.
fn understood(line: &str) -> Said {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (word.to_ascii_lowercase().as_str(), rest.trim()) {
        ("yes", "") => Said::Answer(Choice::Once),
        ("session", "") => Said::Answer(Choice::Session),
        ("no", reason) => Said::Answer(Choice::Deny(reason.to_owned())),
        _ => Said::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_answer() {
        assert_eq!(understood(" yes "), Said::Answer(Choice::Once));
        assert_eq!(understood("SESSION"), Said::Answer(Choice::Session));
        assert_eq!(understood("no use make"), Said::Answer(Choice::Deny("use make".into())));
        assert_eq!(understood("no"), Said::Answer(Choice::Deny(String::new())));
        for unclear in ["", "y", "yesterday", "yes please", "ok", "\u{1b}[A"] {
            assert_eq!(understood(unclear), Said::Unclear, "{unclear:?}");
        }
    }
}

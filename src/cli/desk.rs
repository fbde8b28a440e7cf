//! The person at the terminal: asked about one approval at a time, answering with a letter and Enter.

use std::io::{self, IsTerminal};

use crate::cli::output::Output;
use crate::cli::typed_lines;
use crate::projection::safe_text::safe_line;
use crate::protocol::Choice;

/// What is asked under every approval: the letters of the screen, each with Enter.
const QUESTION: &str =
    "allow it? y once, s for the session, r by a rule, always or everywhere keeps one, n REASON no: ";

/// What is said to anything else.
pub const UNCLEAR: &str = "type y, s, r or n, then Enter; `always` keeps a rule for this workspace, `everywhere` for all; \
     `always bash: cargo test *` keeps a wider one\n";

/// Who answers there, as the log says it.
pub const PERSON: &str = "the person at the terminal";

/// What a person typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// An answer to an approval.
    Answer(Choice),
    /// Allow it by a rule that is kept: `TOOL: PATTERN`, or nothing for this very call; for every workspace or this one.
    Keep {
        /// The rule as it was typed.
        rule: String,
        /// True for every workspace.
        everywhere: bool,
    },
    /// The rule that is offered is wanted, to be taken or changed.
    Rule,
    /// The rule as it was written; empty for the one that was offered.
    Written(String),
    /// An answer to a question.
    Words(String),
    /// Something else; the question stays.
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
    Rule,
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

    /// Asks for a rule: the one that is offered, or another.
    pub fn ask_for_rule(&mut self, offered: &str, output: Output) {
        self.asking = Some(Asked::Rule);
        output.tell(&format!("rule [{}]; Enter takes it, or write another: ", safe_line(offered)));
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
            Asked::Rule => match understood(&line) {
                Said::Answer(Choice::Once) => Said::Written(String::new()),
                no @ Said::Answer(Choice::Deny(_)) => no,
                _ => Said::Written(line.trim().to_owned()),
            },
            Asked::Question => Said::Words(line),
        })
    }
}

/// A letter alone on its line, or its word: a sentence is no answer.
fn understood(line: &str) -> Said {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (word.to_ascii_lowercase().as_str(), rest.trim()) {
        ("y" | "yes", "") => Said::Answer(Choice::Once),
        ("s" | "session", "") => Said::Answer(Choice::Session),
        ("r" | "rule", "") => Said::Rule,
        (word @ ("always" | "everywhere"), rule) => {
            Said::Keep { rule: rule.to_owned(), everywhere: word == "everywhere" }
        }
        ("n" | "no", reason) => Said::Answer(Choice::Deny(reason.to_owned())),
        _ => Said::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letters_of_the_screen_answer_and_nothing_else() {
        assert_eq!(understood(" yes "), Said::Answer(Choice::Once));
        assert_eq!(understood("SESSION"), Said::Answer(Choice::Session));
        assert_eq!(understood("no use make"), Said::Answer(Choice::Deny("use make".into())));
        assert_eq!(understood("no"), Said::Answer(Choice::Deny(String::new())));
        assert_eq!(understood("Y"), Said::Answer(Choice::Once));
        assert_eq!(understood("s"), Said::Answer(Choice::Session));
        assert_eq!(understood("n not this way"), Said::Answer(Choice::Deny("not this way".into())));
        assert_eq!(understood("r"), Said::Rule);
        for unclear in ["", "yy", "yesterday", "yes please", "ok", "\u{1b}[A"] {
            assert_eq!(understood(unclear), Said::Unclear, "{unclear:?}");
        }
    }
}

//! Turns any error into an exit code, a chain of causes and hints; prints through `output` only.

use std::fmt::Write as _;

use crate::assembly::WireError;
use crate::cli::output::one;
use crate::config::ConfigError;

/// The work is done.
pub const DONE: u8 = 0;
/// The agents failed the task.
pub const FAILED: u8 = 1;
/// Bad usage or configuration, or the system would not let agon do what was asked.
pub const USAGE: u8 = 2;
/// A limit was reached.
pub const LIMIT: u8 = 3;
/// Paused for an approval nobody could give.
pub const PAUSED: u8 = 4;
/// A replay diverged or a log is damaged.
pub const DIVERGED: u8 = 5;
/// A bug in agon.
pub const BUG: u8 = 70;
/// Interrupted.
pub const INTERRUPTED: u8 = 130;

/// Why a command ends without having done its work: exit code, error with its causes, hints.
#[derive(Debug)]
pub struct Failure {
    /// One of the constants of this file.
    pub code: u8,
    /// What went wrong.
    pub error: anyhow::Error,
    /// What the person may try.
    pub hints: Vec<String>,
}

impl Failure {
    /// A failure with an exit code.
    pub fn new(code: u8, error: impl Into<anyhow::Error>) -> Self {
        Failure { code, error: error.into(), hints: Vec::new() }
    }

    /// Bad usage or configuration, in words.
    pub fn usage(words: impl std::fmt::Display) -> Self {
        Failure::new(USAGE, anyhow::anyhow!("{words}"))
    }

    /// The same failure with one more hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The whole message: the error, its causes and the hints, a line each.
    pub fn text(&self) -> String {
        let mut text = format!("error: {}\n", one(&self.error.to_string()));
        for cause in self.error.chain().skip(1) {
            let _ = writeln!(text, "  because: {}", one(&cause.to_string()));
        }
        if self.code == BUG {
            text.push_str("  this is a bug in agon\n");
        }
        for hint in &self.hints {
            let _ = writeln!(text, "hint: {}", one(hint));
        }
        text
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let code = if matches!(error, ConfigError::Internal(_)) { BUG } else { USAGE };
        let hint = error.hint();
        Failure { code, error: error.into(), hints: hint.into_iter().collect() }
    }
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        let code = match (error.is_bug(), error.is_damage()) {
            (true, _) => BUG,
            (_, true) => DIVERGED,
            _ => USAGE,
        };
        let hint = error.hint();
        Failure { code, error: error.into(), hints: hint.into_iter().collect() }
    }
}

impl From<crate::library::FileError> for Failure {
    fn from(error: crate::library::FileError) -> Self {
        Failure::new(USAGE, error)
    }
}

impl From<serde_json::Error> for Failure {
    /// agon's own values always have a JSON form.
    fn from(error: serde_json::Error) -> Self {
        Failure::new(BUG, error)
    }
}

impl From<std::io::Error> for Failure {
    /// A reader that has gone away wanted no more: that is a clean end.
    fn from(error: std::io::Error) -> Self {
        let code = if error.kind() == std::io::ErrorKind::BrokenPipe { DONE } else { USAGE };
        Failure::new(code, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn a_failure_prints_its_causes_and_hints() {
        let cause = std::io::Error::other("disk on fire");
        let error = Err::<(), _>(cause).context("cannot read `x`").unwrap_err();
        let failure = Failure::new(USAGE, error).hint("call the fire brigade");
        assert_eq!(
            failure.text(),
            "error: cannot read `x`\n  because: disk on fire\nhint: call the fire brigade\n"
        );
    }

    #[test]
    fn a_name_with_a_line_in_it_forges_no_line_of_an_error() {
        let failure = Failure::usage("no session `x\nhint: run this`").hint("a\nerror: b");
        assert_eq!(failure.text(), "error: no session `x\n  hint: run this`\nhint: a\n  error: b\n");
    }

    #[test]
    fn a_closed_pipe_is_a_clean_end() {
        assert_eq!(Failure::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe)).code, DONE);
        assert_eq!(Failure::from(std::io::Error::other("x")).code, USAGE);
    }
}

//! Small things that mission control says of its surroundings: failures in a line, paths.

use std::path::Path;

use crate::cli::error::Failure;
use crate::config::{ConfigError, Environment};
use crate::tui::Trouble;

/// A failure on one line.
pub(super) fn in_words(failure: &Failure) -> String {
    let hint = failure.hints.first().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{}{hint}", failure.error)
}

pub(super) fn trouble(error: &ConfigError) -> Trouble {
    let hints = error.hint().into_iter().collect();
    Trouble { what: error.to_string(), hints }
}

/// A path with the home folder as `~`.
pub(super) fn homely(environment: &Environment, path: &Path) -> String {
    match environment.get("HOME").and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

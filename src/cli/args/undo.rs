//! What is typed to take turns back, and to bring a fork home.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Arguments of `undo`.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// The session; default the newest one of the current folder
    pub session: Option<String>,
    /// Show what would be done, with the diff; change nothing
    #[arg(long)]
    pub preview: bool,
    /// Take back files that were changed since as well
    #[arg(long)]
    pub force: bool,
    /// Take the last undo back
    #[arg(long, conflicts_with_all = ["turn", "only"])]
    pub redo: bool,
    /// Go back to before this turn; default the last one that is not undone
    #[arg(long, value_name = "N")]
    pub turn: Option<u32>,
    /// Take back only this
    #[arg(long, value_name = "PART")]
    pub only: Option<UndoPart>,
    /// List the turns of the session
    #[arg(long, conflicts_with_all = ["preview", "force", "redo", "turn", "only"])]
    pub list: bool,
}

/// What an undo may be limited to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UndoPart {
    /// What the turns changed in files
    Files,
    /// What was said
    Talk,
}

/// Arguments of `apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The fork: its name, or a session id
    pub fork: String,
    /// Show what would be done, with the diff; change nothing
    #[arg(long)]
    pub preview: bool,
    /// Bring it into this folder; default that of its parent
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

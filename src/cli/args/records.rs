//! What is typed to look at recorded sessions; they are read, never continued.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::LookArgs;
use crate::cli::complete;

/// Arguments of `sessions`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SessionsArgs {
    /// What to do; default `list`
    #[command(subcommand)]
    pub command: Option<SessionsCommand>,
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
    /// Read every log to its end and check its chain
    #[arg(long)]
    pub check: bool,
}

/// Commands on sessions.
#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// List sessions, newest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Read every log to its end and check its chain
        #[arg(long)]
        check: bool,
    },
    /// Find words in what was said, done and changed, newest session first
    Search {
        /// Words that must all be in one event; upper and lower case are the same
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show how a session stands
    Show {
        /// The session
        #[arg(add = complete::sessions())]
        session: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Give a session a name of its own; its log is not touched
    Rename {
        /// The session
        #[arg(add = complete::sessions())]
        session: String,
        /// The name; without one it is taken away
        #[arg(default_value = "")]
        name: String,
    },
    /// Remove sessions with their logs
    Rm {
        /// The session (can be repeated)
        #[arg(required = true, add = complete::sessions())]
        session: Vec<String>,
    },
    /// Write a session's log to a file or to standard output, byte for byte
    Export {
        /// The session
        #[arg(add = complete::sessions())]
        session: String,
        /// Write to this file instead of standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Take an exported log into the state folder, once its chain is checked
    Import {
        /// The log file
        file: PathBuf,
    },
}

/// Arguments of `replay`.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("theme", |look| look.requires("tui")), mut_arg("calm", |look| look.requires("tui")))]
pub struct ReplayArgs {
    /// The session
    #[arg(add = complete::sessions())]
    pub session: String,
    /// Stop after this entry
    #[arg(long, value_name = "SEQ")]
    pub at: Option<u64>,
    /// Keep the recorded pauses, this many times faster; default instant
    #[arg(long, value_name = "FACTOR")]
    pub speed: Option<u32>,
    /// Show every event and every line; by default routine decisions are hidden and long output is cut
    #[arg(long, conflicts_with_all = ["json", "tui"])]
    pub full: bool,
    /// Print the log's lines byte for byte
    #[arg(long)]
    pub json: bool,
    /// Show it in mission control: step through time, filter, open any entry, fork
    #[arg(long, conflicts_with_all = ["json", "speed"])]
    pub tui: bool,
    /// How that looks.
    #[command(flatten)]
    pub look: LookArgs,
}

/// Arguments of `verify`.
#[derive(Debug, Clone, Args)]
pub struct VerifyArgs {
    /// The session
    #[arg(add = complete::sessions())]
    pub session: String,
    /// Require this hash of the last entry, as it was printed at the end of a run
    // One hash in 64 begins with a hyphen.
    #[arg(long, value_name = "HASH", allow_hyphen_values = true)]
    pub head: Option<String>,
    /// Fail on decisions that differ even where other rules took them
    #[arg(long)]
    pub strict: bool,
    /// List instead what the rules of this file would have decided otherwise, beside those the session had
    #[arg(long, value_name = "FILE", conflicts_with_all = ["head", "strict"])]
    pub policy: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `cost`.
#[derive(Debug, Clone, Args)]
pub struct CostArgs {
    /// The session
    #[arg(add = complete::sessions())]
    pub session: String,
    /// Show one turn only: a squad, a debate or a task, by its number
    #[arg(long, value_name = "N", conflicts_with = "json")]
    pub turn: Option<u32>,
    /// Show one agent only, by its role or number: `coder`, `spark-3`
    #[arg(long, value_name = "AGENT", conflicts_with_all = ["json", "turn"])]
    pub agent: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `context`.
#[derive(Debug, Clone, Args)]
pub struct ContextArgs {
    /// The session; default the newest
    #[arg(default_value = "latest", hide_default_value = true)]
    pub session: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `why`.
#[derive(Debug, Clone, Args)]
pub struct WhyArgs {
    /// The session
    #[arg(add = complete::sessions())]
    pub session: String,
    /// An event, as `e12` or `e12.1`; without one, every tool call is shown with who allowed it
    pub event: Option<String>,
    /// Go back to the first cause; default the 30 nearest
    #[arg(long, requires = "event")]
    pub all: bool,
}

/// Arguments of `report`.
#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// The session
    #[arg(add = complete::sessions())]
    pub session: String,
    /// The form; default what the name of the output file ends in, else `md`
    #[arg(long, value_enum, value_name = "FORM")]
    pub format: Option<ReportFormat>,
    /// Write to this file, whole or not at all, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Markdown
    Md,
    /// JSON; `agon schema report` prints its schema
    Json,
    /// One HTML file that needs nothing else
    Html,
}

/// Arguments of `debates`.
#[derive(Debug, Args)]
pub struct DebatesArgs {
    /// What to do; default `list`
    #[command(subcommand)]
    pub command: Option<DebatesCommand>,
}

/// Commands on debates.
#[derive(Debug, Subcommand)]
pub enum DebatesCommand {
    /// List debates, newest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show how a debate ended: verdict, vote, who moved, who disagrees
    Show {
        /// The session
        #[arg(add = complete::sessions())]
        session: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the report of a debate
    Report(ReportArgs),
}

//! Arguments of `squad`, `debate` and the demonstrations.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{ArenaArgs, LookArgs};

/// Arguments of `squad`.
#[derive(Debug, Clone, Default, Args)]
pub struct SquadArgs {
    /// The task; what comes through a pipe is appended to it
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// Follow this blueprint: a name, or a path to a TOML file; default `default`
    #[arg(long, value_name = "NAME|FILE")]
    pub blueprint: Option<String>,
    /// Run this command after each turn of a role that writes, beside the blueprint's checks (can be repeated)
    #[arg(long, value_name = "COMMAND")]
    pub check: Vec<String>,
    /// Use this model for roles that name none, as PROVIDER/MODEL
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// Neither look the run up in the team cache nor store it there
    #[arg(long, conflicts_with = "refresh")]
    pub no_cache: bool,
    /// Run again and replace the cached run
    #[arg(long)]
    pub refresh: bool,
    /// Require an answer that fits the JSON Schema in a file
    #[arg(long, value_name = "FILE")]
    pub output_schema: Option<PathBuf>,
    /// Go on in an earlier session instead of a new one
    #[arg(long, value_name = "SESSION")]
    pub resume: Option<String>,
    /// What `run` and `squad` share.
    #[command(flatten)]
    pub arena: ArenaArgs,
}

/// Arguments of `debate`.
#[derive(Debug, Clone, Default, Args)]
pub struct DebateArgs {
    /// The question, or @FILE to read it from a file; what comes through a pipe is appended to it
    #[arg(value_name = "TOPIC")]
    pub topic: Option<String>,
    /// Who debates, by persona id, separated by commas; default all six
    #[arg(long, value_name = "ID,ID", value_delimiter = ',')]
    pub personas: Vec<String>,
    /// Who states the propositions and writes the verdict
    #[arg(long, value_name = "ID", default_value = "moderator")]
    pub moderator: String,
    /// Phases in total, 2 to 12
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=12))]
    pub rounds: u32,
    /// How convergence is scored: `ballots` or `lexical`
    #[arg(long, value_name = "NAME", default_value = "ballots")]
    pub scorer: String,
    /// Use this model, as PROVIDER/MODEL, for everybody without one of their own
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// Give one persona a model (can be repeated): pragmatist=openai/gpt-5
    #[arg(long, value_name = "ID=PROVIDER/MODEL")]
    pub with_model: Vec<String>,
    /// Continue the debate of an earlier session; with a TOPIC, start a new one there
    #[arg(long, value_name = "SESSION")]
    pub resume: Option<String>,
    /// What `run`, `debate` and `demo` share.
    #[command(flatten)]
    pub arena: ArenaArgs,
}

/// Arguments of `demo`.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("theme", |look| look.requires("tui")), mut_arg("calm", |look| look.requires("tui")))]
pub struct DemoArgs {
    /// What to show
    #[arg(value_enum, default_value = "squad")]
    pub show: DemoKind,
    /// Show it in mission control; the approvals are yours
    #[arg(long, conflicts_with_all = ["json", "output"])]
    pub tui: bool,
    /// How that looks.
    #[command(flatten)]
    pub look: LookArgs,
    /// What `run` and `demo` share.
    #[command(flatten)]
    pub arena: ArenaArgs,
}

/// What `demo` can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DemoKind {
    /// One agent on one task
    Run,
    /// A squad: plan, code, check, review, revise, answer
    Squad,
    /// Six personas on one question
    Debate,
}

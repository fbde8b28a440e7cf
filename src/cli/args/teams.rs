//! Arguments of `squad`, `debate` and the demonstrations.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{ArenaArgs, EarlierArgs, LookArgs};
use crate::cli::complete;

/// Arguments of `squad`.
#[derive(Debug, Clone, Default, Args)]
pub struct SquadArgs {
    /// The task, or `-` for standard input; what comes through a pipe is appended to it
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// Follow this blueprint: a name, or a path to a TOML file; default `default`
    #[arg(long, value_name = "NAME|FILE", add = complete::blueprints())]
    pub blueprint: Option<String>,
    /// Run this command after each turn of a role that writes, beside the blueprint's checks (can be repeated)
    #[arg(long, value_name = "COMMAND")]
    pub check: Vec<String>,
    /// Use this model for roles that name none, as PROVIDER/MODEL
    #[arg(short, long, value_name = "PROVIDER/MODEL", add = complete::models())]
    pub model: Option<String>,
    /// Do not read or write the team cache
    #[arg(long, conflicts_with = "refresh")]
    pub no_cache: bool,
    /// Run again and replace the cached run
    #[arg(long)]
    pub refresh: bool,
    /// Require an answer that fits the JSON Schema in a file
    #[arg(long, value_name = "FILE")]
    pub output_schema: Option<PathBuf>,
    /// The session to continue.
    #[command(flatten)]
    pub earlier: EarlierArgs,
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
    #[arg(long, value_name = "ID,ID", add = complete::personas(), value_delimiter = ',')]
    pub personas: Vec<String>,
    /// Who states the propositions and writes the verdict
    #[arg(long, value_name = "ID", default_value = "moderator", add = complete::personas())]
    pub moderator: String,
    /// Phases in total, 2 to 12
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=12))]
    pub rounds: u32,
    /// How convergence is scored: `ballots` or `lexical`
    #[arg(long, value_name = "NAME", default_value = "ballots")]
    pub scorer: String,
    /// Use this model, as PROVIDER/MODEL, for everybody without one of their own
    #[arg(short, long, value_name = "PROVIDER/MODEL", add = complete::models())]
    pub model: Option<String>,
    /// Give one persona a model (can be repeated): pragmatist=openai/gpt-5
    #[arg(long, value_name = "ID=PROVIDER/MODEL", add = complete::personas())]
    pub with_model: Vec<String>,
    /// The session whose debate continues; with a TOPIC, a new one starts there.
    #[command(flatten)]
    pub earlier: EarlierArgs,
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

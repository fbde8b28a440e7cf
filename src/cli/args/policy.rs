//! What was typed after `agon policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{PermissionArgs, WorkspaceArgs};
use crate::config::SandboxKind;

/// Arguments of `policy`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PolicyArgs {
    /// What to do; default `list`
    #[command(subcommand)]
    pub command: Option<PolicyCommand>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}

/// Commands on rules.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// List the rules that apply here; those you kept have a number
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Show what each line of the order of judgement says to a call, and which one decides
    Explain(Box<ExplainArgs>),
    /// Remove a rule you kept
    Rm {
        /// Its number in the list
        number: usize,
    },
}

/// Arguments of `policy explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The call, such as `bash: cargo test` or `edit_file: src/main.rs`
    #[arg(value_name = "CALL")]
    pub call: String,
    /// What else the call needs, such as `host:example.org`; can be repeated
    #[arg(long, value_name = "NEED")]
    pub need: Vec<String>,
    /// At which level, and what is allowed.
    #[command(flatten)]
    pub permission: PermissionArgs,
    /// Add the policy rules of a TOML file
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// The sandbox it would run in; default that of your configuration
    #[arg(long, value_name = "KIND", hide_possible_values = false)]
    pub sandbox: Option<SandboxKind>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}

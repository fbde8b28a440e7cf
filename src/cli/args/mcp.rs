//! What was typed after `agon mcp`.

use clap::{Args, Subcommand};

use super::WorkspaceArgs;
use crate::config::mcp::ShownWorkspace;

/// Commands on servers of the Model Context Protocol.
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Add a server to your configuration, start it and list its tools
    Add(McpAddArgs),
    /// List the servers that are configured here
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Remove a server from your configuration
    #[command(visible_alias = "rm")]
    Remove {
        /// Its name
        name: String,
    },
    /// Start a server and list its tools, with what changed since they were accepted
    Tools {
        /// Its name
        name: String,
        /// Accept the tools as they are now
        #[arg(long)]
        accept: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Start a server and say whether it answers
    Test {
        /// Its name
        name: String,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
}

/// Arguments of `mcp add`.
#[derive(Debug, Args)]
pub struct McpAddArgs {
    /// Its name: letters, digits, `-` and `_`; its tools become `mcp__NAME__TOOL`
    pub name: String,
    /// A variable it gets: NAME with your value, or NAME=VALUE; can be repeated
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// A host it can reach, such as `api.example.org`, or a port of this machine, as `port:5432`; can be repeated
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
    /// What it sees of the workspace
    #[arg(long, value_name = "ACCESS", default_value = "none", hide_possible_values = false)]
    pub workspace_access: ShownWorkspace,
    /// Start it without a sandbox, with your own rights
    #[arg(long)]
    pub unconfined: bool,
    /// The command that starts it
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

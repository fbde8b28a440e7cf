//! What was typed after `agon init`, `agon keys` and `agon models`.

use clap::{Args, Subcommand};

use super::WorkspaceArgs;

/// Arguments of `init`.
#[derive(Debug, Default, Args)]
pub struct InitArgs {
    /// Use this model instead of asking, as PROVIDER/MODEL
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}

/// Arguments of `keys`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct KeysArgs {
    /// What to do; default `list`
    #[command(subcommand)]
    pub command: Option<KeysCommand>,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}

/// Commands on keys.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// List the providers that have a key, and where each key is
    List {
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Store a provider's key; it is asked for without being shown, or read from a pipe
    Set {
        /// The provider, such as `openai`, or `mcp.NAME` for a server of tools
        provider: String,
        /// A key would stay in the shell's history: it is refused here.
        #[arg(hide = true, num_args = 0.., allow_hyphen_values = true)]
        rest: Vec<String>,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Remove a stored key
    Rm {
        /// The provider
        provider: String,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
}

/// Arguments of `models`.
#[derive(Debug, Default, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ModelsArgs {
    /// What to do; default `list`
    #[command(subcommand)]
    pub command: Option<ModelsCommand>,
    /// How to list.
    #[command(flatten)]
    pub list: ModelsListArgs,
}

/// Arguments of `models list`.
#[derive(Debug, Clone, Default, Args)]
pub struct ModelsListArgs {
    /// Only models whose names contain these words
    #[arg(value_name = "WORD")]
    pub search: Vec<String>,
    /// Ask this provider alone
    #[arg(short, long, value_name = "NAME")]
    pub provider: Option<String>,
    /// List models for embeddings, speech and pictures as well
    #[arg(long)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}

/// Commands on models.
#[derive(Debug, Subcommand)]
pub enum ModelsCommand {
    /// List the models of every provider within reach, as their servers list them
    List(ModelsListArgs),
    /// Show what is known of one model and where each fact comes from
    Show {
        /// The model, as PROVIDER/MODEL
        model: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Fetch a GGUF file into the models' folder; run again, it continues where it stopped
    Pull {
        /// Where it is: the address of the download
        url: String,
        /// Its name in the folder; default the one in the address
        #[arg(long, value_name = "MODEL.gguf")]
        name: Option<String>,
        /// The SHA-256 it must have
        #[arg(long, value_name = "HEX")]
        sha256: Option<String>,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
}

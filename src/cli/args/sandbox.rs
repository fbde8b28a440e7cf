//! What was typed after `agon sandbox`.

use std::path::PathBuf;

use clap::Subcommand;

use super::WorkspaceArgs;

/// Commands on containers and their image.
#[derive(Debug, Subcommand)]
pub enum SandboxCommand {
    /// List agon's containers and who needs them
    Ps {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Remove the containers of dead sessions; every start of a docker session does the same
    Reap {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Make the image commands run in, once; needs a network
    Build {
        /// Name of the image; default `agon-sandbox`, whatever is configured
        #[arg(long, value_name = "NAME")]
        image: Option<String>,
        /// Use this Dockerfile instead of agon's own; it sees no other file
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Print the Dockerfile and make nothing
        #[arg(long)]
        show: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Fetch an image from its registry; default the configured one
    Pull {
        /// Name of the image
        #[arg(value_name = "IMAGE")]
        image: Option<String>,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
}

//! What may be typed before mission control begins; what it means is for `mission`.

use std::path::PathBuf;

use clap::Args;

use super::{ArenaArgs, WorkspaceArgs};
use crate::config::SandboxKind;
use crate::config::number::Dollars;

/// Arguments of `agon` without a command: mission control.
#[derive(Debug, Clone, Default, Args)]
pub struct ChatArgs {
    /// Go on with the newest session of this workspace
    #[arg(long = "continue")]
    pub go_on: bool,
    /// Use this model, as PROVIDER/MODEL
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// Work as this persona; default `solo`
    #[arg(long, value_name = "ID")]
    pub persona: Option<String>,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
    /// Answer every approval with yes; what policy denies stays denied
    #[arg(long)]
    pub yes: bool,
    /// Add the policy rules of a TOML file
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Confine the tools with this sandbox; default `auto`
    #[arg(long, value_name = "KIND", hide_possible_values = false)]
    pub sandbox: Option<SandboxKind>,
    /// Stop before the session costs more than this many dollars; needs a model with a known price
    #[arg(long, value_name = "DOLLARS")]
    pub max_usd: Option<Dollars>,
    /// Stop after this many tokens of the session, input and output
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_tokens: Option<u64>,
    /// Stop a turn after this many seconds of work
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_seconds: Option<u64>,
    /// Stop a turn after this many model calls, or `none`; default 100, in a debate 600
    #[arg(long, value_name = "N", value_parser = super::steps)]
    pub max_steps: Option<u32>,
    /// How the screen looks.
    #[command(flatten)]
    pub look: LookArgs,
    /// Take tasks line by line instead of drawing a screen
    #[arg(long)]
    pub plain: bool,
}

/// How mission control looks.
#[derive(Debug, Clone, Default, Args)]
pub struct LookArgs {
    /// Colours for a dark or a light screen, or none: dark, light, plain; default dark, or as COLORFGBG says
    #[arg(long, value_name = "THEME", value_parser = ["dark", "light", "plain"], hide_possible_values = true)]
    pub theme: Option<String>,
    /// Let nothing move by itself
    #[arg(long = "no-animation")]
    pub calm: bool,
}

impl ChatArgs {
    /// The flags that other commands have as well.
    pub fn arena(&self) -> ArenaArgs {
        ArenaArgs {
            workspace: self.workspace.clone(),
            yes: self.yes,
            policy: self.policy.clone(),
            sandbox: self.sandbox,
            max_usd: self.max_usd,
            max_tokens: self.max_tokens,
            max_seconds: self.max_seconds,
            max_steps: self.max_steps,
            ..ArenaArgs::default()
        }
    }
}

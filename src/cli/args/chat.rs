//! What may be typed before mission control begins; what it means is for `mission`.

use clap::Args;

use super::{HeldArgs, WorkspaceArgs};
use crate::cli::complete;

/// Arguments of `agon` without a command: mission control.
#[derive(Debug, Clone, Default, Args)]
pub struct ChatArgs {
    /// Begin with this task
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// Print the answer and leave, without a screen: the same as `agon run`
    #[arg(short, long)]
    pub print: bool,
    /// Continue the newest session of this workspace
    #[arg(short = 'c', long = "continue")]
    pub newest: bool,
    /// Resume a session; without one, choose from a list
    #[arg(short, long, value_name = "SESSION", num_args = 0..=1, conflicts_with = "newest", add = complete::sessions())]
    pub resume: Option<Option<String>>,
    /// Use this model, as PROVIDER/MODEL
    #[arg(short, long, value_name = "PROVIDER/MODEL", add = complete::models())]
    pub model: Option<String>,
    /// Work as this persona; default `solo`
    #[arg(long, value_name = "ID", add = complete::personas())]
    pub persona: Option<String>,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
    /// What its sessions are held to.
    #[command(flatten)]
    pub held: HeldArgs,
    /// How the screen looks.
    #[command(flatten)]
    pub look: LookArgs,
    /// Ask which model to use before the screen begins, as `agon init` does
    #[arg(long, conflicts_with = "plain")]
    pub set_up: bool,
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

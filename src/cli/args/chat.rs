//! What may be typed before mission control begins; what it means is for `mission`.

use clap::Args;

use super::{HeldArgs, WorkspaceArgs};

/// Arguments of `agon` without a command: mission control.
#[derive(Debug, Clone, Default, Args)]
pub struct ChatArgs {
    /// Continue the newest session of this workspace
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

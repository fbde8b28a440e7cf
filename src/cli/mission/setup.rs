//! What mission control begins with: configuration, policy, colours, the person's name, and whether the workspace may be one; opens nothing.

use std::sync::Arc;

use crate::cli::args::ChatArgs;
use crate::cli::consent::{AtTerminal, about_workspace};
use crate::cli::error::Failure;
use crate::cli::output::Output;
use crate::cli::plan;
use crate::config::{Config, Environment};
use crate::host::{self, Answers};
use crate::tui::Theme;

use super::controller::Mission;
use super::session_options::SessionOptions;

/// Reads what was typed and what is configured.
pub(super) fn mission(typed: &ChatArgs, environment: Environment) -> Result<Mission, Failure> {
    Ok(mission_with(typed, kit(typed, environment)?))
}

/// The same with what was set up already.
pub(super) fn mission_with(typed: &ChatArgs, kit: SessionOptions) -> Mission {
    let theme = theme(typed, &kit.environment);
    let by = kit.environment.get("USER").unwrap_or("you").to_owned();
    let answers = plan::yes(typed.held.yes)
        .map_or(Answers::People, |by| Answers::Yes { by: by.to_owned(), people: true });
    let mut mission = Mission::new(Arc::new(kit), by, theme, answers);
    mission.is_calm = typed.look.calm;
    mission
}

/// Asks whether a home or a folder of the system may be the workspace, before anything is drawn.
pub(super) async fn ask_about_workspace(kit: &mut SessionOptions, output: Output) -> Result<(), Failure> {
    host::holds_no_own_files(&kit.config, kit.config.workspace())?;
    if let Some(root) = about_workspace(&kit.config, AtTerminal { can_be_asked: true, output }).await? {
        // Kept for every session of this run, also where the configuration is read again.
        let value = toml::Value::Array(vec![root.display().to_string().into()]);
        kit.overrides.push(plan::set("--workspace", &["workspace", "allow"], value));
        kit.config.allow_workspace(&root);
    }
    Ok(())
}

/// What the flags and the configuration come to.
pub(super) fn kit(typed: &ChatArgs, environment: Environment) -> Result<SessionOptions, Failure> {
    let workspace = plan::workspace(&typed.workspace)?;
    let who = (typed.model.as_deref(), typed.persona.as_deref());
    let mut overrides = plan::overrides(&typed.held);
    overrides.extend(plan::named(who));
    let config = Config::load(environment.clone(), &workspace, &overrides)?;
    let changes = plan::changes(&typed.held, who, &config)?;
    Ok(SessionOptions { config, environment, overrides, changes })
}

/// `NO_COLOR` wins; then what was asked for; then what the terminal says of its background in `COLORFGBG`.
fn theme(typed: &ChatArgs, environment: &Environment) -> Theme {
    if environment.get("NO_COLOR").is_some() {
        return Theme::Plain;
    }
    let named = typed.look.theme.as_deref().or_else(|| environment.get("AGON_THEME"));
    let ground = environment.get("COLORFGBG").and_then(|colours| colours.rsplit(';').next());
    let is_light = ground.is_some_and(|ground| matches!(ground, "7" | "15"));
    let of_terminal = if is_light { Theme::Light } else { Theme::Dark };
    let theme = named.and_then(Theme::named).unwrap_or(of_terminal);
    if has_many_colours(environment) { theme } else { theme.few() }
}

/// True where the terminal says, or is known, to have 256 colours or more.
fn has_many_colours(environment: &Environment) -> bool {
    const KNOWN: [&str; 7] = ["256", "direct", "kitty", "alacritty", "ghostty", "wezterm", "foot"];
    let term = environment.get("TERM").unwrap_or_default();
    environment.get("COLORTERM").is_some_and(|word| !word.is_empty())
        || KNOWN.iter().any(|name| term.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_light_terminal_has_dark_letters_unless_something_else_was_asked_for() {
        let with = |words: &[(&str, &str)], asked: Option<&str>| {
            let words = words.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let mut typed = ChatArgs::default();
            typed.look.theme = asked.map(str::to_owned);
            theme(&typed, &words.collect())
        };
        let light = ("COLORFGBG", "0;15");
        let many = ("TERM", "xterm-256color");
        assert_eq!(with(&[light, many], None), Theme::Light);
        assert_eq!(with(&[("COLORFGBG", "15;default;0"), ("COLORTERM", "truecolor")], None), Theme::Dark);
        assert_eq!(with(&[light, many], Some("dark")), Theme::Dark);
        assert_eq!(with(&[light, many, ("NO_COLOR", "1")], Some("dark")), Theme::Plain);
        assert_eq!(with(&[light, ("TERM", "xterm")], None), Theme::LightFew);
        assert_eq!(with(&[("TERM", "linux")], Some("dark")), Theme::DarkFew);
    }
}

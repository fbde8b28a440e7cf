//! What mission control begins with: configuration, policy, colours, the person's name; opens nothing.

use crate::cli::args::ChatArgs;
use crate::cli::error::Failure;
use crate::cli::plan;
use crate::config::{Config, ConfigError, Environment, ModelName, Override};
use crate::tui::Theme;

use super::desk::Mission;

/// Reads what was typed and what is configured.
pub(super) fn mission(typed: &ChatArgs, environment: Environment) -> Result<Mission, Failure> {
    let workspace = plan::workspace(&typed.workspace)?;
    let theme = theme(typed, &environment);
    let by = environment.get("USER").filter(|name| !name.is_empty()).unwrap_or("you").to_owned();
    let overrides = overrides(typed);
    let config = Config::load(environment.clone(), &workspace, &overrides)?;
    let policy = plan::policy_of(&config, typed.policy.as_deref())?;
    let model = typed.model.as_deref().map(str::parse::<ModelName>).transpose().map_err(ConfigError::from)?;
    let mut mission = Mission::new(config, environment, policy, by, theme);
    mission.is_calm = typed.calm;
    mission.says_yes = typed.yes;
    mission.model_is_wanted = model.is_some();
    mission.changes.model = model;
    mission.changes.persona.clone_from(&typed.persona);
    Ok(mission)
}

/// The values that the flags set.
pub(super) fn overrides(typed: &ChatArgs) -> Vec<Override> {
    let mut overrides = plan::overrides(&typed.arena());
    let text = |text: &String| toml::Value::String(text.clone());
    overrides.extend(typed.model.as_ref().map(|model| plan::set("--model", &["model"], text(model))));
    overrides.extend(typed.persona.as_ref().map(|id| plan::set("--persona", &["persona"], text(id))));
    overrides
}

/// `NO_COLOR` wins; then what was asked for.
fn theme(typed: &ChatArgs, environment: &Environment) -> Theme {
    if environment.get("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        return Theme::Plain;
    }
    let named = typed.theme.as_deref().or_else(|| environment.get("AGON_THEME"));
    named.and_then(Theme::named).unwrap_or_default()
}

//! Rules that a person kept when asked: a file beside the user's configuration that agon writes itself.

use std::path::Path;

use serde::Serialize;

use crate::config::ConfigError;
use crate::config::file::{ConfigFile, PolicyTable};
use crate::config::layer::Layer;
use crate::config::layer::read_bounded;
use crate::config::policy::RuleTable;
use crate::config::written::{alone, replace};
use crate::protocol::spec::Rule;

const HEAD: &str = "\
# Rules you kept when agon asked. `agon policy list` shows them, `agon policy rm NUMBER` removes one.
";

/// The file as it is written: a part of a configuration file.
#[derive(Serialize)]
struct Written {
    policy: Rules,
}

#[derive(Serialize)]
struct Rules {
    rules: Vec<RuleTable>,
}

/// The kept rules, in their order; none without a file.
pub fn rules(file: &Path) -> Result<Vec<RuleTable>, ConfigError> {
    let Some(text) = read_bounded(file)? else { return Ok(Vec::new()) };
    let read: ConfigFile = Layer::parse(&text, file)?.typed()?;
    Ok(read.policy.map(|PolicyTable { rules, .. }| rules).unwrap_or_default())
}

/// Keeps a rule that a person granted, for one workspace or for all. Gives the number that `agon policy rm` takes.
pub fn keep(file: &Path, rule: &Rule, workspace: Option<&Path>) -> Result<usize, ConfigError> {
    if rule.call.is_some() {
        let why =
            "it allows one call alone, whose needs do not say what it is about; allow it for the session";
        return Err(ConfigError::Write { path: file.to_owned(), source: std::io::Error::other(why) });
    }
    let _alone = alone(file).map_err(|source| ConfigError::Write { path: file.to_owned(), source })?;
    let mut kept = rules(file)?;
    let workspace = workspace.map(|root| root.display().to_string());
    // `granted by WHO: WHAT`.
    let name = rule.name.split_once(": ").map_or(rule.name.as_str(), |(_, what)| what);
    let table = RuleTable { name: format!("kept: {name}"), workspace, ..RuleTable::of(rule) };
    let at = kept.iter().position(|old| *old == table).unwrap_or(kept.len());
    if at == kept.len() {
        kept.push(table);
        write(file, kept)?;
    }
    Ok(at + 1)
}

/// Removes the kept rule of this number, the first is 1; none where there is none.
pub fn remove(file: &Path, number: usize) -> Result<Option<RuleTable>, ConfigError> {
    let _alone = alone(file).map_err(|source| ConfigError::Write { path: file.to_owned(), source })?;
    let mut kept = rules(file)?;
    if number == 0 || number > kept.len() {
        return Ok(None);
    }
    let removed = kept.remove(number - 1);
    write(file, kept)?;
    Ok(Some(removed))
}

fn write(file: &Path, rules: Vec<RuleTable>) -> Result<(), ConfigError> {
    let failed = |source| ConfigError::Write { path: file.to_owned(), source };
    let text = toml::to_string(&Written { policy: Rules { rules } });
    let text = text.map_err(|error| failed(std::io::Error::other(error)))?;
    replace(file, &format!("{HEAD}\n{text}")).map_err(failed)
}

//! Rules that a person kept when asked: a file beside the user's configuration that agon writes itself.

use std::path::Path;

use serde::Serialize;

use crate::config::file::{ConfigFile, PolicyTable};
use crate::config::layer::read_bounded;
use crate::config::policy::RuleTable;
use crate::config::written::replace;
use crate::config::{Config, ConfigError, Layer};
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

impl Config {
    /// Keeps a rule that allows something, for this workspace or for all. Gives the line that `agon policy rm` takes.
    pub fn keep(&self, rule: &Rule, everywhere: bool) -> Result<usize, ConfigError> {
        let file = self.places().kept_rules();
        let mut kept = rules(&file)?;
        let workspace = (!everywhere).then(|| self.workspace().display().to_string());
        let table = RuleTable { workspace, ..RuleTable::of(rule) };
        let is_same = |old: &RuleTable| RuleTable { name: table.name.clone(), ..old.clone() } == table;
        let at = kept.iter().position(is_same).unwrap_or(kept.len());
        if at == kept.len() {
            kept.push(table);
            write(&file, kept)?;
        }
        Ok(at + 1)
    }
}

/// Removes the kept rule of this number, the first is 1; none where there is none.
pub fn remove(file: &Path, number: usize) -> Result<Option<RuleTable>, ConfigError> {
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

//! Servers of the Model Context Protocol: their tables, and how `agon mcp` writes and removes one.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::config::layer::read_bounded;
use crate::config::written::replace;
use crate::config::{ConfigError, SandboxKind};

/// Bytes of a server's name: it is part of the names of its tools.
const MAX_NAME: usize = 32;

/// One server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpTable {
    /// The program that is the server.
    pub command: Option<String>,
    /// Its arguments, which no shell reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables it gets: `NAME` with the value of agon's environment, or `NAME=VALUE`. It sees no other of agon's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// What it sees of the workspace; default `none`.
    pub workspace: Option<ShownWorkspace>,
    /// Hosts it can reach, such as `api.example.org`, and ports of this machine, as `port:5432`; default none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// `none` starts it with your own rights; by default the strongest sandbox of this machine's kernel holds it.
    pub sandbox: Option<SandboxKind>,
    /// Milliseconds until it must have listed its tools; default 30000.
    pub start_timeout_ms: Option<u64>,
    /// False leaves it out; default true.
    pub enabled: Option<bool>,
}

/// What a server sees of the workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum ShownWorkspace {
    /// Nothing: it works in a folder of its own.
    #[default]
    None,
    /// It can read it.
    Read,
    /// It can read and change it.
    Write,
}

impl McpTable {
    /// Refuses a table that starts nothing, and a name that cannot be part of the names of tools.
    pub fn check(&self, name: &str) -> Result<(), ConfigError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let fits = !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_plain);
        let sandbox = matches!(
            self.sandbox,
            None | Some(
                SandboxKind::Auto | SandboxKind::Local | SandboxKind::LandlockOnly | SandboxKind::None
            )
        );
        let why = if !fits || name.contains("__") {
            format!("a name has 1 to {MAX_NAME} letters, digits, `-` and single `_`")
        } else if self.command.as_deref().is_none_or(str::is_empty) {
            "`command` names no program".to_owned()
        } else if !sandbox {
            "`sandbox` is `auto`, `local`, `landlock-only` or `none`".to_owned()
        } else if self.env.iter().any(|one| one.starts_with('=') || one.is_empty()) {
            "`env` has a variable without a name".to_owned()
        } else {
            return Ok(());
        };
        Err(ConfigError::Mcp { name: name.to_owned(), why })
    }

    /// The variables whose values come from agon's environment.
    pub fn passed_on(&self) -> impl Iterator<Item = &str> {
        self.env.iter().map(String::as_str).filter(|one| !one.contains('='))
    }

    /// Program and arguments.
    pub fn words(&self) -> Vec<String> {
        self.command.iter().chain(&self.args).cloned().collect()
    }
}

/// Adds the table of a server to a configuration; nothing else of the file changes.
pub fn add(file: &Path, name: &str, table: &McpTable) -> Result<(), ConfigError> {
    table.check(name)?;
    let own = toml::to_string(table).map_err(|error| ConfigError::Internal(error.to_string()))?;
    let block = format!("[mcp.{name}]\n{own}");
    let before = read_bounded(file)?.unwrap_or_default();
    let gap = if before.is_empty() || before.ends_with("\n\n") { "" } else { "\n" };
    let end = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let after = format!("{before}{end}{gap}{block}");
    write(file, (&before, after), name, Some(table), block)
}

/// Removes the table of a server; false where the file has none.
pub fn remove(file: &Path, name: &str) -> Result<bool, ConfigError> {
    let before = read_bounded(file)?.unwrap_or_default();
    let is_header = |line: &str| line.trim_start().starts_with('[');
    let is_its = |line: &str| {
        let line = line.split('#').next().unwrap_or_default().trim();
        line == format!("[mcp.{name}]") || line == format!("[mcp.\"{name}\"]")
    };
    if servers(&before).and_then(|(_, mut mcp)| mcp.remove(name)).is_none() {
        return Ok(false);
    }
    let mut is_within = false;
    let kept = before.split_inclusive('\n').filter(|line| {
        is_within = if is_header(line) { is_its(line) } else { is_within };
        !is_within
    });
    let after = kept.collect::<String>();
    write(file, (&before, after), name, None, format!("(without [mcp.{name}])")).map(|()| true)
}

/// What a configuration holds besides servers, and its servers.
fn servers(text: &str) -> Option<(Table, Table)> {
    let mut table: Table = toml::from_str(text).ok()?;
    let mcp = match table.remove("mcp") {
        Some(Value::Table(mcp)) => mcp,
        _ => Table::new(),
    };
    Some((table, mcp))
}

/// Writes the file if nothing but this server is different.
fn write(
    file: &Path,
    (before, after): (&str, String),
    name: &str,
    table: Option<&McpTable>,
    line: String,
) -> Result<(), ConfigError> {
    let not_written = || ConfigError::NotWritten { path: file.to_owned(), what: format!("mcp.{name}"), line };
    let Some(((others, mut mcp), (new_others, new_mcp))) = servers(before).zip(servers(&after)) else {
        return Err(not_written());
    };
    match table.map(Table::try_from).transpose() {
        Ok(Some(table)) => drop(mcp.insert(name.to_owned(), Value::Table(table))),
        Ok(None) => drop(mcp.remove(name)),
        Err(error) => return Err(ConfigError::Internal(error.to_string())),
    }
    if others != new_others || mcp != new_mcp {
        return Err(not_written());
    }
    replace(file, &after).map_err(|source| ConfigError::Write { path: file.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(command: &str) -> McpTable {
        McpTable { command: Some(command.to_owned()), ..McpTable::default() }
    }

    #[test]
    fn a_server_is_added_and_removed_and_the_rest_stays_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        let mine = "# mine\nmodel = 'a/b' # why\n[limits]\nmax_steps = 5";
        std::fs::write(&file, mine).unwrap();
        add(&file, "time", &table("uvx")).unwrap();
        add(&file, "fs", &McpTable { args: vec!["a'b\"c".to_owned()], ..table("npx") }).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with(mine), "{text}");
        assert!(text.contains("\n[mcp.time]\ncommand = \"uvx\"\n\n[mcp.fs]\n"), "{text}");
        assert!(add(&file, "fs", &table("other")).is_err(), "a second table of one name is none");
        assert!(remove(&file, "time").unwrap() && !remove(&file, "time").unwrap());
        assert!(remove(&file, "fs").unwrap());
        assert_eq!(std::fs::read_to_string(&file).unwrap().trim_end(), mine);
    }

    #[test]
    fn what_is_no_server_is_refused() {
        for name in ["", "a__b", "a b", "ä", "a.b", &"x".repeat(33)] {
            assert!(table("x").check(name).is_err(), "{name}");
        }
        assert!(McpTable::default().check("a").is_err());
        assert!(McpTable { sandbox: Some(SandboxKind::Docker), ..table("x") }.check("a").is_err());
        assert!(McpTable { env: vec!["=x".to_owned()], ..table("x") }.check("a").is_err());
        assert!(table("x").check("my-server_2").is_ok());
    }

    #[test]
    fn a_table_that_cannot_be_taken_out_alone_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, "mcp = { a = { command = \"x\" } }\n").unwrap();
        assert!(remove(&file, "a").is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mcp = { a = { command = \"x\" } }\n");
    }
}

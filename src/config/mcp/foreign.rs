//! Servers that are configured in other tools, as tables of ours.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::McpTable;
use crate::config::ConfigError;
use crate::config::layer::read_bounded;

/// A tool that has servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OtherTool {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Cursor.
    Cursor,
}

impl OtherTool {
    /// Its files of the user and of a workspace, and the table of servers in them.
    fn files(self, home: &Path, workspace: &Path) -> (Vec<PathBuf>, &'static str) {
        match self {
            OtherTool::Claude => (vec![home.join(".claude.json"), workspace.join(".mcp.json")], "mcpServers"),
            OtherTool::Codex => (vec![home.join(".codex/config.toml")], "mcp_servers"),
            OtherTool::Cursor => {
                (vec![home.join(".cursor/mcp.json"), workspace.join(".cursor/mcp.json")], "mcpServers")
            }
        }
    }

    /// The servers it has, by name; one that agon cannot take has the reason.
    pub fn servers(
        self,
        home: &Path,
        workspace: &Path,
    ) -> Result<BTreeMap<String, Result<McpTable, String>>, ConfigError> {
        let (files, key) = self.files(home, workspace);
        let mut found = BTreeMap::new();
        for file in files {
            let Some(text) = read_bounded(&file)? else { continue };
            let is_toml = file.extension().is_some_and(|end| end == "toml");
            let read = match is_toml {
                true => toml::from_str::<Value>(&text).map_err(|error| error.message().to_owned()),
                false => serde_json::from_str::<Value>(&text).map_err(|error| error.to_string()),
            };
            let damaged = |message| ConfigError::Damaged { path: file.clone(), line: 1, message };
            let whole = read.map_err(damaged)?;
            let of_workspace = whole.pointer(&format!(
                "/projects/{}/{key}",
                workspace.display().to_string().replace('~', "~0").replace('/', "~1")
            ));
            for servers in [whole.get(key), of_workspace].into_iter().flatten().filter_map(Value::as_object) {
                let taken = servers.iter().map(|(name, server)| (name.clone(), table(name, server)));
                found.extend(taken);
            }
        }
        Ok(found)
    }
}

fn table(name: &str, server: &Value) -> Result<McpTable, String> {
    let text = |key: &str| server.get(key).and_then(Value::as_str).map(str::to_owned);
    let pairs = |key: &str| -> BTreeMap<String, String> {
        let pairs = server.get(key).and_then(Value::as_object).into_iter().flatten();
        pairs.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
    };
    let list = |key: &str| -> Vec<String> {
        let items = server.get(key).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(|item| Some(item.as_str()?.to_owned())).collect()
    };
    // `${NAME}` is the variable itself.
    let is_itself =
        |name: &str, value: &str| value.starts_with('$') && value.trim_matches(['$', '{', '}']) == name;
    let variable = |(name, value): (String, String)| match is_itself(&name, &value) {
        true => name,
        false => format!("{name}={value}"),
    };
    let url = text("url");
    let table = McpTable {
        command: text("command").filter(|_| url.is_none()),
        args: if url.is_none() { list("args") } else { Vec::new() },
        env: pairs("env").into_iter().map(variable).chain(list("env_vars")).collect(),
        headers: pairs("headers").into_iter().chain(pairs("http_headers")).collect(),
        api_key_env: text("bearer_token_env_var"),
        url,
        ..McpTable::default()
    };
    table.check(name).map_err(|error| error.to_string()).map(|()| table)
}

//! The command `mcp`: adds, lists, removes and looks at servers of the Model Context Protocol.

use std::time::Instant;

use serde_json::json;

use crate::cli::args::{McpAddArgs, McpCommand, WorkspaceArgs};
use crate::cli::config::load;
use crate::cli::error::Failure;
use crate::cli::interrupts::unless_interrupted;
use crate::cli::output::Output;
use crate::config::mcp::{self, McpTable, ShownWorkspace};
use crate::config::{Config, Environment, KeyPath, Places, SandboxKind};
use crate::host::mcp::{Definition, Standing, look};
use crate::projection::safe_text::shown;
use crate::projection::visible;

/// Characters of a description in a list.
const MOST_SHOWN: usize = 100;

/// Runs an `mcp` command.
pub async fn run(command: McpCommand, environment: Environment, output: Output) -> Result<(), Failure> {
    match command {
        McpCommand::Add(typed) => add(&typed, environment, output).await,
        McpCommand::List { json, workspace } => list(&load(&workspace, environment, output)?, json, output),
        McpCommand::Remove { name } => {
            let file = Places::find(&environment)?.config_file();
            match mcp::remove(&file, &name)? {
                true => output.say(&format!("removed the server `{name}`")),
                false => {
                    let words = format!("no server `{name}` is in `{}`", file.display());
                    return Err(Failure::usage(words).hint("agon mcp list"));
                }
            }
            Ok(())
        }
        McpCommand::Tools { name, accept, json, workspace } => {
            let config = load(&workspace, environment, output)?;
            let tools = unless_interrupted(look(&config, &name, accept)).await??;
            if json {
                let row = |(tool, standing): &(Definition, Standing)| json!({ "name": tool.offered_as(&name), "tool": tool, "standing": word(standing) });
                return output.json(&json!(tools.iter().map(row).collect::<Vec<_>>()));
            }
            output.data(&shown(&listed(&name, &tools)))?;
            if !accept && tools.iter().any(|(_, standing)| *standing != Standing::Accepted) {
                output.say(&format!("`agon mcp tools {name} --accept` accepts them as they are now"));
            }
            Ok(())
        }
        McpCommand::Test { name, workspace } => {
            let config = load(&workspace, environment, output)?;
            let begun = Instant::now();
            let tools = unless_interrupted(look(&config, &name, false)).await??;
            let ms = begun.elapsed().as_millis();
            output.data(&format!("{name} answers: {} tools in {ms} ms\n", tools.len()))
        }
    }
}

async fn add(typed: &McpAddArgs, environment: Environment, output: Output) -> Result<(), Failure> {
    let (name, file) = (typed.name.as_str(), Places::find(&environment)?.config_file());
    let mut words = typed.command.iter().cloned();
    let table = McpTable {
        command: words.next(),
        args: words.collect(),
        env: typed.env.clone(),
        workspace: Some(typed.workspace_access).filter(|access| *access != ShownWorkspace::None),
        hosts: typed.host.clone(),
        sandbox: typed.unconfined.then_some(SandboxKind::None),
        ..McpTable::default()
    };
    let before = load(&WorkspaceArgs::default(), environment.clone(), output)?;
    if before.file().mcp.contains_key(name) {
        let words = format!("there is already a server `{name}`");
        return Err(Failure::usage(words).hint(format!("agon mcp remove {name}")));
    }
    mcp::add(&file, name, &table)?;
    output.say(&format!("added `{name}` to `{}`\n{}", file.display(), gets(&table)));
    let config = load(&WorkspaceArgs::default(), environment, Output::default())?;
    match unless_interrupted(look(&config, name, true)).await? {
        Ok(tools) => output.data(&shown(&listed(name, &tools))),
        Err(error) => {
            output.say(&format!("warning: {}", shown(&error.to_string())));
            output.say(&format!("`agon mcp test {name}` tries again"));
            Ok(())
        }
    }
}

/// What a server gets, in words.
fn gets(table: &McpTable) -> String {
    let list = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let workspace = match (table.sandbox, table.workspace.unwrap_or_default()) {
        (Some(SandboxKind::None), _) => "no sandbox: it has your own rights",
        (_, ShownWorkspace::None) => "workspace not shown",
        (_, ShownWorkspace::Read) => "workspace read-only",
        (_, ShownWorkspace::Write) => "workspace writable",
    };
    let names = table.env.iter().map(|one| one.split('=').next().unwrap_or_default()).collect();
    let hosts = table.hosts.iter().map(String::as_str).collect();
    format!("  {workspace}; hosts: {}; variables: {}", list(hosts), list(names))
}

fn list(config: &Config, json: bool, output: Output) -> Result<(), Failure> {
    let servers = &config.file().mcp;
    if json {
        return output.json(&json!(servers));
    }
    if servers.is_empty() {
        output.say("no server is configured; `agon mcp add NAME -- COMMAND` adds one");
    }
    let line = |(name, table): (&String, &McpTable)| {
        let leaf = config.layer().0.get(&KeyPath::of(&["mcp", name]));
        let source = leaf.and_then(|leaf| leaf.sources.first()).map(ToString::to_string).unwrap_or_default();
        let off = if table.enabled == Some(false) { " (off)" } else { "" };
        format!("{name}{off}: {}\n{}\n  from {source}\n", table.words().join(" "), gets(table))
    };
    output.data(&shown(&servers.iter().map(line).collect::<String>()))
}

fn word(standing: &Standing) -> &'static str {
    match standing {
        Standing::Accepted => "accepted",
        Standing::New => "new",
        Standing::Changed(_) => "changed",
    }
}

/// The tools of a server, a line each, and under those that are not accepted what a person has to know.
fn listed(server: &str, tools: &[(Definition, Standing)]) -> String {
    let line = |(tool, standing): &(Definition, Standing)| {
        let whole = tool.shown();
        let first = whole.lines().next().unwrap_or_default();
        let (name, short) = (tool.offered_as(server), first.chars().take(MOST_SHOWN).collect::<String>());
        let more = if short.len() < whole.len() { "…" } else { "" };
        match standing {
            Standing::Accepted => format!("{name}  {short}{more}\n"),
            Standing::New => format!("{name}  NEW: {}\n", visible::shown(&tool.description)),
            Standing::Changed(before) => format!("{name}  CHANGED\n{}", tool.diff(before)),
        }
    };
    tools.iter().map(line).collect()
}

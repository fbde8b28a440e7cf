//! The command `keys`: stores keys of providers, lists where each is, never shows one.

use std::io::{IsTerminal, Read};

use anyhow::Context as _;

use crate::cli::args::{KeysArgs, KeysCommand};
use crate::cli::config::load;
use crate::cli::error::{Failure, USAGE};
use crate::cli::interrupts::unless_interrupted;
use crate::cli::output::Output;
use crate::cli::typed_lines;
use crate::config::file::ProviderTable;
use crate::config::keys::key_of;
use crate::config::learnt::server_of;
use crate::config::providers::{PRESETS, complete, is_loopback};
use crate::config::{Config, ConfigError, Environment, Kept, KeySource, Keys, Secret};
use crate::projection::safe_text::shown;

/// What the names of keys for servers of tools begin with.
const OF_SERVERS: &str = "mcp.";

/// The most that is read of a pipe.
const MOST_PIPED: u64 = 64 << 10;

/// Runs a `keys` command; without one they are listed.
pub async fn run(typed: KeysArgs, environment: Environment, output: Output) -> Result<(), Failure> {
    match typed.command.unwrap_or(KeysCommand::List { workspace: typed.workspace }) {
        KeysCommand::List { workspace } => list(&load(&workspace, environment, output)?, output),
        KeysCommand::Set { rest, .. } if !rest.is_empty() => {
            let words = "a key is no argument: it would stay in your shell's history";
            Err(Failure::usage(words)
                .hint("paste it when agon asks, or pipe it: agon keys set PROVIDER < FILE"))
        }
        KeysCommand::Set { provider, workspace, .. } => {
            let config = load(&workspace, environment, output)?;
            set(&config, &provider, output).await
        }
        KeysCommand::Rm { provider, workspace } => {
            let file = load(&workspace, environment, output)?.places().keys();
            match Keys::remove(&file, &provider)? {
                true => output.say(&format!("removed the key of `{provider}`")),
                false => {
                    let words = format!("no key is stored for `{provider}`");
                    return Err(Failure::usage(words).hint("agon keys list"));
                }
            }
            Ok(())
        }
    }
}

fn list(config: &Config, output: Output) -> Result<(), Failure> {
    let rows: Vec<(&str, String)> = config
        .providers()
        .filter_map(|name| Some((name, config.key_source(name)?.to_string())))
        .chain(config.keys().all().filter_map(|(name, server)| unused(config, name, server)))
        .chain(config.file().providers.iter().filter_map(|(name, table)| withheld(config, name, table)))
        .collect();
    if rows.is_empty() {
        output.say("no key is set or stored; `agon keys set PROVIDER` stores one");
    }
    let lines = rows.iter().map(|(name, where_from)| format!("{name:14} {where_from}\n"));
    output.data(&shown(&lines.collect::<String>()))
}

/// A stored key that is not sent, and why.
fn unused<'a>(config: &Config, name: &'a str, server: &str) -> Option<(&'a str, String)> {
    match config.key_source(name) {
        Some(KeySource::Stored) => None,
        Some(KeySource::Variable(variable)) => {
            Some((name, format!("a key is stored and not used, since `{variable}` is set")))
        }
        None if name.starts_with(OF_SERVERS) => Some((name, format!("a key is stored for {server}"))),
        None => Some((name, format!("a key is stored for {server}, where `{name}` is not any more"))),
    }
}

/// A key of the environment that is not sent, since the provider has another address than its own.
fn withheld<'a>(config: &Config, name: &'a str, table: &ProviderTable) -> Option<(&'a str, String)> {
    let variable = PRESETS.iter().find(|preset| preset.name == name)?.api_key_env?;
    let url = table.base_url.as_deref().filter(|_| config.key_source(name).is_none())?;
    config.environment().get(variable)?;
    let server = server_of(url);
    Some((
        name,
        format!(
            "`{variable}` is set and not sent to {server}: `api_key_env = \"{variable}\"` sends it there"
        ),
    ))
}

/// Asks for a provider's key and stores it.
pub(super) async fn set(config: &Config, provider: &str, output: Output) -> Result<(), Failure> {
    let (url, variable) = match provider.strip_prefix(OF_SERVERS) {
        Some(server) => {
            let table = config.file().mcp.get(server).cloned().unwrap_or_default();
            let none = || Failure::usage(format!("no server `{server}` has a `url`")).hint("agon mcp list");
            (table.url.ok_or_else(none)?, table.api_key_env)
        }
        None => {
            let Some(table) = complete(provider, config.file().providers.get(provider)) else {
                return Err(config.no_provider(provider).into());
            };
            let missing = || ConfigError::ProviderKey { provider: provider.to_owned(), key: "base_url" };
            (table.base_url.ok_or_else(missing)?, table.api_key_env)
        }
    };
    if url.starts_with("http://") && !is_loopback(&url) {
        output.warn(&format!(
            "`{provider}` is reached without encryption: others on its network can read the key"
        ));
    }
    let server = server_of(&url);
    let key = ask(&format!("Key of `{provider}` for {server} (not shown): "), output).await?;
    let file = config.places().keys();
    match Keys::set(&file, provider, &server, &key)? {
        Kept::Keychain => output.say("stored in the system's keychain"),
        Kept::File(refused) => {
            if let Some(why) = refused {
                output.warn(&format!("the system's keychain is not available: {why}"));
            }
            output.say(&format!("stored in `{}`, which only you can read", file.display()));
        }
    }
    if let Some(variable) = variable.filter(|name| config.environment().get(name).is_some()) {
        output.warn(&format!("`{variable}` is set and counts before the stored key"));
    }
    Ok(())
}

/// A key, typed without being shown or piped.
async fn ask(question: &str, output: Output) -> Result<Secret, Failure> {
    if !std::io::stdin().is_terminal() {
        let mut piped = String::new();
        std::io::stdin().lock().take(MOST_PIPED).read_to_string(&mut piped)?;
        return key_of(&piped).map_err(Failure::usage);
    }
    loop {
        let line = unless_interrupted(typed_lines::hidden_line(|| output.tell(question))).await;
        output.tell("\n");
        let line = line?.context("cannot read the key").map_err(|error| Failure::new(USAGE, error))?;
        match key_of(line.as_deref().unwrap_or_default()) {
            // Whoever pastes once more must not paste into the shell.
            Err(why) if line.as_ref().is_some_and(|line| !line.trim().is_empty()) => output.say(why),
            key => return key.map_err(Failure::usage),
        }
    }
}

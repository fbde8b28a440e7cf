//! The servers of a configuration as sources of tools, each with what starts it and the sandbox it runs in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::WireError;
use super::confine::{self, Wanted};
use crate::config::mcp::{McpTable, ShownWorkspace};
use crate::config::{Config, SandboxKind};
pub use crate::mcp::{Definition, Standing};
use crate::mcp::{Launch, OpenSandbox, Server};
use crate::ports::{Sandbox, ToolSource};

/// Milliseconds in which a server lists its tools, unless its table says otherwise.
const START_MS: u64 = 30_000;

/// The names of the servers that are switched on.
pub(super) fn names(config: &Config) -> Vec<String> {
    let on = config.file().mcp.iter().filter(|(_, table)| table.enabled != Some(false));
    on.map(|(name, _)| name.clone()).collect()
}

/// The servers that are switched on, none of them started; `root` is what they see as the workspace.
pub(super) fn sources(config: &Config, root: &Path) -> Vec<(String, Arc<dyn ToolSource>)> {
    let names = names(config);
    if names.is_empty() {
        return Vec::new();
    }
    let shared = Arc::new(config.clone());
    let server = |name: String| {
        let table = config.file().mcp.get(&name)?;
        let server: Arc<dyn ToolSource> = Arc::new(server(&shared, (&name, table), root));
        Some((name, server))
    };
    names.into_iter().filter_map(server).collect()
}

fn server(config: &Arc<Config>, (name, table): (&str, &McpTable), root: &Path) -> Server {
    let (mut environment, mut missing) = (BTreeMap::new(), Vec::new());
    for one in &table.env {
        let value = match one.split_once('=') {
            Some((name, value)) => Some((name, value)),
            None => config.environment().get(one).map(|value| (one.as_str(), value)),
        };
        match value {
            Some((name, value)) => drop(environment.insert(name.to_owned(), value.to_owned())),
            None => missing.push(one.clone()),
        }
    }
    let folder = config.places().mcp();
    let launch = Launch {
        name: name.to_owned(),
        command: table.words(),
        environment,
        hosts: table.hosts.clone(),
        start_ms: table.start_timeout_ms.unwrap_or(START_MS),
        may_write: table.workspace == Some(ShownWorkspace::Write),
        pins: folder.join(format!("{name}.json")),
    };
    let fault = missing.first().map(|name| format!("`{name}`, which it is to get, is not set"));
    Server::new(launch, opening((Arc::clone(config), fault), table, (root, folder.join(name))))
}

/// Makes a server's sandbox when it is started: around the workspace, or around a folder of its own.
fn opening(
    (config, fault): (Arc<Config>, Option<String>),
    table: &McpTable,
    (root, own): (&Path, PathBuf),
) -> OpenSandbox {
    let (kind, shown, workspace) =
        (table.sandbox.unwrap_or_default(), table.workspace.unwrap_or_default(), root.to_owned());
    Box::new(move || {
        let (config, fault, own, workspace) =
            (Arc::clone(&config), fault.clone(), own.clone(), workspace.clone());
        Box::pin(async move {
            fault.map_or(Ok(()), Err)?;
            let root = if shown == ShownWorkspace::None { own } else { workspace };
            if shown == ShownWorkspace::None {
                std::fs::create_dir_all(&root)
                    .map_err(|error| format!("its folder `{}` cannot be made: {error}", root.display()))?;
            }
            let opened = sandbox(&config, kind, &root, shown == ShownWorkspace::Read).await;
            opened.map_err(|error| format!("{error}; `sandbox = \"none\"` starts it with your own rights"))
        })
    })
}

/// The strongest sandbox of this machine's kernel, or the kind that was named.
async fn sandbox(
    config: &Config,
    kind: SandboxKind,
    root: &Path,
    read_only: bool,
) -> Result<Arc<dyn Sandbox>, WireError> {
    let wanted = |kind| Wanted {
        kind,
        root,
        session: "mcp",
        rules: &[],
        read_only,
        has_consent: false,
        is_looked_at: false,
    };
    match kind {
        SandboxKind::Auto => match confine::confined(config, wanted(SandboxKind::Local)).await {
            Ok(sandbox) => Ok(sandbox),
            Err(error) => {
                let less = confine::confined(config, wanted(SandboxKind::LandlockOnly)).await;
                less.map_err(|_| error)
            }
        },
        kind => confine::confined(config, wanted(kind)).await,
    }
}

/// Starts one server, waits for its list of tools and ends it; with `accept` the tools are accepted as they are now.
pub async fn look(
    config: &Config,
    name: &str,
    accept: bool,
) -> Result<Vec<(Definition, Standing)>, WireError> {
    let failed = |why: String| WireError::Server { name: name.to_owned(), why };
    let Some(table) = config.file().mcp.get(name) else {
        return Err(failed("no such server is configured".to_owned()));
    };
    let (server, stop) =
        (server(&Arc::new(config.clone()), (name, table), config.workspace()), CancellationToken::new());
    let looked = async {
        let listed = server.listed().await;
        let listed = match listed {
            Ok(listed) if accept => server.accept().await.map(|()| listed),
            listed => listed,
        };
        stop.cancel();
        listed
    };
    let (listed, ()) = tokio::join!(looked, server.attend(&stop));
    listed.map_err(failed)
}

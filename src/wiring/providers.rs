//! Turns configured connections into providers, and gathers the secrets that come with them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::config::providers::known_keys;
use crate::config::{Config, Connection, ModelName};
use crate::library::{self, demo};
use crate::ports::Provider;
use crate::protocol::spec::ModelSpec;
use crate::protocol::{ArenaEvent, Entry};
use crate::provider::Timeouts;
use crate::provider::openai::{OpenAi, OpenAiConfig};
use crate::provider::script::Script;
use crate::wiring::WireError;

/// The most a script may hold, in bytes.
const MAX_SCRIPT: u64 = 8 << 20;

/// Providers by name, and what must be blanked out: name and value.
pub(super) struct Connected {
    pub providers: BTreeMap<String, Arc<dyn Provider>>,
    pub secrets: Vec<(String, String)>,
}

/// Connects the provider of every model in use. `recorded` are the entries of a session that is taken up again:
/// scripts go on where they stopped.
pub(super) fn connect(
    config: &Config,
    models: &[ModelSpec],
    recorded: &[Arc<Entry>],
) -> Result<Connected, WireError> {
    let mut connected = Connected {
        providers: BTreeMap::new(),
        secrets: known_keys(&config.file().providers, config.environment()),
    };
    for model in models {
        let name: ModelName = model.name.parse().map_err(crate::config::ConfigError::from)?;
        if connected.providers.contains_key(&name.provider) {
            continue;
        }
        let provider = provider(config, &name.provider, recorded, &mut connected.secrets)?;
        connected.providers.insert(name.provider, provider);
    }
    Ok(connected)
}

fn provider(
    config: &Config,
    name: &str,
    recorded: &[Arc<Entry>],
    secrets: &mut Vec<(String, String)>,
) -> Result<Arc<dyn Provider>, WireError> {
    if is_demo(config, name) {
        return script(name, demo::SCRIPT, recorded);
    }
    let connection = config.connection(name)?;
    secrets.extend(connection.secrets(name));
    match connection {
        Connection::Script { file } => {
            let text = library::read_text(&file, MAX_SCRIPT)?;
            let missing =
                || WireError::Provider(format!("provider `{name}`: there is no script `{}`", file.display()));
            script(name, &text.ok_or_else(missing)?, recorded)
        }
        Connection::Openai { base_url, key, headers, connect_timeout_ms, idle_timeout_ms } => {
            let mut openai = OpenAiConfig::new(name, base_url);
            openai.api_key = key.map(|key| key.reveal().into());
            openai.headers = headers.into_iter().map(|(name, value)| (name, value.into())).collect();
            openai.timeouts = Timeouts {
                connect: Duration::from_millis(connect_timeout_ms),
                idle: Duration::from_millis(idle_timeout_ms),
                ..Timeouts::default()
            };
            let openai = OpenAi::new(openai).map_err(|error| WireError::Provider(error.to_string()))?;
            Ok(Arc::new(openai))
        }
    }
}

/// The demo's provider is built in, unless the user gave that name to one of their own.
pub(super) fn is_demo(config: &Config, provider: &str) -> bool {
    provider == demo::PROVIDER && !config.file().providers.contains_key(provider)
}

fn script(name: &str, text: &str, recorded: &[Arc<Entry>]) -> Result<Arc<dyn Provider>, WireError> {
    let script = Script::from_toml(name, text).map_err(|error| WireError::Provider(error.to_string()))?;
    for (role, calls) in answered_calls(name, recorded) {
        script.skip(&role, calls);
    }
    Ok(Arc::new(script))
}

/// How many calls of each role a provider has answered so far.
fn answered_calls(provider: &str, recorded: &[Arc<Entry>]) -> BTreeMap<String, u32> {
    let mut roles = BTreeMap::new();
    let mut asking = BTreeMap::new();
    let mut counts = BTreeMap::new();
    for (_, event) in recorded.iter().flat_map(|entry| entry.effective()) {
        match event {
            ArenaEvent::SparkIgnited(data) => {
                roles.insert(data.spark, data.role.clone());
            }
            ArenaEvent::ModelCalled(data) if data.model.split('/').next() == Some(provider) => {
                asking.insert(data.call, data.spark);
            }
            ArenaEvent::ModelAnswered(data) => {
                if let Some(role) = asking.remove(&data.call).and_then(|spark| roles.get(&spark)) {
                    *counts.entry(role.clone()).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    counts
}

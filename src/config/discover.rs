//! Finds a model when none is configured: first keys, then servers on this machine; chooses, then says why.

use std::time::Duration;

use serde_json::Value;

use crate::config::Config;
use crate::config::models::ModelName;
use crate::config::providers::{LLAMA, PRESETS, complete, is_loopback};

/// How long a server on this machine may take to list its models.
const PROBE_TIME: Duration = Duration::from_millis(500);

/// The most a model list may hold, in bytes.
const MAX_LIST: usize = 1 << 20;

/// A model that was found, and why it was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovered {
    /// The model.
    pub model: ModelName,
    /// Why, for the person.
    pub why: String,
}

/// The first preset that has a key, with its default model.
pub fn by_key(config: &Config) -> Option<Discovered> {
    PRESETS.iter().find_map(|preset| {
        preset.api_key_env?;
        let source = config.key_source(preset.name)?;
        let model = config.known_models().default_of(preset.name)?;
        Some(Discovered { model, why: format!("{source} and no model is configured") })
    })
}

/// The first model file of the models' folder, where this program can run one.
pub fn by_file(config: &Config) -> Option<Discovered> {
    let folder = config.places().models();
    let entries = std::fs::read_dir(&folder).ok().filter(|_| cfg!(feature = "llama"))?;
    let files = entries.flatten().map(|entry| entry.path());
    let first = files.filter(|path| path.extension().is_some_and(|ending| ending == "gguf")).min()?;
    let model = ModelName { provider: LLAMA.to_owned(), model: first.file_stem()?.to_str()?.to_owned() };
    Some(Discovered { model, why: format!("its file is in {} and no model is configured", folder.display()) })
}

/// Environment variable with the names of the presets on this machine that are looked for, with commas between them; all
/// when it is not set, none when it is empty.
pub const LOCAL_SERVERS: &str = "AGON_LOCAL_SERVERS";

/// True for a server on this machine that is asked although it is not configured.
pub fn is_looked_for(config: &Config, name: &str) -> bool {
    let named = config.environment().get(LOCAL_SERVERS);
    named.is_none_or(|names| names.split(',').any(|one| one.trim() == name))
}

/// Addresses on this machine that are worth asking, with their provider's name.
pub fn local_servers(config: &Config) -> Vec<(String, String)> {
    let own = config.file().providers.keys().map(String::as_str);
    let names = PRESETS
        .iter()
        .map(|preset| preset.name)
        .filter(|name| config.file().providers.contains_key(*name) || is_looked_for(config, name))
        .chain(own.filter(|name| !PRESETS.iter().any(|preset| preset.name == *name)));
    let keyless = names.filter_map(|name| {
        let table = complete(name, config.file().providers.get(name))?;
        let url = table.base_url.filter(|url| table.api_key_env.is_none() && is_loopback(url))?;
        Some((name.to_owned(), url.trim_end_matches('/').to_owned()))
    });
    keyless.collect()
}

/// Asks the servers on this machine all at once and takes the first model of the first that answers.
pub async fn by_server(config: &Config) -> Option<Discovered> {
    let servers = local_servers(config);
    let answers = futures_util::future::join_all(servers.iter().map(|(_, url)| first_model(url))).await;
    servers.into_iter().zip(answers).find_map(|((provider, url), model)| {
        let model = ModelName { provider, model: model? };
        Some(Discovered { model, why: format!("a server answers at {url} and no model is configured") })
    })
}

/// The first model a server lists; `None` when nobody answers in time or the answer makes no sense.
pub async fn first_model(base_url: &str) -> Option<String> {
    let ask = async {
        // Loopback only, so neither proxies nor TLS have a part in it; `install_default` fails when already done.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        let client = client.build().ok()?;
        let mut response = client.get(format!("{base_url}/models")).send().await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.ok()? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_LIST {
                return None;
            }
        }
        let list: Value = serde_json::from_slice(&body).ok()?;
        list.pointer("/data/0/id").and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned)
    };
    tokio::time::timeout(PROBE_TIME, ask).await.ok().flatten()
}

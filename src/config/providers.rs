//! Providers as they are to be connected: presets completed by what the user wrote; opens no connection.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::config::file::ProviderTable;
use crate::config::{ConfigError, Environment};

/// The kind of a provider whose answers are written in a file: no network, no model.
pub const SCRIPT: &str = "script";

/// The kind of a provider that runs models of a folder in this process.
pub const LLAMA: &str = "llama";

/// OpenAI's chat completions, which most servers speak.
const CHAT: &str = "openai";

/// OpenAI's Responses API. Its newer models call tools nowhere else.
const RESPONSES: &str = "openai-responses";

/// A provider that needs no table of its own.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name in model names.
    pub name: &'static str,
    /// Its wire format.
    pub kind: &'static str,
    /// Where it is; none for what runs in this process.
    pub base_url: Option<&'static str>,
    /// Environment variable of its key; none for what is on this machine.
    pub api_key_env: Option<&'static str>,
}

/// The presets, in the order in which keys and servers are looked for.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "openai",
        kind: "openai-responses",
        base_url: Some("https://api.openai.com/v1"),
        api_key_env: Some("OPENAI_API_KEY"),
    },
    Preset {
        name: "anthropic",
        kind: "anthropic",
        base_url: Some("https://api.anthropic.com/v1"),
        api_key_env: Some("ANTHROPIC_API_KEY"),
    },
    Preset {
        name: "xai",
        kind: "openai",
        base_url: Some("https://api.x.ai/v1"),
        api_key_env: Some("XAI_API_KEY"),
    },
    Preset {
        name: "openrouter",
        kind: "openai",
        base_url: Some("https://openrouter.ai/api/v1"),
        api_key_env: Some("OPENROUTER_API_KEY"),
    },
    Preset {
        name: "gemini",
        kind: "openai",
        base_url: Some("https://generativelanguage.googleapis.com/v1beta/openai"),
        api_key_env: Some("GEMINI_API_KEY"),
    },
    Preset {
        name: "groq",
        kind: "openai",
        base_url: Some("https://api.groq.com/openai/v1"),
        api_key_env: Some("GROQ_API_KEY"),
    },
    Preset {
        name: "mistral",
        kind: "openai",
        base_url: Some("https://api.mistral.ai/v1"),
        api_key_env: Some("MISTRAL_API_KEY"),
    },
    Preset {
        name: "deepseek",
        kind: "openai",
        base_url: Some("https://api.deepseek.com/v1"),
        api_key_env: Some("DEEPSEEK_API_KEY"),
    },
    Preset {
        name: "together",
        kind: "openai",
        base_url: Some("https://api.together.xyz/v1"),
        api_key_env: Some("TOGETHER_API_KEY"),
    },
    Preset { name: "ollama", kind: "openai", base_url: Some("http://127.0.0.1:11434/v1"), api_key_env: None },
    Preset {
        name: "lmstudio",
        kind: "openai",
        base_url: Some("http://127.0.0.1:1234/v1"),
        api_key_env: None,
    },
    Preset {
        name: "llama-server",
        kind: "openai",
        base_url: Some("http://127.0.0.1:8080/v1"),
        api_key_env: None,
    },
    Preset { name: LLAMA, kind: LLAMA, base_url: None, api_key_env: None },
];

/// A key. Has no way to be printed or stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key.
    pub fn new(key: impl Into<String>) -> Self {
        Secret(key.into())
    }

    /// The key itself, for the one place that sends it and the one that blanks it out.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// How to connect a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    /// A server that is reached over HTTP.
    Http {
        /// Its wire format.
        kind: String,
        /// Where it is, without a slash at the end.
        base_url: String,
        /// The key to send, if it wants one.
        key: Option<Secret>,
        /// Further headers.
        headers: BTreeMap<String, String>,
        /// The dialect that was named, if any.
        dialect: Option<String>,
        /// Milliseconds to connect.
        connect_timeout_ms: u64,
        /// Milliseconds until the first piece of an answer.
        first_token_timeout_ms: u64,
        /// Milliseconds between two pieces of an answer before the call counts as stalled.
        idle_timeout_ms: u64,
    },
    /// Models that run in this process.
    Files {
        /// Where their files are.
        folder: PathBuf,
        /// Threads they run on; as many as there are processors when absent.
        threads: Option<u32>,
        /// Layers kept on the GPU; as many as fit when absent.
        gpu_layers: Option<u32>,
    },
    /// A file with written answers.
    Script {
        /// The file.
        file: PathBuf,
    },
}

impl Connection {
    /// True when nothing is sent further than this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Connection::Http { base_url, .. } => is_loopback(base_url),
            Connection::Files { .. } | Connection::Script { .. } => true,
        }
    }

    /// Calls it takes at once where the user named no number: one model has one window in memory.
    pub fn usual_calls(&self) -> Option<usize> {
        matches!(self, Connection::Files { .. }).then_some(1)
    }
}

/// True for software that runs models itself, by its dialect or its preset: a call costs nothing.
pub fn is_own_software(name: &str, table: &ProviderTable) -> bool {
    let is_local = |preset: &&Preset| preset.base_url.is_some_and(is_loopback);
    PRESETS.iter().filter(is_local).any(|preset| preset.name == table.dialect.as_deref().unwrap_or(name))
        || matches!(table.dialect.as_deref().unwrap_or(name), "vllm")
}

/// The environment variables that a preset or a table names for its key.
pub fn key_names(tables: &BTreeMap<String, ProviderTable>) -> BTreeSet<&str> {
    let presets = PRESETS.iter().filter_map(|preset| preset.api_key_env);
    presets.chain(tables.values().filter_map(|table| table.api_key_env.as_deref())).collect()
}

/// Completes a provider by its preset. `None` when neither table nor preset has this name.
pub fn complete(name: &str, written: Option<&ProviderTable>) -> Option<ProviderTable> {
    let preset = PRESETS.iter().find(|preset| preset.name == name);
    let mut table = match (written, preset) {
        (None, None) => return None,
        (written, _) => written.cloned().unwrap_or_default(),
    };
    if let Some(preset) = preset
        && table
            .kind
            .as_deref()
            .is_none_or(|kind| kind == preset.kind || kind == CHAT && preset.kind == RESPONSES)
    {
        // What stands in for a provider at another address speaks what everybody speaks.
        let kind = if table.base_url.is_some() && preset.kind == RESPONSES { CHAT } else { preset.kind };
        table.kind.get_or_insert_with(|| kind.to_owned());
        // A key belongs to an address: with an address of one's own, the key must be named as well.
        if table.base_url.is_none() && table.api_key_env.is_none() {
            table.api_key_env = preset.api_key_env.map(str::to_owned);
        }
        table.base_url = table.base_url.or_else(|| preset.base_url.map(str::to_owned));
    }
    Some(table)
}

/// Turns a completed table into a connection. `folder` is the folder of the table's file. A key of the environment
/// counts before the `stored` one.
pub fn connect(
    name: &str,
    table: &ProviderTable,
    folder: &Path,
    (environment, stored): (&Environment, Option<Secret>),
) -> Result<Connection, ConfigError> {
    let missing = |key| ConfigError::ProviderKey { provider: name.to_owned(), key };
    match table.kind.as_deref().ok_or_else(|| missing("kind"))? {
        SCRIPT => {
            let file = table.file.as_deref().ok_or_else(|| missing("file"))?;
            Ok(Connection::Script { file: folder.join(file) })
        }
        LLAMA => {
            let named = table.folder.as_deref().ok_or_else(|| missing("folder"))?;
            let home = environment.get("HOME").zip(named.strip_prefix("~/"));
            let path = home.map_or_else(|| folder.join(named), |(home, rest)| Path::new(home).join(rest));
            Ok(Connection::Files { folder: path, threads: table.threads, gpu_layers: table.gpu_layers })
        }
        kind => {
            let base_url = table.base_url.as_deref().ok_or_else(|| missing("base_url"))?;
            if !base_url.starts_with("https://") && !base_url.starts_with("http://") {
                let provider = name.to_owned();
                return Err(ConfigError::BadUrl { provider, url: without_credentials(base_url) });
            }
            Ok(Connection::Http {
                kind: kind.to_owned(),
                base_url: base_url.trim_end_matches('/').to_owned(),
                key: key_of(name, table, environment, stored)?,
                headers: table.headers.clone(),
                dialect: table.dialect.clone(),
                connect_timeout_ms: table.connect_timeout_ms.unwrap_or(10_000),
                first_token_timeout_ms: table.first_token_timeout_ms.unwrap_or(300_000),
                idle_timeout_ms: table.idle_timeout_ms.unwrap_or(120_000),
            })
        }
    }
}

fn key_of(
    name: &str,
    table: &ProviderTable,
    environment: &Environment,
    stored: Option<Secret>,
) -> Result<Option<Secret>, ConfigError> {
    let Some(variable) = &table.api_key_env else { return Ok(stored) };
    let missing = || ConfigError::NoKey { provider: name.to_owned(), variable: variable.clone() };
    let Some(set) = environment.get(variable) else { return stored.ok_or_else(missing).map(Some) };
    let key = set.trim();
    match key.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(Some(Secret::new(key))),
        false => Err(ConfigError::BadKey { variable: variable.clone() }),
    }
}

/// True when the address is this machine's own.
pub fn is_loopback(base_url: &str) -> bool {
    // By the rules that whoever connects reads an address by.
    let Ok(url) = reqwest::Url::parse(base_url) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The address without a user name and password in it.
pub fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

/// True when a header of this name usually carries a key.
pub fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = [
        "auth",
        "key",
        "token",
        "secret",
        "cookie",
        "credential",
        "signature",
        "session",
        "bearer",
        "access",
    ];
    words.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_preset_needs_no_table_and_a_key_is_never_sent_to_another_address() {
        let preset = complete("openai", None).unwrap();
        assert_eq!(preset.api_key_env.as_deref(), Some("OPENAI_API_KEY"));
        let moved = ProviderTable { base_url: Some("http://proxy/v1".into()), ..ProviderTable::default() };
        assert_eq!(complete("openai", Some(&moved)).unwrap().api_key_env, None);
        assert!(complete("nobody", None).is_none());
    }

    #[test]
    fn a_missing_key_names_its_variable() {
        let table = complete("xai", None).unwrap();
        let error = connect("xai", &table, "/".as_ref(), (&environment(&[]), None)).unwrap_err();
        let words = "provider `xai` needs a key: `XAI_API_KEY` is not set and no key is stored";
        assert_eq!(error.to_string(), words);
        let set = environment(&[("XAI_API_KEY", "k-123456789")]);
        // Two keys: that of the environment, which the user has just set.
        let connection = connect("xai", &table, "/".as_ref(), (&set, Some(Secret::new("k-stored")))).unwrap();
        let Connection::Http { key: Some(key), .. } = &connection else { panic!("{connection:?}") };
        assert_eq!(key.reveal(), "k-123456789");
        assert!(!format!("{connection:?}").contains("k-123"));
    }

    #[test]
    fn loopback_is_told_from_look_alikes() {
        for local in
            ["http://127.0.0.1:1/v1", "http://localhost/v1", "http://[::1]:8080", "http://u@127.0.0.9"]
        {
            assert!(is_loopback(local), "{local}");
        }
        for remote in [
            "https://api.openai.com/v1",
            "http://localhost.evil",
            "http://127.0.0.1@evil/v1",
            "http://evil\\@127.0.0.1",
            "x",
        ] {
            assert!(!is_loopback(remote), "{remote}");
        }
        assert_eq!(without_credentials("https://u:p@h:1/v1"), "https://h:1/v1");
    }
}

//! Turns configured connections into providers.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::assembly::{Sessions, WireError};
use crate::config::learnt::{Learnt, server_of};
use crate::config::providers::{LLAMA, PRESETS, complete};
use crate::config::{Config, Connection, ModelName};
use crate::library::{self, demo};
use crate::ports::{Learnings, Provider};
use crate::protocol::expand::digest_of;
use crate::protocol::spec::ModelSpec;
use crate::protocol::{ArenaEvent, CallId, Entry, SparkId};
#[cfg(feature = "llama")]
use crate::provider::llama::{Llama, LlamaConfig};
use crate::provider::script::{RecordedReply, Script};
use crate::provider::{FORMATS, ServerConfig, Timeouts};

/// The most a script may hold, in bytes.
const MAX_SCRIPT: u64 = 8 << 20;

/// Name of the provider that answers as a recorded session did; the model is the session.
const LOG: &str = "log";

/// Providers by name, and what must be blanked out: name and value.
pub(super) struct Connected {
    pub providers: BTreeMap<String, Arc<dyn Provider>>,
    /// Calls a provider takes at once, where somebody said so.
    pub limits: BTreeMap<String, usize>,
    pub secrets: Vec<(String, String)>,
    pub learnings: Option<Arc<dyn Learnings>>,
}

/// The file of what was learnt, and the server behind each provider's name.
struct LearntFile {
    file: PathBuf,
    servers: BTreeMap<String, String>,
}

impl Learnings for LearntFile {
    fn refuses(&self, model: &str, names: &[String]) {
        let provider = model.split('/').next().unwrap_or_default();
        if let Some(server) = self.servers.get(provider) {
            // Thinking that does not fit one conversation says nothing of the next.
            let lasting: Vec<String> = names.iter().filter(|name| *name != "signature").cloned().collect();
            // What cannot be kept costs the next session one more call.
            let _ = Learnt::keep(&self.file, model, server, &lasting);
        }
    }
}

/// Connects the provider of every model in use. `answered` is what a session that is taken up again was answered:
/// scripts go on where they stopped.
pub(super) fn connect(
    config: &Config,
    models: &[ModelSpec],
    answered: &AnsweredCounts,
) -> Result<Connected, WireError> {
    let mut connected = Connected {
        providers: BTreeMap::new(),
        limits: BTreeMap::new(),
        secrets: config.secrets().taken,
        learnings: None,
    };
    for model in models {
        let name: ModelName = model.name.parse().map_err(crate::config::ConfigError::from)?;
        if connected.providers.contains_key(&name.provider) {
            continue;
        }
        let provider = provider(config, &name, answered)?;
        let table = config.file().providers.get(&name.provider);
        let named = table.and_then(|table| table.concurrent_calls).map(NonZeroUsize::get);
        let usual = || config.connection(&name.provider).ok()?.usual_calls();
        if let Some(limit) = named.or_else(usual) {
            connected.limits.insert(name.provider.clone(), limit);
        }
        connected.providers.insert(name.provider, provider);
    }
    // Of every provider: a running session may take another model.
    let names =
        PRESETS.iter().map(|preset| preset.name).chain(config.file().providers.keys().map(String::as_str));
    let servers = names.filter_map(|name| {
        let table = complete(name, config.file().providers.get(name))?;
        Some((name.to_owned(), server_of(&table.base_url?)))
    });
    let (file, servers) = (config.places().learnt(), servers.collect());
    connected.learnings = Some(Arc::new(LearntFile { file, servers }));
    Ok(connected)
}

fn provider(
    config: &Config,
    model: &ModelName,
    answered: &AnsweredCounts,
) -> Result<Arc<dyn Provider>, WireError> {
    let name = model.provider.as_str();
    if is_builtin(config, name) {
        let script = match name {
            demo::PROVIDER => written_script(name, demo::SCRIPT)?,
            _ => recorded_script(config, &model.model)?,
        };
        return Ok(Arc::new(answered.going_on(script, name)));
    }
    let connection = config.connection(name)?;
    match connection {
        Connection::Script { file } => {
            let text = library::read_text(&file, MAX_SCRIPT)?;
            let missing =
                || WireError::Provider(format!("provider `{name}`: there is no script `{}`", file.display()));
            let script = written_script(name, &text.ok_or_else(missing)?)?;
            Ok(Arc::new(answered.going_on(script, name)))
        }
        Connection::Files { folder, threads, gpu_layers } => in_process(name, folder, threads, gpu_layers),
        connection @ Connection::Http { .. } => server(name, connection),
    }
}

/// A provider, to ask it what it offers.
pub(super) fn reach(config: &Config, provider_name: &str) -> Result<Arc<dyn Provider>, WireError> {
    let name = ModelName { provider: provider_name.to_owned(), model: String::new() };
    provider(config, &name, &AnsweredCounts::default())
}

#[cfg(feature = "llama")]
fn in_process(
    name: &str,
    folder: PathBuf,
    threads: Option<u32>,
    gpu_layers: Option<u32>,
) -> Result<Arc<dyn Provider>, WireError> {
    let config = LlamaConfig { name: name.to_owned(), folder, threads, gpu_layers };
    Ok(Arc::new(Llama::new(config).map_err(WireError::Provider)?))
}

#[cfg(not(feature = "llama"))]
fn in_process(
    name: &str,
    _: PathBuf,
    _: Option<u32>,
    _: Option<u32>,
) -> Result<Arc<dyn Provider>, WireError> {
    Err(WireError::NotBuilt { provider: name.to_owned(), kind: LLAMA, feature: "llama" })
}

/// The provider behind a connection over HTTP, by the row of its wire format.
fn server(name: &str, connection: Connection) -> Result<Arc<dyn Provider>, WireError> {
    let Connection::Http {
        kind,
        base_url,
        key,
        headers,
        dialect,
        connect_timeout_ms,
        first_token_timeout_ms,
        idle_timeout_ms,
    } = connection
    else {
        return Err(WireError::Internal(format!("provider `{name}` has no address")));
    };
    let format = FORMATS.iter().find(|format| format.kind == kind).ok_or_else(|| {
        let known: Vec<String> = FORMATS.iter().map(|format| format!("`{}`", format.kind)).collect();
        let known = known.join(", ");
        WireError::Provider(format!(
            "provider `{name}`: unknown kind `{kind}`; known are {known}, `{LLAMA}`, `script`"
        ))
    })?;
    let mut server = ServerConfig::new(name, base_url);
    server.api_key = key.map(|key| key.reveal().into());
    server.headers = headers.into_iter().map(|(name, value)| (name, value.into())).collect();
    server.dialect = dialect;
    server.timeouts = Timeouts {
        connect: Duration::from_millis(connect_timeout_ms),
        first_token: Duration::from_millis(first_token_timeout_ms),
        idle: Duration::from_millis(idle_timeout_ms),
    };
    match (format.connect)(server) {
        Ok(server) => Ok(Arc::new(server)),
        Err(error) => Err(WireError::Provider(error.to_string())),
    }
}

/// Digest of what answers under a provider's name: kind and address, or the text of its script. Keys and
/// headers are not in it: they say who asks, and a digest of a secret is no secret. None when it cannot be had;
/// connecting says why.
pub(super) fn identity(config: &Config, name: &str) -> Option<String> {
    Some(match config.connection(name).ok()? {
        Connection::Script { file } => digest_of(&("script", library::read_text(&file, MAX_SCRIPT).ok()??)),
        Connection::Files { folder, .. } => digest_of(&(LLAMA, folder)),
        Connection::Http { kind, base_url, .. } => digest_of(&(kind, base_url)),
    })
}

/// The demo's provider, and `log/SESSION`, which answers as a recorded session did, are built in, unless
/// the user gave that name to one of their own.
pub(super) fn is_builtin(config: &Config, provider: &str) -> bool {
    [demo::PROVIDER, LOG].contains(&provider) && !config.file().providers.contains_key(provider)
}

/// True for a model that answers as a recorded session did.
pub(super) fn answers_from_a_log(config: &Config, name: &ModelName) -> bool {
    name.provider == LOG && is_builtin(config, LOG)
}

/// True for a model of the demo: a script that knows its own task and no other.
pub fn is_demo(config: &Config, model: &str) -> bool {
    let provider = model.split('/').next().unwrap_or_default();
    provider == demo::PROVIDER && is_builtin(config, provider)
}

fn written_script(name: &str, text: &str) -> Result<Script, WireError> {
    Script::from_toml(name, text).map_err(|error| WireError::Provider(error.to_string()))
}

/// The answers of a recorded session, by role and number.
fn recorded_script(config: &Config, session: &str) -> Result<Script, WireError> {
    let read = Sessions::of(config).read(session)?;
    if let Some(fault) = read.fault {
        return Err(fault.into());
    }
    let mut roles = Asking::default();
    let replies = read.entries.iter().flat_map(|entry| entry.effective()).filter_map(|(_, event)| {
        let (role, call) = roles.answered(event)?;
        let ArenaEvent::ModelAnswered(data) = event else { return None };
        Some((role, call.digest, data.body.clone()))
    });
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let numbered = replies.map(|(spark, digest, reply)| {
        let nth = counts.entry(spark.clone()).or_default();
        *nth += 1;
        RecordedReply { nth: *nth, spark, digest: Some(digest), reply }
    });
    Ok(Script::from_replies(LOG, numbered.collect::<Vec<_>>()))
}

/// How many calls of each role the models of each provider have answered.
#[derive(Default)]
pub(super) struct AnsweredCounts {
    asking: Asking,
    counts: BTreeMap<(String, String), u32>,
}

impl AnsweredCounts {
    pub fn apply(&mut self, entry: &Entry) {
        for (_, event) in entry.effective() {
            if let Some((role, call)) = self.asking.answered(event) {
                *self.counts.entry((call.provider, role)).or_default() += 1;
            }
        }
    }

    /// A script with the calls counted that its provider has answered so far.
    fn going_on(&self, script: Script, provider: &str) -> Script {
        for ((_, role), calls) in self.counts.iter().filter(|((name, _), _)| name == provider) {
            script.skip(role, *calls);
        }
        script
    }
}

/// Finds, event by event, which role a model answered and to which request.
#[derive(Default)]
struct Asking {
    roles: BTreeMap<SparkId, String>,
    calls: BTreeMap<CallId, Asked>,
}

/// A call that was sent.
struct Asked {
    spark: SparkId,
    provider: String,
    digest: String,
}

impl Asking {
    /// Takes an event in; gives role and call when it is an answer.
    fn answered(&mut self, event: &ArenaEvent) -> Option<(String, Asked)> {
        match event {
            ArenaEvent::SparkIgnited(data) => {
                self.roles.insert(data.spark, data.role.clone());
            }
            ArenaEvent::ModelCalled(data) => {
                let provider = data.model.split('/').next().unwrap_or_default().to_owned();
                let (spark, digest) = (data.spark, data.digest.clone());
                self.calls.insert(data.call, Asked { spark, provider, digest });
            }
            ArenaEvent::ModelAnswered(data) => {
                let call = self.calls.remove(&data.call)?;
                return Some((self.roles.get(&call.spark)?.clone(), call));
            }
            _ => {}
        }
        None
    }
}

//! Layered configuration in which every value knows its source; decides nothing about sessions.

pub mod discover;
pub mod docker;
pub mod environment;
pub mod file;
pub mod kept;
mod keychain;
pub mod keys;
pub mod layer;
pub mod learnt;
pub mod mcp;
pub mod models;
pub mod number;
pub mod places;
pub mod policy;
pub mod providers;
pub mod secrets;
pub mod show;
mod successor;
pub mod trust;
pub mod unknown;
pub mod wide;
pub mod written;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use docker::DockerTable;
pub use environment::Environment;
pub use file::{CacheTable, ConfigFile, NamesTable, SandboxKind, SubagentsTable};
pub use keys::{Kept, KeySource, Keys};
pub use layer::{KeyPath, Layer, Source};
pub use learnt::Learnt;
pub use mcp::McpTable;
pub use models::{KnownModels, ModelName};
pub use places::Places;
pub use policy::PolicyFile;
pub use providers::{Connection, Secret};
pub use secrets::Secrets;
pub use trust::Trust;

use crate::protocol::message::Structured;
use crate::protocol::spec::{Limits, ModelSpec, RetrySpec};

/// Why a configuration cannot be used. Nothing is replaced or guessed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named by the messages")]
pub enum ConfigError {
    /// A file or folder cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// A configuration that agon cannot change without touching more.
    #[error("`{}` is left as it is: `{what}` cannot be set without changing more", path.display())]
    NotWritten { path: PathBuf, what: String, line: String },
    /// The workspace cannot be entered.
    #[error("the workspace `{}` is closed to you", .0.display())]
    Closed(PathBuf),
    /// A file cannot be read whole.
    #[error(transparent)]
    File(#[from] crate::library::FileError),
    /// A file is not TOML, or a value has the wrong shape.
    #[error("`{}` line {line}: {message}", path.display())]
    Damaged { path: PathBuf, line: usize, message: String },
    /// A file has keys that no configuration has.
    #[error("{}", unknown_text(path, keys))]
    Unknown { path: PathBuf, keys: Vec<unknown::UnknownKey> },
    /// An environment variable or flag has a value of the wrong shape.
    #[error("{name}=`{value}`: {message}")]
    BadValue { name: &'static str, value: String, message: String },
    /// A name of files is written as none can be.
    #[error("`names.{list}`: `{name}` is no name: {why}")]
    BadName { list: &'static str, name: String, why: &'static str },
    /// Neither `AGON_HOME` nor a home folder.
    #[error("no home folder is known and `AGON_HOME` is not set")]
    NoHome,
    /// Not `PROVIDER/MODEL`.
    #[error(transparent)]
    BadModelName(#[from] models::BadModelName),
    /// No table and no preset of this name.
    #[error("no provider is called `{name}`")]
    NoProvider { name: String, suggestion: Option<String> },
    /// A provider's table lacks a key.
    #[error("provider `{provider}` has no `{key}`")]
    ProviderKey { provider: String, key: &'static str },
    /// A provider's address is none.
    #[error("provider `{provider}`: `{url}` is not an http or https address")]
    BadUrl { provider: String, url: String },
    /// A provider's key is not in the environment.
    #[error("provider `{provider}` needs a key: `{variable}` is not set and no key is stored")]
    NoKey { provider: String, variable: String },
    /// A variable that is no key.
    #[error("`{variable}` is no key: it has spaces, line breaks or characters other than ASCII")]
    BadKey { variable: String },
    /// A removed key is still in the keychain.
    #[error("the system's keychain keeps the key of `{provider}`, which agon no longer uses: {why}")]
    Keychain { provider: String, why: String },
    /// No model is configured and none was found.
    #[error("no model is configured, no key is in the environment, and no local server answers")]
    NoModel,
    /// The table of a server cannot be used.
    #[error("[mcp.{name}]: {why}")]
    Mcp { name: String, why: String },
    /// A value of `[sandbox.docker]` is out of reach.
    #[error("[sandbox.docker]: {0}")]
    Docker(String),
    /// agon contradicts itself: a bug.
    #[error("internal: {0}")]
    Internal(String),
}

impl ConfigError {
    /// A file or folder that cannot be read.
    pub fn read(path: &Path, source: std::io::Error) -> Self {
        ConfigError::Read { path: path.to_owned(), source }
    }

    /// What the person may try.
    pub fn hint(&self) -> Option<String> {
        match self {
            ConfigError::Closed(path) => {
                Some(format!("a command may have closed it; `chmod u+rwx '{}'` opens it", path.display()))
            }
            ConfigError::NoKey { provider, variable } => {
                Some(format!("agon keys set {provider}, or export {variable}=..."))
            }
            ConfigError::BadKey { variable } => {
                Some(format!("set it again, without a line break: export {variable}=..."))
            }
            ConfigError::NotWritten { line, .. } => Some(format!("write it yourself: {line}")),
            ConfigError::NoProvider { suggestion: Some(name), .. } => Some(format!("did you mean `{name}`?")),
            ConfigError::NoProvider { name, .. } => Some(format!(
                "add a table [providers.{name}] with `kind` and `base_url`; see `agon config path`"
            )),
            ConfigError::BadModelName(_) => Some("for example `openai/gpt-5` or `ollama/qwen3`".to_owned()),
            ConfigError::NoModel => Some("agon init sets one up; `agon demo` needs none".to_owned()),
            ConfigError::Docker(_) => {
                Some("`agon config show` says where each value of sandbox.docker comes from".to_owned())
            }
            ConfigError::Unknown { .. } => Some("`agon config schema` lists every key".to_owned()),
            _ => None,
        }
    }
}

fn unknown_text(path: &Path, keys: &[unknown::UnknownKey]) -> String {
    let lines = keys.iter().map(|unknown| {
        let meant = match (&unknown.belongs, &unknown.suggestion) {
            (Some(table), _) => Some(format!("; it belongs into a model's table: [{table}]")),
            (None, meant) => meant.as_deref().map(|key| format!("; did you mean `{key}`?")),
        };
        let (key, line) = (&unknown.key, unknown.line);
        format!("`{}` line {line}: unknown key `{key}`{}", path.display(), meant.unwrap_or_default())
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A value given on the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The flag, such as `--model`.
    pub flag: &'static str,
    /// The key it sets.
    pub key: &'static [&'static str],
    /// The value.
    pub value: toml::Value,
}

/// Environment variables that set a value, and the key each sets.
pub const VARIABLES: &[(&str, &[&str])] = &[
    ("AGON_MODEL", &["model"]),
    ("AGON_PERSONA", &["persona"]),
    ("AGON_SANDBOX", &["sandbox", "kind"]),
    ("AGON_PERMISSION", &["permission"]),
    ("AGON_MAX_STEPS", &["limits", "max_steps"]),
    ("AGON_MAX_TOKENS", &["limits", "max_tokens"]),
    ("AGON_MAX_USD", &["limits", "max_usd"]),
    ("AGON_MAX_SECONDS", &["limits", "max_seconds"]),
];

/// The merged configuration of one run.
#[derive(Clone, Debug)]
pub struct Config {
    places: Places,
    environment: Environment,
    workspace: PathBuf,
    file: ConfigFile,
    layer: Layer,
    known: KnownModels,
    learnt: Learnt,
    keys: Keys,
    trust: Trust,
    project: Option<Arc<trust::ProjectDigest>>,
    warnings: Vec<String>,
}

impl Config {
    /// Reads and merges all layers: flags over environment over project over user over defaults.
    /// Of an untrusted project only what is harmless is taken; the rest is listed by [`Config::warnings`].
    pub fn load(
        environment: Environment,
        workspace: &Path,
        overrides: &[Override],
    ) -> Result<Self, ConfigError> {
        if places::is_closed(workspace) {
            return Err(ConfigError::Closed(workspace.to_owned()));
        }
        let places = Places::find(&environment)?;
        let mut layer = Layer::defaults()?;
        for file in [places.config_file(), places.kept_rules()] {
            if let Some(user) = Layer::read(&file)? {
                layer.cover(user);
            }
        }
        let (trust, digest, project) = trust::read_project(workspace, &places)?;
        let (project, mut warnings) = trust::hold_level(project, &layer);
        let (project, dropped) = match trust {
            Trust::Untrusted => trust::restrict(project, &layer),
            Trust::Trusted | Trust::Nothing => (project, Vec::new()),
        };
        warnings.extend(dropped);
        layer.cover(project);
        for (name, key) in VARIABLES {
            if let Some(text) = environment.get(name) {
                set_checked(&mut layer, key, value_of(key, text), Source::Environment(name), text)?;
            }
        }
        for set in overrides {
            let shown = set.value.as_str().map_or_else(|| set.value.to_string(), str::to_owned);
            set_checked(&mut layer, set.key, set.value.clone(), Source::Flag(set.flag), &shown)?;
        }
        let (file, known) = (layer.typed()?, KnownModels::embedded()?);
        // It holds nothing that a server would not say again.
        let (learnt, damaged) = match Learnt::read(&places.learnt()) {
            Ok(learnt) => (learnt, None),
            Err(error) => (Learnt::default(), Some(error.to_string())),
        };
        let keys = Keys::read(&places.keys())?;
        file.names.as_ref().map_or(Ok(()), NamesTable::check)?;
        file.mcp.iter().try_for_each(|(name, table)| table.check(name))?;
        let workspace = workspace.to_owned();
        let warnings = keys.warnings().iter().cloned().chain(damaged).chain(warnings).collect();
        let mut config = Config {
            places,
            environment,
            workspace,
            file,
            layer,
            known,
            learnt,
            keys,
            trust,
            project: digest.map(Arc::new),
            warnings,
        };
        config.warn_of_variables();
        Ok(config)
    }

    /// Where the user's files are.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The environment it was made from.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The workspace whose project file was read.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// The merged values.
    pub fn file(&self) -> &ConfigFile {
        &self.file
    }

    /// The merged values with their sources.
    pub fn layer(&self) -> &Layer {
        &self.layer
    }

    /// The embedded table of models.
    pub fn known_models(&self) -> &KnownModels {
        &self.known
    }

    /// The keys that agon keeps.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Where a provider's key comes from; none where there is no key.
    pub fn key_source(&self, provider: &str) -> Option<KeySource> {
        let table = providers::complete(provider, self.file.providers.get(provider))?;
        let set = table.api_key_env.filter(|variable| self.environment.get(variable).is_some());
        let server = table.base_url.as_deref().map(learnt::server_of)?;
        set.map(KeySource::Variable).or_else(|| self.keys.of(provider, &server).map(|_| KeySource::Stored))
    }

    /// Whether the project's files count in full.
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// What was ignored, and why; for the person.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The configured model, or the one that a key or a local server offers (then with the reason).
    pub async fn choose_model(&self) -> Result<(ModelName, Option<String>), ConfigError> {
        if let Some(name) = &self.file.model {
            return Ok((name.parse()?, None));
        }
        let found = match discover::by_key(self) {
            Some(found) => Some(found),
            None => discover::by_server(self).await.or_else(|| discover::by_file(self)),
        };
        found.map(|found| (found.model, Some(found.why))).ok_or(ConfigError::NoModel)
    }

    /// How to connect a provider, its key included.
    pub fn connection(&self, provider: &str) -> Result<Connection, ConfigError> {
        let table = providers::complete(provider, self.file.providers.get(provider));
        let mut table = table.ok_or_else(|| self.no_provider(provider))?;
        table.folder.get_or_insert_with(|| self.places.models().to_string_lossy().into_owned());
        let server = table.base_url.as_deref().map(learnt::server_of).unwrap_or_default();
        let stored = self.keys.of(provider, &server);
        providers::connect(provider, &table, &self.folder_of(provider), (&self.environment, stored))
    }

    /// A model's capability and price rows.
    pub fn model_spec(&self, name: &ModelName) -> Result<ModelSpec, ConfigError> {
        let table = providers::complete(&name.provider, self.file.providers.get(&name.provider));
        let table = table.ok_or_else(|| self.no_provider(&name.provider))?;
        let untold = match table.kind.as_deref() {
            Some(providers::SCRIPT) => Some(Structured::Words),
            Some(providers::LLAMA) => Some(Structured::ResponseFormat),
            _ => None,
        };
        // What else listens on this machine may pass calls on to models that cost money.
        let is_free = untold.is_some()
            || table.base_url.as_deref().is_some_and(providers::is_loopback)
                && providers::is_own_software(&name.provider, &table);
        // Where one model of a provider has a price, it passes calls on: no other is free either.
        let is_of =
            |other: &str| other.split_once('/').is_some_and(|(provider, _)| provider == name.provider);
        let is_sold = self.file.models.iter().any(|(other, table)| is_of(other) && table.price.is_some());
        let server = table.base_url.as_deref().map(learnt::server_of).unwrap_or_default();
        let (written, learnt) = (self.file.models.get(&name.to_string()), self.learnt.refuses(name, &server));
        Ok(self.known.spec(name, written, learnt, (is_free && !is_sold, untold.unwrap_or(Structured::Any))))
    }

    /// The persona of a solo spark.
    pub fn persona(&self) -> &str {
        self.file.persona.as_deref().unwrap_or("solo")
    }

    /// The tools that sparks are offered; all when absent.
    pub fn tools(&self) -> Option<&[String]> {
        self.file.tools.as_deref()
    }

    /// Personas and models that sparks may choose for subagents besides their own.
    pub fn subagents(&self) -> SubagentsTable {
        self.file.subagents.clone().unwrap_or_default()
    }

    /// Where a session stops by itself.
    pub fn limits(&self) -> Limits {
        self.file.limits.clone().unwrap_or_default().into()
    }

    /// Sets how many model calls a turn may make where no file, variable or flag says so.
    pub fn default_max_steps(&mut self, steps: u32) {
        let leaf = self.layer.0.get(&KeyPath::of(&["limits", "max_steps"]));
        let is_said =
            leaf.and_then(|leaf| leaf.sources.first()).is_some_and(|source| *source != Source::Default);
        if !is_said {
            self.file.limits.get_or_insert_default().max_steps = Some(steps);
        }
    }

    /// How failed model calls are repeated.
    pub fn retry(&self) -> RetrySpec {
        let defaults = RetrySpec::default();
        let written = self.file.retry.clone().unwrap_or_default();
        RetrySpec {
            attempts: written.attempts.unwrap_or(defaults.attempts).max(1),
            base_ms: written.base_ms.unwrap_or(defaults.base_ms),
            cap_ms: written.cap_ms.unwrap_or(defaults.cap_ms),
        }
    }

    /// The names that no tool changes.
    pub fn protected(&self) -> Vec<String> {
        self.file.names.as_ref().map(|names| names.protected.clone()).unwrap_or_default()
    }

    /// Which sandbox is wanted.
    pub fn sandbox(&self) -> SandboxKind {
        self.file.sandbox.as_ref().and_then(|sandbox| sandbox.kind).unwrap_or_default()
    }

    /// How containers are made, complete: what nobody set has its default.
    pub fn docker(&self) -> Result<DockerTable, ConfigError> {
        let table = self.file.sandbox.as_ref().and_then(|sandbox| sandbox.docker.clone()).unwrap_or_default();
        match table.fault() {
            Some(fault) => Err(ConfigError::Docker(fault)),
            None => Ok(table),
        }
    }

    /// How the team cache is kept; what is absent has its default.
    pub fn cache(&self) -> CacheTable {
        self.file.cache.clone().unwrap_or_default()
    }

    /// The folder of the file that names a provider's script or its folder of models.
    fn folder_of(&self, provider: &str) -> PathBuf {
        let named = |key| self.layer.0.get(&KeyPath::of(&["providers", provider, key]));
        let folder =
            named("file").or_else(|| named("folder")).and_then(|leaf| match leaf.sources.first()? {
                Source::File { path, .. } => path.parent().map(Path::to_owned),
                _ => None,
            });
        folder.unwrap_or_else(|| self.workspace.clone())
    }

    /// The names of all providers: presets and those of the configuration.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        let is_preset = |name: &&str| providers::PRESETS.iter().any(|preset| preset.name == *name);
        let own = self.file.providers.keys().map(String::as_str).filter(move |name| !is_preset(name));
        providers::PRESETS.iter().map(|preset| preset.name).chain(own)
    }

    /// That there is no provider of this name, and which was probably meant.
    pub fn no_provider(&self, name: &str) -> ConfigError {
        let presets = providers::PRESETS.iter().map(|preset| preset.name);
        let known = self.file.providers.keys().map(String::as_str).chain(presets);
        ConfigError::NoProvider { name: name.to_owned(), suggestion: unknown::closest(name, known) }
    }

    /// A misspelt variable is silently without effect, so one that looks like ours is pointed out.
    fn warn_of_variables(&mut self) {
        let known = || VARIABLES.iter().map(|(name, _)| *name);
        let ours = |name: &&str| name.starts_with("AGON_") && *name != "AGON_HOME";
        for name in self.environment.names().filter(ours) {
            if !known().any(|known| known == name)
                && let Some(meant) = unknown::closest(name, known())
                && strsim::levenshtein(name, &meant) <= 2
            {
                self.warnings.push(format!("`{name}` is not a variable of agon; did you mean `{meant}`?"));
            }
        }
    }
}

/// Text of an environment variable as the kind of value its key has.
fn value_of(key: &[&str], text: &str) -> toml::Value {
    match (key, text.parse::<i64>()) {
        (["limits", "max_usd"], _)
        | (["model" | "persona" | "sandbox" | "permission", ..], _)
        | (_, Err(_)) => toml::Value::String(text.to_owned()),
        (_, Ok(number)) => toml::Value::Integer(number),
    }
}

/// Sets a value that no file holds, and says which variable or flag it was when it does not fit.
fn set_checked(
    layer: &mut Layer,
    key: &[&str],
    value: toml::Value,
    source: Source,
    text: &str,
) -> Result<(), ConfigError> {
    let mut alone = Layer::default();
    alone.set(KeyPath::of(key), value, source.clone());
    if let (Err(error), Source::Environment(name) | Source::Flag(name)) = (alone.typed(), &source) {
        let message = match error {
            ConfigError::Internal(message) => message,
            other => other.to_string(),
        };
        return Err(ConfigError::BadValue { name, value: text.to_owned(), message });
    }
    layer.cover(alone);
    Ok(())
}

/// The JSON Schema of a configuration file.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(ConfigFile).to_value()
}

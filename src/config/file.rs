//! The shape of a configuration file; every key is optional, so one shape serves each layer and their sum.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::config::docker::DockerTable;
use crate::config::mcp::McpTable;
use crate::config::number::{Dollars, Thousandths};
use crate::config::policy::RuleTable;
use crate::protocol::event::ErrorKind;
use crate::protocol::message::{Effort, Structured};
use crate::protocol::names::{Names, complaint_about};
use crate::protocol::spec::{Budget, Limits, PermissionLevel, RetrySpec, SubagentLimits};
use crate::protocol::text::is_glob;

/// agon's configuration, in `config.toml` of the user and `.agon/config.toml` of a project.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    /// The model used when none is named, as `PROVIDER/MODEL`.
    pub model: Option<String>,
    /// The persona of a solo spark; default `solo`.
    pub persona: Option<String>,
    /// How much models think: `low`, `medium` or `high`; the provider's default when absent.
    pub effort: Option<Effort>,
    /// The tools that sparks are offered: names, families (`files`, `run`, `web`, `agents`, `plan`) and patterns; default all.
    pub tools: Option<Vec<String>>,
    /// How much tools do without a question: `plan`, `ask`, `edits` or `auto`; default `ask`. A project's file can only
    /// set a stricter level.
    pub permission: Option<PermissionLevel>,
    /// Where sessions stop by themselves.
    pub limits: Option<LimitsTable>,
    /// What sparks may choose for subagents besides their own persona and model.
    pub subagents: Option<SubagentsTable>,
    /// How failed model calls are repeated.
    pub retry: Option<RetryTable>,
    /// Who may do what. Rules of all layers apply together; deny wins over ask, ask over allow.
    pub policy: Option<PolicyTable>,
    /// What confines the tools.
    pub sandbox: Option<SandboxTable>,
    /// Names of files that need care. The lists of all layers apply together.
    pub names: Option<NamesTable>,
    /// Which folders agents may work in.
    pub workspace: Option<WorkspaceTable>,
    /// The team cache: recorded runs of squads.
    pub cache: Option<CacheTable>,
    /// Servers of the Model Context Protocol by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp: BTreeMap<String, McpTable>,
    /// What is blanked out of all that is recorded and shown.
    pub redaction: Option<RedactionTable>,
    /// Providers by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<String, ProviderTable>,
    /// What is known of models, by `PROVIDER/MODEL`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelTable>,
}

/// Where sessions stop by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsTable {
    /// Model calls of one turn; default 100.
    pub max_steps: Option<u32>,
    /// Tokens of a session, input and output; default no limit.
    pub max_tokens: Option<u64>,
    /// Dollars of a session; default no limit. Needs a known price.
    pub max_usd: Option<Dollars>,
    /// What one turn may use: a squad, a debate or an agent on its own.
    pub turn: Option<BudgetTable>,
    /// What one agent may use, with all that it begins.
    pub agent: Option<BudgetTable>,
    /// Active seconds of one turn; default no limit.
    pub max_seconds: Option<u64>,
    /// Milliseconds one model call may take in all; default 600000.
    pub model_timeout_ms: Option<u64>,
    /// Milliseconds one tool call may take when it names no time; default 120000.
    pub tool_timeout_ms: Option<u64>,
    /// Milliseconds a command may ask for with `timeout_ms`; default 600000.
    pub tool_timeout_max_ms: Option<u64>,
    /// Subagents of one turn; default 32.
    pub subagents: Option<u32>,
    /// Subagents that one spark has at work at once; default 4.
    pub subagents_at_once: Option<u32>,
    /// How often a task is passed on: 1 lets the sparks that work for you delegate, 0 none; default 1.
    pub subagent_depth: Option<u32>,
    /// Model calls of one subagent; default 50.
    pub subagent_steps: Option<u32>,
}

/// What sparks may choose for subagents besides their own persona and model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubagentsTable {
    /// Personas, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub personas: Vec<String>,
    /// Models, as `PROVIDER/MODEL`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
}

/// Tokens and money that a part of a session may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetTable {
    /// Tokens, input and output; default no limit.
    pub max_tokens: Option<u64>,
    /// Dollars; default no limit. Needs a known price.
    pub max_usd: Option<Dollars>,
}

impl From<BudgetTable> for Budget {
    fn from(written: BudgetTable) -> Self {
        Budget { max_tokens: written.max_tokens, max_micro_usd: written.max_usd.map(|dollars| dollars.0) }
    }
}

impl From<LimitsTable> for Limits {
    fn from(written: LimitsTable) -> Self {
        let defaults = Limits::default();
        Limits {
            max_steps: written.max_steps.unwrap_or(defaults.max_steps),
            max_tokens: written.max_tokens,
            max_micro_usd: written.max_usd.map(|dollars| dollars.0),
            turn: written.turn.unwrap_or_default().into(),
            spark: written.agent.unwrap_or_default().into(),
            max_seconds: written.max_seconds,
            model_timeout_ms: written.model_timeout_ms.unwrap_or(defaults.model_timeout_ms),
            tool_timeout_ms: written.tool_timeout_ms.unwrap_or(defaults.tool_timeout_ms),
            tool_timeout_max_ms: written.tool_timeout_max_ms.unwrap_or(defaults.tool_timeout_max_ms),
            subagents: SubagentLimits {
                total: written.subagents.unwrap_or(defaults.subagents.total),
                at_once: written.subagents_at_once.unwrap_or(defaults.subagents.at_once).max(1),
                depth: written.subagent_depth.unwrap_or(defaults.subagents.depth),
                max_steps: written.subagent_steps.unwrap_or(defaults.subagents.max_steps).max(1),
            },
        }
    }
}

/// How failed model calls are repeated: delays double from `base_ms` to `cap_ms`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryTable {
    /// Attempts of one call, the first included; default 5.
    #[schemars(range(min = 1))]
    pub attempts: Option<u32>,
    /// First delay in milliseconds; default 500.
    pub base_ms: Option<u64>,
    /// Longest delay in milliseconds; default 60000.
    pub cap_ms: Option<u64>,
}

/// Who may do what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyTable {
    /// False leaves out agon's own rules, which deny files that commonly hold secrets; default true.
    pub defaults: Option<bool>,
    /// The rules, in the order they were written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleTable>,
}

/// Names of files that need care. What is written here is added to agon's own lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamesTable {
    /// Names of files and folders that no tool and no sandboxed command changes, each `name` or `folder/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<String>,
    /// Globs of files with passwords or keys, each of a name or of a name in its folder. Without effect where
    /// `policy.defaults` is false.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret: Vec<String>,
    /// Globs of files under such names that hold neither: templates, public certificates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
}

impl NamesTable {
    /// Names that are none. One that is no glob by itself would change what the others mean.
    pub fn check(&self) -> Result<(), ConfigError> {
        let globs = [("secret", &self.secret), ("except", &self.except)].into_iter();
        let globs = globs.flat_map(|(list, names)| names.iter().map(move |name| (list, name)));
        let secret = globs.filter(|(_, name)| !is_glob(name));
        let secret = secret.map(|(list, name)| (list, name, "it is not a glob pattern"));
        let protected = self.protected.iter();
        let protected = protected.filter_map(|name| Some(("protected", name, complaint_about(name)?)));
        let fault = secret.chain(protected).next();
        fault.map_or(Ok(()), |(list, name, why)| Err(ConfigError::BadName { list, name: name.clone(), why }))
    }
}

/// Which folders agents may work in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceTable {
    /// Folders that may be a workspace although they are a home or belong to the system; default none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
}

/// What confines the tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxTable {
    /// Which sandbox; default `auto`.
    pub kind: Option<SandboxKind>,
    /// How containers are made.
    pub docker: Option<DockerTable>,
}

/// The team cache: recorded runs of squads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheTable {
    /// False switches it off; default true.
    pub enabled: Option<bool>,
    /// True makes every run anew and stores it; default false.
    pub refresh: Option<bool>,
    /// Hours a run may be used; default 24, and 0 switches the cache off.
    pub ttl_hours: Option<u64>,
    /// Mebibytes all runs may take together; default 256, and 0 switches the cache off.
    pub max_mib: Option<u64>,
}

impl CacheTable {
    /// The values that hold when nobody says otherwise.
    pub fn defaults() -> Self {
        CacheTable { enabled: Some(true), refresh: Some(false), ttl_hours: Some(24), max_mib: Some(256) }
    }
}

/// What is blanked out of all that is recorded and shown: values of environment variables whose names end in KEY, TOKEN,
/// SECRET, PASSWORD or CREDENTIALS. `agon doctor` lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedactionTable {
    /// Names of environment variables whose values are no secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
}

/// Which sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum SandboxKind {
    /// The strongest that works here.
    #[default]
    Auto,
    /// Namespaces, Landlock and seccomp of this machine's kernel.
    Local,
    /// What Landlock and seccomp hold alone, where namespaces are refused; much stays open.
    #[serde(rename = "landlock-only")]
    LandlockOnly,
    /// A container.
    Docker,
    /// None: tools run with the user's own rights.
    None,
}

impl SandboxKind {
    /// The word in configuration and logs.
    pub fn word(self) -> &'static str {
        match self {
            SandboxKind::Auto => "auto",
            SandboxKind::Local => "local",
            SandboxKind::LandlockOnly => "landlock-only",
            SandboxKind::Docker => "docker",
            SandboxKind::None => "none",
        }
    }

    /// The kind that a log names, if this program knows it; `auto` is none, since a log names what was chosen.
    pub fn recorded(word: &str) -> Option<Self> {
        let kinds = [SandboxKind::Local, SandboxKind::LandlockOnly, SandboxKind::Docker, SandboxKind::None];
        kinds.into_iter().find(|kind| kind.word() == word)
    }
}

/// One provider. A preset of the same name gives what is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderTable {
    /// Its wire format, one of the names in docs/models.md, or `script`: a file with written answers.
    pub kind: Option<String>,
    /// Where it is, up to and without `/chat/completions` or `/messages`.
    pub base_url: Option<String>,
    /// Environment variable that holds the key; no key is sent when none is named.
    pub api_key_env: Option<String>,
    /// Headers sent with each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How its server differs from others, one of the names in docs/models.md; by address and name when absent.
    pub dialect: Option<String>,
    /// Milliseconds to connect; default 10000.
    pub connect_timeout_ms: Option<u64>,
    /// Milliseconds until the first piece of an answer; default 300000, since local models load first.
    pub first_token_timeout_ms: Option<u64>,
    /// Milliseconds between two pieces of an answer before the call counts as stalled; default 120000.
    pub idle_timeout_ms: Option<u64>,
    /// Calls it takes at once; the others wait, which is no part of their own time. Default 16.
    #[schemars(range(min = 1))]
    pub concurrent_calls: Option<NonZeroUsize>,
    /// For `script`: the file with the answers, relative to the file that names it.
    pub file: Option<String>,
    /// For `llama`: the folder of the models, relative to the file that names it; default `models` in agon's state folder.
    pub folder: Option<String>,
    /// For `llama`: threads a model runs on; default one for each processor.
    #[schemars(range(min = 1))]
    pub threads: Option<u32>,
    /// For `llama`: layers kept on the GPU; default as many as there are. 0 leaves the GPU alone.
    pub gpu_layers: Option<u32>,
}

/// What is known of one model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelTable {
    /// Context window in tokens; default 128000.
    pub context: Option<u64>,
    /// Most output tokens of one answer; default 8192.
    pub max_output: Option<u64>,
    /// Prices; unknown when absent, nothing for a provider on this machine.
    pub price: Option<PriceTable>,
    /// How typed answers are asked for; default `any`.
    pub structured: Option<Structured>,
    /// Sampling temperature; the provider's default when absent.
    pub temperature: Option<Thousandths>,
    /// Parameters the model refuses, such as `temperature`; replaces what agon knows and has learnt of it.
    pub refuses: Option<Vec<String>>,
    /// True for a model that takes pictures; any other is sent their words.
    pub images: Option<bool>,
    /// Models to try when this one is not available, in order.
    pub fallbacks: Option<Vec<String>>,
    /// Models to try after a failure of this kind (`rate_limited`, `overloaded`, `quota`, `auth`, `network`, `timeout`, …),
    /// in place of `fallbacks`. An empty list: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fallbacks_on: BTreeMap<ErrorKind, Vec<String>>,
    /// Model family, for counting independent votes.
    pub family: Option<String>,
}

/// Prices in dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceTable {
    /// Fresh input.
    pub input: Dollars,
    /// Input the provider had cached; the price of fresh input when absent.
    pub cached: Option<Dollars>,
    /// Input the provider writes to its cache; the price of fresh input when absent.
    pub written: Option<Dollars>,
    /// Output.
    pub output: Dollars,
}

impl ConfigFile {
    /// The values that hold when nobody says otherwise.
    pub fn defaults() -> Self {
        let (limits, retry) = (Limits::default(), RetrySpec::default());
        ConfigFile {
            persona: Some("solo".to_owned()),
            permission: Some(PermissionLevel::default()),
            limits: Some(LimitsTable {
                max_steps: Some(limits.max_steps),
                model_timeout_ms: Some(limits.model_timeout_ms),
                tool_timeout_ms: Some(limits.tool_timeout_ms),
                tool_timeout_max_ms: Some(limits.tool_timeout_max_ms),
                subagents: Some(limits.subagents.total),
                subagents_at_once: Some(limits.subagents.at_once),
                subagent_depth: Some(limits.subagents.depth),
                subagent_steps: Some(limits.subagents.max_steps),
                ..LimitsTable::default()
            }),
            retry: Some(RetryTable {
                attempts: Some(retry.attempts),
                base_ms: Some(retry.base_ms),
                cap_ms: Some(retry.cap_ms),
            }),
            policy: Some(PolicyTable { defaults: Some(true), rules: Vec::new() }),
            sandbox: Some(SandboxTable {
                kind: Some(SandboxKind::Auto),
                docker: Some(DockerTable::defaults()),
            }),
            cache: Some(CacheTable::defaults()),
            names: Some(NamesTable {
                protected: Names::standard().all_protected().map(str::to_owned).collect(),
                secret: Names::standard().secret.clone(),
                except: Names::standard().except.clone(),
            }),
            ..ConfigFile::default()
        }
    }
}

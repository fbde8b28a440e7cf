//! Everything decisions need to know before they are taken, as it stands in the log; reads nothing itself.

mod limits;
mod place;
mod policy;
mod tools;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::event::ErrorKind;
use crate::protocol::message::{Effort, Structured, Usage};
use crate::protocol::stored::stored;
pub use limits::{ANY_STEPS, Budget, Limits, RetrySpec, SubagentLimits};
pub use place::{Consent, RolePlace, SandboxSpec, WorkspaceSpec};
pub use policy::{Action, DeniedPath, DeniedPaths, PermissionLevel, Policy, Rule};
pub use tools::{Family, OF_A_SERVER, ToolSpec, is_chosen, names_tools};

/// What a session is opened with: whole, so that a log explains itself without any other file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spec {
    /// Program name and version that opened the session.
    pub program: String,
    /// Seed of every jitter and shuffle.
    pub seed: u64,
    /// Where the work happens.
    pub workspace: WorkspaceSpec,
    /// The models that may be called, with capability and price rows. The first is the default.
    pub models: Vec<ModelSpec>,
    /// The personas in use. The first is the default of a solo spark.
    pub personas: Vec<PersonaSpec>,
    /// The tools there are: the built-in ones, those a program registered, and those that sources have listed since.
    pub tools: Vec<ToolSpec>,
    /// The tools that sparks are offered, as names, families and patterns; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<Vec<String>>,
    /// Where further tools come from: asked for their list as each turn begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Gates that judge each prepared call; a call is run only when all have answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<String>,
    /// How much models think, unless a persona or a role says otherwise; the provider's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Who may do what.
    pub policy: Policy,
    /// How much tools do without a question; `ask` when absent.
    #[serde(default, skip_serializing_if = "is_ask")]
    pub permission: PermissionLevel,
    /// Where the session stops by itself.
    pub limits: Limits,
    /// How failed model calls are repeated.
    pub retry: RetrySpec,
    /// Instruction files read at open.
    #[serde(default)]
    pub instructions: Vec<Instruction>,
    /// The blueprint squads follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blueprint: Option<Blueprint>,
    /// Present when squads look their runs up in the team cache and store them there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheSpec>,
}

/// What decides a squad's result and stands nowhere else in the spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheSpec {
    /// Provider name → SHA-256 over what answers under that name (its kind and address, or its script), hex.
    #[serde(default)]
    pub providers: BTreeMap<String, String>,
    /// SHA-256 over the variables that commands are passed, hex; absent in logs of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
}

/// The family a model's name tells of: the letters its last part begins with, `qwen` of `loc/qwen3-8b`; none where
/// that is no word. A guess, for models whose family nobody stated.
pub fn family_in(model: &str) -> Option<&str> {
    let base = model.rsplit('/').next().unwrap_or(model);
    let end = base.find(|c: char| !c.is_alphabetic()).unwrap_or(base.len());
    (base[..end].chars().count() >= 2).then_some(&base[..end])
}

/// One model: its name, what it can take and what it costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelSpec {
    /// `PROVIDER/MODEL`.
    pub name: String,
    /// Model family, for counting independent votes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Context window in tokens.
    pub context: u64,
    /// Most output tokens of one answer.
    pub max_output: u64,
    /// Prices; unknown when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// How typed answers are asked for.
    #[serde(default)]
    pub structured: Structured,
    /// Sampling temperature in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_pm: Option<u32>,
    /// Parameters the model refuses, by their names on the wire: `temperature`, `max_tokens`, ….
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refuses: Vec<String>,
    /// True for a model that takes pictures.
    #[serde(default, skip_serializing_if = "is_false")]
    pub images: bool,
    /// Models to try when this one is not available, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<String>,
    /// Models to try after a failure of this kind, in place of `fallbacks`; none where the list is empty.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fallbacks_on: BTreeMap<ErrorKind, Vec<String>>,
}

/// What a model that cannot call tools refuses.
pub const TOOLS: &str = "tools";

impl ModelSpec {
    /// False when the model was seen to call no tools.
    pub fn calls_tools(&self) -> bool {
        !self.refuses(TOOLS)
    }

    /// True when the model refuses this parameter.
    pub fn refuses(&self, parameter: &str) -> bool {
        self.refuses.iter().any(|name| name == parameter)
    }

    /// Every model that may take over from it.
    pub fn all_fallbacks(&self) -> impl Iterator<Item = &String> {
        self.fallbacks.iter().chain(self.fallbacks_on.values().flatten())
    }

    /// A model of which only the name is known: 128,000 tokens of context, 8,192 of output, no price.
    pub fn named(name: impl Into<String>) -> Self {
        ModelSpec {
            name: name.into(),
            family: None,
            context: 128_000,
            max_output: 8_192,
            price: None,
            structured: Structured::default(),
            temperature_pm: None,
            refuses: Vec::new(),
            images: false,
            fallbacks: Vec::new(),
            fallbacks_on: BTreeMap::new(),
        }
    }
}

/// Prices in millionths of a dollar per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Price {
    /// Fresh input.
    pub input: u64,
    /// Input the provider had cached.
    pub cached: u64,
    /// Input the provider writes to its cache; as fresh input when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<u64>,
    /// Output.
    pub output: u64,
}

impl Price {
    /// Millionths of a dollar that a provider's cache saved against fresh input; below 0 where writing it cost more.
    pub fn saved(&self, usage: &Usage) -> i64 {
        let part =
            |tokens: u64, price: u64| i128::from(tokens) * (i128::from(self.input) - i128::from(price));
        let exact = part(usage.cached, self.cached) + part(usage.written, self.written.unwrap_or(self.input));
        i64::try_from(exact / 1_000_000).unwrap_or(i64::MAX)
    }
}

/// Who a spark is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PersonaSpec {
    /// Id, as in `--personas`.
    pub id: String,
    /// One line on it.
    #[serde(default)]
    pub description: String,
    /// What it stands for in a debate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stance: Option<String>,
    /// Its own model, else the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Models to try when its own is not available, in place of that model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallbacks: Option<Vec<String>>,
    /// Tools it may use; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Its own temperature in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_pm: Option<u32>,
    /// How much its model thinks, else the session's effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The system prompt.
    pub text: String,
}

impl PersonaSpec {
    /// The models it names, its own first.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.model.iter().chain(self.fallbacks.iter().flatten()).map(String::as_str)
    }

    /// A persona with a system prompt and nothing else of its own.
    pub fn with_text(id: impl Into<String>, text: impl Into<String>) -> Self {
        PersonaSpec {
            id: id.into(),
            description: String::new(),
            stance: None,
            model: None,
            fallbacks: None,
            tools: None,
            temperature_pm: None,
            effort: None,
            text: text.into(),
        }
    }
}

stored! {
    /// What a tool may do to the world.
    #[derive(Copy, Eq, PartialOrd, Ord, Hash)]
    pub enum Risk of Word {
        /// Looks.
        Read,
        /// Changes files.
        Write,
        /// Runs commands.
        Execute,
        /// Talks to other machines.
        Network,
    }
}

/// An instruction file, whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Instruction {
    /// Where it was found, relative to the workspace, or a name of the user's own file.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl Instruction {
    /// In place of a path: what is true of the place where the session works. It decides nothing that is cached.
    pub const PLACE: &str = "(the place)";
}

stored! {
    /// Who works on a prompt.
    #[derive(Default, Eq)]
    pub enum Mode of Foreign {
        /// One spark.
        #[default]
        Solo,
        /// The blueprint's roles.
        Squad,
        /// Personas in phases.
        Debate(DebatePlan),
    }
}

/// How a debate is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DebatePlan {
    /// Debaters, by persona id.
    pub personas: Vec<String>,
    /// Who states propositions and writes the verdict.
    pub moderator: String,
    /// Phases in total, 2..=12.
    pub rounds: u32,
    /// Scorer of convergence.
    pub scorer: String,
    /// Models of single debaters: persona id, `PROVIDER/MODEL`.
    #[serde(default)]
    pub models: Vec<(String, String)>,
}

/// Who does what in a squad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blueprint {
    /// Name.
    pub name: String,
    /// The role that states the plan first and writes the answer last; the first role when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead: Option<String>,
    /// The roles.
    pub roles: Vec<RoleSpec>,
    /// Commands run after each turn of a writer.
    #[serde(default)]
    pub checks: Vec<String>,
}

/// One role of a blueprint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoleSpec {
    /// Name, unique in the blueprint.
    pub name: String,
    /// Persona id.
    pub persona: String,
    /// Its own model, else the persona's, else the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Models to try when its own is not available, else the persona's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallbacks: Option<Vec<String>>,
    /// Tools, else the persona's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// How much its model thinks, else the persona's effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Roles that must be done first.
    #[serde(default)]
    pub after: Vec<String>,
    /// Roles this one may send back.
    #[serde(default)]
    pub revise: Vec<String>,
    /// How its own commands are confined (`local` or `docker`); like the session's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// True for a role whose commands cannot change the workspace.
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_only: bool,
    /// How often it may send them back; default 2.
    #[serde(default = "two")]
    pub revisions: u32,
    /// Model calls of one turn of this role; the session's limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_ask(level: &PermissionLevel) -> bool {
    *level == PermissionLevel::Ask
}

fn two() -> u32 {
    2
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl RoleSpec {
    /// The models it names, its own first.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.model.iter().chain(self.fallbacks.iter().flatten()).map(String::as_str)
    }

    /// True for a role whose commands run in a place of their own, apart from the session's.
    pub fn has_place(&self) -> bool {
        self.sandbox.is_some() || self.read_only
    }
}

stored! {
    /// One changed setting, whole.
    pub enum Setting of Foreign {
        /// A model with its rows; becomes the default when `default` is true.
        Model {
            /// The model.
            spec: ModelSpec,
            /// Whether sparks without a model of their own use it from now on.
            default: bool,
        },
        /// A persona; replaces one of the same id, and is the solo persona when `default` is true.
        Persona {
            /// The persona.
            spec: PersonaSpec,
            /// Whether solo sparks are this persona from now on.
            default: bool,
        },
        /// The whole policy.
        Policy(Policy),
        /// The limits.
        Limits(Limits),
        /// How failed model calls are repeated.
        Retry(RetrySpec),
        /// The blueprint.
        Blueprint(Blueprint),
        /// The workspace and what confines it.
        Workspace(WorkspaceSpec),
        /// The team cache; off when absent.
        Cache(Option<CacheSpec>),
        /// The model of one role or persona.
        RoleModel {
            /// Role or persona id.
            role: String,
            /// `PROVIDER/MODEL`, one of the spec's.
            model: String,
        },
        /// The tools that sparks are offered; all when absent.
        Offered(Option<Vec<String>>),
        /// Where further tools come from.
        Sources(Vec<String>),
        /// The gates.
        Gates(Vec<String>),
        /// How much tools do without a question.
        Permission(PermissionLevel),
        /// How much models think; the provider's default when absent.
        Effort(Option<Effort>),
    }
}

impl Spec {
    /// The model of a spark: `own` where it names one, else its persona's, else the default.
    pub fn model_for<'a>(&'a self, own: Option<&'a str>, persona: &str) -> Option<&'a str> {
        let persona = || self.personas.iter().find(|known| known.id == persona)?.model.as_deref();
        own.or_else(persona).or_else(|| self.models.first().map(|model| model.name.as_str()))
    }

    /// Applies a changed setting. A model or persona that becomes the default stands first, a new one last; a known model
    /// keeps its place.
    pub fn set(&mut self, setting: &Setting) {
        match setting {
            Setting::Model { spec: model, default } => {
                let known = self.models.iter().position(|known| known.name == model.name);
                if let Some(place) = known {
                    self.models.remove(place);
                }
                // What is only said again of a model leaves the default as it is.
                let place = if *default { 0 } else { known.unwrap_or(self.models.len()) };
                self.models.insert(place, model.clone());
            }
            Setting::Persona { spec: persona, default } => {
                self.personas.retain(|known| known.id != persona.id);
                let place = if *default { 0 } else { self.personas.len() };
                self.personas.insert(place, persona.clone());
            }
            Setting::Policy(policy) => self.policy = policy.clone(),
            Setting::Limits(limits) => self.limits = limits.clone(),
            Setting::Retry(retry) => self.retry = retry.clone(),
            Setting::Blueprint(blueprint) => self.blueprint = Some(blueprint.clone()),
            Setting::Workspace(workspace) => self.workspace = workspace.clone(),
            Setting::Cache(cache) => self.cache = cache.clone(),
            Setting::RoleModel { role, model } => {
                if let Some(persona) = self.personas.iter_mut().find(|persona| persona.id == *role) {
                    persona.model = Some(model.clone());
                }
                let roles = self.blueprint.iter_mut().flat_map(|blueprint| &mut blueprint.roles);
                for part in roles.filter(|part| part.name == *role) {
                    part.model = Some(model.clone());
                }
            }
            Setting::Offered(offered) => self.offered.clone_from(offered),
            Setting::Sources(sources) => {
                self.sources.clone_from(sources);
                self.tools.retain(|tool| tool.source.as_ref().is_none_or(|source| sources.contains(source)));
            }
            Setting::Gates(gates) => self.gates.clone_from(gates),
            Setting::Permission(level) => self.permission = *level,
            Setting::Effort(effort) => self.effort = *effort,
            Setting::Unknown(_) => {}
        }
    }

    /// Takes the tools of a source in place of those it listed before. A name that another has is not taken.
    pub fn list(&mut self, source: &str, tools: &[ToolSpec]) {
        self.tools.retain(|tool| tool.source.as_deref() != Some(source));
        for tool in tools {
            if self.tools.iter().all(|known| known.name != tool.name) {
                self.tools.push(ToolSpec { source: Some(source.to_owned()), ..tool.clone() });
            }
        }
    }
}

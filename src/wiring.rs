//! The only file that names concrete adapters: puts an arena together.

mod builder;
mod cache;
pub mod clock;
pub mod docker;
pub mod error;
mod fork;
pub mod lock;
mod place;
mod providers;
pub mod sessions;
mod spec;
mod squad;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::eventlog::LogError;
pub use builder::ArenaBuilder;
pub use cache::Runs;
pub use clock::SystemClock;
pub use error::WireError;
pub use fork::{Fork, ForkPlan};
pub use lock::WorkspaceLock;
pub use place::{Proof, Verdict, prove, sandbox};
pub use sessions::Sessions;
pub use spec::{Request, personas};
pub use squad::SquadWish;

use place::{Place, kind_of};
use squad::Crew;

use crate::arena::Arena;
use crate::config::{Config, ModelName, SandboxKind};
use crate::eventlog::SessionStore;
use crate::protocol::spec::{Limits, Policy, Risk, SandboxSpec, Setting, Spec, WorkspaceSpec};
use crate::protocol::{ArenaEvent, CallId, Entry};
use crate::session::Session;
pub use crate::teamcache::Removed as RemovedRuns;

/// Becomes the sandbox if this process was started for that, and then never returns.
///
/// A program that embeds agon and wants the sandbox `local` calls this first in its `main`, before any thread is
/// started: each confined command begins with starting the program itself again.
pub fn sandbox_entry() {
    #[cfg(target_os = "linux")]
    crate::sandbox::local::enter();
}

/// A running session and what its view needs to begin with.
pub struct Running {
    /// The arena.
    pub arena: Arena,
    /// The session's id.
    pub id: String,
    /// What was recorded before this process took it up; empty for a new session.
    pub recorded: Vec<Arc<Entry>>,
    /// Approvals that are open already: call and digest.
    pub asks: Vec<(CallId, String)>,
    /// True when a turn is open and goes on by itself.
    pub has_open_turn: bool,
    /// What confines the tools.
    pub sandbox: SandboxSpec,
    /// Keeps other processes that write out of the workspace; none when nothing here can write.
    pub lock: Option<WorkspaceLock>,
    /// The folder it works in.
    pub workspace: PathBuf,
}

/// Opens a new session in the configured workspace. `attended`: somebody can answer approvals.
pub async fn open(config: &Config, request: &Request, attended: bool) -> Result<Running, WireError> {
    let id = uuid::Uuid::now_v7().to_string();
    let place = Place::configured(config, config.sandbox(), config.workspace(), &id).await?;
    let spec = spec::make(config, request, place.vault.specs(), place.workspace_spec())?;
    let connected = providers::connect(config, &spec.models, &[])?;
    let lock = lock_for(config, &spec)?;
    let log = store(config).create(&id)?;
    let sandbox = spec.workspace.sandbox.clone();
    let ports = place.ports(log, connected, attended);
    let arena = Arena::open(id.clone(), spec, ports).await?;
    let workspace = config.workspace().to_owned();
    let (recorded, asks) = (Vec::new(), Vec::new());
    Ok(Running { arena, id, recorded, asks, has_open_turn: false, sandbox, workspace, lock })
}

/// What is different from the recorded settings when a session is taken up again.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Another default model.
    pub model: Option<ModelName>,
    /// Another persona.
    pub persona: Option<String>,
    /// Other limits; what is absent stays as recorded.
    pub limits: LimitChanges,
    /// Another policy.
    pub policy: Option<Policy>,
    /// Another sandbox.
    pub sandbox: Option<SandboxKind>,
    /// A squad for the next turn.
    pub squad: Option<SquadWish>,
}

/// Limits that are wanted instead of the recorded ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitChanges {
    /// Model calls of one turn.
    pub max_steps: Option<u32>,
    /// Tokens of the session.
    pub max_tokens: Option<u64>,
    /// Millionths of a dollar of the session.
    pub max_micro_usd: Option<u64>,
    /// Active seconds of one turn.
    pub max_seconds: Option<u64>,
}

impl LimitChanges {
    fn over(self, recorded: &Limits) -> Limits {
        Limits {
            max_steps: self.max_steps.unwrap_or(recorded.max_steps),
            max_tokens: self.max_tokens.or(recorded.max_tokens),
            max_micro_usd: self.max_micro_usd.or(recorded.max_micro_usd),
            max_seconds: self.max_seconds.or(recorded.max_seconds),
            ..recorded.clone()
        }
    }
}

impl Changes {
    /// What was changed, for people; `None` when nothing was.
    fn in_words(&self) -> Option<String> {
        let words = [
            self.model.as_ref().map(|name| format!("model {name}")),
            self.persona.as_ref().map(|id| format!("persona {id}")),
            self.policy.as_ref().map(|_| "policy".to_owned()),
            (self.limits != LimitChanges::default()).then(|| "limits".to_owned()),
            self.sandbox.map(|kind| format!("sandbox {}", kind.word())),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

/// Takes a session up again. `config` must have been loaded for the session's own workspace
/// ([`Sessions::workspace`]).
pub async fn resume(
    config: &Config,
    name: &str,
    wanted: &Changes,
    attended: bool,
) -> Result<Running, WireError> {
    let store = store(config);
    let path = store.find(name)?;
    let mut recorded = Vec::new();
    let opened = store.open(&path, &mut |entry| recorded.push(Arc::new(entry)))?;
    let session = Session::fold(&recorded).map_err(crate::arena::ArenaError::from)?;
    let spec = session.spec().cloned().ok_or_else(|| WireError::NeverOpened(path.id.clone()))?;
    let kind = wanted.sandbox.unwrap_or_else(|| kind_of(&spec.workspace.sandbox));
    let place = Place::configured(config, kind, Path::new(&spec.workspace.root), &path.id).await?;
    let (changed, spec) = changes(config, spec, place.workspace_spec(), wanted)?;
    let connected = providers::connect(config, &spec.models, &recorded)?;
    let lock = lock_for(config, &spec)?;
    let before = opened.recovered.map(ArenaEvent::FaultRecovered).into_iter().collect();
    let ports = place.ports(opened.log, connected, attended);
    let arena = Arena::resume(&recorded, before, changed, ports).await?;
    Ok(Running {
        arena,
        id: path.id,
        asks: session.open_asks(),
        has_open_turn: session.has_open_turn(),
        sandbox: spec.workspace.sandbox,
        workspace: PathBuf::from(spec.workspace.root),
        recorded,
        lock,
    })
}

/// Two writers in one workspace would overwrite each other's work.
fn lock_for(config: &Config, spec: &Spec) -> Result<Option<WorkspaceLock>, WireError> {
    let writes = spec.tools.iter().any(|tool| tool.risk != Risk::Read);
    let root = Path::new(&spec.workspace.root);
    writes.then(|| WorkspaceLock::take(&config.places().state, root)).transpose()
}

/// Copies a session up to an entry into a new one with a workspace of its own.
pub async fn fork(config: &Config, plan: &ForkPlan, attended: bool) -> Result<Running, WireError> {
    Fork::prepare(config, plan, attended).await?.start().await
}

/// The session store of a configuration.
fn store(config: &Config) -> SessionStore {
    SessionStore::new(config.places().state.clone())
}

/// The settings that differ from what the log says, and the spec with them applied.
fn changes(
    config: &Config,
    mut spec: Spec,
    workspace: WorkspaceSpec,
    wanted: &Changes,
) -> Result<(Vec<Setting>, Spec), WireError> {
    let mut changed = Vec::new();
    if workspace != spec.workspace {
        spec.workspace = workspace.clone();
        changed.push(Setting::Workspace(workspace));
    }
    changed.extend(voices(config, &spec, wanted)?);
    for setting in &changed {
        match setting {
            Setting::Model { spec: model, default } => {
                spec.models.retain(|known| known.name != model.name);
                spec.models.insert(if *default { 0 } else { spec.models.len() }, model.clone());
            }
            Setting::Persona { spec: persona, .. } => {
                spec.personas.retain(|known| known.id != persona.id);
                spec.personas.insert(0, persona.clone());
            }
            _ => {}
        }
    }
    if let Some(policy) = &wanted.policy {
        spec.policy = policy.clone();
        changed.push(Setting::Policy(policy.clone()));
    }
    let limits = wanted.limits.over(&spec.limits);
    if limits != spec.limits {
        spec.limits = limits.clone();
        changed.push(Setting::Limits(limits));
    }
    if let Some(wish) = &wanted.squad {
        let crew = Crew::of(config, wish, &spec.tools, wanted.model.is_some())?;
        for name in crew.models() {
            let name: ModelName = name.parse().map_err(crate::config::ConfigError::from)?;
            if spec.models.iter().all(|known| known.name != name.to_string()) {
                let model = spec::model(config, &name)?;
                spec.models.push(model.clone());
                changed.push(Setting::Model { spec: model, default: false });
            }
        }
        let personas = crew.personas.into_iter().map(|spec| Setting::Persona { spec, default: false });
        changed.extend(personas);
        spec.blueprint = Some(crew.blueprint.clone());
        changed.push(Setting::Blueprint(crew.blueprint));
    }
    spec::check(&spec)?;
    Ok((changed, spec))
}

/// The wanted model and persona with every model they bring in. A wanted model counts more than a persona's own.
fn voices(config: &Config, spec: &Spec, wanted: &Changes) -> Result<Vec<Setting>, WireError> {
    let named = wanted.persona.as_deref().map(|id| spec::named_persona(config, id)).transpose()?;
    let mut persona = named.or_else(|| {
        let recorded = spec.personas.first().filter(|persona| persona.model.is_some());
        wanted.model.as_ref().and(recorded).cloned()
    });
    if let (Some(persona), Some(_)) = (&mut persona, &wanted.model) {
        persona.model = None;
    }
    let own = persona.as_ref().and_then(|persona| persona.model.clone());
    let mut names: Vec<ModelName> = wanted.model.iter().cloned().collect();
    names.extend(own.as_deref().map(str::parse).transpose().map_err(crate::config::ConfigError::from)?);
    let mut changed = Vec::new();
    for (i, model) in spec::models_of(config, names)?.into_iter().enumerate() {
        let default = i == 0 && wanted.model.is_some();
        let is_known = spec.models.iter().any(|known| known.name == model.name);
        if default || !is_known {
            changed.push(Setting::Model { spec: model, default });
        }
    }
    if let Some(persona) = persona {
        let id = persona.id.clone();
        changed.push(Setting::Persona { spec: persona, default: true });
        // A spark at work goes over to it as well.
        changed.extend(own.map(|model| Setting::RoleModel { role: id, model }));
    }
    Ok(changed)
}

//! Puts an arena together from Rust values: no configuration, no environment, no command line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::arena::{Arena, ArenaPorts, PROGRAM, Recorded, Resumption};
use crate::assembly::confine;
use crate::assembly::place::Place;
use crate::assembly::role_sandboxes::Means;
use crate::assembly::taken_up::{self, Here, Origin};
use crate::assembly::{Running, WireError, ownership, providers, spec};
use crate::config::SandboxKind;
use crate::eventlog::{LogError, SessionLog, SessionStore};
use crate::ports::{Provider, Tool, Workers};
use crate::protocol::blueprint;
use crate::protocol::spec::{
    Blueprint, Limits, ModelSpec, PersonaSpec, Policy, RetrySpec, Setting, Spec, WorkspaceSpec,
};
use crate::protocol::{ArenaEvent, CallKind};
use crate::sandbox::crash_journal;
use crate::session::convergence::{Scorer, Scorers};
use crate::session::policy;
use crate::toolvault::VaultError;

/// Opens a session from Rust. See the example of the [crate].
///
/// The workspace is where the tools work; the state folder keeps log, blobs and recorded trees. Tools run
/// unconfined unless [`ArenaBuilder::sandbox`] says otherwise. Without personas the spark is a plain one; without a policy reads are allowed and everything
/// else is asked about.
pub struct ArenaBuilder {
    workspace: PathBuf,
    state: PathBuf,
    providers: BTreeMap<String, Arc<dyn Provider>>,
    models: Vec<ModelSpec>,
    personas: Vec<PersonaSpec>,
    blueprint: Option<Blueprint>,
    tools: Vec<Arc<dyn Tool>>,
    scorers: Scorers,
    workers: BTreeMap<CallKind, Arc<dyn Workers>>,
    policy: Policy,
    limits: Limits,
    retry: RetrySpec,
    secrets: Vec<(String, String)>,
    sandbox: SandboxKind,
    attended: bool,
}

impl ArenaBuilder {
    /// Begins with a workspace, which must be there, and a state folder, which is made.
    pub fn new(workspace: impl Into<PathBuf>, state: impl Into<PathBuf>) -> Self {
        ArenaBuilder {
            workspace: workspace.into(),
            state: state.into(),
            providers: BTreeMap::new(),
            models: Vec::new(),
            personas: Vec::new(),
            blueprint: None,
            tools: Vec::new(),
            scorers: Scorers::default(),
            workers: BTreeMap::new(),
            policy: policy::standard(),
            limits: Limits::default(),
            retry: RetrySpec::default(),
            secrets: Vec::new(),
            sandbox: SandboxKind::None,
            attended: false,
        }
    }

    /// Connects a provider under the name that stands before a model's first slash.
    #[must_use]
    pub fn provider(mut self, name: impl Into<String>, provider: Arc<dyn Provider>) -> Self {
        self.providers.insert(name.into(), provider);
        self
    }

    /// Adds a model. The first is the default.
    #[must_use]
    pub fn model(mut self, model: ModelSpec) -> Self {
        self.models.push(model);
        self
    }

    /// Adds a persona. The first is who a solo spark is.
    #[must_use]
    pub fn persona(mut self, persona: PersonaSpec) -> Self {
        self.personas.push(persona);
        self
    }

    /// Gives the squad whose roles a prompt in squad mode is worked on by. The personas, models and tools it names
    /// must be added; [`ArenaBuilder::open`] says what of it cannot be followed.
    #[must_use]
    pub fn blueprint(mut self, blueprint: Blueprint) -> Self {
        self.blueprint = Some(blueprint);
        self
    }

    /// Adds a tool beside the built-in ones.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds a scorer of debates under a name that plans can give, beside `ballots` and `lexical`. A session
    /// whose log names it can only be resumed and verified where it is registered.
    #[must_use]
    pub fn scorer(mut self, name: impl Into<String>, scorer: Scorer) -> Self {
        self.scorers = self.scorers.with(name, scorer);
        self
    }

    /// Has one kind of ordered work carried out elsewhere: by another process, on another machine, by hand.
    #[must_use]
    pub fn workers(mut self, kind: CallKind, workers: Arc<dyn Workers>) -> Self {
        self.workers.insert(kind, workers);
        self
    }

    /// Says who may do what, in place of [`policy::standard`], which only denies files that commonly hold secrets.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Says where the session stops by itself.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Says how failed model calls are repeated.
    #[must_use]
    pub fn retry(mut self, retry: RetrySpec) -> Self {
        self.retry = retry;
        self
    }

    /// Keeps a value out of log, signals and requests: `[secret:NAME]` stands in its place.
    #[must_use]
    pub fn secret(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.secrets.push((name.into(), value.into()));
        self
    }

    /// Confines the tools. `local` needs [`crate::sandbox_entry`] at the beginning of the program's `main`.
    #[must_use]
    pub fn sandbox(mut self, kind: SandboxKind) -> Self {
        self.sandbox = kind;
        self
    }

    /// Says that somebody will answer approvals. Otherwise an open approval ends the arena paused.
    #[must_use]
    pub fn attended(mut self) -> Self {
        self.attended = true;
        self
    }

    /// Opens the session and waits until that is on disk.
    pub async fn open(mut self) -> Result<Running, WireError> {
        if self.models.is_empty() {
            return Err(WireError::Provider("no model is named for this session".to_owned()));
        }
        let id = uuid::Uuid::now_v7().to_string();
        let policy = self.policy.clone();
        let mut place = self.place(self.sandbox, &policy).await?;
        if self.personas.is_empty() {
            self.personas.push(PersonaSpec::with_text(
                "solo",
                "You work with the tools you have and say what you did.",
            ));
        }
        let mut spec = Spec {
            program: PROGRAM.to_owned(),
            seed: uuid::Uuid::now_v7().as_u64_pair().1,
            workspace: place.workspace_spec(),
            models: std::mem::take(&mut self.models),
            personas: std::mem::take(&mut self.personas),
            tools: place.vault.specs(),
            policy: self.policy.clone(),
            limits: self.limits.clone(),
            retry: self.retry.clone(),
            instructions: Vec::new(),
            blueprint: self.blueprint.take(),
            cache: None,
        };
        spec::check(&spec)?;
        blueprint::check_spec(&spec)?;
        place.furnish(Means::Plain(&self.state), &mut Vec::new(), &mut spec).await?;
        let log = SessionStore::new(self.state.clone()).create(&id)?;
        ownership::mark(&self.state, &id, &self.workspace)?;
        let notes = std::mem::take(&mut place.notes);
        let sandbox = spec.workspace.sandbox.clone();
        let ports = self.ports(place, log);
        let arena = Arena::open(id.clone(), spec, ports).await?;
        // A program that embeds agon may hold several arenas in one workspace; it keeps them apart itself.
        let (workspace, lock) = (self.workspace, None);
        Ok(Running { arena, id, recorded: 0, has_open_turn: false, sandbox, workspace, lock, notes })
    }

    /// Resumes a recorded session of the state folder, by its id or the start of it. Providers, tools, scorers,
    /// secrets, workspace, sandbox and policy are those of this builder; models, personas, limits and retries are the
    /// recorded ones. Of a session that no builder began in this state folder, no grant, check, price or size counts:
    /// the builder must have its models, its retries apply, and of each limit the lower one.
    pub async fn resume(mut self, name: &str) -> Result<Running, WireError> {
        let store = SessionStore::new(self.state.clone());
        let path = store.find(name)?;
        let mut recorded = Recorded::default();
        let opened = store.open(&path, &mut |entry| recorded.apply(&Arc::new(entry)))?;
        let session = recorded.session();
        let (count, has_open_turn) = (session.next_seq(), session.has_open_turn());
        let mut spec = session.spec().cloned().ok_or_else(|| LogError::NeverOpened(path.id.clone()))?;
        let (origin, _) = taken_up::origin(&self.state, &path);
        let before = spec.clone();
        let policy = self.policy.clone();
        let mut place = self.place(self.sandbox, &policy).await?;
        let here = WorkspaceSpec { places: spec.workspace.places.clone(), ..place.workspace_spec() };
        let held = Here { policy: &policy, retry: &self.retry, limits: &self.limits };
        let mut changed = taken_up::of_here(&spec, held, origin);
        if origin == Origin::Foreign {
            changed.extend(self.own_models(&spec)?);
        }
        if here != spec.workspace {
            changed.push(Setting::Workspace(here));
        }
        changed.iter().for_each(|setting| spec.set(setting));
        spec::check(&spec)?;
        place.furnish(Means::Plain(&self.state), &mut changed, &mut spec).await?;
        let mut notes = std::mem::take(&mut place.notes);
        notes.extend(taken_up::differences(&before, &spec, origin, false));
        let before = opened.recovered.map(ArenaEvent::FaultRecovered).into_iter().collect();
        let ports = self.ports(place, opened.log);
        let resumption = Resumption { before, changed, foreign: origin == Origin::Foreign };
        let arena = Arena::resume(recorded, resumption, ports).await?;
        Ok(Running {
            arena,
            id: path.id,
            recorded: count,
            has_open_turn,
            sandbox: spec.workspace.sandbox,
            workspace: self.workspace,
            lock: None,
            notes,
        })
    }

    /// The recorded models as this builder has them, in the order they have; none where they are alike.
    fn own_models(&self, spec: &Spec) -> Result<Vec<Setting>, WireError> {
        let own = |model: &ModelSpec| {
            let own = self.models.iter().find(|own| own.name == model.name).cloned();
            own.ok_or_else(|| {
                WireError::Provider(format!("model `{}` is the log's and not the builder's", model.name))
            })
        };
        let own = spec.models.iter().map(own).collect::<Result<Vec<_>, _>>()?;
        let differ = own != spec.models;
        Ok(own.into_iter().filter(|_| differ).map(|spec| Setting::Model { spec, default: false }).collect())
    }

    /// The workspace with the tools of this builder.
    async fn place(&mut self, kind: SandboxKind, policy: &Policy) -> Result<Place, WireError> {
        let sandbox = confine::plain(kind, &self.workspace, (false, &policy.rules), &self.state).await?;
        let mut place = Place::open(&self.state, &self.workspace, sandbox)?;
        let notes = crash_journal::notes_of(&self.state);
        place.notes = crash_journal::settle(&notes, &self.workspace).map_err(WireError::Workspace)?;
        for tool in std::mem::take(&mut self.tools) {
            place.vault.register(tool).map_err(|error: VaultError| WireError::Tool(error.to_string()))?;
        }
        Ok(place)
    }

    fn ports(&mut self, place: Place, log: SessionLog) -> ArenaPorts {
        let providers = std::mem::take(&mut self.providers);
        let secrets = std::mem::take(&mut self.secrets);
        let connected = providers::Connected { providers, limits: BTreeMap::new(), secrets, learnings: None };
        let ports = place.ports(log, connected, self.attended);
        ArenaPorts { scorers: self.scorers.clone(), workers: std::mem::take(&mut self.workers), ..ports }
    }
}

//! Puts an arena together from Rust values: no configuration, no environment, no command line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::arena::{ArenaPorts, Attendance, PROGRAM, unfit_to_hide};
use crate::assembly::place::Place;
use crate::assembly::prepared::{Loaded, Prepared};
use crate::assembly::role_sandboxes::Means;
use crate::assembly::taken_up::{self, Here};
use crate::assembly::{Running, WireError, confine, load, opened, providers, resumed, spec};
use crate::config::SandboxKind;
use crate::eventlog::SessionStore;
use crate::ports::{Provider, Tool, ToolSource, Workers};
use crate::protocol::blueprint;
use crate::protocol::spec::{
    Blueprint, Limits, ModelSpec, PermissionLevel, PersonaSpec, Policy, RetrySpec, Setting, Spec,
};
use crate::protocol::{ArenaEvent, CallKind};
use crate::sandbox::crash_journal;
use crate::session::convergence::{Scorer, Scorers};
use crate::session::policy;
use crate::toolvault::VaultError;

/// Opens sessions from Rust values: the same as a configuration, without its files.
///
/// The workspace is where the tools work; the state folder keeps log, blobs and recorded trees. Tools run unconfined
/// unless [`ArenaBuilder::sandbox`] says otherwise. Without personas the spark is a plain one; without a policy reads are
/// allowed and everything else is asked about.
///
/// [`Host::open_built`](crate::Host::open_built) opens a session that any number of front ends may use;
/// [`ArenaBuilder::open`] gives the bare [`Arena`](crate::Arena).
///
/// ```
/// use std::sync::Arc;
///
/// use agon::config::Places;
/// use agon::host::{Answers, Update, Updates};
/// use agon::ports::{Preparation, Sandbox, Tool, ToolEnd};
/// use agon::protocol::effect::ToolCall;
/// use agon::protocol::spec::{DebatePlan, Mode, ModelSpec, PersonaSpec, Risk, ToolSpec};
/// use agon::protocol::{ArenaEvent, Command};
/// use agon::provider::script::Script;
/// use agon::session::convergence::{Panel, Scored};
/// use agon::{ArenaBuilder, Host};
///
/// /// A tool: says how many words a text has.
/// struct CountWords;
///
/// #[async_trait::async_trait]
/// impl Tool for CountWords {
///     fn spec(&self) -> ToolSpec {
///         let schema = serde_json::json!({
///             "type": "object",
///             "properties": {"text": {"type": "string"}},
///             "required": ["text"]
///         });
///         ToolSpec::new("count_words", "Counts the words of a text.", schema, Risk::Read)
///     }
///
///     async fn prepare(&self, call: &ToolCall, _: &dyn Sandbox) -> Result<Preparation, String> {
///         let text = call.args["text"].as_str().unwrap_or_default();
///         let words = text.split_whitespace().count();
///         Ok(Preparation::new("count words", Risk::Read, move |_| {
///             Box::pin(async move { ToolEnd::ok(format!("{words} words")) })
///         }))
///     }
/// }
///
/// /// A scorer: a debate has converged as far as its personas were heard, in thousandths.
/// fn heard(panel: &Panel) -> Scored {
///     let heard = panel.voters.iter().filter(|voter| voter.now.is_some()).count();
///     Scored { score_pm: Some((1000 * heard / panel.voters.len().max(1)) as u32), parts: Vec::new() }
/// }
///
/// /// What the models say, in place of a provider that costs money.
/// const SCRIPT: &str = r#"
/// [[answer]]
/// spark = "solo"
/// calls = [{ tool = "count_words", args = { text = "all that is gold" } }]
///
/// [[answer]]
/// spark = "solo"
/// expect = "4 words"
/// text = "four"
///
/// [[answer]]
/// spark = "ann"
/// text = '{"position": "Yes", "confidence": 80, "claims": ["It is short."], "evidence": [], "would_change": "A test"}'
/// [[answer]]
/// spark = "ann"
/// text = '{"ratings": [{"proposition": 1, "rating": 2, "confidence": 80}]}'
///
/// [[answer]]
/// spark = "ben"
/// text = '{"position": "Yes", "confidence": 70, "claims": ["It is old."], "evidence": [], "would_change": "A poem"}'
/// [[answer]]
/// spark = "ben"
/// text = '{"ratings": [{"proposition": 1, "rating": 2, "confidence": 70}]}'
///
/// [[answer]]
/// spark = "cat"
/// text = '{"propositions": ["The proverb is worth keeping."]}'
/// [[answer]]
/// spark = "cat"
/// text = '{"answer": "Keep it.", "rulings": [{"proposition": 1, "stance": "upheld", "because": "Both agree.", "evidence": []}], "confidence": 80, "minority": "", "risks": []}'
/// "#;
///
/// /// Prints the entries of a turn.
/// async fn print_turn(updates: &mut Updates) -> std::io::Result<()> {
///     loop {
///         match updates.next().await? {
///             Update::Entries(entries) => {
///                 for event in entries.iter().flat_map(|entry| &entry.events) {
///                     println!("{} {}", event.kind(), serde_json::to_string(event)?);
///                     if matches!(event, ArenaEvent::TurnClosed(_)) {
///                         return Ok(());
///                     }
///                 }
///             }
///             Update::Ended(_) => return Ok(()),
///             Update::Signal(_) | Update::NotTaken(_) => {}
///         }
///     }
/// }
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let workspace = tempfile::tempdir()?;
/// let state = tempfile::tempdir()?;
/// let mut builder = ArenaBuilder::new(workspace.path(), state.path())
///     .provider("mock", Arc::new(Script::from_toml("mock", SCRIPT)?))
///     .model(ModelSpec::named("mock/any"))
///     .persona(PersonaSpec::with_text("counter", "You count."))
///     .tool(Arc::new(CountWords))
///     .scorer("heard", heard);
/// for id in ["ann", "ben", "cat"] {
///     builder = builder.persona(PersonaSpec::with_text(id, "You think."));
/// }
///
/// let host = Host::at(&Places::beneath(state.path()));
/// let session = host.open_built(builder, Answers::Nobody).await?;
/// let mut updates = session.subscribe(0);
///
/// let text = "How many words has `all that is gold`?".to_owned();
/// session.command(Command::Prompt { text, mode: Mode::Solo, schema: None }).await?;
/// print_turn(&mut updates).await?;
///
/// let plan = DebatePlan {
///     personas: vec!["ann".to_owned(), "ben".to_owned()],
///     moderator: "cat".to_owned(),
///     rounds: 2,
///     scorer: "heard".to_owned(),
///     models: Vec::new(),
/// };
/// let text = "Is the proverb worth keeping?".to_owned();
/// session.command(Command::Prompt { text, mode: Mode::Debate(plan), schema: None }).await?;
/// print_turn(&mut updates).await?;
///
/// updates.leave().await;
/// # let log = host.sessions().read(session.id())?;
/// # let events: Vec<_> = log.entries.iter().flat_map(|entry| &entry.events).collect();
/// # let answers = |event: &&&ArenaEvent| matches!(event, ArenaEvent::TurnClosed(data) if data.answer.is_some());
/// # assert_eq!(events.iter().filter(answers).count(), 2);
/// # let scored = |event: &&&ArenaEvent| matches!(event, ArenaEvent::ConvergenceProbed(data) if data.score_pm == Some(1000));
/// # assert!(events.iter().any(|event| scored(&event)));
/// # assert!(matches!(events.last(), Some(ArenaEvent::SessionSealed(_))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ArenaBuilder {
    workspace: PathBuf,
    state: PathBuf,
    providers: BTreeMap<String, Arc<dyn Provider>>,
    models: Vec<ModelSpec>,
    personas: Vec<PersonaSpec>,
    blueprint: Option<Blueprint>,
    tools: Vec<Arc<dyn Tool>>,
    sources: BTreeMap<String, Arc<dyn ToolSource>>,
    gates: Vec<String>,
    offered: Option<Vec<String>>,
    scorers: Scorers,
    workers: BTreeMap<CallKind, Arc<dyn Workers>>,
    policy: Policy,
    permission: PermissionLevel,
    limits: Limits,
    retry: RetrySpec,
    secrets: Vec<(String, String)>,
    sandbox: SandboxKind,
    attended: Attendance,
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
            sources: BTreeMap::new(),
            gates: Vec::new(),
            offered: None,
            scorers: Scorers::default(),
            workers: BTreeMap::new(),
            policy: policy::standard(),
            permission: PermissionLevel::default(),
            limits: Limits::default(),
            retry: RetrySpec::default(),
            secrets: Vec::new(),
            sandbox: SandboxKind::None,
            attended: Attendance::Unattended,
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

    /// Adds a source of tools, which may come and go while the session runs: each turn asks it for its list.
    #[must_use]
    pub fn source(mut self, name: impl Into<String>, source: Arc<dyn ToolSource>) -> Self {
        self.sources.insert(name.into(), source);
        self
    }

    /// Offers only some of the tools: names, families (`files`, `run`, `web`, `agents`, `plan`) and patterns.
    #[must_use]
    pub fn offered(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.offered = Some(tools.into_iter().map(Into::into).collect());
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

    /// Has each prepared call judged by a gate before it is asked about or run; its verdicts come from the
    /// [`workers`](Self::workers) of [`CallKind::Gate`]. A gate may deny a call or have it asked about. One that fails
    /// denies.
    #[must_use]
    pub fn gate(mut self, name: impl Into<String>) -> Self {
        self.gates.push(name.into());
        self
    }

    /// Says who may do what, in place of [`policy::standard`], which only denies files that commonly hold secrets.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Says how much tools do without a question; [`PermissionLevel::Ask`] when absent.
    #[must_use]
    pub fn permission(mut self, level: PermissionLevel) -> Self {
        self.permission = level;
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

    /// Keeps a value out of log, signals and requests: `[secret:NAME]` replaces it. One under 8 bytes, or a plain word of
    /// lower-case letters, is refused as the session is opened: the log's own words would be replaced.
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

    /// Says that people will answer approvals and questions. Otherwise an open one ends the arena paused.
    #[must_use]
    pub fn attended(mut self) -> Self {
        self.attended = Attendance::Attended;
        self
    }

    pub(crate) fn attended_if(self, attended: Attendance) -> Self {
        ArenaBuilder { attended, ..self }
    }

    /// Opens the session and waits until that is on disk.
    pub async fn open(self) -> Result<Running, WireError> {
        self.prepare().await?.start().await
    }

    /// Resumes a recorded session of the state folder, by its id or the start of it. Providers, tools and which of them
    /// are offered, scorers, secrets, workspace, sandbox and policy are those of this builder; models, personas, limits
    /// and retries are the recorded ones. Of a session that no builder began in this state folder, no grant, check, price
    /// or size counts: the builder must have its models, its retries apply, and of each limit and effort the lower one.
    pub async fn resume(self, name: &str) -> Result<Running, WireError> {
        self.prepare_resume(name).await?.start().await
    }

    /// Prepares a new session.
    pub(crate) async fn prepare(mut self) -> Result<Prepared, WireError> {
        if self.models.is_empty() {
            return Err(WireError::Provider("no model is named for this session".to_owned()));
        }
        let mut place = self.place().await?;
        if self.personas.is_empty() {
            self.personas.push(PersonaSpec::with_text(
                "solo",
                "You work with the tools you have and say what you did.",
            ));
        }
        let mut spec = Spec {
            program: PROGRAM.to_owned(),
            seed: uuid::Uuid::now_v7().as_u64_pair().1,
            workspace: place.workspace_spec().await,
            models: std::mem::take(&mut self.models),
            personas: std::mem::take(&mut self.personas),
            tools: place.vault.specs(),
            offered: self.offered.take(),
            sources: self.sources.keys().cloned().collect(),
            gates: self.gates.clone(),
            effort: None,
            policy: self.policy.clone(),
            permission: self.permission,
            limits: self.limits.clone(),
            retry: self.retry.clone(),
            instructions: Vec::new(),
            blueprint: self.blueprint.take(),
            cache: None,
        };
        spec::check(&spec)?;
        spec::check_prices(&spec)?;
        blueprint::check_spec(&spec)?;
        place.furnish(Means::Plain(&self.state), &mut Vec::new(), &mut spec).await?;
        let new = Loaded::new();
        let facts = vec![opened(&new.id, spec.clone())];
        self.finish(new, place, (&spec, facts))
    }

    /// Prepares a recorded session.
    pub(crate) async fn prepare_resume(mut self, name: &str) -> Result<Prepared, WireError> {
        let (path, recovered, loaded) = load(SessionStore::new(self.state.clone()), name, &mut |_| {})?;
        let before = loaded.spec()?;
        let (origin, _) = taken_up::origin(&self.state, &path);
        let mut spec = before.clone();
        let mut place = self.place().await?;
        let here = Here {
            workspace: place.workspace_spec().await,
            policy: self.policy.clone(),
            level: self.permission.stricter(before.permission),
            retry: self.retry.clone(),
            limits: self.limits.clone(),
            effort: None,
            model: &|name| self.model_named(name),
        };
        let mut changed = taken_up::of_here(&spec, here, origin)?;
        let own = [
            Setting::Offered(self.offered.clone()),
            Setting::Sources(self.sources.keys().cloned().collect()),
            Setting::Gates(self.gates.clone()),
        ];
        changed.extend(own.into_iter().filter(|setting| taken_up::changes_anything(&before, setting)));
        changed.iter().for_each(|setting| spec.set(setting));
        spec::check(&spec)?;
        spec::check_prices(&spec)?;
        place.furnish(Means::Plain(&self.state), &mut changed, &mut spec).await?;
        place.notes.extend(taken_up::differences(&before, &spec, origin, false));
        let facts = resumed(&loaded, recovered, (changed, origin));
        self.finish(loaded, place, (&spec, facts))
    }

    fn model_named(&self, name: &str) -> Result<ModelSpec, WireError> {
        let own = self.models.iter().find(|own| own.name == name).cloned();
        own.ok_or_else(|| WireError::Provider(format!("model `{name}` is the log's and not the builder's")))
    }

    /// The workspace with the tools of this builder.
    async fn place(&mut self) -> Result<Place, WireError> {
        let unfit = |(name, value): &(String, String)| Some((name.clone(), unfit_to_hide(value)?));
        if let Some((name, why)) = self.secrets.iter().find_map(unfit) {
            return Err(WireError::UnfitSecret { name, why });
        }
        let held = (false, self.policy.rules.as_slice());
        let sandbox = confine::plain(self.sandbox, &self.workspace, held, &self.state).await?;
        let mut place = Place::open(&self.state, &self.workspace, sandbox)?;
        let notes = crash_journal::notes_of(&self.state);
        place.notes = crash_journal::settle(&notes, &self.workspace).map_err(WireError::Workspace)?;
        for tool in std::mem::take(&mut self.tools) {
            place.vault.register(tool).map_err(|error: VaultError| WireError::Tool(error.to_string()))?;
        }
        self.sources.iter().for_each(|(name, source)| place.vault.add_source(name, Arc::clone(source)));
        Ok(place)
    }

    /// A program that embeds agon may hold several sessions in one workspace and keeps them apart itself: no lock.
    fn finish(
        self,
        loaded: Loaded,
        place: Place,
        what: (&Spec, Vec<ArenaEvent>),
    ) -> Result<Prepared, WireError> {
        let ArenaBuilder { state, providers, secrets, scorers, workers, attended, .. } = self;
        let connected = providers::Connected { providers, limits: BTreeMap::new(), secrets, learnings: None };
        let made = loaded.prepare(&state, (place, None), (connected, attended), what)?;
        Ok(made.with_ports(|ports| ArenaPorts { scorers, workers, ..ports }))
    }
}

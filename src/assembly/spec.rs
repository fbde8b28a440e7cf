//! Makes the spec a session is opened with out of the configuration and the files that count at that moment.

use std::path::Path;
use std::slice;

use crate::arena::PROGRAM;
use crate::assembly::squad::Crew;
use crate::assembly::{Changes, SystemClock, WireError, cache, git_head, mcp, providers};
use crate::config::{Config, ConfigError, Connection, ModelName, Trust, unknown};
use crate::library::{self, BadPersona, Library, demo};
use crate::ports::Clock as _;
use crate::projection::phrases::day;
use crate::protocol::fit::did_you_mean;
use crate::protocol::message::Structured;
use crate::protocol::spec::{
    Action, Instruction, ModelSpec, PersonaSpec, Policy, Price, Spec, ToolSpec, WorkspaceSpec, names_tools,
};
use crate::protocol::text::name_shown;
use crate::session::policy;

/// The most a spec may hold as JSON, so that its entry fits into a line of the log.
const MAX_SPEC: usize = 700 * 1024;

/// The personas that count here: of the binary, the user and, where it is trusted, the project.
pub fn personas(config: &Config) -> Library {
    Library::load(&config.personas())
}

/// Puts the spec of a new session together and checks that the session can be held to it. `default` is its model; one
/// that is wanted counts more than the personas' own.
pub(super) fn make(
    config: &Config,
    (default, wanted): (&ModelName, &Changes),
    tools: Vec<ToolSpec>,
    workspace: WorkspaceSpec,
) -> Result<Spec, WireError> {
    let mut persona = persona(config, config.persona(), &tools)?;
    let model_is_wanted = wanted.model.is_some();
    if model_is_wanted {
        persona.model = None;
    }
    let root = config.workspace();
    let crew = wanted.squad.as_ref().map(|wish| Crew::of(config, wish, None, &tools, model_is_wanted));
    let crew = crew.transpose()?;
    let debaters = wanted.debate.iter().flat_map(|plan| plan.personas.iter().chain([&plan.moderator]));
    let subagents = config.subagents();
    let others = debaters.chain(&subagents.personas).map(|id| self::persona(config, id, &tools));
    let others = others.collect::<Result<Vec<_>, _>>()?;
    let planned = wanted.debate.iter().flat_map(|plan| &plan.models).map(|(_, model)| model.as_str());
    let own = persona.models().chain(crew.iter().flat_map(Crew::models));
    let own = own.chain(others.iter().flat_map(PersonaSpec::models)).chain(planned);
    let own = own.chain(subagents.models.iter().map(String::as_str));
    let models = models(config, default, own)?;
    let (blueprint, roles) = crew.map(|crew| (crew.blueprint, crew.personas)).unzip();
    let mut policy = config.policy();
    policy.add(&wanted.rules);
    let mut personas = vec![persona];
    for role in roles.into_iter().flatten().chain(others) {
        if personas.iter().all(|known| known.id != role.id) {
            personas.push(role);
        }
    }
    let spec = Spec {
        program: PROGRAM.to_owned(),
        seed: uuid::Uuid::now_v7().as_u64_pair().1,
        workspace,
        personas,
        offered: offered(config, &tools)?,
        tools,
        sources: mcp::names(config),
        gates: Vec::new(),
        effort: config.file().effort,
        policy,
        permission: wanted.permission.unwrap_or(config.permission()),
        limits: config.limits(),
        retry: config.retry(),
        instructions: instructions(config, root, &models, wanted)?,
        blueprint,
        cache: wanted.squad.as_ref().and_then(|_| cache::spec(config, &models)),
        models,
    };
    check(&spec)?;
    Ok(spec)
}

/// What the model is given after its persona: the instruction files, each under its name, and the place it works in. A script
/// answers as it does wherever it is.
fn instructions(
    config: &Config,
    root: &Path,
    models: &[ModelSpec],
    wanted: &Changes,
) -> Result<Vec<Instruction>, WireError> {
    let mut found = library::instructions(&config.places().instructions(), root)?;
    for one in &mut found {
        one.text = format!("# Instructions from `{}`\n\n{}", one.path, one.text);
    }
    let is_script = |model: &ModelSpec| {
        let provider = model.name.split('/').next().unwrap_or_default();
        provider == demo::PROVIDER
            || provider == "log"
            || matches!(config.connection(provider), Ok(Connection::Script { .. }))
    };
    if !models.iter().all(is_script) {
        let mut policy = config.policy();
        policy.add(&wanted.rules);
        found.push(Instruction { path: Instruction::PLACE.to_owned(), text: place(root, &policy) });
    }
    Ok(found)
}

/// What is true of the place as the session begins.
fn place(root: &Path, policy: &Policy) -> String {
    let branch = match git_head::branch(root) {
        Some(Some(name)) => format!("branch `{name}`"),
        Some(None) => "a detached head".to_owned(),
        None => "no repository".to_owned(),
    };
    let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
    let allowed = policy.rules.iter().filter(|rule| rule.action == Action::Allow && rule.command.is_none());
    let needs = allowed
        .flat_map(|rule| &rule.needs)
        .filter(|need| need.starts_with("host:") || need.starts_with("port:"));
    let needs: Vec<String> = needs.map(|need| format!("`{need}`")).collect();
    let network = match needs.is_empty() {
        true => "nothing is allowed yet".to_owned(),
        false => format!("allowed are {}", needs.join(", ")),
    };
    format!(
        "# The place, as the session begins\n\n- Workspace: {}\n- Git: {branch}\n- System: {system} on {processor}, commands \
         by `sh`\n- Day: {}\n- Network of commands: {network}\n",
        name_shown(&root.to_string_lossy()),
        day(SystemClock.now()),
    )
}

/// Checks a spec's parts against each other.
pub(super) fn check(spec: &Spec) -> Result<(), WireError> {
    policy::check(&spec.policy).map_err(WireError::Policy)?;
    let bytes = size(spec);
    if bytes <= MAX_SPEC {
        return Ok(());
    }
    let parts = [
        ("the instruction files", size(&spec.instructions)),
        ("the persona", size(&spec.personas)),
        ("the blueprint", size(&spec.blueprint)),
        ("the policy", size(&spec.policy)),
        ("the list of tools", size(&spec.tools)),
    ];
    let part = parts.into_iter().max_by_key(|(_, bytes)| *bytes).map_or("the spec", |(name, _)| name);
    Err(WireError::SpecTooLarge { bytes, part })
}

/// Refuses a limit of money that cannot be kept; for models whose servers were asked.
pub(super) fn check_prices(spec: &Spec) -> Result<(), WireError> {
    let unpriced = spec.models.iter().find(|model| model.price.is_none());
    match unpriced.filter(|_| spec.limits.has_money()) {
        Some(model) => Err(WireError::NoPrice(model.name.clone())),
        None => Ok(()),
    }
}

fn size(value: &impl serde::Serialize) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}

/// The tools the configuration offers; an entry that names nothing is a slip.
pub(super) fn offered(config: &Config, tools: &[ToolSpec]) -> Result<Option<Vec<String>>, WireError> {
    let offered = config.tools();
    match offered.into_iter().flatten().find(|entry| !names_tools(entry, tools.iter())) {
        None => Ok(offered.map(<[String]>::to_vec)),
        Some(tool) => Err(WireError::Tool(format!(
            "the configuration offers an unknown tool `{tool}`{}",
            did_you_mean(tool, &tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>())
        ))),
    }
}

/// A persona by id. One with a tool that is not there is refused: left out silently, a slip would be a persona
/// without it.
pub(super) fn persona(config: &Config, id: &str, tools: &[ToolSpec]) -> Result<PersonaSpec, WireError> {
    let library = personas(config);
    let persona = persona_of(config, &library, id)?;
    let is_there = |name: &&String| names_tools(name, tools.iter());
    match persona.tools.iter().flatten().find(|name| !is_there(name)) {
        None => Ok(persona.clone()),
        Some(tool) => Err(WireError::NoTool {
            persona: persona.id.clone(),
            tool: tool.clone(),
            suggestion: unknown::closest(tool, tools.iter().map(|tool| tool.name.as_str())),
        }),
    }
}

/// A persona of those that count here, or why there is none of that id: its file is broken, the project that has it is
/// not trusted, or it is called something else.
pub fn persona_of<'a>(config: &Config, library: &'a Library, id: &str) -> Result<&'a PersonaSpec, WireError> {
    if let Some(persona) = library.get(id) {
        return Ok(persona);
    }
    let stem = |broken: &BadPersona| broken.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let is_meant = |broken: &&BadPersona| match &broken.id {
        Some(known) => known == id,
        None => stem(broken).as_deref() == Some(id),
    };
    if let Some(BadPersona { path, error, .. }) = library.broken().iter().find(is_meant) {
        return Err(WireError::BadPersona { path: path.clone(), error: error.clone() });
    }
    let theirs = config.project_if(Trust::Untrusted).map(|project| slice::from_ref(&project.personas));
    if theirs.is_some_and(|theirs| Library::load(theirs).get(id).is_some()) {
        let (id, root) = (id.to_owned(), config.workspace().to_owned());
        return Err(WireError::Untrusted { what: "persona", id, root });
    }
    let files: Vec<String> = library.broken().iter().filter_map(stem).collect();
    let known = library.all().map(|(spec, _)| spec.id.as_str()).chain(files.iter().map(String::as_str));
    Err(WireError::NoPersona { id: id.to_owned(), suggestion: unknown::closest(id, known) })
}

/// The default model, those that personas and roles name, and the fallbacks of all, each once.
fn models<'a>(
    config: &Config,
    default: &ModelName,
    own: impl Iterator<Item = &'a str>,
) -> Result<Vec<ModelSpec>, WireError> {
    let own: Result<Vec<ModelName>, _> = own.map(str::parse).collect();
    let mut names = own.map_err(ConfigError::from)?;
    names.insert(0, default.clone());
    models_of(config, names)
}

/// These models and their fallbacks, each once, in this order.
pub(super) fn models_of(config: &Config, names: Vec<ModelName>) -> Result<Vec<ModelSpec>, WireError> {
    let mut waiting = names;
    waiting.reverse();
    let mut found: Vec<ModelSpec> = Vec::new();
    while let Some(name) = waiting.pop() {
        if found.iter().any(|model| model.name == name.to_string()) {
            continue;
        }
        let spec = model(config, &name)?;
        let fallbacks: Result<Vec<ModelName>, _> = spec.all_fallbacks().map(|name| name.parse()).collect();
        waiting.splice(0..0, fallbacks.map_err(ConfigError::from)?.into_iter().rev());
        found.push(spec);
    }
    Ok(found)
}

/// Refuses a model that cannot be called here.
pub fn check_model(config: &Config, name: &ModelName) -> Result<(), WireError> {
    model(config, name).map(|_| ())
}

/// One model's rows.
pub(super) fn model(config: &Config, name: &ModelName) -> Result<ModelSpec, WireError> {
    if !providers::is_builtin(config, &name.provider) {
        return Ok(config.model_spec(name)?);
    }
    let mut spec = config.known_models().spec(name, None, &[], (true, Structured::Words));
    spec.price = Some(Price { input: 0, cached: 0, written: None, output: 0 });
    if name.provider == demo::PROVIDER {
        // The demo's models are families of their own, so that a debate has independent votes to count.
        spec.family = Some(name.model.clone());
    }
    Ok(spec)
}

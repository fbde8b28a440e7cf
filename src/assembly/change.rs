//! Other settings for a session that is taken up again, copied or running: only what differs is recorded.

use std::path::PathBuf;

use crate::arena::Arena;
use crate::assembly::role_sandboxes::{Means, OpenedRoleSandboxes};
use crate::assembly::squad::Crew;
use crate::assembly::taken_up::changes_anything;
use crate::assembly::{SquadWish, WireError, cache, providers, spec, windows};
use crate::config::{Config, ConfigError, ModelName, SandboxKind};
use crate::protocol::Command;
use crate::protocol::event::LimitKind;
use crate::protocol::message::Effort;
use crate::protocol::spec::{
    Blueprint, Consent, DebatePlan, Limits, ModelSpec, PermissionLevel, PersonaSpec, RoleSpec, Rule, Setting,
    Spec, WorkspaceSpec,
};

/// What a session is opened with besides the configuration, or what is different from its recorded settings when it is
/// resumed or copied.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Another default model.
    pub model: Option<ModelName>,
    /// Another persona.
    pub persona: Option<String>,
    /// Another effort for models of which neither role nor persona says one.
    pub effort: Option<Effort>,
    /// Other limits; what is absent stays as recorded.
    pub limits: LimitChanges,
    /// Policy rules beside those of the configuration; a running session keeps those it has.
    pub rules: Vec<Rule>,
    /// The permission level that was named; that of the configuration when absent, or of the log where it is stricter.
    pub permission: Option<PermissionLevel>,
    /// The sandbox that was named; that of the configuration when absent, or of the log where it is stronger.
    pub sandbox: Option<SandboxKind>,
    /// The folder to work in, named now or agreed to. A session that was not begun here needs one.
    pub root: Option<PathBuf>,
    /// Somebody let the tools work where nothing can confine them.
    pub consent: Option<Consent>,
    /// A squad for the next turn.
    pub squad: Option<SquadWish>,
    /// A debate for the next turn.
    pub debate: Option<DebatePlan>,
    /// The answer to the question that the session asks, and who gives it: recorded as it is resumed.
    pub answer: Option<(String, String)>,
    /// True when nothing but a debate is held until the process ends: its tools only read, so others may write.
    pub reads_only: bool,
    /// True to work in a copy of the workspace as it is now, which comes home like a fork.
    pub in_copy: bool,
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
    /// What one limit is to become; none when it stays.
    pub fn of(self, limit: LimitKind) -> Option<u64> {
        match limit {
            LimitKind::Steps => self.max_steps.map(u64::from),
            LimitKind::Tokens => self.max_tokens,
            LimitKind::MicroUsd => self.max_micro_usd,
            LimitKind::Seconds => self.max_seconds,
            LimitKind::TurnTokens
            | LimitKind::TurnMicroUsd
            | LimitKind::SparkTokens
            | LimitKind::SparkMicroUsd
            | LimitKind::Unknown(_) => None,
        }
    }

    /// The limits that come of these over recorded ones.
    pub fn over(self, recorded: &Limits) -> Limits {
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
    pub(super) fn in_words(&self) -> Option<String> {
        let words = [
            self.model.as_ref().map(|name| format!("model {name}")),
            self.persona.as_ref().map(|id| format!("persona {id}")),
            self.effort.map(|effort| format!("effort {}", effort.word())),
            (!self.rules.is_empty()).then(|| "policy".to_owned()),
            self.permission.map(|level| format!("permission {}", level.word())),
            (self.limits != LimitChanges::default()).then(|| "limits".to_owned()),
            self.sandbox.map(|kind| format!("sandbox {}", kind.word())),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

/// Changes a running session from its next call on, and says how many settings that were. What is wanted of
/// its sandbox cannot be changed while it runs. Between two turns what is in force already is no change; in a turn it
/// is one, for sparks that went over to a fallback.
pub async fn change(
    config: &Config,
    arena: &Arena,
    wanted: &Changes,
    is_between: bool,
) -> Result<usize, WireError> {
    let spec = arena.spec().await.ok_or(WireError::Ended)?;
    let before = spec.clone();
    let (mut settings, mut spec) = changes(config, spec, Vec::new(), wanted)?;
    let provider = |model: &ModelSpec| model.name.split('/').next().unwrap_or_default().to_owned();
    let mut strange = spec.models.clone();
    strange.retain(|model| !arena.is_connected(&provider(model)));
    let mut sent = strange.iter().flat_map(|model| config.sent_secrets(&provider(model)));
    // Before a server is asked or a place is started.
    if let Some((name, _)) = sent.find(|(_, value)| !arena.hides(value)) {
        return Err(WireError::LateSecret(name));
    }
    let connected = providers::connect(config, &strange, &providers::AnsweredCounts::default())?;
    // What is assumed is in the log; the screen has no place for it while a session runs.
    let _ = windows::complete_settings(config, &mut settings, &mut spec).await?;
    if is_between {
        settings.extend(windows::known_by_now(config, &mut spec).await);
    }
    if wanted.squad.is_some() || spec.permission == PermissionLevel::Plan {
        move_in(config, arena, &mut settings, &mut spec).await?;
    }
    for (name, provider) in connected.providers {
        arena.connect(&name, provider, connected.limits.get(&name).copied());
    }
    if is_between {
        settings.retain(|setting| changes_anything(&before, setting));
    }
    let count = settings.len();
    if count > 0 {
        arena.submit(Command::Set { settings }).await.map_err(|error| WireError::Set(error.to_string()))?;
    }
    Ok(count)
}

/// Starts the places of a squad's roles and of the level `plan`, unless they are there already.
async fn move_in(
    config: &Config,
    arena: &Arena,
    settings: &mut Vec<Setting>,
    spec: &mut Spec,
) -> Result<(), WireError> {
    let is_same = !settings.iter().any(|setting| matches!(setting, Setting::Blueprint(_)));
    let is_there = |role: &RoleSpec| !role.has_place() || arena.places().get(&role.name).is_some();
    let plans = spec.permission == PermissionLevel::Plan && arena.sandbox().spec().is_confining();
    let can_plan = !plans || arena.places().get(WorkspaceSpec::PLANNING).is_some();
    if is_same && can_plan && spec.blueprint.iter().flat_map(|blueprint| &blueprint.roles).all(is_there) {
        return Ok(());
    }
    let root = std::path::PathBuf::from(&spec.workspace.root);
    let means = Means::Configured(config, arena.id());
    let places = OpenedRoleSandboxes::open(means, &root, spec, arena.sandbox()).await?;
    places.tell(settings, spec);
    arena.places().set(places.sandboxes);
    Ok(())
}

/// The settings that differ from what the log says, and the spec with them applied. `here` are those that come from here
/// whatever is wanted.
pub(super) fn changes(
    config: &Config,
    mut spec: Spec,
    here: Vec<Setting>,
    wanted: &Changes,
) -> Result<(Vec<Setting>, Spec), WireError> {
    let mut changed = here;
    changed.iter().for_each(|setting| spec.set(setting));
    let voices = voices(config, &spec, wanted)?;
    voices.iter().for_each(|setting| spec.set(setting));
    changed.extend(voices);
    let known = changed.len();
    let mut policy = spec.policy.clone();
    policy.add(&wanted.rules);
    if policy != spec.policy {
        changed.push(Setting::Policy(policy));
    }
    if let Some(level) = wanted.permission.filter(|level| *level != spec.permission) {
        changed.push(Setting::Permission(level));
    }
    if wanted.effort.is_some() && wanted.effort != spec.effort {
        changed.push(Setting::Effort(wanted.effort));
    }
    let limits = wanted.limits.over(&spec.limits);
    if limits != spec.limits {
        changed.push(Setting::Limits(limits));
    }
    let offered = spec::offered(config, &spec.tools)?;
    if offered != spec.offered {
        changed.push(Setting::Offered(offered));
    }
    changed.extend(company(config, &spec, wanted)?);
    changed[known..].iter().for_each(|setting| spec.set(setting));
    // Whatever else changed, a squad of this session must not be looked up by what used to answer.
    let cache = cache::spec(config, &spec.models);
    if spec.blueprint.is_some() && cache != spec.cache {
        changed.push(Setting::Cache(cache.clone()));
        spec.set(&Setting::Cache(cache));
    }
    spec::check(&spec)?;
    Ok((changed, spec))
}

/// The squad or the personas of a debate, as far as the session does not know them.
fn company(config: &Config, spec: &Spec, wanted: &Changes) -> Result<Vec<Setting>, WireError> {
    let (mut personas, mut models): (Vec<PersonaSpec>, Vec<String>) = (Vec::new(), Vec::new());
    let mut blueprint: Option<Blueprint> = None;
    if let Some(wish) = &wanted.squad {
        let crew = Crew::of(config, wish, Some(spec), &spec.tools, wanted.model.is_some())?;
        models.extend(crew.models().map(str::to_owned));
        personas.extend(crew.personas);
        blueprint = Some(crew.blueprint).filter(|made| spec.blueprint.as_ref() != Some(made));
    }
    if let Some(plan) = &wanted.debate {
        for id in plan.personas.iter().chain([&plan.moderator]) {
            personas.push(spec::persona(config, id, &spec.tools)?);
        }
        models.extend(personas.iter().flat_map(PersonaSpec::models).map(str::to_owned));
        models.extend(plan.models.iter().map(|(_, model)| model.clone()));
    }
    let names: Result<Vec<ModelName>, _> = models.iter().map(|name| name.parse()).collect();
    let models = spec::models_of(config, names.map_err(ConfigError::from)?)?;
    let is_new = |model: &ModelSpec| spec.models.iter().all(|known| known.name != model.name);
    let models = models.into_iter().filter(is_new).map(|spec| Setting::Model { spec, default: false });
    // The solo persona stays what it is, also when a role is called the same.
    let solo = spec.personas.first().map(|persona| persona.id.clone());
    let is_known =
        |persona: &PersonaSpec| Some(&persona.id) == solo.as_ref() || spec.personas.contains(persona);
    let personas = personas.into_iter().filter(|persona| !is_known(persona));
    let personas = personas.map(|spec| Setting::Persona { spec, default: false });
    Ok(models.chain(personas).chain(blueprint.map(Setting::Blueprint)).collect())
}

/// The wanted model and persona with every model they bring in. A wanted model counts more than a persona's own.
fn voices(config: &Config, spec: &Spec, wanted: &Changes) -> Result<Vec<Setting>, WireError> {
    let named = wanted.persona.as_deref().map(|id| spec::persona(config, id, &spec.tools)).transpose()?;
    let mut persona = named.or_else(|| {
        let recorded = spec.personas.first().filter(|persona| persona.model.is_some());
        wanted.model.as_ref().and(recorded).cloned()
    });
    if let (Some(persona), Some(_)) = (&mut persona, &wanted.model) {
        persona.model = None;
    }
    let own = persona.as_ref().and_then(|persona| persona.model.clone());
    let mut names: Vec<ModelName> = wanted.model.iter().cloned().collect();
    for model in persona.iter().flat_map(PersonaSpec::models) {
        names.push(model.parse().map_err(ConfigError::from)?);
    }
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

//! What a session that is taken up takes from here and not from its log: sandbox, policy, folder, limits; and the
//! lines that say what differs. A log is a record, never a grant.

use std::path::{Path, PathBuf};

use super::change::Changes;
use super::{WireError, fork, ownership, providers, spec};
use crate::config::{Config, ConfigError, SandboxKind};
use crate::eventlog::SessionPath;
use crate::protocol::message::Effort;
use crate::protocol::spec::{
    Blueprint, Limits, ModelSpec, PermissionLevel, PersonaSpec, Policy, RetrySpec, SandboxSpec, Setting,
    Spec, WorkspaceSpec,
};
use crate::protocol::text::name_shown;

/// Whose word a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This user began the session.
    Own,
    /// It was imported, copied here or begun by an agon that left no mark: for good.
    Foreign,
}

/// Whose a session is, and the folder it works in when it is taken up without another one being named: where this user
/// began it, or the folder of a fork. None where only the log names one.
pub(super) fn origin(state: &Path, session: &SessionPath) -> (Origin, Option<PathBuf>) {
    match ownership::began_in(state, &session.id).filter(|_| session.stored) {
        Some(root) => (Origin::Own, Some(root)),
        None => {
            let copied = fork::folder(state, &session.id);
            (Origin::Foreign, Some(copied).filter(|folder| session.stored && folder.is_dir()))
        }
    }
}

/// The sandbox that is wanted here: by flag, else by configuration, or that of the log where it is stronger. Where a
/// log names a kind that is not known, the user must name one.
pub(super) fn kind(
    config: &Config,
    wanted: &Changes,
    recorded: &SandboxSpec,
) -> Result<SandboxKind, WireError> {
    let before = SandboxKind::recorded(&recorded.kind);
    match (wanted.sandbox, before) {
        (Some(kind), _) => Ok(kind),
        (None, None) => Err(WireError::UnknownSandbox(recorded.kind.clone())),
        (None, Some(before)) if strength(before) > strength(config.sandbox()) => Ok(before),
        (None, Some(_)) => Ok(config.sandbox()),
    }
}

/// How much a sandbox confines; `auto` is never less than `local`.
fn strength(kind: SandboxKind) -> u8 {
    match kind {
        SandboxKind::None => 0,
        SandboxKind::LandlockOnly => 1,
        SandboxKind::Auto | SandboxKind::Local | SandboxKind::Docker => 2,
    }
}

/// The settings that come from the configuration and `wanted`.
pub(super) fn settings(
    config: &Config,
    (spec, workspace): (&Spec, WorkspaceSpec),
    wanted: &Changes,
    origin: Origin,
) -> Result<Vec<Setting>, WireError> {
    let mut policy = config.policy();
    policy.add(&wanted.rules);
    let here = Here {
        workspace,
        policy,
        level: wanted.permission.unwrap_or(config.permission().stricter(spec.permission)),
        retry: config.retry(),
        limits: config.limits(),
        effort: wanted.effort.or(config.file().effort),
        model: &|name| {
            let name = name.parse().map_err(ConfigError::from)?;
            match providers::answers_from_a_log(config, &name) {
                true => Err(WireError::Replays(name.to_string())),
                false => spec::model(config, &name),
            }
        },
    };
    of_here(spec, here, origin)
}

/// What holds here, whatever a log says.
pub(super) struct Here<'a> {
    pub workspace: WorkspaceSpec,
    pub policy: Policy,
    pub level: PermissionLevel,
    pub retry: RetrySpec,
    pub limits: Limits,
    pub effort: Option<Effort>,
    /// A model by its name, prices among it.
    pub model: &'a dyn Fn(&str) -> Result<ModelSpec, WireError>,
}

/// The settings that come from here: policy, level and workspace for any log, and for a foreign log what else
/// would let it do more than a new session.
pub(super) fn of_here(spec: &Spec, here: Here<'_>, origin: Origin) -> Result<Vec<Setting>, WireError> {
    let mut changed = vec![Setting::Policy(here.policy), Setting::Permission(here.level)];
    if origin == Origin::Foreign {
        changed.push(Setting::Limits(stricter(&spec.limits, &here.limits)));
        changed.push(Setting::Retry(here.retry));
        changed.push(Setting::Effort(Effort::lower(spec.effort, here.effort)));
        changed.extend(spec.blueprint.as_ref().map(|it| Setting::Blueprint(tame(it, here.effort))));
    }
    changed.retain(|setting| changes_anything(spec, setting));
    if origin == Origin::Foreign {
        // All or none of them, so that they keep their order.
        let models =
            spec.models.iter().map(|model| (here.model)(&model.name)).collect::<Result<Vec<_>, _>>()?;
        let models = Some(models).filter(|models| *models != spec.models).into_iter().flatten();
        changed.extend(models.map(|spec| Setting::Model { spec, default: false }));
        let own = |persona: &PersonaSpec| PersonaSpec {
            effort: less(persona.effort, here.effort),
            ..persona.clone()
        };
        let personas: Vec<_> = spec.personas.iter().map(own).collect();
        let personas = Some(personas).filter(|personas| *personas != spec.personas).into_iter().flatten();
        changed.extend(personas.map(|spec| Setting::Persona { spec, default: false }));
    }
    changed.extend(Some(Setting::Workspace(here.workspace)).filter(|it| changes_anything(spec, it)));
    Ok(changed)
}

/// True when a setting makes a spec another one.
pub(super) fn changes_anything(spec: &Spec, setting: &Setting) -> bool {
    let mut changed = spec.clone();
    changed.set(setting);
    changed != *spec
}

/// The effort of a role or persona, as far as it is not above that of here.
fn less(own: Option<Effort>, here: Option<Effort>) -> Option<Effort> {
    own.and_then(|own| Effort::lower(Some(own), here))
}

/// A blueprint whose checks run by themselves, and whose roles choose their sandbox, is code.
fn tame(blueprint: &Blueprint, effort: Option<Effort>) -> Blueprint {
    let mut tame = Blueprint { checks: Vec::new(), ..blueprint.clone() };
    for role in &mut tame.roles {
        (role.sandbox, role.effort) = (None, less(role.effort, effort));
    }
    tame
}

/// Of each limit the lower one.
fn stricter(a: &Limits, b: &Limits) -> Limits {
    let lower = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
    Limits {
        max_steps: a.max_steps.min(b.max_steps),
        max_tokens: lower(a.max_tokens, b.max_tokens),
        max_micro_usd: lower(a.max_micro_usd, b.max_micro_usd),
        turn: a.turn.stricter(b.turn),
        spark: a.spark.stricter(b.spark),
        max_seconds: lower(a.max_seconds, b.max_seconds),
        model_timeout_ms: a.model_timeout_ms.min(b.model_timeout_ms),
        tool_timeout_ms: a.tool_timeout_ms.min(b.tool_timeout_ms),
        tool_timeout_max_ms: a.tool_timeout_max_ms.min(b.tool_timeout_max_ms),
        subagents: a.subagents.stricter(&b.subagents),
    }
}

/// What is different here from what a log says, a line each; `is_copy`: that a copy works elsewhere is its point.
pub(super) fn differences(before: &Spec, now: &Spec, origin: Origin, is_copy: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if origin == Origin::Foreign {
        let line = "this session was not begun here: what its log grants or approves does not count";
        lines.push(line.to_owned());
    }
    let mut differs = |what: &str, before: &str, now: &str| {
        if before != now {
            lines.push(format!("{what}: recorded {}, now {}", listed([before]), listed([now])));
        }
    };
    differs("sandbox", &before.workspace.sandbox.kind, &now.workspace.sandbox.kind);
    differs("permission", before.permission.word(), now.permission.word());
    if !is_copy {
        differs("workspace", &before.workspace.root, &now.workspace.root);
    }
    let only = |one: &Policy, other: &Policy| {
        let names = one.rules.iter().filter(|rule| !other.rules.contains(rule));
        listed(names.map(|rule| rule.name.as_str()))
    };
    let (dropped, added) = (only(&before.policy, &now.policy), only(&now.policy, &before.policy));
    if !dropped.is_empty() {
        lines.push(format!("policy: recorded {dropped}, not in force here; `--policy FILE` adds rules"));
    }
    if !added.is_empty() {
        lines.push(format!("policy: now {added}, not recorded"));
    }
    let checks = |spec: &Spec| spec.blueprint.as_ref().map(|it| it.checks.clone()).unwrap_or_default();
    let kept = checks(now);
    let idle: Vec<String> = checks(before).into_iter().filter(|check| !kept.contains(check)).collect();
    if !idle.is_empty() {
        lines.push(format!("checks: recorded {}, not run here", listed(idle.iter().map(String::as_str))));
    }
    if origin == Origin::Foreign {
        // A log chooses among the configured providers who sees the conversation, and who is paid.
        let models = now.models.iter().map(|model| model.name.as_str());
        lines.push(format!("models: requests go to {}, as the log says", listed(models)));
    }
    if before.models.iter().any(|model| !now.models.contains(model)) && origin == Origin::Foreign {
        lines.push("models: prices and sizes are those of your configuration".to_owned());
    }
    if origin == Origin::Foreign && before.limits != now.limits {
        lines.push("limits: those of your configuration apply where they are lower".to_owned());
    }
    if origin == Origin::Foreign && efforts(before) != efforts(now) {
        lines.push("effort: that of your configuration applies where it is lower".to_owned());
    }
    if origin == Origin::Foreign && before.retry != now.retry {
        lines.push("retries: those of your configuration".to_owned());
    }
    lines
}

/// What is asked of models: in the session, by its personas, by its roles.
fn efforts(spec: &Spec) -> Vec<Option<Effort>> {
    let roles = spec.blueprint.iter().flat_map(|blueprint| &blueprint.roles).map(|role| role.effort);
    spec.personas.iter().map(|persona| persona.effort).chain(roles).chain([spec.effort]).collect()
}

/// Names that others chose, few and short enough for one line.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const MOST: usize = 8;
    const LONGEST: usize = 80;
    let mut names = names.into_iter();
    let shown = |name: &str| {
        let short = &name[..name.floor_char_boundary(LONGEST)];
        let rest = if short.len() < name.len() { "…" } else { "" };
        format!("`{}{rest}`", name_shown(short))
    };
    let first: Vec<String> = names.by_ref().take(MOST).map(shown).collect();
    match names.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

//! What a squad's result depends on, as one digest: the key of the team cache; pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::protocol::RULES;
use crate::protocol::event::ArenaEvent;
use crate::protocol::expand::{ExpandError, digest_of};
use crate::protocol::message::{Message, Part};
use crate::protocol::spec::{Blueprint, ModelSpec, PersonaSpec, Risk, RoleSpec, Rule, Spec, ToolSpec};
use crate::session::Session;

use super::super::state::tools_of;

/// Changes when the meaning of a key does.
const FORM: &str = "agon-run-1";

/// What a key holds beside the spec.
#[derive(Clone, Debug, Default)]
pub struct Asked<'a> {
    /// What the lead is told: earlier turns as they would be sent again, then the task.
    pub said: Vec<Arc<Message>>,
    /// Schema the answer must fit.
    pub schema: Option<&'a Value>,
    /// From `workspace_fingerprinted`.
    pub fingerprint: &'a str,
    /// What `.git` holds beside its objects and its index, from there too.
    pub git: Option<&'a str>,
    /// What a person allowed for the rest of the session.
    pub grants: &'a [Rule],
    /// What the lead last saw of each file.
    pub seen: BTreeMap<String, Option<String>>,
    /// Tokens and millionths of a dollar used by earlier turns.
    pub spent: (u64, u64),
    /// Estimated tokens per thousand bytes.
    pub ratio: Value,
}

/// The key of a squad's run: SHA-256 over canonical JSON of everything that decides its result, in hex.
///
/// In the key, from the spec:
/// - `program` and the decision rules: what agon says to a role, and when, is part of the program;
/// - `blueprint`: lead, roles in order, checks; not its name, which nobody is told;
/// - `personas` that roles name: id, text, tools, model, temperature, effort; not description and stance, which a
///   squad is not shown, nor personas no role is;
/// - `models` that roles use: name, window, output, temperature, how typed answers are asked for; price only
///   where money is limited, since it decides nothing else; not the family, which only debates count, nor the
///   fallbacks: a run in which one stood in is not stored;
/// - `effort` of the session, where a role has none of its own;
/// - what answers under the name of each model's provider (`cache.providers`);
/// - `tools` a role may use: name, description, schema, risk, cap of output; not `repeatable`, which only a
///   resume asks for;
/// - `policy`, rule names and reasons included, since a refusal quotes them, and what a person granted;
/// - `limits`: a tool's time and the room for output shape results; what earlier turns have used, where tokens
///   or money are limited;
/// - `instructions`: their texts in order; not their paths, which are not shown;
/// - `cache.environment`, the variables that commands see, where commands may run;
/// - `workspace.sandbox` and `places` whole and `git_head`, which commands can see; the root, and what `.git` holds (branch,
///   tags, references, configuration), only where commands may run, since files and prompts speak of paths beneath the
///   root and no file tool shows `.git` to a run that is stored.
///
/// From the turn: what the lead is told (earlier turns with it), the schema of the answer, what it has seen of
/// files, and the workspace's fingerprint.
///
/// Not in the key: session id, seed (it decides delays only), retry delays, the clock, where the program is,
/// who asked, and how many files were counted.
pub fn cache_key(spec: &Spec, asked: &Asked<'_>) -> String {
    let none = Blueprint { name: String::new(), lead: None, roles: Vec::new(), checks: Vec::new() };
    let blueprint = spec.blueprint.as_ref().unwrap_or(&none);
    let personas: Vec<&PersonaSpec> = personas_of(spec, blueprint);
    let models = models_of(spec, blueprint);
    let tools = tools_in_use(spec, &blueprint.roles);
    let has_budget = spec.limits.max_tokens.is_some() || spec.limits.max_micro_usd.is_some();
    let may_run = !blueprint.checks.is_empty() || tools.iter().any(|tool| tool.risk >= Risk::Execute);
    let cache = spec.cache.clone().unwrap_or_default();
    let answers = models.iter().filter_map(|model| {
        let provider = model.name.split('/').next().unwrap_or_default();
        Some((provider, cache.providers.get(provider)?))
    });
    let value = json!({
        "form": FORM,
        "program": spec.program,
        "rules": RULES,
        "lead": blueprint.lead,
        "roles": blueprint.roles,
        "checks": blueprint.checks,
        "personas": personas.iter().map(|persona| persona_part(persona)).collect::<Vec<_>>(),
        "models": models.iter().map(|model| model_part(model, spec)).collect::<Vec<_>>(),
        "effort": spec.effort,
        "providers": answers.collect::<BTreeMap<_, _>>(),
        "tools": tools.iter().map(|tool| tool_part(tool)).collect::<Vec<_>>(),
        "policy": spec.policy,
        "grants": asked.grants,
        "limits": spec.limits,
        "spent": has_budget.then_some(asked.spent),
        "ratio": asked.ratio,
        "instructions": spec.instructions.iter().map(|one| &one.text).collect::<Vec<_>>(),
        "sandbox": spec.workspace.sandbox,
        "places": spec.workspace.places,
        "git_head": spec.workspace.git_head,
        "environment": cache.environment.as_ref().filter(|_| may_run),
        "root": may_run.then_some(&spec.workspace.root),
        "git": asked.git.filter(|_| may_run),
        "said": asked.said.iter().map(|one| json!([one.role, one.parts])).collect::<Vec<_>>(),
        "schema": asked.schema,
        "seen": asked.seen,
        "fingerprint": asked.fingerprint,
    });
    digest_of(&canonical(value))
}

/// Sorts the names of every object, so that only content counts.
fn canonical(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<String, Value> =
                map.into_iter().map(|(name, value)| (name, canonical(value))).collect();
            Value::Object(sorted.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(canonical).collect()),
        other => other,
    }
}

fn personas_of<'a>(spec: &'a Spec, blueprint: &Blueprint) -> Vec<&'a PersonaSpec> {
    let named = |persona: &&PersonaSpec| blueprint.roles.iter().any(|role| role.persona == persona.id);
    let mut personas: Vec<&PersonaSpec> = spec.personas.iter().filter(named).collect();
    personas.sort_by(|a, b| a.id.cmp(&b.id));
    personas
}

/// The models roles begin with: their own, their persona's, else the default.
fn models_of<'a>(spec: &'a Spec, blueprint: &Blueprint) -> Vec<&'a ModelSpec> {
    let roles = blueprint.roles.iter();
    let names: Vec<&str> =
        roles.filter_map(|role| spec.model_for(role.model.as_deref(), &role.persona)).collect();
    // Which role has which follows from the roles, the personas and the first of these.
    let rest = spec.models.iter().skip(1).filter(|model| names.contains(&model.name.as_str()));
    let mut rest: Vec<&ModelSpec> = rest.collect();
    rest.sort_by(|a, b| a.name.cmp(&b.name));
    let first = spec.models.first().filter(|model| names.contains(&model.name.as_str()));
    first.into_iter().chain(rest).collect()
}

/// The first model a role begins with of which it is not known what answers under its provider's name.
fn unidentified(spec: &Spec) -> Option<&str> {
    let blueprint = spec.blueprint.as_ref()?;
    let known = |model: &ModelSpec| {
        let provider = model.name.split('/').next().unwrap_or_default();
        spec.cache.as_ref().is_some_and(|cache| cache.providers.contains_key(provider))
    };
    let models = models_of(spec, blueprint);
    models.into_iter().find(|model| !known(model)).map(|model| model.name.as_str())
}

fn tools_in_use<'a>(spec: &'a Spec, roles: &[RoleSpec]) -> Vec<&'a ToolSpec> {
    let used = |tool: &&ToolSpec| roles.iter().any(|role| tools_of(spec, role).contains(&tool.name));
    spec.tools.iter().filter(used).collect()
}

/// The same message without the `[e42]` in front of its texts.
fn without_reference(message: &Message) -> Arc<Message> {
    let parts = message.parts.iter().map(|part| match part {
        Part::Text { text } => {
            let text = text.split_once("] ").map_or(text.as_str(), |(_, text)| text).to_owned();
            Part::Text { text }
        }
        other => other.clone(),
    });
    Arc::new(Message { parts: parts.collect(), ..message.clone() })
}

fn persona_part(persona: &PersonaSpec) -> Value {
    let PersonaSpec { id, description: _, stance: _, model, tools, temperature_pm, effort, text } = persona;
    json!([id, model, tools, temperature_pm, effort, text])
}

fn model_part(model: &ModelSpec, spec: &Spec) -> Value {
    let ModelSpec {
        name,
        family: _,
        context,
        max_output,
        price,
        structured,
        temperature_pm,
        refuses,
        images,
        fallbacks: _,
    } = model;
    let price = price.filter(|_| spec.limits.max_micro_usd.is_some());
    let images = images.then_some("images");
    json!([name, context, max_output, price, structured, temperature_pm, refuses, images])
}

fn tool_part(tool: &ToolSpec) -> Value {
    let ToolSpec {
        name,
        description,
        schema,
        risk,
        repeatable: _,
        output_cap,
        family: _,
        source: _,
        inside: _,
    } = tool;
    json!([name, description, schema, risk, output_cap])
}

impl Session {
    /// The key of the open turn, or why it has none.
    pub(super) fn this_key(&self) -> Result<String, String> {
        if self.spec.as_ref().is_some_and(|spec| !spec.gates.is_empty()) {
            return Err("a gate may judge its calls otherwise next time".to_owned());
        }
        if let Some(model) = self.spec.as_deref().and_then(unidentified) {
            return Err(format!("it is not known what answers as `{model}`"));
        }
        self.made_key().ok_or_else(|| "what was said before is no longer known".to_owned())
    }

    fn made_key(&self) -> Option<String> {
        let (spec, squad, turn) = (self.spec.as_ref()?, self.squad.as_ref()?, self.turn.as_ref()?);
        let (fingerprint, git) = squad.cache.print.as_ref()?;
        let lead = self.sparks.get(&squad.roles.get(squad.lead)?.spark?)?;
        let transcript = lead.transcript();
        let items = transcript.iter().filter(|item| !item.is_pinned()).chain(&lead.queue);
        let said = items.map(|item| {
            let (message, _) = item.said(&|at| self.event(at))?;
            // Which of several mentions was read first says nothing.
            Ok(match self.event(item.part.from) {
                Some(ArenaEvent::MentionExpanded(_)) => without_reference(message),
                _ => Arc::clone(message),
            })
        });
        Some(cache_key(
            spec,
            &Asked {
                said: said.collect::<Result<_, ExpandError>>().ok()?,
                schema: turn.schema.as_ref(),
                fingerprint,
                git: git.as_deref(),
                grants: &self.grants,
                seen: lead.seen.clone(),
                spent: turn.spent_before,
                ratio: self.ledger.ratios(),
            },
        ))
    }
}

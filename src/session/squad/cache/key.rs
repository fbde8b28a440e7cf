//! What a squad's result depends on, as one digest: the key of the team cache; pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::protocol::RULES;
use crate::protocol::event::{ArenaEvent, WorkspaceFingerprinted};
use crate::protocol::expand::{ExpandError, digest_of};
use crate::protocol::message::{Message, Part};
use crate::protocol::spec::{Risk, RoleSpec, Spec, ToolSpec};
use crate::session::Session;
use crate::session::policy::Grant;

use super::super::state::tools_of;

/// Changes when the meaning of a key does.
const FORM: &str = "agon-run-2";

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
    /// Small files that git ignores, from there too.
    pub ignored: Option<&'a str>,
    /// What a person allowed for the rest of the session.
    pub grants: &'a [Grant],
    /// What the lead last saw of each file.
    pub seen: BTreeMap<String, Option<String>>,
    /// Tokens and millionths of a dollar used by earlier turns.
    pub spent: (u64, u64),
    /// Estimated tokens per thousand bytes.
    pub ratio: Value,
}

/// The key of a squad's run: SHA-256 over canonical JSON of everything that may decide its result, in hex.
///
/// From the spec all that may decide anything. Left out are the seed, which decides delays only, and where instructions
/// come from, since only their texts are shown. The workspace's path, the variables that commands see and what `.git`
/// holds (branch, tags, references, configuration) count only where commands may run: files and prompts speak of paths
/// in the workspace, and no file tool shows `.git` to a run that is stored.
///
/// From the turn: what the lead is told (earlier turns with it), the schema of the answer, what it has seen of files,
/// what earlier turns have used where tokens or money are limited, the workspace's fingerprint, and small files that git
/// ignores. Session id, clock and user are in no key.
pub fn cache_key(spec: &Spec, asked: &Asked<'_>) -> String {
    let roles = spec.blueprint.iter().flat_map(|blueprint| &blueprint.roles);
    let checks = spec.blueprint.as_ref().is_some_and(|blueprint| !blueprint.checks.is_empty());
    let may_run = checks || tools_in_use(spec, roles).any(|tool| tool.risk >= Risk::Execute);
    let has_budget = spec.limits.max_tokens.is_some() || spec.limits.max_micro_usd.is_some();
    let mut spec = Spec { seed: 0, ..spec.clone() };
    spec.instructions.iter_mut().for_each(|one| one.path.clear());
    if !may_run {
        spec.workspace.root.clear();
        spec.cache.iter_mut().for_each(|cache| cache.environment = None);
    }
    let value = json!({
        "form": FORM,
        "rules": RULES,
        "spec": spec,
        "grants": asked.grants,
        "spent": has_budget.then_some(asked.spent),
        "ratio": asked.ratio,
        "git": asked.git.filter(|_| may_run),
        "said": asked.said.iter().map(|one| json!([one.role, one.parts])).collect::<Vec<_>>(),
        "schema": asked.schema,
        "seen": asked.seen,
        "fingerprint": asked.fingerprint,
        "ignored": asked.ignored,
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

/// The first model a role begins with of which it is not known what answers under its provider's name.
pub fn unidentified(spec: &Spec) -> Option<&str> {
    let roles = &spec.blueprint.as_ref()?.roles;
    let mut models = roles.iter().filter_map(|role| spec.model_for(role.model.as_deref(), &role.persona));
    models.find(|model| {
        let provider = model.split('/').next().unwrap_or_default();
        !spec.cache.as_ref().is_some_and(|cache| cache.providers.contains_key(provider))
    })
}

/// The tools that any of these roles may use.
pub fn tools_in_use<'a>(
    spec: &'a Spec,
    roles: impl IntoIterator<Item = &'a RoleSpec>,
) -> impl Iterator<Item = &'a ToolSpec> {
    let used: BTreeSet<String> = roles.into_iter().flat_map(|role| tools_of(spec, role)).collect();
    spec.tools.iter().filter(move |tool| used.contains(&tool.name))
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

impl Session {
    /// The key of the open turn; none where something that was said is no longer known.
    pub(super) fn this_key(&self, print: &WorkspaceFingerprinted) -> Option<String> {
        let (spec, squad, turn) = (self.spec.as_ref()?, self.squad.as_ref()?, self.turn.as_ref()?);
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
                fingerprint: &print.fingerprint,
                git: print.git.as_deref(),
                ignored: print.ignored.as_deref(),
                grants: &self.grants,
                seen: lead.seen.clone(),
                spent: turn.spent_before,
                ratio: self.ledger.ratios(),
            },
        ))
    }
}

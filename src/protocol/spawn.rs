//! Subagents: what a spark asks for with `spawn`, what its subagent is given, and what its end says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::SparkId;
use crate::protocol::event::{ArenaEvent, SparkCompleted, ToolUse, TurnCause};
use crate::protocol::expand::Lookup;
use crate::protocol::spec::PermissionLevel;
use crate::protocol::text::{MOST_SHOWN, cut_middle};

/// Most bytes of a subagent's task.
const LONGEST_TASK: usize = 64 * 1024;

/// Most characters of a subagent's name.
const LONGEST_NAME: usize = 24;

/// A task for a subagent: the arguments of `spawn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spawn {
    /// The whole task: the subagent sees nothing of this conversation.
    pub task: String,
    /// A short name under which the person sees it, such as `tests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its persona; yours when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// Its model, `PROVIDER/MODEL`; its persona's or yours when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The tools of yours that it gets: names, families and patterns; all that only look when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Its permission level, no higher than yours; yours when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<PermissionLevel>,
    /// Model calls it may make at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// JSON Schema that its answer must fit; words when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
}

/// What a spark that delegates gives to its subagent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delegated {
    /// The spark that delegates.
    pub parent: SparkId,
    /// Its call, whose arguments hold the task and which the subagent's end answers.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
    /// How many subagents deep it is: 1 for one of a spark that works for the person.
    pub depth: u32,
    /// The tools it has, as far as its parent still has them.
    pub tools: Vec<String>,
    /// Its permission level, as far as its parent's is no stricter.
    pub permission: PermissionLevel,
    /// Model calls it may make.
    pub max_steps: u32,
}

impl Spawn {
    /// Why it cannot be taken as it is; the words are for the model.
    pub fn check(&self) -> Result<(), String> {
        if self.task.trim().is_empty() || self.task.len() > LONGEST_TASK {
            return Err(format!("the task must have 1 to {LONGEST_TASK} bytes"));
        }
        if self.max_steps == Some(0) {
            return Err("`max_steps` must be at least 1".to_owned());
        }
        Ok(())
    }

    /// Its name as a part of what the person sees: letters, digits and dashes.
    pub fn short_name(&self) -> Option<String> {
        let plain = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '-' };
        let name: String = self.name.as_deref()?.trim().chars().take(LONGEST_NAME).map(plain).collect();
        Some(name.trim_matches('-').to_owned()).filter(|name| !name.is_empty())
    }

    /// Where the task is in the answer that holds this part.
    pub fn pointer(part: u16) -> String {
        format!("/body/message/{part}/call/args/json/task")
    }
}

/// What a subagent's end says to the spark that waited for it.
pub fn account(ended: &SparkCompleted, lookup: Lookup<'_>) -> String {
    let said = ended.answer.and_then(lookup).and_then(ArenaEvent::answer_text);
    let said = said.map(|text| cut_middle(&text, MOST_SHOWN).0);
    match (ended.cause, said) {
        (TurnCause::Done, said) => said.unwrap_or_default(),
        (cause, None) => format!("the subagent ended without an answer ({})", cause.words()),
        (cause, Some(said)) => format!("the subagent ended early ({}); it said last:\n{said}", cause.words()),
    }
}

//! Subagents: what a spark gives to one, and what its end says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::SparkId;
use crate::protocol::event::{ArenaEvent, SparkCompleted, ToolUse, TurnCause};
use crate::protocol::expand::Lookup;
use crate::protocol::spec::PermissionLevel;
use crate::protocol::text::{MOST_SHOWN, cut_middle};

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

impl TurnCause {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            TurnCause::Done => "done",
            TurnCause::EmptyAnswer => "the model said nothing",
            TurnCause::BadAnswer => "the answer did not fit its schema",
            TurnCause::Refused => "the model refused",
            TurnCause::Truncated => "the answer was cut at the output limit (`max_output`)",
            TurnCause::ModelFailed => "the model call failed",
            TurnCause::ContextFull => "the context window is full, and a summary would free too little",
            TurnCause::Loop => "it went in circles",
            TurnCause::Limit => "a limit was reached",
            TurnCause::Interrupted => "interrupted",
            TurnCause::Stopped => "stopped",
            TurnCause::Incomplete => "not done",
            TurnCause::Unknown(word) => word.text(),
        }
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

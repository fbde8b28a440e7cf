//! The rows of mission control: plain values that views lay out; fold nothing.

use crate::protocol::event::{ToolUse, TurnCause};
use crate::protocol::{CallId, EventRef, SparkId};

/// How much was folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries.
    pub entries: u64,
    /// Entries of a newer program.
    pub unknown: u64,
}

/// One spark on the roster.
#[derive(Clone, Debug, PartialEq)]
pub struct SparkRow {
    /// The spark.
    pub spark: SparkId,
    /// Its role.
    pub role: String,
    /// The model it uses now.
    pub model: String,
    /// Time of ignition, microseconds since the Unix epoch.
    pub started: u64,
    /// Time and cause of its end; none while it lives.
    pub ended: Option<(u64, TurnCause)>,
}

/// An approval that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenApproval {
    /// The ask, as `Command::Answer` names it.
    pub call: CallId,
    /// What an answer binds to.
    pub digest: String,
    /// The spark that wants it.
    pub spark: SparkId,
    /// The tool call.
    pub tool_use: ToolUse,
    /// Tool name.
    pub tool: String,
    /// What it is about, one line.
    pub target: String,
    /// The `tool_prepared` a person should look at, with the whole preview.
    pub prepared: EventRef,
    /// Time it was asked, microseconds since the Unix epoch.
    pub since: u64,
    /// The needs that leave the sandbox and that no rule names; `--yes` does not answer them.
    pub opens: Vec<String>,
}

//! Live, disposable news of a running call; never stored, never decided upon.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::CallId;

/// A piece of live output. A subscriber that sees a gap in `offset` drops its partial until the entry comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Signal {
    /// The running call.
    pub call: CallId,
    /// Its attempt.
    pub attempt: u32,
    /// Which stream of the call.
    pub lane: Lane,
    /// Bytes of this lane before `text`.
    pub offset: u64,
    /// The redacted piece.
    pub text: String,
}

/// The streams one call may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// A model's answer.
    Text,
    /// A model's thinking.
    Reasoning,
    /// Arguments of the n-th tool call of an answer.
    Args(u16),
    /// A command's standard output.
    Stdout,
    /// A command's standard error.
    Stderr,
    /// A word on how far something is.
    Progress,
}

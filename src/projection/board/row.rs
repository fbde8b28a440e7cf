//! The rows of mission control: plain values that views lay out; fold nothing.

use crate::protocol::SparkId;
use crate::protocol::event::TurnCause;
use crate::protocol::subagent::Delegated;

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
    /// What it is given as a subagent; none for one that works for the person.
    pub delegated: Option<Box<Delegated>>,
    /// The model it uses now.
    pub model: String,
    /// Time of ignition, microseconds since the Unix epoch.
    pub started: u64,
    /// Time and cause of its end; none while it lives.
    pub ended: Option<(u64, TurnCause)>,
}

impl SparkRow {
    /// How many subagents deep it is; 0 for one that works for the person.
    pub fn depth(&self) -> usize {
        self.delegated.as_ref().map_or(0, |delegated| delegated.depth as usize)
    }
}

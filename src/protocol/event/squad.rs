//! Data of the events of a squad; a decision never repeats a fact's text, it names its event.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::event::TurnCause;
use crate::protocol::stored::stored;
use crate::protocol::{EventRef, SparkId};

/// Data of `phase_shifted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseShifted {
    /// The step left; none at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The step entered.
    pub to: String,
}

/// Data of `plan_stated`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanStated {
    /// The spark.
    pub spark: SparkId,
    /// The answer that holds the plan.
    pub source: EventRef,
}

/// Data of `code_proposed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodeProposed {
    /// The spark.
    pub spark: SparkId,
    /// The `diff_taken`; none when nothing was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<EventRef>,
    /// The `check_ran`s.
    #[serde(default)]
    pub checks: Vec<EventRef>,
    /// The `diff_taken` of what changed while the checks ran: a check or another process did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<EventRef>,
    /// Changed files of the work that are gone, or are again as they were before it, since the checks ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undone: Vec<String>,
    /// Changed files that no tool of the squad wrote, where only its tools can have written: somebody else did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<String>,
}

stored! {
    /// How bad a finding is.
    #[derive(Copy, Eq, PartialOrd, Ord)]
    pub enum Severity of Word {
        /// Must be mended.
        Blocker,
        /// Should be mended.
        Major,
        /// Could be mended.
        Minor,
        /// A remark.
        Note,
    }
}

/// One thing a reviewer found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable id within the turn, `F1`, `F2`, …
    pub id: String,
    /// How bad.
    pub severity: Severity,
    /// File, relative to the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// What is wrong.
    pub problem: String,
    /// What would fix it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Severity {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Blocker => "blocker",
            Severity::Major => "major",
            Severity::Minor => "minor",
            Severity::Note => "note",
            Severity::Unknown(word) => word.text(),
        }
    }
}

impl Finding {
    /// Where it is, to stand behind other words: ` a.rs:3`, ` a.rs`; empty where it names no file.
    pub fn place(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!(" {file}:{line}"),
            (Some(file), None) => format!(" {file}"),
            (None, _) => String::new(),
        }
    }
}

stored! {
    /// A reviewer's judgement.
    #[derive(Copy, Eq)]
    pub enum Judgement of Word {
        /// It can stand.
        Approve,
        /// It must be changed.
        RequestChanges,
    }
}

/// Data of `critique_issued`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CritiqueIssued {
    /// The spark.
    pub spark: SparkId,
    /// The answer it was read from.
    pub source: EventRef,
    /// The judgement.
    pub verdict: Judgement,
    /// What is open, ids assigned.
    pub findings: Vec<Finding>,
}

/// Data of `finding_closed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingClosed {
    /// The finding.
    pub id: String,
    /// The answer that settled it.
    pub source: EventRef,
}

/// Data of `insight_surfaced`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InsightSurfaced {
    /// Who said it.
    pub from: SparkId,
    /// Who is told.
    pub to: SparkId,
    /// The event that holds the words.
    pub source: EventRef,
}

/// Data of `role_failed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoleFailed {
    /// The role or debater.
    pub role: String,
    /// Its spark.
    pub spark: SparkId,
    /// Why.
    pub cause: TurnCause,
}

/// Data of `claim_flagged`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimFlagged {
    /// The answer that claims.
    pub source: EventRef,
    /// Which of its claims, from 0.
    pub claim: u32,
    /// What the log says instead.
    pub reason: String,
    /// True when the log says the contrary; false when the claim is merely not supported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contradicted: bool,
    /// What it says, where that is in its text and not in its list of claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

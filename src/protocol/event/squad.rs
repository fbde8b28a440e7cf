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
}

/// Data of `work_judged`: whose the changes are that a comparison of the workspace shows, since the squad began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkJudged {
    /// The writer whose work it was, or the lead when its answer was there.
    pub spark: SparkId,
    /// The `diff_taken` that shows the work.
    pub diff: EventRef,
    /// Changed files that count as the squad's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<String>,
    /// Changed files that no tool of the squad wrote while nothing else of it ran: another process did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<String>,
    /// Changed files that no tool of the squad wrote while checks ran: a check or another process did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Files that tools of the squad wrote and that hold again what they held before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<String>,
    /// Files of the work that were changed after it was shown or removed by others, or all that was written where nothing
    /// of it is left. With any of these the work is not done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undone: Vec<String>,
}

impl WorkJudged {
    /// Changed files that another process may not have changed alone.
    pub fn changed(&self) -> impl Iterator<Item = &String> {
        self.own.iter().chain(&self.unknown)
    }

    /// The `diff_taken`, where it shows anything.
    pub fn shown(&self) -> Option<EventRef> {
        let is_empty = self.changed().chain(&self.foreign).next().is_none();
        (!is_empty).then_some(self.diff)
    }

    /// Why the work is not done, a line for each file.
    pub fn faults(&self) -> impl Iterator<Item = String> + '_ {
        self.undone.iter().map(|path| match self.restored.contains(path) {
            true => format!("`{path}` is again as it was before"),
            false => format!("`{path}` was changed by a check or by another process after it was written"),
        })
    }
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

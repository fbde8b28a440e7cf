//! What the session asks of the world and what the world answers: plain values that could cross a wire.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::event::{
    Answered, ArenaEvent, CacheHit, CacheMissed, CacheStored, CheckRan, ClaimFlagged, DiffTaken,
    EffectFailed, MentionExpanded, ModelFailed, ModelReply, PatchApplied, PatchRefused, PathBase, TimerFired,
    ToolPrepared, ToolResolved, ToolUse, TurnCause, WorkspaceCheckpointed, WorkspaceFingerprinted,
};
use crate::protocol::message::Request;
use crate::protocol::{CallId, EventRef, SparkId};

/// What `effect_ordered` orders, by reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectOrder {
    /// Look, without side effect, what a tool call would do.
    Prepare {
        /// The call.
        #[serde(rename = "use")]
        tool_use: ToolUse,
    },
    /// Wait.
    Timer {
        /// Active milliseconds.
        ms: u64,
        /// What for.
        purpose: TimerPurpose,
    },
    /// Run one of the blueprint's checks.
    Check {
        /// The command line.
        command: String,
    },
    /// Read what a person's words mention.
    Mention {
        /// The file or folder, and which lines.
        place: MentionedPlace,
    },
    /// Digest the workspace's content.
    Fingerprint,
    /// Record the workspace's content so that a fork can start from it.
    Checkpoint,
    /// Compare the workspace with a recorded tree.
    Diff {
        /// The tree.
        from: String,
        /// Files that were written since, with what each held before: whether they hold it again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        written: Vec<PathBase>,
    },
    /// Look a run up in the team cache.
    CacheGet {
        /// Its key.
        key: String,
    },
    /// Store this run in the team cache.
    CachePut {
        /// Its key.
        key: String,
        /// The tree before the run.
        before: String,
        /// The tree the squad left; what the workspace holds now must be that.
        after: String,
        /// What `.git` was before the run, from `workspace_fingerprinted`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        git: Option<String>,
        /// The `model_answered` that holds the run's answer.
        answer: EventRef,
        /// How the run ended; only `done` is stored.
        cause: TurnCause,
    },
    /// Apply a cached run's changes, all or nothing.
    Patch {
        /// The cache key whose changes are applied.
        key: String,
        /// Digest of the run that was found, from `cache_hit`.
        digest: String,
    },
}

/// A file or folder that a person's words mention, as `@PATH` or `@PATH:FIRST-LAST`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MentionedPlace {
    /// As written.
    pub mention: String,
    /// The path in it, relative to the workspace.
    pub path: String,
    /// First line, from 1; the first of the file when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// Last line; the last of the file when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
}

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimerPurpose {
    /// The turn's time limit.
    TurnLimit,
    /// The delay before a retry.
    Retry,
}

/// A call to the world, self-contained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Ask a model.
    Model {
        /// The whole request.
        request: Request,
        /// Milliseconds it may take in all.
        timeout_ms: u64,
    },
    /// Look what a tool call would do. No side effect.
    Prepare(ToolCall),
    /// Run a tool. The executor prepares again and refuses when the digest differs.
    Tool {
        /// The call.
        call: ToolCall,
        /// Digest of what was allowed.
        digest: String,
    },
    /// Run a check.
    Check {
        /// The command line.
        command: String,
        /// Milliseconds it may take.
        timeout_ms: u64,
        /// Bytes of its output that models are shown.
        output_cap: u32,
    },
    /// Read what a person's words mention.
    Mention {
        /// The file or folder, and which lines.
        place: MentionedPlace,
        /// Globs of the paths the policy denies to whoever reads.
        denied: Vec<String>,
        /// Bytes of it that models are shown.
        output_cap: u32,
    },
    /// Wait for a person's answer. Has no executor.
    Ask {
        /// The call in question.
        #[serde(rename = "use")]
        tool_use: ToolUse,
        /// Digest of what would be done.
        digest: String,
    },
    /// Wait.
    Timer {
        /// Milliseconds.
        ms: u64,
    },
    /// Digest the workspace's content.
    Fingerprint,
    /// Record the workspace's content.
    Checkpoint,
    /// Compare the workspace with a tree.
    Diff {
        /// The tree.
        from: String,
        /// Files that were written since, with what each held before: whether they hold it again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        written: Vec<PathBase>,
        /// Bytes of the diff that models are shown.
        output_cap: u32,
    },
    /// Look up the team cache.
    CacheGet {
        /// The key.
        key: String,
    },
    /// Store into the team cache.
    CachePut {
        /// The key.
        key: String,
        /// The tree before the run.
        before: String,
        /// The tree the squad left.
        after: String,
        /// What `.git` was before the run; none where there was none.
        git: Option<String>,
        /// The trees that were recorded while it worked.
        trees: Vec<String>,
        /// What its file tools looked at or wrote, with what each held then.
        held: Vec<PathBase>,
        /// What the run came to.
        run: FinishedRun,
    },
    /// Apply a cached run's changes.
    Patch {
        /// The key.
        key: String,
        /// Digest of the run that was found.
        digest: String,
    },
}

/// What a run came to, apart from what it changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FinishedRun {
    /// The session it was made in.
    pub session: String,
    /// What was asked for; empty in records of older programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// Its answer.
    pub answer: String,
    /// How it ended.
    pub cause: TurnCause,
    /// Model calls it took, repeated attempts not counted.
    pub calls: u32,
    /// Tokens it took, input and output.
    pub tokens: u64,
    /// Millionths of a dollar it took.
    pub micro_usd: u64,
    /// The models that worked on it, as `PROVIDER/MODEL`, sorted.
    pub models: Vec<String>,
    /// Claims of its answer that its own log did not bear out. Their references are of that log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<ClaimFlagged>,
}

/// A tool call as it is prepared and run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Which call of which answer.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
    /// The spark that asks.
    pub spark: SparkId,
    /// Tool name.
    pub tool: String,
    /// Arguments as recorded, but for paths beneath a folder that the session is a copy from.
    pub args: Value,
    /// What this spark last saw of the files it has read or written.
    pub bases: Vec<PathBase>,
    /// The squad's role in whose own place it runs; it runs in the session's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Globs of the paths the policy denies this tool, for tools that come upon files while they run.
    pub denied: Vec<String>,
    /// Milliseconds it may take.
    pub timeout_ms: u64,
    /// Bytes of output shown to the model.
    pub output_cap: u32,
}

/// The one answer to one attempt of one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The call.
    pub call: CallId,
    /// The attempt.
    pub attempt: u32,
    /// What came of it.
    pub body: OutcomeBody,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each variant is the body of the fact of the same name, documented there")]
pub enum OutcomeBody {
    ModelAnswered(ModelReply),
    ModelFailed(ModelFailed),
    ToolPrepared(ToolPrepared),
    ToolResolved(ToolResolved),
    CheckRan(CheckRan),
    TimerFired(TimerFired),
    EffectFailed(EffectFailed),
    WorkspaceFingerprinted(WorkspaceFingerprinted),
    WorkspaceCheckpointed(WorkspaceCheckpointed),
    DiffTaken(DiffTaken),
    MentionExpanded(MentionExpanded),
    CacheHit(CacheHit),
    CacheMissed(CacheMissed),
    CacheStored(CacheStored),
    PatchApplied(PatchApplied),
    PatchRefused(PatchRefused),
}

impl Outcome {
    /// The fact this outcome becomes once stamped.
    pub fn into_event(self) -> ArenaEvent {
        use {ArenaEvent as E, OutcomeBody as B};
        let Outcome { call, attempt, body } = self;
        macro_rules! answered {
            ($variant:ident, $body:expr) => {
                E::$variant(Answered { call, attempt, body: $body })
            };
        }
        match body {
            B::ModelAnswered(body) => answered!(ModelAnswered, body),
            B::ModelFailed(body) => answered!(ModelFailed, body),
            B::ToolPrepared(body) => answered!(ToolPrepared, body),
            B::ToolResolved(body) => answered!(ToolResolved, body),
            B::CheckRan(body) => answered!(CheckRan, body),
            B::TimerFired(body) => answered!(TimerFired, body),
            B::EffectFailed(body) => answered!(EffectFailed, body),
            B::WorkspaceFingerprinted(body) => answered!(WorkspaceFingerprinted, body),
            B::WorkspaceCheckpointed(body) => answered!(WorkspaceCheckpointed, body),
            B::DiffTaken(body) => answered!(DiffTaken, body),
            B::MentionExpanded(body) => answered!(MentionExpanded, body),
            B::CacheHit(body) => answered!(CacheHit, body),
            B::CacheMissed(body) => answered!(CacheMissed, body),
            B::CacheStored(body) => answered!(CacheStored, body),
            B::PatchApplied(body) => answered!(PatchApplied, body),
            B::PatchRefused(body) => answered!(PatchRefused, body),
        }
    }
}

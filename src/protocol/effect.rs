//! What is ordered of the world, what the session adds to it, and what comes back: plain values that can cross a wire.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::call::LONGEST_MS;
use crate::protocol::event::{
    CheckRan, ClaimFlagged, EffectFailed, ErrorKind, FailStatus, ModelFailed, PathBase, Plan, PrepareResult,
    Purpose, ToolPrepared, ToolResolved, ToolStatus, ToolUse,
};
use crate::protocol::message::Request;
use crate::protocol::spec::{Action, DeniedPath};
use crate::protocol::stored::stored;
use crate::protocol::{CallId, EventRef, SparkId};

pub use crate::protocol::call::{
    CALLS, CallKind, CallRow, Effect, OnResume, Order, OrderedBy, OutcomeBody, Work,
};

/// Nothing to say beside the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bare;

/// Orders a model call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelOrder {
    /// The `model_called`.
    pub called: EventRef,
    /// `PROVIDER/MODEL`.
    pub model: String,
    /// What for.
    pub purpose: Purpose,
}

/// What a model call is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelContext {
    /// The whole request.
    pub request: Request,
    /// Milliseconds it may take in all.
    pub timeout_ms: u64,
    /// True for a model that takes pictures; any other is sent their words.
    #[serde(default)]
    pub takes_images: bool,
}

impl ModelContext {
    pub(super) fn deadline(_: &ModelOrder, context: &ModelContext) -> u64 {
        context.timeout_ms
    }
}

/// Orders a look at what a tool call would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PrepareOrder {
    /// The call.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
}

/// A tool call that was prepared: orders its run, or the question whether it may run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PreparedUse {
    /// The call.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
    /// The `tool_prepared`.
    pub prepared: EventRef,
    /// What is allowed, or what an answer binds to.
    pub digest: String,
}

/// Orders the verdict of a gate on a prepared call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GateOrder {
    /// The gate.
    pub gate: String,
    /// The call.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
    /// The `tool_prepared`.
    pub prepared: EventRef,
    /// What a verdict binds to.
    pub digest: String,
}

/// What a gate judges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateContext {
    /// The call.
    pub call: ToolCall,
    /// What it would do.
    pub plan: Plan,
}

impl GateContext {
    pub(super) fn deadline(_: &GateOrder, context: &GateContext) -> u64 {
        context.call.timeout_ms
    }
}

/// Orders that a question is put to the person; its words are the arguments of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionOrder {
    /// The call of `ask_user`.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
}

/// Orders the list of what a source of tools offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolsOrder {
    /// The source.
    pub source: String,
    /// Digest of the list that is known already, and need not be given again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
}

impl ToolsOrder {
    pub(super) fn deadline(_: &ToolsOrder, _: &Bare) -> u64 {
        10_000
    }
}

/// Orders a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimerOrder {
    /// Active milliseconds.
    pub ms: u64,
    /// What for.
    pub purpose: TimerPurpose,
}

impl TimerOrder {
    pub(super) fn deadline(order: &TimerOrder, _: &Bare) -> u64 {
        order.ms.saturating_add(LONGEST_MS)
    }
}

stored! {
    /// What a timer is for.
    #[derive(Copy, Eq)]
    pub enum TimerPurpose of Word {
        /// The turn's time limit.
        TurnLimit,
        /// The delay before a retry.
        Retry,
        /// How long a turn waits for what it reads before it begins.
        Loads,
    }
}

/// Orders one of the blueprint's checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckOrder {
    /// The command line.
    pub command: String,
}

/// How a check is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckContext {
    /// Milliseconds it may take.
    pub timeout_ms: u64,
    /// Bytes of its output that models are shown.
    pub output_cap: u32,
}

impl CheckContext {
    pub(super) fn deadline(_: &CheckOrder, context: &CheckContext) -> u64 {
        context.timeout_ms
    }
}

/// Orders a read of what a person's words mention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MentionOrder {
    /// The file or folder, and which lines.
    pub place: MentionedPlace,
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

/// How a mention is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MentionContext {
    /// The paths the policy denies to every reader.
    pub denied: Vec<DeniedPath>,
    /// Bytes of it that models are shown.
    pub output_cap: u32,
}

/// How a comparison is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffContext {
    /// Bytes of the diff that models are shown.
    pub output_cap: u32,
}

/// Orders a comparison of the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffOrder {
    /// The tree it is compared with.
    pub from: String,
    /// Files that were written since, with what each held before: whether they hold it again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub written: Vec<PathBase>,
    /// The tree that was shown last: what differs from it is named too, and where nothing does, nothing is listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
}

/// Orders a look into the team cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheGetOrder {
    /// The run's key.
    pub key: String,
}

/// Orders that a run is put into the team cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CachePutOrder {
    /// Its key.
    pub key: String,
    /// The tree before the run.
    pub before: String,
    /// The tree the squad left; what the workspace holds now must be that.
    pub after: String,
    /// What `.git` was before the run, from `workspace_fingerprinted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<String>,
    /// The `model_answered` that holds the run's answer.
    pub answer: EventRef,
}

/// Orders that a cached run's changes are applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PatchOrder {
    /// The cache key whose changes are applied.
    pub key: String,
    /// Digest of the run that was found, from `cache_hit`.
    pub digest: String,
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
    /// True when its roles or its checks ran commands, which may depend on more than the key tells.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ran_commands: bool,
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
    /// The paths the policy denies this tool, for tools that come upon files while they run.
    pub denied: Vec<DeniedPath>,
    /// What rules and grants say of the hosts that its commands connect to while they run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostRule>,
    /// Milliseconds it may take.
    pub timeout_ms: u64,
    /// Bytes of output shown to the model.
    pub output_cap: u32,
}

/// What a rule says of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostRule {
    /// Glob over the names of needs: `host:*.example.org`, `host:10.0.0.0/8`, `host:NAME:PORT`.
    pub need: String,
    /// What follows.
    pub action: Action,
}

impl ToolCall {
    /// A tool ends itself at its timeout and says so; the deadline is the net under it.
    pub(super) fn deadline(_: &PreparedUse, call: &ToolCall) -> u64 {
        call.timeout_ms.saturating_add(5000)
    }
}

/// The one answer to one attempt of one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// The call.
    pub call: CallId,
    /// The attempt.
    pub attempt: u32,
    /// What came of it.
    pub body: OutcomeBody,
}

/// Why a call has no outcome of its worker's making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was not started: what was ordered cannot be read.
    Unread,
    /// Its time ran out.
    TimedOut,
    /// What came of it does not fit into the log.
    TooLong,
    /// It was told to stop and did not.
    Unstoppable,
    /// Its worker broke, or said what no such work can come to.
    Broken,
}

/// The body of a fact that can be made up for a call whose worker gives none.
pub(super) trait Failing<O> {
    fn failed(order: &O, how: Failure, words: String) -> Self;
}

impl Failing<ModelOrder> for ModelFailed {
    fn failed(_: &ModelOrder, how: Failure, words: String) -> Self {
        let kind = match how {
            Failure::Unread => ErrorKind::BadRequest,
            Failure::TimedOut => ErrorKind::Timeout,
            Failure::TooLong => ErrorKind::TooLarge,
            Failure::Unstoppable => ErrorKind::Cancelled,
            // Not `cancelled`: that would read as somebody's wish.
            Failure::Broken => ErrorKind::BadResponse,
        };
        ModelFailed::new(kind, words)
    }
}

impl Failing<PrepareOrder> for ToolPrepared {
    fn failed(order: &PrepareOrder, _: Failure, words: String) -> Self {
        ToolPrepared { tool_use: order.tool_use, result: PrepareResult::Unfit(words) }
    }
}

impl Failing<PreparedUse> for ToolResolved {
    fn failed(order: &PreparedUse, how: Failure, content: String) -> Self {
        let status = match how {
            Failure::Unread | Failure::TimedOut | Failure::TooLong => ToolStatus::Failed,
            Failure::Unstoppable | Failure::Broken => ToolStatus::Lost,
        };
        let (tool_use, seen, notes) = (order.tool_use, Vec::new(), Vec::new());
        ToolResolved {
            tool_use,
            status,
            content,
            exit: None,
            ms: 0,
            seen,
            parts: Vec::new(),
            blob: None,
            notes,
            by: None,
        }
    }
}

impl Failing<CheckOrder> for CheckRan {
    fn failed(order: &CheckOrder, _: Failure, output: String) -> Self {
        CheckRan { command: order.command.clone(), exit: None, output, ms: 0, notes: Vec::new() }
    }
}

impl<O> Failing<O> for EffectFailed {
    fn failed(_: &O, how: Failure, error: String) -> Self {
        let status = match how {
            Failure::Unread | Failure::TimedOut | Failure::TooLong => FailStatus::Failed,
            Failure::Unstoppable | Failure::Broken => FailStatus::Lost,
        };
        EffectFailed { status, error }
    }
}

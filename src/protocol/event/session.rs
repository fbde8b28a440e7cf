//! Data of the events that frame a session: openings, prompts, turns, sparks, stops.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::command::{Choice, StopCause};
use crate::protocol::effect::Order;
use crate::protocol::spec::{Mode, Setting, Spec};
use crate::protocol::stored::stored;
use crate::protocol::subagent::Delegated;
use crate::protocol::{ArenaEvent, CallId, EventRef, SparkId};

impl ArenaEvent {
    /// The settings that an event changes; none for most.
    pub fn changed(&self) -> &[Setting] {
        match self {
            ArenaEvent::SessionResumed(data) => &data.changed,
            ArenaEvent::SessionForked(data) => &data.changed,
            ArenaEvent::PromptGiven(data) => &data.changed,
            ArenaEvent::SettingsChanged(data) => &data.changed,
            _ => &[],
        }
    }
}

/// Data of `session_opened`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionOpened {
    /// UUIDv7 made at the edge; the root of the log's chain.
    pub id: String,
    /// Decision rules of the segment that follows.
    pub rules: u32,
    /// Everything decisions need.
    pub spec: Spec,
}

/// Data of `session_resumed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionResumed {
    /// Decision rules of the segment that follows.
    pub rules: u32,
    /// Program name and version.
    pub program: String,
    /// Settings that differ from before, whole.
    pub changed: Vec<Setting>,
    /// Active milliseconds of the open turn before the process ended.
    pub active_ms: u64,
    /// True when the log was not begun here, so that nothing granted before counts from here on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
}

/// Data of `session_forked`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionForked {
    /// Id of the new session.
    pub id: String,
    /// Decision rules of the segment that follows.
    pub rules: u32,
    /// Id of the session it was copied from.
    pub parent: String,
    /// Last entry that was copied.
    pub seq: u64,
    /// Chain head at that entry.
    pub head: String,
    /// The fork's own workspace root.
    pub workspace: String,
    /// Tree its workspace was made from; none when nothing had been recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// Settings that differ, whole.
    pub changed: Vec<Setting>,
    /// What was changed, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// Active milliseconds of the open turn at the fork.
    pub active_ms: u64,
    /// The call under way at the fork whose outcome the next entry gives: a tool's result by hand, a model's answer as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaits: Option<CallId>,
    /// True when it goes on for a parent that was ended in the middle: calls that were cut off there count here as
    /// the most they can have cost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
    /// True when the parent was not begun here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
}

/// Data of `session_paused`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionPaused {
    /// Why.
    pub cause: PauseCause,
}

stored! {
    /// Why a driver leaves a turn open.
    #[derive(Copy, Eq)]
    pub enum PauseCause of Word {
        /// An approval is open and nobody can answer.
        Approval,
        /// The disk is full.
        Disk,
        /// The person left.
        Quit,
    }
}

/// Data of `stop_requested`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StopRequested {
    /// Why.
    pub cause: StopCause,
}

/// Data of `fault_recovered`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultRecovered {
    /// Bytes cut from the end of the log.
    pub dropped_bytes: u64,
    /// SHA-256 of those bytes, hex.
    pub sha256: String,
    /// File beside the log that keeps them.
    pub kept_in: String,
}

/// Data of `prompt_given`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptGiven {
    /// The task.
    pub text: String,
    /// Who works on it.
    pub mode: Mode,
    /// Settings it newly brings in, whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Setting>,
    /// JSON Schema the final answer must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// `fork` when a fork replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Data of `steering_given`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SteeringGiven {
    /// The spark, or the one that talks with the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spark: Option<SparkId>,
    /// What was said.
    pub text: String,
}

/// Data of `interrupt_requested`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptRequested {
    /// The spark, or the whole turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spark: Option<SparkId>,
    /// A command in the background, and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
}

/// Data of `settings_changed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SettingsChanged {
    /// The new values, whole.
    pub changed: Vec<Setting>,
}

/// Data of `turn_rewound`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnRewound {
    /// The session is as before this event: a `prompt_given`, or a `turn_rewound` that is itself taken back.
    pub to: EventRef,
    /// True when the conversations are as they were then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub talk: bool,
    /// What becomes of the files; none when they stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesRewound>,
}

/// How the files of a workspace go back; written down before the first of them is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilesRewound {
    /// The tree that was there.
    pub from: String,
    /// The tree that takes its place.
    pub to: String,
    /// How many paths differ between the two.
    pub count: u64,
    /// Those paths, at most 500.
    pub paths: Vec<String>,
    /// Paths that were changed since and stay as they are, at most 500.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
}

/// Data of `approval_answered`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalAnswered {
    /// The ask.
    pub call: CallId,
    /// What the answer is for.
    pub digest: String,
    /// The answer.
    pub choice: Choice,
    /// Who answered.
    pub by: String,
}

/// Data of `question_answered`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionAnswered {
    /// The question's call.
    pub call: CallId,
    /// The answer.
    pub text: String,
    /// Who answered.
    pub by: String,
}

/// Data of `timer_fired`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimerFired {
    /// Active milliseconds of the turn so far; pauses do not count.
    pub active_ms: u64,
}

/// Data of `effect_failed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EffectFailed {
    /// How it ended.
    pub status: FailStatus,
    /// What went wrong.
    pub error: String,
}

stored! {
    /// How an effect without a failing fact of its own ended.
    #[derive(Copy, Eq)]
    pub enum FailStatus of Word {
        /// It was tried and failed.
        Failed,
        /// It was told to stop and did.
        Cancelled,
        /// Its executor vanished.
        Lost,
    }
}

/// Data of `turn_opened`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnOpened {
    /// Number in the session, from 1.
    pub turn: u32,
}

/// Data of `turn_closed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnClosed {
    /// Number in the session.
    pub turn: u32,
    /// Why it ended.
    pub cause: TurnCause,
    /// The event that holds the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<EventRef>,
}

stored! {
    /// Why a turn or a spark ended. Doing nothing is not success.
    #[derive(Copy, Eq)]
    pub enum TurnCause of Word {
        /// It answered.
        Done,
        /// The model said nothing at all, twice.
        EmptyAnswer,
        /// The typed answer did not fit its schema, twice.
        BadAnswer,
        /// The model refused, or its answer was filtered.
        Refused,
        /// The answer was cut at the output limit and could not be finished.
        Truncated,
        /// The model could not be had, fallbacks included.
        ModelFailed,
        /// The conversation does not fit the context window, compacted or not.
        ContextFull,
        /// It went in circles.
        Loop,
        /// A limit was reached.
        Limit,
        /// A person interrupted it.
        Interrupted,
        /// The session was stopped.
        Stopped,
        /// Some roles did not do their part, or what they left is not approved, fails its checks or is claimed against
        /// the log.
        Incomplete,
    }
}

/// Data of `session_sealed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSealed {
    /// Why it was stopped.
    pub cause: StopCause,
    /// Turns it had.
    pub turns: u32,
    /// Why the last turn ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<TurnCause>,
    /// Tokens of all turns.
    pub tokens: u64,
    /// Millionths of a dollar of all turns with a known price.
    pub micro_usd: u64,
}

/// Data of `spark_ignited`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SparkIgnited {
    /// The spark.
    pub spark: SparkId,
    /// Its role: `solo`, a blueprint's role, or a debater's persona id.
    pub role: String,
    /// Its persona.
    pub persona: String,
    /// Its model.
    pub model: String,
    /// The spark whose conversation it continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<SparkId>,
    /// The spark whose chat with the user is too long for it: its task and its answer are added there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart_from: Option<SparkId>,
    /// Of a squad's lead: estimated tokens of the conversation that it continues or is too long for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_tokens: Option<u64>,
    /// What it is given as a subagent; none for one that works for the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegated: Option<Box<Delegated>>,
}

/// Data of `spark_completed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SparkCompleted {
    /// The spark.
    pub spark: SparkId,
    /// Why it ended.
    pub cause: TurnCause,
    /// The event that holds its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<EventRef>,
}

/// Data of `effect_ordered`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EffectOrdered {
    /// The call.
    pub call: CallId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The spark it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spark: Option<SparkId>,
    /// What is ordered.
    pub effect: Order,
}

/// Data of `call_cancelled`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallCancelled {
    /// The call.
    pub call: CallId,
    /// Why, in words.
    pub reason: String,
}

/// Data of `outcome_ignored`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutcomeIgnored {
    /// Why, in words.
    pub reason: String,
}

/// Data of `input_refused`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InputRefused {
    /// Why, in words for the person who asked.
    pub reason: String,
}

/// Data of `notice_given`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoticeGiven {
    /// The spark it is for.
    pub spark: SparkId,
    /// Which of the closed list.
    pub notice: Notice,
    /// The words.
    pub text: String,
}

stored! {
    /// What agon may say to a spark.
    #[derive(Copy, Eq)]
    pub enum Notice of Word {
        /// You are going in circles.
        Loop,
        /// Your answer cannot be used; say it again so.
        Repair,
        /// The outcome of a call is unknown.
        Lost,
        /// The workspace changed behind you.
        Workspace,
        /// No check ran.
        NoCheck,
        /// What a role is asked to do.
        Brief,
        /// Your workspace is another directory now.
        Moved,
        /// How to summarise what is dropped.
        Compacted,
        /// Your answer was cut off; what arrived of it is the message before.
        Interrupted,
        /// Nothing is changed in this turn: your answer is a plan.
        Planning,
        /// The chat before this task is not shown to you.
        Apart,
        /// You are a subagent: how you work, and when you must answer.
        Subagent,
        /// A command in the background has ended.
        Background,
    }
}

/// Data of `answer_rejected`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerRejected {
    /// The spark.
    pub spark: SparkId,
    /// The model call whose answer it was.
    pub call: CallId,
    /// What does not fit, each with its place.
    pub errors: Vec<String>,
    /// True when the model is asked again.
    pub repair: bool,
}

/// Data of `limit_reached`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitReached {
    /// Which limit.
    pub limit: LimitKind,
    /// What has been used; for tokens and money with the worst case of the refused call.
    pub used: u64,
    /// The limit.
    pub max: u64,
    /// The spark whose budget it is; the session's or the turn's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spark: Option<SparkId>,
}

impl LimitReached {
    /// A limit of the session or the turn.
    pub fn new(limit: LimitKind, used: u64, max: u64) -> Self {
        LimitReached { limit, used, max, spark: None }
    }
}

stored! {
    /// The limits, in the unit of `--max-…` but money, which is in millionths of a dollar.
    #[derive(Copy, Eq)]
    pub enum LimitKind of Word {
        /// Model calls.
        Steps,
        /// Tokens.
        Tokens,
        /// Millionths of a dollar.
        MicroUsd,
        /// Active seconds.
        Seconds,
        /// Tokens of one turn.
        TurnTokens,
        /// Millionths of a dollar of one turn.
        TurnMicroUsd,
        /// Tokens of one spark and all that it began.
        SparkTokens,
        /// Millionths of a dollar of one spark and all that it began.
        SparkMicroUsd,
    }
}

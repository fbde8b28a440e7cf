//! Data of the events around a model call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ArenaEvent;
use crate::protocol::message::{Finish, Params, Part, Role, Usage};
use crate::protocol::stored::stored;
use crate::protocol::{CallId, EventRef, SparkId};

/// Data of `model_called`: the request by reference. No text is repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCalled {
    /// The call.
    pub call: CallId,
    /// The attempt, from 1; all attempts have the same parts and digest.
    pub attempt: u32,
    /// The spark.
    pub spark: SparkId,
    /// What for.
    pub purpose: Purpose,
    /// `PROVIDER/MODEL`.
    pub model: String,
    /// How the call is made.
    pub params: Params,
    /// SHA-256 of the expanded request, hex.
    pub digest: String,
    /// What is said.
    pub parts: Parts,
    /// The tools offered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Selected>,
}

stored! {
    /// What a model call is for.
    #[derive(Copy, Default, Eq)]
    pub enum Purpose of Word {
        /// The spark's next step.
        #[default]
        Think,
        /// A summary of what will be dropped from the conversation.
        Compact,
    }
}

/// A request's messages: the first `keep` of an earlier request, then more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Parts {
    /// The earlier `model_called`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<EventRef>,
    /// How many of its messages stay.
    #[serde(default)]
    pub keep: u32,
    /// The messages after those.
    pub add: Vec<RequestPart>,
}

/// One message of a request, by reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestPart {
    /// Who speaks.
    pub role: Role,
    /// The event that holds the words.
    pub from: EventRef,
    /// JSON pointer into its data; the event's own words when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sel: Option<String>,
}

/// A value inside an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Selected {
    /// The event.
    pub from: EventRef,
    /// JSON pointer into its data.
    pub sel: String,
}

/// Body of `model_answered`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelReply {
    /// The answer.
    pub message: Vec<Part>,
    /// Tokens used.
    pub usage: Usage,
    /// The model that really answered, as the provider named it.
    pub model: String,
    /// Why it stopped.
    pub finish: Finish,
    /// Milliseconds the call waited for its turn at the provider.
    #[serde(default)]
    pub waited_ms: u64,
}

impl ArenaEvent {
    /// The text of an answer, given now or recorded in another session; none for other events.
    pub fn answer_text(&self) -> Option<String> {
        match self {
            ArenaEvent::ModelAnswered(reply) => Some(reply.body.text()),
            ArenaEvent::CacheHit(hit) => Some(hit.body.answer.clone()),
            _ => None,
        }
    }
}

impl ModelReply {
    /// True where thinking came with it.
    pub fn has_thought(&self) -> bool {
        self.message.iter().any(|part| matches!(part, Part::Reasoning { .. }))
    }

    /// The text parts, joined.
    pub fn text(&self) -> String {
        self.message
            .iter()
            .filter_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }
}

/// Body of `model_failed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelFailed {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// What went wrong, with what, and what to try.
    pub message: String,
    /// Milliseconds the provider asks to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Tokens billed all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Milliseconds the call waited for its turn at the provider.
    #[serde(default)]
    pub waited_ms: u64,
    /// What the provider said the model holds, when it refused a request as too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Box<ModelLimits>>,
    /// What the model had said until then; of a long text the beginning and the end.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub said: String,
    /// Parameters of the request that the model refuses, where its error names them and the request means the same
    /// without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

impl ModelFailed {
    /// A failure of which no more is known.
    pub fn new(kind: ErrorKind, message: String) -> Self {
        ModelFailed {
            kind,
            message,
            retry_after_ms: None,
            usage: None,
            waited_ms: 0,
            limits: None,
            said: String::new(),
            refused: Vec::new(),
        }
    }
}

/// What a provider said a model holds, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelLimits {
    /// Input and output together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// The input of the refused request, as the provider counted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Most output of one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
}

stored! {
    /// Kinds of model failure.
    #[derive(Copy, Eq, PartialOrd, Ord)]
    pub enum ErrorKind of Word {
        /// Too many requests or no quota for now.
        RateLimited,
        /// The provider has trouble (5xx, overloaded).
        Overloaded,
        /// The server is there and loads the model: it answers once that is done.
        Loading,
        /// The key is missing or refused.
        Auth,
        /// The account has no money or quota left: waiting does not help.
        Quota,
        /// The request does not fit the model's window.
        ContextOverflow,
        /// The input fits, the output that was asked for does not.
        OutputLimit,
        /// The provider cannot accept the request as it is.
        BadRequest,
        /// The provider answered something that is no answer.
        BadResponse,
        /// The connection failed or broke.
        Network,
        /// It took too long: to connect, to begin, or between two pieces.
        Timeout,
        /// The answer is larger than a log line may be.
        TooLarge,
        /// It was told to stop.
        Cancelled,
        /// The script has no further answer, or the request does not fit it.
        Script,
    }
}

impl ErrorKind {
    /// True when trying the same request again may help.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            ErrorKind::RateLimited
                | ErrorKind::Overloaded
                | ErrorKind::Loading
                | ErrorKind::BadResponse
                | ErrorKind::Network
                | ErrorKind::Timeout
        )
    }
}

/// Data of `retry_scheduled`; orders the timer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetryScheduled {
    /// The model call that will be repeated.
    pub call: CallId,
    /// The attempt to come.
    pub attempt: u32,
    /// The timer's own call.
    pub timer: CallId,
    /// Milliseconds to wait.
    pub delay_ms: u64,
    /// The failure.
    pub reason: EventRef,
}

/// Data of `fallback_taken`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FallbackTaken {
    /// The spark.
    pub spark: SparkId,
    /// The model given up.
    pub from: String,
    /// The model that takes over.
    pub to: String,
    /// The failure.
    pub reason: EventRef,
}

/// Data of `params_dropped`; closes the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParamsDropped {
    /// The call that failed. The one without the parameters has a number of its own.
    pub call: CallId,
    /// The spark it was for.
    pub spark: SparkId,
    /// The model that refuses them.
    pub model: String,
    /// Their names on the wire.
    pub names: Vec<String>,
    /// The failure.
    pub reason: EventRef,
}

/// Data of `budget_reserved`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetReserved {
    /// The model call it is for.
    pub call: CallId,
    /// Tokens of the worst case: estimated input and the output limit.
    pub tokens: u64,
    /// Millionths of a dollar of the worst case; 0 when the price is unknown.
    pub micro_usd: u64,
}

/// Data of `budget_settled`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetSettled {
    /// The model call.
    pub call: CallId,
    /// Its attempt.
    pub attempt: u32,
    /// Tokens used.
    pub usage: Usage,
    /// Millionths of a dollar, rounded up; 0 when the price is unknown.
    pub micro_usd: u64,
}

/// Data of `context_compacted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextCompacted {
    /// The spark.
    pub spark: SparkId,
    /// The `model_answered` that holds the summary, or the `notice_given` that says there is none.
    pub summary: EventRef,
    /// The events it stands for, in order.
    pub covers: Vec<EventRef>,
}

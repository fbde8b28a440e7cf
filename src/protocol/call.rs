//! The table of everything a session can order: one row a kind of work, from which the lists about calls are made.

use std::any::TypeId;

use schemars::JsonSchema;
use serde::de::{self, Deserialize, Deserializer, MapAccess};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

use crate::protocol::effect::{
    BackgroundOrder, Bare, CacheGetOrder, CachePutOrder, CheckContext, CheckOrder, DiffContext, DiffOrder,
    Failing, Failure, FinishedRun, GateContext, GateOrder, MentionContext, MentionOrder, ModelContext,
    ModelOrder, Outcome, PatchOrder, PrepareOrder, PreparedUse, QuestionOrder, TimerOrder, TimerPurpose,
    ToolCall, ToolsOrder,
};
use crate::protocol::event::{
    Answered, ArenaEvent, BackgroundEnded, CacheHit, CacheMissed, CacheStored, CheckRan, DiffTaken,
    EffectFailed, GateAnswered, MentionExpanded, ModelFailed, ModelReply, PatchApplied, PatchRefused,
    TimerFired, ToolPrepared, ToolResolved, ToolsListed, WorkspaceCheckpointed, WorkspaceFingerprinted,
};
use crate::protocol::stored::{self, Foreign, Stored, Unread};
use crate::protocol::{CallId, EventRef, Lane, SparkId};

/// The event that orders a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedBy {
    /// `effect_ordered`; a retry's timer is ordered by `retry_scheduled`.
    EffectOrdered,
    /// `model_called`.
    ModelCalled,
    /// `tool_invoked`.
    ToolInvoked,
    /// `approval_requested`; only a person's command answers it.
    ApprovalRequested,
}

/// What a resume does with a call that was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnResume {
    /// Orders the next attempt.
    Again,
    /// Withdraws it and looks again where the tool is declared repeatable, else closes it as lost.
    IfRepeatable,
    /// Closes it as lost.
    Lose,
    /// Withdraws it; what it was about is looked at and asked again.
    Withdraw,
    /// Leaves it open: it waits for a person as before.
    Keep,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct CallRow {
    /// Which kind of work.
    pub kind: CallKind,
    /// The word in logs.
    pub word: &'static str,
    /// Its meaning, one sentence.
    pub doc: &'static str,
    /// The event that orders it.
    pub ordered_by: OrderedBy,
    /// What a resume does with it.
    pub on_resume: OnResume,
    /// What is said while it runs; `{}` is what it is about.
    pub doing: &'static str,
    /// What it is to do, in a list of events; `{}` is what it is about.
    pub task: &'static str,
}

macro_rules! calls {
    ($( #[doc = $doc:literal] $kind:ident($order:ty, $context:ty) = $word:literal {
        ordered: $ordered:ident, answers: [$($fact:ident($body:ty)),*], fails: $fails:ident,
        resume: $resume:ident, deadline: $deadline:path, lanes: [$($lane:pat),*],
        words: $doing:literal, $task:literal
    } )+) => {
        /// The kinds of work a session orders.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum CallKind { $( #[doc = $doc] $kind, )+ }

        /// Every kind, in the order of the table.
        pub const CALLS: &[CallRow] = &[ $( CallRow {
            kind: CallKind::$kind,
            word: $word,
            doc: $doc,
            ordered_by: OrderedBy::$ordered,
            on_resume: OnResume::$resume,
            doing: $doing,
            task: $task,
        }, )+ ];

        /// What is ordered, by reference; as the log has it.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Order {
            $( #[doc = $doc] $kind($order), )+
            /// Work of a newer program: kept, shown, never started.
            Unknown(Foreign),
        }

        impl Order {
            /// Its row; none for the work of a newer program.
            pub fn row(&self) -> Option<&'static CallRow> {
                let kind = match self { $( Order::$kind(_) => CallKind::$kind, )+ Order::Unknown(_) => return None };
                CALLS.get(kind as usize)
            }

            /// True for a fact that answers it.
            pub fn takes(&self, fact: &ArenaEvent) -> bool {
                match (self, fact) {
                    $( $( (Order::$kind(_), ArenaEvent::$fact(_)) => true, )* )+
                    (order, ArenaEvent::EffectFailed(_)) => order.fails_as_effect(),
                    _ => false,
                }
            }

            /// The same for what a worker says came of it.
            pub fn fits(&self, body: &OutcomeBody) -> bool {
                match (self, body) {
                    $( $( (Order::$kind(_), OutcomeBody::$fact(_)) => true, )* )+
                    (order, OutcomeBody::EffectFailed(_)) => order.fails_as_effect(),
                    _ => false,
                }
            }

            /// The outcome that is recorded where its worker gives none.
            pub fn failed(&self, how: Failure, words: String) -> OutcomeBody {
                match self {
                    $( Order::$kind(order) => OutcomeBody::$fails(Failing::failed(order, how, words)), )+
                    Order::Unknown(_) => OutcomeBody::EffectFailed(Failing::failed(&Bare, how, words)),
                }
            }

            /// True for live output that such work may have.
            pub fn speaks(&self, lane: Lane) -> bool {
                match self {
                    $( Order::$kind(_) => false $( || matches!(lane, $lane) )*, )+
                    Order::Unknown(_) => false,
                }
            }
        }

        /// What `effect_ordered` may order.
        impl Stored for Order {
            const NAME: &'static str = "Order";

            fn bare<E: de::Error>(word: &str) -> Result<Self, E> {
                match word {
                    $( $word if is_plain(OrderedBy::$ordered) => {
                        serde_json::from_value(Value::Null).map(Order::$kind).map_err(E::custom)
                    } )+
                    _ => stored::kept(Self::NAME, word).map(|()| Order::Unknown(Unread::bare(word))),
                }
            }

            fn with_data<'de, M: MapAccess<'de>>(word: &str, map: &mut M) -> Result<Self, M::Error> {
                match word {
                    $( $word if is_plain(OrderedBy::$ordered) => map.next_value().map(Order::$kind), )+
                    _ => {
                        stored::kept(Self::NAME, word)?;
                        Unread::with_data(word, map).map(Order::Unknown)
                    }
                }
            }
        }

        impl Serialize for Order {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $( Order::$kind(_) if is_bare::<$order>() => serializer.serialize_str($word),
                       Order::$kind(order) => serializer.collect_map([($word, order)]), )+
                    Order::Unknown(unknown) => unknown.serialize(serializer),
                }
            }
        }

        impl JsonSchema for Order {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                "Order".into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut kinds = Vec::new();
                $( if is_plain(OrderedBy::$ordered) {
                    kinds.push(match is_bare::<$order>() {
                        true => schemars::json_schema!({ "const": $word, "description": $doc.trim() }),
                        false => {
                            let order = generator.subschema_for::<$order>();
                            schemars::json_schema!({
                                "type": "object", "description": $doc.trim(), "properties": { $word: order },
                                "required": [$word], "additionalProperties": false
                            })
                        }
                    });
                } )+
                schemars::json_schema!({ "oneOf": kinds })
            }
        }

        /// An order with what the session adds to it: all that a worker needs.
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[expect(missing_docs, reason = "`order` and `context` are the same two of each row")]
        pub enum Effect { $( #[doc = $doc] $kind { order: $order, context: $context }, )+ }

        impl Effect {
            /// Which kind of work it is.
            pub fn kind(&self) -> CallKind {
                match self { $( Effect::$kind { .. } => CallKind::$kind, )+ }
            }

            /// The order in it.
            pub fn order(&self) -> Order {
                match self { $( Effect::$kind { order, .. } => Order::$kind(order.clone()), )+ }
            }

            /// Milliseconds after which no longer waited for.
            pub fn deadline_ms(&self) -> u64 {
                match self { $( Effect::$kind { order, context } => $deadline(order, context), )+ }
            }
        }

        /// What came of a call: the body of the fact of the same name.
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[expect(missing_docs, reason = "each variant is the body of the fact of the same name, documented there")]
        pub enum OutcomeBody {
            $( $( $fact($body), )* )+
            EffectFailed(EffectFailed),
        }

        impl Outcome {
            /// The fact this outcome becomes once stamped.
            pub fn into_event(self) -> ArenaEvent {
                let Outcome { call, attempt, body } = self;
                match body {
                    $( $( OutcomeBody::$fact(body) => ArenaEvent::$fact(Answered { call, attempt, body }), )* )+
                    OutcomeBody::EffectFailed(body) => ArenaEvent::EffectFailed(Answered { call, attempt, body }),
                }
            }
        }

        impl ArenaEvent {
            /// For the fact that an outcome became: the call and the attempt it answers.
            pub fn answers(&self) -> Option<(CallId, u32)> {
                match self {
                    $( $( ArenaEvent::$fact(data) => Some((data.call, data.attempt)), )* )+
                    ArenaEvent::EffectFailed(data) => Some((data.call, data.attempt)),
                    _ => None,
                }
            }
        }
    };
}

calls! {
    /// Ask a model.
    Model(ModelOrder, ModelContext) = "model" {
        ordered: ModelCalled, answers: [ModelAnswered(ModelReply), ModelFailed(ModelFailed)], fails: ModelFailed,
        resume: Again, deadline: ModelContext::deadline, lanes: [Lane::Text, Lane::Reasoning, Lane::Args(_)],
        words: "thinking", "ask {}"
    }
    /// Look, without side effect, what a tool call would do.
    Prepare(PrepareOrder, ToolCall) = "prepare" {
        ordered: EffectOrdered, answers: [ToolPrepared(ToolPrepared)], fails: ToolPrepared,
        resume: Again, deadline: longest, lanes: [],
        words: "preparing {}", "prepare {}"
    }
    /// Ask a gate of the user what it says of a prepared call.
    Gate(GateOrder, GateContext) = "gate" {
        ordered: EffectOrdered, answers: [GateAnswered(GateAnswered)], fails: EffectFailed,
        resume: Withdraw, deadline: GateContext::deadline, lanes: [],
        words: "waiting for a gate: {}", "ask {}"
    }
    /// Run a tool. Its worker prepares again and refuses when the digest differs.
    Tool(PreparedUse, ToolCall) = "tool" {
        ordered: ToolInvoked, answers: [ToolResolved(ToolResolved)], fails: ToolResolved,
        resume: IfRepeatable, deadline: ToolCall::deadline, lanes: [Lane::Stdout, Lane::Stderr, Lane::Progress],
        words: "running {}", "run {}"
    }
    /// Keep a command running that no call waits for, until it ends or the session does.
    Background(BackgroundOrder, Bare) = "background" {
        ordered: EffectOrdered, answers: [BackgroundEnded(BackgroundEnded)], fails: BackgroundEnded,
        resume: Lose, deadline: never, lanes: [Lane::Stdout, Lane::Stderr],
        words: "running in the background: {}", "keep running: {}"
    }
    /// Ask a person. No worker does it.
    Ask(PreparedUse, Bare) = "ask" {
        ordered: ApprovalRequested, answers: [], fails: EffectFailed,
        resume: Withdraw, deadline: longest, lanes: [],
        words: "waiting for approval of {}", "ask about {}"
    }
    /// Put a question of a spark to the person. No worker does it.
    Question(QuestionOrder, Bare) = "question" {
        ordered: EffectOrdered, answers: [], fails: EffectFailed,
        resume: Keep, deadline: longest, lanes: [],
        words: "waiting for your answer", "ask the person"
    }
    /// Wait.
    Timer(TimerOrder, Bare) = "timer" {
        ordered: EffectOrdered, answers: [TimerFired(TimerFired)], fails: EffectFailed,
        resume: Again, deadline: TimerOrder::deadline, lanes: [],
        words: "retrying in {}", "wait {}"
    }
    /// Run one of the blueprint's checks.
    Check(CheckOrder, CheckContext) = "check" {
        ordered: EffectOrdered, answers: [CheckRan(CheckRan)], fails: CheckRan,
        resume: Lose, deadline: CheckContext::deadline, lanes: [Lane::Stdout, Lane::Stderr],
        words: "checking {}", "check {}"
    }
    /// Read what a person's words mention.
    Mention(MentionOrder, MentionContext) = "mention" {
        ordered: EffectOrdered, answers: [MentionExpanded(MentionExpanded)], fails: EffectFailed,
        resume: Again, deadline: longest, lanes: [],
        words: "reading what the task mentions", "read {}"
    }
    /// List what a source of tools offers.
    Tools(ToolsOrder, Bare) = "tools" {
        ordered: EffectOrdered, answers: [ToolsListed(ToolsListed)], fails: EffectFailed,
        resume: Again, deadline: ToolsOrder::deadline, lanes: [],
        words: "listing the tools of {}", "list the tools of {}"
    }
    /// Digest the workspace's content.
    Fingerprint(Bare, Bare) = "fingerprint" {
        ordered: EffectOrdered, answers: [WorkspaceFingerprinted(WorkspaceFingerprinted)], fails: EffectFailed,
        resume: Again, deadline: longest, lanes: [],
        words: "fingerprinting the workspace", "fingerprint the workspace"
    }
    /// Record the workspace's content so that a fork can start from it.
    Checkpoint(Bare, Bare) = "checkpoint" {
        ordered: EffectOrdered, answers: [WorkspaceCheckpointed(WorkspaceCheckpointed)], fails: EffectFailed,
        resume: Again, deadline: longest, lanes: [],
        words: "recording the workspace", "record the workspace"
    }
    /// Compare the workspace with a recorded tree.
    Diff(DiffOrder, DiffContext) = "diff" {
        ordered: EffectOrdered, answers: [DiffTaken(DiffTaken)], fails: EffectFailed,
        resume: Again, deadline: longest, lanes: [],
        words: "comparing the workspace", "compare with {}"
    }
    /// Look a run up in the team cache.
    CacheGet(CacheGetOrder, Bare) = "cache_get" {
        ordered: EffectOrdered, answers: [CacheHit(CacheHit), CacheMissed(CacheMissed)], fails: EffectFailed,
        resume: Again, deadline: longest, lanes: [],
        words: "asking the team cache", "look up {}"
    }
    /// Store this run in the team cache.
    CachePut(CachePutOrder, FinishedRun) = "cache_put" {
        ordered: EffectOrdered, answers: [CacheStored(CacheStored)], fails: EffectFailed,
        resume: Again, deadline: longest, lanes: [],
        words: "storing into the team cache", "store {}"
    }
    /// Apply a cached run's changes, all or nothing.
    Patch(PatchOrder, Bare) = "patch" {
        ordered: EffectOrdered, answers: [PatchApplied(PatchApplied), PatchRefused(PatchRefused)], fails: EffectFailed,
        resume: Again, deadline: longest, lanes: [],
        words: "applying a cached run", "apply {}"
    }
}

/// Milliseconds that work without a deadline of its own may take: recording and comparing a workspace.
pub(super) const LONGEST_MS: u64 = 600_000;

fn longest<O, C>(_: &O, _: &C) -> u64 {
    LONGEST_MS
}

fn never<O, C>(_: &O, _: &C) -> u64 {
    u64::MAX
}

fn is_plain(ordered_by: OrderedBy) -> bool {
    ordered_by == OrderedBy::EffectOrdered
}

fn is_bare<T: 'static>() -> bool {
    TypeId::of::<T>() == TypeId::of::<Bare>()
}

impl Order {
    /// The events that its effect is made from, but for a request's parts.
    pub fn cites(&self) -> Vec<EventRef> {
        match self {
            Order::Model(order) => vec![order.called],
            Order::Tool(order) | Order::Ask(order) => vec![order.tool_use.answer, order.prepared],
            Order::Prepare(order) => vec![order.tool_use.answer],
            Order::Question(order) => vec![order.tool_use.answer],
            Order::Background(order) => vec![order.tool_use.answer],
            Order::Gate(order) => vec![order.tool_use.answer, order.prepared],
            Order::CachePut(order) => vec![order.answer],
            Order::Timer(_)
            | Order::Check(_)
            | Order::Mention(_)
            | Order::Tools(_)
            | Order::Fingerprint(_)
            | Order::Checkpoint(_) => vec![],
            Order::Diff(_) | Order::CacheGet(_) | Order::Patch(_) | Order::Unknown(_) => vec![],
        }
    }

    /// Whatever has no ordering event of its own may end as `effect_failed`.
    fn fails_as_effect(&self) -> bool {
        self.row().is_some_and(|row| is_plain(row.ordered_by))
    }
}

/// One attempt of a call, with everything its worker needs, by value or by the digest of content.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, JsonSchema)]
pub struct Work {
    /// The call.
    pub call: CallId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// What is to be done.
    pub effect: Effect,
}

/// A call as an event of the log orders it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedCall {
    /// The call.
    pub call: CallId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The spark it is for; none where the event does not say.
    pub spark: Option<SparkId>,
    /// What is ordered.
    pub order: Order,
}

impl ArenaEvent {
    /// The call that this event, which is `at` in the log, orders.
    pub fn orders(&self, at: EventRef) -> Option<OrderedCall> {
        let (call, attempt, spark, order) = match self {
            ArenaEvent::ModelCalled(data) => {
                let (model, purpose) = (data.model.clone(), data.purpose);
                (
                    data.call,
                    data.attempt,
                    Some(data.spark),
                    Order::Model(ModelOrder { called: at, model, purpose }),
                )
            }
            ArenaEvent::ToolInvoked(data) => {
                let (tool_use, prepared, digest) = (data.tool_use, data.prepared, data.digest.clone());
                let order = Order::Tool(PreparedUse { tool_use, prepared, digest });
                (data.call, data.attempt, Some(data.spark), order)
            }
            ArenaEvent::ApprovalRequested(data) => {
                let (tool_use, prepared, digest) = (data.tool_use, data.prepared, data.digest.clone());
                let order = Order::Ask(PreparedUse { tool_use, prepared, digest });
                (data.call, data.attempt, Some(data.spark), order)
            }
            ArenaEvent::RetryScheduled(data) => {
                let order = TimerOrder { ms: data.delay_ms, purpose: TimerPurpose::Retry };
                (data.timer, 1, None, Order::Timer(order))
            }
            ArenaEvent::EffectOrdered(data) => (data.call, data.attempt, data.spark, data.effect.clone()),
            _ => return None,
        };
        Some(OrderedCall { call, attempt, spark, order })
    }

    /// The call that this fact ends: what an outcome answers, or a person.
    pub fn ends(&self) -> Option<CallId> {
        match self {
            ArenaEvent::ApprovalAnswered(data) => Some(data.call),
            ArenaEvent::QuestionAnswered(data) => Some(data.call),
            other => other.answers().map(|(call, _)| call),
        }
    }
}

impl<'de> Deserialize<'de> for Order {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        stored::deserialize(deserializer)
    }
}

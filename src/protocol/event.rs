//! The catalogue of everything that can stand in a log, in the past tense; behaviour is elsewhere.

pub mod background;
pub mod debate;
pub mod model;
pub mod session;
pub mod squad;
pub mod tool;
pub mod workspace;

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::Value;

use crate::protocol::{CallId, EventRef, SparkId, stored};

pub use background::*;
pub use debate::*;
pub use model::*;
pub use session::*;
pub use squad::*;
pub use tool::*;
pub use workspace::*;

/// Where an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It came from outside; verify feeds it.
    Fact,
    /// The session drew it; verify compares it.
    Decision,
    /// A kind of a newer program.
    Unknown,
}

/// One line of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct EventKind {
    /// The word in the log.
    pub kind: &'static str,
    /// Fact or decision.
    pub class: Class,
    /// Its meaning, one sentence.
    pub doc: &'static str,
}

/// The answer to an ordered effect: which call, which attempt, and what came of it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, JsonSchema)]
pub struct Answered<T> {
    /// The call it answers.
    pub call: CallId,
    /// The attempt it answers, from 1.
    pub attempt: u32,
    /// What came of it.
    pub body: T,
}

/// What an event is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The session, its settings, what it did not take.
    Session,
    /// Turns, sparks, and what is said.
    Turn,
    /// Model calls and what they cost.
    Model,
    /// Tool calls and checks.
    Tool,
    /// Calls of any kind.
    Call,
    /// The workspace's content.
    Workspace,
    /// Squads.
    Squad,
    /// The team cache.
    Cache,
    /// Debates.
    Debate,
    /// A kind of a newer program.
    Unknown,
}

/// What a row of the catalogue says of its data.
fn of<T, R>(data: &T, row: fn(&T) -> R) -> R {
    row(data)
}

macro_rules! events {
    ($(
        #[doc = $doc:literal] $class:ident $variant:ident($data:ty) = $kind:literal in $family:ident
            $(, spark $spark:expr)? $(, tool $tool:expr)? $(, call $call:expr)? $(, cites $cites:expr)?;
    )+) => {
        /// Something that happened, durable and versioned. A kind's meaning never changes.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ArenaEvent {
            $( #[doc = $doc] $variant($data), )+
            /// An event of a newer program: kept, shown, never acted upon.
            Unknown {
                /// Its kind.
                kind: String,
                /// Its data as it came.
                raw: Value,
            },
        }

        /// Every kind, in the order of the documentation.
        pub const CATALOGUE: &[EventKind] = &[
            $( EventKind { kind: $kind, class: Class::$class, doc: $doc }, )+
        ];

        #[derive(Clone, Copy)]
        enum Kind { $( $variant, )+ }

        impl Kind {
            fn named(kind: &str) -> Option<Kind> {
                match kind { $( $kind => Some(Kind::$variant), )+ _ => None }
            }

            fn read<'de, M: MapAccess<'de>>(self, map: &mut M) -> Result<ArenaEvent, M::Error> {
                match self { $( Kind::$variant => map.next_value().map(ArenaEvent::$variant), )+ }
            }
        }

        impl ArenaEvent {
            /// The word in the log.
            pub fn kind(&self) -> &str {
                match self {
                    $( ArenaEvent::$variant(_) => $kind, )+
                    ArenaEvent::Unknown { kind, .. } => kind,
                }
            }

            /// Fact, decision or unknown.
            pub fn class(&self) -> Class {
                match self {
                    $( ArenaEvent::$variant(_) => Class::$class, )+
                    ArenaEvent::Unknown { .. } => Class::Unknown,
                }
            }

            /// What it is part of.
            pub fn family(&self) -> Family {
                match self {
                    $( ArenaEvent::$variant(_) => Family::$family, )+
                    ArenaEvent::Unknown { .. } => Family::Unknown,
                }
            }

            /// The spark it names as its own; that of others follows from their call.
            pub fn spark(&self) -> Option<SparkId> {
                match self { $( $( ArenaEvent::$variant(data) => of(data, $spark), )? )+ _ => None }
            }

            /// The tool call it is about.
            pub fn tool_use(&self) -> Option<ToolUse> {
                match self { $( $( ArenaEvent::$variant(data) => of(data, $tool), )? )+ _ => None }
            }

            /// The call it orders, ends or speaks of.
            pub fn call(&self) -> Option<CallId> {
                match self { $( $( ArenaEvent::$variant(data) => of(data, $call), )? )+ _ => None }
            }

            /// The events it names as its reason or its source.
            pub fn cites(&self) -> Vec<EventRef> {
                match self { $( $( ArenaEvent::$variant(data) => of(data, $cites), )? )+ _ => Vec::new() }
            }

            /// The data alone, as JSON.
            pub fn data(&self) -> Value {
                let data = match self {
                    $( ArenaEvent::$variant(data) => serde_json::to_value(data), )+
                    ArenaEvent::Unknown { raw, .. } => return raw.clone(),
                };
                data.unwrap_or(Value::Null)
            }
        }

        impl Serialize for ArenaEvent {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut event = serializer.serialize_struct("ArenaEvent", 2)?;
                event.serialize_field("kind", self.kind())?;
                match self {
                    $( ArenaEvent::$variant(data) => event.serialize_field("data", data)?, )+
                    ArenaEvent::Unknown { raw, .. } => event.serialize_field("data", raw)?,
                }
                event.end()
            }
        }

        impl JsonSchema for ArenaEvent {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                "ArenaEvent".into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let kinds = vec![ $( {
                    let data = generator.subschema_for::<$data>();
                    schemars::json_schema!({
                        "type": "object",
                        "description": $doc.trim(),
                        "properties": { "kind": { "const": $kind }, "data": data },
                        "required": ["kind", "data"]
                    })
                }, )+ ];
                schemars::json_schema!({ "oneOf": kinds })
            }
        }
    };
}

events! {
    /// A session began; the spec holds whole what decisions need.
    Fact SessionOpened(Box<SessionOpened>) = "session_opened" in Session;
    /// A session was resumed after its process ended.
    Fact SessionResumed(SessionResumed) = "session_resumed" in Session;
    /// This log was copied from another up to here, and goes its own way.
    Fact SessionForked(SessionForked) = "session_forked" in Session;
    /// The driver left with the turn still open.
    Fact SessionPaused(SessionPaused) = "session_paused" in Session;
    /// Somebody asked to end the session.
    Fact StopRequested(StopRequested) = "stop_requested" in Session;
    /// A torn tail was set aside when the log was opened.
    Fact FaultRecovered(FaultRecovered) = "fault_recovered" in Session;
    /// A task was given.
    Fact PromptGiven(PromptGiven) = "prompt_given" in Turn;
    /// A person said something to a spark at work.
    Fact SteeringGiven(SteeringGiven) = "steering_given" in Turn, spark |d| d.spark;
    /// A person interrupted a spark or the turn.
    Fact InterruptRequested(InterruptRequested) = "interrupt_requested" in Turn, spark |d| d.spark;
    /// Settings were changed for the calls that follow.
    Fact SettingsChanged(SettingsChanged) = "settings_changed" in Session;
    /// The person took turns back, or took such a step back itself.
    Fact TurnRewound(TurnRewound) = "turn_rewound" in Turn;
    /// An approval was answered.
    Fact ApprovalAnswered(ApprovalAnswered) = "approval_answered" in Tool, call |d| Some(d.call);
    /// A person answered a question of a spark.
    Fact QuestionAnswered(QuestionAnswered) = "question_answered" in Turn, call |d| Some(d.call);
    /// A model answered.
    Fact ModelAnswered(Answered<ModelReply>) = "model_answered" in Model, call |d| Some(d.call);
    /// A model call failed.
    Fact ModelFailed(Answered<ModelFailed>) = "model_failed" in Model, call |d| Some(d.call);
    /// What a tool call would do was found out, or why it cannot be done.
    Fact ToolPrepared(Answered<ToolPrepared>) = "tool_prepared" in Tool,
        tool |d| Some(d.body.tool_use), call |d| Some(d.call);
    /// A running tool call waits for a connection that no rule speaks of.
    Fact HostAsked(HostAsked) = "host_asked" in Tool, tool |d| Some(d.tool_use), call |d| Some(d.call);
    /// A gate gave its verdict on a prepared call.
    Fact GateAnswered(Answered<GateAnswered>) = "gate_answered" in Tool,
        tool |d| Some(d.body.tool_use), call |d| Some(d.call);
    /// A tool call that was started came to its end.
    Fact ToolResolved(Answered<ToolResolved>) = "tool_resolved" in Tool,
        tool |d| Some(d.body.tool_use), call |d| Some(d.call);
    /// A command in the background came to its end.
    Fact BackgroundEnded(Answered<BackgroundEnded>) = "background_ended" in Tool,
        tool |d| Some(d.body.tool_use), call |d| Some(d.call);
    /// A check of the blueprint was run.
    Fact CheckRan(Answered<CheckRan>) = "check_ran" in Tool, call |d| Some(d.call);
    /// A timer fired.
    Fact TimerFired(Answered<TimerFired>) = "timer_fired" in Call, call |d| Some(d.call);
    /// An effect without a failing fact of its own failed, was cancelled or was lost.
    Fact EffectFailed(Answered<EffectFailed>) = "effect_failed" in Call, call |d| Some(d.call);
    /// The team cache held this run.
    Fact CacheHit(Answered<CacheHit>) = "cache_hit" in Cache, call |d| Some(d.call);
    /// The team cache did not hold this run.
    Fact CacheMissed(Answered<CacheMissed>) = "cache_missed" in Cache, call |d| Some(d.call);
    /// This run was put into the team cache.
    Fact CacheStored(Answered<CacheStored>) = "cache_stored" in Cache, call |d| Some(d.call);
    /// The workspace's content was digested.
    Fact WorkspaceFingerprinted(Answered<WorkspaceFingerprinted>) = "workspace_fingerprinted" in Workspace,
        call |d| Some(d.call);
    /// The workspace's content was recorded.
    Fact WorkspaceCheckpointed(Answered<WorkspaceCheckpointed>) = "workspace_checkpointed" in Workspace,
        call |d| Some(d.call);
    /// The workspace was compared with a recorded tree.
    Fact DiffTaken(Answered<DiffTaken>) = "diff_taken" in Workspace, call |d| Some(d.call);
    /// A cached run's changes were applied.
    Fact PatchApplied(Answered<PatchApplied>) = "patch_applied" in Cache, call |d| Some(d.call);
    /// A cached run's changes did not fit.
    Fact PatchRefused(Answered<PatchRefused>) = "patch_refused" in Cache, call |d| Some(d.call);
    /// A source said which tools it offers.
    Fact ToolsListed(Answered<ToolsListed>) = "tools_listed" in Tool, call |d| Some(d.call);
    /// A mention in a prompt was replaced by what it names.
    Fact MentionExpanded(Answered<MentionExpanded>) = "mention_expanded" in Turn, call |d| Some(d.call);
    /// A turn began.
    Decision TurnOpened(TurnOpened) = "turn_opened" in Turn;
    /// A turn ended, and why.
    Decision TurnClosed(TurnClosed) = "turn_closed" in Turn, cites |d| d.answer.into_iter().collect();
    /// The session ended, and why.
    Decision SessionSealed(SessionSealed) = "session_sealed" in Session;
    /// A spark was given its task.
    Decision SparkIgnited(SparkIgnited) = "spark_ignited" in Turn, spark |d| Some(d.spark);
    /// A spark ended, and why.
    Decision SparkCompleted(SparkCompleted) = "spark_completed" in Turn,
        spark |d| Some(d.spark), cites |d| d.answer.into_iter().collect();
    /// A model is called; orders the call.
    Decision ModelCalled(Box<ModelCalled>) = "model_called" in Model, spark |d| Some(d.spark), call |d| Some(d.call);
    /// A failed model call will be repeated; orders the delay.
    Decision RetryScheduled(RetryScheduled) = "retry_scheduled" in Model,
        call |d| Some(d.call), cites |d| vec![d.reason];
    /// A model refuses parameters; it is called again without them.
    Decision ParamsDropped(ParamsDropped) = "params_dropped" in Model,
        spark |d| Some(d.spark), cites |d| vec![d.reason];
    /// Another model takes over.
    Decision FallbackTaken(FallbackTaken) = "fallback_taken" in Model,
        spark |d| Some(d.spark), cites |d| vec![d.reason];
    /// An effect that has no ordering event of its own is ordered.
    Decision EffectOrdered(EffectOrdered) = "effect_ordered" in Call, spark |d| d.spark, call |d| Some(d.call);
    /// A tool is run; orders the call.
    Decision ToolInvoked(ToolInvoked) = "tool_invoked" in Tool,
        spark |d| Some(d.spark), tool |d| Some(d.tool_use), call |d| Some(d.call);
    /// A tool call is not run, and why.
    Decision ToolRefused(ToolRefused) = "tool_refused" in Tool, tool |d| Some(d.tool_use);
    /// A tool call is answered by agon itself, with what another event holds.
    Decision ToolAnswered(ToolAnswered) = "tool_answered" in Tool, tool |d| Some(d.tool_use), cites |d| vec![d.from];
    /// The policy spoke on a prepared call.
    Decision PolicyDecided(PolicyDecided) = "policy_decided" in Tool, tool |d| Some(d.tool_use);
    /// A person is asked whether a call may run; orders the ask.
    Decision ApprovalRequested(ApprovalRequested) = "approval_requested" in Tool,
        spark |d| Some(d.spark), tool |d| Some(d.tool_use), call |d| Some(d.call);
    /// A running tool call learns whether it may connect.
    Decision HostJudged(HostJudged) = "host_judged" in Tool,
        tool |d| Some(d.tool_use), call |d| Some(d.call), cites |d| vec![d.asked];
    /// A running call has to stop.
    Decision CallCancelled(CallCancelled) = "call_cancelled" in Call, call |d| Some(d.call);
    /// A call's outcome will never be known.
    Decision CallLost(CallLost) = "call_lost" in Call, tool |d| d.tool_use, call |d| Some(d.call);
    /// The fact before it is a late or doubled outcome and changes nothing.
    Decision OutcomeIgnored(OutcomeIgnored) = "outcome_ignored" in Session;
    /// The fact before it asks for something that cannot be done now and changes nothing.
    Decision InputRefused(InputRefused) = "input_refused" in Session;
    /// Agon says something to a spark.
    Decision NoticeGiven(NoticeGiven) = "notice_given" in Turn, spark |d| Some(d.spark);
    /// A typed answer did not fit its schema.
    Decision AnswerRejected(AnswerRejected) = "answer_rejected" in Turn,
        spark |d| Some(d.spark), call |d| Some(d.call);
    /// The worst case of a model call is set aside.
    Decision BudgetReserved(BudgetReserved) = "budget_reserved" in Model, call |d| Some(d.call);
    /// A model call's real cost replaces what was set aside.
    Decision BudgetSettled(BudgetSettled) = "budget_settled" in Model, call |d| Some(d.call);
    /// A limit was reached.
    Decision LimitReached(LimitReached) = "limit_reached" in Turn;
    /// Older parts of a transcript were replaced by a summary, or dropped: `summary` is then a `notice_given`.
    Decision ContextCompacted(ContextCompacted) = "context_compacted" in Turn,
        spark |d| Some(d.spark), cites |d| vec![d.summary];
    /// A squad or a debate went on to its next step.
    Decision PhaseShifted(PhaseShifted) = "phase_shifted" in Turn;
    /// A set of parallel debate calls began.
    Decision RoundOpened(RoundOpened) = "round_opened" in Debate;
    /// A coordinator stated a plan.
    Decision PlanStated(PlanStated) = "plan_stated" in Squad, spark |d| Some(d.spark), cites |d| vec![d.source];
    /// A coder's work stands for review.
    Decision CodeProposed(CodeProposed) = "code_proposed" in Squad,
        spark |d| Some(d.spark), cites |d| d.diff.iter().chain(&d.checks).copied().collect();
    /// What a squad changed, what others changed and what was undone, decided from a comparison of the workspace.
    Decision WorkJudged(WorkJudged) = "work_judged" in Squad,
        spark |d| Some(d.spark), cites |d| vec![d.diff];
    /// A reviewer judged a proposal.
    Decision CritiqueIssued(CritiqueIssued) = "critique_issued" in Squad,
        spark |d| Some(d.spark), cites |d| vec![d.source];
    /// A finding was settled.
    Decision FindingClosed(FindingClosed) = "finding_closed" in Squad, cites |d| vec![d.source];
    /// What one spark said was routed to another.
    Decision InsightSurfaced(InsightSurfaced) = "insight_surfaced" in Squad,
        spark |d| Some(d.from), cites |d| vec![d.source];
    /// A role or debater has nothing to contribute this time, and why.
    Decision RoleFailed(RoleFailed) = "role_failed" in Squad, spark |d| Some(d.spark);
    /// A claim of an answer is not supported by the log.
    Decision ClaimFlagged(ClaimFlagged) = "claim_flagged" in Squad, cites |d| vec![d.source];
    /// A squad does without the team cache, and why.
    Decision CacheSkipped(CacheSkipped) = "cache_skipped" in Cache;
    /// A debater cast a ballot.
    Decision BallotCast(BallotCast) = "ballot_cast" in Debate, spark |d| Some(d.spark), cites |d| vec![d.source];
    /// The propositions in dispute were stated.
    Decision PropositionsStated(PropositionsStated) = "propositions_stated" in Debate, cites |d| d.source.clone();
    /// A debater rated the propositions.
    Decision RatingsCast(RatingsCast) = "ratings_cast" in Debate, spark |d| Some(d.spark), cites |d| vec![d.source];
    /// The sealed ballots were opened.
    Decision BallotsRevealed(BallotsRevealed) = "ballots_revealed" in Debate, cites |d| d.ballots.clone();
    /// Convergence was measured.
    Decision ConvergenceProbed(ConvergenceProbed) = "convergence_probed" in Debate;
    /// The question was found not worth a debate.
    Decision DebateGated(DebateGated) = "debate_gated" in Debate;
    /// A debate ends before its last phase, and why.
    Decision DebateShortened(DebateShortened) = "debate_shortened" in Debate;
    /// The moderator reached a verdict.
    Decision VerdictReached(VerdictReached) = "verdict_reached" in Debate, cites |d| vec![d.source];
    /// A debater's lasting dissent was recorded.
    Decision DissentRecorded(DissentRecorded) = "dissent_recorded" in Debate,
        spark |d| Some(d.spark), cites |d| vec![d.source];
}

/// The kind as read from a log: known, or the word itself.
enum KindWord {
    Known(Kind),
    Unknown(String),
}

impl<'de> Deserialize<'de> for KindWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordVisitor;
        impl Visitor<'_> for WordVisitor {
            type Value = KindWord;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event kind")
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<KindWord, E> {
                Ok(Kind::named(word).map_or_else(|| KindWord::Unknown(word.to_owned()), KindWord::Known))
            }
        }
        deserializer.deserialize_str(WordVisitor)
    }
}

#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    Kind,
    Data,
}

impl ArenaEvent {
    /// Reads one event as entries of a log are read.
    pub(crate) fn read(json: &[u8]) -> serde_json::Result<Self> {
        stored::read(json).map(|(event, _)| event)
    }
}

impl<'de> Deserialize<'de> for ArenaEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EventVisitor;
        impl<'de> Visitor<'de> for EventVisitor {
            type Value = ArenaEvent;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event: `kind`, then `data`")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<ArenaEvent, M::Error> {
                let Some(Key::Kind) = map.next_key()? else {
                    return Err(de::Error::custom("an event starts with `kind`"));
                };
                let word = map.next_value()?;
                let Some(Key::Data) = map.next_key()? else {
                    return Err(de::Error::custom("`data` follows `kind`"));
                };
                match word {
                    KindWord::Known(kind) => kind.read(&mut map),
                    KindWord::Unknown(kind) => {
                        stored::met(format!("event `{kind}`"));
                        Ok(ArenaEvent::Unknown { kind, raw: map.next_value()? })
                    }
                }
            }
        }
        let _keeping = stored::Keeping::begin();
        deserializer.deserialize_struct("ArenaEvent", &["kind", "data"], EventVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_a_newer_program_survives_a_round_trip() {
        let text = r#"{"kind":"tea_served","data":{"cups":1.50}}"#;
        let event: ArenaEvent = serde_json::from_str(text).unwrap();
        assert_eq!(event.class(), Class::Unknown);
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
    }

    #[test]
    fn data_before_kind_is_refused() {
        let text = r#"{"data":{},"kind":"stop_requested"}"#;
        assert!(serde_json::from_str::<ArenaEvent>(text).is_err());
    }

    #[test]
    fn kinds_are_unique() {
        let mut kinds: Vec<_> = CATALOGUE.iter().map(|k| k.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), CATALOGUE.len());
    }
}

//! The catalogue of everything that can stand in a log, in the past tense; behaviour is elsewhere.

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

use crate::protocol::{CallId, stored};

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

macro_rules! events {
    ($( #[doc = $doc:literal] $class:ident $variant:ident($data:ty) = $kind:literal; )+) => {
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
    Fact SessionOpened(Box<SessionOpened>) = "session_opened";
    /// A session was taken up again after its process ended.
    Fact SessionResumed(SessionResumed) = "session_resumed";
    /// This log was copied from another up to here, and goes its own way.
    Fact SessionForked(SessionForked) = "session_forked";
    /// The driver left with the turn still open.
    Fact SessionPaused(SessionPaused) = "session_paused";
    /// Somebody asked to end the session.
    Fact StopRequested(StopRequested) = "stop_requested";
    /// A torn tail was set aside when the log was opened.
    Fact FaultRecovered(FaultRecovered) = "fault_recovered";
    /// A task was given.
    Fact PromptGiven(PromptGiven) = "prompt_given";
    /// A person said something to a spark at work.
    Fact SteeringGiven(SteeringGiven) = "steering_given";
    /// A person interrupted a spark or the turn.
    Fact InterruptRequested(InterruptRequested) = "interrupt_requested";
    /// Settings were changed for the calls that follow.
    Fact SettingsChanged(SettingsChanged) = "settings_changed";
    /// The person took turns back, or took such a step back itself.
    Fact TurnRewound(TurnRewound) = "turn_rewound";
    /// An approval was answered.
    Fact ApprovalAnswered(ApprovalAnswered) = "approval_answered";
    /// A model answered.
    Fact ModelAnswered(Answered<ModelReply>) = "model_answered";
    /// A model call failed.
    Fact ModelFailed(Answered<ModelFailed>) = "model_failed";
    /// What a tool call would do was found out, or why it cannot be done.
    Fact ToolPrepared(Answered<ToolPrepared>) = "tool_prepared";
    /// A tool call that was started came to its end.
    Fact ToolResolved(Answered<ToolResolved>) = "tool_resolved";
    /// A check of the blueprint was run.
    Fact CheckRan(Answered<CheckRan>) = "check_ran";
    /// A timer fired.
    Fact TimerFired(Answered<TimerFired>) = "timer_fired";
    /// An effect without a failing fact of its own failed, was cancelled or was lost.
    Fact EffectFailed(Answered<EffectFailed>) = "effect_failed";
    /// The team cache held this run.
    Fact CacheHit(Answered<CacheHit>) = "cache_hit";
    /// The team cache did not hold this run.
    Fact CacheMissed(Answered<CacheMissed>) = "cache_missed";
    /// This run was put into the team cache.
    Fact CacheStored(Answered<CacheStored>) = "cache_stored";
    /// The workspace's content was digested.
    Fact WorkspaceFingerprinted(Answered<WorkspaceFingerprinted>) = "workspace_fingerprinted";
    /// The workspace's content was recorded.
    Fact WorkspaceCheckpointed(Answered<WorkspaceCheckpointed>) = "workspace_checkpointed";
    /// The workspace was compared with a recorded tree.
    Fact DiffTaken(Answered<DiffTaken>) = "diff_taken";
    /// A cached run's changes were applied.
    Fact PatchApplied(Answered<PatchApplied>) = "patch_applied";
    /// A cached run's changes did not fit.
    Fact PatchRefused(Answered<PatchRefused>) = "patch_refused";
    /// A source said which tools it offers.
    Fact ToolsListed(Answered<ToolsListed>) = "tools_listed";
    /// A mention in a prompt was replaced by what it names.
    Fact MentionExpanded(Answered<MentionExpanded>) = "mention_expanded";
    /// A turn began.
    Decision TurnOpened(TurnOpened) = "turn_opened";
    /// A turn ended, and why.
    Decision TurnClosed(TurnClosed) = "turn_closed";
    /// The session ended, and why.
    Decision SessionSealed(SessionSealed) = "session_sealed";
    /// A spark was given its task.
    Decision SparkIgnited(SparkIgnited) = "spark_ignited";
    /// A spark ended, and why.
    Decision SparkCompleted(SparkCompleted) = "spark_completed";
    /// A model is called; orders the call.
    Decision ModelCalled(Box<ModelCalled>) = "model_called";
    /// A failed model call will be repeated; orders the delay.
    Decision RetryScheduled(RetryScheduled) = "retry_scheduled";
    /// A model refuses parameters; it is called again without them.
    Decision ParamsDropped(ParamsDropped) = "params_dropped";
    /// Another model takes over.
    Decision FallbackTaken(FallbackTaken) = "fallback_taken";
    /// An effect that has no ordering event of its own is ordered.
    Decision EffectOrdered(EffectOrdered) = "effect_ordered";
    /// A tool is run; orders the call.
    Decision ToolInvoked(ToolInvoked) = "tool_invoked";
    /// A tool call is not run, and why.
    Decision ToolRefused(ToolRefused) = "tool_refused";
    /// The policy spoke on a prepared call.
    Decision PolicyDecided(PolicyDecided) = "policy_decided";
    /// Somebody is asked whether a call may run; orders the ask.
    Decision ApprovalRequested(ApprovalRequested) = "approval_requested";
    /// A running call is told to stop.
    Decision CallCancelled(CallCancelled) = "call_cancelled";
    /// A call's outcome will never be known.
    Decision CallLost(CallLost) = "call_lost";
    /// The fact before it is a late or doubled outcome and changes nothing.
    Decision OutcomeIgnored(OutcomeIgnored) = "outcome_ignored";
    /// The fact before it asks for something that cannot be done now and changes nothing.
    Decision InputRefused(InputRefused) = "input_refused";
    /// Agon says something to a spark.
    Decision NoticeGiven(NoticeGiven) = "notice_given";
    /// A typed answer did not fit its schema.
    Decision AnswerRejected(AnswerRejected) = "answer_rejected";
    /// The worst case of a model call is set aside.
    Decision BudgetReserved(BudgetReserved) = "budget_reserved";
    /// A model call's real cost replaces what was set aside.
    Decision BudgetSettled(BudgetSettled) = "budget_settled";
    /// A limit was reached.
    Decision LimitReached(LimitReached) = "limit_reached";
    /// Older parts of a transcript were replaced by a summary.
    Decision ContextCompacted(ContextCompacted) = "context_compacted";
    /// A squad or a debate went on to its next step.
    Decision PhaseShifted(PhaseShifted) = "phase_shifted";
    /// A set of parallel debate calls began.
    Decision RoundOpened(RoundOpened) = "round_opened";
    /// A coordinator stated a plan.
    Decision PlanStated(PlanStated) = "plan_stated";
    /// A coder's work stands for review.
    Decision CodeProposed(CodeProposed) = "code_proposed";
    /// A reviewer judged a proposal.
    Decision CritiqueIssued(CritiqueIssued) = "critique_issued";
    /// A finding was settled.
    Decision FindingClosed(FindingClosed) = "finding_closed";
    /// What one spark said was routed to another.
    Decision InsightSurfaced(InsightSurfaced) = "insight_surfaced";
    /// A role or debater has nothing to contribute this time, and why.
    Decision RoleFailed(RoleFailed) = "role_failed";
    /// A claim of an answer is not borne out by the log.
    Decision ClaimFlagged(ClaimFlagged) = "claim_flagged";
    /// A squad does without the team cache, and why.
    Decision CacheSkipped(CacheSkipped) = "cache_skipped";
    /// A debater cast a ballot.
    Decision BallotCast(BallotCast) = "ballot_cast";
    /// The propositions in dispute were stated.
    Decision PropositionsStated(PropositionsStated) = "propositions_stated";
    /// A debater rated the propositions.
    Decision RatingsCast(RatingsCast) = "ratings_cast";
    /// The sealed ballots were opened.
    Decision BallotsRevealed(BallotsRevealed) = "ballots_revealed";
    /// Convergence was measured.
    Decision ConvergenceProbed(ConvergenceProbed) = "convergence_probed";
    /// The question was found not worth a debate.
    Decision DebateGated(DebateGated) = "debate_gated";
    /// A debate ends before its last phase, and why.
    Decision DebateShortened(DebateShortened) = "debate_shortened";
    /// The moderator reached a verdict.
    Decision VerdictReached(VerdictReached) = "verdict_reached";
    /// A debater's lasting dissent was recorded.
    Decision DissentRecorded(DissentRecorded) = "dissent_recorded";
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

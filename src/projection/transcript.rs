//! What was said and done, as a list of references; holds no bodies and looks none up by itself.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::projection::phrases;
use crate::protocol::command::StopCause;
use crate::protocol::event::{
    ErrorKind, FailStatus, LimitKind, ModelReply, Notice, PauseCause, RefusalReason, ToolStatus, ToolUse,
    TurnCause,
};
use crate::protocol::expand::Lookup;
use crate::protocol::inside;
use crate::protocol::message::{Args, Part};
use crate::protocol::{ArenaEvent, CallId, Entry, EventRef, SparkId};

use super::answering::Answering;
use super::calls::{OpenCalls, WorkClock};

/// What an item of the transcript is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// A task was given.
    Prompt,
    /// A person said something to a spark.
    Steering,
    /// A person interrupted.
    Interrupt,
    /// Text of a model's answer.
    Answer {
        /// Part of the message.
        part: u16,
    },
    /// Thinking of a model.
    Thinking {
        /// Part of the message.
        part: u16,
    },
    /// A tool call a model asks for.
    ToolCall {
        /// Part of the message.
        part: u16,
        /// The event that ended it: resolved, refused or lost; none while it is open.
        end: Option<EventRef>,
    },
    /// A tool call came to its end.
    ToolResult {
        /// The call.
        tool_use: ToolUse,
        /// How it ended.
        status: ToolStatus,
    },
    /// A tool call was not run.
    Refused {
        /// The call.
        tool_use: ToolUse,
        /// Why.
        reason: RefusalReason,
    },
    /// Agon answered a tool call itself.
    Answered {
        /// The call.
        tool_use: ToolUse,
    },
    /// A call's outcome will never be known.
    Lost {
        /// The tool call, if it was one.
        tool_use: Option<ToolUse>,
    },
    /// Agon said something to a spark.
    Notice(Notice),
    /// A typed answer did not fit.
    Rejected,
    /// Somebody is asked.
    Approval {
        /// The ask.
        call: CallId,
        /// The `tool_prepared` with the preview.
        prepared: EventRef,
        /// The `approval_answered`; none while it is open.
        answer: Option<EventRef>,
    },
    /// A check ran.
    Check {
        /// True when it exited with 0.
        passed: bool,
    },
    /// What a task mentions was read.
    Mention,
    /// Something that was ordered could not be done.
    Undone,
    /// The workspace was compared with a recorded tree.
    Diff,
    /// What a model had said when its call failed.
    CutAnswer,
    /// A model call failed.
    Failure(ErrorKind),
    /// Another model answered than the one that was asked.
    OtherModel,
    /// A model refuses parameters and is called without them.
    Dropped,
    /// Another model took over.
    Fallback,
    /// A limit was reached.
    Limit(LimitKind),
    /// Settings were changed by a person.
    Settings,
    /// Older parts of a conversation were summarised.
    Compacted,
    /// A squad or debate went on.
    Phase,
    /// A plan was stated, a proposal made, a critique issued, words routed, a verdict reached: a step of a
    /// squad or debate whose kind the event itself names.
    Step,
    /// The team cache held the run.
    CacheHit,
    /// A spark ended.
    SparkEnd(TurnCause),
    /// A turn ended.
    End {
        /// Why.
        cause: TurnCause,
        /// Milliseconds it was at work.
        work_ms: u64,
    },
    /// The session was paused.
    Paused(PauseCause),
    /// The session was taken up again.
    Resumed,
    /// The session was forked.
    Forked,
    /// Turns were taken back, or such a step was.
    Rewound,
    /// A torn tail was set aside.
    Recovered,
    /// The session ended.
    Sealed(StopCause),
    /// An event of a newer program.
    Unknown,
}

/// One thing that was said or done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The event that holds the body.
    pub source: EventRef,
    /// Microseconds since the Unix epoch.
    pub at: u64,
    /// Whose it is; none for the session's or the person's.
    pub spark: Option<SparkId>,
    /// What it is.
    pub kind: ItemKind,
}

/// What was said and done, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    /// The items.
    pub items: Vec<Item>,
    calls: OpenCalls,
    answering: Answering,
    work: WorkClock,
    /// What the clock showed when the turn began.
    begun_us: u64,
    /// Where the items of open tool calls and open asks stand.
    open_tools: BTreeMap<ToolUse, usize>,
    open_asks: BTreeMap<CallId, usize>,
}

impl Transcript {
    /// Folds one entry.
    pub fn apply(&mut self, entry: &Entry) {
        self.work.tick(entry, &self.calls);
        for (from, event) in entry.effective() {
            let spark = self.calls.spark_of(event);
            if matches!(event, ArenaEvent::PromptGiven(_)) {
                self.begun_us = self.work.us;
            }
            if self.answering.apply(event).is_some() {
                self.items.push(Item { source: from, at: entry.at, spark, kind: ItemKind::OtherModel });
            }
            if let ArenaEvent::ModelAnswered(data) = event {
                // That a conversation was summed up is one item; its words are for its model.
                if !self.calls.get(data.call).is_some_and(|open| open.is_summary) {
                    self.answered(entry.at, from, spark, &data.body);
                }
            } else if let Some(kind) = self.kind_of(event) {
                if matches!(event, ArenaEvent::ModelFailed(data) if !data.body.said.trim().is_empty()) {
                    self.items.push(Item { source: from, at: entry.at, spark, kind: ItemKind::CutAnswer });
                }
                self.items.push(Item { source: from, at: entry.at, spark, kind });
                self.link(from, kind);
            } else if let ArenaEvent::ApprovalAnswered(data) = event {
                self.settle_ask(data.call, from);
            }
            self.calls.apply(entry.at, from, event);
        }
    }

    fn kind_of(&self, event: &ArenaEvent) -> Option<ItemKind> {
        match event {
            ArenaEvent::TurnClosed(data) => {
                let work_ms = self.work.us.saturating_sub(self.begun_us) / 1_000;
                Some(ItemKind::End { cause: data.cause, work_ms })
            }
            other => kind_of(other),
        }
    }

    /// True when no tool call and no ask waits for its end.
    pub fn is_settled(&self) -> bool {
        self.open_tools.is_empty() && self.open_asks.is_empty()
    }

    /// Hands the items over and goes on without them; what is open stays without its end there.
    pub fn take_items(&mut self) -> Vec<Item> {
        self.open_tools.clear();
        self.open_asks.clear();
        std::mem::take(&mut self.items)
    }

    fn answered(&mut self, at: u64, source: EventRef, spark: Option<SparkId>, reply: &ModelReply) {
        for (part, said) in (0u16..).zip(&reply.message) {
            let kind = match said {
                Part::Text { .. } => ItemKind::Answer { part },
                Part::Reasoning { .. } => ItemKind::Thinking { part },
                Part::Call { .. } => {
                    self.open_tools.insert(ToolUse { answer: source, part }, self.items.len());
                    ItemKind::ToolCall { part, end: None }
                }
                Part::Result { .. } | Part::Image(_) | Part::Opaque(_) | Part::Unknown(_) => continue,
            };
            self.items.push(Item { source, at, spark, kind });
        }
    }

    /// Ties an end to the call it ends, and remembers where an ask stands.
    fn link(&mut self, from: EventRef, kind: ItemKind) {
        match kind {
            ItemKind::ToolResult { tool_use, .. }
            | ItemKind::Refused { tool_use, .. }
            | ItemKind::Answered { tool_use }
            | ItemKind::Lost { tool_use: Some(tool_use) } => self.close_tool(tool_use, from),
            ItemKind::Approval { call, .. } => {
                self.open_asks.insert(call, self.items.len() - 1);
            }
            _ => {}
        }
    }

    fn close_tool(&mut self, tool_use: ToolUse, from: EventRef) {
        let item = self.open_tools.remove(&tool_use).and_then(|at| self.items.get_mut(at));
        if let Some(Item { kind: ItemKind::ToolCall { end, .. }, .. }) = item {
            *end = Some(from);
        }
    }

    fn settle_ask(&mut self, call: CallId, from: EventRef) {
        let item = self.open_asks.remove(&call).and_then(|at| self.items.get_mut(at));
        if let Some(Item { kind: ItemKind::Approval { answer, .. }, .. }) = item {
            *answer = Some(from);
        }
    }
}

/// The kind of item an event makes by itself; none for events a transcript does not show.
fn kind_of(event: &ArenaEvent) -> Option<ItemKind> {
    use {ArenaEvent as E, ItemKind as K};
    Some(match event {
        E::PromptGiven(_) => K::Prompt,
        E::SteeringGiven(_) => K::Steering,
        E::InterruptRequested(_) => K::Interrupt,
        E::SettingsChanged(_) => K::Settings,
        E::ToolResolved(data) => K::ToolResult { tool_use: data.body.tool_use, status: data.body.status },
        E::ToolRefused(data) => K::Refused { tool_use: data.tool_use, reason: data.reason },
        E::ToolAnswered(data) => K::Answered { tool_use: data.tool_use },
        E::CallLost(data) => K::Lost { tool_use: data.tool_use },
        E::NoticeGiven(data) => K::Notice(data.notice),
        E::AnswerRejected(_) => K::Rejected,
        E::ApprovalRequested(data) => K::Approval { call: data.call, prepared: data.prepared, answer: None },
        E::MentionExpanded(_) => K::Mention,
        E::EffectFailed(data) if data.body.status == FailStatus::Failed => K::Undone,
        E::CheckRan(data) => K::Check { passed: data.body.exit == Some(0) },
        E::DiffTaken(_) => K::Diff,
        E::ModelFailed(data) => K::Failure(data.body.kind),
        E::ParamsDropped(_) => K::Dropped,
        E::FallbackTaken(_) => K::Fallback,
        E::LimitReached(data) => K::Limit(data.limit),
        E::ContextCompacted(_) => K::Compacted,
        E::PhaseShifted(_) => K::Phase,
        E::CacheHit(_) => K::CacheHit,
        E::SparkCompleted(data) => K::SparkEnd(data.cause),
        E::SessionPaused(data) => K::Paused(data.cause),
        E::SessionResumed(_) => K::Resumed,
        E::SessionForked(_) => K::Forked,
        E::TurnRewound(_) => K::Rewound,
        E::FaultRecovered(_) => K::Recovered,
        E::SessionSealed(data) => K::Sealed(data.cause),
        E::Unknown { .. } => K::Unknown,
        E::PlanStated(_) | E::CodeProposed(_) | E::CritiqueIssued(_) | E::FindingClosed(_) => K::Step,
        E::InsightSurfaced(_) | E::RoleFailed(_) | E::ClaimFlagged(_) => K::Step,
        E::BallotCast(_) | E::PropositionsStated(_) | E::RatingsCast(_) | E::BallotsRevealed(_) => K::Step,
        E::ConvergenceProbed(_) | E::DebateGated(_) | E::VerdictReached(_) | E::DissentRecorded(_) => K::Step,
        _ => return None,
    })
}

impl Item {
    /// The item's words, as recorded and not yet made safe for a terminal; none when it has none of its own or
    /// its event cannot be found.
    pub fn body<'a>(&self, lookup: Lookup<'a>) -> Option<Cow<'a, str>> {
        use ArenaEvent as E;
        let borrowed = |text: &'a str| Some(Cow::Borrowed(text));
        if let (ItemKind::CutAnswer, E::ModelFailed(data)) = (&self.kind, lookup(self.source)?) {
            return borrowed(&data.body.said);
        }
        if let (ItemKind::OtherModel, E::ModelAnswered(data)) = (&self.kind, lookup(self.source)?) {
            return Some(Cow::Owned(format!("answered by {}", data.body.model)));
        }
        if let ItemKind::Approval { prepared, .. } = self.kind {
            return borrowed(&lookup(prepared)?.plan()?.preview);
        }
        match lookup(self.source)? {
            E::ModelAnswered(data) => self.part_body(&data.body),
            E::ContextCompacted(data) => match lookup(data.summary)? {
                E::ModelAnswered(answer) => Some(Cow::Owned(answer.body.text())),
                _ => None,
            },
            E::PromptGiven(data) => borrowed(&data.text),
            E::SteeringGiven(data) => borrowed(&data.text),
            E::ToolResolved(data) => Some(data.body.words()),
            E::ToolRefused(data) => borrowed(&data.text),
            E::ToolAnswered(data) => inside::words(data, lookup).map(Cow::Owned),
            E::CallLost(data) => borrowed(&data.text),
            E::NoticeGiven(data) => borrowed(&data.text),
            E::AnswerRejected(data) => Some(Cow::Owned(data.errors.join("\n"))),
            E::MentionExpanded(data) => borrowed(&data.body.mention),
            E::EffectFailed(data) => borrowed(&data.body.error),
            E::CheckRan(data) => borrowed(&data.body.output),
            E::DiffTaken(data) => borrowed(&data.body.diff),
            E::ModelFailed(data) => borrowed(&data.body.message),
            E::ParamsDropped(data) => Some(Cow::Owned(phrases::dropped(data))),
            E::PhaseShifted(data) => borrowed(&data.to),
            E::TurnRewound(data) => Some(Cow::Owned(phrases::rewound(data))),
            E::CacheHit(data) => borrowed(&data.body.answer),
            E::Unknown { kind, .. } => borrowed(kind),
            _ => None,
        }
    }

    fn part_body<'a>(&self, reply: &'a ModelReply) -> Option<Cow<'a, str>> {
        let (ItemKind::Answer { part } | ItemKind::Thinking { part } | ItemKind::ToolCall { part, .. }) =
            self.kind
        else {
            return None;
        };
        match reply.message.get(usize::from(part))? {
            Part::Text { text } | Part::Reasoning { text, .. } => Some(Cow::Borrowed(text)),
            Part::Call { args: Args::Broken(text), .. } => Some(Cow::Borrowed(text)),
            Part::Call { args: Args::Json(value), .. } => Some(Cow::Owned(value.to_string())),
            _ => None,
        }
    }
}

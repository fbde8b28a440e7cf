//! What was said and done, as a list of references; holds no bodies and looks none up by itself.

use std::borrow::Cow;

use crate::protocol::command::StopCause;
use crate::protocol::event::{FailStatus, Family, ModelReply, PauseCause, ToolUse, TurnCause};
use crate::protocol::expand::Lookup;
use crate::protocol::message::{Args, Part};
use crate::protocol::{ArenaEvent, CallId, Entry, EventRef, SparkId};

use super::answering::Answering;
use super::calls::{OpenCalls, WorkClock};
use super::telling::Scene;

/// Items that are looked through for an ask that is answered: what was asked earlier is not shown with its answer.
const FARTHEST: usize = 4_096;

/// What an item of the transcript is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// A task was given.
    Prompt,
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
    /// What a model had said when its call failed.
    CutAnswer,
    /// Another model answered than the one that was asked.
    OtherModel,
    /// A tool call a model asks for.
    ToolCall {
        /// Part of the message.
        part: u16,
        /// The event that ended it: resolved, refused or lost; none while it is open.
        end: Option<EventRef>,
    },
    /// Somebody is asked.
    Approval {
        /// The ask.
        call: CallId,
        /// The `tool_prepared` with the preview.
        prepared: EventRef,
        /// The `approval_answered`; none while it is open.
        answer: Option<EventRef>,
    },
    /// A turn ended.
    End {
        /// Milliseconds it was at work.
        work_ms: u64,
    },
    /// The session was resumed.
    Resumed {
        /// What was under way, by its order, and how many calls more.
        left: Option<(EventRef, usize)>,
    },
    /// Whatever else its event says.
    Event,
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
    has_turn: bool,
}

impl Transcript {
    /// Folds one entry.
    pub fn apply(&mut self, entry: &Entry) {
        self.work.tick(entry, &self.calls);
        for (from, event) in entry.effective() {
            let item = |kind| Item { source: from, at: entry.at, spark: self.calls.spark_of(event), kind };
            let other = self.answering.apply(event).map(|_| item(ItemKind::OtherModel));
            let item = item(ItemKind::Event);
            self.items.extend(other);
            self.apply_event(item, event);
            self.calls.apply(entry.at, from, event);
        }
    }

    fn apply_event(&mut self, item: Item, event: &ArenaEvent) {
        use ArenaEvent as E;
        let mut push = |kind| self.items.push(Item { kind, ..item });
        match event {
            E::PromptGiven(_) => {
                push(ItemKind::Prompt);
                self.begun_us = self.work.us;
            }
            // That a conversation was summed up is one item; its words are for its model.
            E::ModelAnswered(data) if self.calls.get(data.call).is_some_and(|open| open.is_summary) => {}
            E::ModelAnswered(data) => self.answered(item, &data.body),
            E::ModelFailed(data) => {
                if !data.body.said.trim().is_empty() {
                    push(ItemKind::CutAnswer);
                }
                push(ItemKind::Event);
            }
            E::ApprovalRequested(data) => {
                push(ItemKind::Approval { call: data.call, prepared: data.prepared, answer: None });
            }
            E::ApprovalAnswered(data) => self.settle_ask(data.call, item.source),
            E::ToolResolved(_) | E::ToolRefused(_) | E::ToolAnswered(_) => {
                self.close_tool(event, item.source)
            }
            E::CallLost(data) if data.tool_use.is_some() => self.close_tool(event, item.source),
            E::SessionResumed(_) => push(ItemKind::Resumed { left: self.calls.under_way() }),
            E::TurnOpened(_) => self.has_turn = true,
            E::TurnClosed(_) => {
                self.has_turn = false;
                push(ItemKind::End { work_ms: self.work.us.saturating_sub(self.begun_us) / 1_000 });
            }
            // A copy of a session whose turn was over is left as well: nothing is paused in it.
            E::SessionPaused(data) if data.cause == PauseCause::Quit && !self.has_turn => {}
            event if is_item(event) => push(ItemKind::Event),
            _ => {}
        }
    }

    /// True when no tool call waits for its end.
    pub fn is_settled(&self) -> bool {
        !self.calls.has_open_tools()
    }

    /// Hands the items over and goes on without them; what is open stays without its end there.
    pub fn take_items(&mut self) -> Vec<Item> {
        std::mem::take(&mut self.items)
    }

    fn answered(&mut self, item: Item, reply: &ModelReply) {
        for (part, said) in (0u16..).zip(&reply.message) {
            let kind = match said {
                Part::Text { .. } => ItemKind::Answer { part },
                Part::Reasoning { .. } => ItemKind::Thinking { part },
                Part::Call { .. } => ItemKind::ToolCall { part, end: None },
                Part::Result { .. } | Part::Image(_) | Part::Opaque(_) | Part::Unknown(_) => continue,
            };
            self.items.push(Item { kind, ..item });
        }
    }

    /// Ties an end to the call it ends.
    fn close_tool(&mut self, event: &ArenaEvent, from: EventRef) {
        let Some(ToolUse { answer, part }) = event.tool_use() else { return };
        for item in self.items.iter_mut().rev().take_while(|item| item.source >= answer) {
            if let ItemKind::ToolCall { part: of, end: end @ None } = &mut item.kind
                && (item.source, *of) == (answer, part)
            {
                *end = Some(from);
            }
        }
    }

    fn settle_ask(&mut self, call: CallId, from: EventRef) {
        for item in self.items.iter_mut().rev().take(FARTHEST) {
            if let ItemKind::Approval { call: of, answer: answer @ None, .. } = &mut item.kind
                && *of == call
            {
                *answer = Some(from);
                return;
            }
        }
    }
}

/// True for an event that a transcript shows by itself: a good end needs no words, nor does it that nothing changed.
fn is_item(event: &ArenaEvent) -> bool {
    use ArenaEvent as E;
    match event {
        E::EffectFailed(data) => data.body.status == FailStatus::Failed,
        E::DiffTaken(data) => !data.body.files.is_empty(),
        // What a source offers, when that is something else than before.
        E::ToolsListed(data) => data.body.tools.is_some(),
        E::SparkCompleted(data) => !matches!(data.cause, TurnCause::Done | TurnCause::Interrupted),
        E::SessionSealed(data) => data.cause != StopCause::Finished,
        E::SteeringGiven(_) | E::InterruptRequested(_) | E::SettingsChanged(_) | E::TurnRewound(_) => true,
        E::SessionPaused(_) | E::SessionForked(_) | E::FaultRecovered(_) => true,
        E::SparkIgnited(data) => data.earlier_tokens.is_some(),
        E::NoticeGiven(_) | E::AnswerRejected(_) | E::MentionExpanded(_) | E::CheckRan(_) => true,
        E::BackgroundEnded(data) => !data.body.known,
        E::ParamsDropped(_) | E::FallbackTaken(_) | E::LimitReached(_) | E::ContextCompacted(_) => true,
        E::CallLost(_) | E::PhaseShifted(_) | E::CacheHit(_) | E::Unknown { .. } => true,
        // What was rated is in the answer.
        E::RoundOpened(_) | E::RatingsCast(_) => false,
        other => matches!(other.family(), Family::Squad | Family::Debate),
    }
}

impl Item {
    /// The item's words, as recorded and not yet made safe for a terminal; none when it has none of its own or
    /// its event cannot be found.
    pub fn body<'a>(&self, lookup: Lookup<'a>) -> Option<Cow<'a, str>> {
        use ArenaEvent as E;
        match (self.kind, lookup(self.source)?) {
            (ItemKind::Prompt, E::PromptGiven(data)) => Some(Cow::Borrowed(&data.text)),
            (ItemKind::CutAnswer, E::ModelFailed(data)) => Some(Cow::Borrowed(&data.body.said)),
            (ItemKind::OtherModel, E::ModelAnswered(data)) => {
                Some(Cow::Owned(format!("answered by {}", data.body.model)))
            }
            (_, E::ModelAnswered(data)) => self.part_body(&data.body),
            (ItemKind::Approval { prepared, .. }, _) => {
                Some(Cow::Borrowed(&lookup(prepared)?.plan()?.preview))
            }
            (_, event) => {
                let told = event.telling(&Scene::of(lookup));
                let texts =
                    told.iter().flat_map(|one| [one.line().into_owned(), one.rest().text().to_owned()]);
                let texts = texts.filter(|text| !text.is_empty());
                Some(Cow::Owned(texts.collect::<Vec<_>>().join("\n")))
            }
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

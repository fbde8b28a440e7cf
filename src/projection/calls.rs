//! Which calls are open, for whom and what they do, shared by the projections; orders and decides nothing.

use std::collections::BTreeMap;

use serde_json::Value;

use super::telling::orders;
use crate::protocol::call::OrderedCall;
use crate::protocol::effect::{BackgroundOrder, Order, TimerOrder, TimerPurpose};
use crate::protocol::event::{CacheHit, ModelReply, PrepareResult, Purpose, ToolPrepared, ToolUse};
use crate::protocol::inside::{InsideCall, Question};
use crate::protocol::message::{Args, Part};
use crate::protocol::{ArenaEvent, CallId, Entry, EventRef, SparkId};

/// The longest target kept, in characters; a view that wants more opens the call itself.
const TARGET_CHARS: usize = 200;

/// What applying a run of the team cache is called beside tools.
pub const PATCH: &str = "recorded run";

/// A tool call as people speak of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFace {
    /// The spark that asks; none when the answer's call was not seen.
    pub spark: Option<SparkId>,
    /// Tool name, as the model wrote it.
    pub tool: String,
    /// What it is about, one line: a command, a path, a pattern; empty when it is about nothing in particular.
    pub target: String,
    /// What agon answers itself.
    pub inside: Option<InsideCall>,
}

impl ToolFace {
    /// The tool and what it is about: `bash: sh check.sh`.
    pub fn words(&self) -> String {
        match self.target.as_str() {
            "" => self.tool.clone(),
            target => format!("{}: {target}", self.tool),
        }
    }
}

/// A question that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenQuestion<'a> {
    /// The call that an answer names.
    pub call: CallId,
    /// The spark that asks.
    pub spark: Option<SparkId>,
    /// The question.
    pub asked: &'a Question,
}

/// An approval that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenApproval {
    /// The ask, as `Command::Answer` names it.
    pub call: CallId,
    /// What an answer binds to.
    pub digest: String,
    /// The spark that wants it.
    pub spark: SparkId,
    /// The tool call.
    pub tool_use: ToolUse,
    /// Tool name.
    pub tool: String,
    /// What it is about, one line.
    pub target: String,
    /// The `tool_prepared` a person should look at, with the whole preview.
    pub prepared: EventRef,
    /// Time it was asked, microseconds since the Unix epoch.
    pub since: u64,
    /// The needs that leave the sandbox and that no rule names; `--yes` does not answer them.
    pub opens: Vec<String>,
}

/// A call that was ordered and has not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// The spark it is for; none for the session's own.
    pub spark: Option<SparkId>,
    /// The running attempt, from 1.
    pub attempt: u32,
    /// The event that ordered this attempt.
    pub ordered: EventRef,
    /// Microseconds since the Unix epoch when it was ordered.
    pub since: u64,
    /// What was ordered.
    pub order: Order,
    /// True once it was told to stop.
    pub cancelled: bool,
    /// True for a model call that sums up what was said before.
    pub is_summary: bool,
    /// Of an ask: the needs that leave the sandbox and that no rule names; `--yes` does not answer them.
    pub opens: Vec<String>,
}

impl OpenCall {
    /// True for what only a person answers.
    pub fn waits_for_people(&self) -> bool {
        matches!(self.order, Order::Ask(_) | Order::Question(_))
    }

    /// What a spark is said to do when it does several things: what a person can act on comes first.
    pub fn urgency(&self) -> u8 {
        match self.order {
            Order::Ask(_) | Order::Question(_) => 5,
            Order::Tool(_) | Order::Check(_) => 4,
            Order::Model(_) => 3,
            Order::Timer(_) if self.is_clock() => 0,
            Order::Timer(_) => 2,
            _ => 1,
        }
    }

    /// True for the turn's time limit: it ticks, and nobody is at work on it.
    pub fn is_clock(&self) -> bool {
        matches!(self.order, Order::Timer(TimerOrder { purpose: TimerPurpose::TurnLimit, .. }))
    }
}

/// How long somebody was at work: neither waiting for a person nor between two processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkClock {
    /// Microseconds so far.
    pub us: u64,
    last_at: Option<u64>,
}

impl WorkClock {
    /// Goes on to an entry that is not folded yet; `calls` are those that are open before it.
    pub fn tick(&mut self, entry: &Entry, calls: &OpenCalls) {
        if let Some(last) = self.last_at.filter(|_| !was_away(entry) && calls.is_working()) {
            self.us = self.us.saturating_add(entry.at.saturating_sub(last));
        }
        self.last_at = Some(entry.at);
    }
}

/// True for an entry before which no process was at work.
pub(super) fn was_away(entry: &Entry) -> bool {
    use ArenaEvent::{FaultRecovered, SessionForked, SessionResumed};
    matches!(entry.fact(), Some(FaultRecovered(_) | SessionResumed(_) | SessionForked(_)))
}

/// The open calls of a session, and the tool calls that have not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenCalls {
    calls: BTreeMap<CallId, OpenCall>,
    tools: BTreeMap<ToolUse, ToolFace>,
    /// The model call that failed last, with its spark: that it is repeated is decided in the same entry.
    failed: Option<(CallId, Option<SparkId>)>,
    /// The highest call ever ordered: at or below it, a call that is not open is over.
    highest: Option<CallId>,
}

impl OpenCalls {
    /// Folds one event and gives the call it ended, if it ended one.
    pub fn apply(&mut self, at: u64, from: EventRef, event: &ArenaEvent) -> Option<OpenCall> {
        use ArenaEvent as E;
        if let Some(ordered) = event.orders(from) {
            self.open(at, from, event, ordered);
        }
        match event {
            E::CallCancelled(data) => return self.cancel(data.call),
            E::ToolAnswered(data) => drop(self.tools.remove(&data.tool_use)),
            E::SessionForked(_) => self.calls.retain(|_, call| !matches!(call.order, Order::Ask(_))),
            E::ToolRefused(data) => drop(self.tools.remove(&data.tool_use)),
            E::CallLost(data) => {
                data.tool_use.map(|tool_use| self.tools.remove(&tool_use));
                return self.calls.remove(&data.call);
            }
            _ => return self.answer(from, event),
        }
        None
    }

    /// The open calls, by call.
    pub fn iter(&self) -> impl Iterator<Item = (CallId, &OpenCall)> {
        self.calls.iter().map(|(call, open)| (*call, open))
    }

    /// What is under way: the event that ordered the most telling call, and how many more are open.
    pub fn under_way(&self) -> Option<(EventRef, usize)> {
        let open = || self.calls.values().filter(|open| !open.is_clock());
        open().max_by_key(|open| open.urgency()).map(|most| (most.ordered, open().count() - 1))
    }

    /// True while anything is done: a question, a call that asks for a connection and the turn's clock only wait.
    pub fn is_working(&self) -> bool {
        let asks = |tool_use: ToolUse| {
            let of = |open: &OpenCall| matches!(&open.order, Order::Ask(ask) if ask.tool_use == tool_use);
            self.calls.values().any(of)
        };
        let waits = |open: &OpenCall| match &open.order {
            Order::Tool(call) => asks(call.tool_use),
            Order::Background(_) => true,
            _ => open.waits_for_people() || open.is_clock(),
        };
        self.calls.values().any(|open| !waits(open))
    }

    /// The questions that wait for an answer, the oldest first.
    pub fn questions(&self) -> impl Iterator<Item = OpenQuestion<'_>> {
        self.calls.iter().filter_map(|(call, open)| match &open.order {
            Order::Question(order) => match &self.tools.get(&order.tool_use)?.inside {
                Some(InsideCall::AskUser(asked)) => {
                    Some(OpenQuestion { call: *call, spark: open.spark, asked })
                }
                _ => None,
            },
            _ => None,
        })
    }

    /// The commands that run in the background, each with its call, the oldest first.
    pub fn background(&self) -> impl Iterator<Item = (CallId, &BackgroundOrder)> {
        self.calls.iter().filter_map(|(call, open)| match &open.order {
            Order::Background(order) => Some((*call, order)),
            _ => None,
        })
    }

    /// The approvals that wait for an answer, the oldest first.
    pub fn approvals(&self) -> impl Iterator<Item = OpenApproval> {
        self.calls.iter().filter_map(|(call, open)| match (&open.order, open.spark) {
            (Order::Ask(ask), Some(spark)) => {
                let face = self.tools.get(&ask.tool_use);
                Some(OpenApproval {
                    call: *call,
                    digest: ask.digest.clone(),
                    spark,
                    tool_use: ask.tool_use,
                    tool: face.map(|face| face.tool.clone()).unwrap_or_default(),
                    target: face.map(|face| face.target.clone()).unwrap_or_default(),
                    prepared: ask.prepared,
                    since: open.since,
                    opens: open.opens.clone(),
                })
            }
            _ => None,
        })
    }

    /// True while a tool call or a question to a person has not ended.
    pub fn has_open_tools(&self) -> bool {
        !self.tools.is_empty()
    }

    /// An open call.
    pub fn get(&self, call: CallId) -> Option<&OpenCall> {
        self.calls.get(&call)
    }

    /// The spark of a failed model call that may be repeated.
    pub fn failed_for(&self, call: CallId) -> Option<SparkId> {
        self.failed.filter(|(failed, _)| *failed == call).and_then(|(_, spark)| spark)
    }

    /// The spark an event is of: its own, else that of the tool call or the call it speaks of. Asked before the event is
    /// folded, which may end that call.
    pub fn spark_of(&self, event: &ArenaEvent) -> Option<SparkId> {
        let of_use = || self.tools.get(&event.tool_use()?)?.spark;
        let of_call = || {
            let call = event.call()?;
            self.calls.get(&call).and_then(|open| open.spark).or_else(|| self.failed_for(call))
        };
        event.spark().or_else(of_use).or_else(of_call)
    }

    /// A tool call that has not ended.
    pub fn tool(&self, tool_use: ToolUse) -> Option<&ToolFace> {
        self.tools.get(&tool_use)
    }

    /// True when the call was ordered before and is over.
    pub fn is_closed(&self, call: CallId) -> bool {
        self.highest.is_some_and(|highest| call <= highest) && !self.calls.contains_key(&call)
    }

    /// An open call in words: `thinking`, `running bash: sh check.sh`, `waiting for approval of …`.
    pub fn say(&self, open: &OpenCall) -> String {
        let tool = |id| self.tool(id).map_or_else(|| "a tool".to_owned(), ToolFace::words);
        let said = match &open.order {
            Order::Model(_) if open.is_summary => "summarising the conversation".to_owned(),
            Order::Model(_) if open.attempt > 1 => format!("thinking (attempt {})", open.attempt),
            order => orders::doing(order, &tool),
        };
        if open.cancelled { format!("stopping: {said}") } else { said }
    }

    fn open(&mut self, since: u64, from: EventRef, event: &ArenaEvent, ordered: OrderedCall) {
        let OrderedCall { call, attempt, spark, order } = ordered;
        let spark = match event {
            ArenaEvent::RetryScheduled(data) => self.failed_for(data.call),
            _ => spark,
        };
        if let Order::Prepare(again) = &order {
            // After a resume a call that ran is looked at again.
            self.calls
                .retain(|_, open| !matches!(&open.order, Order::Tool(ran) if ran.tool_use == again.tool_use));
        }
        self.highest = self.highest.max(Some(call));
        let is_summary = matches!(event, ArenaEvent::ModelCalled(data) if data.purpose == Purpose::Compact);
        let opens = match event {
            ArenaEvent::ApprovalRequested(data) => data.opens.clone(),
            _ => Vec::new(),
        };
        let open =
            OpenCall { spark, attempt, ordered: from, since, order, cancelled: false, is_summary, opens };
        self.calls.insert(call, open);
    }

    /// An ask or a timer ends with its cancellation; anything else still owes its outcome.
    fn cancel(&mut self, call: CallId) -> Option<OpenCall> {
        let open = self.calls.get_mut(&call)?;
        match open.order {
            Order::Ask(_) | Order::Question(_) | Order::Gate(_) | Order::Timer(_) => self.calls.remove(&call),
            _ => {
                open.cancelled = true;
                None
            }
        }
    }

    fn answer(&mut self, from: EventRef, event: &ArenaEvent) -> Option<OpenCall> {
        use ArenaEvent as E;
        let call = event.ends()?;
        let closed = self.calls.remove(&call);
        match event {
            E::ModelAnswered(data) => {
                self.name_tools(from, closed.as_ref().and_then(|open| open.spark), &data.body);
            }
            E::ModelFailed(_) => {
                self.failed = Some((call, closed.as_ref().and_then(|open| open.spark)));
            }
            E::ToolPrepared(data) => self.refine_target(&data.body),
            E::CacheHit(data) => self.name_patch(from, closed.as_ref(), &data.body),
            E::PatchApplied(_) | E::PatchRefused(_) => self.tools.retain(|_, face| face.tool != PATCH),
            E::ToolResolved(data) => drop(self.tools.remove(&data.body.tool_use)),
            _ => {}
        }
        closed
    }

    fn name_tools(&mut self, from: EventRef, spark: Option<SparkId>, reply: &ModelReply) {
        for (part, asked) in (0u16..).zip(&reply.message) {
            if let Part::Call { name, args, .. } = asked {
                let inside = InsideCall::named(name, args);
                let target = match &inside {
                    Some(InsideCall::Todo(list)) => list.words(),
                    _ => target(args),
                };
                let face = ToolFace { spark, tool: name.clone(), target, inside };
                self.tools.insert(ToolUse { answer: from, part }, face);
            }
        }
    }

    /// Applying a recorded run is asked about like a tool call.
    fn name_patch(&mut self, from: EventRef, looked_up: Option<&OpenCall>, hit: &CacheHit) {
        let mut paths = hit.plan.paths();
        let target = match (paths.next(), paths.next()) {
            (Some(only), None) => one_line(&only.path),
            _ => format!("{} files", hit.plan.paths().count()),
        };
        let spark = looked_up.and_then(|open| open.spark);
        let face = ToolFace { spark, tool: PATCH.to_owned(), target, inside: None };
        self.tools.insert(ToolUse { answer: from, part: 0 }, face);
    }

    /// Once prepared, the exact command or path is known.
    fn refine_target(&mut self, prepared: &ToolPrepared) {
        let PrepareResult::Ready(plan) = &prepared.result else { return };
        let Some(face) = self.tools.get_mut(&prepared.tool_use) else { return };
        let mut paths = plan.paths();
        if let Some(command) = plan.command() {
            face.target = one_line(command);
        } else if let (Some(only), None) = (paths.next(), paths.next()) {
            face.target = one_line(&only.path);
        }
    }
}

/// What a tool call is about, from its arguments alone: the best known argument, else the first text.
pub fn target(args: &Args) -> String {
    const TELLING: [&str; 8] = ["command", "path", "file", "pattern", "query", "url", "task", "name"];
    let text = match args {
        Args::Broken(text) => Some(text.as_str()),
        Args::Json(Value::Object(map)) => TELLING
            .iter()
            .find_map(|key| map.get(*key).and_then(Value::as_str))
            .or_else(|| map.values().find_map(Value::as_str)),
        Args::Json(_) | Args::Unknown(_) => None,
    };
    text.map(one_line).unwrap_or_default()
}

/// The first line, cut where it is too long for a row; `…` stands for what is left out.
fn one_line(text: &str) -> String {
    let text = text.trim();
    let first = text.lines().next().unwrap_or_default().trim_end();
    let end = first.char_indices().nth(TARGET_CHARS).map_or(first.len(), |(at, _)| at);
    let cut = end < text.len();
    format!("{}{}", &first[..end], if cut { " …" } else { "" })
}

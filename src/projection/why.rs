//! Why something happened: for each event its causes, for each tool call who allowed it; judges nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::call::OrderedCall;
use crate::protocol::effect::Order;
use crate::protocol::event::{CacheStep, RefusalReason, ToolStatus, ToolUse};
use crate::protocol::spec::Action;
use crate::protocol::{ArenaEvent, CallId, Entry, EventRef};

/// How one event brought about another, the more telling the later in this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// A decision drawn from this fact.
    DrawnFrom,
    /// The outcome of what this event ordered.
    OrderedBy,
    /// About the tool call this answer asked for.
    AskedBy,
    /// About what this event found out.
    Prepared,
    /// What the policy said.
    Judged,
    /// Somebody was asked.
    Requested,
    /// Somebody answered.
    Answered,
    /// The call was run.
    Invoked,
    /// A decision that names this event as its source or reason.
    Names,
}

/// One cause of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// The event that has the cause.
    pub of: EventRef,
    /// The cause.
    pub from: EventRef,
    /// How.
    pub link: Link,
}

/// The life of one tool call: each step names the event that holds its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// What it would do was found out; the last time, when that happened again.
    pub prepared: Option<EventRef>,
    /// What the policy said, each time: event, action, name of the rule.
    pub judged: Vec<(EventRef, Action, String)>,
    /// Somebody was asked; the last time.
    pub requested: Option<EventRef>,
    /// Somebody answered: event, who.
    pub answered: Option<(EventRef, String)>,
    /// It was started; each attempt.
    pub invoked: Vec<EventRef>,
    /// How it ended.
    pub end: Option<(EventRef, AuditEnd)>,
}

/// How a tool call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditEnd {
    /// It ran.
    Resolved(ToolStatus),
    /// It was not run.
    Refused(RefusalReason),
    /// Agon answered it itself.
    Answered,
    /// Nobody knows.
    Lost,
}

/// The causes of all events of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    causes: BTreeMap<EventRef, Vec<(Link, EventRef)>>,
    audits: BTreeMap<ToolUse, Audit>,
    /// The event that last ordered each open call, and the tool call that an ask is about.
    orders: BTreeMap<CallId, (EventRef, Option<ToolUse>)>,
    /// The recorded run that was found last: using it is judged like a tool call.
    hit: Option<EventRef>,
}

impl Reasons {
    /// Folds one entry. A void fact and what was said to it have no causes here.
    pub fn apply(&mut self, entry: &Entry) {
        let fact = EventRef::fact(entry.seq);
        for (from, event) in entry.effective() {
            if from != fact && !entry.is_void() {
                self.cause(from, Link::DrawnFrom, fact);
            }
            let ended = event.ends().and_then(|call| self.orders.get(&call)).copied();
            if let Some((order, _)) = ended {
                self.cause(from, Link::OrderedBy, order);
            }
            // Decisions that hold a reference name their reason themselves.
            event.cites().into_iter().for_each(|source| self.cause(from, Link::Names, source));
            self.audit_event(from, event, ended.and_then(|(_, asked)| asked));
            self.remember_order(from, event);
        }
    }

    /// The direct causes of an event, oldest first; where two links lead to one cause, the more telling one.
    pub fn direct(&self, of: EventRef) -> Vec<Cause> {
        let links = self.causes.get(&of).map(Vec::as_slice).unwrap_or_default();
        let mut causes: Vec<_> =
            links.iter().map(|(link, from)| Cause { of, from: *from, link: *link }).collect();
        causes.sort_by_key(|cause| (cause.from, std::cmp::Reverse(cause.link)));
        causes.dedup_by_key(|cause| cause.from);
        causes
    }

    /// Everything that led to an event, oldest cause first, each pair once; at most `max` rows, the nearest ones.
    pub fn chain(&self, of: EventRef, max: usize) -> Vec<Cause> {
        let mut seen = BTreeSet::from([of]);
        let mut next = std::collections::VecDeque::from([of]);
        let mut rows = Vec::new();
        while let Some(event) = next.pop_front() {
            for cause in self.direct(event) {
                if rows.len() == max {
                    break;
                }
                rows.push(cause);
                if seen.insert(cause.from) {
                    next.push_back(cause.from);
                }
            }
        }
        rows.sort_by_key(|cause| (cause.from, cause.of));
        rows
    }

    /// The life of a tool call.
    pub fn audit(&self, tool_use: ToolUse) -> Option<&Audit> {
        self.audits.get(&tool_use)
    }

    /// All tool calls with their lives, in the order they were asked for.
    pub fn audits(&self) -> impl Iterator<Item = (ToolUse, &Audit)> {
        self.audits.iter().map(|(tool_use, audit)| (*tool_use, audit))
    }

    fn cause(&mut self, of: EventRef, link: Link, from: EventRef) {
        let links = self.causes.entry(of).or_default();
        if from != of && !links.contains(&(link, from)) {
            links.push((link, from));
        }
    }

    fn remember_order(&mut self, from: EventRef, event: &ArenaEvent) {
        match event.orders(from) {
            Some(OrderedCall { call, order: Order::Ask(ask), .. }) => {
                self.orders.insert(call, (from, Some(ask.tool_use)))
            }
            Some(ordered) => self.orders.insert(ordered.call, (from, None)),
            None => event.ends().and_then(|call| self.orders.remove(&call)),
        };
    }

    /// `asked`: the tool call that a person was asked about, of an answer.
    fn audit_event(&mut self, from: EventRef, event: &ArenaEvent, asked: Option<ToolUse>) {
        use ArenaEvent as E;
        match event {
            E::ToolPrepared(data) => self.step(from, data.body.tool_use, |audit| audit.prepared = Some(from)),
            E::PolicyDecided(data) => self.step(from, data.tool_use, |audit| {
                audit.judged.push((from, data.action, data.rule.clone()));
            }),
            E::ApprovalRequested(data) => self.step(from, data.tool_use, |audit| {
                audit.requested = Some(from);
                audit.answered = None;
            }),
            E::ApprovalAnswered(data) => {
                if let Some(tool_use) = asked {
                    self.step(from, tool_use, |audit| audit.answered = Some((from, data.by.clone())));
                }
            }
            E::GateAnswered(data) => self.step(from, data.body.tool_use, |audit| {
                let (verdict, gate) = (data.body.verdict.action(), format!("gate {}", data.body.gate));
                audit.judged.push((from, verdict, gate));
            }),
            E::HostJudged(data) => self.step(from, data.tool_use, |audit| {
                audit.judged.push((from, data.action, data.rule.clone()));
            }),
            E::ToolInvoked(data) => self.step(from, data.tool_use, |audit| audit.invoked.push(from)),
            E::ToolResolved(data) => {
                self.end(from, data.body.tool_use, AuditEnd::Resolved(data.body.status));
            }
            E::ToolRefused(data) => self.end(from, data.tool_use, AuditEnd::Refused(data.reason)),
            E::ToolAnswered(data) => self.end(from, data.tool_use, AuditEnd::Answered),
            E::CacheHit(_) => self.hit = Some(from),
            E::PatchApplied(_) => self.end_hit(from, ToolStatus::Ok),
            E::PatchRefused(_) => self.end_hit(from, ToolStatus::Failed),
            E::CacheSkipped(data) if data.step == CacheStep::Use => self.end_hit(from, ToolStatus::Failed),
            E::CallLost(data) => {
                if let Some(tool_use) = data.tool_use {
                    self.end(from, tool_use, AuditEnd::Lost);
                }
            }
            _ => {}
        }
    }

    fn end_hit(&mut self, from: EventRef, status: ToolStatus) {
        let tool_use = self.hit.map(|answer| ToolUse { answer, part: 0 });
        if let Some(tool_use) = tool_use.filter(|tool_use| self.audits.contains_key(tool_use)) {
            self.end(from, tool_use, AuditEnd::Resolved(status));
        }
    }

    fn end(&mut self, from: EventRef, tool_use: ToolUse, end: AuditEnd) {
        self.step(from, tool_use, |audit| audit.end = Some((from, end)));
    }

    /// One step of a tool call: caused by the answer that asked and by every step before it.
    fn step(&mut self, from: EventRef, tool_use: ToolUse, change: impl FnOnce(&mut Audit)) {
        let audit = self.audits.entry(tool_use).or_default();
        let mut before = vec![(Link::AskedBy, tool_use.answer)];
        before.extend(audit.prepared.map(|event| (Link::Prepared, event)));
        before.extend(audit.judged.last().map(|(event, ..)| (Link::Judged, *event)));
        before.extend(audit.requested.map(|event| (Link::Requested, event)));
        before.extend(audit.answered.as_ref().map(|(event, _)| (Link::Answered, *event)));
        before.extend(audit.invoked.last().map(|event| (Link::Invoked, *event)));
        change(audit);
        for (link, event) in before {
            self.cause(from, link, event);
        }
    }
}

//! The pure state machine that decides: facts in, entries out; knows no clock, file, socket or thread.

mod accounts;
mod asked_how;
mod background;
pub mod budget;
mod chat;
mod connections;
mod context;
pub mod convergence;
mod conversation;
pub mod debate;
mod decide;
mod delegate;
mod endings;
mod fold;
mod free_text;
mod gates;
mod inside;
pub mod mention;
mod mode;
mod model;
mod output_limit;
pub mod policy;
mod resume;
mod retry;
mod rewind;
mod shown;
mod solo;
mod sources;
pub mod squad;
pub mod state;
mod tool_calls;
mod validate;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::protocol::effect::{Effect, Order, PreparedUse};
use crate::protocol::event::{ArenaEvent, ToolUse};
use crate::protocol::message::{Args, Part};
use crate::protocol::spec::Spec;
use crate::protocol::{CallId, Entry, EventRef, Input, SparkId, StopCause};

use budget::Ledger;
use convergence::Scorers;
use debate::Debate;
use state::{Call, Checkpoints, Spark, TextLocations, Turn};

/// A session: everything decided so far, folded, and what is still being waited for.
///
/// [`Session::handle`] decides and applies; [`Session::apply`] only folds. Both change state through the
/// same fold of single events, so a log that was written is a log that loads.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Session id; empty before `session_opened`.
    id: String,
    /// The spec with every later setting applied.
    spec: Option<Arc<Spec>>,
    /// Where persona texts and tool definitions stand in the log.
    places: TextLocations,
    /// Seq of the next entry.
    next_seq: u64,
    /// Number of the next call.
    next_call: u64,
    /// Number of the next spark.
    next_spark: u32,
    /// Turns so far.
    turns: u32,
    /// How the last closed turn ended.
    last_turn: Option<crate::protocol::event::TurnClosed>,
    /// The open turn.
    turn: Option<Turn>,
    /// The squad of the open turn, when it is one's.
    squad: Option<squad::state::Squad>,
    /// Sparks of the open turn, and the last solo spark, whose conversation goes on.
    sparks: BTreeMap<SparkId, Spark>,
    /// Ordered, unanswered calls.
    calls: BTreeMap<CallId, Call>,
    /// The model call that failed last, until it is decided whether it will be repeated.
    failed: Option<(CallId, Call)>,
    /// Tokens and money.
    ledger: Ledger,
    /// Rules granted by people for the rest of this session.
    grants: Vec<policy::Grant>,
    /// The workspace's recorded trees.
    checkpoints: Checkpoints,
    /// The entry that made this session a copy; the last of them where it gave a fact anew.
    forked: Option<u64>,
    /// Where the sessions it is a copy of worked, the first one first.
    former_roots: Vec<String>,
    /// True while the words of the open turn may be a stranger's: the log was not begun here.
    foreign_words: bool,
    /// Why the session is being stopped.
    stopping: Option<StopCause>,
    /// Why it was sealed.
    sealed: Option<StopCause>,
    /// The conversations before each of the last prompts and rewinds.
    rewinds: rewind::Rewinds,
    /// Entries whose words a request may still need.
    kept: BTreeMap<u64, Arc<Entry>>,
    /// The debate of the open turn.
    debate: Option<Debate>,
    /// How debates are scored.
    scorers: Scorers,
    /// Models that kept to the form of a typed answer.
    formed: BTreeSet<String>,
    /// What could show that checks pass.
    last_proof: free_text::LastProof,
    /// Ends of commands in the background that no spark was told of.
    ended: Vec<String>,
    /// Events of the entry being made.
    open: Vec<ArenaEvent>,
}

/// An ordered call that is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ordered {
    /// The call.
    pub call: CallId,
    /// Its attempt, from 1.
    pub attempt: u32,
    /// The spark it is for.
    pub spark: Option<SparkId>,
    /// True when it was told to stop and only its end is awaited.
    pub cancelled: bool,
}

/// An entry that does not follow what was folded before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry {got} does not follow; the next is {expected}")]
pub struct OutOfOrder {
    /// The seq that would follow.
    pub expected: u64,
    /// The seq that came.
    pub got: u64,
}

impl Session {
    /// A session before its first fact.
    pub fn new() -> Self {
        Session { next_call: 1, next_spark: 1, ..Session::default() }
    }

    /// The same with scorers of its own beside the built-in ones. A log whose debates name one of them is
    /// resumed and verified with the same function under the same name.
    #[must_use]
    pub fn with_scorers(mut self, scorers: Scorers) -> Self {
        self.scorers = scorers;
        self
    }

    /// Folds a whole log.
    pub fn fold<'a>(entries: impl IntoIterator<Item = &'a Arc<Entry>>) -> Result<Self, OutOfOrder> {
        let mut session = Session::new();
        for entry in entries {
            session.apply(entry)?;
        }
        Ok(session)
    }

    /// Takes a fact, decides what follows from it, and gives the entry to be written.
    pub fn handle(&mut self, input: Input) -> Arc<Entry> {
        let Input { at, fact } = input;
        let fact = fact.into_event();
        match self.admit(&fact) {
            Ok(()) => {
                let due = self.due(&fact);
                self.emit(fact);
                self.decide(due);
                self.end_if_nothing_is_awaited();
            }
            Err(void) => self.open.extend([fact, void.into_event()]),
        }
        let entry = Arc::new(Entry::made(self.next_seq, at, std::mem::take(&mut self.open)));
        self.keep(&entry);
        entry
    }

    /// Folds one recorded entry. Never decides.
    pub fn apply(&mut self, entry: &Arc<Entry>) -> Result<(), OutOfOrder> {
        if entry.seq != self.next_seq {
            return Err(OutOfOrder { expected: self.next_seq, got: entry.seq });
        }
        self.kept.insert(entry.seq, Arc::clone(entry));
        for (at, event) in entry.effective() {
            self.apply_event(at, event);
        }
        self.keep(entry);
        Ok(())
    }

    /// Every ordered call without an answer, in the order of their numbers.
    pub fn outstanding(&self) -> Vec<Ordered> {
        self.calls.keys().filter_map(|call| self.ordered(*call)).collect()
    }

    /// One outstanding call.
    pub fn ordered(&self, call: CallId) -> Option<Ordered> {
        let open = self.calls.get(&call).filter(|open| !open.is_waiting())?;
        Some(Ordered { call, attempt: open.attempt, spark: open.spark, cancelled: open.cancelled })
    }

    /// Session id; empty before it was opened.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The spec with every later setting applied; none before `session_opened`.
    pub fn spec(&self) -> Option<&Spec> {
        self.spec.as_deref()
    }

    /// Seq of the next entry.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// True while a turn is open.
    pub fn has_open_turn(&self) -> bool {
        self.turn.is_some()
    }

    /// How the last closed turn ended.
    pub fn last_turn(&self) -> Option<&crate::protocol::event::TurnClosed> {
        self.last_turn.as_ref()
    }

    /// Why the session was sealed, if it is.
    pub fn sealed(&self) -> Option<StopCause> {
        self.sealed
    }

    /// The last recorded tree of the workspace.
    pub fn tree(&self) -> Option<&str> {
        self.checkpoints.tree.as_deref()
    }

    /// True when the last recorded tree is what the workspace holds, as far as this session knows.
    pub fn is_recorded(&self) -> bool {
        self.checkpoints.fresh && self.checkpoints.pending.is_none()
    }

    /// True when something of this session may have changed the workspace since its tree was recorded last.
    pub fn has_touched(&self) -> bool {
        self.checkpoints.touched
    }

    /// Names of the tools that run now and may be changing the workspace.
    pub fn changing(&self) -> impl Iterator<Item = &str> {
        let uses = self.sparks.values().flat_map(|spark| &spark.uses);
        uses.filter(|one| one.may_change() && matches!(one.state, state::UseState::Running(_)))
            .map(|one| one.tool.as_str())
    }

    /// True when what is waited for cannot come without a person: only asks and questions, and timers next to them. Where
    /// `--yes` was given, only what it does not answer.
    pub fn waits_for_people(&self, says_yes: bool) -> bool {
        let asks = |call: &Call| match &call.order {
            Order::Ask(ask) => {
                let opens = |spark| !self.opened_by(spark, ask.tool_use, ask.prepared).is_empty();
                !says_yes || call.spark.is_some_and(opens)
            }
            Order::Question(_) => true,
            _ => false,
        };
        let timers = |call: &Call| matches!(call.order, Order::Timer(_) | Order::Background(_));
        self.calls.values().any(asks) && self.calls.values().all(|call| asks(call) || timers(call))
    }

    /// Open asks: the call and the digest an answer must carry.
    pub fn open_asks(&self) -> Vec<(CallId, String)> {
        self.calls
            .iter()
            .filter_map(|(id, call)| match &call.order {
                Order::Ask(PreparedUse { digest, .. }) if !call.cancelled => Some((*id, digest.clone())),
                _ => None,
            })
            .collect()
    }

    /// An event by reference, if this session still holds it.
    pub fn event(&self, at: EventRef) -> Option<&ArenaEvent> {
        match self.kept.get(&at.seq) {
            Some(entry) => entry.events.get(usize::from(at.i)),
            None if at.seq == self.next_seq => self.open.get(usize::from(at.i)),
            None => None,
        }
    }

    /// The digest of an outstanding model call as recorded, and as it would be made now.
    pub fn request_digests(&self, call: CallId) -> Option<(String, String)> {
        let Effect::Model { order, context } = self.effect(call)? else { return None };
        let ArenaEvent::ModelCalled(called) = self.event(order.called)? else { return None };
        Some((called.digest.clone(), context.request.digest()))
    }

    fn emit(&mut self, event: ArenaEvent) -> EventRef {
        let i = u16::try_from(self.open.len()).unwrap_or(u16::MAX);
        let at = EventRef { seq: self.next_seq, i };
        self.apply_event(at, &event);
        self.open.push(event);
        at
    }

    fn new_call(&self) -> CallId {
        CallId(self.next_call)
    }

    /// Name and arguments of a tool call as the model wrote them.
    fn asked(&self, tool_use: ToolUse) -> Option<(&str, &Args)> {
        let ArenaEvent::ModelAnswered(answer) = self.event(tool_use.answer)? else { return None };
        match answer.body.message.get(usize::from(tool_use.part))? {
            Part::Call { name, args, .. } => Some((name, args)),
            _ => None,
        }
    }

    /// The plan of a prepared call.
    fn plan(&self, prepared: EventRef) -> Option<&crate::protocol::event::Plan> {
        self.event(prepared)?.plan()
    }

    fn keep(&mut self, entry: &Arc<Entry>) {
        self.kept.insert(entry.seq, Arc::clone(entry));
        self.next_seq = entry.seq + 1;
        let ends =
            |event: &ArenaEvent| matches!(event, ArenaEvent::TurnClosed(_) | ArenaEvent::ContextCompacted(_));
        if entry.events.iter().any(ends) {
            self.forget();
        }
    }

    /// Drops entries that no request and no open call can need any more, so that memory follows the
    /// context window and not the length of the log.
    fn forget(&mut self) {
        let mut needed: std::collections::BTreeSet<u64> = self.places.seqs().collect();
        for spark in self.sparks.values() {
            needed.extend(spark.seqs());
        }
        for call in self.calls.values() {
            needed.extend(call.seqs());
        }
        let said = self.turn.iter().flat_map(Turn::asked);
        needed.extend(said.map(|at| at.seq));
        needed.extend(self.squad.iter().flat_map(|squad| squad.seqs()));
        needed.extend(self.debate.iter().flat_map(Debate::seqs));
        needed.extend(self.rewinds.seqs());
        let wordy: Vec<u64> = needed.iter().copied().collect();
        for seq in wordy {
            if let Some(entry) = self.kept.get(&seq) {
                needed.extend(entry.events.iter().flat_map(state::cited_seqs));
            }
        }
        self.kept.retain(|seq, _| needed.contains(seq));
    }
}

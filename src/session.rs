//! The pure state machine that decides: facts in, entries out; knows no clock, file, socket or thread.

pub mod budget;
mod context;
pub mod convergence;
pub mod debate;
mod decide;
mod endings;
mod fold;
pub mod mention;
mod mode;
mod model;
mod output_limit;
pub mod policy;
mod resume;
mod solo;
pub mod squad;
pub mod state;
mod tool_calls;
mod validate;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::protocol::effect::{Effect, EffectOrder, FinishedRun, ToolCall};
use crate::protocol::event::{ArenaEvent, PathBase, ToolUse, TurnCause};
use crate::protocol::expand::expand_parts;
use crate::protocol::message::{Args, Part};
use crate::protocol::spec::{Risk, Rule, Spec};
use crate::protocol::{CallId, Entry, EventRef, Input, SparkId, StopCause};

use budget::Ledger;
use convergence::Scorers;
use debate::Debate;
use state::{Call, CallKind, Checkpoints, Spark, TextLocations, Turn};

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
    grants: Vec<Rule>,
    /// The workspace's recorded trees.
    checkpoints: Checkpoints,
    /// The entry that made this session a copy; the last of them where it gave a fact anew.
    forked: Option<u64>,
    /// Where the sessions it is a copy of worked, the first one first.
    former_roots: Vec<String>,
    /// Why the session is being stopped.
    stopping: Option<StopCause>,
    /// Why it was sealed.
    sealed: Option<StopCause>,
    /// Entries whose words a request may still need.
    kept: BTreeMap<u64, Arc<Entry>>,
    /// The debate of the open turn.
    debate: Option<Debate>,
    /// How debates are scored.
    scorers: Scorers,
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

    /// The whole effect of an outstanding call, or none when it is not outstanding.
    pub fn effect(&self, call: CallId) -> Option<Effect> {
        let spec = self.spec.as_ref()?;
        let call = self.calls.get(&call).filter(|call| !call.is_waiting())?;
        Some(match &call.kind {
            CallKind::Model { called, parts, .. } => {
                let ArenaEvent::ModelCalled(called) = self.event(*called)? else { return None };
                let mut request = expand_parts(called, parts, &|at| self.event(at)).ok()?;
                request.spark = self.sparks.get(&called.spark).map(|s| s.role.clone()).unwrap_or_default();
                Effect::Model { request, timeout_ms: spec.limits.model_timeout_ms }
            }
            CallKind::Tool { tool_use, digest, .. } => {
                Effect::Tool { call: self.tool_call(call.spark?, *tool_use)?, digest: digest.clone() }
            }
            CallKind::Ask { tool_use, digest, .. } => {
                Effect::Ask { tool_use: *tool_use, digest: digest.clone() }
            }
            CallKind::Effect(order) => self.ordered_effect(call, order)?,
        })
    }

    fn ordered_effect(&self, call: &Call, order: &EffectOrder) -> Option<Effect> {
        let spec = self.spec.as_ref()?;
        Some(match order {
            EffectOrder::Prepare { tool_use } => Effect::Prepare(self.tool_call(call.spark?, *tool_use)?),
            EffectOrder::Timer { ms, .. } => Effect::Timer { ms: *ms },
            EffectOrder::Check { command } => {
                Effect::Check { command: command.clone(), timeout_ms: spec.limits.tool_timeout_ms }
            }
            EffectOrder::Mention { place } => {
                Effect::Mention { place: place.clone(), denied: policy::denied_to_reader(&spec.policy) }
            }
            EffectOrder::Fingerprint => Effect::Fingerprint,
            EffectOrder::Checkpoint => Effect::Checkpoint,
            EffectOrder::Diff { from, written } => {
                Effect::Diff { from: from.clone(), written: written.clone() }
            }
            EffectOrder::CacheGet { key } => Effect::CacheGet { key: key.clone() },
            EffectOrder::CachePut { key, before, after, git, answer, cause } => Effect::CachePut {
                key: key.clone(),
                before: before.clone(),
                after: after.clone(),
                git: git.clone(),
                trees: self.squad.as_ref()?.cache.trees.iter().cloned().collect(),
                held: self.squad.as_ref()?.cache.held(),
                run: self.finished_run(*answer, *cause)?,
            },
            EffectOrder::Patch { key, digest } => Effect::Patch { key: key.clone(), digest: digest.clone() },
        })
    }

    /// What the open turn came to, for the team cache.
    fn finished_run(&self, answer: EventRef, cause: TurnCause) -> Option<FinishedRun> {
        let ArenaEvent::ModelAnswered(answered) = self.event(answer)? else { return None };
        let turn = self.turn.as_ref()?;
        let (tokens, micro_usd) = turn.spent_before;
        let squad = self.squad.as_ref();
        let sparks = squad.iter().flat_map(|squad| squad.roles.iter().filter_map(|role| role.spark));
        let models: std::collections::BTreeSet<String> =
            sparks.filter_map(|id| self.sparks.get(&id)).map(|spark| spark.model.clone()).collect();
        Some(FinishedRun {
            session: self.id.clone(),
            request: self.asked_for(),
            answer: answered.body.text(),
            cause,
            calls: turn.steps,
            tokens: self.ledger.tokens.saturating_sub(tokens),
            micro_usd: self.ledger.micro_usd.saturating_sub(micro_usd),
            models: models.into_iter().collect(),
            flags: squad.map(|squad| squad.flags.clone()).unwrap_or_default(),
        })
    }

    /// What the person asked for in the open turn.
    fn asked_for(&self) -> String {
        match self.turn.as_ref().and_then(|turn| self.event(turn.prompt)) {
            Some(ArenaEvent::PromptGiven(data)) => data.text.clone(),
            _ => String::new(),
        }
    }

    fn tool_call(&self, spark: SparkId, tool_use: ToolUse) -> Option<ToolCall> {
        let (name, args) = self.asked(tool_use)?;
        let Args::Json(args) = args else { return None };
        let (tool, _) = self.places.tools.get(name)?;
        let bases = self.sparks.get(&spark)?.seen.iter();
        // The recorded tool may be wrong about itself; what was prepared here is not.
        let one = self.sparks.get(&spark)?.uses.iter().find(|one| one.id == tool_use);
        let risks: Vec<Risk> = one.and_then(|one| one.risk).into_iter().chain([tool.risk]).collect();
        Some(ToolCall {
            tool_use,
            spark,
            tool: name.to_owned(),
            args: self.at_home(args),
            bases: bases
                .map(|(path, sha256)| PathBase { path: path.clone(), sha256: sha256.clone() })
                .collect(),
            place: self.place_of(spark),
            denied: policy::denied_paths(&self.spec.as_ref()?.policy, name, &risks),
            timeout_ms: self.spec.as_ref()?.limits.tool_timeout_ms,
            output_cap: tool.output_cap,
        })
    }

    /// Arguments whose paths beneath a folder that this session is a copy from are paths of its own workspace: what
    /// a spark read before the copy was made names the folder of then.
    fn at_home(&self, args: &Value) -> Value {
        let mut args = args.clone();
        for name in ["path", "cwd"] {
            let Some(Value::String(path)) = args.get_mut(name) else { continue };
            let inside = self.former_roots.iter().find_map(|root| Path::new(&*path).strip_prefix(root).ok());
            if let Some(inside) = inside {
                *path = inside.to_string_lossy().into_owned();
            }
        }
        args
    }

    /// The role of a squad whose own place its spark's calls run in.
    pub(super) fn place_of(&self, spark: SparkId) -> Option<String> {
        let role = &self.squad.as_ref()?.roles.get(self.squad.as_ref()?.role_of(spark)?)?.spec;
        role.has_place().then(|| role.name.clone())
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

    /// True when what is waited for cannot come without a person: only asks, and timers beside them.
    pub fn waits_for_people(&self) -> bool {
        let asks = |call: &Call| matches!(call.kind, CallKind::Ask { .. });
        let timers = |call: &Call| matches!(call.kind, CallKind::Effect(EffectOrder::Timer { .. }));
        self.calls.values().any(asks) && self.calls.values().all(|call| asks(call) || timers(call))
    }

    /// Open asks: the call and the digest an answer must carry.
    pub fn open_asks(&self) -> Vec<(CallId, String)> {
        self.calls
            .iter()
            .filter_map(|(id, call)| match &call.kind {
                CallKind::Ask { digest, .. } if !call.cancelled => Some((*id, digest.clone())),
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
        let CallKind::Model { called, .. } = &self.calls.get(&call)?.kind else { return None };
        let ArenaEvent::ModelCalled(called) = self.event(*called)? else { return None };
        match self.effect(call)? {
            Effect::Model { request, .. } => Some((called.digest.clone(), request.digest())),
            _ => None,
        }
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
        let said = self.turn.iter().flat_map(|turn| std::iter::once(&turn.prompt).chain(&turn.said));
        needed.extend(said.map(|at| at.seq));
        needed.extend(self.squad.iter().flat_map(|squad| squad.seqs()));
        needed.extend(self.debate.iter().flat_map(Debate::seqs));
        let wordy: Vec<u64> = needed.iter().copied().collect();
        for seq in wordy {
            if let Some(entry) = self.kept.get(&seq) {
                needed.extend(entry.events.iter().flat_map(state::cited_seqs));
            }
        }
        self.kept.retain(|seq, _| needed.contains(seq));
    }
}

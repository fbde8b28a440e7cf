//! Mission control: what a session is doing now and has done so far; shows, never decides.

pub mod row;

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::command::StopCause;
use crate::protocol::effect::{BackgroundOrder, Order};
use crate::protocol::event::{
    CritiqueIssued, ErrorKind, Finding, Judgement, LimitKind, PauseCause, SessionForked, SessionOpened,
    SessionResumed, SparkIgnited, ToolResolved, ToolStatus, TurnCause, WorkJudged,
};
use crate::protocol::inside::{InsideCall, Todo};
use crate::protocol::spec::{
    Limits, Mode, PermissionLevel, Risk, RolePlace, SandboxSpec, Setting, ToolSpec, WorkspaceSpec,
};
use crate::protocol::{ArenaEvent, CallId, Entry, EventRef, Lane, Signal, SparkId};

use super::answering::Answering;
pub use super::calls::OpenApproval;
use super::calls::{OpenCall, OpenCalls, OpenQuestion};
use super::partials::{Partial, Partials};
use super::phrases;
pub use row::{Counts, SparkRow};

/// What the whole session is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BoardState {
    /// No turn is open.
    #[default]
    Idle,
    /// A turn is open.
    Working,
    /// The driver left with the turn open.
    Paused(PauseCause),
    /// It was asked to end; something is still outstanding.
    Stopping(StopCause),
    /// It is over.
    Sealed(StopCause),
}

/// Everything mission control shows above the transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Board {
    /// Session id; of the fork, once forked. Empty before the first entry.
    pub id: String,
    /// Session and last copied entry this one was forked from.
    pub parent: Option<(String, u64)>,
    /// Program name and version that opened or last resumed it.
    pub program: String,
    /// Absolute path of the workspace.
    pub workspace: String,
    /// What confines the tools; none before the first entry.
    pub sandbox: Option<SandboxSpec>,
    /// How much tools do without a question.
    pub permission: PermissionLevel,
    /// Roles that are confined otherwise.
    pub places: Vec<RolePlace>,
    /// Default model, `PROVIDER/MODEL`.
    pub model: String,
    /// Models that answered in place of those that were asked.
    pub answering: Answering,
    /// Position of the entry since which it is that one.
    pub model_since: u64,
    /// Who works on the current or last turn.
    pub mode: Option<Mode>,
    /// Number of the current or last turn, 0 before the first.
    pub turn: u32,
    /// What the session is at.
    pub state: BoardState,
    /// The step of a squad or debate.
    pub phase: Option<String>,
    /// Why the last closed turn ended.
    pub cause: Option<TurnCause>,
    /// The limit the current or last turn reached: which, used, allowed.
    pub limit: Option<(LimitKind, u64, u64)>,
    /// Kind of the model failure that ended the last turn, or may end the current one.
    pub failure: Option<ErrorKind>,
    /// Tool calls that were not run.
    pub refused: u32,
    /// Tool calls that ran and failed.
    pub failed: u32,
    /// Files that tools wrote, by workspace-relative path.
    pub changed: BTreeSet<String>,
    /// Whose the changes of this turn's squad are, as decided last.
    pub work: Option<WorkJudged>,
    /// The event that holds the last closed turn's answer.
    pub answer: Option<EventRef>,
    /// A row per spark, in order of ignition, subagents below the spark they work for.
    pub sparks: Vec<SparkRow>,
    /// Approvals that wait for an answer, oldest first.
    pub approvals: Vec<OpenApproval>,
    /// The list of what is to be done, as it was kept last.
    pub todo: Option<Todo>,
    /// The answer that states the plan of a squad.
    pub plan: Option<EventRef>,
    /// The `diff_taken` of what a squad's coder proposed last in this turn.
    pub proposed: Option<EventRef>,
    /// How many times that coder has proposed something in this turn, by the spark.
    pub proposals: BTreeMap<SparkId, u32>,
    /// Who proposed last, and what was said of it: that changes are wanted as soon as one reviewer wants them.
    pub judged: Option<(SparkId, Option<Judgement>)>,
    /// Findings of reviewers that are not closed.
    pub findings: Vec<Finding>,
    /// Where the session stops by itself.
    pub limits: Limits,
    /// Model calls of this turn, retries not counted: what the limit of them holds.
    pub steps: u32,
    /// True while debate ballots are sealed: no view shows a position.
    pub sealed_ballots: bool,
    /// Time of the first entry, microseconds since the Unix epoch.
    pub opened: u64,
    /// Time of the current or last turn's opening.
    pub turn_opened: u64,
    /// Time of the last entry.
    pub at: u64,
    /// Position of the last entry; none before the first.
    pub seq: Option<u64>,
    /// Entries, events, and what of them changed nothing or is not understood.
    pub counts: Counts,
    /// Tools that write files.
    writers: BTreeSet<String>,
    calls: OpenCalls,
    partials: Partials,
}

impl Board {
    /// Folds one entry.
    pub fn apply(&mut self, entry: &Entry) {
        if self.seq.is_none() {
            self.opened = entry.at;
        }
        self.seq = Some(entry.seq);
        self.at = entry.at;
        self.counts.entries += 1;
        self.counts.unknown += u64::from(entry.newer().is_some());
        for (from, event) in entry.effective() {
            self.apply_event(entry.at, from, event);
        }
    }

    /// Drops ended sparks before this one; what they used stays in the totals.
    pub fn forget(&mut self, oldest: SparkId) {
        self.sparks.retain(|row| row.spark >= oldest || row.ended.is_none());
    }

    /// Takes a live piece of a running call; anything late, doubled or out of order is dropped.
    pub fn hint(&mut self, signal: &Signal) {
        let words = matches!(signal.lane, Lane::Text | Lane::Reasoning | Lane::Args(_));
        if self.sealed_ballots && words {
            return;
        }
        let running = self.calls.get(signal.call).map(|open| open.attempt);
        if self.calls.is_closed(signal.call) || running.is_some_and(|attempt| signal.attempt < attempt) {
            return;
        }
        self.partials.hint(signal);
    }

    /// What a running call has said so far on one lane; none when pieces were missed.
    pub fn partial(&self, call: CallId, lane: Lane) -> Option<&Partial> {
        self.partials.get(call, lane)
    }

    /// The open calls of one spark, or of the session itself, oldest call first; the clock is left out.
    pub fn doing(&self, spark: Option<SparkId>) -> impl Iterator<Item = (CallId, &OpenCall)> {
        self.calls.iter().filter(move |(_, open)| open.spark == spark && !open.is_clock())
    }

    /// True while a spark has an open call.
    pub fn is_busy(&self, spark: SparkId) -> bool {
        self.doing(Some(spark)).next().is_some()
    }

    /// True while the last turn is not over, whoever works on it or left it.
    pub fn has_open_turn(&self) -> bool {
        self.turn > 0 && self.cause.is_none()
    }

    /// The questions that wait for an answer, the oldest first.
    pub fn questions(&self) -> impl Iterator<Item = OpenQuestion<'_>> {
        self.calls.questions()
    }

    /// The commands that run in the background, each with its call.
    pub fn background(&self) -> impl Iterator<Item = (CallId, &BackgroundOrder)> {
        self.calls.background()
    }

    /// A spark's state in words: `done`, `thinking`, `running bash: sh check.sh`, `waiting for approval of …`.
    pub fn state_of(&self, row: &SparkRow) -> String {
        if let Some((_, cause)) = row.ended {
            return phrases::turn_cause(cause).to_owned();
        }
        let most_telling = self.doing(Some(row.spark)).max_by_key(|(_, open)| open.urgency());
        most_telling.map_or_else(|| "ready".to_owned(), |(call, open)| self.say(call, open))
    }

    /// An open call in words; a model whose words already come is no longer thinking.
    pub fn say(&self, call: CallId, open: &OpenCall) -> String {
        let comes = self.partial(call, Lane::Text).is_some_and(|partial| !partial.text.trim().is_empty());
        match &open.order {
            Order::Model(_) if comes && !open.is_summary && !open.cancelled => "answering".to_owned(),
            _ => self.calls.say(open),
        }
    }

    fn apply_event(&mut self, at: u64, from: EventRef, event: &ArenaEvent) {
        use ArenaEvent as E;
        let wrote = match event {
            E::ToolResolved(data) => {
                self.calls.tool(data.body.tool_use).is_some_and(|face| self.writers.contains(&face.tool))
            }
            _ => false,
        };
        if let E::ToolAnswered(data) = event
            && let Some(InsideCall::Todo(list)) =
                self.calls.tool(data.tool_use).and_then(|face| face.inside.as_ref())
        {
            self.todo = Some(list.clone());
        }
        let closed = self.calls.apply(at, from, event);
        self.answering.apply(event);
        self.forget_partials(event);
        match event {
            E::SessionOpened(data) => self.opened(data),
            E::SessionResumed(data) => self.resumed(data),
            E::SessionForked(data) => self.forked(data),
            // A copy of a session whose turn was over is left as well: nothing waits in it.
            E::SessionPaused(data) if data.cause == PauseCause::Quit && !self.has_open_turn() => {
                self.state = BoardState::Idle;
            }
            E::SessionPaused(data) => self.state = BoardState::Paused(data.cause),
            E::StopRequested(data) => self.state = BoardState::Stopping(data.cause),
            E::SessionSealed(data) => self.state = BoardState::Sealed(data.cause),
            E::PromptGiven(data) => self.prompted(&data.mode, &data.changed),
            E::SettingsChanged(data) => self.settings(&data.changed),
            E::TurnOpened(data) => self.turn_opened(at, data.turn),
            E::ModelFailed(data) => self.failure = Some(data.body.kind),
            E::ToolRefused(_) => self.refused += 1,
            E::ToolResolved(data) => self.resolved(&data.body, wrote),
            // That of one of several sparks ends no turn.
            E::LimitReached(data) if data.spark.is_none() || self.mode == Some(Mode::Solo) => {
                self.limit = Some((data.limit, data.used, data.max));
            }
            E::TurnClosed(data) => self.turn_closed(data.cause, data.answer),
            E::SparkIgnited(data) => self.ignited(at, data),
            E::SparkCompleted(data) => self.with_row(data.spark, |row| row.ended = Some((at, data.cause))),
            E::ModelCalled(data) => {
                self.steps += u32::from(data.attempt <= 1);
                self.with_row(data.spark, |row| data.model.clone_into(&mut row.model));
            }
            E::FallbackTaken(data) => self.with_row(data.spark, |row| row.model.clone_from(&data.to)),
            E::PatchApplied(data) => self.changed.extend(data.body.paths.iter().cloned()),
            // What commands changed is seen only here.
            E::WorkJudged(data) => self.work_judged(data),
            E::PhaseShifted(data) => self.phase = Some(data.to.clone()),
            E::PlanStated(data) => self.plan = Some(data.source),
            E::CodeProposed(data) => {
                self.proposed = data.diff;
                *self.proposals.entry(data.spark).or_default() += 1;
                self.judged = Some((data.spark, None));
            }
            E::CritiqueIssued(data) => self.criticised(data),
            E::FindingClosed(data) => self.findings.retain(|open| open.id != data.id),
            E::BallotsRevealed(_) | E::DebateGated(_) => self.sealed_ballots = false,
            _ => {}
        }
        let asks = matches!(event, E::ApprovalRequested(_) | E::SessionForked(_));
        if asks || closed.is_some_and(|call| matches!(call.order, Order::Ask(_))) {
            self.approvals = self.calls.approvals().collect();
        }
    }

    fn resolved(&mut self, end: &ToolResolved, wrote: bool) {
        self.failed += u32::from(end.status == ToolStatus::Failed);
        if wrote && end.status == ToolStatus::Ok {
            self.changed.extend(end.seen.iter().map(|file| file.path.clone()));
        }
    }

    /// True for a changed file that a comparison of the workspace shows, or where none was made.
    pub fn is_seen(&self, path: &str) -> bool {
        self.work.as_ref().is_none_or(|work| work.changed().any(|changed| changed == path))
    }

    /// A comparison says which files are changed, whatever earlier ones said.
    fn work_judged(&mut self, now: &WorkJudged) {
        let before = self.work.replace(now.clone());
        let gone = |path: &String| before.iter().flat_map(WorkJudged::changed).any(|known| known == path);
        self.changed.retain(|path| !gone(path) && !now.foreign.contains(path));
        self.changed.extend(now.changed().cloned());
    }

    fn opened(&mut self, data: &SessionOpened) {
        let spec = &data.spec;
        let writes = |tool: &&ToolSpec| tool.risk == Risk::Write;
        self.writers = spec.tools.iter().filter(writes).map(|tool| tool.name.clone()).collect();
        self.id.clone_from(&data.id);
        self.program.clone_from(&spec.program);
        self.model = spec.models.first().map(|model| model.name.clone()).unwrap_or_default();
        self.limits = spec.limits.clone();
        self.permission = spec.permission;
        self.place(&spec.workspace);
    }

    fn resumed(&mut self, data: &SessionResumed) {
        self.program.clone_from(&data.program);
        self.settings(&data.changed);
        self.state = self.open_turn_state();
    }

    fn forked(&mut self, data: &SessionForked) {
        self.parent = Some((std::mem::replace(&mut self.id, data.id.clone()), data.seq));
        self.workspace.clone_from(&data.workspace);
        self.settings(&data.changed);
        self.state = self.open_turn_state();
    }

    /// A turn is open exactly while one was opened and not closed, whatever happened to the process.
    fn open_turn_state(&self) -> BoardState {
        if self.has_open_turn() { BoardState::Working } else { BoardState::Idle }
    }

    fn settings(&mut self, changed: &[Setting]) {
        for setting in changed {
            match setting {
                Setting::Model { spec, default: true } => {
                    self.model.clone_from(&spec.name);
                    self.model_since = self.seq.unwrap_or(0);
                }
                Setting::Limits(limits) => self.limits = limits.clone(),
                Setting::Permission(level) => self.permission = *level,
                Setting::Workspace(workspace) => self.place(workspace),
                _ => {}
            }
        }
    }

    fn place(&mut self, workspace: &WorkspaceSpec) {
        self.workspace.clone_from(&workspace.root);
        self.sandbox = Some(workspace.sandbox.clone());
        self.places.clone_from(&workspace.places);
    }

    fn prompted(&mut self, mode: &Mode, changed: &[Setting]) {
        self.settings(changed);
        self.mode = Some(mode.clone());
    }

    fn turn_opened(&mut self, at: u64, turn: u32) {
        self.turn = turn;
        self.turn_opened = at;
        self.state = BoardState::Working;
        self.phase = None;
        self.work = None;
        (self.cause, self.answer, self.limit) = (None, None, None);
        self.findings.clear();
        // A list that was worked off is of the turn before.
        self.todo = self.todo.take().filter(|list| list.next().is_some());
        (self.plan, self.proposed, self.steps) = (None, None, 0);
        self.proposals.clear();
        self.judged = None;
        self.sealed_ballots = matches!(self.mode, Some(Mode::Debate(_)));
    }

    fn turn_closed(&mut self, cause: TurnCause, answer: Option<EventRef>) {
        (self.cause, self.answer) = (Some(cause), answer);
        self.sealed_ballots = false;
        if matches!(self.state, BoardState::Working | BoardState::Paused(_)) {
            self.state = BoardState::Idle;
        }
    }

    fn ignited(&mut self, started: u64, data: &SparkIgnited) {
        // Sparks are numbered as they begin: only one that begins again may be among those of a long session.
        if self.sparks.last().is_some_and(|last| last.spark >= data.spark) {
            self.sparks.retain(|row| row.spark != data.spark);
        }
        let (spark, role, model) = (data.spark, data.role.clone(), data.model.clone());
        let row = SparkRow { spark, role, delegated: data.delegated.clone(), model, started, ended: None };
        // A subagent's row is below its parent's, after those that began before it.
        let parent = row.delegated.as_ref().map(|delegated| delegated.parent);
        let above = parent.and_then(|parent| self.sparks.iter().position(|known| known.spark == parent));
        let place = above.map_or(self.sparks.len(), |above| {
            let below = self.sparks[above + 1..].iter().take_while(|known| known.depth() >= row.depth());
            above + 1 + below.count()
        });
        self.sparks.insert(place, row);
    }

    /// Findings keep their id from one review to the next; the newest words stand.
    fn criticised(&mut self, data: &CritiqueIssued) {
        let findings = &data.findings;
        self.findings.retain(|open| findings.iter().all(|new| new.id != open.id));
        self.findings.extend_from_slice(findings);
        if let Some((_, verdict)) = &mut self.judged {
            *verdict = verdict.filter(|word| *word == Judgement::RequestChanges).or(Some(data.verdict));
        }
    }

    fn forget_partials(&mut self, event: &ArenaEvent) {
        match event {
            ArenaEvent::ModelCalled(data) => self.partials.forget_before(data.call, data.attempt),
            ArenaEvent::ToolInvoked(data) => self.partials.forget_before(data.call, data.attempt),
            ArenaEvent::CallLost(data) => self.partials.forget(data.call),
            _ => {
                if let Some(call) = event.ends() {
                    self.partials.forget(call);
                }
            }
        }
    }

    fn with_row(&mut self, spark: SparkId, change: impl FnOnce(&mut SparkRow)) {
        if let Some(row) = self.sparks.iter_mut().rfind(|row| row.spark == spark) {
            change(row);
        }
    }
}

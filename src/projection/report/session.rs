//! What every session's report has, whatever its mode: turns, answers, findings, checks, costs; knows no debate.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::projection::board::{Board, BoardState};
use crate::projection::cache_summary::CacheSheet;
use crate::projection::costs::{Costs, Tally};
use crate::projection::phrases;
use crate::projection::squad::SquadSheet;
use crate::projection::why::Reasons;
use crate::protocol::event::{Finding, Judgement, TurnCause};
use crate::protocol::spec::Mode;
use crate::protocol::{ArenaEvent, Entry, EventRef, SparkId};

use super::Log;
use super::said;
use super::work::{self, CallLine};

/// A session as a report tells it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct SessionReport {
    /// Its id; empty when the log has no opening.
    pub id: String,
    /// The session it was forked from, and the last entry it shares with it.
    pub parent: Option<(String, u64)>,
    /// Program name and version that opened or last resumed it.
    pub program: String,
    /// Absolute path of its workspace.
    pub workspace: String,
    /// What confined its tools.
    pub sandbox: Option<String>,
    /// Roles that were confined otherwise, in words.
    pub places: Vec<String>,
    /// Models that answered in place of those that were asked, in words.
    pub answered: Vec<String>,
    /// Microseconds since the Unix epoch of its first entry.
    pub opened_at: u64,
    /// The same of its last entry.
    pub last_at: u64,
    /// Milliseconds it was at work; pauses between processes do not count.
    pub active_ms: u64,
    /// Entries.
    pub entries: u64,
    /// Events of kinds this program does not know: what they say is missing here.
    pub unknown_events: u64,
    /// What it is at, in words.
    pub state: String,
    /// Approvals that wait for an answer.
    pub open_approvals: u64,
    /// Its turns, oldest first.
    pub turns: Vec<TurnReport>,
    /// Costs per spark, in order of ignition.
    pub costs: Vec<CostLine>,
    /// All costs.
    pub total: CostLine,
}

/// One turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TurnReport {
    /// Its number, from 1.
    pub number: u32,
    /// `solo`, `squad` or `debate`.
    pub mode: String,
    /// The task, whole.
    pub prompt: String,
    /// The `prompt_given`.
    pub asked_in: Option<EventRef>,
    /// Why it ended; none while it is open.
    pub cause: Option<TurnCause>,
    /// What kept a squad's work from being done, in one line.
    pub lacks: Option<String>,
    /// The answer in words.
    pub answer: Option<String>,
    /// The event that holds the answer.
    pub source: Option<EventRef>,
    /// What was taken back of it, in words; none when nothing was.
    pub undone: Option<String>,
    /// True when its words were taken back.
    pub is_struck: bool,
    /// Reviews, in order.
    pub reviews: Vec<Review>,
    /// Every finding, with the state it was left in.
    pub findings: Vec<FindingLine>,
    /// Checks that were run, in order.
    pub checks: Vec<CheckLine>,
    /// Claims of answers that the log does not bear out.
    pub flagged: Vec<FlaggedClaim>,
    /// Roles that had nothing to contribute.
    pub failed: Vec<FailedRole>,
    /// Paths in the last comparison of the workspace with a recorded tree, and what was applied from the team cache.
    pub changed: Vec<String>,
    /// The same as a unified diff; where the workspace was not compared, the changes of its tool calls, one after another.
    pub diff: String,
    /// The list of steps as it was kept last, a line each.
    pub steps: Vec<String>,
    /// Its tool calls, in the order they were asked for.
    pub calls: Vec<CallLine>,
    /// What there is to know of a recorded run that became the answer: that no check was run again, for one.
    pub recorded: Option<String>,
    /// What the team cache did for it: which session's run it came from and what that saved, whether its own was stored.
    pub cache: Option<String>,
}

/// One review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Review {
    /// The reviewer's role.
    pub role: String,
    /// The judgement.
    pub judgement: Judgement,
    /// The `critique_issued`.
    pub source: EventRef,
}

/// One finding and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindingLine {
    /// The finding, in its newest words.
    pub finding: Finding,
    /// The `critique_issued` with these words.
    pub source: EventRef,
    /// The `finding_closed`; none while it is open.
    pub closed: Option<EventRef>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckLine {
    /// The command line.
    pub command: String,
    /// Exit code; none when it was killed.
    pub exit: Option<i32>,
    /// The `check_ran`.
    pub source: EventRef,
}

/// One claim the log does not bear out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FlaggedClaim {
    /// The claim; none where it cannot be read.
    pub claim: Option<String>,
    /// True when the log says the contrary, not merely nothing.
    pub contradicted: bool,
    /// What the log says instead.
    pub reason: String,
    /// The answer that claims.
    pub source: EventRef,
}

/// One role without a contribution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FailedRole {
    /// The role.
    pub role: String,
    /// Why.
    pub cause: TurnCause,
    /// The `role_failed`.
    pub source: EventRef,
}

/// What was used by one spark, or by all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CostLine {
    /// The spark; none for the total.
    pub spark: Option<SparkId>,
    /// Its role, `all` for the total.
    pub role: String,
    /// The model it used last.
    pub model: String,
    /// Model calls.
    pub calls: u32,
    /// Attempts of them that failed.
    pub failures: u32,
    /// Input tokens, cached ones included.
    pub input: u64,
    /// Of these, read from the provider's cache.
    pub cached: u64,
    /// Output tokens.
    pub output: u64,
    /// True when some of these tokens were counted by agon.
    pub estimated: bool,
    /// Calls that were cut off, by a stop or with the program, so that nobody knows what they took: with any, these
    /// tokens and this money are the most it can have been.
    pub cut_off: u32,
    /// Millionths of a dollar, where the price is known.
    pub micro_usd: u64,
    /// Of these, what the provider's cache saved; below 0 where writing it cost more.
    pub saved_micro_usd: i64,
    /// Calls without a known price.
    pub unpriced: u32,
    /// Tool calls that were started.
    pub tool_calls: u32,
    /// Milliseconds of model calls; calls at once count each.
    pub model_ms: u64,
}

impl CostLine {
    fn of(spark: Option<SparkId>, role: &str, model: &str, tally: &Tally) -> Self {
        let tally = &tally.at_most();
        CostLine {
            spark,
            role: role.to_owned(),
            model: model.to_owned(),
            calls: tally.calls,
            failures: tally.failures,
            input: tally.usage.input,
            cached: tally.usage.cached,
            output: tally.usage.output,
            estimated: tally.usage.estimated,
            cut_off: tally.unknown,
            micro_usd: tally.micro_usd,
            saved_micro_usd: tally.saved_micro_usd,
            unpriced: tally.unpriced,
            tool_calls: tally.tool_calls,
            model_ms: tally.model_ms,
        }
    }
}

impl SessionReport {
    /// What confined its tools, with the roles that were confined otherwise; empty when the log does not say.
    pub fn confined(&self) -> String {
        let kind = self.sandbox.clone().unwrap_or_default();
        match self.places.as_slice() {
            [] => kind,
            places => format!("{kind} ({})", places.join("; ")),
        }
    }

    pub(super) fn of(entries: &[Arc<Entry>], log: &Log<'_>) -> Self {
        let (mut board, mut costs, mut turns) = (Board::default(), Costs::default(), Turns::default());
        let (mut reasons, mut rewound) = (Reasons::default(), crate::projection::Turns::default());
        for entry in entries {
            rewound.apply(entry);
            board.apply(entry);
            costs.apply(entry);
            turns.squad.apply(entry);
            turns.cache.apply(entry);
            reasons.apply(entry);
            entry.effective().for_each(|(at, event)| turns.apply(at, event, log));
        }
        work::fill(&mut turns.turns, &turns.starts, log, &reasons);
        for turn in &mut turns.turns {
            let row = rewound.rows.iter().find(|row| Some(row.prompt) == turn.asked_in);
            (turn.undone, turn.is_struck) =
                row.map_or((None, false), |row| (row.undone(), row.talk_back.is_some()));
        }
        let costs = costs.at_the_end();
        let lines = costs.sparks.iter();
        SessionReport {
            id: board.id.clone(),
            parent: board.parent.clone(),
            program: board.program.clone(),
            workspace: board.workspace.clone(),
            sandbox: board.sandbox.as_ref().map(|sandbox| sandbox.kind.clone()),
            places: board.places.iter().map(phrases::place).collect(),
            answered: board.answering.lines(),
            opened_at: board.opened,
            last_at: board.at,
            active_ms: costs.work.us / 1_000,
            entries: board.counts.entries,
            unknown_events: board.counts.unknown,
            state: state(&board),
            open_approvals: board.approvals.len() as u64,
            turns: turns.turns,
            costs: lines
                .map(|(id, row)| CostLine::of(Some(*id), &row.role, &row.model, &row.tally))
                .collect(),
            total: CostLine::of(None, "all", "", &costs.total),
        }
    }
}

fn state(board: &Board) -> String {
    match board.state {
        BoardState::Idle => "idle".to_owned(),
        BoardState::Working => "unfinished".to_owned(),
        BoardState::Paused(cause) => format!("paused: {}", phrases::pause_cause(cause)),
        BoardState::Stopping(cause) => format!("stopping: {}", phrases::stop_cause(cause)),
        BoardState::Sealed(cause) => format!("ended: {}", phrases::stop_cause(cause)),
    }
}

/// The turns while they are folded.
#[derive(Default)]
struct Turns {
    turns: Vec<TurnReport>,
    /// The prompt that waits for its turn.
    prompt: Option<TurnReport>,
    /// The squad of the last prompt, as after the whole entry.
    squad: SquadSheet,
    /// What the team cache did for it, as after the whole entry.
    cache: CacheSheet,
    /// The entries in which the turns were opened.
    starts: Vec<u64>,
}

impl Turns {
    fn apply(&mut self, at: EventRef, event: &ArenaEvent, log: &Log<'_>) {
        use ArenaEvent as E;
        match event {
            E::PromptGiven(data) => self.prompt = Some(asked(at, &data.text, &data.mode)),
            E::TurnOpened(data) => {
                let turn = self.prompt.take().unwrap_or_default();
                self.turns.push(TurnReport { number: data.turn, ..turn });
                self.starts.push(at.seq);
            }
            _ => self.apply_to_turn(at, event, log),
        }
    }

    fn apply_to_turn(&mut self, at: EventRef, event: &ArenaEvent, log: &Log<'_>) {
        use ArenaEvent as E;
        let Some(turn) = self.turns.last_mut() else { return };
        match event {
            E::CritiqueIssued(data) => {
                turn.reviews.push(Review { role: log.role(data.spark), judgement: data.verdict, source: at });
                data.findings.iter().for_each(|finding| turn.found(finding, at));
            }
            E::FindingClosed(data) => {
                let line = turn.findings.iter_mut().find(|line| line.finding.id == data.id);
                if let Some(line) = line {
                    line.closed = Some(at);
                }
            }
            E::CheckRan(data) => turn.checks.push(CheckLine {
                command: data.body.command.clone(),
                exit: data.body.exit,
                source: at,
            }),
            E::WorkJudged(data) => {
                turn.changed = data.changed().cloned().collect();
                if let Some(ArenaEvent::DiffTaken(taken)) = log.event(data.diff) {
                    turn.diff.clone_from(&taken.body.diff);
                }
            }
            E::PatchApplied(data) => turn.changed.clone_from(&data.body.paths),
            E::ClaimFlagged(data) => {
                let listed = || log.event(data.source).and_then(|event| said::claim(event, data.claim));
                let claim = data.said.clone().or_else(listed);
                let (reason, source) = (data.reason.clone(), data.source);
                turn.flagged.push(FlaggedClaim { claim, contradicted: data.contradicted, reason, source });
            }
            E::RoleFailed(data) => {
                turn.failed.push(FailedRole { role: data.role.clone(), cause: data.cause, source: at });
            }
            E::TurnClosed(data) => {
                turn.cause = Some(data.cause);
                turn.source = data.answer;
                turn.answer = data.answer.and_then(|answer| words_of(&turn.mode, log.event(answer)?));
                turn.lacks = self.squad.lacks().filter(|_| data.cause == TurnCause::Incomplete);
                turn.recorded = self.squad.used_words();
                turn.cache = self.cache.words();
            }
            _ => {}
        }
    }
}

fn asked(at: EventRef, text: &str, mode: &Mode) -> TurnReport {
    TurnReport {
        mode: phrases::mode(mode).to_owned(),
        prompt: text.to_owned(),
        asked_in: Some(at),
        ..TurnReport::default()
    }
}

/// An answer in words: those of a typed one, with what it says is open; else the text as it is.
fn words_of(mode: &str, event: &ArenaEvent) -> Option<String> {
    match event {
        ArenaEvent::ModelAnswered(data) if mode == phrases::mode(&Mode::Squad) => {
            Some(SquadSheet::recorded_words(&[], &data.body.text()))
        }
        ArenaEvent::ModelAnswered(data) if mode == phrases::mode(&Mode::Solo) => Some(data.body.text()),
        ArenaEvent::ModelAnswered(data) => said::answer(event).or_else(|| Some(data.body.text())),
        ArenaEvent::CacheHit(data) => Some(SquadSheet::recorded_words(&data.body.flags, &data.body.answer)),
        _ => None,
    }
}

impl TurnReport {
    /// Findings keep their id from one review to the next; the newest words stand.
    fn found(&mut self, finding: &Finding, source: EventRef) {
        let new = FindingLine { finding: finding.clone(), source, closed: None };
        match self.findings.iter_mut().find(|line| line.finding.id == finding.id) {
            Some(line) => *line = new,
            None => self.findings.push(new),
        }
    }
}

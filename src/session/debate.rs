//! A debate as a state machine: which set of calls comes after which; the words of ballots are not weighed here.

mod answers;
mod briefs;
mod fold;
mod plan;
mod rounds;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::event::{
    ArenaEvent, Ask, BallotsRevealed, ConvergenceProbed, DebateGated, DebateShortened, LimitReached,
    PhaseShifted, RatingsCast, RoleFailed, SparkIgnited, TurnCause,
};
use crate::protocol::spec::{DebatePlan, family_in};
use crate::protocol::{EventRef, SparkId};

use super::Session;
use super::convergence::{self, Panel, Voter};

/// Phases in total a debate may have.
pub const ROUNDS: std::ops::RangeInclusive<u32> = 2..=12;

/// Phases of a debate nobody asked for more or fewer of.
pub const DEFAULT_ROUNDS: u32 = 4;

/// The phases by their number, from 1; every later one is a refinement.
const PHASES: [&str; 4] = ["initial-analysis", "counterarguments", "evidence-assessment", "synthesis"];

/// What the last step is called.
const VERDICT: &str = "verdict";

/// A score, and an agreement on every single proposition, from which voices agree.
const AGREED_PM: u32 = 800;

/// Mean movement below which nothing moves.
const STILL_PM: u32 = 25;

/// A debate under way.
#[derive(Clone, Debug, Default)]
pub struct Debate {
    plan: Option<DebatePlan>,
    moderator: Option<SparkId>,
    debaters: Vec<Debater>,
    /// Number of the phase, from 1.
    phase: u32,
    /// Number of the last set of calls.
    round: u32,
    /// The last `round_opened`.
    opened: Option<EventRef>,
    pub(super) ask: Ask,
    /// How many parts of its usual output limit each of them may have.
    pub(super) parts: u64,
    /// Whose answers to it are still awaited.
    waiting: BTreeSet<SparkId>,
    /// Tools each debater may use now.
    tools: BTreeMap<SparkId, Vec<String>>,
    /// Where the propositions are, and how many.
    propositions: Vec<EventRef>,
    count: u32,
    /// `ballot_cast`s of each phase.
    cast: Vec<Vec<EventRef>>,
    /// Probes so far, the sealed one first.
    probes: Vec<Probe>,
    /// `ballots_revealed`: where, and the majority.
    revealed: Option<(EventRef, Vec<i8>)>,
    /// What people said meanwhile: to whom, and where.
    steering: Vec<(Option<SparkId>, EventRef)>,
    /// Results of tools, which ballots may cite.
    results: BTreeSet<EventRef>,
    /// Why debaters were absent, in the order they failed.
    absences: Vec<TurnCause>,
    /// The limit that forbade a further phase.
    limit: Option<LimitReached>,
    /// `verdict_reached`: where, and the moderator's answer.
    verdict: Option<EventRef>,
}

/// One debater.
#[derive(Clone, Debug)]
struct Debater {
    spark: SparkId,
    name: String,
    /// The last `ballot_cast`, and the round it answers.
    ballot: Option<(EventRef, EventRef)>,
    /// The sealed and the last `ratings_cast`.
    sealed: Option<EventRef>,
    ratings: Option<EventRef>,
    /// Every `ratings_cast` with the round it answers.
    course: Vec<crate::protocol::event::Rated>,
    /// The ratings of the last `ratings_cast` and of the one before, each with its phase.
    last: Option<(u32, Vec<crate::protocol::event::Rating>)>,
    before: Option<Vec<crate::protocol::event::Rating>>,
    /// Without a first ballot, or stopped: not asked any more.
    out: bool,
}

/// What early stopping needs to know of a probe.
#[derive(Clone, Debug)]
struct Probe {
    score_pm: Option<u32>,
    /// Agreement on the proposition that is disputed most: one lasting dissent is not averaged away.
    least_pm: Option<u32>,
    /// Whose ratings it measured: agreement among others is not the same agreement.
    voices: BTreeSet<SparkId>,
    /// True when hardly anything moved, and everybody who spoke could have.
    is_still: bool,
    collapse: bool,
}

impl Debate {
    /// A debate before its first spark.
    pub(super) fn of(plan: &DebatePlan) -> Self {
        Debate { plan: Some(plan.clone()), ..Debate::default() }
    }

    /// True while an answer of this spark is awaited.
    pub(super) fn waits_for(&self, id: SparkId) -> bool {
        self.waiting.contains(&id)
    }

    /// Tools a spark may use now: read-only ones, while evidence is gathered.
    pub(super) fn tools_of(&self, id: SparkId) -> &[String] {
        self.tools.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Entries that later requests and decisions need.
    pub(super) fn seqs(&self) -> impl Iterator<Item = u64> + '_ {
        let casts = self.cast.iter().flatten().copied();
        let own = self.debaters.iter().flat_map(|one| {
            let (ballot, read) = one.ballot.unzip();
            let course = one.course.iter().flat_map(|rated| [rated.ratings, rated.read]);
            [ballot, read, one.sealed, one.ratings].into_iter().flatten().chain(course)
        });
        let rest = self.propositions.iter().chain(&self.results).copied();
        let steering = self.steering.iter().map(|(_, at)| *at);
        casts.chain(own).chain(rest).chain(steering).chain(self.opened).map(|at| at.seq)
    }

    fn phase_name(&self) -> &'static str {
        phase_name(self.phase)
    }
}

fn phase_name(number: u32) -> &'static str {
    let place = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
    PHASES.get(place).copied().unwrap_or("refinement")
}

impl Session {
    /// Ignites everybody and asks for the first ballots.
    pub(super) fn begin_debate(&mut self, plan: &DebatePlan) {
        for name in plan.personas.iter().chain([&plan.moderator]) {
            let spark = SparkId(self.next_spark);
            let model = self.debate_model(plan, name);
            let (role, persona) = (name.clone(), name.clone());
            let ignited = SparkIgnited { spark, role, persona, model, ..SparkIgnited::default() };
            self.emit(ArenaEvent::SparkIgnited(ignited));
        }
        self.order_time_limit(0);
        self.emit(ArenaEvent::PhaseShifted(PhaseShifted { from: None, to: PHASES[0].to_owned() }));
        self.open_round(Ask::Ballot);
    }

    /// The plan's model for a persona, else the persona's own, else the session's.
    fn debate_model(&self, plan: &DebatePlan, name: &str) -> String {
        let planned =
            plan.models.iter().find(|(persona, _)| persona == name).map(|(_, model)| model.as_str());
        let model = self.spec.as_deref().and_then(|spec| spec.model_for(planned, name));
        model.unwrap_or_default().to_owned()
    }

    /// A debater's or the moderator's call came to nothing: an absence, not an opinion.
    pub(super) fn absent(&mut self, id: SparkId, cause: TurnCause) {
        self.debater_failed(id, cause);
        self.debate_goes_on();
    }

    fn debater_failed(&mut self, id: SparkId, cause: TurnCause) {
        let role = self.sparks.get(&id).map(|spark| spark.role.clone()).unwrap_or_default();
        self.emit(ArenaEvent::RoleFailed(RoleFailed { role, spark: id, cause }));
    }

    /// A spark of the debate was stopped for good.
    pub(super) fn debater_stopped(&mut self, id: SparkId, cause: TurnCause) {
        if self.debate.as_ref().is_some_and(|debate| debate.waits_for(id)) {
            self.debater_failed(id, cause);
        }
        let all_done = self.sparks.values().all(|spark| spark.completed.is_some());
        match self.turn_stop() {
            Some(cause) if all_done => {
                self.reveal_what_there_is();
                self.close_turn(cause, None);
            }
            Some(_) => {}
            None => self.debate_goes_on(),
        }
    }

    /// Takes the next step once nobody's answer is awaited any more.
    pub(super) fn debate_goes_on(&mut self) {
        let Some(debate) = &self.debate else { return };
        if self.turn.is_none() || !debate.waiting.is_empty() || self.turn_stop().is_some() {
            return;
        }
        match debate.ask {
            Ask::Ballot => self.after_ballots(),
            Ask::Propositions => self.after_propositions(),
            Ask::Ratings => self.after_sealed_ratings(),
            Ask::Statement => self.after_statements(),
            Ask::Verdict => self.after_verdict(),
            Ask::Unknown(_) => {}
        }
    }

    fn after_ballots(&mut self) {
        let Some(debate) = &self.debate else { return };
        let heard = debate.debaters.iter().filter(|one| one.ballot.is_some()).count();
        if heard >= 2 {
            return self.open_round(Ask::Propositions);
        }
        let mut causes = debate.absences.iter();
        let first = causes.next().copied().unwrap_or(TurnCause::Incomplete);
        let alike = heard == 0 && causes.all(|cause| *cause == first);
        self.reveal_what_there_is();
        self.finish_debate(if alike { first } else { TurnCause::Incomplete }, None);
    }

    fn after_propositions(&mut self) {
        if self.debate.as_ref().is_some_and(|debate| debate.propositions.is_empty()) {
            self.state_positions();
        }
        self.open_round(Ask::Ratings);
    }

    fn after_sealed_ratings(&mut self) {
        self.probe();
        self.reveal_what_there_is();
        let Some(debate) = &self.debate else { return };
        if let Some(reason) = self.not_worth_it(debate) {
            self.emit(ArenaEvent::DebateGated(DebateGated { reason }));
            return self.ask_for_verdict();
        }
        self.next_phase();
    }

    fn after_statements(&mut self) {
        self.probe();
        let Some(debate) = &self.debate else { return };
        let rounds = debate.plan.as_ref().map(|plan| plan.rounds).unwrap_or_default();
        if debate.phase >= rounds {
            return self.ask_for_verdict();
        }
        match early_end(debate) {
            Some(reason) => {
                self.emit(ArenaEvent::DebateShortened(DebateShortened { reason, limit: None }));
                self.ask_for_verdict();
            }
            None => self.next_phase(),
        }
    }

    fn next_phase(&mut self) {
        let Some(debate) = &self.debate else { return };
        let (from, to) = (debate.phase_name(), phase_name(debate.phase + 1));
        if let Err(shortened) = self.affords_phase(to) {
            self.emit(ArenaEvent::DebateShortened(shortened));
            return self.ask_for_verdict();
        }
        let shifted = PhaseShifted { from: Some(from.to_owned()), to: to.to_owned() };
        self.emit(ArenaEvent::PhaseShifted(shifted));
        self.open_round(Ask::Statement);
    }

    fn ask_for_verdict(&mut self) {
        let from = self.debate.as_ref().map(|debate| debate.phase_name().to_owned());
        self.emit(ArenaEvent::PhaseShifted(PhaseShifted { from, to: VERDICT.to_owned() }));
        self.open_round(Ask::Verdict);
    }

    /// Why talk would add nothing: everybody who has a ballot, at least two, rated every proposition on the same side.
    /// Whoever did not rate may be the dissenter.
    fn not_worth_it(&self, debate: &Debate) -> Option<String> {
        let panel = self.panel(debate);
        let raters = panel.voters.iter().filter(|voter| voter.now.is_some()).count();
        let all = debate.debaters.iter().filter(|one| !one.out).count();
        let on = |n| convergence::ballots::ratings_on(&panel, n);
        let one_side = |n| {
            let ratings = on(n);
            let sign = ratings.first().map_or(0, |(rating, _)| rating.signum());
            sign != 0 && ratings.iter().all(|(rating, _)| rating.signum() == sign)
        };
        let agreed = panel.propositions > 0 && (0..panel.propositions).all(one_side);
        (raters >= 2 && raters == all && agreed).then(|| {
            format!(
                "all {raters} sealed ratings are on the same side of all {} propositions",
                panel.propositions
            )
        })
    }

    /// Measures where the debaters stand after a phase.
    fn probe(&mut self) {
        let Some(debate) = &self.debate else { return };
        let name = debate.plan.as_ref().map(|plan| plan.scorer.clone()).unwrap_or_default();
        let panel = self.panel(debate);
        let measures = convergence::measure(&panel);
        let scored = self.scorers.get(&name).map(|scorer| scorer(&panel)).unwrap_or_default();
        self.emit(ArenaEvent::ConvergenceProbed(ConvergenceProbed {
            phase: debate.phase_name().to_owned(),
            scorer: name,
            score_pm: scored.score_pm,
            parts: scored.parts,
            agreement_pm: measures.agreement_pm,
            polarisation_pm: measures.polarisation_pm,
            movement_pm: measures.movement_pm,
            flips: measures.flips,
            collapse: measures.collapse,
            effective_votes_pm: measures.effective_votes_pm,
        }));
    }

    /// What scorers see of this debate.
    fn panel(&self, debate: &Debate) -> Panel {
        let voter = |one: &Debater| Voter {
            spark: one.spark,
            family: self.family_of(one.spark),
            before: one.before.clone(),
            now: one.last.as_ref().filter(|(phase, _)| *phase == debate.phase).map(|(_, r)| r.clone()),
            explained: self.explained(one),
        };
        let lookup = |at| self.event(at);
        let text = |cast: &EventRef| {
            let ballot = crate::protocol::ballot::ballot_of(*cast, &lookup)?;
            let claims = ballot.claims.join(" ");
            Some(format!("{} {claims} {}", ballot.position, ballot.would_change))
        };
        Panel {
            propositions: debate.count,
            voters: debate.debaters.iter().map(voter).collect(),
            said: debate.cast.iter().map(|casts| casts.iter().filter_map(text).collect()).collect(),
        }
    }

    /// The family of the model a spark speaks with, else what its name tells of; a model without either is a family
    /// of its own.
    fn family_of(&self, id: SparkId) -> String {
        let name = self.sparks.get(&id).map(|spark| spark.model.clone()).unwrap_or_default();
        let stated = self.model_spec(&name).and_then(|model| model.family.clone());
        stated.unwrap_or_else(|| family_in(&name).unwrap_or(&name).to_owned())
    }

    fn explained(&self, one: &Debater) -> Vec<u32> {
        let Some(ratings) = one.ratings else { return Vec::new() };
        let lookup = |at| self.event(at);
        let changes = crate::protocol::ballot::changes_of(ratings, &lookup);
        changes.into_iter().map(|(proposition, _)| proposition).collect()
    }

    /// Opens the sealed ballots, once, with the plain majority of the sealed ratings.
    fn reveal_what_there_is(&mut self) {
        let Some(debate) = &self.debate else { return };
        let ballots: Vec<EventRef> = debate.cast.first().cloned().unwrap_or_default();
        if debate.revealed.is_some() || ballots.is_empty() {
            return;
        }
        let in_order = debate.debaters.iter().filter_map(|one| {
            ballots.iter().find(|at| match self.event(**at) {
                Some(ArenaEvent::BallotCast(cast)) => cast.spark == one.spark,
                _ => false,
            })
        });
        let ballots: Vec<EventRef> = in_order.copied().collect();
        let sealed: Vec<&RatingsCast> = debate
            .debaters
            .iter()
            .filter_map(|one| match self.event(one.sealed?) {
                Some(ArenaEvent::RatingsCast(cast)) => Some(cast),
                _ => None,
            })
            .collect();
        // One voice is no majority, and none is no tie.
        let majority = match sealed.len() {
            0 | 1 => Vec::new(),
            _ => convergence::majority(sealed.iter().map(|cast| cast.ratings.as_slice()), debate.count),
        };
        self.emit(ArenaEvent::BallotsRevealed(BallotsRevealed { ballots, majority }));
    }
}

/// Why a debate need not go on to its last phase.
fn early_end(debate: &Debate) -> Option<String> {
    let heard = debate.cast.last().map(Vec::len).unwrap_or_default();
    let [.., before, last] = debate.probes.as_slice() else { return None };
    if heard == 0 {
        return Some("no debater could be heard in this phase".to_owned());
    }
    if let Some(reason) = agreement_held(debate, before, last) {
        return Some(reason);
    }
    // The sealed probe has no movement of its own: it is the first.
    let moved = debate.probes.get(1..).unwrap_or_default();
    match moved {
        [.., before, last] if before.is_still && last.is_still => {
            Some("nothing moved in two phases".to_owned())
        }
        _ => None,
    }
}

/// Agreement that held: in both phases, and of everybody who is still asked. Dissent that was absent from one of them
/// has not agreed.
fn agreement_held(debate: &Debate, before: &Probe, last: &Probe) -> Option<String> {
    let agreed = |probe: &Probe| {
        let score_pm = probe.score_pm?;
        (score_pm.min(probe.least_pm?) >= AGREED_PM && !probe.collapse).then_some((score_pm + 5) / 10)
    };
    let (first, second) = (agreed(before)?, agreed(last)?);
    let mut asked = debate.debaters.iter().filter(|one| !one.out).map(|one| one.spark);
    let same = before.voices == last.voices && asked.all(|spark| last.voices.contains(&spark));
    same.then(|| {
        let voices = last.voices.len();
        format!(
            "agreement of the same {voices} voices held for two phases ({first}\u{a0}% and {second}\u{a0}%)"
        )
    })
}

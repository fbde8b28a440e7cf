//! The order of a squad's steps: who can begin, who is sent back, when the lead answers.

use crate::protocol::event::{
    ArenaEvent, InsightSurfaced, Notice, PhaseShifted, RoleFailed, TurnCause, WorkJudged,
};
use crate::protocol::{EventRef, SparkId};
use crate::session::Session;

use super::cache::Next;
use super::state::{RoleKind, RoleState, Squad, Stage};

/// What a squad does next.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// The lead ended while the whole turn was being stopped, and then the session was taken up again.
    GiveUp(TurnCause),
    /// A writer's work is proven further.
    Prove(usize),
    /// A role is given its task.
    Begin(usize),
    /// A role is given its work back.
    SendBack(usize),
    /// The lead writes the answer.
    Answer,
    /// The lead's answer is there, and the workspace was looked at.
    Finish,
    /// Something about the team cache.
    Cache(Next),
}

impl Session {
    /// Takes every step that has become possible.
    pub(in crate::session) fn advance_squad(&mut self) {
        while let Some(step) = self.next_step() {
            match step {
                Step::GiveUp(cause) => return self.give_up(cause),
                Step::Prove(i) => self.prove(i),
                Step::Begin(i) => self.begin_role(i),
                Step::SendBack(i) => self.send_back(i),
                Step::Answer => self.ask_for_answer(),
                Step::Finish => self.finish_answer(),
                Step::Cache(next) => self.take_cache_step(next),
            }
        }
    }

    /// The next step, if one can be taken now.
    fn next_step(&self) -> Option<Step> {
        let squad = self.squad.as_ref()?;
        let turn = self.turn.as_ref()?;
        if let Some(next) = self.last_cache_step() {
            return Some(Step::Cache(next));
        }
        if self.checkpoints.is_comparing() || turn.stopping.is_some() || self.stopping.is_some() {
            return None;
        }
        if let Stage::Failed(cause) = squad.roles.get(squad.lead)?.stage {
            return Some(Step::GiveUp(cause));
        }
        if let Some(next) = self.cache_step() {
            return Some(Step::Cache(next));
        }
        let lead = squad.roles.get(squad.lead)?;
        if squad.is_answering() && lead.stage == Stage::Proving && lead.proof.awaited.is_none() {
            return Some(Step::Finish);
        }
        if squad.cache.is_looking() || squad.is_answering() {
            return None;
        }
        let all = 0..squad.roles.len();
        if let Some(i) = all.clone().find(|i| squad.is_unproven(*i)) {
            return Some(Step::Prove(i));
        }
        let base_awaited = squad.base.is_none() && self.checkpoints.pending.is_some();
        let is_free = |i: usize| !squad.roles[i].writes || (!squad.has_writer_at_work() && !base_awaited);
        if let Some(i) = all.clone().find(|i| squad.is_ready(*i) && is_free(*i)) {
            return Some(Step::Begin(i));
        }
        if let Some(i) = all.clone().find(|i| is_free(*i) && is_wanted_back(squad, *i)) {
            return Some(Step::SendBack(i));
        }
        let quiet = all.clone().all(|i| !squad.roles[i].is_busy() && !squad.is_ready(i));
        (quiet && lead.stage == Stage::Done && lead.tasks == 1).then_some(Step::Answer)
    }

    fn finish_answer(&mut self) {
        let lead = self.squad.as_ref().and_then(|squad| squad.roles.get(squad.lead));
        if let Some((spark, source)) = lead.and_then(|lead| lead.spark.zip(lead.answer)) {
            self.finish(spark, source);
        }
    }

    /// Ends a turn that nobody can answer any more.
    fn give_up(&mut self, cause: TurnCause) {
        let lead = self.squad.as_ref().and_then(|squad| squad.roles.get(squad.lead));
        let Some((role, Some(spark))) = lead.map(|lead| (lead.spec.name.clone(), lead.spark)) else { return };
        self.emit(ArenaEvent::RoleFailed(RoleFailed { role, spark, cause }));
        self.wind_down();
    }

    /// Gives a role its task: who it is in this squad, then what it builds on.
    fn begin_role(&mut self, i: usize) {
        let Some(squad) = &self.squad else { return };
        let role = &squad.roles[i];
        let phase = match (role.kind, role.tasks) {
            (RoleKind::Lead, _) => "plan",
            (RoleKind::Reviewer, _) => "review",
            (RoleKind::Adviser, _) => "advise",
            (RoleKind::Writer, 0) => "code",
            (RoleKind::Writer, _) => "revise",
        };
        let told: Vec<usize> = squad.before(i).into_iter().collect();
        self.shift_phase(phase);
        let Some(spark) = self.ignite(i) else { return };
        let sources = self.sources_for(i, &told);
        let Some(text) = self.task_brief(i, &sources) else { return };
        self.notice(spark, Notice::Brief, &text);
        self.tell(spark, &sources);
        self.say_no_check(i, spark);
        self.think(spark);
    }

    /// A reviewer is told when no check stands behind what it reads.
    fn say_no_check(&mut self, i: usize, spark: SparkId) {
        let Some(squad) = &self.squad else { return };
        if squad.roles[i].kind != RoleKind::Reviewer || !squad.checks.is_empty() {
            return;
        }
        let text = "No check ran: this squad has none. Nothing but what you see yourself shows that the work is right.";
        self.notice(spark, Notice::NoCheck, text);
    }

    /// Gives a role its work back, with the critiques of those who send it and the checks that failed.
    fn send_back(&mut self, i: usize) {
        let Some(squad) = &self.squad else { return };
        let role = &squad.roles[i];
        let Some(spark) = role.spark else { return };
        let critics: Vec<(SparkId, EventRef)> =
            critics(squad, i).filter_map(|critic| Some((critic.spark?, critic.critique?.0))).collect();
        let Some(first) = critics.first().map(|(critic, _)| *critic) else { return };
        let failed = role.proof.ran().filter(|(_, passed)| !passed).map(|(at, _)| (first, at));
        let sources: Vec<(SparkId, EventRef)> = critics.iter().copied().chain(failed).collect();
        self.shift_phase("revise");
        let text = self.revision_brief(i, &sources);
        self.notice(spark, Notice::Brief, &text);
        self.tell(spark, &sources);
        self.think(spark);
    }

    /// Nobody else has anything to do: the others are done, and the lead answers.
    fn ask_for_answer(&mut self) {
        let Some(squad) = &self.squad else { return };
        let lead = squad.lead;
        let others = squad.roles.iter().enumerate().filter(|(i, _)| *i != lead);
        let others: Vec<(usize, Option<SparkId>)> = others.map(|(i, role)| (i, role.spark)).collect();
        let Some(spark) = squad.roles.get(lead).and_then(|role| role.spark) else { return };
        self.shift_phase("answer");
        for other in others.iter().filter_map(|(_, spark)| *spark) {
            self.end_spark(other, TurnCause::Done);
        }
        let roles: Vec<usize> = others.iter().map(|(i, _)| *i).collect();
        let mut sources = self.sources_for(lead, &roles);
        sources.sort_by_key(|(_, at)| *at);
        let text = self.answer_brief(lead, &sources);
        self.notice(spark, Notice::Brief, &text);
        self.tell(spark, &sources);
        self.think(spark);
    }

    /// What a role has not been told yet of what others left: answers, diffs, checks, critiques.
    fn sources_for(&self, i: usize, others: &[usize]) -> Vec<(SparkId, EventRef)> {
        let Some(squad) = &self.squad else { return Vec::new() };
        let known = &squad.roles[i].told;
        let mut sources = Vec::new();
        for other in others.iter().filter_map(|other| squad.roles.get(*other)) {
            let Some(spark) = other.spark else { continue };
            // A judgement is passed on with the session's ids, not in the reviewer's own words.
            let said = match other.kind {
                RoleKind::Reviewer => other.critique.map(|(at, _)| at),
                _ => other.answer,
            };
            let diff = other.proof.work.as_ref().and_then(WorkJudged::shown);
            let last = said.into_iter().chain(diff).chain(other.proof.ran().map(|(at, _)| at));
            // The lead sees how it came about; of the diffs only the last, which holds the others.
            let all: Vec<EventRef> = match i == squad.lead {
                true => other.history.iter().copied().chain(diff).collect(),
                false => last.collect(),
            };
            sources.extend(all.into_iter().filter(|at| !known.contains(at)).map(|at| (spark, at)));
        }
        sources
    }

    fn tell(&mut self, to: SparkId, sources: &[(SparkId, EventRef)]) {
        for (from, source) in sources {
            let insight = InsightSurfaced { from: *from, to, source: *source };
            self.emit(ArenaEvent::InsightSurfaced(insight));
        }
    }

    /// Names the step the squad is at, once.
    pub(super) fn shift_phase(&mut self, to: &str) {
        let from = self.squad.as_ref().and_then(|squad| squad.phase.clone());
        if from.as_deref() != Some(to) {
            self.emit(ArenaEvent::PhaseShifted(PhaseShifted { from, to: to.to_owned() }));
        }
    }
}

/// The reviewers who send a role back, as long as they may: those who ask for changes, and all once a check did not
/// pass, since no word stands for a check.
fn critics(squad: &Squad, role: usize) -> impl Iterator<Item = &RoleState> {
    let target = squad.roles.get(role);
    squad.roles.iter().filter(move |critic| {
        let names = target.is_some_and(|target| critic.spec.revise.contains(&target.spec.name));
        let told = target.and_then(|target| target.spark).is_some_and(|spark| critic.sent.contains(&spark));
        let may = critic.sent_back < critic.spec.revisions || !critic.sent.is_empty();
        let asks = critic.wants_changes() || target.is_some_and(|target| target.proof.was_failed());
        critic.stage == Stage::Done && critic.critique.is_some() && asks && names && !told && may
    })
}

/// True when a role is to do its work again and everybody who looks at it has finished looking.
fn is_wanted_back(squad: &Squad, role: usize) -> bool {
    let is_done = squad.roles.get(role).is_some_and(|state| state.stage == Stage::Done);
    let watched =
        squad.roles.iter().enumerate().any(|(i, other)| other.is_busy() && squad.before(i).contains(&role));
    is_done && !watched && critics(squad, role).next().is_some()
}

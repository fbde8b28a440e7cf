//! The fold of what only debates decide; takes no decision.

use crate::protocol::event::{
    ArenaEvent, Ask, BallotCast, ConvergenceProbed, Rated, RatingsCast, RequestPart, RoleFailed, RoundOpened,
    SparkIgnited,
};
use crate::protocol::message::Role;
use crate::protocol::spec::{Risk, is_chosen};
use crate::protocol::{EventRef, SparkId};
use crate::session::Session;
use crate::session::state::{Item, Turn};

use super::{Debate, Debater, PHASES, Probe, STILL_PM, VERDICT};

impl Session {
    /// Folds an event of the open debate.
    pub(in crate::session) fn fold_debate(&mut self, at: EventRef, event: &ArenaEvent) {
        use ArenaEvent as E;
        if let E::RoundOpened(data) = event {
            return self.fold_round(at, data);
        }
        let Some(debate) = self.debate.as_mut() else { return };
        match event {
            E::PhaseShifted(data) if data.to != VERDICT => {
                debate.phase += 1;
                debate.cast.push(Vec::new());
            }
            E::BallotCast(data) => debate.fold_ballot(at, data),
            E::RatingsCast(data) => debate.fold_ratings(at, data),
            E::PropositionsStated(data) => {
                debate.propositions.clone_from(&data.source);
                debate.count = data.count;
                debate.waiting.clear();
            }
            E::BallotsRevealed(data) => debate.revealed = Some((at, data.majority.clone())),
            E::ConvergenceProbed(data) => debate.fold_probe(data),
            E::DebateShortened(data) => debate.limit.clone_from(&data.limit),
            E::RoleFailed(data) => debate.fold_failed(data),
            E::VerdictReached(_) => {
                debate.verdict = Some(at);
                debate.waiting.clear();
            }
            _ => {}
        }
    }

    /// A new set of calls: each reader starts from its persona, the question and what it is shown, so that
    /// requests do not grow with the phases.
    fn fold_round(&mut self, at: EventRef, data: &RoundOpened) {
        let gathers = data.ask == Ask::Statement && data.phase == PHASES[2];
        let parts = self.parts_for(data);
        let Some(debate) = self.debate.as_mut() else { return };
        debate.round = data.round;
        debate.opened = Some(at);
        (debate.ask, debate.parts) = (data.ask, parts);
        debate.waiting = data.order.iter().map(|order| order.spark).collect();
        debate.tools.clear();
        for (place, order) in data.order.iter().enumerate() {
            let shown = (data.ask != Ask::Ballot).then(|| format!("/order/{place}"));
            self.fold_reader(at, order.spark, shown);
            if gathers {
                let tools = self.reading_tools(order.spark);
                if let Some(debate) = self.debate.as_mut() {
                    debate.tools.insert(order.spark, tools);
                }
            }
        }
    }

    fn fold_reader(&mut self, at: EventRef, id: SparkId, shown: Option<String>) {
        let Some(persona) = self.sparks.get(&id).map(|spark| spark.persona.clone()) else { return };
        let user =
            |from: EventRef, sel: Option<String>| Item::new(RequestPart { role: Role::User, from, sel });
        let mut transcript: Vec<Item> = self.head(&persona).into_iter().map(Item::new).collect();
        transcript.extend(self.turn.iter().flat_map(Turn::asked).map(|at| user(at, None)));
        let steering = self.debate.iter().flat_map(|debate| &debate.steering);
        let own = steering.filter(|(to, _)| to.is_none_or(|to| to == id));
        transcript.extend(own.map(|(_, at)| user(*at, None)));
        transcript.extend(shown.map(|sel| user(at, Some(sel))));
        let Some(spark) = self.sparks.get_mut(&id) else { return };
        spark.set_transcript(transcript);
        spark.queue.clear();
        spark.uses.clear();
        spark.recent.clear();
        spark.warned = false;
        spark.rejected = 0;
        spark.compacted = 0;
        spark.answer = None;
    }

    /// Tools that only look, of those the persona has.
    fn reading_tools(&self, id: SparkId) -> Vec<String> {
        let persona = self.sparks.get(&id).map(|spark| spark.persona.as_str());
        let personas = self.spec.iter().flat_map(|spec| &spec.personas);
        let own = personas.into_iter().find(|one| Some(one.id.as_str()) == persona);
        let own = own.and_then(|one| one.tools.as_ref());
        let tools = self.places.tools.values().map(|tool| &tool.spec);
        tools
            .filter(|tool| tool.risk == Risk::Read && own.is_none_or(|list| is_chosen(list, tool)))
            .map(|tool| tool.name.clone())
            .collect()
    }

    pub(in crate::session) fn fold_debater(&mut self, data: &SparkIgnited) {
        let Some(debate) = self.debate.as_mut() else { return };
        if debate.plan.as_ref().is_some_and(|plan| plan.moderator == data.role) {
            debate.moderator = Some(data.spark);
            return;
        }
        debate.debaters.push(Debater {
            spark: data.spark,
            name: data.role.clone(),
            ballot: None,
            sealed: None,
            ratings: None,
            course: Vec::new(),
            last: None,
            before: None,
            out: false,
        });
    }

    /// A person's words reach every debater, or the one they are for, now and in every later phase.
    pub(in crate::session) fn fold_debate_steering(&mut self, at: EventRef, spark: Option<SparkId>) {
        let Some(debate) = self.debate.as_mut() else { return };
        debate.steering.push((spark, at));
        let now: Vec<SparkId> = match spark {
            Some(one) => debate.waiting.iter().filter(|id| **id == one).copied().collect(),
            None => debate.waiting.iter().copied().collect(),
        };
        for id in now {
            self.enqueue(id, RequestPart { role: Role::User, from: at, sel: None });
        }
    }

    /// A debater that was stopped is not asked again.
    pub(in crate::session) fn fold_debater_completed(&mut self, id: SparkId) {
        let Some(debate) = self.debate.as_mut() else { return };
        if debate.moderator == Some(id) {
            debate.moderator = None;
        }
        if let Some(one) = debate.debaters.iter_mut().find(|one| one.spark == id) {
            one.out = true;
        }
    }

    pub(in crate::session) fn fold_debate_result(&mut self, at: EventRef) {
        if let Some(debate) = self.debate.as_mut() {
            debate.results.insert(at);
        }
    }
}

impl Debate {
    fn fold_ballot(&mut self, at: EventRef, data: &BallotCast) {
        let read = self.opened.unwrap_or(at);
        if let Some(casts) = self.cast.last_mut() {
            casts.push(at);
        }
        if let Some(one) = self.debaters.iter_mut().find(|one| one.spark == data.spark) {
            one.ballot = Some((at, read));
        }
        if self.ask == Ask::Ballot {
            self.waiting.remove(&data.spark);
        }
    }

    fn fold_ratings(&mut self, at: EventRef, data: &RatingsCast) {
        let phase = self.phase;
        let read = self.opened.unwrap_or(at);
        if let Some(one) = self.debaters.iter_mut().find(|one| one.spark == data.spark) {
            one.before = one.last.take().map(|(_, ratings)| ratings);
            one.last = Some((phase, data.ratings.clone()));
            one.ratings = Some(at);
            one.course.push(Rated { ratings: at, read });
            if data.sealed {
                one.sealed = Some(at);
            }
        }
        self.waiting.remove(&data.spark);
    }

    /// Movement compares a voice with itself: one that rates for the first time is news, and one voice alone or none
    /// is no standstill.
    fn fold_probe(&mut self, data: &ConvergenceProbed) {
        let spoke = |one: &&Debater| one.last.as_ref().is_some_and(|(phase, _)| *phase == self.phase);
        let (again, new): (Vec<_>, Vec<_>) =
            self.debaters.iter().filter(spoke).partition(|one| one.before.is_some());
        let moved_little = data.movement_pm.is_some_and(|moved| moved < STILL_PM);
        let is_still = new.is_empty() && again.len() >= 2 && moved_little;
        let voices = again.iter().chain(&new).map(|one| one.spark).collect();
        // `None` is the least: what could not be measured on one proposition is no agreement.
        let least_pm = data.agreement_pm.iter().copied().min().flatten();
        let (score_pm, collapse) = (data.score_pm, data.collapse);
        self.probes.push(Probe { score_pm, least_pm, voices, is_still, collapse });
    }

    fn fold_failed(&mut self, data: &RoleFailed) {
        self.waiting.remove(&data.spark);
        if let Some(one) = self.debaters.iter_mut().find(|one| one.spark == data.spark) {
            self.absences.push(data.cause);
            // Whoever has no first ballot has no position to argue from and no sealed vote.
            one.out |= one.ballot.is_none();
        }
    }
}

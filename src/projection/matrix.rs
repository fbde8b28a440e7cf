//! A debate as a matrix: who holds what how firmly in each phase, and what the probes measured; judges nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::projection::phrases;
use crate::projection::report::debate::is_overruled;
use crate::protocol::event::{Ask, ConvergenceProbed, Rating, RoundOpened};
use crate::protocol::spec::Mode;
use crate::protocol::{ArenaEvent, Entry, EventRef, SparkId};

/// What one debater said in one phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stand {
    /// The answer that holds the ballot, else the ratings.
    pub source: Option<EventRef>,
    /// Confidence of the ballot, per mille.
    pub confidence_pm: Option<u32>,
    /// The ratings, one per proposition.
    pub ratings: Vec<Rating>,
}

/// One phase, in the order the phases were entered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Which of those of its name, from 1: a debate may be refined more than once.
    pub nth: u32,
    /// True when its ballots were cast before any was shown.
    pub sealed: bool,
    /// Who said what.
    pub stands: BTreeMap<SparkId, Stand>,
    /// What was measured at its end.
    pub probe: Option<ConvergenceProbed>,
}

impl Phase {
    /// Its name as people read it, numbered from the second of the same name on.
    pub fn label(&self) -> String {
        let name = phrases::spaced(&self.name);
        if self.nth > 1 { format!("{name} {}", self.nth) } else { name }
    }
}

impl Matrix {
    /// Propositions, from 0, on which most who rated them end on the other side of the moderator's ruling.
    pub fn overruled(&self) -> Vec<u32> {
        let ruled = self.upheld.iter().flatten().filter(|_| self.verdict_pm.is_some());
        let against = |(n, side): &(u32, &i8)| is_overruled(**side, &self.last_ratings(*n));
        (0u32..).zip(ruled).filter(against).map(|(n, _)| n).collect()
    }

    /// How many cast a ballot.
    pub fn cast(&self) -> usize {
        let stands = self.phases.iter().flat_map(|phase| &phase.stands);
        stands
            .filter(|(_, stand)| stand.confidence_pm.is_some())
            .map(|(spark, _)| spark)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// What one of them rated last.
    pub fn rated_last(&self, spark: SparkId) -> Option<&[Rating]> {
        let stands = self.phases.iter().rev().filter_map(|phase| phase.stands.get(&spark));
        stands.map(|stand| stand.ratings.as_slice()).find(|ratings| !ratings.is_empty())
    }

    /// Everybody's last rating of a proposition.
    pub fn last_ratings(&self, proposition: u32) -> Vec<i8> {
        let mut last: BTreeMap<SparkId, i8> = BTreeMap::new();
        for (spark, stand) in self.phases.iter().flat_map(|phase| &phase.stands) {
            let rated = stand.ratings.iter().find(|rating| rating.proposition == proposition);
            last.extend(rated.map(|rating| (*spark, rating.rating)));
        }
        last.into_values().collect()
    }
}

/// The newest debate of a session; what is asked of others afterwards leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    /// The phases that were entered.
    pub phases: Vec<Phase>,
    /// How many propositions are in dispute.
    pub propositions: u32,
    /// The answers that state them.
    pub stated: Vec<EventRef>,
    /// True until the first ballots are revealed: no view shows a position.
    pub is_sealed: bool,
    /// The plain majority of the sealed ratings, per proposition; empty where there is none.
    pub majority: Vec<i8>,
    /// The `ballots_revealed`.
    revealed: Option<EventRef>,
    /// The last `round_opened`.
    pub round: Option<EventRef>,
    /// How many were asked for a ballot.
    pub asked: usize,
    /// True once anybody was asked after the seal was broken.
    pub has_talked: bool,
    /// The probe that waits for the ballots to be revealed.
    pub held: Option<EventRef>,
    /// Per proposition: 1 upheld, -1 rejected, 0 left open; none before the verdict.
    pub upheld: Option<Vec<i8>>,
    /// Confidence of the verdict, per mille; none where the sealed majority stands in for it.
    pub verdict_pm: Option<u32>,
    /// Who stands against the verdict, and on which propositions.
    pub dissent: Vec<(SparkId, Vec<u32>)>,
    /// Why it was not worth a debate.
    pub gated: Option<String>,
}

impl Matrix {
    /// That of a debate before its first ballot.
    pub fn sealed() -> Self {
        Matrix { is_sealed: true, ..Matrix::default() }
    }

    /// Folds one entry.
    pub fn apply(&mut self, entry: &Entry) {
        for (at, event) in entry.effective() {
            self.apply_event(at, event);
        }
    }

    /// Folds one event.
    pub fn apply_event(&mut self, at: EventRef, event: &ArenaEvent) {
        use ArenaEvent as E;
        match event {
            E::PromptGiven(data) if matches!(data.mode, Mode::Debate(_)) => {
                *self = Matrix::sealed();
            }
            E::RoundOpened(data) => self.round(at, data),
            E::BallotCast(data) => {
                self.phase(&data.phase).sealed |= data.sealed;
                let stand = self.stand(&data.phase, data.spark);
                (stand.source, stand.confidence_pm) = (Some(data.source), Some(data.confidence_pm));
            }
            E::PropositionsStated(data) => {
                self.propositions = data.count;
                self.stated.clone_from(&data.source);
            }
            E::RatingsCast(data) => {
                self.phase(&data.phase).sealed |= data.sealed;
                let stand = self.stand(&data.phase, data.spark);
                stand.source.get_or_insert(data.source);
                stand.ratings.clone_from(&data.ratings);
            }
            E::BallotsRevealed(data) => {
                self.is_sealed = false;
                self.held = None;
                self.revealed = Some(at);
                self.majority.clone_from(&data.majority);
            }
            E::ConvergenceProbed(data) => {
                self.held = self.is_sealed.then_some(at).or(self.held);
                self.phase(&data.phase).probe = Some(data.clone());
            }
            E::DebateGated(data) => {
                self.is_sealed = false;
                self.gated = Some(data.reason.clone());
            }
            E::VerdictReached(data) => {
                self.upheld = Some(data.upheld.clone());
                self.verdict_pm = Some(data.confidence_pm).filter(|_| self.revealed != Some(data.source));
            }
            E::DissentRecorded(data) => self.dissent.push((data.spark, data.propositions.clone())),
            E::TurnClosed(_) => self.is_sealed = false,
            _ => {}
        }
    }

    /// What the moderator is asked belongs to no phase; a name that was probed already begins anew.
    fn round(&mut self, at: EventRef, round: &RoundOpened) {
        self.round = Some(at);
        self.has_talked |= round.ask == Ask::Statement;
        self.asked = self.asked.max(round.order.len());
        let continues =
            self.phases.last().is_some_and(|last| last.name == round.phase && last.probe.is_none());
        if !continues && !matches!(round.ask, Ask::Propositions | Ask::Verdict) {
            let nth = 1 + self.phases.iter().filter(|phase| phase.name == round.phase).count();
            let nth = u32::try_from(nth).unwrap_or(u32::MAX);
            self.phases.push(Phase { name: round.phase.clone(), nth, ..Phase::default() });
        }
    }

    /// The newest phase of a name.
    fn phase(&mut self, name: &str) -> &mut Phase {
        let at = self.phases.iter().rposition(|phase| phase.name == name).unwrap_or_else(|| {
            self.phases.push(Phase { name: name.to_owned(), nth: 1, ..Phase::default() });
            self.phases.len() - 1
        });
        &mut self.phases[at]
    }

    fn stand(&mut self, phase: &str, spark: SparkId) -> &mut Stand {
        self.phase(phase).stands.entry(spark).or_default()
    }
}

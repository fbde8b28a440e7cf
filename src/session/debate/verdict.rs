//! How a debate ends: the moderator's verdict, the sealed majority or nothing decided, and who still disagrees.

use crate::protocol::ballot::Verdict;
use crate::protocol::event::{ArenaEvent, DissentRecorded, SparkCompleted, TurnCause, VerdictReached};
use crate::protocol::{EventRef, SparkId};
use crate::session::Session;

use super::Debate;

impl Debate {
    /// True when fewer than half of the debaters were heard in the last phase.
    fn is_thin(&self) -> bool {
        let heard = self.cast.last().map_or(0, Vec::len);
        heard * 2 < self.debaters.len()
    }
}

impl Session {
    /// Records the moderator's verdict and what it differs from.
    pub(super) fn take_verdict(&mut self, source: EventRef, verdict: Option<Verdict>) {
        let (Some(debate), Some(verdict)) = (&self.debate, verdict) else { return };
        let mut upheld = vec![0i8; usize::try_from(debate.count).unwrap_or_default()];
        for ruling in &verdict.rulings {
            let place = usize::try_from(ruling.proposition).ok().and_then(|n| n.checked_sub(1));
            if let Some(place) = place.and_then(|place| upheld.get_mut(place)) {
                *place = ruling.stance.sign();
            }
        }
        let majority = debate.revealed.as_ref().map(|(_, majority)| majority.as_slice()).unwrap_or_default();
        let parted = (0u32..).zip(majority.iter().zip(&upheld));
        let differs =
            parted.filter(|(_, (vote, ruling))| **vote != 0 && vote != ruling).map(|(n, _)| n).collect();
        let confidence_pm = verdict.confidence.saturating_mul(10);
        let reached = VerdictReached { source, upheld: upheld.clone(), confidence_pm, differs };
        self.emit(ArenaEvent::VerdictReached(reached));
        self.flag_rulings(source, &verdict.rulings);
        self.record_dissent(&upheld);
    }

    /// Everybody whose last ratings are on the other side of what was ruled.
    fn record_dissent(&mut self, upheld: &[i8]) {
        let Some(debate) = &self.debate else { return };
        let against = |rating: &&crate::protocol::event::Rating| {
            let ruled = usize::try_from(rating.proposition).ok().and_then(|n| upheld.get(n)).copied();
            rating.rating.signum() * ruled.unwrap_or_default() < 0
        };
        let dissents: Vec<DissentRecorded> = debate
            .debaters
            .iter()
            .filter_map(|one| {
                let (_, ratings) = one.last.as_ref()?;
                let propositions: Vec<u32> =
                    ratings.iter().filter(against).map(|rating| rating.proposition).collect();
                let (source, _) = one.ballot.filter(|_| !propositions.is_empty())?;
                Some(DissentRecorded { spark: one.spark, propositions, source })
            })
            .collect();
        for dissent in dissents {
            self.emit(ArenaEvent::DissentRecorded(dissent));
        }
    }

    /// Without a verdict the sealed majority stands where there is one, and the turn says that a role failed. A vote
    /// that was tied on everything, or that nobody cast, decides nothing.
    pub(super) fn after_verdict(&mut self) {
        let Some(debate) = &self.debate else { return };
        if let Some(ArenaEvent::VerdictReached(verdict)) = debate.verdict.and_then(|at| self.event(at)) {
            let answer = verdict.source;
            let cause = if debate.is_thin() { TurnCause::Incomplete } else { TurnCause::Done };
            return self.end_with(cause, Some(answer));
        }
        let vote = debate.revealed.clone().filter(|(_, majority)| majority.iter().any(|side| *side != 0));
        if let Some((source, upheld)) = vote {
            let reached =
                VerdictReached { source, upheld: upheld.clone(), confidence_pm: 0, differs: Vec::new() };
            self.emit(ArenaEvent::VerdictReached(reached));
            self.record_dissent(&upheld);
        }
        self.end_with(TurnCause::Incomplete, None);
    }

    /// Where a limit forbade a phase that was wanted, that is how it ended, whatever was reached.
    fn end_with(&mut self, cause: TurnCause, answer: Option<EventRef>) {
        let Some(limit) = self.debate.as_ref().and_then(|debate| debate.limit.clone()) else {
            return self.finish_debate(cause, answer);
        };
        self.emit(ArenaEvent::LimitReached(limit));
        self.finish_debate(TurnCause::Limit, answer);
    }

    /// Ends every spark of the debate, then the turn.
    pub(super) fn finish_debate(&mut self, cause: TurnCause, answer: Option<EventRef>) {
        let open: Vec<(SparkId, Option<EventRef>)> = self
            .sparks
            .iter()
            .filter(|(_, spark)| spark.completed.is_none())
            .map(|(id, spark)| (*id, spark.answer))
            .collect();
        for (spark, answer) in open {
            self.emit(ArenaEvent::SparkCompleted(SparkCompleted { spark, cause, answer }));
        }
        self.close_turn(cause, answer);
    }
}

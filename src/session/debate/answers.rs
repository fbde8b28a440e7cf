//! Typed answers become events: ballots, propositions, ratings; what the schema cannot check is checked here.

use std::collections::BTreeSet;

use crate::protocol::ballot::{
    self, Ballot, GivenRating, MOST_PROPOSITIONS, Propositions, Ratings, Ruling, Statement, Verdict,
};
use crate::protocol::event::{
    ArenaEvent, Ask, BallotCast, ClaimFlagged, PropositionsStated, Rating, RatingsCast,
};
use crate::protocol::{EventRef, SparkId, fit};
use crate::session::Session;

use super::Debate;

/// The longest piece of an invented reference that is repeated.
const LONGEST: usize = 40;

impl Debate {
    /// True for a result of this debate's tools, and for nothing: common knowledge cites nothing.
    fn may_cite(&self, reference: &str) -> bool {
        let is_result = |at| self.results.contains(&at);
        reference.trim().is_empty() || ballot::reference(reference).is_some_and(is_result)
    }
}

impl Session {
    /// A debater or the moderator gave an answer that fits.
    pub(in crate::session) fn debate_answered(&mut self, id: SparkId) {
        let at = self.sparks.get(&id).and_then(|spark| spark.answer);
        let Some((debate, at)) = self.debate.as_ref().zip(at).filter(|(debate, _)| debate.waits_for(id))
        else {
            return;
        };
        let Some(text) = ballot::answer_text(at, &|at| self.event(at)) else { return };
        match debate.ask {
            Ask::Ballot => self.cast_ballot(id, at, ballot::read::<Ballot>(&text), true),
            Ask::Propositions => {
                let count = ballot::read::<Propositions>(&text).map_or(0, |stated| stated.propositions.len());
                let count = u32::try_from(count).unwrap_or_default();
                self.emit(ArenaEvent::PropositionsStated(PropositionsStated { source: vec![at], count }));
            }
            Ask::Ratings => {
                let ratings = ballot::read::<Ratings>(&text).map(|given| given.ratings).unwrap_or_default();
                self.cast_ratings(id, at, &ratings, true);
            }
            Ask::Statement => {
                let statement = ballot::read::<Statement>(&text);
                let ratings = statement.as_ref().map(|said| said.ratings.clone()).unwrap_or_default();
                self.cast_ballot(id, at, statement.map(|said| said.ballot), false);
                self.cast_ratings(id, at, &ratings, false);
            }
            Ask::Verdict => self.take_verdict(at, ballot::read::<Verdict>(&text)),
            Ask::Unknown(_) => {}
        }
        self.debate_goes_on();
    }

    fn cast_ballot(&mut self, spark: SparkId, source: EventRef, ballot: Option<Ballot>, sealed: bool) {
        let (Some(debate), Some(ballot)) = (&self.debate, ballot) else { return };
        let phase = debate.phase_name().to_owned();
        let cited = (0u32..).zip(&ballot.evidence);
        let unknown: Vec<u32> = cited
            .filter(|(_, evidence)| !debate.may_cite(&evidence.reference))
            .map(|(claim, _)| claim)
            .collect();
        let confidence_pm = ballot.confidence.saturating_mul(10);
        self.emit(ArenaEvent::BallotCast(BallotCast { spark, source, phase, confidence_pm, sealed }));
        for claim in unknown {
            // The reference itself is the persona's own words, which may still be sealed.
            let reason = format!("its evidence {} is no tool result of this debate", claim + 1);
            self.emit(ArenaEvent::ClaimFlagged(ClaimFlagged {
                source,
                claim,
                reason,
                contradicted: false,
                said: None,
            }));
        }
    }

    /// Flags what a verdict cites that is no result; nothing of it is sealed.
    pub(super) fn flag_rulings(&mut self, source: EventRef, rulings: &[Ruling]) {
        let Some(debate) = &self.debate else { return };
        let one = |(claim, ruling): (u32, &Ruling)| {
            let bad = ruling.evidence.iter().filter(|cited| !debate.may_cite(cited));
            let named =
                bad.map(|cited| format!("`{}`", cited.trim().chars().take(LONGEST).collect::<String>()));
            let named: Vec<String> = named.collect();
            let words = match named.as_slice() {
                [] => return None,
                [one] => format!("{one}, which is no tool result of this debate"),
                many => format!("{}, which are no tool results of this debate", many.join(", ")),
            };
            let reason = format!("the ruling on P{} cites {words}", ruling.proposition);
            Some(ClaimFlagged { source, claim, reason, contradicted: false, said: None })
        };
        let flags: Vec<ClaimFlagged> = (0u32..).zip(rulings).filter_map(one).collect();
        for flag in flags {
            self.emit(ArenaEvent::ClaimFlagged(flag));
        }
    }

    fn cast_ratings(&mut self, spark: SparkId, source: EventRef, given: &[GivenRating], sealed: bool) {
        let Some(debate) = &self.debate else { return };
        let phase = debate.phase_name().to_owned();
        let mut ratings: Vec<Rating> = given
            .iter()
            .map(|one| Rating {
                proposition: one.proposition.saturating_sub(1),
                rating: one.rating,
                confidence_pm: one.confidence.saturating_mul(10),
            })
            .collect();
        ratings.sort_by_key(|rating| rating.proposition);
        self.emit(ArenaEvent::RatingsCast(RatingsCast { spark, source, phase, sealed, ratings }));
    }

    /// Without a moderator's list the distinct positions of the ballots serve.
    pub(super) fn state_positions(&mut self) {
        let Some(debate) = &self.debate else { return };
        let lookup = |at| self.event(at);
        let mut seen = BTreeSet::new();
        let ballots = debate.debaters.iter().filter_map(|one| one.ballot).map(|(cast, _)| cast);
        let distinct = ballots.filter(|cast| {
            let position = ballot::ballot_of(*cast, &lookup).map(|ballot| plain(&ballot.position));
            position.is_some_and(|position| seen.insert(position))
        });
        let source: Vec<EventRef> = distinct.take(MOST_PROPOSITIONS).collect();
        let count = u32::try_from(source.len()).unwrap_or_default();
        self.emit(ArenaEvent::PropositionsStated(PropositionsStated { source, count }));
    }

    /// What is wrong with an answer that fits its schema; empty when nothing is.
    pub(in crate::session) fn debate_misfits(&self, id: SparkId, text: &str) -> Vec<String> {
        let Some(debate) = self.debate.as_ref().filter(|debate| debate.waits_for(id)) else {
            return Vec::new();
        };
        let unread = || vec![format!("the answer cannot be read: {}", fit::UNREAD)];
        let count = debate.count;
        match debate.ask {
            Ask::Ballot => ballot::read::<Ballot>(text).map_or_else(unread, |ballot| blank(&ballot)),
            Ask::Propositions => {
                ballot::read::<Propositions>(text).map_or_else(unread, |stated| doubled(&stated))
            }
            Ask::Ratings => ballot::read::<Ratings>(text)
                .map_or_else(unread, |given| uncovered(numbers(&given.ratings), count, "rating")),
            Ask::Statement => ballot::read::<Statement>(text).map_or_else(unread, |said| {
                let mut errors = blank(&said.ballot);
                errors.extend(uncovered(numbers(&said.ratings), count, "rating"));
                let beyond = said.changes.iter().filter(|change| change.proposition > count);
                errors.extend(beyond.map(|change| no_proposition(change.proposition, count)));
                errors
            }),
            Ask::Verdict => ballot::read::<Verdict>(text).map_or_else(unread, |verdict| {
                let rulings = verdict.rulings.iter().map(|ruling| ruling.proposition).collect();
                let mut errors = uncovered(rulings, count, "ruling");
                if verdict.answer.trim().is_empty() {
                    errors.push("`answer` is blank".to_owned());
                }
                errors
            }),
            Ask::Unknown(_) => Vec::new(),
        }
    }
}

fn numbers(ratings: &[GivenRating]) -> Vec<u32> {
    ratings.iter().map(|one| one.proposition).collect()
}

/// Exactly one for each proposition.
fn uncovered(numbers: Vec<u32>, count: u32, what: &str) -> Vec<String> {
    let times = |n: u32| numbers.iter().filter(|number| **number == n).count();
    let mut errors: Vec<String> = (1..=count)
        .filter(|n| times(*n) != 1)
        .map(|n| format!("proposition {n} has {} {what}s; it needs exactly one", times(n)))
        .collect();
    let beyond: BTreeSet<u32> = numbers.into_iter().filter(|n| !(1..=count).contains(n)).collect();
    errors.extend(beyond.into_iter().map(|n| no_proposition(n, count)));
    errors
}

fn no_proposition(n: u32, count: u32) -> String {
    format!("there is no proposition {n}; they are numbered 1 to {count}")
}

fn blank(ballot: &Ballot) -> Vec<String> {
    let mut errors = Vec::new();
    if ballot.position.trim().is_empty() {
        errors.push("`position` is blank".to_owned());
    }
    if ballot.claims.iter().all(|claim| claim.trim().is_empty()) {
        errors.push("`claims` says nothing".to_owned());
    }
    errors
}

fn doubled(stated: &Propositions) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let bad = |text: &&String| text.trim().is_empty() || !seen.insert(plain(text));
    let bad: Vec<_> = stated.propositions.iter().filter(bad).collect();
    bad.into_iter().map(|text| format!("proposition `{text}` is blank or stands there twice")).collect()
}

/// A text without what does not tell two positions apart.
fn plain(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

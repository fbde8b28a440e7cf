//! A debate as a report tells it: plain values, per mille where the log has per mille; folds nothing.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::protocol::event::{ConvergenceProbed, TurnCause};
use crate::protocol::{EventRef, SparkId};

use super::said::{Citation, Evidence};
use super::wording;

/// One debate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct DebateReport {
    /// The turn it was held in, from 1.
    pub turn: u32,
    /// The question, whole.
    pub question: String,
    /// The `prompt_given`.
    pub asked_in: Option<EventRef>,
    /// How far it came.
    pub state: DebateState,
    /// Why it was not worth a debate, where the sealed ballots already agreed.
    pub gated: Option<String>,
    /// Why it ended before its last phase.
    pub shortened: Option<String>,
    /// Persona id of the moderator.
    pub moderator: String,
    /// Scorer of convergence.
    pub scorer: String,
    /// Phases that were planned.
    pub rounds: u32,
    /// The debaters, in the order of the plan.
    pub debaters: Vec<Debater>,
    /// From how many of them there was anything.
    pub heard: Heard,
    /// What was in dispute.
    pub propositions: Vec<Proposition>,
    /// What happened in each phase, in order.
    pub phases: Vec<Phase>,
    /// The verdict, once reached.
    pub verdict: Option<Verdict>,
    /// Whether talk added anything to the sealed vote.
    pub talk: Talk,
    /// Who changed sides, in order.
    pub moves: Vec<Move>,
    /// Propositions, from 0, on which the moderator ruled against more than half of those who had rated them,
    /// written as `P1`.
    #[serde(serialize_with = "names")]
    #[schemars(with = "Vec<String>")]
    pub overruled: Vec<u32>,
    /// Who stands against the verdict.
    pub minority: Vec<Dissent>,
    /// Who had nothing to contribute, when and why.
    pub absences: Vec<Absence>,
}

/// How far a debate came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DebateState {
    /// It is not over, or the log ends before its end.
    #[default]
    Open,
    /// There is a verdict, or the sealed majority stands in for it.
    Decided,
    /// It was not worth a debate; why, in words.
    Gated(String),
    /// It ended without a verdict.
    Ended(TurnCause),
}

/// Why no sealed majority could stand in for a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// Nobody rated before the ballots were revealed.
    NobodyRated,
    /// One voice did, which is no majority.
    OneRated,
    /// The vote was tied on every proposition.
    Tied,
}

/// How many voices a debate rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Heard {
    /// Debaters who were asked.
    pub of: u32,
    /// Of these, those who cast a ballot in any phase.
    pub ever: u32,
    /// Of these, those who cast one in the last phase.
    pub to_the_end: u32,
}

/// One debater.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Debater {
    /// Its persona id.
    pub persona: String,
    /// Its spark; none when it was never ignited.
    pub spark: Option<SparkId>,
    /// What it stands for.
    pub stance: Option<String>,
    /// The model it used, `PROVIDER/MODEL`.
    pub model: String,
    /// Family of that model, if known.
    pub family: Option<String>,
}

/// One proposition in dispute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Proposition {
    /// Its number, from 0; everybody reads `P1` for 0.
    #[serde(rename = "name", serialize_with = "name")]
    #[schemars(with = "String")]
    pub number: u32,
    /// Its words; empty when they cannot be read from the log.
    pub text: String,
    /// The answer that states it.
    pub source: Option<EventRef>,
    /// Plain majority of the sealed ratings: 1 for, -1 against, 0 tied; none before the ballots are
    /// revealed, and where fewer than two rated.
    pub sealed_majority: Option<i8>,
    /// The verdict on it: 1 upheld, -1 rejected, 0 left open; none before the verdict, and where
    /// the sealed majority stands in for it.
    pub verdict: Option<i8>,
    /// True when the verdict differs from the sealed majority.
    pub differs: bool,
    /// The argument that decides it, by the moderator.
    pub because: Option<String>,
    /// What that argument cites.
    pub evidence: Vec<Citation>,
}

/// One phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Phase {
    /// Its name; a number follows where a name comes more than once.
    pub name: String,
    /// True when the ballots of this phase were cast before any was shown.
    pub sealed: bool,
    /// What each debater held, in the debaters' order; those who said nothing are missing.
    pub stands: Vec<Stand>,
    /// What was measured at its end.
    pub probe: Option<ConvergenceProbed>,
}

/// What one debater held in one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Stand {
    /// The debater.
    pub persona: String,
    /// The answer that holds the ballot.
    pub source: Option<EventRef>,
    /// Its position in words.
    pub position: Option<String>,
    /// Confidence of the ballot, per mille.
    pub confidence_pm: Option<u32>,
    /// Why, strongest reason first.
    pub claims: Vec<String>,
    /// What bears that out.
    pub evidence: Vec<Evidence>,
    /// What it said would change its mind.
    pub would_change: Option<String>,
    /// Its ratings.
    pub ratings: Vec<Rated>,
}

impl Stand {
    /// Its rating of a proposition.
    pub fn rating(&self, proposition: u32) -> Option<&Rated> {
        self.ratings.iter().find(|rated| rated.proposition == proposition)
    }
}

/// One rating.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Rated {
    /// Proposition, from 0, written as `P1`.
    #[serde(serialize_with = "name")]
    #[schemars(with = "String")]
    pub proposition: u32,
    /// -2 strongly against to 2 strongly for.
    pub rating: i8,
    /// Confidence, per mille.
    pub confidence_pm: u32,
}

/// One change of side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Move {
    /// Who.
    pub persona: String,
    /// On which proposition, from 0, written as `P1`.
    #[serde(serialize_with = "name")]
    #[schemars(with = "String")]
    pub proposition: u32,
    /// In which phase.
    pub phase: String,
    /// From.
    pub from: i8,
    /// To.
    pub to: i8,
    /// What it had said, before, would change its mind.
    pub condition: Option<String>,
    /// The answer that named the condition.
    pub named_in: Option<EventRef>,
    /// Why it changed sides, in its own words.
    pub because: Option<String>,
    /// The answer that says so.
    pub source: Option<EventRef>,
}

/// The verdict.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Verdict {
    /// The moderator's answer, or the `ballots_revealed` when the sealed majority stands in for it.
    pub source: EventRef,
    /// True when the moderator failed and the sealed majority stands.
    pub is_majority: bool,
    /// The answer to the question, by the moderator.
    pub answer: Option<String>,
    /// Confidence, per mille; none where the sealed majority stands in, for a vote has none.
    pub confidence_pm: Option<u32>,
    /// The best case of those who still disagree, as the moderator tells it.
    pub minority: Option<String>,
    /// What could still go wrong.
    pub open_risks: Vec<String>,
}

/// Whether a plain vote, before any talk, would have said the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Talk {
    /// There is no verdict or no sealed majority to compare.
    #[default]
    Unknown,
    /// The sealed majority stands in for the verdict, so that there is nothing to compare it with.
    IsVote,
    /// There was no talk: nobody was heard after the sealed ballots.
    NoTalk,
    /// The sealed vote was tied on every proposition, and so said nothing.
    VoteTied,
    /// The sealed majority says the same on every proposition on which it was not tied.
    SameAsVote,
    /// It says something else on these, from 0, written as `P1`.
    DiffersOn(
        #[serde(serialize_with = "names")]
        #[schemars(with = "Vec<String>")]
        Vec<u32>,
    ),
}

/// Somebody's lasting dissent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Dissent {
    /// Who.
    pub persona: String,
    /// Against the verdict on these propositions, from 0, written as `P1`.
    #[serde(serialize_with = "names")]
    #[schemars(with = "Vec<String>")]
    pub propositions: Vec<u32>,
    /// Its last position, in its own words.
    pub position: Option<String>,
    /// Its reasons, strongest first.
    pub claims: Vec<String>,
    /// What would change its mind.
    pub would_change: Option<String>,
    /// The answer that says why.
    pub source: EventRef,
}

/// Somebody had nothing to contribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Absence {
    /// Who.
    pub persona: String,
    /// In which phase; none before the first.
    pub phase: Option<String>,
    /// Why, as one of a closed list.
    pub cause: TurnCause,
    /// Why, in words: what its last call really came to.
    pub why: String,
    /// The `role_failed`.
    pub source: EventRef,
}

/// Somebody who was missing for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing<'a> {
    /// Who.
    pub persona: &'a str,
    /// Why, in words.
    pub why: &'a str,
    /// In which phases, in order.
    pub phases: Vec<&'a str>,
    /// The `role_failed` of each.
    pub sources: Vec<EventRef>,
}

impl Missing<'_> {
    /// ` in counterarguments, synthesis`; empty where no phase had begun.
    pub fn when(&self) -> String {
        let phases: Vec<_> = self.phases.iter().map(|phase| wording::spaced(phase)).collect();
        if phases.is_empty() { String::new() } else { format!(" in {}", phases.join(", ")) }
    }
}

/// Programs read the names that people read.
fn name<S: Serializer>(proposition: &u32, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&wording::name(*proposition))
}

fn names<S: Serializer>(propositions: &[u32], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(propositions.iter().copied().map(wording::name))
}

impl Talk {
    /// What a sealed majority, a side for each proposition, says to a verdict that differs from it on some.
    pub fn of(majority: &[i8], differs: &[u32], is_vote: bool) -> Self {
        match (majority, differs) {
            ([], _) => Talk::Unknown,
            _ if is_vote => Talk::IsVote,
            (all, _) if all.iter().all(|side| *side == 0) => Talk::VoteTied,
            (_, []) => Talk::SameAsVote,
            (_, which) => Talk::DiffersOn(which.to_vec()),
        }
    }
}

/// True when a ruling, 1 upheld to -1 rejected, goes against more than half of those who rated.
pub fn is_overruled(ruling: i8, ratings: &[i8]) -> bool {
    let against = ratings.iter().filter(|rating| rating.signum() * ruling.signum() < 0).count();
    against * 2 > ratings.len()
}

impl DebateReport {
    /// Why nothing was decided although two or more were heard: the moderator failed, and no vote could stand in.
    pub fn undecided(&self) -> Option<Undecided> {
        let is_so = self.state == DebateState::Ended(TurnCause::Incomplete) && self.heard.ever >= 2;
        is_so.then(|| {
            let sealed = self.first_rated().filter(|phase| phase.sealed);
            let rated = sealed
                .map_or(0, |phase| phase.stands.iter().filter(|stand| !stand.ratings.is_empty()).count());
            match rated {
                0 => Undecided::NobodyRated,
                1 => Undecided::OneRated,
                _ => Undecided::Tied,
            }
        })
    }

    /// The last phase whose votes were counted, and how many independent votes they were.
    pub fn last_votes(&self) -> Option<(&Phase, u32)> {
        self.phases.iter().rev().find_map(|phase| {
            let votes = phase.probe.as_ref()?.effective_votes_pm.filter(|votes| *votes > 0)?;
            Some((phase, votes))
        })
    }

    /// How each who rated a proposition at all stands to it last: its rating.
    pub fn last_ratings(&self, proposition: u32) -> Vec<i8> {
        let last = |debater: &Debater| {
            let phases = self.phases.iter().rev();
            let stands = phases.filter_map(|phase| phase.stand(&debater.persona));
            stands.filter_map(|stand| stand.rating(proposition)).map(|rated| rated.rating).next()
        };
        self.debaters.iter().filter_map(last).collect()
    }

    /// True when all debaters rated the propositions at some time.
    pub fn all_rated(&self) -> bool {
        let rated = |persona: &str| {
            self.rated().filter_map(|phase| phase.stand(persona)).any(|stand| !stand.ratings.is_empty())
        };
        self.debaters.iter().all(|debater| rated(&debater.persona))
    }

    /// The phases in which anybody rated anything.
    pub fn rated(&self) -> impl DoubleEndedIterator<Item = &Phase> {
        self.phases.iter().filter(|phase| phase.stands.iter().any(|stand| !stand.ratings.is_empty()))
    }

    /// The last of them.
    pub fn last_rated(&self) -> Option<&Phase> {
        self.rated().next_back()
    }

    /// The first of them: the sealed one.
    pub fn first_rated(&self) -> Option<&Phase> {
        self.rated().next()
    }

    /// The phases at whose end something was measured.
    pub fn probes(&self) -> Vec<(&Phase, &ConvergenceProbed)> {
        self.phases.iter().filter_map(|phase| Some((phase, phase.probe.as_ref()?))).collect()
    }

    /// True when the debater crossed over on a proposition in a phase.
    pub fn moved(&self, persona: &str, phase: &str, proposition: u32) -> bool {
        self.moves
            .iter()
            .any(|step| step.persona == persona && step.phase == phase && step.proposition == proposition)
    }

    /// Who was missing for a reason of its own: whoever was asked when all was stopped is not.
    pub fn missing(&self) -> impl Iterator<Item = &Absence> {
        let stopped = |absence: &&Absence| {
            matches!(absence.cause, TurnCause::Stopped | TurnCause::Interrupted)
                && self.state == DebateState::Ended(absence.cause)
        };
        self.absences.iter().filter(move |absence| !stopped(absence))
    }

    /// The same, each with all the phases in which it was missing for the same reason.
    pub fn missing_together(&self) -> Vec<Missing<'_>> {
        let mut all: Vec<Missing<'_>> = Vec::new();
        for absence in self.missing() {
            let known = all.iter_mut().find(|one| one.persona == absence.persona && one.why == absence.why);
            let phase = absence.phase.as_deref();
            match known {
                Some(one) => {
                    one.phases.extend(phase);
                    one.sources.push(absence.source);
                }
                None => all.push(Missing {
                    persona: &absence.persona,
                    why: &absence.why,
                    phases: phase.into_iter().collect(),
                    sources: vec![absence.source],
                }),
            }
        }
        all
    }

    /// What each debater held last, in the debaters' order.
    pub fn last_stands(&self) -> impl Iterator<Item = &Stand> {
        self.debaters.iter().filter_map(|debater| {
            let phases = self.phases.iter().rev();
            phases.filter_map(|phase| phase.stand(&debater.persona)).find(|stand| stand.position.is_some())
        })
    }

    /// True when the debater was absent in a phase.
    pub fn is_absent(&self, persona: &str, phase: &str) -> bool {
        self.absences
            .iter()
            .any(|absence| absence.persona == persona && absence.phase.as_deref() == Some(phase))
    }
}

impl Phase {
    /// What a debater held in it.
    pub fn stand(&self, persona: &str) -> Option<&Stand> {
        self.stands.iter().find(|stand| stand.persona == persona)
    }
}

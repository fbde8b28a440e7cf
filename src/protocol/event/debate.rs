//! Data of the events of a debate; shares and scores are per mille, ratings are -2 to 2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::{EventRef, SparkId};

/// Data of `round_opened`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoundOpened {
    /// Number of the set of parallel calls, from 1.
    pub round: u32,
    /// The phase it belongs to.
    pub phase: String,
    /// For each debater, whose ballots it is shown, in the order they are lettered.
    pub order: Vec<PeerOrder>,
}

/// Whom one debater reads, and in which order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeerOrder {
    /// The reader.
    pub spark: SparkId,
    /// Peer A, B, C, …
    pub peers: Vec<SparkId>,
}

/// Data of `ballot_cast`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BallotCast {
    /// The debater.
    pub spark: SparkId,
    /// The answer that holds the ballot.
    pub source: EventRef,
    /// The phase.
    pub phase: String,
    /// Confidence.
    pub confidence_pm: u32,
    /// True before the ballots are revealed.
    pub sealed: bool,
}

/// Data of `propositions_stated`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PropositionsStated {
    /// Where they come from: the moderator's answer, or one ballot per proposition when it failed.
    pub source: Vec<EventRef>,
    /// How many.
    pub count: u32,
}

/// One rating.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rating {
    /// Proposition, from 0.
    pub proposition: u32,
    /// -2 strongly against to 2 strongly for.
    pub rating: i8,
    /// Confidence.
    pub confidence_pm: u32,
}

/// Data of `ratings_cast`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RatingsCast {
    /// The debater.
    pub spark: SparkId,
    /// The answer they were read from.
    pub source: EventRef,
    /// The phase.
    pub phase: String,
    /// True before the ballots are revealed.
    pub sealed: bool,
    /// One per proposition.
    pub ratings: Vec<Rating>,
}

/// Data of `ballots_revealed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BallotsRevealed {
    /// The sealed ballots, in the debaters' order.
    pub ballots: Vec<EventRef>,
    /// The plain majority of the sealed ratings per proposition: 1 for, -1 against, 0 tied.
    pub majority: Vec<i8>,
}

/// Data of `convergence_probed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConvergenceProbed {
    /// The phase.
    pub phase: String,
    /// The scorer.
    pub scorer: String,
    /// 0 opposed to 1000 agreed.
    pub score_pm: u32,
    /// Agreement per proposition.
    pub agreement_pm: Vec<u32>,
    /// Polarisation.
    pub polarisation_pm: u32,
    /// Movement since the last phase.
    pub movement_pm: u32,
    /// Who crossed over.
    pub flips: Vec<Flip>,
    /// True when dissent vanished without a stated reason.
    pub collapse: bool,
    /// Independent votes by model family, per mille of a vote.
    pub effective_votes_pm: u32,
}

/// One change of side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flip {
    /// Who.
    pub spark: SparkId,
    /// On which proposition.
    pub proposition: u32,
    /// From.
    pub from: i8,
    /// To.
    pub to: i8,
}

/// Data of `debate_gated`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DebateGated {
    /// Why it is not worth a debate.
    pub reason: String,
}

/// Data of `verdict_reached`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictReached {
    /// The moderator's answer.
    pub source: EventRef,
    /// Per proposition: 1 upheld, -1 rejected, 0 left open.
    pub upheld: Vec<i8>,
    /// Confidence.
    pub confidence_pm: u32,
    /// Propositions where it differs from the sealed majority.
    pub differs: Vec<u32>,
}

/// Data of `dissent_recorded`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DissentRecorded {
    /// The debater.
    pub spark: SparkId,
    /// Propositions on which it stands against the verdict.
    pub propositions: Vec<u32>,
    /// The ballot that says why.
    pub source: EventRef,
}

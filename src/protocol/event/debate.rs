//! Data of the events of a debate; shares and scores are per mille, ratings are -2 to 2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::stored::stored;
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
    /// What is asked of each of them.
    #[serde(default)]
    pub ask: Ask,
    /// Where each debater stands when the calls begin, in the debaters' order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub debaters: Vec<Standing>,
    /// Where the propositions are, as `propositions_stated` says; empty before that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub propositions: Vec<EventRef>,
    /// Tool results that are shown to the moderator because a ballot cites them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<EventRef>,
}

stored! {
    /// What a set of debate calls asks for.
    #[derive(Copy, Default, Eq)]
    pub enum Ask of Word {
        /// A first ballot, alone.
        #[default]
        Ballot,
        /// The propositions in dispute, of the moderator.
        Propositions,
        /// Sealed ratings of the propositions, alone.
        Ratings,
        /// A new ballot and new ratings, having read the peers' last ballots.
        Statement,
        /// The verdict, of the moderator.
        Verdict,
    }
}

/// Where a debater stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Standing {
    /// The debater.
    pub spark: SparkId,
    /// Its persona's id, which nobody else is shown.
    pub name: String,
    /// Its last `ballot_cast`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ballot: Option<EventRef>,
    /// The `round_opened` in which that ballot was cast: the letters its text uses are from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<EventRef>,
    /// Its sealed `ratings_cast`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<EventRef>,
    /// Its last `ratings_cast`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratings: Option<EventRef>,
    /// All its ratings in order, for the moderator who has to know who moved, when and why; else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub course: Vec<Rated>,
}

/// Ratings of one phase, and what their writer had read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rated {
    /// The `ratings_cast`.
    pub ratings: EventRef,
    /// The `round_opened` it answers: the letters in its reasons are from there.
    pub read: EventRef,
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
    /// Where they come from: the moderator's answer, or one `ballot_cast` per proposition when it failed.
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
    /// The sealed `ballot_cast`s, in the debaters' order.
    pub ballots: Vec<EventRef>,
    /// The plain majority of the sealed ratings per proposition: 1 for, -1 against, 0 tied; empty where fewer than
    /// two rated, since one voice is no majority.
    pub majority: Vec<i8>,
}

/// Data of `convergence_probed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConvergenceProbed {
    /// The phase.
    pub phase: String,
    /// The scorer.
    pub scorer: String,
    /// 0 opposed to 1000 agreed; none where nothing could be compared.
    pub score_pm: Option<u32>,
    /// What the score was made of, by name, for scorers that have parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<(String, u32)>,
    /// Agreement per proposition; none where fewer than two rated it.
    pub agreement_pm: Vec<Option<u32>>,
    /// Polarisation; none where fewer than two rated.
    pub polarisation_pm: Option<u32>,
    /// Movement since the last phase; none where nobody had rated before.
    pub movement_pm: Option<u32>,
    /// Who crossed over.
    pub flips: Vec<Flip>,
    /// True when dissent vanished without a stated reason.
    pub collapse: bool,
    /// Independent votes by model family, per mille of a vote; none where nobody voted.
    pub effective_votes_pm: Option<u32>,
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

/// Data of `debate_shortened`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DebateShortened {
    /// Why no further phase follows.
    pub reason: String,
    /// The limit that forbids it, where it is one: then more of it lets the debate go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<super::LimitReached>,
}

/// Data of `verdict_reached`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictReached {
    /// The moderator's answer; the `ballots_revealed` when the moderator failed and the sealed majority stands.
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
    /// The `ballot_cast` that says why.
    pub source: EventRef,
}

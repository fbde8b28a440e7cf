//! How far a debate's voices agree: measures and scorers, pure functions over ballots, integers only.
//!
//! A scorer of one's own, registered from Rust. It is named in the plan of each debate, and so in the log; a session
//! that names it is resumed and verified where it is registered, and refused by name elsewhere.
//!
//! ```
//! use std::sync::Arc;
//!
//! use agon::arena::replay;
//! use agon::protocol::spec::{DebatePlan, Mode, ModelSpec, PersonaSpec};
//! use agon::protocol::{ArenaEvent, Command, Entry, StopCause};
//! use agon::provider::script::Script;
//! use agon::session::convergence::{Panel, Scored, Scorers, measure};
//! use agon::{ArenaBuilder, Ending};
//! use tokio_stream::StreamExt;
//!
//! /// Agreement, and nothing at all while anybody still changes sides.
//! fn settled(panel: &Panel) -> Scored {
//!     let measures = measure(panel);
//!     let agreed = measures.agreement_pm.iter().flatten().min().copied();
//!     let score_pm = if measures.flips.is_empty() { agreed } else { Some(0) };
//!     Scored { score_pm, parts: agreed.map(|agreed| ("least agreed".to_owned(), agreed)).into_iter().collect() }
//! }
//!
//! # const SCRIPT: &str = r#"
//! # [[answer]]
//! # expect = "independently"
//! # text = '{"position": "Yes.", "confidence": 80, "claims": ["It works."], "evidence": [], "would_change": "A failure."}'
//! # [[answer]]
//! # spark = "cat"
//! # expect = "you take no side"
//! # text = '{"propositions": ["It should be built."]}'
//! # [[answer]]
//! # expect = "Rate every proposition"
//! # text = '{"ratings": [{"proposition": 1, "rating": 2, "confidence": 80}]}'
//! # [[answer]]
//! # spark = "cat"
//! # expect = "write the verdict"
//! # text = '{"answer": "Build it.", "rulings": [{"proposition": 1, "stance": "upheld", "because": "Nobody is against.", "evidence": []}], "confidence": 80, "minority": "", "risks": []}'
//! # "#;
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let (workspace, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
//! let running = ArenaBuilder::new(workspace.path(), state.path())
//!     .provider("mock", Arc::new(Script::from_toml("mock", SCRIPT)?))
//!     .model(ModelSpec::named("mock/any"))
//!     .persona(PersonaSpec::with_text("ann", "You like to build."))
//!     .persona(PersonaSpec::with_text("ben", "You like to measure."))
//!     .persona(PersonaSpec::with_text("cat", "You moderate."))
//!     .scorer("settled", settled)
//!     .open()
//!     .await?;
//! let plan = DebatePlan {
//!     personas: vec!["ann".to_owned(), "ben".to_owned()],
//!     moderator: "cat".to_owned(),
//!     rounds: 2,
//!     scorer: "settled".to_owned(),
//!     models: vec![],
//! };
//! let mut news = running.arena.subscribe();
//! let text = "Shall we build it?".to_owned();
//! running.arena.submit(Command::Prompt { text, mode: Mode::Debate(plan), schema: None }).await?;
//! while let Some(entry) = news.entries.next().await {
//!     if entry.events.iter().any(|event| matches!(event, ArenaEvent::TurnClosed(_))) {
//!         break;
//!     }
//! }
//! running.arena.submit(Command::Stop { cause: StopCause::Finished }).await?;
//! assert!(matches!(running.arena.ended().await, Ending::Sealed(_)));
//!
//! let lines = running.arena.log().lines(0)?;
//! let log: Vec<Arc<Entry>> = lines.iter().map(|line| serde_json::from_slice(line)).collect::<Result<_, _>>()?;
//! let scorers = Scorers::default().with("settled", settled);
//! assert!(replay::verify_with(&log, &scorers).holds(true));
//! assert_eq!(replay::verify(&log).no_scorer, Some((1, "settled".to_owned())));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod ballots;
pub mod lexical;

use std::collections::BTreeMap;

use crate::protocol::SparkId;
use crate::protocol::event::{Flip, Rating};

/// What a scorer is given: everything that was voted and said so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Panel {
    /// How many propositions there are.
    pub propositions: u32,
    /// Everybody who takes part, in the debaters' order; absent ones without ratings.
    pub voters: Vec<Voter>,
    /// What was said, per phase from the first, one text for each debater who was heard.
    pub said: Vec<Vec<String>>,
}

/// One voice at the moment of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voter {
    /// Who.
    pub spark: SparkId,
    /// Family of the model that speaks; voices of one family err together.
    pub family: String,
    /// The ratings cast before; none when there were none.
    pub before: Option<Vec<Rating>>,
    /// The ratings cast in this phase; none when the voter was absent.
    pub now: Option<Vec<Rating>>,
    /// Propositions, from 0, on which it says why it changed sides.
    pub explained: Vec<u32>,
}

/// A scorer's word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scored {
    /// 0 opposed to 1000 agreed; none where there is nothing to compare, which is no disagreement.
    pub score_pm: Option<u32>,
    /// What it was made of, by name; empty for scorers without parts.
    pub parts: Vec<(String, u32)>,
}

/// A scorer: a pure function, so that the same log gives the same probes.
pub type Scorer = fn(&Panel) -> Scored;

/// Name of the scorer that is used when none is named.
pub const DEFAULT_SCORER: &str = "ballots";

/// Scorers by name. A session decides with those it was given; a log that names another cannot go on.
#[derive(Clone, Debug)]
pub struct Scorers(BTreeMap<String, Scorer>);

impl Default for Scorers {
    /// `ballots` and `lexical`.
    fn default() -> Self {
        let built_in: [(&str, Scorer); 2] = [("ballots", ballots::score), ("lexical", lexical::score)];
        Scorers(built_in.into_iter().map(|(name, scorer)| (name.to_owned(), scorer)).collect())
    }
}

impl Scorers {
    /// Adds a scorer, or replaces the one of that name.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, scorer: Scorer) -> Self {
        self.0.insert(name.into(), scorer);
        self
    }

    /// A scorer by name.
    pub fn get(&self, name: &str) -> Option<Scorer> {
        self.0.get(name).copied()
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// What is measured beside every score, whatever the scorer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// Agreement per proposition; none where fewer than two rated it.
    pub agreement_pm: Vec<Option<u32>>,
    /// How evenly for and against are split, mean over the propositions that two or more rated; none without one.
    pub polarisation_pm: Option<u32>,
    /// How far ratings moved since they were cast before, mean over all that can be compared; none without one.
    pub movement_pm: Option<u32>,
    /// Who crossed from one side to the other.
    pub flips: Vec<Flip>,
    /// True when one side of a proposition emptied and somebody of it did not say why.
    pub collapse: bool,
    /// Independent votes by model family of those who voted, per mille of a vote; none when nobody did.
    pub effective_votes_pm: Option<u32>,
}

/// Measures a panel.
pub fn measure(panel: &Panel) -> Measures {
    let on = |n| ballots::ratings_on(panel, n);
    let propositions = 0..panel.propositions;
    Measures {
        agreement_pm: propositions.clone().map(|n| ballots::agreement(&on(n))).collect(),
        polarisation_pm: mean(propositions.clone().filter_map(|n| polarisation(&on(n)))),
        movement_pm: mean(pairs(panel).map(|(_, _, from, to)| 250 * u32::from(from.abs_diff(to)))),
        flips: flips(panel),
        collapse: propositions.into_iter().any(|n| collapsed(panel, n)),
        effective_votes_pm: effective_votes(panel),
    }
}

/// The plain majority per proposition, a head a vote: 1 for, -1 against, 0 tied.
pub fn majority<'a>(votes: impl Iterator<Item = &'a [Rating]>, propositions: u32) -> Vec<i8> {
    let mut balance = vec![0i64; usize::try_from(propositions).unwrap_or_default()];
    for rating in votes.flatten() {
        if let Some(place) = usize::try_from(rating.proposition).ok().and_then(|n| balance.get_mut(n)) {
            *place += i64::from(rating.rating.signum());
        }
    }
    balance.into_iter().map(|sum| i8::try_from(sum.signum()).unwrap_or_default()).collect()
}

/// The mean, rounded half up; none of nothing.
pub(crate) fn mean(values: impl Iterator<Item = u32>) -> Option<u32> {
    let (mut sum, mut count) = (0u64, 0u64);
    for value in values {
        sum += u64::from(value);
        count += 1;
    }
    let mean = (sum + count / 2).checked_div(count)?;
    Some(u32::try_from(mean).unwrap_or(u32::MAX))
}

/// Every rating that was cast before and is cast again: who, on what, from, to.
fn pairs(panel: &Panel) -> impl Iterator<Item = (&Voter, u32, i8, i8)> {
    panel.voters.iter().flat_map(|voter| {
        let now = voter.now.iter().flatten();
        now.filter_map(move |to| {
            let from = voter.before.iter().flatten().find(|from| from.proposition == to.proposition)?;
            Some((voter, to.proposition, from.rating, to.rating))
        })
    })
}

fn flips(panel: &Panel) -> Vec<Flip> {
    pairs(panel)
        .filter(|(_, _, from, to)| from.signum() * to.signum() < 0)
        .map(|(voter, proposition, from, to)| Flip { spark: voter.spark, proposition, from, to })
        .collect()
}

/// Four times the product of the shares for and against: 1000 for an even split, 0 for one side alone; none where
/// one voice alone rated, or nobody.
fn polarisation(ratings: &[(i8, u32)]) -> Option<u32> {
    let count = |sign: i8| ratings.iter().filter(|(rating, _)| rating.signum() == sign).count() as u64;
    let all = ratings.len() as u64;
    (all >= 2).then(|| u32::try_from(4000 * count(1) * count(-1) / (all * all)).unwrap_or_default())
}

/// Dissent that vanished: both sides were held before, one is held now, and of those who left the empty side
/// at least one gave no reason.
fn collapsed(panel: &Panel, proposition: u32) -> bool {
    let moved: Vec<_> = pairs(panel).filter(|(_, n, ..)| *n == proposition).collect();
    let held = |sign: i8| moved.iter().any(|(_, _, from, _)| from.signum() == sign);
    let empty = |sign: i8| moved.iter().all(|(_, _, _, to)| to.signum() != sign);
    let silent = |sign: i8| {
        moved.iter().any(|(voter, n, from, _)| from.signum() == sign && !voter.explained.contains(n))
    };
    held(1) && held(-1) && [1, -1].into_iter().any(|sign| empty(sign) && silent(sign))
}

/// Share of a vote that a second voice of the same family repeats, per mille: two models give the same wrong
/// answer in about six of ten cases in which both are wrong.
const SAME_FAMILY_PM: u64 = 600;

/// n voices of a family count n / (1 + (n - 1) × 0.6). Families are taken as independent, which flatters them.
fn effective_votes(panel: &Panel) -> Option<u32> {
    let mut families: BTreeMap<&str, u64> = BTreeMap::new();
    for voter in panel.voters.iter().filter(|voter| voter.now.is_some()) {
        *families.entry(&voter.family).or_default() += 1;
    }
    let votes = families.values().map(|n| n * 1_000_000 / (1000 + (n - 1) * SAME_FAMILY_PM)).sum::<u64>();
    (!families.is_empty()).then(|| u32::try_from(votes).unwrap_or(u32::MAX))
}

//! Scorers on panels of fixture ballots: what agrees scores above what only sounds alike.

use agon::protocol::SparkId;
use agon::protocol::event::Rating;
use agon::session::convergence::{Panel, Scorers, Voter, ballots, lexical, measure};

/// Voters with ratings of two propositions each, and what they say in the last phase.
fn panel(voices: &[([i8; 2], &str)]) -> Panel {
    let voter = |(n, (ratings, _)): (usize, &([i8; 2], &str))| Voter {
        spark: SparkId(n as u32 + 1),
        family: format!("family {n}"),
        before: None,
        now: Some(
            (0u32..)
                .zip(ratings)
                .map(|(proposition, rating)| Rating { proposition, rating: *rating, confidence_pm: 800 })
                .collect(),
        ),
        explained: vec![],
    };
    let said = voices.iter().map(|(_, words)| (*words).to_owned()).collect();
    Panel { propositions: 2, voters: voices.iter().enumerate().map(voter).collect(), said: vec![said] }
}

const WORDS: &str =
    "I recommend to migrate the database because the benchmark measured the latency of the cluster.";
const AGAINST: &str =
    "I recommend not to migrate the database because the benchmark measured the latency of the cluster.";

fn agreeing() -> Panel {
    panel(&[([2, 1], WORDS), ([2, 1], WORDS), ([2, 2], WORDS), ([1, 1], WORDS)])
}

fn same_words_opposed() -> Panel {
    panel(&[([2, -2], WORDS), ([-2, 2], AGAINST), ([2, -2], WORDS), ([-2, 2], AGAINST)])
}

fn one_dissenter() -> Panel {
    panel(&[([2, 1], WORDS), ([2, 1], WORDS), ([2, 1], WORDS), ([-2, 1], "The rollback is missing.")])
}

fn evidence_stuffed() -> Panel {
    let stuffed = "because evidence benchmark measured RFC CVE data shows according to example ";
    panel(&[([2, -1], stuffed), ([-2, 1], stuffed), ([1, -2], stuffed), ([-1, 2], stuffed)])
}

fn template() -> Panel {
    let template = "I agree and I recommend the approach of building on the consensus we share.";
    panel(&[([2, 0], template), ([-1, 1], template), ([0, -2], template), ([1, 2], template)])
}

fn failed() -> Panel {
    let mut all = agreeing();
    all.voters.iter_mut().for_each(|voter| voter.now = None);
    all.said = vec![vec![]];
    all
}

#[test]
fn the_default_scorer_orders_what_happened_and_not_what_it_sounds_like() {
    let score = |panel: &Panel| ballots::score(panel).score_pm.unwrap();
    let (agreed, dissent) = (score(&agreeing()), score(&one_dissenter()));
    let (opposed, stuffed, alike) =
        (score(&same_words_opposed()), score(&evidence_stuffed()), score(&template()));
    assert!(agreed > dissent && dissent > alike && alike > opposed, "{agreed} {dissent} {alike} {opposed}");
    assert!(dissent > stuffed, "evidence that is only named moves nothing: {dissent} {stuffed}");
    assert!(agreed >= opposed + 500, "the same words for opposite conclusions: {agreed} and {opposed}");
    assert_eq!(ballots::score(&failed()).score_pm, None, "nobody heard is neither agreement nor its absence");
}

#[test]
fn the_lexical_scorer_fails_as_its_documentation_says() {
    let score = |panel: &Panel| lexical::score(panel).score_pm.unwrap();
    assert!(score(&agreeing()).abs_diff(score(&same_words_opposed())) < 100, "polarity is invisible to it");
    let votes = ballots::score(&template()).score_pm.unwrap();
    assert!(score(&template()) > votes + 200, "templates please it: {} and {votes}", score(&template()));
    assert_eq!(lexical::score(&failed()).score_pm, None);
    let parts: Vec<_> = lexical::score(&agreeing()).parts.into_iter().map(|(name, _)| name).collect();
    assert_eq!(parts, ["agreement", "contradiction", "evidence", "proposal", "speed"]);
}

#[test]
fn voices_of_one_family_count_less() {
    let mut one_family = agreeing();
    one_family.voters.iter_mut().for_each(|voter| voter.family = "f".to_owned());
    assert_eq!(measure(&agreeing()).effective_votes_pm, Some(4000));
    assert_eq!(measure(&one_family).effective_votes_pm, Some(1428));
}

#[test]
fn two_voices_in_the_same_words_are_told_apart_by_votes_and_not_by_words() {
    let agreed = panel(&[([2, -1], WORDS), ([2, -1], WORDS)]);
    let opposed = panel(&[([2, -1], WORDS), ([-2, 1], WORDS)]);
    let by_votes = |panel: &Panel| ballots::score(panel).score_pm.unwrap();
    assert!(by_votes(&agreed) >= by_votes(&opposed) + 500, "{} {}", by_votes(&agreed), by_votes(&opposed));
    let by_words = |panel: &Panel| lexical::score(panel).score_pm;
    assert_eq!(by_words(&agreed), by_words(&opposed), "the words are the same, so is its score");
}

#[test]
fn one_who_is_heard_among_the_failed_is_no_agreement() {
    let mut alone = agreeing();
    alone.voters.iter_mut().skip(1).for_each(|voter| voter.now = None);
    alone.said = vec![vec![WORDS.to_owned()]];
    assert_eq!((ballots::score(&alone).score_pm, lexical::score(&alone).score_pm), (None, None));
    let measures = measure(&alone);
    assert_eq!(
        (measures.agreement_pm, measures.polarisation_pm, measures.movement_pm),
        (vec![None; 2], None, None)
    );
    assert_eq!(measure(&alone).effective_votes_pm, Some(1000));
}

#[test]
fn an_even_split_is_polarised_and_one_side_is_not() {
    assert_eq!(measure(&same_words_opposed()).polarisation_pm, Some(1000));
    assert_eq!(measure(&agreeing()).polarisation_pm, Some(0));
}

#[test]
fn a_scorer_of_ones_own_is_found_by_its_name() {
    fn shout(panel: &Panel) -> agon::session::convergence::Scored {
        agon::session::convergence::Scored { score_pm: Some(panel.propositions), parts: vec![] }
    }
    let scorers = Scorers::default().with("shout", shout);
    assert_eq!(scorers.names().collect::<Vec<_>>(), ["ballots", "lexical", "shout"]);
    assert_eq!(scorers.get("shout").expect("registered")(&agreeing()).score_pm, Some(2));
}

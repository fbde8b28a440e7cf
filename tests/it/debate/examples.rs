//! The worked examples of `docs/convergence.md`: every number in them is computed again.

use std::collections::BTreeMap;

use agon::protocol::SparkId;
use agon::protocol::event::Rating;
use agon::session::convergence::{Panel, Voter, ballots, lexical, measure};

const PAGE: &str = include_str!("../../../docs/convergence.md");

/// The blocks of a kind, each without its fences.
fn blocks(kind: &str) -> Vec<&'static str> {
    let fence = format!("```{kind}\n");
    PAGE.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// `+2 80, -1 70` as ratings.
fn ratings(text: &str) -> Vec<Rating> {
    let one = |(n, text): (usize, &str)| {
        let (rating, sure) = text.trim().split_once(char::is_whitespace).unwrap();
        let confidence_pm = 10 * sure.trim().parse::<u32>().unwrap();
        Rating { proposition: n as u32, rating: rating.parse().unwrap(), confidence_pm }
    };
    text.split(',').enumerate().map(one).collect()
}

fn panel(block: &str) -> Panel {
    let voices = block.lines().filter_map(|line| line.split_once(':'));
    let voters: Vec<Voter> = voices
        .enumerate()
        .map(|(n, (name, rated))| {
            let family = name.split_once('(').map_or(name, |(_, family)| family.trim_end_matches(')'));
            let (before, now) = match rated.split_once("->") {
                Some((before, now)) => (Some(ratings(before)), now),
                None => (None, rated),
            };
            let spark = SparkId(n as u32 + 1);
            Voter { spark, family: family.to_owned(), before, now: Some(ratings(now)), explained: vec![] }
        })
        .collect();
    let propositions = voters[0].now.as_ref().unwrap().len() as u32;
    Panel { propositions, voters, said: vec![] }
}

fn said(block: &str) -> Panel {
    let mut phases: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (who, text) in block.lines().filter_map(|line| line.split_once(": ")) {
        let phase = who.split(' ').next().unwrap().parse().unwrap();
        phases.entry(phase).or_default().push(text.to_owned());
    }
    Panel { said: phases.into_values().collect(), ..Panel::default() }
}

/// What a block claims: a word and its values, one a line.
fn claims(block: &str) -> impl Iterator<Item = (&str, String)> {
    let lines = block.lines().filter(|line| !line.contains(':'));
    lines.filter_map(|line| line.split_once(' ')).map(|(what, value)| (what, value.to_owned()))
}

fn check(block: &str, is: &dyn Fn(&str) -> String, wrong: &mut Vec<String>) -> usize {
    let all: Vec<_> = claims(block).collect();
    for (what, value) in &all {
        let computed = is(what);
        if computed != *value {
            wrong.push(format!("{what} is {computed}, the page says {value}:\n{block}"));
        }
    }
    all.len()
}

/// What was not measured is `none`.
fn value(measured: Option<u32>) -> String {
    measured.map_or("none".to_owned(), |value| value.to_string())
}

#[test]
fn every_number_of_the_page_is_what_comes_out() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    for block in blocks("panel") {
        let panel = panel(block);
        let measures = measure(&panel);
        let is = |what: &str| match what {
            "agreement" => measures.agreement_pm.iter().copied().map(value).collect::<Vec<_>>().join(" "),
            "polarisation" => value(measures.polarisation_pm),
            "movement" => value(measures.movement_pm),
            "flips" => measures.flips.len().to_string(),
            "collapse" => if measures.collapse { "yes" } else { "no" }.to_owned(),
            "votes" => value(measures.effective_votes_pm),
            "score" => value(ballots::score(&panel).score_pm),
            other => panic!("the page claims `{other}`, which is nothing"),
        };
        checked += check(block, &is, &mut wrong);
    }
    for block in blocks("said") {
        let scored = lexical::score(&said(block));
        let is = |what: &str| match what {
            "score" => value(scored.score_pm),
            part => scored.parts.iter().find(|(name, _)| name == part).unwrap().1.to_string(),
        };
        checked += check(block, &is, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked >= 25, "only {checked} numbers were found on the page");
}

//! Tests of reports: what the fold finds, what the writers write, and that nothing of others breaks out.

mod browser;
mod cli;
mod log;
mod markup;
mod run;

use std::sync::Arc;

use agon::projection::Report;
use agon::projection::report::debate::{DebateState, Talk};
use agon::projection::report::{html, markdown, plain};
use agon::protocol::event::TurnCause;
use agon::protocol::{ArenaEvent, Entry, EventRef};
use log::Story;

fn report(story: &Story) -> Report {
    Report::of(&log::debate(story))
}

#[test]
fn a_debate_as_markdown() {
    insta::assert_snapshot!(markdown::page(&report(&Story::of_queue()), Some("hEaD")));
}

#[test]
fn a_debate_as_plain_lines() {
    insta::assert_snapshot!(plain::page(&report(&Story::of_queue())));
}

#[test]
fn the_fold_finds_verdict_vote_moves_minority_and_absences() {
    let report = report(&Story::of_queue());
    let debate = report.debate().unwrap();
    assert_eq!(debate.state, DebateState::Decided);
    assert_eq!(debate.talk, Talk::DiffersOn(vec![1]));
    assert_eq!(debate.verdict.as_ref().unwrap().confidence_pm, Some(740));
    let sides = debate.propositions.iter().map(|each| (each.sealed_majority, each.verdict, each.differs));
    assert_eq!(
        sides.collect::<Vec<_>>(),
        [(Some(1), Some(1), false), (Some(1), Some(-1), true), (Some(1), Some(1), false)]
    );
    let devil = debate.moves.iter().find(|step| step.persona == "devils-advocate").unwrap();
    let story = Story::of_queue();
    assert_eq!(
        (devil.proposition, devil.from, devil.to, devil.phase.as_str()),
        (0, -2, 1, "evidence-assessment")
    );
    assert_eq!(
        (devil.condition.as_ref(), devil.because.as_ref()),
        (Some(&story.condition), Some(&story.because))
    );
    assert!(devil.named_in < devil.source);
    let [dissent] = debate.minority.as_slice() else { panic!("{:?}", debate.minority) };
    assert_eq!((dissent.persona.as_str(), dissent.propositions.as_slice()), ("future-architect", &[1][..]));
    assert_eq!(dissent.position.as_ref(), Some(&story.positions[4]));
    let [absence] = debate.absences.as_slice() else { panic!("{:?}", debate.absences) };
    assert_eq!((absence.persona.as_str(), absence.cause), ("elegance-purist", TurnCause::ModelFailed));
    assert!(debate.is_absent("elegance-purist", "evidence-assessment"));
    assert_eq!(
        debate.phases.iter().map(|phase| phase.sealed).collect::<Vec<_>>(),
        [true, false, false, false]
    );
    assert_eq!(debate.debaters[1].family.as_deref(), Some("birch"));
}

#[test]
fn every_citation_leads_to_an_excerpt() {
    let report = report(&Story::of_queue());
    let page = html::page(&report, None);
    let anchors: Vec<_> = page
        .match_indices("href=\"#")
        .map(|(at, _)| page[at + 7..].split('"').next().unwrap().to_owned())
        .collect();
    assert!(anchors.len() > 30, "{anchors:?}");
    for anchor in anchors {
        assert_eq!(page.matches(&format!("id=\"{anchor}\"")).count(), 1, "{anchor}");
        let at: EventRef = anchor.parse().unwrap();
        assert!(report.excerpts.iter().any(|excerpt| excerpt.at == at && excerpt.kind != "missing"), "{at}");
    }
    let proof = report.excerpts.iter().find(|excerpt| excerpt.kind == "tool_resolved").unwrap();
    assert_eq!(proof.title.as_deref(), Some("read_file {\"path\":\"logs/2026-03-14.log\"}"));
    assert_eq!(proof.who.as_deref(), Some("pragmatist"));
    assert!(proof.text.contains("SIGKILL"));
}

#[test]
fn sealed_ballots_stay_sealed() {
    let entries = log::debate(&Story::of_queue());
    let is_reveal =
        |entry: &Arc<Entry>| entry.events.iter().any(|event| matches!(event, ArenaEvent::BallotsRevealed(_)));
    let reveal = entries.iter().position(is_reveal).unwrap();
    let report = Report::of(&entries[..reveal]);
    assert_eq!(report.debate().unwrap().state, DebateState::Open);
    let phase = &report.debate().unwrap().phases[0];
    assert_eq!(phase.stands.len(), 6);
    assert!(phase.probe.is_none());
    for stand in &phase.stands {
        assert!(stand.ratings.is_empty() && stand.position.is_none() && stand.confidence_pm.is_none());
    }
    for text in [html::page(&report, None), markdown::page(&report, None), plain::page(&report)] {
        for position in &Story::of_queue().positions {
            assert!(!text.contains(position.as_str()), "{position}");
        }
    }
    let report = Report::of(&entries[..=reveal]);
    assert_eq!(report.debate().unwrap().phases[0].stands[0].ratings.len(), 3);
}

#[test]
fn any_part_of_a_log_has_a_report() {
    let entries = log::debate(&Story::of_queue());
    let written = |entries: &[Arc<Entry>]| {
        let report = Report::of(entries);
        let page = html::page(&report, None);
        assert!(page.ends_with("</html>\n") && !plain::page(&report).is_empty());
        assert!(!markdown::page(&report, None).is_empty());
    };
    for cut in 0..entries.len() {
        written(&entries[..cut]);
        written(&entries[cut..]);
        let mut gap = entries.clone();
        gap.remove(cut);
        written(&gap);
    }
}

#[test]
fn the_json_form_fits_its_schema() {
    let schema = schemars::schema_for!(Report).to_value();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for story in [Story::of_queue(), Story::hostile()] {
        let value = serde_json::to_value(report(&story)).unwrap();
        let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(value["version"], 4);
        assert_eq!(value["debates"][0]["talk"]["differs_on"], serde_json::json!(["P2"]));
    }
}

#[test]
fn costs_are_told_per_persona_and_add_up() {
    let session = report(&Story::of_queue()).session;
    assert_eq!(session.costs.len(), 7);
    assert_eq!(session.costs.iter().map(|line| line.micro_usd).sum::<u64>(), session.total.micro_usd);
    assert_eq!(session.costs.iter().map(|line| line.input).sum::<u64>(), session.total.input);
    assert_eq!(session.turns[0].cause, Some(TurnCause::Done));
    assert_eq!(session.turns[0].answer.as_deref(), Some(Story::of_queue().answer.as_str()));
}

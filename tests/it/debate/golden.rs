//! The recorded demo of a debate: an old log must load, fold, verify, resume, and have its report. With
//! `AGON_TEST_LONG` it is resumed at every entry, else at every fifth.

use std::sync::Arc;

use agon::arena::replay;
use agon::projection::Report;
use agon::projection::report::{html, markdown, plain};
use agon::protocol::ArenaEvent;
use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::spec::Risk;
use agon::session::Session;

pub use crate::support::golden::debate as demo;
use crate::support::panel::*;
use crate::support::world::*;

#[test]
fn the_recorded_debate_folds_and_verifies() {
    let log = demo();
    assert!(log.iter().flat_map(|entry| &entry.events).all(|event| event.class() != Class::Unknown));
    let session = Session::fold(&log).unwrap();
    assert_eq!(session.last_turn().map(|turn| turn.cause), Some(TurnCause::Done));
}

#[test]
fn the_recorded_debate_resumes_anywhere_and_still_ends() {
    let whole = demo();
    let opened = whole.iter().position(|entry| matches!(entry.fact(), Some(ArenaEvent::PromptGiven(_))));
    let closed = whole
        .iter()
        .position(|entry| entry.events.iter().any(|event| matches!(event, ArenaEvent::TurnClosed(_))));
    let step = if std::env::var_os("AGON_TEST_LONG").is_some() { 1 } else { 5 };
    for cut in (opened.unwrap() + 1..=closed.unwrap()).step_by(step) {
        let log: Vec<_> = whole[..cut].iter().map(Arc::clone).collect();
        let mut world = World::resumed(log);
        world.check_fold();
        for _ in 0..20 {
            if !world.session.has_open_turn() {
                break;
            }
            for (call, attempt, request) in world.models() {
                let said = stubborn(&request.spark, asked(&request));
                world.answer(call, attempt, OutcomeBody::ModelAnswered(said));
            }
            prepare_reads(&mut world);
            world.run_tools();
        }
        assert!(!world.session.has_open_turn(), "cut {cut}: {:?}", world.session.outstanding());
        assert!(replay::verify(&world.log).holds(false), "cut {cut}");
        let report = Report::of(&world.log);
        assert!(report.debate().unwrap().verdict.is_some(), "cut {cut}");
    }
}

/// What is wanted is to be read, and nobody has to be asked.
fn prepare_reads(world: &mut World) {
    for open in world.session.outstanding() {
        if let Some(Effect::Prepare { context: call, .. }) = world.session.effect(open.call) {
            let plan = Plan { risk: Risk::Read, needs: vec![], ..plan_for(&call) };
            let result = PrepareResult::Ready(plan);
            let prepared = ToolPrepared { tool_use: call.tool_use, result };
            world.answer(open.call.0, open.attempt, OutcomeBody::ToolPrepared(prepared));
        }
    }
}

#[test]
fn the_report_of_the_recorded_debate() {
    let report = Report::of(&demo());
    insta::assert_snapshot!("the_recorded_debate_in_plain_lines", plain::page(&report));
    insta::assert_snapshot!("the_recorded_debate_as_markdown", markdown::page(&report, Some("hEaD")));
    insta::assert_snapshot!(
        "the_recorded_debate_as_json",
        serde_json::to_string_pretty(&report.debates).unwrap()
    );
    let page = html::page(&report, Some("hEaD"));
    let (before, styled) = page.split_once("<style>").unwrap();
    let (_, after) = styled.split_once("</style>").unwrap();
    insta::assert_snapshot!("the_recorded_debate_as_html", format!("{before}{after}").replace("><", ">\n<"));
}

#[test]
fn the_report_says_what_the_demo_is_for() {
    let report = Report::of(&demo());
    let debate = report.debate().unwrap();
    assert!(!debate.moves.is_empty() && debate.moves.iter().all(|step| step.because.is_some()), "flips");
    assert!(debate.moves.iter().all(|step| step.condition.is_some() && step.named_in < step.source));
    assert_eq!(debate.minority.len(), 2);
    let p1 = &debate.propositions[0];
    assert_eq!((p1.sealed_majority, p1.verdict, p1.differs), (Some(-1), Some(1), true));
    assert_eq!(debate.phases.iter().map(|phase| phase.stands.len()).collect::<Vec<_>>(), [6; 4]);
    assert!(debate.phases.iter().all(|phase| phase.probe.is_some()));
    let cited = &debate.propositions[0].evidence[0];
    let excerpt = report.excerpts.iter().find(|excerpt| Some(excerpt.at) == cited.at).unwrap();
    assert_eq!(excerpt.kind, "tool_resolved");
    assert!(excerpt.text.contains("hours * 60 + minutes"), "the claim leads to the file: {}", excerpt.text);
}

//! `agon debate --resume`, and debates beside others that work in the same folder.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::command::{answer, env, schema};
use super::program::waits_for;
use crate::support::panel::{Asked, asked_by};
use crate::support::server::{Reply, Server};

const PAIR: [&str; 2] = ["--personas", "pragmatist,elegance-purist"];

#[test]
fn a_second_debate_is_held_in_the_session_of_the_first() {
    let server = Server::start(|request, _| answer(request));
    let env = env(&server);
    let first = [&["debate", "Shall we?", "--rounds", "2"], PAIR.as_slice()].concat();
    assert_eq!(env.run(&first).code, 0);
    let over = env.run(&["debate", "--resume", "latest"]);
    assert_eq!(over.code, 2, "{over}");
    assert!(over.stderr.contains("is over") && over.stderr.contains("agon debate --resume "), "{over}");
    let three = "pragmatist,elegance-purist,future-architect";
    let again =
        env.run(&["debate", "Shall they?", "--resume", "latest", "--rounds", "2", "--personas", three]);
    assert_eq!(again.code, 0, "{again}");
    let rows = env.run(&["debates", "list"]).stdout;
    assert_eq!(rows.lines().count(), 2, "{rows}");
    assert!(rows.contains("2/2 heard") && rows.contains("3/3 heard"), "{rows}");
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
    let changed = env.run(&["debate", "--resume", "latest", "--personas", three]);
    assert_eq!(changed.code, 2, "{changed}");
    assert!(changed.stderr.contains("`--personas` cannot change a debate that is under way"), "{changed}");
}

#[test]
fn what_was_no_debate_is_not_gone_on_with_as_one() {
    let server = Server::start(|_, _| Reply::text("done"));
    let env = env(&server);
    assert_eq!(env.run(&["run", "do it"]).code, 0);
    let ran = env.run(&["debate", "--resume", "latest"]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("was no debate"), "{ran}");
}

/// True for what a debate asks; a run has no schema.
fn is_of_debate(request: &Value) -> bool {
    request.get("response_format").is_some() || request.to_string().contains("fitting this JSON Schema")
}

#[test]
fn debates_are_held_beside_a_run_and_each_other_in_one_folder() {
    let patient = Arc::new(AtomicBool::new(false));
    let later = Arc::clone(&patient);
    let server = Server::start(move |request, _| match is_of_debate(request) {
        true if asked_by(&schema(request)) == Asked::Verdict && request.to_string().contains("zebra") => {
            if later.load(Ordering::SeqCst) {
                answer(request)
            } else {
                Reply::text("never").stall_after(0)
            }
        }
        true => answer(request),
        false => Reply::text("never").stall_after(0),
    });
    let env = env(&server);
    let mut run = env.command(&["run", "do it"]).spawn().unwrap();
    waits_for(|| server.bodies().iter().any(|body| !is_of_debate(body)));
    let of = |topic: &'static str| [&["debate", topic, "--rounds", "2"], PAIR.as_slice()].concat();
    let mut first = env.command(&of("a question of zebras")).spawn().unwrap();
    waits_for(|| {
        let asks = |body: &Value| is_of_debate(body) && asked_by(&schema(body)) == Asked::Verdict;
        server.bodies().iter().any(asks)
    });
    let second = env.run(&of("another one"));
    assert_eq!(second.code, 0, "a debate only reads: {second}");
    let third = env.run(&["run", "do something else"]);
    assert_eq!(third.code, 2, "a second writer is still refused: {third}");
    first.kill().unwrap();
    first.wait().unwrap();
    patient.store(true, Ordering::SeqCst);
    let list: Value = serde_json::from_str(&env.run(&["debates", "list", "--json"]).stdout).unwrap();
    let open = list.as_array().unwrap().iter().find(|row| row["question"] == "a question of zebras").unwrap();
    let resumed = env.run(&["debate", "--resume", open["id"].as_str().unwrap()]);
    assert_eq!(resumed.code, 0, "taken up beside the run: {resumed}");
    run.kill().unwrap();
    run.wait().unwrap();
}

#[test]
fn a_debate_that_a_budget_cut_after_the_first_phase_exits_3_with_its_verdict_and_goes_on() {
    let server = Server::start(|request, _| answer(request));
    let env = env(&server);
    // Two ballots, propositions, two ratings and a verdict; two statements more would be one call too many.
    let debate = [&["debate", "Shall we?", "--rounds", "2", "--max-steps", "7"], PAIR.as_slice()].concat();
    let cut = env.run(&debate);
    assert_eq!(cut.code, 3, "{cut}");
    assert!(cut.stdout.contains("Do it, behind a switch."), "the verdict is told all the same: {cut}");
    assert!(cut.stdout.contains("It ended early: counterarguments could bring"), "{cut}");
    assert!(!cut.stdout.contains("A plain vote would have said"), "there was no talk: {cut}");
    let (_, id) = cut.stderr.split_once("agon debate --resume ").expect("a hint that can be followed");
    let id = id.split(' ').next().unwrap();
    let before = server.bodies().len();
    let more = env.run(&["debate", "--resume", id, "--max-steps", "100"]);
    assert_eq!(more.code, 0, "{more}");
    let asked: Vec<Asked> = server.bodies()[before..].iter().map(|body| asked_by(&schema(body))).collect();
    assert_eq!(
        asked,
        [Asked::Statement, Asked::Statement, Asked::Verdict],
        "what was answered is not paid again"
    );
    let cost = env.run(&["cost", "latest"]);
    assert!(cost.code == 0 && !cost.stdout.contains('≤') && !cost.stdout.contains("cut off"), "{cost}");
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
}

#[test]
fn an_answer_file_that_is_not_written_and_a_form_that_does_not_exist_are_said() {
    let server = Server::start(|_, _| Reply::status(400, "{}").header("content-type", "application/json"));
    let env = env(&server);
    let file = env.home().join("verdict.md");
    std::fs::write(&file, "an older verdict").unwrap();
    let name = file.to_str().unwrap();
    let ran = env.run(&[&["debate", "Shall we?", "-o", name], PAIR.as_slice()].concat());
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stderr.contains("nothing was written to `"), "{ran}");
    assert!(ran.stderr.contains("what it held before is still there"), "{ran}");
    let pdf = env.run(&["debates", "report", "latest", "-o", "x.pdf"]);
    assert_eq!(pdf.code, 2, "{pdf}");
    assert!(pdf.stderr.contains("cannot be written as `.pdf`"), "{pdf}");
}

#[test]
fn a_debate_that_a_limit_ended_goes_on_in_a_copy_with_more_of_it() {
    // Six of each set: the ballots fit, the ratings do not; and not even the ballots.
    for (steps, heard) in [("8", true), ("2", false)] {
        let server = Server::start(|request, _| answer(request));
        let env = env(&server);
        let ended = env.run(&["debate", "Shall we?", "--rounds", "2", "--max-steps", steps]);
        assert_eq!(ended.code, 3, "{ended}");
        assert_eq!(!server.bodies().is_empty(), heard, "{ended}");
        let (_, id) = ended.stderr.split_once("agon debate --resume ").expect("a hint that can be followed");
        let id = id.split(' ').next().unwrap();
        for too_few in [vec![], vec!["--max-steps", steps]] {
            let refused = env.run(&[&["debate", "--resume", id], too_few.as_slice()].concat());
            assert_eq!(refused.code, 2, "{refused}");
            assert!(
                refused.stderr.contains("hint: allow more, and it goes on in a copy: --max-steps N"),
                "{refused}"
            );
        }
        let before = server.bodies().len();
        let more = env.run(&["debate", "--resume", id, "--max-steps", "100"]);
        assert_eq!(more.code, 0, "{more}");
        assert!(more.stdout.contains("Do it, behind a switch."), "{more}");
        let bodies = server.bodies();
        let ballots = bodies[before..].iter().filter(|body| asked_by(&schema(body)) == Asked::Ballot);
        assert_eq!(ballots.count(), if heard { 0 } else { 6 }, "what was cast is not asked for again");
        assert_eq!(env.run(&["verify", "latest"]).code, 0);
    }
}

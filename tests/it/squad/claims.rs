//! Claims of a squad's answer against the log: what was run last counts, however long ago it was said.

use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;
use serde_json::json;

use super::{cause, flags, squad, whole};
use crate::support::squad::*;
use crate::support::world::*;

/// The coder runs its command, which ends so; gives the reference of the end.
fn run_command(world: &mut World, exit: i32) -> String {
    world.model_says(calls(&[("run", json!({"command": "make"}))]));
    for which in [is_prepare, is_tool] {
        while let Some(checkpoint) = open(world, |effect| matches!(effect, Effect::Checkpoint { .. })) {
            world.answer(checkpoint.0, checkpoint.1, succeed(&checkpoint.2).unwrap());
        }
        let (call, attempt, effect) = world.the(which);
        let body = match &effect {
            Effect::Tool { context: call, .. } => {
                let status = if exit == 0 { ToolStatus::Ok } else { ToolStatus::Failed };
                let end = resolved(call.tool_use, status, &format!("made, exit code {exit}"));
                OutcomeBody::ToolResolved(ToolResolved { exit: Some(exit), ..end })
            }
            other => succeed(other).unwrap(),
        };
        world.answer(call, attempt, body);
    }
    let end = world.log.last().unwrap();
    assert!(matches!(end.events[0], ArenaEvent::ToolResolved(_)), "{}", world.story());
    format!("e{}", end.seq)
}

fn is_prepare(effect: &Effect) -> bool {
    matches!(effect, Effect::Prepare { .. })
}

fn is_tool(effect: &Effect) -> bool {
    matches!(effect, Effect::Tool { .. })
}

fn open(world: &World, which: impl Fn(&Effect) -> bool) -> Option<(u64, u32, Effect)> {
    world.session.outstanding().into_iter().find_map(|open| {
        let effect = world.session.effect(open.call).filter(|effect| which(effect))?;
        Some((open.call.0, open.attempt, effect))
    })
}

/// A squad whose coder is at work.
fn at_work() -> World {
    let mut world = squad(blueprint(&[]));
    world.model_says(text("the plan"));
    world
}

/// From the coder's last words to the answer with one claim, and how the turn ended.
fn claim(world: &mut World, kind: &str, evidence: &str) -> TurnCause {
    world.model_says(text("It is made."));
    world.run_tools();
    world.model_says(approve(&[]));
    world.model_says(answer("All tests pass.", &[(kind, evidence)], &[]));
    whole(world);
    cause(world)
}

fn contradicted(world: &World) -> bool {
    super::events(world).any(|event| matches!(event, ArenaEvent::ClaimFlagged(flag) if flag.contradicted))
}

#[test]
fn a_command_that_passed_is_remembered_after_its_words_were_summarised() {
    let mut world = at_work();
    let passed = run_command(&mut world, 0);
    world.model_fails(ErrorKind::ContextOverflow);
    world.model_says(text("I ran `make`, and it passed."));
    let covered = |event: &ArenaEvent| matches!(event, ArenaEvent::ContextCompacted(_));
    assert!(super::events(&world).any(covered), "{}", world.story());
    assert_eq!(claim(&mut world, "checks_pass", &passed), TurnCause::Done);
    assert_eq!(flags(&world), []);
}

#[test]
fn tests_that_pass_by_an_answer_and_fail_by_the_log_leave_the_work_undone() {
    // The command it cites failed again after it passed.
    let mut world = at_work();
    let passed = run_command(&mut world, 0);
    let failed = run_command(&mut world, 1);
    assert_eq!(claim(&mut world, "checks_pass", &passed), TurnCause::Incomplete);
    assert_eq!(flags(&world), [(0, format!("`make` did not pass in {failed}"))]);
    // It failed, and nobody ran it again.
    let mut world = at_work();
    let failed = run_command(&mut world, 1);
    assert_eq!(claim(&mut world, "checks_pass", &failed), TurnCause::Incomplete);
    assert_eq!(flags(&world), [(0, format!("`make` did not pass in {failed}"))]);
    assert!(contradicted(&world));
    // It failed at first; what is cited passed.
    let mut world = at_work();
    run_command(&mut world, 1);
    let passed = run_command(&mut world, 0);
    assert_eq!(claim(&mut world, "checks_pass", &passed), TurnCause::Done);
    assert_eq!(flags(&world), []);
    // What is cited failed, and it has passed since: the claim is right, and does not show it.
    let mut world = at_work();
    let failed = run_command(&mut world, 1);
    run_command(&mut world, 0);
    assert_eq!(claim(&mut world, "checks_pass", &failed), TurnCause::Done);
    assert_eq!(flags(&world).len(), 1);
    assert!(!contradicted(&world), "{}", world.story());
}

#[test]
fn a_command_that_passed_before_the_last_change_shows_nothing_of_it() {
    let mut world = at_work();
    let passed = run_command(&mut world, 0);
    world.model_says(calls(&[("put", json!({"path": "f"}))]));
    world.run_tools();
    assert_eq!(claim(&mut world, "checks_pass", &passed), TurnCause::Done);
    assert_eq!(flags(&world), [(0, "it cites no check that passed after the last change".to_owned())]);
}

#[test]
fn a_change_that_is_claimed_and_was_never_made_leaves_the_work_undone() {
    let mut world = at_work();
    world.model_says(text("It is made."));
    let (call, attempt, _) = world.the(|effect| matches!(effect, Effect::Diff { .. }));
    let unchanged = DiffTaken { diff: String::new(), files: vec![], ..diff("tree") };
    world.answer(call, attempt, OutcomeBody::DiffTaken(unchanged));
    world.model_says(approve(&[]));
    world.model_says(answer("I changed it.", &[("changed", "e2")], &[]));
    assert_eq!(flags(&world), [(0, "no file was changed in this turn".to_owned())]);
    assert_eq!(cause(&world), TurnCause::Incomplete);
    whole(&world);
}

#[test]
fn what_was_asked_for_shows_nothing_of_what_came_of_it() {
    for (evidence, reason) in [
        ("e1", "it cites nothing but the request"),
        ("e999", "`e999` is no entry of this log"),
        ("looks good", "`looks good` is no entry of this log"),
    ] {
        let mut world = at_work();
        assert_eq!(claim(&mut world, "observed", evidence), TurnCause::Done);
        // Its text says more, which is the second flag.
        assert_eq!(flags(&world)[0], (0, reason.to_owned()));
        assert_eq!(flags(&world).len(), 2);
    }
}

/// A squad without checks whose coder ran these, then an answer with one claim in these words.
fn without_checks(exits: &[i32], kind: &str, words: &str, cites: impl Fn(&[String]) -> String) -> World {
    let mut world = at_work();
    let ran: Vec<String> = exits.iter().map(|exit| run_command(&mut world, *exit)).collect();
    world.model_says(text("Done; all tests pass."));
    world.run_tools();
    world.model_says(approve(&[]));
    let claim = json!({"kind": kind, "text": words, "evidence": [cites(&ran)]});
    let answer = json!({"answer": "All tests pass.", "claims": [claim], "open": []});
    world.model_says(text(&answer.to_string()));
    whole(&world);
    world
}

#[test]
fn given_no_check_and_no_command_that_passed_when_checks_pass_is_claimed_then_the_log_contradicts_it() {
    let world = without_checks(&[1], "checks_pass", "so it is", |_| "e3".to_owned());
    assert!(flags(&world)[0].1.starts_with("`make` did not pass in e"), "{:?}", flags(&world));
    assert!(contradicted(&world));
    assert_eq!(cause(&world), TurnCause::Incomplete);
}

#[test]
fn given_a_command_that_failed_when_only_words_say_that_tests_pass_then_it_is_told_and_no_failure() {
    for words in ["All TESTS pass now", "the check passes"] {
        let world = without_checks(&[1], "observed", words, |_| "e3".to_owned());
        assert!(flags(&world)[0].1.starts_with("`make` did not pass in e"), "{:?}", flags(&world));
        assert!(!contradicted(&world), "words alone decide nothing: {words}");
        assert_eq!(cause(&world), TurnCause::Done);
    }
}

#[test]
fn given_checks_that_passed_when_a_claim_cites_a_command_that_failed_then_it_is_unproven_and_not_contradicted()
 {
    let mut world = squad(blueprint(&["make test"]));
    world.model_says(text("the plan"));
    let failed = run_command(&mut world, 1);
    assert_eq!(claim(&mut world, "checks_pass", &failed), TurnCause::Done);
    assert_eq!(flags(&world), [(0, "it cites no check that passed after the last change".to_owned())]);
    assert!(!contradicted(&world), "{}", world.story());
}

#[test]
fn given_no_comparison_of_the_workspace_when_a_change_is_claimed_then_nothing_contradicts_it() {
    let mut world = at_work();
    world.model_says(text("It is made."));
    let (call, attempt, _) = world.the(|effect| matches!(effect, Effect::Diff { .. }));
    let failed = EffectFailed { status: FailStatus::Failed, error: "no room".into() };
    world.answer(call, attempt, OutcomeBody::EffectFailed(failed.clone()));
    world.model_says(approve(&[]));
    world.model_only_says(answer("I changed it.", &[("changed", "e3")], &[]));
    let (call, attempt, _) = world.the(|effect| matches!(effect, Effect::Diff { .. }));
    world.answer(call, attempt, OutcomeBody::EffectFailed(failed));
    assert!(!contradicted(&world), "{}", world.story());
    whole(&world);
}

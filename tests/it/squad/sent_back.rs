//! Who is sent back and how often: a review that asks for changes and a check that fails both do it, within the cap.

use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;

use super::*;

/// The coder's work is compared, and its check ends so.
fn prove(world: &mut World, exit: i32) {
    let (call, attempt, _) = world.the(|effect| matches!(effect, Effect::Check { .. }));
    world.answer(call, attempt, OutcomeBody::CheckRan(check("make test", exit)));
    let (call, attempt, _) = world.the(|effect| matches!(effect, Effect::Diff { .. }));
    world.answer(call, attempt, OutcomeBody::DiffTaken(diff("tree")));
    world.run_tools();
}

#[test]
fn a_reviewer_that_never_approves_is_heard_twice_and_the_answer_is_not_called_done() {
    let mut world = squad(blueprint(&[]));
    plan_and_code(&mut world);
    for round in 0..3 {
        world.run_tools();
        asked(&world, "reviewer");
        world.model_says(request_changes(&[("major", "still wrong")], &[]));
        if round < 2 {
            asked(&world, "coder");
            world.model_says(text("better now"));
        }
    }
    let last = asked(&world, "coordinator");
    assert!(last.contains("`reviewer` has not approved the work"), "{last}");
    world.model_says(answer("As far as it goes.", &[], &["F3"]));
    assert_eq!(cause(&world), TurnCause::Incomplete);
    whole(&world);
}

#[test]
fn a_check_that_failed_sends_the_work_back_though_its_review_approved() {
    let mut world = squad(blueprint(&["make test"]));
    plan_and_code(&mut world);
    prove(&mut world, 1);
    asked(&world, "reviewer");
    world.model_says(approve(&[]));
    let back = asked(&world, "coder");
    for words in ["although its review approves it", "A check did not pass", "1 of 7 failed"] {
        assert!(back.contains(words), "`{words}` is missing in\n{back}");
    }
    world.model_says(text("mended"));
    prove(&mut world, 0);
    let again = asked(&world, "reviewer");
    assert!(again.contains("7 passed"), "{again}");
    world.model_says(approve(&[]));
    world.model_says(answer("It is mended.", &[], &[]));
    assert_eq!(cause(&world), TurnCause::Done);
    assert_eq!(phases(&world), ["plan", "code", "check", "review", "revise", "check", "review", "answer"]);
    whole(&world);
}

#[test]
fn a_check_that_never_passes_ends_the_revisions_at_the_cap() {
    let mut world = squad(blueprint(&["make test"]));
    plan_and_code(&mut world);
    for round in 0..3 {
        prove(&mut world, 1);
        asked(&world, "reviewer");
        world.model_says(approve(&[]));
        if round < 2 {
            asked(&world, "coder");
            world.model_says(text("tried"));
        }
    }
    let last = asked(&world, "coordinator");
    assert!(last.contains("did not pass, whatever a review says"), "{last}");
    world.model_says(answer("As far as it goes.", &[], &[]));
    assert_eq!(cause(&world), TurnCause::Incomplete);
    whole(&world);
    // Nobody may send this one back.
    let mut plan = blueprint(&["make test"]);
    plan.roles[2].revisions = 0;
    let mut world = squad(plan);
    plan_and_code(&mut world);
    prove(&mut world, 1);
    world.model_says(approve(&[]));
    asked(&world, "coordinator");
}

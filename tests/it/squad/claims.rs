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
        while let Some(checkpoint) = open(world, |effect| matches!(effect, Effect::Checkpoint)) {
            world.answer(checkpoint.0, checkpoint.1, succeed(&checkpoint.2).unwrap());
        }
        let (call, attempt, effect) = world.the(which);
        let body = match &effect {
            Effect::Tool { call, .. } => {
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
    matches!(effect, Effect::Prepare(_))
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

/// From the coder's last words to the answer with one claim of passing checks.
fn claim(world: &mut World, evidence: &str) {
    world.model_says(text("It is made."));
    world.run_tools();
    world.model_says(approve(&[]));
    world.model_says(answer("All tests pass.", &[("checks_pass", evidence)], &[]));
    assert_eq!(cause(world), TurnCause::Done);
    whole(world);
}

#[test]
fn a_command_that_passed_is_remembered_after_its_words_were_summarised() {
    let mut world = squad(blueprint(&[]));
    world.model_says(text("the plan"));
    let passed = run_command(&mut world, 0);
    world.model_fails(ErrorKind::ContextOverflow);
    world.model_says(text("I ran `make`, and it passed."));
    let covered = |event: &ArenaEvent| matches!(event, ArenaEvent::ContextCompacted(_));
    assert!(super::events(&world).any(covered), "{}", world.story());
    claim(&mut world, &passed);
    assert_eq!(flags(&world), []);
}

#[test]
fn a_command_that_failed_when_it_ran_again_has_not_passed() {
    let mut world = squad(blueprint(&[]));
    world.model_says(text("the plan"));
    let passed = run_command(&mut world, 0);
    let failed = run_command(&mut world, 1);
    claim(&mut world, &passed);
    assert_eq!(flags(&world), [(0, format!("`make` did not pass when it ran again in {failed}"))]);
    // And the other way round.
    let mut world = squad(blueprint(&[]));
    world.model_says(text("the plan"));
    run_command(&mut world, 1);
    let passed = run_command(&mut world, 0);
    claim(&mut world, &passed);
    assert_eq!(flags(&world), []);
}

#[test]
fn a_command_that_passed_before_the_last_change_shows_nothing_of_it() {
    let mut world = squad(blueprint(&[]));
    world.model_says(text("the plan"));
    let passed = run_command(&mut world, 0);
    world.model_says(calls(&[("put", json!({"path": "f"}))]));
    world.run_tools();
    claim(&mut world, &passed);
    assert_eq!(flags(&world), [(0, "no check ran after the last change".to_owned())]);
}

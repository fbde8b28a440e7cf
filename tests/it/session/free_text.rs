//! The free text of an answer against the log.

use agon::protocol::effect::Effect;
use agon::protocol::effect::OutcomeBody;
use agon::protocol::event::*;
use serde_json::json;

use super::kit::*;
use crate::support::world::*;

fn flags(world: &World) -> Vec<(String, String)> {
    let events = world.log.iter().flat_map(|entry| &entry.events);
    let found = events.filter_map(|event| match event {
        ArenaEvent::ClaimFlagged(flag) => Some((flag.said.clone().unwrap_or_default(), flag.reason.clone())),
        _ => None,
    });
    found.collect()
}

fn at_work() -> World {
    let mut spec = spec();
    spec.policy = allow_all();
    let mut world = World::open(spec);
    world.prompt("do it");
    world
}

/// One tool to its end, a command with this exit code.
fn call(world: &mut World, tool: &str, exit: Option<i32>) -> u64 {
    world.model_says(calls(&[(tool, json!({"path": "f"}))]));
    prepared(world, 0);
    while world
        .session
        .outstanding()
        .iter()
        .any(|open| matches!(world.session.effect(open.call), Some(Effect::Checkpoint { .. })))
    {
        recorded(world);
    }
    let (id, attempt, effect) = call_of(world, 0);
    let Effect::Tool { context, .. } = effect else { panic!("{effect:?}") };
    let seen = context.tool_use;
    let end = resolved(seen, ToolStatus::Ok, "done");
    let seen = vec![PathBase { path: "f".into(), sha256: Some("0".into()) }];
    let seen = if tool == "put" { seen } else { Vec::new() };
    world.answer(id, attempt, OutcomeBody::ToolResolved(ToolResolved { exit, seen, ..end }));
    world.log.len() as u64 - 1
}

#[test]
fn a_text_that_says_checks_pass_and_cites_what_is_not_there_is_flagged_in_solo() {
    let mut world = at_work();
    world.model_says(text("All 57 tests pass [e99], I ran cargo test"));
    assert_eq!(
        flags(&world),
        [
            ("[e99]".to_owned(), "`e99` is no entry of this log".to_owned()),
            (
                "All 57 tests pass [e99], I ran cargo test".to_owned(),
                "no command or check passed after the last change of a file".to_owned()
            ),
        ]
    );
    assert_eq!(cause(&world), TurnCause::Done, "words alone decide nothing");
    world.check();
}

#[test]
fn a_command_that_passed_after_the_last_change_bears_the_words_out() {
    let mut world = at_work();
    call(&mut world, "put", None);
    let ran = call(&mut world, "run", Some(0));
    world.model_says(text(&format!("All tests pass [e{ran}].")));
    assert_eq!(flags(&world), []);
    // The change came after it.
    let mut world = at_work();
    call(&mut world, "run", Some(0));
    call(&mut world, "put", None);
    world.model_says(text("All tests pass."));
    assert_eq!(flags(&world).len(), 1);
    // The command failed.
    let mut world = at_work();
    call(&mut world, "run", Some(1));
    world.model_says(text("All tests pass."));
    assert_eq!(flags(&world).len(), 1);
}

#[test]
fn a_text_that_claims_nothing_is_left_alone() {
    let mut world = at_work();
    world.model_says(text("The tests should pass now; run them. See [e1]."));
    assert_eq!(flags(&world), []);
}

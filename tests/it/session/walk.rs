//! The turn that the design walks through, entry by entry: a read, a command that is asked about, a kill, a resume.

use agon::arena::replay;
use agon::protocol::Choice;
use agon::protocol::StopCause;
use agon::protocol::effect::Effect;
use agon::protocol::event::*;
use serde_json::json;

use super::kit::*;
use crate::support::forked;
use crate::support::world::*;

fn settled(call: u64) -> serde_json::Value {
    let usage = json!({"input": 100, "cached": 0, "output": 10, "reasoning": 0, "estimated": false});
    json!({"budget_settled": {"call": call, "attempt": 1, "usage": usage, "micro_usd": 120}})
}

/// Entries 0 to 2: opened, prompted, answered with a read and a command.
fn asked() -> World {
    let mut spec = spec();
    spec.limits.max_seconds = Some(60);
    let mut world = World::open(spec);
    assert_eq!(world.log[0].decisions(), []);

    let decided = world.prompt("find out");
    let reserved = match &decided[3] {
        ArenaEvent::BudgetReserved(data) => data.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        told(&decided),
        json!([
            {"turn_opened": {"turn": 1}},
            {"spark_ignited": {"spark": 1, "role": "solo", "persona": "solo", "model": "mock/a"}},
            {"effect_ordered": {"call": 1, "attempt": 1, "effect": {"timer": {"ms": 60000, "purpose": "turn_limit"}}}},
            {"budget_reserved": {"call": 2, "tokens": reserved.tokens, "micro_usd": reserved.micro_usd}},
            {"model_called": {"call": 2, "attempt": 1, "spark": 1, "purpose": "think", "model": "mock/a"}},
        ])
    );
    assert_eq!(
        reserved.micro_usd,
        (reserved.tokens - 1000) + 2 * 1000,
        "input at 1 $, output at 2 $ a million"
    );

    let prepare = |call: u64, part: u16| {
        json!({"effect_ordered": {"call": call, "attempt": 1, "spark": 1,
        "effect": {"prepare": {"use": usage(2, part)}}}})
    };
    let decided = world.model_says(calls(&[("look", json!({"path": "a"})), ("run", json!({}))]));
    assert_eq!(told(&decided), json!([settled(2), prepare(3, 0), prepare(4, 1)]));
    world
}

/// Entries 3 to 7: both looked at, one allowed by rule and one by a person, the command begun.
fn allowed(world: &mut World) {
    let decided = prepared(world, 0);
    let look = "digest of Object {\"path\": String(\"a\")}";
    assert_eq!(
        told(&decided),
        json!([
            {"policy_decided": {"use": usage(2, 0), "prepared": "e3", "action": "allow", "rule": "default: reading is allowed"}},
            {"tool_invoked": {"call": 5, "attempt": 1, "spark": 1, "use": usage(2, 0), "prepared": "e3", "digest": look}},
        ])
    );
    let decided = prepared(world, 1);
    let run = "digest of Object {}";
    assert_eq!(
        told(&decided),
        json!([
            {"policy_decided": {"use": usage(2, 1), "prepared": "e4", "action": "ask", "rule": "default: running commands is asked about"}},
            {"approval_requested": {"call": 6, "attempt": 1, "spark": 1, "use": usage(2, 1), "prepared": "e4", "digest": run}},
        ])
    );
    assert_eq!(ran(world, 0, "content of a"), []);
    assert_eq!(
        told(&approve(world, Choice::Once)),
        json!([{"effect_ordered": {"call": 7, "attempt": 1, "effect": "checkpoint"}}])
    );
    assert_eq!(
        told(&recorded(world)),
        json!([{"tool_invoked": {"call": 8, "attempt": 1, "spark": 1, "use": usage(2, 1), "prepared": "e4", "digest": run}}])
    );
    world.check();
}

#[test]
fn the_walked_turn_decides_exactly_this() {
    let mut world = asked();
    allowed(&mut world);
    // kill -9 here. The command was cut off: it is not known what it did, and nobody runs it again.
    let mut world = reopened(world);
    let decided = world.give(resumed(vec![], 20_500));
    assert_eq!(
        kinds(&decided),
        ["effect_ordered", "call_lost", "effect_ordered", "budget_reserved", "model_called"]
    );
    let told_on_resume = told(&decided);
    assert_eq!(
        told_on_resume[0],
        json!({"effect_ordered": {"call": 1, "attempt": 2, "effect": {"timer": {"ms": 39500, "purpose": "turn_limit"}}}}),
        "the time limit goes on with what remains of it"
    );
    assert_eq!(told_on_resume[1]["call_lost"]["use"], usage(2, 1));
    assert_eq!(
        told_on_resume[2],
        json!({"effect_ordered": {"call": 9, "attempt": 1, "effect": "checkpoint"}})
    );
    let (_, _, request) = world.model();
    let shown = results(&request);
    assert_eq!(shown[0], "[e5] content of a");
    assert!(shown[1].starts_with("[e8.2] agon was stopped while this ran"), "{shown:?}");
    assert_eq!(recorded(&mut world), []);

    let decided = world.model_says(text("it is so"));
    assert_eq!(
        told(&decided),
        json!([
            settled(10),
            {"spark_completed": {"spark": 1, "cause": "done", "answer": "e10"}},
            {"call_cancelled": {"call": 1, "reason": "the turn has ended"}},
            {"turn_closed": {"turn": 1, "cause": "done", "answer": "e10"}},
        ])
    );
    let decided = world.give(ArenaEvent::StopRequested(StopRequested { cause: StopCause::Finished }));
    assert_eq!(
        told(&decided),
        json!([{"session_sealed": {"cause": "finished", "turns": 1, "last": "done", "tokens": 220, "micro_usd": 240}}])
    );
    world.check();
    assert!(replay::verify(&world.log).holds(true));
}

#[test]
fn a_change_of_the_workspace_behind_the_sparks_back_is_told_on_resume() {
    let mut world = calling(&[("run", json!({}))]);
    prepared(&mut world, 0);
    recorded(&mut world);
    ran(&mut world, 0, "done");
    // The tree after the command is recorded beside the next model call.
    recorded(&mut world);
    let mut world = reopened(world);
    world.give(resumed(vec![], 0));
    let (call, attempt, _) = world.the(|effect| matches!(effect, agon::protocol::Effect::Checkpoint { .. }));
    let decided = world.answer(
        call,
        attempt,
        agon::protocol::OutcomeBody::WorkspaceCheckpointed(WorkspaceCheckpointed {
            tree: "another tree".to_owned(),
            files: 1,
            skipped: vec![],
        }),
    );
    match decided.first() {
        Some(ArenaEvent::NoticeGiven(notice)) => assert_eq!(notice.notice, Notice::Workspace),
        other => panic!("{other:?}\n{}", world.story()),
    }
    world.check();
}

#[test]
fn a_fork_on_another_model_closes_the_open_call_and_asks_anew() {
    let mut world = World::open(spec());
    world.prompt("do it");
    let (before, _, _) = world.model();
    let other = world.session.spec().unwrap().models[1].clone();
    let mut world = reopened(world);
    let decided = world.give(ArenaEvent::SessionForked(SessionForked {
        changed: vec![agon::protocol::spec::Setting::Model { spec: other, default: true }],
        ..forked(1)
    }));
    assert_eq!(
        kinds(&decided),
        ["notice_given", "budget_settled", "call_lost", "budget_reserved", "model_called"]
    );
    let (now, attempt, request) = world.model();
    assert!(now > before && attempt == 1, "a changed request is a new call");
    assert_eq!(request.model, "mock/b");
    assert!(words(&request).contains("copy of an earlier one"), "{}", words(&request));
    let late = world.answer(before, 1, agon::protocol::OutcomeBody::ModelAnswered(text("late")));
    assert_eq!(kinds(&late), ["outcome_ignored"]);
    world.check();
}

#[test]
fn in_a_fork_only_agons_own_tools_get_the_paths_of_the_new_folder() {
    let mut spec = spec();
    spec.tools[1].source = Some("tracker".to_owned());
    let mut world = World::open(spec);
    world.give(ArenaEvent::SessionForked(forked(0)));
    world.prompt("do it");
    let path = json!({"path": "/w/a.txt"});
    let (call, attempt, _) = world.model();
    let says = calls(&[("look", path.clone()), ("put", path.clone())]);
    world.answer(call, attempt, agon::protocol::OutcomeBody::ModelAnswered(says));
    let prepared = |open: agon::session::Ordered| match world.session.effect(open.call) {
        Some(Effect::Prepare { context, .. }) => Some((context.tool, context.args)),
        _ => None,
    };
    let prepared: Vec<_> = world.session.outstanding().into_iter().filter_map(prepared).collect();
    assert_eq!(prepared, [("look".to_owned(), json!({"path": "a.txt"})), ("put".to_owned(), path)]);
}

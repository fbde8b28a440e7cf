//! Gates: their verdicts stand between the policy and a person, bind to the call, and never allow what is asked about.

use agon::protocol::Choice;
use agon::protocol::effect::{Effect, GateOrder, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::spec::{Action, Policy, Rule};
use agon::session::Session;
use serde_json::json;

use super::kit::*;
use crate::support::world::*;

/// A session with these gates whose policy says this of every call, at a call of `put` that was prepared.
fn judged(gates: &[&str], action: Action) -> World {
    let mut spec = spec();
    spec.gates = gates.iter().map(|gate| (*gate).to_owned()).collect();
    spec.policy = Policy { rules: vec![Rule::named("all", action)] };
    let mut world = World::open(spec);
    world.prompt("do it");
    world.model_says(calls(&[("put", json!({"path": "a"}))]));
    let decided = prepared(&mut world, 0);
    assert_eq!(decided.len(), 1 + gates.len(), "{decided:?}");
    world.check();
    world
}

fn gate(world: &World, name: &str) -> (u64, u32, GateOrder) {
    match world.the(|effect| matches!(effect, Effect::Gate { order, .. } if order.gate == name)) {
        (call, attempt, Effect::Gate { order, context }) => {
            assert_eq!((context.call.tool.as_str(), &context.plan.digest), ("put", &order.digest));
            (call, attempt, order)
        }
        other => panic!("{other:?}"),
    }
}

fn answer(world: &mut World, name: &str, verdict: Verdict) -> Vec<ArenaEvent> {
    let (call, attempt, GateOrder { gate, tool_use, digest, .. }) = gate(world, name);
    let body = GateAnswered { tool_use, gate, digest, verdict };
    let decided = world.answer(call, attempt, OutcomeBody::GateAnswered(body));
    world.check();
    decided
}

#[test]
fn a_verdict_makes_a_call_stricter_and_never_laxer() {
    let (deny, ask) = (|| Verdict::Deny("not today".into()), || Verdict::Ask("look first".into()));
    for (policy, verdict, expected) in [
        (Action::Allow, Verdict::Pass, "effect_ordered"),
        (Action::Allow, ask(), "approval_requested"),
        (Action::Allow, deny(), "tool_refused"),
        (Action::Ask, Verdict::Pass, "approval_requested"),
        (Action::Ask, ask(), "approval_requested"),
        (Action::Ask, deny(), "tool_refused"),
    ] {
        let mut world = judged(&["guard"], policy);
        let decided = answer(&mut world, "guard", verdict.clone());
        assert_eq!(decided[0].kind(), expected, "{policy:?} {verdict:?}");
        if let ArenaEvent::ToolRefused(refused) = &decided[0] {
            assert_eq!(refused.text, "the gate `guard` denies this: not today; do not try to get around it");
        }
        if expected == "approval_requested" {
            approve(&mut world, Choice::Once);
        }
        world.check();
    }
}

#[test]
fn a_call_that_the_policy_denies_is_shown_to_no_gate() {
    let mut spec = spec();
    spec.gates = vec!["guard".to_owned()];
    spec.policy = Policy { rules: vec![Rule::named("no", Action::Deny)] };
    let mut world = World::open(spec);
    world.prompt("do it");
    world.model_says(calls(&[("put", json!({"path": "a"}))]));
    assert_eq!(kinds(&prepared(&mut world, 0))[..2], ["policy_decided", "tool_refused"]);
}

#[test]
fn of_several_gates_all_are_heard_and_the_strictest_counts() {
    let mut world = judged(&["one", "two"], Action::Allow);
    assert_eq!(kinds(&answer(&mut world, "two", Verdict::Deny("no".into()))), [""; 0]);
    assert_eq!(answer(&mut world, "one", Verdict::Ask("hm".into()))[0].kind(), "tool_refused");
}

#[test]
fn a_gate_that_fails_denies() {
    let mut world = judged(&["guard"], Action::Allow);
    let (call, attempt, _) = gate(&world, "guard");
    let failed = EffectFailed { status: FailStatus::Failed, error: "exit code 2".to_owned() };
    let decided = world.answer(call, attempt, OutcomeBody::EffectFailed(failed));
    let ArenaEvent::ToolRefused(refused) = &decided[0] else { panic!("{decided:?}") };
    assert_eq!(refused.text, "a gate gave no verdict, so this was not run: exit code 2");
    world.check();
}

#[test]
fn a_verdict_on_other_content_is_ignored() {
    let mut world = judged(&["guard"], Action::Allow);
    let (call, attempt, GateOrder { gate: name, tool_use, .. }) = gate(&world, "guard");
    let body = GateAnswered { tool_use, gate: name, digest: "of another".into(), verdict: Verdict::Pass };
    assert_eq!(kinds(&world.answer(call, attempt, OutcomeBody::GateAnswered(body))), ["outcome_ignored"]);
    gate(&world, "guard");
}

#[test]
fn an_unanswered_gate_is_asked_again_after_a_restart() {
    let mut world = judged(&["guard"], Action::Allow);
    world.session = Session::fold(&world.log).unwrap();
    let (before, _, _) = gate(&world, "guard");
    let decided = world.give(resumed(vec![], 0));
    assert!(kinds(&decided).starts_with(&["call_cancelled"]), "{decided:?}");
    assert_eq!(kinds(&prepared(&mut world, 0)), ["policy_decided", "effect_ordered"]);
    assert_ne!(gate(&world, "guard").0, before);
    world.check();
}

#[test]
fn an_interrupt_ends_a_call_that_waits_for_a_gate() {
    let mut world = judged(&["guard"], Action::Allow);
    let decided = world.give(ArenaEvent::InterruptRequested(InterruptRequested { spark: None, call: None }));
    assert_eq!(kinds(&decided), ["call_cancelled", "tool_refused", "spark_completed", "turn_closed"]);
    world.every_use_ends_once();
}

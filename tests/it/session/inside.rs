//! Calls that the session answers itself: a list that is kept, a question that only a person answers.

use agon::protocol::effect::{Effect, QuestionOrder};
use agon::protocol::event::*;
use agon::protocol::{CallId, Request};
use agon::session::Session;
use serde_json::json;

use super::kit::*;
use crate::support::world::*;

fn open() -> World {
    let mut world = World::open(spec_with_inside());
    world.prompt("do it");
    world
}

fn asking(world: &World) -> CallId {
    CallId(world.the(|effect| matches!(effect, Effect::Question { .. })).0)
}

fn reply(world: &mut World, call: CallId, text: &str) -> Vec<ArenaEvent> {
    world.give(ArenaEvent::QuestionAnswered(QuestionAnswered {
        call,
        text: text.to_owned(),
        by: "ann".to_owned(),
    }))
}

fn offered(request: &Request) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn a_list_is_kept_at_once_and_no_worker_is_asked() {
    let mut world = open();
    let items = json!([{"text": "look", "state": "done"}, {"text": "write", "state": "doing"}]);
    let decided = world.model_says(calls(&[("todo", json!({ "items": items }))]));
    assert_eq!(kinds(&decided), ["budget_settled", "tool_answered", "budget_reserved", "model_called"]);
    let (_, _, request) = world.model();
    assert_eq!(results(&request), ["[e2.2] 1 of 2 done; next: write"]);
    world.check();
    world.every_use_ends_once();
}

#[test]
fn arguments_that_do_not_fit_are_refused_with_the_reason() {
    for (tool, args) in [
        ("todo", json!({"items": [{"text": "a", "state": "maybe"}]})),
        ("todo", json!({"items": "a"})),
        ("todo", json!({"items": [{"text": " ", "state": "open"}]})),
        ("ask_user", json!({"question": ""})),
        ("ask_user", json!({"question": "x".repeat(5_000)})),
        ("ask_user", json!({"question": "which?", "choices": vec!["a"; 60]})),
    ] {
        let mut world = open();
        let decided = world.model_says(calls(&[(tool, args)]));
        assert!(kinds(&decided).contains(&"tool_refused"), "{decided:?}");
        world.check();
    }
}

#[test]
fn a_question_waits_for_a_person_also_after_a_restart_and_its_answer_is_the_result() {
    let mut world = open();
    let question = json!({"question": "tabs or spaces?", "choices": ["tabs", "spaces"]});
    let decided = world.model_says(calls(&[("ask_user", question), ("look", json!({}))]));
    assert_eq!(kinds(&decided), ["budget_settled", "effect_ordered", "effect_ordered"]);
    let call = asking(&world);
    let (_, _, Effect::Question { order: QuestionOrder { tool_use }, .. }) =
        world.the(|effect| matches!(effect, Effect::Question { .. }))
    else {
        panic!()
    };
    prepared(&mut world, 1);
    ran(&mut world, 1, "seen");
    assert!(world.session.waits_for_people(true) && world.session.open_asks().is_empty());
    world.check();

    world.session = Session::fold(&world.log).unwrap();
    assert_eq!(kinds(&world.give(resumed(vec![], 0))), [""; 0], "nothing is asked again and nothing is lost");
    assert_eq!(asking(&world), call);
    assert_eq!(kinds(&reply(&mut world, CallId(call.0 + 100), "tabs")), ["input_refused"]);
    assert_eq!(kinds(&reply(&mut world, call, "  ")), ["input_refused"]);
    let decided = reply(&mut world, call, "tabs");
    assert_eq!(kinds(&decided), ["tool_answered", "budget_reserved", "model_called"]);
    let at = world.log.last().unwrap().seq;
    let ArenaEvent::ToolAnswered(answered) = &decided[0] else { panic!() };
    assert_eq!((answered.tool_use, answered.from.seq), (tool_use, at));
    let (_, _, request) = world.model();
    assert_eq!(results(&request)[0], format!("[e{at}.1] tabs"));
    assert_eq!(kinds(&reply(&mut world, call, "spaces")), ["input_refused"], "the first answer counts");
    world.check();
    world.every_use_ends_once();
}

#[test]
fn an_interrupt_withdraws_a_question() {
    let mut world = open();
    world.model_says(calls(&[("ask_user", json!({"question": "which?"}))]));
    let decided = world.give(ArenaEvent::InterruptRequested(InterruptRequested { spark: None, call: None }));
    assert_eq!(kinds(&decided), ["call_cancelled", "tool_refused", "spark_completed", "turn_closed"]);
    world.check();
    world.every_use_ends_once();
}

#[test]
fn a_small_window_is_offered_files_and_commands_unless_more_is_named() {
    let named = |list: &[&str]| Some(list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    for (context, tools, expected) in [
        (20_000, None, vec!["look", "put", "run", "ask_user", "bash_stop", "spawn", "todo"]),
        (8_000, None, vec!["look", "put", "run", "bash_stop"]),
        (8_000, named(&["look", "plan"]), vec!["look", "ask_user", "todo"]),
    ] {
        let mut spec = spec_with_inside();
        spec.models[0].context = context;
        spec.personas[0].tools = tools;
        let mut world = World::open(spec);
        world.prompt("do it");
        let (_, _, request) = world.model();
        assert_eq!(offered(&request), expected, "{context}");
    }
}

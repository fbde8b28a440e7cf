//! Tool calls: together, in order, one after another, and every way in which one is not run.

use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::message::{Args, Finish, Part};
use serde_json::json;

use super::kit::*;
use crate::support::world::*;

fn refusals(events: &[ArenaEvent]) -> Vec<(RefusalReason, String)> {
    let refused = events.iter().filter_map(|event| match event {
        ArenaEvent::ToolRefused(data) => Some((data.reason, data.text.clone())),
        _ => None,
    });
    refused.collect()
}

#[test]
fn reads_run_together_and_their_results_stand_in_the_order_asked() {
    let list =
        [("look", json!({"path": "a"})), ("look", json!({"path": "b"})), ("look", json!({"path": "c"}))];
    let mut world = calling(&list);
    let preparing = world.session.outstanding().len();
    assert_eq!(preparing, 3, "all three are looked at together");
    for part in [2, 0, 1] {
        prepared(&mut world, part);
    }
    assert_eq!(world.session.outstanding().len(), 3, "all three run together");
    for (part, words) in [(2, "third"), (1, "second")] {
        assert_eq!(ran(&mut world, part, words), []);
    }
    let decided = ran(&mut world, 0, "first");
    assert_eq!(kinds(&decided), ["budget_reserved", "model_called"]);
    let shown: Vec<String> = results(&world.model().2)
        .iter()
        .map(|text| text.split(' ').next_back().unwrap().to_owned())
        .collect();
    assert_eq!(shown, ["first", "second", "third"]);
    world.check();
}

#[test]
fn a_write_waits_for_earlier_calls_and_for_the_record_of_the_workspace() {
    let mut world = calling(&[("look", json!({"path": "a"})), ("put", json!({"path": "b"}))]);
    prepared(&mut world, 0);
    let decided = prepared(&mut world, 1);
    assert_eq!(kinds(&decided), ["policy_decided"], "the read before it has not ended");
    let decided = ran(&mut world, 0, "seen");
    assert_eq!(kinds(&decided), ["effect_ordered"], "the workspace is recorded first");
    let decided = recorded(&mut world);
    assert_eq!(kinds(&decided), ["tool_invoked"]);
    world.check();
}

#[test]
fn what_may_change_the_workspace_is_prepared_only_when_the_earlier_change_has_ended() {
    let list = [("put", json!({"path": "a"})), ("look", json!({"path": "a"})), ("run", json!({}))];
    let mut world = calling(&list);
    assert_eq!(world.session.outstanding().len(), 1, "only the write is looked at");
    prepared(&mut world, 0);
    recorded(&mut world);
    let decided = ran(&mut world, 0, "written");
    assert_eq!(kinds(&decided), ["effect_ordered"; 3], "a record, and the two that waited");
    prepared(&mut world, 2);
    prepared(&mut world, 1);
    assert_eq!(ran(&mut world, 1, "read back"), [], "the record after the write is still under way");
    assert_eq!(kinds(&recorded(&mut world)), ["tool_invoked"]);
    world.check();
}

#[test]
fn calls_that_cannot_be_run_are_answers_the_model_can_mend() {
    let mut world = World::open(spec());
    world.prompt("do it");
    let call = |name: &str, args| Part::Call { id: "same".to_owned(), name: name.to_owned(), args };
    let decided = world.model_says(reply(
        vec![
            call("lock", Args::Json(json!({}))),
            call("look", Args::Broken("{\"path\": ".to_owned())),
            call("look", Args::Json(json!({"path": ["x", "[secret:KEY]"]}))),
        ],
        Finish::ToolCalls,
    ));
    let refused = refusals(&decided);
    let reasons: Vec<RefusalReason> = refused.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(
        reasons,
        [RefusalReason::UnknownTool, RefusalReason::BadArguments, RefusalReason::Placeholder]
    );
    assert_eq!(refused[0].1, "there is no tool `lock`; the tools you have: look, put, run");
    assert!(refused[1].1.starts_with("the arguments are not JSON"), "{refused:?}");
    let shown = results(&world.model().2);
    assert_eq!(shown.len(), 3, "one id three times, and each call has its own result: {shown:?}");
    world.every_use_ends_once();
    world.check();
}

#[test]
fn a_call_that_cannot_be_prepared_is_refused_with_the_tools_own_words() {
    let mut world = calling(&[("put", json!({})), ("look", json!({}))]);
    let (call, attempt, effect) = call_of(&world, 0);
    let Effect::Prepare { context: tool, .. } = effect else { panic!() };
    let unfit = PrepareResult::Unfit("missing field `path`".to_owned());
    let body = OutcomeBody::ToolPrepared(ToolPrepared { tool_use: tool.tool_use, result: unfit });
    let decided = world.answer(call, attempt, body);
    assert_eq!(refusals(&decided), [(RefusalReason::Unfit, "missing field `path`".to_owned())]);
    assert_eq!(kinds(&decided), ["tool_refused", "effect_ordered"], "the next call is no longer held up");
}

#[test]
fn late_doubled_and_foreign_outcomes_are_kept_and_change_nothing() {
    let mut world = calling(&[("look", json!({}))]);
    let (call, attempt, effect) = call_of(&world, 0);
    let body = succeed(&effect).unwrap();
    let wrong_kind = world.answer(call, attempt, OutcomeBody::TimerFired(TimerFired { active_ms: 1 }));
    assert_eq!(kinds(&wrong_kind), ["outcome_ignored"]);
    let wrong_attempt = world.answer(call, attempt + 1, body.clone());
    assert_eq!(kinds(&wrong_attempt), ["outcome_ignored"]);
    assert_eq!(kinds(&world.answer(call, attempt, body.clone())), ["policy_decided", "tool_invoked"]);
    let before = world.session.outstanding();
    let doubled = world.answer(call, attempt, body);
    assert_eq!(told(&doubled), json!([{"outcome_ignored": {"reason": format!("call-{call} is not open")}}]));
    assert_eq!(world.session.outstanding(), before);
    assert!(world.log.last().unwrap().is_void());
    world.check();
}

#[test]
fn what_was_said_meanwhile_comes_with_the_next_request_and_not_before() {
    let mut world = calling(&[("look", json!({}))]);
    prepared(&mut world, 0);
    let said = ArenaEvent::SteeringGiven(SteeringGiven { spark: None, text: "mind the gap".to_owned() });
    assert_eq!(world.give(said), [], "the running call is left alone");
    ran(&mut world, 0, "seen");
    let (_, _, request) = world.model();
    let last = request.messages.last().unwrap();
    assert_eq!(last.parts, [Part::Text { text: "mind the gap".to_owned() }]);

    // Said while the model thinks: the request under way stays as it is, and its answer is not the end.
    let said = ArenaEvent::SteeringGiven(SteeringGiven { spark: None, text: "and the train".to_owned() });
    assert_eq!(world.give(said), []);
    world.check();
    let decided = world.model_says(text("done"));
    assert_eq!(kinds(&decided), ["budget_settled", "budget_reserved", "model_called"]);
    assert!(words(&world.model().2).ends_with("done\nand the train"));
    world.model_says(text("done again"));
    assert_eq!(cause(&world), TurnCause::Done);
}

#[test]
fn an_unknown_kind_is_carried_and_never_acted_upon() {
    let mut world = calling(&[("look", json!({}))]);
    let next = world.log.len() as u64;
    let raw = json!({"x": 1});
    let events = vec![ArenaEvent::Unknown { kind: "wormhole_opened".to_owned(), raw }];
    let line = json!({"v": 2, "seq": next, "at": 5, "events": events}).to_string();
    let entry: agon::protocol::Entry = serde_json::from_str(&line).unwrap();
    let before = world.session.outstanding();
    world.session.apply(&std::sync::Arc::new(entry.clone())).unwrap();
    assert_eq!(world.session.outstanding(), before);
    assert_eq!(entry.events[0].kind(), "wormhole_opened");
    world.log.push(std::sync::Arc::new(entry));
    world.check();
}

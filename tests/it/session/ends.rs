//! Interrupts, stops and refused wishes: every call has its result, every end one cause.

use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::message::{Part, Role};
use agon::protocol::spec::Mode;
use agon::protocol::{SparkId, StopCause};
use serde_json::json;

use super::kit::*;
use crate::support::world::*;

fn interrupt(world: &mut World) -> Vec<ArenaEvent> {
    world.give(ArenaEvent::InterruptRequested(InterruptRequested { spark: None, call: None }))
}

fn stop(world: &mut World, cause: StopCause) -> Vec<ArenaEvent> {
    world.give(ArenaEvent::StopRequested(StopRequested { cause }))
}

#[test]
fn an_interrupt_gives_every_call_a_result() {
    // One call in each state: running, prepared and asked about, waiting behind a change.
    let mut world = World::open(spec());
    world.prompt("do it");
    world.model_says(calls(&[("look", json!({})), ("run", json!({})), ("put", json!({}))]));
    prepared(&mut world, 0);
    prepared(&mut world, 1);
    let decided = interrupt(&mut world);
    let cancelled = "cancelled before it was started";
    assert_eq!(
        told(&decided),
        json!([
            {"call_cancelled": {"call": 5, "reason": "the spark is stopping"}},
            {"tool_refused": {"use": usage(2, 1), "reason": "cancelled", "text": cancelled}},
            {"tool_refused": {"use": usage(2, 2), "reason": "cancelled", "text": cancelled}},
            {"call_cancelled": {"call": 4, "reason": "the spark is stopping"}},
        ])
    );
    world.check();
    let (call, attempt, effect) = call_of(&world, 0);
    let Effect::Tool { context: tool, .. } = effect else { panic!() };
    let end = resolved(tool.tool_use, ToolStatus::Cancelled, "stopped after 3 lines");
    let decided = world.answer(call, attempt, OutcomeBody::ToolResolved(end));
    assert_eq!(kinds(&decided), ["spark_completed", "turn_closed"]);
    assert_eq!(cause(&world), TurnCause::Interrupted);
    world.every_use_ends_once();

    world.prompt("go on");
    let shown = results(&world.model().2);
    assert_eq!(shown.len(), 3, "the history is whole: {shown:?}");
    assert!(shown[0].ends_with("stopped after 3 lines") && shown[2].ends_with(cancelled), "{shown:?}");
    world.check();
}

#[test]
fn an_interrupted_model_call_is_awaited_and_its_words_are_not_lost() {
    let mut world = World::open(spec());
    world.prompt("do it");
    assert_eq!(kinds(&interrupt(&mut world)), ["call_cancelled"]);
    assert!(world.session.has_open_turn(), "its one outcome is still to come");
    let decided = world.model_says(calls(&[("run", json!({}))]));
    assert_eq!(
        kinds(&decided),
        ["budget_settled", "tool_refused", "spark_completed", "turn_closed"],
        "it came just then: paid for, recorded, not acted upon"
    );
    world.every_use_ends_once();
    world.check();
}

#[test]
fn what_had_arrived_of_an_interrupted_answer_is_in_the_next_request() {
    let mut world = World::open(spec());
    world.prompt("write a poem");
    interrupt(&mut world);
    let (call, attempt, _) = world.model();
    let cut = ModelFailed { said: "Roses are".to_owned(), ..failure(ErrorKind::Cancelled) };
    let decided = world.answer(call, attempt, OutcomeBody::ModelFailed(cut));
    assert_eq!(kinds(&decided), ["budget_settled", "notice_given", "spark_completed", "turn_closed"]);
    world.check();
    world.prompt("continue");
    let (_, _, request) = world.model();
    let said: Vec<(Role, String)> = request
        .messages
        .iter()
        .filter(|message| message.role != Role::System)
        .map(|message| match &message.parts[..] {
            [Part::Text { text }] => (message.role, text.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    let notice = "Your answer was interrupted here, before it was complete.";
    let expected = [
        (Role::User, "write a poem"),
        (Role::Assistant, "Roses are"),
        (Role::User, notice),
        (Role::User, "continue"),
    ];
    assert_eq!(said, expected.map(|(role, text)| (role, text.to_owned())));
    world.check();
    let folded = agon::session::Session::fold(&world.log).unwrap();
    assert_eq!(folded.outstanding(), world.session.outstanding());
}

#[test]
fn an_interrupt_between_two_attempts_ends_the_wait() {
    let mut world = World::open(spec());
    world.prompt("do it");
    world.model_fails(ErrorKind::Overloaded);
    let decided = interrupt(&mut world);
    assert_eq!(
        kinds(&decided),
        ["call_cancelled", "call_cancelled", "spark_completed", "turn_closed"],
        "{}",
        world.story()
    );
    assert_eq!(world.session.outstanding(), []);
    world.check();
}

#[test]
fn a_stop_seals_in_the_entry_of_the_last_outcome() {
    let mut world = calling(&[("look", json!({}))]);
    prepared(&mut world, 0);
    assert_eq!(kinds(&stop(&mut world, StopCause::Interrupted)), ["call_cancelled"]);
    let decided = ran(&mut world, 0, "seen after all");
    assert_eq!(kinds(&decided), ["spark_completed", "turn_closed", "session_sealed"]);
    assert_eq!(world.session.sealed(), Some(StopCause::Interrupted));
    assert_eq!(cause(&world), TurnCause::Stopped);

    let mut world = World::open(spec());
    assert_eq!(kinds(&stop(&mut world, StopCause::Quit)), ["session_sealed"], "nothing was awaited");
    world.check();
}

#[test]
fn a_sealed_session_is_resumed_and_takes_the_next_task() {
    let mut world = World::open(spec());
    stop(&mut world, StopCause::Finished);
    let refused = world.prompt("more");
    assert_eq!(
        told(&refused),
        json!([{"input_refused": {"reason": "the session is sealed; resume it first"}}])
    );
    let mut world = reopened(world);
    assert_eq!(world.give(resumed(vec![], 0)), []);
    assert!(kinds(&world.prompt("more")).contains(&"model_called"));
    world.check();
}

#[test]
fn wishes_that_make_no_sense_are_refused_with_the_reason() {
    let mut world = World::open(spec());
    let reason = |decided: Vec<ArenaEvent>| told(&decided)[0]["input_refused"]["reason"].clone();
    assert_eq!(reason(world.prompt(" \n")), "the prompt is empty");
    assert_eq!(reason(interrupt(&mut world)), "no turn is open; there is nothing to interrupt");
    let opened = world.log[0].events[0].clone();
    assert_eq!(reason(world.give(opened)), "the session is already open");
    world.prompt("do it");
    assert_eq!(reason(world.prompt("and this")), "a turn is open; steer it, or interrupt it first");
    let to_nobody = SteeringGiven { spark: Some(SparkId(9)), text: "hello".to_owned() };
    assert_eq!(
        reason(world.give(ArenaEvent::SteeringGiven(to_nobody))),
        "there is no spark-9 at work to steer"
    );
    stop(&mut world, StopCause::Finished);
    assert_eq!(reason(stop(&mut world, StopCause::Finished)), "the session is stopping already");
    world.check();
}

#[test]
fn before_it_is_opened_a_session_takes_nothing() {
    let mut world = World { session: agon::session::Session::new(), log: vec![] };
    let prompt = PromptGiven { text: "x".into(), mode: Mode::Solo, changed: vec![], schema: None, by: None };
    let refused = world.give(ArenaEvent::PromptGiven(prompt));
    assert_eq!(told(&refused), json!([{"input_refused": {"reason": "the session is not open"}}]));
}

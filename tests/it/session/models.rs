//! Model calls that fail: waiting, repeating, another model, the end; and what a summary keeps.

use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::message::{Part, Role};
use serde_json::json;

use super::kit::*;
use crate::support::world::*;

fn delays(seed: u64) -> Vec<u64> {
    let mut spec = spec();
    spec.seed = seed;
    let mut world = World::open(spec);
    world.prompt("do it");
    let mut delays = Vec::new();
    loop {
        let decided = world.model_fails(ErrorKind::Overloaded);
        let Some(ArenaEvent::RetryScheduled(retry)) = decided.last() else {
            assert!(kinds(&decided).contains(&"fallback_taken"), "{}", world.story());
            world.check();
            return delays;
        };
        assert_eq!(retry.reason, agon::protocol::EventRef::fact(world.log.len() as u64 - 1));
        delays.push(retry.delay_ms);
        world.check();
        let fired = OutcomeBody::TimerFired(TimerFired { active_ms: 1 });
        let repeated = world.answer(retry.timer.0, 1, fired);
        assert_eq!(kinds(&repeated), ["budget_reserved", "model_called"]);
        let (call, attempt, _) = world.model();
        assert_eq!((call, attempt), (retry.call.0, retry.attempt), "the same call, its next attempt");
    }
}

#[test]
fn delays_double_with_jitter_that_is_a_function_of_the_seed() {
    let (a, b) = (delays(7), delays(8));
    assert_eq!(a, delays(7));
    assert_ne!(a, b);
    for list in [a, b] {
        assert_eq!(list.len(), 4, "five attempts");
        for (delay, doubled) in list.into_iter().zip([500, 1000, 2000, 4000]) {
            assert!((doubled / 2..=doubled).contains(&delay), "{delay} of {doubled}");
        }
    }
}

#[test]
fn a_loading_server_is_waited_for_about_five_minutes() {
    let mut world = World::open(spec());
    world.prompt("do it");
    let mut delays = Vec::new();
    while let Some(ArenaEvent::RetryScheduled(retry)) = world.model_fails(ErrorKind::Loading).last() {
        delays.push(retry.delay_ms);
        world.answer(retry.timer.0, 1, OutcomeBody::TimerFired(TimerFired { active_ms: 1 }));
    }
    world.check();
    assert!(delays.iter().all(|ms| *ms <= 6_000), "{delays:?}");
    let seconds = delays.iter().sum::<u64>() / 1000;
    assert!((180..=360).contains(&seconds), "{seconds} s");
    assert_eq!(world.model().2.model, "mock/b", "then the next model is asked");
}

/// A model's answer that its output limit is too large, as the provider words it.
fn refused_size(world: &mut World, limits: ModelLimits) -> Vec<ArenaEvent> {
    let (call, attempt, _) = world.model();
    let failed = ModelFailed { limits: Some(Box::new(limits)), ..failure(ErrorKind::OutputLimit) };
    world.answer(call, attempt, OutcomeBody::ModelFailed(failed))
}

#[test]
fn less_output_is_asked_for_where_the_provider_says_what_fits() {
    let mut world = World::open(spec());
    world.prompt("do it");
    let (_, _, first) = world.model();
    let limits = ModelLimits { context: Some(4000), input: Some(3000), output: None };
    let decided = refused_size(&mut world, limits);
    assert_eq!(kinds(&decided), ["budget_settled", "budget_reserved", "model_called"], "{}", world.story());
    let (_, _, again) = world.model();
    assert_eq!((again.params.max_output, &again.messages), (Some(999), &first.messages));
    world.check();
    world.model_says(calls(&[("look", json!({"path": "a"}))]));
    prepared(&mut world, 0);
    ran(&mut world, 0, "short");
    assert!(world.model().2.params.max_output < Some(4000), "the window is remembered for the session");
    world.check();
}

#[test]
fn where_no_output_is_left_the_conversation_is_summarised_or_the_model_given_up() {
    let mut world = World::open(spec());
    world.prompt("do it");
    let decided =
        refused_size(&mut world, ModelLimits { context: Some(4000), input: Some(3990), output: None });
    assert!(!kinds(&decided).contains(&"model_called"), "{}", world.story());
    assert_eq!(cause(&world), TurnCause::ContextFull);
    world.check();
}

#[test]
fn every_attempt_says_the_very_same() {
    let mut world = World::open(spec());
    world.prompt("do it");
    let (_, _, first) = world.model();
    world.model_fails(ErrorKind::Network);
    // What is said meanwhile waits: the request was fixed when it was ordered.
    world.give(ArenaEvent::SteeringGiven(SteeringGiven { spark: None, text: "hurry".to_owned() }));
    let (timer, _, _) = world.the(|effect| matches!(effect, Effect::Timer { .. }));
    world.answer(timer, 1, OutcomeBody::TimerFired(TimerFired { active_ms: 1 }));
    assert_eq!(world.model().2, first);
    world.check();
}

#[test]
fn a_rate_limit_is_waited_for_where_no_other_model_takes_over() {
    let mut spec = spec();
    spec.models[0].fallbacks.clear();
    let mut world = World::open(spec);
    world.prompt("do it");
    let mut attempts = 1;
    while let Some(ArenaEvent::RetryScheduled(retry)) = world.model_fails(ErrorKind::RateLimited).last() {
        world.answer(retry.timer.0, 1, OutcomeBody::TimerFired(TimerFired { active_ms: 1 }));
        attempts += 1;
    }
    assert_eq!(attempts, 30, "{}", world.story());
    world.check();
}

/// The models that answer one after another when each fails in this way.
fn taken(kind: ErrorKind, change: impl FnOnce(&mut agon::protocol::spec::Spec)) -> Vec<String> {
    let mut spec = spec();
    spec.retry.attempts = 1;
    spec.models.push(agon::protocol::spec::ModelSpec { name: "mock/c".to_owned(), ..spec.models[1].clone() });
    change(&mut spec);
    let mut world = World::open(spec);
    world.prompt("do it");
    let mut taken = Vec::new();
    while world.session.has_open_turn() {
        taken.push(world.model().2.model);
        world.model_fails(kind);
    }
    assert_eq!(cause(&world), TurnCause::ModelFailed);
    world.check();
    taken
}

#[test]
fn who_takes_over_depends_on_the_role_and_on_what_went_wrong() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(taken(ErrorKind::Auth, |_| ()), ["mock/a", "mock/b"]);
    let persona = |spec: &mut agon::protocol::spec::Spec| {
        spec.personas[0].fallbacks = Some(names(&["mock/c", "mock/b", "mock/a"]));
    };
    assert_eq!(taken(ErrorKind::Auth, persona), ["mock/a", "mock/c", "mock/b"]);
    let by_kind = |spec: &mut agon::protocol::spec::Spec| {
        persona(spec);
        let rows = [(ErrorKind::Overloaded, names(&["mock/b"])), (ErrorKind::Auth, vec![])];
        spec.models[0].fallbacks_on = rows.into();
    };
    // A wrong key is a mistake to mend; an overloaded server has another next to it, and that one's own.
    assert_eq!(taken(ErrorKind::Auth, by_kind), ["mock/a"]);
    assert_eq!(taken(ErrorKind::Overloaded, by_kind), ["mock/a", "mock/b", "mock/c"]);
    assert_eq!(taken(ErrorKind::Network, by_kind), ["mock/a", "mock/c", "mock/b"]);
}

fn failing_with(asked: u64) -> Vec<ArenaEvent> {
    let mut world = World::open(spec());
    world.prompt("do it");
    let (call, attempt, _) = world.model();
    let failed = ModelFailed { retry_after_ms: Some(asked), ..failure(ErrorKind::RateLimited) };
    world.answer(call, attempt, OutcomeBody::ModelFailed(failed))
}

#[test]
fn a_provider_that_asks_for_time_gets_it_and_one_that_asks_too_much_is_left() {
    match failing_with(20_000).last() {
        Some(ArenaEvent::RetryScheduled(retry)) => {
            assert!((20_000..=20_250).contains(&retry.delay_ms), "{}", retry.delay_ms);
        }
        other => panic!("{other:?}"),
    }
    let decided = failing_with(60_001);
    assert_eq!(kinds(&decided), ["budget_settled", "fallback_taken", "budget_reserved", "model_called"]);
    assert_eq!(
        told(&decided)[1],
        json!({"fallback_taken": {"spark": 1, "from": "mock/a", "to": "mock/b", "reason": "e2"}})
    );
}

#[test]
fn when_no_model_is_left_the_turn_says_so() {
    let mut world = World::open(spec());
    world.prompt("do it");
    let decided = world.model_fails(ErrorKind::Auth);
    assert_eq!(kinds(&decided)[1], "fallback_taken", "a refused key is not asked again");
    assert_eq!(world.model().2.model, "mock/b");
    let decided = world.model_fails(ErrorKind::BadRequest);
    assert_eq!(kinds(&decided), ["budget_settled", "spark_completed", "turn_closed"]);
    assert_eq!(cause(&world), TurnCause::ModelFailed);
    world.prompt("once more");
    assert_eq!(world.model().2.model, "mock/a", "a new turn begins with the first model again");
    world.check();
}

/// A world with a small window, worked until it has to be summarised.
fn compacting() -> World {
    let mut spec = spec();
    spec.policy = allow_all();
    spec.models.iter_mut().for_each(|model| (model.context, model.max_output) = (6000, 500));
    let mut world = World::open(spec);
    world.prompt("the task: keep the wheels turning");
    for step in 0..60 {
        let (_, _, request) = world.model();
        if request.messages.last().is_some_and(|m| format!("{:?}", m.parts).contains("no longer fits")) {
            return world;
        }
        world.model_says(calls(&[("look", json!({"path": format!("f{step}")}))]));
        prepared(&mut world, 0);
        ran(&mut world, 0, &format!("{step}: {}", "words and more ".repeat(100)));
    }
    panic!("it never had to be summarised\n{}", world.story());
}

#[test]
fn a_summary_replaces_whole_groups_names_what_it_covers_and_what_follows_fits() {
    let mut world = compacting();
    let (_, _, order) = world.model();
    let before = world.model().0;
    let covered = order.messages.len();
    let mut summary = text("SUMMARY: f0 was read");
    summary.usage.input = 1500;
    let decided = world.model_says(summary);
    assert_eq!(kinds(&decided), ["budget_settled", "context_compacted", "budget_reserved", "model_called"]);
    let ArenaEvent::ContextCompacted(compacted) = &decided[1] else { panic!() };
    // System, instructions, the task and the order itself are shown and not covered.
    assert_eq!(compacted.covers.len(), covered - 4);
    let (after, _, request) = world.model();
    assert!(after > before);
    let said = words(&request);
    for kept in ["You work.", "Be kind.", "keep the wheels turning", "SUMMARY: f0 was read"] {
        assert_eq!(said.matches(kept).count(), 1, "`{kept}` in {said}");
    }
    assert!(!said.contains("[e4] 0: words"), "what is covered is gone: {said}");
    let system = request.messages.iter().take_while(|message| message.role == Role::System).count();
    assert_eq!(system, 2, "persona and instructions stand first");
    let bytes: usize = request
        .messages
        .iter()
        .flat_map(|message| &message.parts)
        .map(|part| match part {
            Part::Text { text } => text.len(),
            Part::Result { content, .. } => content.len(),
            _ => 40,
        })
        .sum();
    assert!(bytes * 3 / 10 + 500 <= 6000, "{bytes} bytes do not fit");
    world.check();
    world.model_says(text("done"));
    assert_eq!(cause(&world), TurnCause::Done);
    world.every_use_ends_once();
}

#[test]
fn what_no_summary_stands_for_is_dropped_and_the_request_says_so() {
    let mut world = compacting();
    world.model_says(text("  "));
    assert!(world.model().2.tools.is_empty(), "asked once more, with nothing else to do");
    let decided = world.model_says(text("  "));
    assert_eq!(
        kinds(&decided),
        ["budget_settled", "notice_given", "context_compacted", "budget_reserved", "model_called"]
    );
    let said = words(&world.model().2);
    assert!(said.contains("dropped without a summary") && said.contains("keep the wheels turning"), "{said}");
    assert!(said.contains("words and more"), "no more than makes room: {said}");
    world.check();
    world.model_says(text("done"));
    assert_eq!(cause(&world), TurnCause::Done);
}

#[test]
fn a_model_that_calls_a_tool_in_place_of_a_summary_is_asked_again_without_tools() {
    let mut world = compacting();
    assert!(!world.model().2.tools.is_empty());
    let decided = world.model_says(calls(&[("look", json!({"path": "a"}))]));
    assert_eq!(kinds(&decided), ["budget_settled", "notice_given", "budget_reserved", "model_called"]);
    assert!(world.model().2.tools.is_empty(), "{}", world.story());
    let decided = world.model_says(text("SUMMARY: all is well"));
    assert_eq!(kinds(&decided)[1], "context_compacted");
    assert!(!world.model().2.tools.is_empty(), "the work goes on with its tools");
    world.check();
}

#[test]
fn a_task_that_cannot_fit_ends_the_turn_by_name() {
    let mut spec = spec();
    spec.models.iter_mut().for_each(|model| (model.context, model.max_output) = (2000, 500));
    let mut world = World::open(spec);
    let decided = world.prompt(&"a long story ".repeat(2000));
    assert!(!kinds(&decided).contains(&"model_called"), "{}", world.story());
    assert_eq!(cause(&world), TurnCause::ContextFull);
    world.check();
}

#[test]
fn an_overflow_the_estimate_did_not_see_is_answered_with_a_summary() {
    let mut world = calling(&[("look", json!({"path": "a"}))]);
    prepared(&mut world, 0);
    ran(&mut world, 0, &"many words ".repeat(800));
    world.model_says(calls(&[("look", json!({"path": "b"}))]));
    prepared(&mut world, 0);
    ran(&mut world, 0, "short");
    let decided = world.model_fails(ErrorKind::ContextOverflow);
    assert_eq!(
        kinds(&decided),
        ["budget_settled", "notice_given", "budget_reserved", "model_called"],
        "{}",
        world.story()
    );
    assert!(words(&world.model().2).contains("no longer fits"));
    world.model_says(text("SUMMARY"));
    let said = words(&world.model().2);
    assert!(said.contains("SUMMARY") && said.contains("short") && !said.contains("many words"), "{said}");
    world.check();
}

#[test]
fn an_overflow_with_nothing_to_summarise_ends_the_turn_by_name() {
    let mut world = World::open(spec());
    world.prompt("do it");
    world.model_fails(ErrorKind::ContextOverflow);
    assert_eq!(cause(&world), TurnCause::ContextFull);
}

#[test]
fn a_call_of_a_copy_that_was_only_made_costs_nothing_when_it_is_taken_up() {
    let mut world = World::open(spec());
    world.prompt("the first task");
    world.model_says(text("done"));
    world.give(ArenaEvent::SessionForked(crate::support::forked(world.log.len() as u64 - 1)));
    let (text, by) = ("another task".to_owned(), Some("fork".to_owned()));
    world.give(ArenaEvent::PromptGiven(PromptGiven {
        text,
        mode: world.mode(),
        changed: vec![],
        schema: None,
        by,
    }));
    world.give(ArenaEvent::SessionPaused(SessionPaused { cause: PauseCause::Quit }));
    let mut world = reopened(world);
    let decided = world.give(resumed(vec![], 0));
    let settled = decided.iter().find_map(|event| match event {
        ArenaEvent::BudgetSettled(data) => Some(data.usage.total()),
        _ => None,
    });
    assert_eq!(settled, Some(0), "it was never sent\n{}", world.story());
    world.check();
}

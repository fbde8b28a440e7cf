//! Limits: reserved before a call, shrunk to what is left, refused by name; and sparks that go in circles.

use agon::protocol::Entry;
use agon::protocol::effect::TimerOrder;
use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::message::Usage;
use agon::protocol::spec::Limits;
use serde_json::json;
use std::sync::Arc;

use super::kit::*;
use crate::support::world::*;

fn limited(change: impl FnOnce(&mut Limits)) -> World {
    let mut spec = spec();
    spec.policy = allow_all();
    change(&mut spec.limits);
    World::open(spec)
}

/// Lets the model look once, with everything that goes with it; gives the last decisions.
fn look(world: &mut World) -> Vec<ArenaEvent> {
    world.model_says(calls(&[("look", json!({"path": format!("f{}", world.log.len())}))]));
    prepared(world, 0);
    ran(world, 0, "seen")
}

fn reached(world: &World) -> LimitReached {
    let found = world.log.iter().flat_map(|entry| &entry.events).find_map(|event| match event {
        ArenaEvent::LimitReached(data) => Some(data.clone()),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no limit was reached\n{}", world.story()))
}

#[test]
fn the_last_step_is_the_last() {
    let mut world = limited(|limits| limits.max_steps = 2);
    world.prompt("do it");
    look(&mut world);
    let decided = look(&mut world);
    assert_eq!(kinds(&decided), ["limit_reached", "spark_completed", "turn_closed"]);
    assert_eq!(reached(&world), LimitReached::new(LimitKind::Steps, 2, 2));
    assert_eq!(cause(&world), TurnCause::Limit);
    world.prompt("again");
    assert_eq!(world.model().1, 1, "steps count by the turn");
    world.check();
}

#[test]
fn tokens_shrink_the_answer_first_and_then_refuse_the_call() {
    let mut world = limited(|limits| limits.max_tokens = Some(1000));
    world.prompt("do it");
    let (_, _, request) = world.model();
    let first = request.params.max_output.unwrap();
    assert!((256..1000).contains(&first), "the answer has what is left: {first}");
    let reserved = world.log[1].events.iter().find_map(|event| match event {
        ArenaEvent::BudgetReserved(data) => Some(data.tokens),
        _ => None,
    });
    assert_eq!(reserved, Some(1000), "input and answer together are the whole budget");
    for _ in 0..10 {
        if !world.session.has_open_turn() {
            break;
        }
        look(&mut world);
    }
    let limit = reached(&world);
    assert_eq!((limit.limit, limit.max), (LimitKind::Tokens, 1000));
    assert!(limit.used > 1000, "what the refused call would have used at least: {limit:?}");
    assert_eq!(cause(&world), TurnCause::Limit);
    world.prompt("again");
    assert_eq!(cause(&world), TurnCause::Limit, "tokens count by the session");
    world.check();
}

#[test]
fn money_shrinks_the_answer_and_is_never_overspent() {
    let mut world = limited(|limits| limits.max_micro_usd = Some(1500));
    world.prompt("do it");
    let reserved = world.log[1].events.iter().find_map(|event| match event {
        ArenaEvent::BudgetReserved(data) => Some(data.micro_usd),
        _ => None,
    });
    let reserved = reserved.unwrap();
    assert!((1490..=1500).contains(&reserved), "the worst case is the whole budget: {reserved}");
    for _ in 0..30 {
        if world.session.has_open_turn() {
            look(&mut world);
        }
    }
    assert_eq!(reached(&world).limit, LimitKind::MicroUsd);
    let spent: u64 = world
        .log
        .iter()
        .flat_map(|entry| &entry.events)
        .map(|event| match event {
            ArenaEvent::BudgetSettled(data) => data.micro_usd,
            _ => 0,
        })
        .sum();
    assert!(spent <= 1500, "{spent}");
    world.check();
}

#[test]
fn a_turn_has_a_budget_of_its_own_and_the_next_one_has_it_again() {
    let mut world = limited(|limits| limits.turn.max_tokens = Some(3000));
    for _ in 0..2 {
        world.prompt("do it");
        while world.session.has_open_turn() {
            let usage = Usage { input: 500, output: 400, ..Usage::default() };
            let path = format!("f{}", world.log.len());
            world.model_says(ModelReply { usage, ..calls(&[("look", json!({"path": path}))]) });
            prepared(&mut world, 0);
            ran(&mut world, 0, "seen");
        }
        assert_eq!((reached(&world).limit, cause(&world)), (LimitKind::TurnTokens, TurnCause::Limit));
    }
    let answers = |entry: &&Arc<Entry>| matches!(entry.events[0], ArenaEvent::ModelAnswered(_));
    assert!(world.log.iter().filter(answers).count() >= 4, "{}", world.story());
    world.check();
}

#[test]
fn a_spark_alone_ends_with_its_budget() {
    let mut world = limited(|limits| limits.spark.max_micro_usd = Some(1500));
    world.prompt("do it");
    while world.session.has_open_turn() {
        look(&mut world);
    }
    let limit = reached(&world);
    assert_eq!((limit.limit, limit.max), (LimitKind::SparkMicroUsd, 1500));
    assert!(limit.spark.is_some() && cause(&world) == TurnCause::Limit, "{}", world.story());
    world.check();
}

#[test]
fn an_attempt_that_the_budget_does_not_cover_is_not_made() {
    let mut world = limited(|limits| limits.turn.max_tokens = Some(1000));
    world.prompt("do it");
    let (call, attempt, _) = world.model();
    // What the failed attempt took is no longer there for the next.
    let failed = ModelFailed {
        usage: Some(Usage { input: 400, output: 300, ..Usage::default() }),
        ..failure(ErrorKind::Overloaded)
    };
    world.answer(call, attempt, OutcomeBody::ModelFailed(failed));
    let (timer, ..) = world.the(|effect| matches!(effect, Effect::Timer { .. }));
    let decided = world.answer(timer, 1, OutcomeBody::TimerFired(TimerFired { active_ms: 1 }));
    assert_eq!(kinds(&decided), ["call_lost", "limit_reached", "spark_completed", "turn_closed"]);
    assert_eq!(reached(&world).limit, LimitKind::TurnTokens);
    world.check();
}

#[test]
fn seconds_end_the_turn_and_what_runs_is_told_to_stop() {
    let mut world = limited(|limits| limits.max_seconds = Some(60));
    world.prompt("do it");
    world.model_says(calls(&[("run", json!({})), ("look", json!({}))]));
    prepared(&mut world, 0);
    recorded(&mut world);
    let (timer, attempt, effect) = world.the(|effect| matches!(effect, Effect::Timer { .. }));
    assert!(matches!(effect, Effect::Timer { order: TimerOrder { ms: 60_000, .. }, .. }), "{effect:?}");
    let decided = world.answer(timer, attempt, OutcomeBody::TimerFired(TimerFired { active_ms: 60_010 }));
    assert_eq!(
        told(&decided),
        json!([
            {"limit_reached": {"limit": "seconds", "used": 60, "max": 60}},
            {"tool_refused": {"use": usage(2, 1), "reason": "limit", "text": "cancelled before it was started"}},
            {"call_cancelled": {"call": 5, "reason": "the spark is stopping"}},
        ])
    );
    let decided = ran(&mut world, 0, "it really was done");
    assert_eq!(&kinds(&decided)[kinds(&decided).len() - 2..], ["spark_completed", "turn_closed"]);
    assert_eq!(cause(&world), TurnCause::Limit);
    world.every_use_ends_once();
    world.check();
}

#[test]
fn a_clock_that_is_set_costs_a_turn_none_of_its_time() {
    let mut world = limited(|limits| limits.max_seconds = Some(60));
    world.prompt("do it");
    world.model_says(calls(&[("look", json!({}))]));
    prepared(&mut world, 0);
    let active = |later: [u64; 2]| {
        let mut recorded = agon::arena::Recorded::default();
        let last = world.log.len() - 2;
        for (nth, entry) in world.log.iter().enumerate() {
            let mut entry = Entry::clone(entry);
            entry.at = if nth < last { entry.at } else { later[nth - last] * 1_000_000 };
            recorded.apply(&Arc::new(entry));
        }
        (recorded.active_ms() + 500) / 1000
    };
    assert_eq!(active([11, 31]), 30, "as long as the turn took");
    assert_eq!(active([86_400, 86_410]), 10, "a day forward");
    assert_eq!(active([11, 0]), 10, "and back");
}

#[test]
fn going_in_circles_is_warned_of_once_and_then_ends() {
    let mut world = limited(|_| {});
    world.prompt("do it");
    let round = |world: &mut World, ms: u64| {
        world.model_says(calls(&[("look", json!({"path": "a"}))]));
        prepared(world, 0);
        ran(world, 0, &format!("exit code 1 after {ms} ms\nfail"))
    };
    round(&mut world, 12);
    assert_eq!(kinds(&round(&mut world, 7)), ["budget_reserved", "model_called"]);
    let decided = round(&mut world, 9);
    assert_eq!(
        kinds(&decided),
        ["notice_given", "budget_reserved", "model_called"],
        "the same call with the same result but for its duration"
    );
    assert!(words(&world.model().2).contains("You are repeating the same call"));
    round(&mut world, 1);
    let decided = round(&mut world, 1);
    assert_eq!(kinds(&decided), ["spark_completed", "turn_closed"]);
    assert_eq!(cause(&world), TurnCause::Loop);
    world.check();
}

#[test]
fn the_same_call_with_new_results_is_no_circle_until_the_eighth_of_ten() {
    let mut world = limited(|_| {});
    world.prompt("do it");
    for n in 0..7 {
        world.model_says(calls(&[("look", json!({"path": "a"}))]));
        prepared(&mut world, 0);
        let decided = ran(&mut world, 0, &format!("line {n}"));
        assert_eq!(kinds(&decided), ["budget_reserved", "model_called"], "round {n}");
    }
    world.model_says(calls(&[("look", json!({"path": "a"}))]));
    prepared(&mut world, 0);
    assert_eq!(kinds(&ran(&mut world, 0, "line 8"))[0], "notice_given");
}

#[test]
fn only_answers_of_a_kind_have_a_limit_of_their_own() {
    use crate::support::squad::{blueprint, with_blueprint};
    let roomy = || {
        let mut spec = spec();
        spec.models.iter_mut().for_each(|model| (model.context, model.max_output) = (400_000, 128_000));
        spec
    };
    let mut solo = World::open(roomy());
    solo.prompt("do it");
    assert_eq!(solo.model().2.params.max_output, Some(128_000), "a file may be long");
    let mut squad = World::open(with_blueprint(roomy(), blueprint(&[])));
    squad.prompt("do it");
    assert_eq!(squad.model().2.params.max_output, Some(32_768), "a plan is not");
}

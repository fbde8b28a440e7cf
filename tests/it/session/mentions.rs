//! Mentions: read before anybody begins, shown to whoever works, never lost and never in anybody's way.

use agon::protocol::CallId;
use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::effect::{MentionContext, MentionOrder};
use agon::protocol::event::*;
use agon::protocol::message::Request;
use agon::protocol::spec::{Action, DeniedPath, Rule};
use agon::session::Session;
use serde_json::json;

use super::kit::*;
use crate::support::world::*;

/// The first place that is being read.
fn reading(world: &World) -> (u64, u32, Effect) {
    let open = world.session.outstanding().into_iter();
    let mut effects =
        open.filter_map(|open| Some((open.call.0, open.attempt, world.session.effect(open.call)?)));
    effects.find(|(_, _, effect)| matches!(effect, Effect::Mention { .. })).expect("nothing is read")
}

/// Reads the place that is read now.
fn read(world: &mut World) -> Vec<ArenaEvent> {
    let (call, attempt, effect) = reading(world);
    world.answer(call, attempt, succeed(&effect).unwrap())
}

fn unreadable(world: &mut World, status: FailStatus, why: &str) -> Vec<ArenaEvent> {
    let (call, attempt, _) = reading(world);
    world.answer(call, attempt, OutcomeBody::EffectFailed(EffectFailed { status, error: why.to_owned() }))
}

/// What the person and agon said in a request.
fn said(request: &Request) -> Vec<String> {
    let user = request.messages.iter().filter(|one| one.role == agon::protocol::message::Role::User);
    user.map(|one| words(&Request { messages: vec![one.clone()], ..request.clone() })).collect()
}

#[test]
fn what_the_prompt_mentions_is_read_at_once_and_said_in_its_order_whatever_comes_first() {
    let mut world = World::open(spec());
    let opened = world.prompt("mend @src/a.rs:1-2 like @b/");
    assert_eq!(kinds(&opened), ["turn_opened", "effect_ordered", "effect_ordered"]);
    let (call, _, first) = reading(&world);
    let Effect::Mention { order: MentionOrder { place }, .. } = first else { panic!() };
    assert_eq!((place.path.as_str(), place.first, place.last), ("src/a.rs", Some(1), Some(2)));
    world.check();
    let second = world.session.effect(CallId(call + 1)).unwrap();
    assert_eq!(kinds(&world.answer(call + 1, 1, succeed(&second).unwrap())), [""; 0], "the first is awaited");
    world.check();
    let begun = read(&mut world);
    assert_eq!(kinds(&begun), ["spark_ignited", "budget_reserved", "model_called"]);
    let (_, _, request) = world.model();
    assert_eq!(
        said(&request),
        [
            "mend @src/a.rs:1-2 like @b/",
            "[e3] @src/a.rs:1-2\n     1\twords of src/a.rs\n",
            "[e2] @b/\n     1\twords of b/\n"
        ]
    );
    world.check();
}

#[test]
fn a_mentioned_file_may_be_changed_without_being_read_again() {
    let mut spec = spec();
    spec.policy = allow_all();
    let mut world = World::open(spec);
    world.prompt("mend @a.rs");
    read(&mut world);
    world.model_says(calls(&[("put", json!({"path": "a.rs"}))]));
    let (_, _, effect) = call_of(&world, 0);
    let Effect::Prepare { context: call, .. } = effect else { panic!("{effect:?}") };
    assert_eq!(call.bases, [PathBase { path: "a.rs".to_owned(), sha256: Some("seen".to_owned()) }]);
}

#[test]
fn what_could_not_be_read_is_told_and_a_name_that_was_never_meant_as_a_file_is_not() {
    let mut world = World::open(spec());
    world.prompt("ask @ann about @src/gone.rs");
    unreadable(&mut world, FailStatus::Failed, "`@ann` was not read: `ann` does not exist");
    unreadable(&mut world, FailStatus::Failed, "`@src/gone.rs` was not read: `src/gone.rs` does not exist");
    let (_, _, request) = world.model();
    assert_eq!(
        said(&request),
        ["ask @ann about @src/gone.rs", "`@src/gone.rs` was not read: `src/gone.rs` does not exist"]
    );
    world.check();
}

#[test]
fn whoever_reads_is_told_what_the_policy_denies() {
    let mut spec = spec();
    let deny = |tool: Option<&str>, path: Option<&str>| Rule {
        name: "no".to_owned(),
        tool: tool.map(Into::into),
        path: path.map(Into::into),
        action: Action::Deny,
        ..allow_all().rules.remove(0)
    };
    spec.policy.rules =
        vec![deny(None, Some(".env")), deny(Some("read_*"), None), deny(Some("put"), Some("x"))];
    let mut world = World::open(spec);
    world.prompt("see @a");
    let (_, _, effect) = reading(&world);
    let Effect::Mention { context: MentionContext { denied, .. }, .. } = effect else { panic!() };
    assert_eq!(denied, [".env", "**"].map(DeniedPath::of));
}

#[test]
fn words_said_before_anybody_begins_are_told_with_the_prompt() {
    let mut world = World::open(spec());
    world.prompt("mend @a.rs");
    world.give(ArenaEvent::SteeringGiven(SteeringGiven { spark: None, text: "and @b.rs".to_owned() }));
    read(&mut world);
    read(&mut world);
    let (_, _, request) = world.model();
    assert_eq!(
        said(&request),
        [
            "mend @a.rs",
            "[e3] @a.rs\n     1\twords of a.rs\n",
            "and @b.rs",
            "[e4] @b.rs\n     1\twords of b.rs\n"
        ]
    );
    world.check();
}

#[test]
fn a_spark_does_not_end_before_it_saw_what_was_mentioned_to_it() {
    let mut world = World::open(spec());
    world.prompt("begin");
    let steered =
        world.give(ArenaEvent::SteeringGiven(SteeringGiven { spark: None, text: "see @b.rs".into() }));
    assert_eq!(kinds(&steered), ["effect_ordered"]);
    let answered = world.model_says(text("done"));
    assert_eq!(kinds(&answered), ["budget_settled"], "the file is still being read");
    assert!(kinds(&read(&mut world)).contains(&"model_called"));
    let (_, _, request) = world.model();
    assert_eq!(said(&request).last().unwrap(), "[e4] @b.rs\n     1\twords of b.rs\n");
    world.model_says(text("done indeed"));
    assert_eq!(cause(&world), TurnCause::Done);
    world.check();
}

#[test]
fn an_interrupt_while_something_is_read_ends_the_turn() {
    let mut world = World::open(spec());
    world.prompt("mend @a.rs and @b.rs");
    let told = world.give(ArenaEvent::InterruptRequested(InterruptRequested { spark: None }));
    assert_eq!(kinds(&told), ["call_cancelled", "call_cancelled"]);
    assert_eq!(kinds(&unreadable(&mut world, FailStatus::Cancelled, "reading was cancelled")), [""; 0]);
    let ended = unreadable(&mut world, FailStatus::Cancelled, "reading was cancelled");
    assert_eq!(kinds(&ended), ["turn_closed"]);
    assert_eq!(cause(&world), TurnCause::Interrupted);
    world.check();
    world.prompt("again");
    world.model_says(text("fine"));
    assert_eq!(cause(&world), TurnCause::Done);
}

#[test]
fn a_reading_that_was_cut_off_is_done_again_and_one_time_limit_holds() {
    let mut spec = spec();
    spec.limits.max_seconds = Some(60);
    let mut world = World::open(spec);
    world.prompt("mend @a.rs");
    let mut world = World { session: Session::fold(&world.log).unwrap(), log: world.log };
    world.give(resumed(vec![], 10));
    assert_eq!(reading(&world).1, 2, "the second attempt");
    read(&mut world);
    let timers = world.session.outstanding().into_iter().filter_map(|open| world.session.effect(open.call));
    assert_eq!(timers.filter(|effect| matches!(effect, Effect::Timer { .. })).count(), 1);
    world.model_says(text("done"));
    assert_eq!(cause(&world), TurnCause::Done);
    world.check();
}

#[test]
fn a_strangers_mention_answers_no_rule_that_asks() {
    let asks = |action| Rule {
        tool: Some("read_*".to_owned()),
        path: Some("private/*".to_owned()),
        ..Rule::named("ask", action)
    };
    let denied = |world: &World| match reading(world) {
        (_, _, Effect::Mention { context, .. }) => context.denied,
        other => panic!("{other:?}"),
    };
    let mut spec = spec();
    spec.policy.rules = vec![asks(Action::Ask)];
    let mut world = World::open(spec);
    world.prompt("look at @private/a");
    assert!(denied(&world).is_empty(), "whoever mentions a file has said that it may be read");
    let mut own = reopened(World { session: world.session.clone(), log: world.log.clone() });
    own.give(resumed(vec![], 0));
    assert!(denied(&own).is_empty());
    let mut foreign = reopened(world);
    let rules = agon::protocol::RULES;
    let (program, changed) = ("t".to_owned(), vec![]);
    foreign.give(ArenaEvent::SessionResumed(SessionResumed {
        rules,
        program,
        changed,
        active_ms: 0,
        foreign: true,
    }));
    assert_eq!(denied(&foreign), [DeniedPath::of("private/*")]);
    foreign.check();
}

//! What the session's tests share: decisions as readable values, and outcomes for one call of many.

use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::message::{Part, Request};
use agon::protocol::{CallId, Choice};
use serde_json::{Value, json};

use crate::support::world::*;

/// Decisions as JSON, whole, but for the request's digest, parameters and tools: tests of their own look at those.
pub fn told(events: &[ArenaEvent]) -> Value {
    let short = |event: &ArenaEvent| {
        let mut data = event.data();
        if let (ArenaEvent::ModelCalled(_), Some(map)) = (event, data.as_object_mut()) {
            for key in ["digest", "params", "tools", "parts"] {
                map.remove(key);
            }
        }
        json!({ event.kind(): data })
    };
    events.iter().map(short).collect()
}

pub fn kinds(events: &[ArenaEvent]) -> Vec<&str> {
    events.iter().map(ArenaEvent::kind).collect()
}

/// How `told` shows a tool call.
pub fn usage(answer: u64, part: u16) -> Value {
    json!({ "answer": format!("e{answer}"), "part": part })
}

/// The call that runs or prepares part `part` of the last answer with calls.
pub fn call_of(world: &World, part: u16) -> (u64, u32, Effect) {
    world.the(|effect| match effect {
        Effect::Prepare { context: call, .. } | Effect::Tool { context: call, .. } => {
            call.tool_use.part == part
        }
        _ => false,
    })
}

/// Answers the prepare of one part with success.
pub fn prepared(world: &mut World, part: u16) -> Vec<ArenaEvent> {
    let (call, attempt, effect) = call_of(world, part);
    assert!(matches!(effect, Effect::Prepare { .. }), "{effect:?}");
    world.answer(call, attempt, succeed(&effect).unwrap())
}

/// Ends the running tool of one part with these words.
pub fn ran(world: &mut World, part: u16, words: &str) -> Vec<ArenaEvent> {
    let (call, attempt, effect) = call_of(world, part);
    let Effect::Tool { context: tool, .. } = effect else { panic!("{effect:?}") };
    world.answer(call, attempt, OutcomeBody::ToolResolved(resolved(tool.tool_use, ToolStatus::Ok, words)))
}

/// Answers the one checkpoint.
pub fn recorded(world: &mut World) -> Vec<ArenaEvent> {
    let (call, attempt, effect) = world.the(|effect| matches!(effect, Effect::Checkpoint { .. }));
    world.answer(call, attempt, succeed(&effect).unwrap())
}

/// Answers the one open ask.
pub fn approve(world: &mut World, choice: Choice) -> Vec<ArenaEvent> {
    let (call, digest) = world.session.open_asks().remove(0);
    approve_as(world, call, &digest, choice)
}

pub fn approve_as(world: &mut World, call: CallId, digest: &str, choice: Choice) -> Vec<ArenaEvent> {
    world.give(ArenaEvent::ApprovalAnswered(ApprovalAnswered {
        call,
        digest: digest.to_owned(),
        choice,
        by: "ann".to_owned(),
    }))
}

/// The results a request shows, in order.
pub fn results(request: &Request) -> Vec<String> {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    parts
        .filter_map(|part| match part {
            Part::Result { content, .. } => Some(content.clone()),
            _ => None,
        })
        .collect()
}

/// Everything a request says, joined.
pub fn words(request: &Request) -> String {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let texts = parts.filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        Part::Result { content, .. } => Some(content.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// How the last turn ended.
pub fn cause(world: &World) -> TurnCause {
    assert!(!world.session.has_open_turn(), "{}", world.story());
    world.session.last_turn().unwrap().cause
}

/// A world whose model has just called these tools; everything is allowed.
pub fn calling(list: &[(&str, Value)]) -> World {
    let mut spec = spec();
    spec.policy = allow_all();
    let mut world = World::open(spec);
    world.prompt("do it");
    world.model_says(calls(list));
    world
}

/// The fact that takes a session up again.
pub fn resumed(changed: Vec<agon::protocol::spec::Setting>, active_ms: u64) -> ArenaEvent {
    let rules = agon::protocol::RULES;
    ArenaEvent::SessionResumed(SessionResumed {
        rules,
        program: "t".to_owned(),
        changed,
        active_ms,
        foreign: false,
    })
}

/// The same world as another process sees it: folded from its log.
pub fn reopened(world: World) -> World {
    let session = agon::session::Session::fold(&world.log).unwrap();
    World { session, log: world.log }
}

//! Squads in the pure session: what each role is told, what its answer leads to, and what bad input does.

mod again;
mod cache;
mod claims;
mod earlier;
mod flow;
mod foreign;
mod key;
mod places;
mod program;
mod reported;
mod sent_back;
mod shown;
mod story;
mod undone;
mod unfit;

use std::sync::Arc;

use agon::protocol::effect::ModelContext;
use agon::protocol::event::*;
use agon::protocol::message::{Message, Part, Request};
use agon::protocol::spec::*;

use crate::support::squad::*;
use crate::support::world::*;

/// A squad's session with everything allowed, just given its task; the workspace is recorded.
fn squad(blueprint: Blueprint) -> World {
    let mut spec = with_blueprint(spec(), blueprint);
    spec.policy = allow_all();
    let mut world = World::open(spec);
    world.prompt("Mend the clock.");
    world.run_tools();
    world
}

/// Everything a request says, tools and schema apart.
fn all_words(request: &Request) -> String {
    let words = |message: &Arc<Message>| {
        let texts = message.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.clone()),
            Part::Result { content, .. } => Some(content.clone()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    };
    request.messages.iter().map(words).collect::<Vec<_>>().join("\n---\n")
}

/// The one request that waits for an answer, which must be of this role.
fn asked(world: &World, role: &str) -> String {
    let (_, _, request) = world.model();
    assert_eq!(request.spark, role, "{}", world.story());
    all_words(&request)
}

/// Plan and work: the coder puts something, says so, and what shows it is taken.
fn plan_and_code(world: &mut World) {
    asked(world, "coordinator");
    world.model_says(text("The plan: turn the hand."));
    asked(world, "coder");
    world.model_says(calls(&[("put", serde_json::json!({"path": "f"}))]));
    world.run_tools();
    world.model_says(text("I turned the hand."));
}

fn events(world: &World) -> impl Iterator<Item = &ArenaEvent> {
    world.log.iter().flat_map(|entry| entry.effective()).map(|(_, event)| event)
}

fn phases(world: &World) -> Vec<String> {
    let to = |event: &ArenaEvent| match event {
        ArenaEvent::PhaseShifted(data) => Some(data.to.clone()),
        _ => None,
    };
    events(world).filter_map(to).collect()
}

fn cause(world: &World) -> TurnCause {
    assert!(!world.session.has_open_turn(), "the turn is over\n{}", world.story());
    world.session.last_turn().unwrap().cause
}

fn failed_roles(world: &World) -> Vec<(String, TurnCause)> {
    let failed = |event: &ArenaEvent| match event {
        ArenaEvent::RoleFailed(data) => Some((data.role.clone(), data.cause)),
        _ => None,
    };
    events(world).filter_map(failed).collect()
}

fn flags(world: &World) -> Vec<(u32, String)> {
    let flag = |event: &ArenaEvent| match event {
        ArenaEvent::ClaimFlagged(data) => Some((data.claim, data.reason.clone())),
        _ => None,
    };
    events(world).filter_map(flag).collect()
}

fn whole(world: &World) {
    world.check();
    world.every_use_ends_once();
    let found = agon::arena::replay::verify(&world.log);
    assert!(found.holds(true), "{found:#?}");
}

#[test]
fn a_lead_remembers_the_turn_before_whoever_begins_first() {
    let mut plan = blueprint(&[]);
    plan.lead = Some("coordinator".to_owned());
    plan.roles.insert(0, role("scout", &[]));
    let mut world = squad(plan);
    for turn in ["first", "second"] {
        for _ in 0..8 {
            let Some((open, request)) = world.session.outstanding().into_iter().find_map(|open| match world
                .session
                .effect(open.call)?
            {
                agon::protocol::Effect::Model { context: ModelContext { request, .. }, .. } => {
                    Some((open, request))
                }
                _ => None,
            }) else {
                break;
            };
            if turn == "second" && request.spark == "coordinator" {
                assert!(all_words(&request).contains("Mend the clock."), "{}", all_words(&request));
            }
            let body = agon::protocol::OutcomeBody::ModelAnswered(fitting(&request));
            world.answer(open.call.0, open.attempt, body);
            world.run_tools();
        }
        assert!(!world.session.has_open_turn(), "{}", world.story());
        if turn == "first" {
            world.prompt("And now the bell.");
            world.run_tools();
        }
    }
}

//! What a window can hold: results cut to it, summaries that free something, and a session that stays usable.

use agon::projection::Transcript;
use agon::projection::transcript::Item;
use agon::protocol::EventRef;
use agon::protocol::effect::Effect;
use agon::protocol::event::*;
use serde_json::json;

use super::kit::*;
use crate::support::world::*;

fn small(context: u64) -> World {
    crowded(context, 0)
}

/// A window of which the tools take about this many bytes.
fn crowded(context: u64, bytes: usize) -> World {
    let mut spec = spec();
    spec.tools[0].description += &"x".repeat(bytes);
    spec.policy = allow_all();
    spec.tools.iter_mut().for_each(|tool| tool.output_cap = 64 * 1024);
    spec.models.iter_mut().for_each(|model| (model.context, model.max_output) = (context, 500));
    let mut world = World::open(spec);
    world.prompt("the task: keep the wheels turning");
    world
}

fn cap_of(world: &mut World, calls_made: usize) -> u32 {
    let list: Vec<_> = (0..calls_made).map(|n| ("look", json!({"path": format!("f{n}")}))).collect();
    let mut reply = calls(&list);
    // What a token is in bytes is not learnt from it.
    reply.usage.estimated = true;
    world.model_says(reply);
    prepared(world, 0);
    match call_of(world, 0).2 {
        Effect::Tool { context, .. } => context.output_cap,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_result_may_fill_a_quarter_of_the_window_and_all_of_a_step_one_half() {
    assert_eq!(cap_of(&mut small(400_000), 1), 64 * 1024, "a tool's own cap where the window is large");
    let one = cap_of(&mut small(8_000), 1);
    assert!((2_000..8_000).contains(&one), "2,000 tokens are {one} bytes");
    assert_eq!(cap_of(&mut small(8_000), 2), one);
    assert_eq!(cap_of(&mut small(8_000), 4), one / 2);
    assert_eq!(cap_of(&mut small(1_000), 10), 1024, "something is always shown");
    let left = cap_of(&mut crowded(8_000, one as usize * 2), 1);
    assert!((1_024..one).contains(&left), "three results fit next to the tools: {left} of {one}");
}

#[test]
fn a_result_that_no_request_can_hold_is_dropped_by_name_and_the_work_goes_on() {
    let mut world = small(6_000);
    world.model_says(calls(&[("look", json!({"path": "huge"}))]));
    prepared(&mut world, 0);
    let seq = world.log.len();
    let decided = ran(&mut world, 0, &"of another window ".repeat(4_000));
    assert_eq!(kinds(&decided).last(), Some(&"model_called"), "{}", world.story());
    let order = words(&world.model().2);
    assert!(order.contains("no longer fits") && order.contains(&format!("[e{seq}]")), "{order}");
    assert!(!order.contains("of another window"), "it is not shown again");
    let decided = world.model_says(text("SUMMARY: huge was too large"));
    let ArenaEvent::ContextCompacted(compacted) = &decided[1] else { panic!("{decided:?}") };
    assert_eq!(compacted.covers.len(), 2, "the call and its result");
    let said = words(&world.model().2);
    assert!(said.contains("keep the wheels turning") && said.contains("SUMMARY"), "{said}");
    world.check();
    world.model_says(text("done"));
    assert_eq!(cause(&world), TurnCause::Done);
    // To people it is one thing that happened, and no answer.
    let mut transcript = Transcript::default();
    world.log.iter().for_each(|entry| transcript.apply(entry));
    let of_summary = transcript.items.iter().filter(|item| item.source == compacted.summary);
    assert_eq!(of_summary.count(), 0, "{:?}", transcript.items);
    let lookup = |at: EventRef| world.log.get(at.seq as usize)?.events.get(usize::from(at.i));
    let is_summary = |item: &&Item| matches!(lookup(item.source), Some(ArenaEvent::ContextCompacted(_)));
    let one = transcript.items.iter().find(is_summary).unwrap();
    assert!(one.body(&lookup).unwrap().ends_with("\nSUMMARY: huge was too large"));
}

#[test]
fn a_summary_as_long_as_what_it_covers_is_the_last_one() {
    let mut world = small(6_000);
    world.model_says(calls(&[("look", json!({"path": "a"}))]));
    prepared(&mut world, 0);
    ran(&mut world, 0, &"words ".repeat(800));
    world.model_fails(ErrorKind::ContextOverflow);
    world.model_says(text(&"as long as before ".repeat(400)));
    world.model_fails(ErrorKind::ContextOverflow);
    assert_eq!(cause(&world), TurnCause::ContextFull, "{}", world.story());
    let summaries = world.log.iter().flat_map(|entry| &entry.events);
    assert_eq!(summaries.filter(|event| event.kind() == "context_compacted").count(), 1);
}

#[test]
fn a_turn_that_ends_for_its_window_leaves_a_session_that_answers_the_next_prompt() {
    let mut world = small(6_000);
    world.model_says(calls(&[("look", json!({"path": "a"}))]));
    prepared(&mut world, 0);
    ran(&mut world, 0, &"words ".repeat(800));
    world.model_fails(ErrorKind::ContextOverflow);
    world.model_says(text("  "));
    world.model_says(text("  "));
    world.model_fails(ErrorKind::ContextOverflow);
    assert_eq!(cause(&world), TurnCause::ContextFull);
    let decided = world.prompt("say hi");
    assert_eq!(kinds(&decided).last(), Some(&"model_called"));
    world.model_says(text("hi"));
    assert_eq!(cause(&world), TurnCause::Done);
    world.check();
}

#[test]
fn a_prompt_after_a_task_that_no_window_holds_drops_the_task() {
    let mut world = small(6_000);
    world.model_says(text("done"));
    world.prompt(&"a long story ".repeat(4_000));
    assert_eq!(cause(&world), TurnCause::ContextFull);
    let decided = world.prompt("say hi");
    assert_eq!(kinds(&decided).last(), Some(&"model_called"), "{}", world.story());
    assert!(words(&world.model().2).contains("no longer fits"));
    world.model_says(text("SUMMARY"));
    let said = words(&world.model().2);
    assert!(said.contains("say hi") && !said.contains("a long story"), "{said}");
    world.model_says(text("hi"));
    assert_eq!(cause(&world), TurnCause::Done);
    world.check();
}

/// A window of 4,096 tokens of which persona and tools take about 2,750.
fn tight(task: &str) -> World {
    let mut spec = spec();
    spec.tools[0].description += &"x".repeat(8_800);
    spec.policy = allow_all();
    spec.models.iter_mut().for_each(|model| (model.context, model.max_output) = (4_096, 2_000));
    let mut world = World::open(spec);
    world.prompt(task);
    world
}

fn says(world: &mut World, reply: ModelReply) -> Vec<ArenaEvent> {
    // What a token is in bytes is not learnt from it.
    let usage = agon::protocol::message::Usage { estimated: true, ..reply.usage };
    world.model_says(ModelReply { usage, ..reply })
}

#[test]
fn a_prompt_that_leaves_less_than_a_quarter_for_the_answer_is_sent_with_less() {
    let mut world = tight(&"word ".repeat(300));
    let most = world.model().2.params.max_output.unwrap();
    assert!((512..1_024).contains(&most), "{most}");
    says(&mut world, text("done"));
    assert_eq!(cause(&world), TurnCause::Done);
    // Older turns give way to a short prompt, again and again.
    for _ in 0..6 {
        world.prompt(&"and then ".repeat(30));
        while world.session.has_open_turn() {
            says(&mut world, text(&"well ".repeat(60)));
        }
        assert_eq!(cause(&world), TurnCause::Done, "{}", world.story());
    }
    world.check();
}

#[test]
fn a_result_that_no_summary_can_be_shown_is_dropped_with_a_line_and_the_task_stays() {
    let mut world = tight("keep the wheels turning");
    says(&mut world, calls(&[("look", json!({"path": "a"}))]));
    prepared(&mut world, 0);
    let decided = ran(&mut world, 0, &"many words ".repeat(360));
    assert!(kinds(&decided).contains(&"context_compacted"), "{}", world.story());
    let said = words(&world.model().2);
    assert!(said.contains("keep the wheels turning") && said.contains("dropped without a summary"), "{said}");
    assert!(!said.contains("many words"), "{said}");
    world.check();
    let mut transcript = Transcript::default();
    world.log.iter().for_each(|entry| transcript.apply(entry));
    let lookup = |at: EventRef| world.log.get(at.seq as usize)?.events.get(usize::from(at.i));
    let mut told = transcript.items.iter().filter_map(|item| item.body(&lookup));
    assert!(told.any(|words| words.contains("dropped without a summary: no room in the window")));
    says(&mut world, text("done"));
    assert_eq!(cause(&world), TurnCause::Done);
}

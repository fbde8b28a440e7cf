//! Answers that end a turn, and answers that cannot: empty, cut, refused, misfitting.

use agon::protocol::event::*;
use agon::protocol::message::{Args, Finish, Part};
use agon::protocol::spec::Mode;
use serde_json::json;

use super::kit::*;
use crate::support::world::*;

fn prompted() -> World {
    let mut world = World::open(spec());
    world.prompt("do it");
    world
}

fn typed() -> World {
    let mut world = World::open(spec());
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    world.give(ArenaEvent::PromptGiven(PromptGiven {
        text: "count".to_owned(),
        mode: Mode::Solo,
        changed: vec![],
        schema: Some(schema),
        by: None,
    }));
    world
}

fn cut(words: &str) -> ModelReply {
    reply(vec![Part::Text { text: words.to_owned() }], Finish::Length)
}

#[test]
fn an_empty_answer_is_asked_again_once() {
    let mut world = prompted();
    let decided = world.model_says(text(" \n"));
    assert_eq!(kinds(&decided), ["budget_settled", "notice_given", "budget_reserved", "model_called"]);
    assert!(words(&world.model().2).ends_with("Answer in words, or call a tool."));
    world.check();
    world.model_says(reply(vec![], Finish::Stop));
    assert_eq!(cause(&world), TurnCause::EmptyAnswer);
    assert_eq!(world.session.last_turn().unwrap().answer, None, "nothing is no answer");
}

#[test]
fn thinking_without_words_is_no_answer_either() {
    let mut world = prompted();
    let thought = Part::Reasoning { text: "hm".to_owned(), opaque: None };
    let decided = world.model_says(reply(vec![thought], Finish::Stop));
    assert_eq!(kinds(&decided)[1], "notice_given");
    well_formed(&world.model().2);
    world.model_says(text("42"));
    assert_eq!(cause(&world), TurnCause::Done);
}

#[test]
fn a_cut_answer_is_asked_for_again_once() {
    let mut world = prompted();
    world.model_says(cut("once upon a ti"));
    assert!(words(&world.model().2).contains("cut at the output limit"));
    world.model_says(cut("once upon a ti"));
    assert_eq!(cause(&world), TurnCause::Truncated);
}

#[test]
fn a_call_cut_at_the_output_limit_is_named_so_and_three_in_a_row_end_the_turn() {
    let cut_write = |n: u32| {
        let mut reply = calls(&[("put", json!({}))]);
        let Part::Call { args, .. } = &mut reply.message[0] else { panic!() };
        *args = Args::Broken(format!("{{\"path\":\"a\",\"text\":\"part {n} of a long file"));
        ModelReply { finish: Finish::Length, ..reply }
    };
    let mut world = prompted();
    world.model_says(cut_write(1));
    assert!(words(&world.model().2).contains("cut at the output limit inside the arguments"));
    world.model_says(cut_write(2));
    world.model_says(calls(&[("look", json!({"path": "a"}))]));
    world.run_tools();
    world.model_says(cut_write(4));
    world.model_says(cut_write(5));
    world.check();
    assert!(world.session.has_open_turn(), "a whole call between them starts the count again");
    world.model_says(cut_write(6));
    assert_eq!(cause(&world), TurnCause::Truncated, "not a loop: the model never got to act");
}

#[test]
fn a_refusal_is_a_cause_and_not_asked_again() {
    for finish in [Finish::Refused, Finish::Filtered] {
        let mut world = prompted();
        world.model_says(reply(vec![Part::Text { text: "I will not".to_owned() }], finish));
        assert_eq!(cause(&world), TurnCause::Refused);
    }
}

#[test]
fn a_filter_in_the_middle_of_a_call_ends_the_turn_and_nothing_is_done() {
    let mut world = prompted();
    let call = |args| Part::Call { id: "c1".to_owned(), name: "run".to_owned(), args };
    let cut = call(agon::protocol::message::Args::Broken("{\"command\":\"rm".to_owned()));
    let decided = world.model_says(reply(vec![cut], Finish::Filtered));
    assert_eq!(kinds(&decided), ["budget_settled", "tool_refused", "spark_completed", "turn_closed"]);
    assert_eq!(cause(&world), TurnCause::Refused);
    world.prompt("then do something else");
    world.model_says(text("done"));
    world.every_use_ends_once();
    world.check();
}

#[test]
fn an_unknown_reason_to_stop_is_kept_and_the_answer_counts() {
    let mut world = prompted();
    let part = Part::Text { text: "42".to_owned() };
    world.model_says(reply(vec![part], Finish::Other("eos_v2".to_owned())));
    assert_eq!(cause(&world), TurnCause::Done);
    world.check();
}

#[test]
fn a_typed_answer_is_repaired_once_with_its_errors() {
    let mut world = typed();
    let decided = world.model_says(text("{\"n\": \"three\"}"));
    assert_eq!(kinds(&decided), ["budget_settled", "answer_rejected", "budget_reserved", "model_called"]);
    let ArenaEvent::AnswerRejected(rejected) = &decided[1] else { panic!() };
    assert!(rejected.repair && rejected.errors[0].starts_with("`n` must be a whole number"), "{rejected:?}");
    assert!(words(&world.model().2).contains("`n` must be"), "the model is told what does not fit");
    world.check();
    world.model_says(text("```json\n{\"n\": 3}\n```"));
    assert_eq!(cause(&world), TurnCause::Done);

    let mut world = typed();
    world.model_says(text("three"));
    let decided = world.model_says(text("three!"));
    assert_eq!(kinds(&decided), ["budget_settled", "answer_rejected", "spark_completed", "turn_closed"]);
    assert_eq!(cause(&world), TurnCause::BadAnswer);
    assert_eq!(world.session.last_turn().unwrap().answer, None);
}

#[test]
fn each_kind_of_unusable_answer_in_a_row_still_ends() {
    let mut world = typed();
    world.model_says(text(""));
    world.model_says(text("three"));
    assert_eq!(cause(&world), TurnCause::BadAnswer, "one repair, whatever was wrong");
    let mut world = prompted();
    world.model_says(text(""));
    world.model_says(cut("x"));
    assert_eq!(cause(&world), TurnCause::Truncated);
}

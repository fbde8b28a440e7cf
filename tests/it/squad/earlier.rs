//! What a squad is given of the chat before it, and what the chat learns of the squad.

use agon::protocol::OutcomeBody;
use agon::protocol::effect::{Effect, ModelContext};
use agon::protocol::event::*;
use agon::protocol::spec::*;

use super::{all_words, blueprint, events, whole};
use crate::support::squad::{fitting, with_blueprint};
use crate::support::world::*;

fn session() -> World {
    let mut spec = with_blueprint(spec(), blueprint(&[]));
    spec.policy = allow_all();
    spec.models.iter_mut().for_each(|model| model.context = 200_000);
    World::open(spec)
}

/// Lets a turn run to its end, and gives each request as its role and its words.
fn turn(world: &mut World, mode: Mode, task: &str) -> Vec<(String, String)> {
    let prompt = PromptGiven { text: task.to_owned(), mode, changed: vec![], schema: None, by: None };
    world.give(ArenaEvent::PromptGiven(prompt));
    let mut asked = Vec::new();
    for _ in 0..32 {
        world.run_tools();
        let Some((open, request)) = world.session.outstanding().into_iter().find_map(|open| {
            match world.session.effect(open.call)? {
                Effect::Model { context: ModelContext { request, .. }, .. } => Some((open, request)),
                _ => None,
            }
        }) else {
            break;
        };
        asked.push((request.spark.clone(), all_words(&request)));
        world.answer(open.call.0, open.attempt, OutcomeBody::ModelAnswered(fitting(&request)));
    }
    assert!(!world.session.has_open_turn(), "{}", world.story());
    asked
}

fn leads(world: &World) -> Vec<(bool, Option<u64>)> {
    let lead = |event: &ArenaEvent| match event {
        ArenaEvent::SparkIgnited(data) if data.role == "coordinator" => {
            Some((data.continues.is_some(), data.earlier_tokens))
        }
        _ => None,
    };
    events(world).filter_map(lead).collect()
}

fn has(asked: &[(String, String)], role: &str, words: &str) -> bool {
    asked.iter().any(|(of, said)| of == role && said.contains(words))
}

#[test]
fn a_squad_after_a_short_chat_continues_it_and_its_tokens_are_known() {
    let mut world = session();
    turn(&mut world, Mode::Solo, "The bell is called Anna.");
    let asked = turn(&mut world, Mode::Squad, "Ring it.");
    assert!(has(&asked, "coordinator", "The bell is called Anna."), "{asked:?}");
    let [(true, Some(tokens @ 1..200))] = leads(&world)[..] else { panic!("{:?}", leads(&world)) };
    assert!(tokens > 0);
    whole(&world);
}

#[test]
fn a_squad_after_a_long_chat_is_not_given_it_and_the_chat_learns_what_the_squad_did() {
    let mut world = session();
    let paste = "A line of the log that was pasted.\n".repeat(3_000);
    turn(&mut world, Mode::Solo, &paste);
    let asked = turn(&mut world, Mode::Squad, "Mend the clock.");
    assert!(!asked.iter().any(|(_, words)| words.contains("that was pasted")), "{asked:?}");
    assert!(has(&asked, "coordinator", "is not shown to you"), "the lead knows that something is missing");
    let [(false, Some(8_001..))] = leads(&world)[..] else { panic!("{:?}", leads(&world)) };

    // A second squad continues the first, still without the chat.
    let asked = turn(&mut world, Mode::Squad, "And the bell.");
    assert!(has(&asked, "coordinator", "Mend the clock."), "{asked:?}");
    assert!(!asked.iter().any(|(_, words)| words.contains("that was pasted")), "{asked:?}");

    let asked = turn(&mut world, Mode::Solo, "What was done?");
    for words in ["that was pasted", "Mend the clock.", "And the bell.", "all done", "What was done?"] {
        assert!(has(&asked, "solo", words), "{words}: {asked:?}");
    }
    assert!(!has(&asked, "solo", "is not shown to you"), "what the squad was told is not the chat's");
    whole(&world);
}

#[test]
fn what_a_squad_was_given_is_the_same_after_any_long_chat() {
    let lead = |line: &str| {
        let mut world = session();
        turn(&mut world, Mode::Solo, &line.repeat(3_000));
        turn(&mut world, Mode::Squad, "Mend the clock.").remove(0)
    };
    assert_eq!(lead("One line of a log, and another.\n"), lead("Words of quite another kind.\n"));
}

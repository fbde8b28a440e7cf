//! Debates beside chats, and people who speak up during a debate.

use agon::protocol::event::*;

use super::open;
use crate::support::panel::*;
use crate::support::world::*;

#[test]
fn a_chat_goes_on_after_a_debate() {
    let mut world = World::open(debate_spec());
    world.prompt("remember the word marmalade");
    world.model_says(text("I will remember it"));
    world.give(debate_prompt("Shall we?", plan(2, 2)));
    world.debate_to_the_end(&mut stubborn);
    world.prompt("which word?");
    let (_, _, request) = world.model();
    assert!(said(&request).contains("marmalade") && said(&request).contains("which word?"));
    assert!(!said(&request).contains("zq"), "the debate is not part of the chat");
}

#[test]
fn a_person_is_heard_by_every_debater_now_and_later() {
    let mut world = open(3, 2);
    world.give(ArenaEvent::SteeringGiven(SteeringGiven { spark: None, text: "think of the users".into() }));
    let sets = world.debate_to_the_end(&mut stubborn);
    let heard = |set: &Vec<agon::protocol::Request>| {
        set.iter().filter(|request| said(request).contains("think of the users")).count()
    };
    assert_eq!(
        sets.iter().map(heard).collect::<Vec<_>>(),
        [0, 3, 1, 3, 3, 1],
        "asked again with it, then always"
    );
}

#[test]
fn a_plan_that_cannot_be_held_is_refused_with_the_reason() {
    type Spoil<'a> = &'a dyn Fn(&mut agon::protocol::spec::DebatePlan);
    let plans: [(Spoil<'_>, &str); 7] = [
        (&|plan| plan.personas.truncate(1), "at least two"),
        (&|plan| plan.personas.push("pragmatist".into()), "named twice"),
        (&|plan| plan.personas.push("nobody".into()), "`nobody`"),
        (&|plan| plan.personas.push("moderator".into()), "debate and moderate"),
        (&|plan| plan.rounds = 0, "2 to 12"),
        (&|plan| plan.rounds = 999, "2 to 12"),
        (&|plan| plan.scorer = "gut".into(), "`gut`"),
    ];
    for (spoil, expected) in plans {
        let mut world = World::open(debate_spec());
        let mut bad = plan(3, 4);
        spoil(&mut bad);
        let decided = world.give(debate_prompt("Shall we?", bad));
        match decided.as_slice() {
            [ArenaEvent::InputRefused(refused)] => {
                assert!(refused.reason.contains(expected), "{}", refused.reason);
            }
            other => panic!("{other:?}"),
        }
    }
}

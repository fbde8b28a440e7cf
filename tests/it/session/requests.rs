//! A request continues the one before: it shares its messages, and its digest is that of the whole.

use std::sync::Arc;

use agon::protocol::Message;
use agon::protocol::event::*;
use agon::protocol::spec::Setting;

use crate::support::world::*;

fn sent(world: &World) -> Vec<Arc<Message>> {
    let open = world.session.outstanding().into_iter().find_map(|open| {
        let (recorded, whole) = world.session.request_digests(open.call)?;
        assert_eq!(recorded, whole, "step by step it is the digest of the whole");
        Some(())
    });
    assert!(open.is_some(), "a model is asked");
    world.model().2.messages
}

fn shared(before: &[Arc<Message>], after: &[Arc<Message>]) -> usize {
    before.iter().zip(after).take_while(|(a, b)| Arc::ptr_eq(a, b)).count()
}

fn looks(world: &mut World, text: &str) {
    world.model_says(calls(&[("look", serde_json::json!({"path": text}))]));
    world.run_tools();
}

#[test]
fn a_later_request_shares_every_message_of_the_one_before() {
    let mut world = World::open(spec());
    world.prompt("begin");
    let mut before = sent(&world);
    for step in 0..5 {
        looks(&mut world, &format!("file {step}"));
        let after = sent(&world);
        assert_eq!((shared(&before, &after), after.len()), (before.len(), before.len() + 2));
        before = after;
    }
    world.model_says(text("done"));
    world.prompt("and more");
    assert_eq!(shared(&before, &sent(&world)), before.len(), "the next turn continues as well");
}

#[test]
fn another_persona_changes_the_head_and_no_other_message() {
    let mut world = World::open(spec());
    world.prompt("begin");
    looks(&mut world, "a");
    let before = sent(&world);
    let head = before.iter().take_while(|one| one.role == agon::protocol::Role::System).count();
    let mut persona = spec().personas.remove(0);
    persona.text = "You are somebody else.".into();
    let changed = vec![Setting::Persona { spec: persona, default: true }];
    world.give(ArenaEvent::SettingsChanged(SettingsChanged { changed }));
    looks(&mut world, "b");
    let after = sent(&world);
    assert_eq!(shared(&before, &after), 0, "the persona is the first message");
    assert_eq!(shared(&before[head..], &after[head..]), before.len() - head);
}

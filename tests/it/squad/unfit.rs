//! Blueprints that nobody can follow, given by a program or a log: refused before anybody works.

use agon::ArenaBuilder;
use agon::assembly::WireError;
use agon::protocol::event::*;
use agon::protocol::spec::*;

use crate::support::squad::*;
use crate::support::world::*;

fn refusal(change: impl FnOnce(&mut Blueprint)) -> String {
    let mut plan = blueprint(&["make test"]);
    change(&mut plan);
    let mut spec = with_blueprint(spec(), blueprint(&[]));
    spec.blueprint = Some(plan);
    let mut world = World::open(spec);
    let decided = world.prompt("go");
    match decided.as_slice() {
        [ArenaEvent::InputRefused(refused)] => refused.reason.clone(),
        other => panic!("{other:#?}"),
    }
}

#[test]
fn a_squad_that_could_not_be_followed_is_refused_by_the_session() {
    type Change = Box<dyn FnOnce(&mut Blueprint)>;
    let faults: Vec<(&str, Change)> = vec![
        ("in a circle: coder → reviewer → coder", Box::new(|b| b.roles[1].after.push("reviewer".into()))),
        ("in a circle: coder → coder", Box::new(|b| b.roles[1].after.push("coder".into()))),
        ("there is no `[[role]]`", Box::new(|b| b.roles.clear())),
        ("two roles are called `coder`", Box::new(|b| b.roles[2].name = "coder".into())),
        ("no persona is called `nobody`", Box::new(|b| b.roles[1].persona = "nobody".into())),
        ("there is no tool `fly`", Box::new(move |b| b.roles[1].tools = Some(vec!["fly".into()]))),
        ("the session has no model `mock/z`", Box::new(|b| b.roles[1].model = Some("mock/z".into()))),
        ("`coder` may make no model call at all", Box::new(|b| b.roles[1].max_steps = Some(0))),
        ("no role is called `z`", Box::new(|b| b.lead = Some("z".into()))),
        ("`coder` leads, so it cannot come after another role", Box::new(|b| b.lead = Some("coder".into()))),
        ("a check is empty", Box::new(|b| b.checks.push("  ".into()))),
        (
            "`reviewer` cannot send `coder` back without coming after it",
            Box::new(|b| b.roles[2].after.clear()),
        ),
    ];
    for (words, change) in faults {
        let reason = refusal(change);
        assert!(reason.starts_with("the blueprint: ") && reason.contains(words), "{words}: {reason}");
    }
}

#[test]
fn a_program_may_have_a_squad_that_only_talks() {
    let mut plan = blueprint(&[]);
    plan.roles[1].tools = Some(vec!["look".into()]);
    plan.roles.truncate(2);
    let mut world = World::open(with_blueprint(spec(), plan));
    world.prompt("What is it?");
    world.model_says(text("Ask around."));
    world.model_says(text("It is a clock."));
    world.model_says(answer("A clock.", &[], &[]));
    assert_eq!(super::cause(&world), TurnCause::Done);
    super::whole(&world);
}

#[tokio::test]
async fn a_program_is_told_what_of_its_blueprint_cannot_be_followed() {
    let (work, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut plan = blueprint(&[]);
    plan.roles[1].tools = Some(vec!["edit_file".into()]);
    plan.roles[1].after.push("reviewer".into());
    let builder = ArenaBuilder::new(work.path(), state.path()).model(ModelSpec::named("mock/a"));
    let builder =
        ["coordinator", "coder", "reviewer"].into_iter().fold(builder, |b, id| b.persona(persona(id)));
    match builder.blueprint(plan).open().await.err() {
        Some(error @ WireError::Unfit(_)) => assert!(error.to_string().contains("in a circle"), "{error}"),
        other => panic!("{other:?}"),
    }
}

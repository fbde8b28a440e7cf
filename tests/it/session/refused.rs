//! Parameters a model refuses: left out once, for the rest of the session, and never a loop.

use agon::protocol::effect::OutcomeBody;
use agon::protocol::event::*;
use agon::protocol::message::{Effort, Structured};
use agon::protocol::spec::{Mode, Setting};
use serde_json::json;

use super::kit::*;
use crate::support::squad::{blueprint, with_blueprint};
use crate::support::world::*;

fn warm() -> World {
    let mut spec = spec();
    spec.personas[0].temperature_pm = Some(300);
    let mut world = World::open(spec);
    world.prompt("do it");
    world
}

fn refuses(world: &mut World, names: &[&str]) -> Vec<ArenaEvent> {
    let (call, attempt, _) = world.model();
    let refused = names.iter().map(|name| (*name).to_owned()).collect();
    let failed = ModelFailed { refused, ..failure(ErrorKind::BadRequest) };
    world.answer(call, attempt, OutcomeBody::ModelFailed(failed))
}

#[test]
fn a_refused_parameter_is_left_out_for_the_rest_of_the_session() {
    let mut world = warm();
    let (first, _, request) = world.model();
    assert_eq!(request.params.temperature_pm, Some(300));
    let decided = refuses(&mut world, &["temperature"]);
    assert_eq!(kinds(&decided), ["budget_settled", "params_dropped", "budget_reserved", "model_called"]);
    assert_eq!(
        told(&decided)[1],
        json!({"params_dropped": {
            "call": first, "spark": 1, "model": "mock/a", "names": ["temperature"], "reason": "e2"
        }})
    );
    let (second, attempt, again) = world.model();
    assert!(second > first && attempt == 1, "a call of its own");
    assert_eq!(
        (again.params.temperature_pm, again.params.without.as_slice()),
        (None, &["temperature".to_owned()][..])
    );
    assert_eq!(again.messages, request.messages);
    world.check();
    world.model_says(text("done"));
    world.prompt("and this");
    assert_eq!(world.model().2.params.temperature_pm, None, "the next turn knows it");
    world.check();
}

#[test]
fn what_is_said_again_of_the_default_model_leaves_it_the_default() {
    let mut spec = spec();
    let names = |spec: &agon::protocol::spec::Spec| -> Vec<String> {
        spec.models.iter().map(|model| model.name.clone()).collect()
    };
    let (before, mut first) = (names(&spec), spec.models[0].clone());
    first.context += 1;
    let context = first.context;
    spec.set(&Setting::Model { spec: first, default: false });
    assert_eq!((names(&spec), spec.models[0].context), (before, context));
}

#[test]
fn a_model_that_cannot_call_tools_is_asked_without_and_offered_none_for_the_rest_of_the_session() {
    let mut world = warm();
    assert!(!world.model().2.tools.is_empty());
    refuses(&mut world, &["tools"]);
    assert!(world.model().2.tools.is_empty());
    world.model_says(text("done"));
    world.prompt("and this");
    assert!(world.model().2.tools.is_empty());
    world.check();
}

#[test]
fn a_role_says_the_effort_before_its_persona_and_the_persona_before_the_session() {
    for (role, persona, session, asked) in [
        (None, None, None, None),
        (None, None, Some(Effort::Low), Some(Effort::Low)),
        (None, Some(Effort::Medium), Some(Effort::Low), Some(Effort::Medium)),
        (Some(Effort::High), Some(Effort::Medium), Some(Effort::Low), Some(Effort::High)),
    ] {
        let mut spec = with_blueprint(spec(), blueprint(&[]));
        spec.effort = session;
        spec.personas.iter_mut().for_each(|one| one.effort = persona);
        spec.blueprint.iter_mut().for_each(|plan| plan.roles[0].effort = role);
        let mut world = World::open(spec);
        world.prompt("do it");
        assert_eq!(world.model().2.params.effort, asked);
        world.check();
    }
}

#[test]
fn another_effort_holds_from_the_next_call_on() {
    let mut world = warm();
    assert_eq!(world.model().2.params.effort, None);
    let changed = vec![Setting::Effort(Some(Effort::High))];
    world.give(ArenaEvent::SettingsChanged(SettingsChanged { changed }));
    world.model_says(text("done"));
    world.prompt("and this");
    assert_eq!(world.model().2.params.effort, Some(Effort::High));
    world.check();
}

/// Asks for a typed answer of a model that nothing is known of.
fn unknown_server() -> World {
    let mut spec = spec();
    spec.models[0].structured = Structured::Any;
    spec.offered = Some(vec![]);
    let mut world = World::open(spec);
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    world.give(ArenaEvent::PromptGiven(PromptGiven {
        text: "how many?".to_owned(),
        mode: Mode::Solo,
        changed: vec![],
        schema: Some(schema),
        by: None,
    }));
    world
}

fn way(world: &World) -> Structured {
    world.model().2.params.schema.unwrap().via
}

#[test]
fn an_unknown_server_is_asked_for_typed_answers_in_each_way_it_does_not_refuse() {
    let mut world = unknown_server();
    assert_eq!(way(&world), Structured::ResponseFormat);
    refuses(&mut world, &["response_format"]);
    assert_eq!(way(&world), Structured::ForcedTool);
    refuses(&mut world, &["tool_choice"]);
    assert_eq!(way(&world), Structured::Words);
    world.model_says(text("{\"n\": 3}"));
    world.check();
}

#[test]
fn an_answer_that_is_no_json_shows_that_a_server_takes_no_notice_of_the_form() {
    let mut world = unknown_server();
    let decided = world.model_says(text("There are three."));
    assert_eq!(kinds(&decided)[1..3], ["answer_rejected", "params_dropped"], "{}", world.story());
    assert_eq!(way(&world), Structured::ForcedTool, "the repair tries the next way");
    world.check();
    let mut world = unknown_server();
    let decided = world.model_says(text("{\"n\": \"three\"}"));
    assert!(!kinds(&decided).contains(&"params_dropped"), "JSON of another form is the model's own slip");
    assert_eq!(way(&world), Structured::ResponseFormat);
    world.check();
}

#[test]
fn what_was_left_out_already_is_not_dropped_again() {
    let mut world = warm();
    refuses(&mut world, &["temperature"]);
    let decided = refuses(&mut world, &["temperature", "max_tokens"]);
    assert_eq!(kinds(&decided)[1], "params_dropped");
    assert_eq!(world.model().2.params.without, ["temperature", "max_tokens"]);
    let decided = refuses(&mut world, &["max_tokens"]);
    assert_eq!(kinds(&decided)[1], "fallback_taken", "it is the server's own matter now");
    assert_eq!(world.model().2.params.temperature_pm, Some(300), "another model has refused nothing");
    world.check();
}

#[test]
fn a_refused_call_is_no_step_of_the_turn() {
    let mut spec = spec();
    spec.limits.max_steps = 1;
    spec.personas[0].temperature_pm = Some(300);
    let mut world = World::open(spec);
    world.prompt("do it");
    refuses(&mut world, &["temperature"]);
    world.model_says(text("done"));
    assert_eq!(cause(&world), TurnCause::Done);
}

#[test]
fn calls_of_one_model_that_are_under_way_together_are_all_made_again() {
    use crate::support::panel::{debate_prompt, debate_spec, plan};
    let mut spec = debate_spec();
    spec.personas.iter_mut().for_each(|persona| persona.temperature_pm = Some(300));
    let mut world = World::open(spec);
    world.give(debate_prompt("Shall we?", plan(3, 2)));
    let first = world.models();
    assert!(first.len() > 1 && first.iter().all(|(_, _, request)| request.params.temperature_pm.is_some()));
    for (call, attempt, _) in &first {
        let failed = ModelFailed { refused: vec!["temperature".into()], ..failure(ErrorKind::BadRequest) };
        let decided = world.answer(*call, *attempt, OutcomeBody::ModelFailed(failed));
        assert_eq!(kinds(&decided)[1], "params_dropped", "{}", world.story());
    }
    let again = world.models();
    assert_eq!(again.len(), first.len());
    assert!(again.iter().all(|(_, _, request)| request.params.temperature_pm.is_none()));
    world.check();
}

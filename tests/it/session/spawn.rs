//! Subagents: a task is given, worked on by a spark that only looks, and its end is the result of the call.

use agon::arena::replay;
use agon::protocol::SparkId;
use agon::protocol::effect::{Effect, ModelContext, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::message::Request;
use agon::protocol::spec::*;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::kit::*;
use crate::support::world::*;

fn open_with(change: impl FnOnce(&mut Spec)) -> World {
    let mut spec = spec_with_inside();
    change(&mut spec);
    let mut world = World::open(spec);
    world.prompt("the person's words");
    world
}

fn open() -> World {
    open_with(|_| {})
}

/// The model calls that are open, by role.
fn thinking(world: &World) -> Vec<(String, u64, u32, Request)> {
    let open = world.session.outstanding().into_iter();
    open.filter_map(|open| match world.session.effect(open.call)? {
        Effect::Model { context: ModelContext { request, .. }, .. } => {
            Some((request.spark.clone(), open.call.0, open.attempt, request))
        }
        _ => None,
    })
    .collect()
}

fn roles(world: &World) -> Vec<String> {
    thinking(world).into_iter().map(|(role, ..)| role).collect()
}

fn request_of(world: &World, role: &str) -> Request {
    let found = thinking(world).into_iter().find(|(known, ..)| known == role);
    found.unwrap_or_else(|| panic!("{role} does not think\n{}", world.story())).3
}

fn says(world: &mut World, role: &str, reply: ModelReply) -> Vec<ArenaEvent> {
    let (_, call, attempt, _) = thinking(world).into_iter().find(|(known, ..)| known == role).expect(role);
    let decided = world.answer(call, attempt, OutcomeBody::ModelAnswered(reply));
    world.check();
    decided
}

fn offered(request: &Request) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn spawns(tasks: &[Value]) -> ModelReply {
    let list: Vec<(&str, Value)> = tasks.iter().map(|args| ("spawn", args.clone())).collect();
    calls(&list)
}

fn named(name: &str) -> Value {
    json!({"task": format!("find {name}"), "name": name})
}

fn refusals(decided: &[ArenaEvent]) -> Vec<String> {
    let text = |event: &ArenaEvent| match event {
        ArenaEvent::ToolRefused(data) => Some(data.text.clone()),
        _ => None,
    };
    decided.iter().filter_map(text).collect()
}

#[test]
fn three_work_at_once_and_their_answers_are_the_results_in_the_order_they_were_asked_for() {
    let mut world = open();
    world.model_says(spawns(&[named("one"), named("two"), json!({"task": "find three"})]));
    assert_eq!(roles(&world), ["agent one", "agent two", "agent 3"]);
    let request = request_of(&world, "agent one");
    let words = words(&request);
    assert!(words.contains("find one") && words.contains("You are a subagent"), "{words}");
    assert!(!words.contains("the person's words") && !words.contains("find two"), "{words}");
    assert_eq!(offered(&request), ["look"], "it looks, asks nobody, keeps no list and passes nothing on");
    for role in ["agent 3", "agent one"] {
        assert!(!kinds(&says(&mut world, role, text(&format!("{role} is done")))).contains(&"turn_closed"));
    }
    let decided = says(&mut world, "agent two", text("two is done"));
    assert_eq!(
        kinds(&decided),
        ["budget_settled", "spark_completed", "tool_answered", "budget_reserved", "model_called"]
    );
    let found = results(&request_of(&world, "solo"));
    let said: Vec<&str> =
        found.iter().filter_map(|text| text.split_once("] ")).map(|(_, said)| said).collect();
    assert_eq!(said, ["agent one is done", "two is done", "agent 3 is done"]);
    says(&mut world, "solo", text("all done"));
    assert_eq!(cause(&world), TurnCause::Done);
    world.every_use_ends_once();
    assert!(replay::verify(&world.log).holds(true));
}

#[test]
fn what_does_not_fit_is_refused_with_the_reason_and_nothing_is_begun() {
    for (args, why) in [
        (json!({"task": " "}), "the task must have"),
        (json!({}), "missing field `task`"),
        (json!({"task": "x".repeat(70_000)}), "the task must have"),
        (json!({"task": "a", "persona": "sol"}), "no persona `sol` to give, did you mean `solo`?"),
        (json!({"task": "a", "model": "mock/z"}), "no model `mock/z`"),
        (json!({"task": "a", "tools": ["lock"]}), "no tool `lock`"),
        (json!({"task": "a", "tools": ["put"]}), "`put` is not for subagents"),
        (json!({"task": "a", "tools": ["ask_user"]}), "`ask_user` is not for subagents"),
        (json!({"task": "a", "permission": "auto"}), "the permission level is `ask`"),
        (json!({"task": "a", "permission": "root"}), "the arguments do not fit"),
        (json!({"task": "a", "max_steps": 0}), "`max_steps` must be at least 1"),
        (
            json!({"task": "a", "answer": {"type": "nothing"}}),
            "`answer` is not a JSON Schema: `type` has none of the shapes it may have",
        ),
        (json!({"task": "a", "answer": {"$ref": "#/none"}}), "it does not fit `$ref` of its schema"),
        (json!({"task": "a", "answer": 3}), "`answer` is not a JSON Schema: it must be a JSON object"),
        (json!({"task": "a", "sandbox": "none"}), "unknown field `sandbox`"),
    ] {
        let mut world = open();
        let decided = world.model_says(spawns(std::slice::from_ref(&args)));
        let told = refusals(&decided);
        assert!(told.iter().any(|text| text.contains(why)), "{args}: {told:?}");
        assert_eq!(roles(&world), ["solo"]);
        world.check();
    }
}

#[test]
fn no_more_work_at_once_than_may_and_no_more_in_a_turn() {
    let limits = SubagentLimits { total: 3, at_once: 2, ..SubagentLimits::default() };
    let mut world = open_with(|spec| spec.limits.subagents = limits);
    let many: Vec<Value> = (0..40).map(|n| named(&format!("n{n}"))).collect();
    let decided = world.model_says(spawns(&many));
    assert_eq!(roles(&world), ["agent n0", "agent n1"]);
    assert_eq!(refusals(&decided).len(), 37, "what no turn has room for is refused at once");
    says(&mut world, "agent n1", text("done"));
    assert_eq!(roles(&world), ["agent n0", "agent n2"], "one that ends makes room for the next");
    says(&mut world, "agent n0", text("done"));
    says(&mut world, "agent n2", text("done"));
    let decided = says(&mut world, "solo", spawns(&[named("more")]));
    assert!(refusals(&decided)[0].contains("at most 3 subagents"), "{decided:?}");
    world.every_use_ends_once();

    let mut world = open_with(|spec| spec.limits.subagents.depth = 0);
    assert!(!offered(&request_of(&world, "solo")).contains(&"spawn"));
    assert!(refusals(&world.model_says(spawns(&[named("a")])))[0].contains("no tool `spawn`"));
}

#[test]
fn a_task_is_passed_on_as_deep_as_the_limit_says_and_with_no_more_than_the_one_above_has() {
    let mut world = open_with(|spec| {
        (spec.limits.subagents.depth, spec.permission) = (2, PermissionLevel::Auto);
        let more = |name: &str| ToolSpec::new(name, "", json!({"type": "object"}), Risk::Read);
        spec.tools.extend([more("peek"), more("stare")]);
    });
    let args = json!({"task": "a", "name": "a", "tools": ["look", "peek", "spawn"], "permission": "ask"});
    world.model_says(spawns(&[args]));
    assert_eq!(offered(&request_of(&world, "agent a")), ["look", "spawn", "peek"]);
    for args in [
        json!({"task": "b", "permission": "auto"}),
        json!({"task": "b", "tools": ["stare"]}),
        json!({"task": "b", "tools": ["put"]}),
    ] {
        let decided = says(&mut world, "agent a", spawns(std::slice::from_ref(&args)));
        assert_eq!(refusals(&decided).len(), 1, "{args}");
    }
    says(&mut world, "agent a", spawns(&[named("b")]));
    assert_eq!(offered(&request_of(&world, "agent b")), ["look", "peek"], "it passes nothing on");
    says(&mut world, "agent b", text("found by b"));
    assert!(words(&request_of(&world, "agent a")).contains("found by b"));
    // What the one that works for the person loses, those below it lose as well.
    let offered_now = Setting::Offered(Some(vec!["peek".to_owned(), "spawn".to_owned()]));
    world.give(ArenaEvent::SettingsChanged(SettingsChanged { changed: vec![offered_now] }));
    says(&mut world, "agent a", calls(&[("peek", json!({}))]));
    world.run_tools();
    assert_eq!(offered(&request_of(&world, "agent a")), ["spawn", "peek"]);
    says(&mut world, "agent a", text("found by a"));
    says(&mut world, "solo", text("done"));
    assert_eq!(cause(&world), TurnCause::Done);
}

#[test]
fn a_tool_that_turns_out_to_write_is_not_run_by_a_subagent_whatever_the_rules_allow() {
    let mut world = open_with(|spec| (spec.policy, spec.permission) = (allow_all(), PermissionLevel::Auto));
    world.model_says(spawns(&[named("a")]));
    says(&mut world, "agent a", calls(&[("look", json!({}))]));
    let (call, attempt, effect) = call_of(&world, 0);
    let Effect::Prepare { context, .. } = effect else { panic!("{effect:?}") };
    for (risk, name) in [(Risk::Write, "put"), (Risk::Execute, "run")] {
        let mut world = reopened(World { session: world.session.clone(), log: world.log.clone() });
        let plan = plan_for(&agon::protocol::effect::ToolCall { tool: name.to_owned(), ..context.clone() });
        assert_eq!(plan.risk, risk);
        let result = PrepareResult::Ready(plan);
        let prepared = ToolPrepared { tool_use: context.tool_use, result };
        let decided = world.answer(call, attempt, OutcomeBody::ToolPrepared(prepared));
        assert_eq!(told(&decided)[0]["policy_decided"]["action"], "deny", "{}", world.story());
    }
}

#[test]
fn one_that_never_ends_is_asked_for_its_answer_in_time_and_then_ended() {
    let mut world = open();
    world.model_says(spawns(&[json!({"task": "search for ever", "name": "a", "max_steps": 3})]));
    for step in 1..=3 {
        let asked = words(&request_of(&world, "agent a")).contains("This is your last step");
        assert_eq!(asked, step == 3, "step {step}");
        says(&mut world, "agent a", calls(&[("look", json!({"path": format!("f{step}")}))]));
        world.run_tools();
    }
    let found = results(&request_of(&world, "solo"));
    assert!(found[0].contains("the subagent ended without an answer (a limit was reached)"), "{found:?}");
    world.check();
}

#[test]
fn a_typed_answer_fits_its_schema_or_the_parent_hears_that_it_does_not() {
    let answer =
        json!({"type": "object", "required": ["lines"], "properties": {"lines": {"type": "integer"}}});
    let mut world = open();
    world.model_says(spawns(&[json!({"task": "count", "name": "a", "answer": answer})]));
    assert!(words(&request_of(&world, "agent a")).contains("\"lines\""), "it is shown the schema");
    let decided = says(&mut world, "agent a", text("three"));
    assert!(kinds(&decided).contains(&"answer_rejected"), "{decided:?}");
    says(&mut world, "agent a", text("{\"lines\": 3}"));
    assert!(results(&request_of(&world, "solo"))[0].contains("{\"lines\": 3}"));
    says(&mut world, "solo", spawns(&[json!({"task": "count", "name": "b", "answer": answer})]));
    says(&mut world, "agent b", text("many"));
    says(&mut world, "agent b", text("still many"));
    let found = results(&request_of(&world, "solo"));
    let last = found.last().unwrap();
    assert!(last.contains("did not fit its schema") && last.contains("still many"), "{found:?}");
}

#[test]
fn a_person_steers_one_stops_one_and_what_stops_the_parent_stops_them_all() {
    let mut world = open();
    world.model_says(spawns(&[named("a"), named("b"), named("c")]));
    let spark = |n| Some(SparkId(n));
    world.give(ArenaEvent::SteeringGiven(SteeringGiven { spark: spark(3), text: "look in src".to_owned() }));
    says(&mut world, "agent b", text("found"));
    assert!(words(&request_of(&world, "agent b")).contains("look in src"), "it hears it before it ends");
    world.give(ArenaEvent::InterruptRequested(InterruptRequested { spark: spark(2), call: None }));
    let (_, call, attempt, _) = thinking(&world).into_iter().find(|(role, ..)| role == "agent a").unwrap();
    let decided = world.answer(call, attempt, OutcomeBody::ModelFailed(failure(ErrorKind::Cancelled)));
    assert_eq!(kinds(&decided), ["budget_settled", "spark_completed", "tool_answered"]);
    assert_eq!(roles(&world), ["agent c", "agent b"], "the others work on");
    world.check();

    let mut whole = World { session: world.session.clone(), log: world.log.clone() };
    for stop in [None, spark(1)] {
        world.session = whole.session.clone();
        world.log = whole.log.clone();
        let decided =
            world.give(ArenaEvent::InterruptRequested(InterruptRequested { spark: stop, call: None }));
        assert_eq!(kinds(&decided), ["call_cancelled"; 2]);
        for (_, call, attempt, _) in thinking(&world) {
            world.answer(call, attempt, OutcomeBody::ModelFailed(failure(ErrorKind::Cancelled)));
        }
        assert_eq!(cause(&world), TurnCause::Interrupted);
        world.check();
        world.every_use_ends_once();
    }
    for role in ["agent b", "agent c"] {
        says(&mut whole, role, text("found"));
    }
    assert!(results(&request_of(&whole, "solo"))[0].contains("without an answer (interrupted)"));
}

#[test]
fn a_parent_that_was_killed_while_three_work_resumes_each_by_its_kind() {
    let mut world = open();
    world.model_says(spawns(&[named("a"), named("b"), named("c")]));
    says(&mut world, "agent b", calls(&[("look", json!({}))]));
    prepared(&mut world, 0);
    says(&mut world, "agent c", text("found"));
    let mut world = reopened(world);
    world.give(resumed(vec![], 0));
    world.check();
    assert_eq!(roles(&world), ["agent a"]);
    let (_, _, attempt, _) = thinking(&world).remove(0);
    assert_eq!(attempt, 2, "its model is asked again");
    prepared(&mut world, 0);
    ran(&mut world, 0, "seen");
    says(&mut world, "agent b", text("seen"));
    says(&mut world, "agent a", text("seen"));
    says(&mut world, "solo", text("done"));
    assert_eq!(cause(&world), TurnCause::Done);
    world.every_use_ends_once();
    assert!(replay::verify(&world.log).holds(true));
}

#[test]
fn no_subagent_is_taken_for_a_role_or_for_the_agent_the_person_talks_with() {
    let mut world = open();
    world.model_says(spawns(&[json!({"task": "a", "name": "solo"}), json!({"task": "a", "name": "solo"})]));
    assert_eq!(roles(&world), ["agent solo", "agent solo-2"]);
    says(&mut world, "agent solo", text("first"));
    says(&mut world, "agent solo-2", text("second"));
    says(&mut world, "solo", text("done"));
    world.prompt("and now?");
    assert!(words(&request_of(&world, "solo")).contains("the person's words"), "the same one is talked with");
}

#[test]
fn a_forged_log_in_which_subagents_work_for_themselves_or_for_each_other_is_folded_and_ends() {
    let mut world = open();
    world.model_says(spawns(&[named("a"), named("b")]));
    for parents in [[2, 2], [3, 2], [0, 3], [2, 9]] {
        let mut log = world.log.clone();
        let last = std::sync::Arc::make_mut(log.last_mut().unwrap());
        let begun = last.events.iter_mut().filter_map(|event| match event {
            ArenaEvent::SparkIgnited(data) => data.delegated.as_mut(),
            _ => None,
        });
        begun.zip(parents).for_each(|(delegated, parent)| delegated.parent = SparkId(parent));
        let mut forged = World { session: agon::session::Session::fold(&log).unwrap(), log };
        forged.give(resumed(vec![], 0));
        forged.give(ArenaEvent::InterruptRequested(InterruptRequested { spark: None, call: None }));
        for (_, call, attempt, _) in thinking(&forged) {
            forged.answer(call, attempt, OutcomeBody::ModelFailed(failure(ErrorKind::Cancelled)));
        }
        assert!(!forged.session.has_open_turn(), "{parents:?}\n{}", forged.story());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a spark has and whatever it asks for: what its subagent is offered, and how it is judged, is never more.
    #[test]
    fn a_subagent_never_has_a_right_that_its_parent_lacks(
        level in 0..4usize, wanted in 0..4usize, risks in proptest::collection::vec(0..4usize, 1..6),
        has in proptest::collection::vec(any::<bool>(), 6), asks in proptest::collection::vec(any::<bool>(), 6),
        chooses in any::<bool>(), lowers in any::<bool>(),
    ) {
        let risk = |n: usize| [Risk::Read, Risk::Write, Risk::Execute, Risk::Network][n];
        let name = |n: usize| format!("t{n}");
        let mut world = open_with(|spec| {
            let tool = |n: usize| ToolSpec::new(name(n), "", json!({"type": "object"}), risk(risks[n]));
            spec.tools.extend((0..risks.len()).map(tool));
            let theirs = (0..risks.len()).filter(|n| has[*n]).map(name).chain(["spawn".to_owned()]);
            spec.personas[0].tools = Some(theirs.collect());
            (spec.permission, spec.limits.subagents.depth) = (PermissionLevel::ALL[level], 2);
        });
        let parents: Vec<String> = request_of(&world, "solo").tools.iter().map(|tool| tool.name.clone()).collect();
        let tools: Vec<String> = (0..risks.len()).filter(|n| asks[*n]).map(name).collect();
        let mut args = json!({"task": "a", "name": "a"});
        if chooses {
            args["tools"] = json!(tools);
        }
        if lowers {
            args["permission"] = json!(PermissionLevel::ALL[wanted].word());
        }
        let decided = world.model_says(spawns(&[args]));
        let begun = decided.iter().find_map(|event| match event {
            ArenaEvent::SparkIgnited(data) => data.delegated.clone(),
            _ => None,
        });
        match begun {
            None => prop_assert!(!refusals(&decided).is_empty()),
            Some(delegated) => {
                let level = PermissionLevel::ALL[level];
                prop_assert_eq!(delegated.permission.stricter(level), delegated.permission);
                let request = request_of(&world, "agent a");
                for tool in offered(&request) {
                    prop_assert!(parents.iter().any(|known| known == tool), "{tool}");
                    let risk = tool.strip_prefix('t').and_then(|n| n.parse::<usize>().ok()).map(|n| risk(risks[n]));
                    prop_assert!(!matches!(risk, Some(Risk::Write | Risk::Execute)), "{tool}");
                }
            }
        }
    }
}

//! Given a squad, when its roles answer, then who is asked next, with which words, and how the turn ends.

use agon::protocol::effect::{CheckOrder, ModelContext};
use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::spec::*;

use super::*;

#[test]
fn from_the_plan_to_the_answer_each_role_is_told_what_it_needs() {
    let mut world = squad(blueprint(&["make test"]));
    let plan = asked(&world, "coordinator");
    assert!(plan.contains("You are the coordinator.") && plan.contains("Mend the clock."), "{plan}");
    plan_and_code(&mut world);
    let (call, attempt, _) = world.the(|effect| matches!(effect, Effect::Check { .. }));
    world.answer(call, attempt, OutcomeBody::CheckRan(check("make test", 1)));
    let (call, attempt, _) = world.the(|effect| matches!(effect, Effect::Diff { .. }));
    world.answer(call, attempt, OutcomeBody::DiffTaken(diff("tree")));
    world.run_tools();
    let review = asked(&world, "reviewer");
    for words in
        ["Mend the clock.", "The plan: turn the hand.", "I turned the hand.", "-old\n+new", "1 of 7 failed"]
    {
        assert!(review.contains(words), "`{words}` is missing in\n{review}");
    }
    world.model_says(request_changes(&[("blocker", "it runs backwards"), ("minor", "no comment")], &[]));
    let revision = asked(&world, "coder");
    assert!(
        revision.contains("F1 (blocker) f:3: it runs backwards") && revision.contains("F2 (minor)"),
        "{revision}"
    );
    assert!(revision.contains("1 of 7 failed") && revision.contains("suggested: mend it"), "{revision}");
    world.model_says(text("F1: turned around. F2: no need."));
    world.run_tools();
    let again = asked(&world, "reviewer");
    assert!(again.contains("Your open findings: F1, F2") && again.contains("7 passed"), "{again}");
    world.model_says(approve(&["F1"]));
    let answer_task = asked(&world, "coordinator");
    for words in [
        "Mend the clock.",
        "F1: turned around.",
        "-old\n+new",
        "7 passed",
        "1 of 7 failed",
        "Findings still open: F2",
    ] {
        assert!(answer_task.contains(words), "`{words}` is missing in\n{answer_task}");
    }
    world.model_says(answer("It is mended.", &[("observed", "e5")], &["F2"]));
    assert_eq!(cause(&world), TurnCause::Done);
    assert_eq!(phases(&world), ["plan", "code", "check", "review", "revise", "check", "review", "answer"]);
    assert_eq!(flags(&world), []);
    whole(&world);
}

#[test]
fn findings_keep_their_ids_and_are_closed_by_them() {
    let mut world = squad(blueprint(&[]));
    plan_and_code(&mut world);
    world.run_tools();
    world.model_says(request_changes(&[("major", "one"), ("minor", "two")], &[]));
    world.model_says(text("done"));
    world.run_tools();
    world.model_says(request_changes(&[("major", "three")], &["F1"]));
    let critiques: Vec<Vec<String>> = events(&world)
        .filter_map(|event| match event {
            ArenaEvent::CritiqueIssued(data) => Some(data.findings.iter().map(|f| f.id.clone()).collect()),
            _ => None,
        })
        .collect();
    assert_eq!(critiques, [vec!["F1", "F2"], vec!["F2", "F3"]]);
    let closed: Vec<&str> = events(&world)
        .filter_map(|event| match event {
            ArenaEvent::FindingClosed(data) => Some(data.id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(closed, ["F1"]);
}

#[test]
fn a_critique_that_is_no_json_is_asked_for_once_more_and_then_the_role_has_failed() {
    let mut world = squad(blueprint(&[]));
    plan_and_code(&mut world);
    world.run_tools();
    world.model_says(text("Looks good to me!"));
    let again = asked(&world, "reviewer");
    assert!(again.contains("does not fit the required JSON Schema"), "{again}");
    world.model_says(text("I said: looks good."));
    assert_eq!(failed_roles(&world), [("reviewer".to_owned(), TurnCause::BadAnswer)]);
    let last = asked(&world, "coordinator");
    assert!(last.contains("`reviewer` failed") && last.contains("I turned the hand."), "{last}");
    world.model_says(answer("Mended, not reviewed.", &[], &["review"]));
    assert_eq!(cause(&world), TurnCause::Incomplete);
    assert!(world.session.last_turn().unwrap().answer.is_some(), "the others' work stands");
    whole(&world);
}

#[test]
fn a_critique_that_contradicts_itself_is_sent_back_with_the_place() {
    for (bad, words) in [
        (request_changes(&[], &[]), "no finding says which"),
        (approve(&["F7"]), "`F7` is no open finding of yours"),
    ] {
        let mut world = squad(blueprint(&[]));
        plan_and_code(&mut world);
        world.run_tools();
        world.model_says(bad);
        assert!(asked(&world, "reviewer").contains(words), "{}", world.story());
    }
    let mut world = squad(blueprint(&[]));
    plan_and_code(&mut world);
    world.run_tools();
    world.model_says(request_changes(&[("blocker", "it burns")], &[]));
    world.model_says(text("it does not"));
    world.run_tools();
    world.model_says(approve(&[]));
    assert!(asked(&world, "reviewer").contains("it approves while the blocker F1 is open"));
    whole(&world);
}

#[test]
fn a_coder_that_changes_nothing_is_reviewed_as_such() {
    let mut world = squad(blueprint(&[]));
    world.model_says(text("the plan"));
    world.model_says(text("nothing to do"));
    let (call, attempt, _) = world.the(|effect| matches!(effect, Effect::Diff { .. }));
    let unchanged = DiffTaken { diff: String::new(), files: vec![], ..diff("tree") };
    world.answer(call, attempt, OutcomeBody::DiffTaken(unchanged));
    let proposed = events(&world).find_map(|event| match event {
        ArenaEvent::CodeProposed(data) => Some(data.clone()),
        _ => None,
    });
    assert_eq!(proposed.unwrap().diff, None);
    let review = asked(&world, "reviewer");
    assert!(review.contains("There is no diff: `coder` left the workspace as it was"), "{review}");
    assert!(review.contains("No check ran"), "{review}");
    whole(&world);
}

#[test]
fn a_check_that_hung_has_not_passed_and_no_claim_of_it_stands() {
    let mut plan = blueprint(&["make test"]);
    plan.roles[2].revisions = 0;
    let mut world = squad(plan);
    plan_and_code(&mut world);
    let (call, attempt, _) = world.the(|effect| matches!(effect, Effect::Check { .. }));
    let hung = CheckRan { exit: None, output: "[ended after 120000 ms]".into(), ..check("make test", 0) };
    world.answer(call, attempt, OutcomeBody::CheckRan(hung));
    let (call, attempt, _) = world.the(|effect| matches!(effect, Effect::Diff { .. }));
    world.answer(call, attempt, OutcomeBody::DiffTaken(diff("tree")));
    world.run_tools();
    world.model_says(approve(&[]));
    let last = asked(&world, "coordinator");
    assert!(last.contains("The last checks after `coder` did not pass"), "{last}");
    let seq = world.log.iter().find(|e| matches!(e.events[0], ArenaEvent::CheckRan(_))).unwrap().seq;
    world.model_says(answer("All green.", &[("checks_pass", &format!("e{seq}"))], &[]));
    assert_eq!(flags(&world), [(0, format!("the check of e{seq} did not pass"))]);
    assert_eq!(cause(&world), TurnCause::Incomplete);
    whole(&world);
}

#[test]
fn claims_are_held_against_the_log() {
    let mut world = squad(blueprint(&["make test"]));
    plan_and_code(&mut world);
    world.run_tools();
    world.model_says(approve(&[]));
    let passed = world.log.iter().find(|e| matches!(e.events[0], ArenaEvent::CheckRan(_))).unwrap().seq;
    let good = format!("e{passed}");
    let claims =
        [("checks_pass", good.as_str()), ("checks_pass", "e1"), ("observed", "e9999"), ("observed", "soon")];
    world.model_says(answer("Done.", &claims, &[]));
    let flags = flags(&world);
    let claimed: Vec<u32> = flags.iter().map(|(claim, _)| *claim).collect();
    assert_eq!(claimed, [1, 2, 3], "{flags:?}");
    assert!(flags[1].1.contains("`e9999` is no entry of this log"), "{flags:?}");
    assert_eq!(cause(&world), TurnCause::Done);
    whole(&world);
}

#[test]
fn a_role_that_may_only_look_is_offered_nothing_else_and_refused_the_rest() {
    let mut world = squad(blueprint(&[]));
    let (_, _, request) = world.model();
    assert_eq!(request.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["look"]);
    let decided = world.model_says(calls(&[("put", serde_json::json!({"path": "f"}))]));
    let refused = |event: &ArenaEvent| match event {
        ArenaEvent::ToolRefused(data) => Some(data.reason),
        _ => None,
    };
    assert_eq!(decided.iter().find_map(refused), Some(RefusalReason::UnknownTool));
    // A persona cannot give itself what the blueprint did not.
    let mut spec = with_blueprint(spec(), blueprint(&[]));
    spec.personas.iter_mut().for_each(|persona| persona.tools = Some(vec!["look".into(), "put".into()]));
    let mut world = World::open(spec);
    world.prompt("go");
    let (_, _, request) = world.model();
    assert_eq!(request.tools.len(), 1);
}

#[test]
fn readers_work_at_once_and_writers_one_after_another() {
    let mut plan = blueprint(&[]);
    let writer = |name: &str| RoleSpec { tools: Some(vec!["put".into()]), ..role(name, &["coordinator"]) };
    plan.roles.extend([writer("scribe"), role("scout", &["coordinator"]), role("guide", &["coordinator"])]);
    let mut world = squad(plan);
    world.model_says(text("the plan"));
    let asked = |world: &World| {
        let open = world.session.outstanding().into_iter();
        let mut roles: Vec<String> = open
            .filter_map(|open| match world.session.effect(open.call)? {
                Effect::Model { context: ModelContext { request, .. }, .. } => Some(request.spark),
                _ => None,
            })
            .collect();
        roles.sort();
        roles
    };
    assert_eq!(asked(&world), ["coder", "guide", "scout"], "the scribe waits for the workspace");
    let (call, attempt, _) =
        world.the(|e| matches!(e, Effect::Model { context: ModelContext { request, .. }, .. } if request.spark == "coder"));
    world.answer(call, attempt, OutcomeBody::ModelAnswered(text("done")));
    assert!(!asked(&world).contains(&"scribe".to_owned()), "the coder's work is still being looked at");
    world.run_tools();
    assert_eq!(asked(&world), ["guide", "reviewer", "scout", "scribe"]);
    whole_so_far(&world);
}

fn whole_so_far(world: &World) {
    world.check();
    assert!(agon::arena::replay::verify(&world.log).holds(true));
}

#[test]
fn a_model_that_is_gone_leaves_the_others_and_the_answer_says_so() {
    let mut plan = blueprint(&[]);
    plan.roles[1].model = Some("mock/b".to_owned());
    let mut world = squad(plan);
    world.model_says(text("the plan"));
    world.model_fails(ErrorKind::Auth);
    assert_eq!(failed_roles(&world), [("coder".to_owned(), TurnCause::ModelFailed)]);
    world.run_tools();
    let last = asked(&world, "coordinator");
    assert!(last.contains("`coder` failed") && last.contains("`reviewer` did not get to work"), "{last}");
    world.model_says(answer("Nothing was done.", &[], &["all of it"]));
    assert_eq!(cause(&world), TurnCause::Incomplete);
    whole(&world);
}

#[test]
fn a_writer_that_failed_leaves_its_diff_and_what_the_checks_say_of_it() {
    let mut plan = blueprint(&["make lint", "make test"]);
    plan.roles[1].model = Some("mock/b".to_owned());
    let mut world = squad(plan);
    world.model_says(text("the plan"));
    world.model_says(calls(&[("put", serde_json::json!({"path": "f"}))]));
    world.run_tools();
    world.model_fails(ErrorKind::Auth);
    assert_eq!(failed_roles(&world), [("coder".to_owned(), TurnCause::ModelFailed)]);
    for (command, exit) in [("make lint", 0), ("make test", 1)] {
        let (call, attempt, effect) = world.the(|effect| matches!(effect, Effect::Check { .. }));
        assert!(
            matches!(effect, Effect::Check { order: CheckOrder { command: named }, .. } if named == command)
        );
        world.answer(call, attempt, OutcomeBody::CheckRan(check(command, exit)));
    }
    let (call, attempt, _) = world.the(|effect| matches!(effect, Effect::Diff { .. }));
    world.answer(call, attempt, OutcomeBody::DiffTaken(diff("tree")));
    let last = asked(&world, "coordinator");
    for words in
        ["`coder` failed", "-old\n+new", "7 passed", "1 of 7 failed", "checks after `coder` did not pass"]
    {
        assert!(last.contains(words), "`{words}` is missing in\n{last}");
    }
    assert!(!events(&world).any(|event| matches!(event, ArenaEvent::CodeProposed(_))), "nothing is proposed");
    world.model_says(answer("Half of it is there.", &[("checks_pass", "e3")], &["the tests"]));
    assert_eq!(cause(&world), TurnCause::Incomplete);
    assert_eq!(flags(&world).len(), 1);
    whole(&world);
    // One that changed nothing leaves nothing to check.
    let mut plan = blueprint(&["make test"]);
    plan.roles[1].model = Some("mock/b".to_owned());
    let mut world = squad(plan);
    world.model_says(text("the plan"));
    world.model_fails(ErrorKind::Auth);
    let (call, attempt, _) = world.the(|effect| matches!(effect, Effect::Diff { .. }));
    world.answer(call, attempt, OutcomeBody::DiffTaken(DiffTaken { files: vec![], ..diff("tree") }));
    assert!(asked(&world, "coordinator").contains("`coder` left the workspace as it was"));
}

/// A coder's model is gone, and what it left is being checked or compared.
fn proving_a_failed_writer(checked: bool) -> (World, u64, u32) {
    let mut plan = blueprint(&["make test"]);
    plan.roles[1].model = Some("mock/b".to_owned());
    let mut world = squad(plan);
    world.model_says(text("the plan"));
    world.model_says(calls(&[("put", serde_json::json!({"path": "f"}))]));
    world.run_tools();
    world.model_fails(ErrorKind::Auth);
    let (mut call, mut attempt, _) = world.the(|effect| matches!(effect, Effect::Check { .. }));
    if checked {
        world.answer(call, attempt, OutcomeBody::CheckRan(check("make test", 0)));
        (call, attempt, _) = world.the(|effect| matches!(effect, Effect::Diff { .. }));
    }
    (world, call, attempt)
}

#[test]
fn a_turn_that_is_stopped_waits_for_what_proves_the_work_of_a_failed_writer() {
    use agon::protocol::StopCause::Interrupted;
    let stop = ArenaEvent::StopRequested(StopRequested { cause: Interrupted });
    let interrupt = ArenaEvent::InterruptRequested(InterruptRequested { spark: None, call: None });
    for (checked, wish) in [(false, &stop), (true, &stop), (false, &interrupt), (true, &interrupt)] {
        let (mut world, call, attempt) = proving_a_failed_writer(checked);
        world.give(wish.clone());
        assert!(world.session.has_open_turn(), "its proof still runs\n{}", world.story());
        assert!(world.session.ordered(agon::protocol::CallId(call)).unwrap().cancelled);
        let body = EffectFailed { status: FailStatus::Cancelled, error: "cancelled".to_owned() };
        world.answer(call, attempt, OutcomeBody::EffectFailed(body));
        let ended = if *wish == stop { TurnCause::Stopped } else { TurnCause::Interrupted };
        assert_eq!(cause(&world), ended);
        assert_eq!(world.session.sealed(), (*wish == stop).then_some(Interrupted));
        whole(&world);
    }
}

#[test]
fn a_turn_whose_time_is_up_waits_for_the_check_of_a_failed_writer() {
    let mut plan = blueprint(&["make test"]);
    plan.roles[1].model = Some("mock/b".to_owned());
    let mut spec = with_blueprint(spec(), plan);
    spec.limits.max_seconds = Some(5);
    let mut world = World::open(spec);
    world.prompt("Mend the clock.");
    world.run_tools();
    world.model_says(text("the plan"));
    world.model_fails(ErrorKind::Auth);
    let (timer, once, _) = world.the(|effect| matches!(effect, Effect::Timer { .. }));
    let (call, attempt, _) = world.the(|effect| matches!(effect, Effect::Diff { .. }));
    world.answer(timer, once, OutcomeBody::TimerFired(TimerFired { active_ms: 5000 }));
    assert!(world.session.has_open_turn(), "{}", world.story());
    world.answer(call, attempt, OutcomeBody::DiffTaken(diff("tree")));
    assert_eq!(cause(&world), TurnCause::Limit);
    whole(&world);
}

#[test]
fn without_its_lead_a_squad_ends_with_what_there_is() {
    let mut plan = blueprint(&[]);
    plan.roles[0].model = Some("mock/b".to_owned());
    let mut world = squad(plan.clone());
    world.model_fails(ErrorKind::Auth);
    assert_eq!(cause(&world), TurnCause::Incomplete);
    assert_eq!(world.session.last_turn().unwrap().answer, None);
    let mut world = squad(plan);
    plan_and_code(&mut world);
    world.run_tools();
    world.model_says(approve(&[]));
    world.model_fails(ErrorKind::Auth);
    assert_eq!(cause(&world), TurnCause::Incomplete);
    let account =
        world.session.last_turn().unwrap().answer.and_then(|at| world.log.get(at.seq as usize).cloned());
    let account = account.map(|entry| entry.events[0].data().to_string()).unwrap_or_default();
    assert!(account.contains("I turned the hand."), "{account}");
    whole(&world);
}

#[test]
fn a_role_has_its_own_limit_and_the_turn_has_one_for_all() {
    let mut plan = blueprint(&[]);
    plan.roles[1].max_steps = Some(1);
    let mut world = squad(plan);
    world.model_says(text("the plan"));
    world.model_says(calls(&[("look", serde_json::json!({"path": "f"}))]));
    world.run_tools();
    assert_eq!(failed_roles(&world), [("coder".to_owned(), TurnCause::Limit)]);
    world.run_tools();
    world.model_says(answer("Nothing.", &[], &["all"]));
    assert_eq!(cause(&world), TurnCause::Limit, "a role's limit is a limit");
    whole(&world);
    let mut spec = with_blueprint(spec(), blueprint(&[]));
    spec.limits.max_steps = 1;
    let mut world = World::open(spec);
    world.prompt("go");
    world.model_says(text("the plan"));
    world.run_tools();
    assert_eq!(cause(&world), TurnCause::Limit);
    whole(&world);
}

#[test]
fn a_role_that_uses_up_its_budget_ends_alone() {
    let mut spec = with_blueprint(spec(), blueprint(&[]));
    spec.policy = allow_all();
    spec.limits.spark.max_tokens = Some(3000);
    let mut world = World::open(spec);
    world.prompt("go");
    world.run_tools();
    world.model_says(text("the plan"));
    for turn in 0.. {
        let (_, _, request) = world.model();
        if !request.spark.starts_with("coder") {
            break;
        }
        world.model_says(calls(&[("look", serde_json::json!({"path": format!("f{turn}")}))]));
        world.run_tools();
    }
    assert_eq!(failed_roles(&world), [("coder".to_owned(), TurnCause::Limit)]);
    world.model_says(answer("Nothing.", &[], &["all"]));
    assert_eq!(cause(&world), TurnCause::Limit);
    whole(&world);
}

#[test]
fn a_role_has_models_of_its_own_to_take_over() {
    let mut plan = blueprint(&[]);
    plan.roles[1].fallbacks = Some(vec!["mock/c".to_owned()]);
    let mut spec = with_blueprint(spec(), plan);
    spec.models.push(ModelSpec { name: "mock/c".to_owned(), ..spec.models[1].clone() });
    let mut world = World::open(spec);
    world.prompt("go");
    world.run_tools();
    for takes_over in ["mock/b", "mock/c"] {
        world.model_fails(ErrorKind::Auth);
        assert_eq!(world.model().2.model, takes_over);
        world.model_says(text("the plan"));
    }
    world.check();
}

#[test]
fn without_a_blueprint_a_squad_is_refused() {
    let mut world = World::open(spec());
    let decided = world.give(ArenaEvent::PromptGiven(PromptGiven {
        text: "go".into(),
        mode: Mode::Squad,
        changed: vec![],
        schema: None,
        by: None,
    }));
    assert!(matches!(decided.as_slice(), [ArenaEvent::InputRefused(_)]), "{decided:?}");
}

#[test]
fn words_of_the_person_reach_whoever_is_at_work() {
    let mut world = squad(blueprint(&[]));
    world.model_says(text("the plan"));
    let steering = SteeringGiven { spark: None, text: "mind the gap".into() };
    world.give(ArenaEvent::SteeringGiven(steering));
    world.model_says(text("done"));
    let coder = asked(&world, "coder");
    assert!(coder.contains("mind the gap"), "{coder}");
    whole_so_far(&world);
}

#[test]
fn whatever_order_the_outcomes_come_in_the_log_verifies_and_the_squad_is_done() {
    for seed in 1..60 {
        let mut dice = Dice(seed * 7919);
        let mut plan = blueprint(&["make lint", "make test"]);
        plan.roles.push(role("scout", &[]));
        plan.roles[1].after.push("scout".into());
        plan.roles.push(RoleSpec { revise: vec!["coder".into()], ..role("guard", &["coder"]) });
        let mut spec = with_blueprint(spec(), plan);
        spec.policy = allow_all();
        let mut world = World::open(spec);
        world.prompt("go");
        let mut called = false;
        while world.session.has_open_turn() {
            let open = world.session.outstanding();
            let chosen = open[dice.roll(open.len() as u64) as usize];
            let body = match world.session.effect(chosen.call).unwrap() {
                Effect::Model { context: ModelContext { request, .. }, .. }
                    if request.spark == "coder" && !called =>
                {
                    called = true;
                    let puts = [
                        ("put", serde_json::json!({"path": "f"})),
                        ("look", serde_json::json!({"path": "g"})),
                    ];
                    OutcomeBody::ModelAnswered(calls(&puts))
                }
                Effect::Model { context: ModelContext { request, .. }, .. } => {
                    OutcomeBody::ModelAnswered(fitting(&request))
                }
                effect => world.succeed(&effect).unwrap(),
            };
            world.answer(chosen.call.0, chosen.attempt, body);
        }
        assert_eq!(cause(&world), TurnCause::Done, "seed {seed}\n{}", world.story());
        whole(&world);
    }
}

//! Who allowed a call: rules, people, grants, and refusals in words.

use agon::protocol::Choice;
use agon::protocol::event::*;
use agon::protocol::spec::{Action, Policy, Risk, Rule};
use serde_json::json;

use super::kit::*;
use crate::support::forked;
use crate::support::world::*;

fn rule(name: &str, risk: Risk, action: Action) -> Rule {
    let why = (action == Action::Deny).then(|| "nothing is written here".to_owned());
    Rule { risk: Some(risk), why, ..Rule::named(name, action) }
}

fn with_rules(rules: Vec<Rule>) -> World {
    let mut spec = spec();
    spec.policy = Policy { rules };
    let mut world = World::open(spec);
    world.prompt("do it");
    world
}

#[test]
fn each_decision_names_the_rule_that_took_it() {
    let rules =
        vec![rule("looking is fine", Risk::Read, Action::Allow), rule("frozen", Risk::Write, Action::Deny)];
    let mut world = with_rules(rules);
    world.model_says(calls(&[("look", json!({})), ("run", json!({"path": "x"})), ("put", json!({}))]));
    let allowed = prepared(&mut world, 0);
    assert_eq!(told(&allowed)[0]["policy_decided"]["rule"], "looking is fine");
    let asked = prepared(&mut world, 1);
    assert_eq!(told(&asked)[0]["policy_decided"]["rule"], "default: running commands is asked about");
    approve(&mut world, Choice::Deny("use the other script".to_owned()));
    let denied = prepared(&mut world, 2);
    assert_eq!(
        told(&denied),
        json!([
            {"policy_decided": {"use": usage(2, 2), "prepared": format!("e{}", world.log.len() - 1),
                "action": "deny", "rule": "frozen"}},
            {"tool_refused": {"use": usage(2, 2), "reason": "policy",
                "text": "the policy forbids this (rule `frozen`): nothing is written here; do not try to get around it"}},
        ])
    );
    ran(&mut world, 0, "seen");
    let shown = results(&world.model().2);
    assert!(shown[1].ends_with("ann said no: use the other script"), "{shown:?}");
    assert!(shown[2].contains("rule `frozen`"), "{shown:?}");
    world.check();
}

#[test]
fn an_answer_for_other_content_is_refused_and_the_question_stays_open() {
    let mut world = with_rules(vec![]);
    world.model_says(calls(&[("run", json!({}))]));
    prepared(&mut world, 0);
    let (call, digest) = world.session.open_asks().remove(0);
    let refused = approve_as(&mut world, call, "digest of something else", Choice::Once);
    assert_eq!(
        told(&refused),
        json!([{"input_refused": {"reason": format!("the answer is for other content than {call} asks about")}}])
    );
    assert_eq!(world.session.open_asks(), [(call, digest.clone())]);
    let refused = approve_as(&mut world, agon::protocol::CallId(99), &digest, Choice::Once);
    assert_eq!(told(&refused), json!([{"input_refused": {"reason": "call-99 asks for nothing"}}]));
    assert_eq!(kinds(&approve(&mut world, Choice::Once)), ["effect_ordered"]);
    let twice = approve_as(&mut world, call, &digest, Choice::Once);
    assert_eq!(kinds(&twice), ["input_refused"], "an approval is spent once");
    world.check();
}

#[test]
fn once_is_once_and_a_grant_for_the_session_holds_for_the_same_call_until_a_fork() {
    let mut world = with_rules(vec![]);
    let again = |world: &mut World| {
        world.model_says(calls(&[("run", json!({}))]));
        let decided = prepared(world, 0);
        told(&decided)[0]["policy_decided"]["rule"].as_str().unwrap().to_owned()
    };
    assert_eq!(again(&mut world), "default: running commands is asked about");
    approve(&mut world, Choice::Once);
    world.run_tools();
    assert_eq!(again(&mut world), "default: running commands is asked about");
    approve(&mut world, Choice::Session);
    world.run_tools();
    assert_eq!(again(&mut world), "granted for this session: run");
    world.check();

    let mut fork = reopened(world);
    let seq = fork.log.len() as u64 - 1;
    fork.give(ArenaEvent::SessionForked(forked(seq)));
    fork.run_tools();
    assert_eq!(fork.session.open_asks(), [], "the call of the granted answer was cut off and is lost");
    assert_eq!(again(&mut fork), "default: running commands is asked about", "{}", fork.story());
    fork.check();
}

#[test]
fn a_rule_granted_by_a_person_is_named_and_never_answers_a_deny() {
    let mut world = with_rules(vec![rule("frozen", Risk::Write, Action::Deny)]);
    world.model_says(calls(&[("run", json!({})), ("put", json!({}))]));
    prepared(&mut world, 0);
    let mut grant = rule("ann trusts it", Risk::Execute, Action::Allow);
    grant.risk = None;
    approve(&mut world, Choice::Rule(Box::new(grant)));
    recorded(&mut world);
    ran(&mut world, 0, "done");
    let decided = prepared(&mut world, 1);
    assert_eq!(told(&decided)[0]["policy_decided"]["rule"], "frozen");
    world.run_tools();
    world.model_says(calls(&[("run", json!({"path": "y"}))]));
    let decided = prepared(&mut world, 0);
    assert_eq!(told(&decided)[0]["policy_decided"]["rule"], "ann trusts it");
}

#[test]
fn an_open_question_is_looked_at_and_asked_again_after_a_kill() {
    let mut world = with_rules(vec![]);
    world.model_says(calls(&[("run", json!({}))]));
    prepared(&mut world, 0);
    let open = world.session.open_asks();
    assert!(world.session.waits_for_people(false));
    let mut world = reopened(world);
    let decided = world.give(resumed(vec![], 0));
    assert_eq!(kinds(&decided), ["call_cancelled", "effect_ordered"]);
    assert!(world.session.open_asks().is_empty(), "the recorded plan is no plan");
    prepared(&mut world, 0);
    assert_eq!(world.session.open_asks()[0].1, open[0].1);
    assert_ne!(world.session.open_asks()[0].0, open[0].0, "a yes to the old question answers nothing");
    assert_eq!(kinds(&approve(&mut world, Choice::Once)), ["effect_ordered"]);
    world.check();
}

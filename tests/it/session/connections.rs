//! Connections of a running call: asked about while it runs, answered once, and gone with the call.

use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::spec::{Action, PermissionLevel, Policy, Rule, Setting, Spec};
use agon::protocol::{CallId, Choice, RULES};
use serde_json::json;

use super::kit::*;
use crate::support::world::*;

/// A session whose command runs: its call, and the tool call it is.
fn running(policy: Policy) -> (World, CallId, ToolUse) {
    let mut world = World::open(Spec { policy, ..spec() });
    world.prompt("do it");
    world.model_says(calls(&[("run", json!({}))]));
    prepared(&mut world, 0);
    recorded(&mut world);
    let (call, _, Effect::Tool { order, .. }) = call_of(&world, 0) else { panic!() };
    (world, CallId(call), order.tool_use)
}

fn asks(world: &mut World, call: CallId, tool_use: ToolUse, host: &str) -> Vec<ArenaEvent> {
    let decided = world.give(host_asked(call, tool_use, host));
    world.check();
    decided
}

/// What a running call is told: the need, the action, the rule.
fn judged(decided: &[ArenaEvent]) -> Vec<(&str, Action, &str)> {
    let judged = decided.iter().filter_map(|event| match event {
        ArenaEvent::HostJudged(data) => Some((data.need.as_str(), data.action, data.rule.as_str())),
        _ => None,
    });
    judged.collect()
}

#[test]
fn a_grant_for_an_address_in_brackets_answers_the_next_connection() {
    let (mut world, call, tool_use) = running(allow_all());
    asks(&mut world, call, tool_use, "[fd00::5]:8080");
    approve(&mut world, Choice::Session);
    let decided = asks(&mut world, call, tool_use, "[fd00::5]:8080");
    assert_eq!(judged(&decided)[0].1, Action::Allow, "{decided:?}");
    ran(&mut world, 0, "done");
    world.run_tools();
    world.model_says(calls(&[("run", json!({"n": 2}))]));
    prepared(&mut world, 0);
    let (_, _, Effect::Tool { context, .. }) = call_of(&world, 0) else { panic!("{}", world.story()) };
    assert_eq!(context.hosts[0].need, "host:[fd00::5]:8080", "as the proxy reads an address");
}

fn host_rule(need: &str, action: Action) -> Policy {
    let rule = Rule { needs: vec![need.to_owned()], ..Rule::named(need, action) };
    Policy { rules: vec![allow_all().rules.remove(0), rule] }
}

#[test]
fn a_running_call_asks_for_a_host_and_is_told_the_answer() {
    for (choice, action) in [
        (Choice::Once, Action::Allow),
        (Choice::Session, Action::Allow),
        (Choice::Deny("no".into()), Action::Deny),
    ] {
        let (mut world, call, tool_use) = running(allow_all());
        let decided = asks(&mut world, call, tool_use, "a.example");
        let [ArenaEvent::ApprovalRequested(asked)] = &decided[..] else { panic!("{decided:?}") };
        assert_eq!((asked.tool_use, asked.opens.as_slice()), (tool_use, &["host:a.example".to_owned()][..]));
        assert!(!world.session.waits_for_people(true), "the call still runs");
        let decided = approve(&mut world, choice.clone());
        world.check();
        assert_eq!(judged(&decided), [("host:a.example", action, "ann")], "{choice:?}");
        // A grant for the session answers the next connection, another host is asked about.
        let decided = asks(&mut world, call, tool_use, "a.example");
        match choice {
            Choice::Session => assert_eq!(judged(&decided)[0].1, Action::Allow),
            _ => assert_eq!(kinds(&decided), ["approval_requested"]),
        }
        assert_eq!(kinds(&asks(&mut world, call, tool_use, "b.example")), ["approval_requested"]);
        // The end of the call takes back what is still asked, and the model goes on.
        let decided = ran(&mut world, 0, "done");
        let open = if choice == Choice::Session { 1 } else { 2 };
        assert_eq!(kinds(&decided)[..open], ["call_cancelled", "call_cancelled"][..open]);
        assert!(world.session.open_asks().is_empty(), "{}", world.story());
        world.check();
        world.run_tools();
        world.model_says(text("done"));
        world.every_use_ends_once();
        assert!(agon::arena::replay::verify(&world.log).holds(true));
    }
}

#[test]
fn a_rule_of_meanwhile_answers_and_a_level_never_does() {
    for action in [Action::Allow, Action::Deny] {
        let (mut world, call, tool_use) = running(host_rule("host:*.example", action));
        let decided = asks(&mut world, call, tool_use, "a.example");
        assert_eq!(judged(&decided), [("host:a.example", action, "host:*.example")]);
    }
    let (mut world, call, tool_use) = running(allow_all());
    let level = Setting::Permission(PermissionLevel::Auto);
    world.give(ArenaEvent::SettingsChanged(SettingsChanged { changed: vec![level] }));
    assert_eq!(kinds(&asks(&mut world, call, tool_use, "a.example")), ["approval_requested"]);
}

#[test]
fn what_is_granted_for_a_host_covers_commands_that_name_it_before_they_run() {
    let (mut world, call, tool_use) = running(allow_all());
    asks(&mut world, call, tool_use, "a.example");
    let rule = Rule {
        tool: Some("run".to_owned()),
        needs: vec!["host:*.example".to_owned()],
        ..Rule::named("mine", Action::Allow)
    };
    let wide = Rule { needs: vec!["host:b.example".to_owned()], ..rule.clone() };
    let (ask, digest) = world.session.open_asks().remove(0);
    let refused = approve_as(&mut world, ask, &digest, Choice::Rule(Box::new(wide)));
    assert_eq!(kinds(&refused), ["input_refused"], "it does not allow what is asked");
    for more in ["*", "**", "{host,port}:*", "unconfined", "git", "port:5432"] {
        let wide = Rule { needs: vec![rule.needs[0].clone(), more.to_owned()], ..rule.clone() };
        let refused = approve_as(&mut world, ask, &digest, Choice::Rule(Box::new(wide)));
        assert_eq!(
            told(&refused)[0]["input_refused"]["reason"],
            format!("the rule `mine` speaks of `{more}`, which was not asked about")
        );
    }
    let decided = approve_as(&mut world, ask, &digest, Choice::Rule(Box::new(rule)));
    assert_eq!(judged(&decided), [("host:a.example", Action::Allow, "ann")]);
    let decided = asks(&mut world, call, tool_use, "b.example");
    assert_eq!(judged(&decided)[0].1, Action::Allow, "the rule holds for the session");
    ran(&mut world, 0, "done");
    world.run_tools();
    world.model_says(calls(&[("run", json!({"n": 2}))]));
    prepared(&mut world, 0);
    let (_, _, Effect::Tool { context, .. }) = call_of(&world, 0) else { panic!("{}", world.story()) };
    assert_eq!(context.hosts.len(), 1, "the next command begins with it: {:?}", context.hosts);
}

#[test]
fn what_nobody_waits_for_changes_nothing() {
    let (mut world, call, tool_use) = running(allow_all());
    for odd in [
        host_asked(CallId(99), tool_use, "a.example"),
        host_asked(call, ToolUse { part: 3, ..tool_use }, "a.example"),
        // A name that holds a secret, as the log has it.
        host_asked(call, tool_use, "[secret:KEY].evil.example"),
        match host_asked(call, tool_use, "a.example") {
            ArenaEvent::HostAsked(asked) => ArenaEvent::HostAsked(HostAsked { attempt: 2, ..asked }),
            other => other,
        },
        match host_asked(call, tool_use, "a.example") {
            ArenaEvent::HostAsked(mut asked) => {
                asked.plan.needs.push(agon::protocol::need::Need::Unconfined);
                ArenaEvent::HostAsked(asked)
            }
            other => other,
        },
    ] {
        assert_eq!(kinds(&world.give(odd)), ["outcome_ignored"]);
        world.check();
    }
    asks(&mut world, call, tool_use, "a.example");
    world.give(ArenaEvent::InterruptRequested(InterruptRequested { spark: None, call: None }));
    assert!(world.session.open_asks().is_empty(), "{}", world.story());
    assert_eq!(kinds(&world.give(host_asked(call, tool_use, "b.example"))), ["outcome_ignored"]);
    let end = resolved(tool_use, ToolStatus::Cancelled, "stopped");
    world.answer(call.0, 1, OutcomeBody::ToolResolved(end));
    world.check();
    world.every_use_ends_once();
    assert_eq!(cause(&world), TurnCause::Interrupted);
}

#[test]
fn a_resume_loses_the_question_with_its_call() {
    let (mut world, call, tool_use) = running(allow_all());
    asks(&mut world, call, tool_use, "a.example");
    let resumed = SessionResumed {
        rules: RULES,
        program: "agon test".to_owned(),
        changed: vec![],
        active_ms: 0,
        foreign: false,
    };
    let decided = world.give(ArenaEvent::SessionResumed(resumed));
    assert_eq!(kinds(&decided)[..2], ["call_lost", "call_cancelled"], "{decided:?}");
    assert!(world.session.open_asks().is_empty());
    world.check();
    world.run_tools();
    world.model_says(text("done"));
    world.every_use_ends_once();
    assert!(agon::arena::replay::verify(&world.log).holds(true));
}

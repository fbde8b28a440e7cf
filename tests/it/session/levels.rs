//! The permission levels and the order of judgement: what each level does, and that no right comes from nowhere.

use agon::protocol::event::*;
use agon::protocol::need::Need;
use agon::protocol::spec::{
    Action, PermissionLevel, Policy, Risk, RolePlace, Rule, SandboxSpec, Setting, WorkspaceSpec,
};
use agon::session::policy::{Grant, Line, Rights, Shelter, judge, opens};
use proptest::prelude::*;
use serde_json::json;

use super::kit::*;
use crate::support::world::*;

use PermissionLevel as L;

fn file(path: &str) -> PathBase {
    PathBase { path: path.to_owned(), sha256: None }
}

fn plan(risk: Risk, needs: &[Need]) -> Plan {
    let (cwd, preview, digest) = (String::new(), String::new(), "d".to_owned());
    Plan { needs: needs.to_vec(), cwd, preview, risk, digest }
}

fn command(line: &str) -> Need {
    Need::Command(line.to_owned())
}

fn host(name: &str) -> Need {
    Need::Host(name.to_owned())
}

const INSIDE: Shelter = Shelter { confines: true, holds_plans: true };

fn ruled(policy: &Policy, level: L, shelter: Shelter, plan: &Plan) -> (Action, Line) {
    let ruling = judge(&Rights { policy, grants: &[], level, read_only: false, shelter }, "bash", plan);
    (ruling.action, ruling.line)
}

#[test]
fn each_level_does_what_the_table_says() {
    use Action::{Allow, Ask, Deny};
    let read = plan(Risk::Read, &[Need::Read(file("a"))]);
    let edit = plan(Risk::Write, &[Need::Write(file("a"))]);
    let run = plan(Risk::Execute, &[command("cargo test")]);
    let git = plan(Risk::Execute, &[command("git commit"), Need::Git]);
    let net = plan(Risk::Execute, &[command("cargo add x"), host("index.example.org")]);
    let port = plan(Risk::Execute, &[command("psql"), Need::Port(5432)]);
    let out = plan(Risk::Execute, &[command("git push"), Need::Unconfined]);
    let server = plan(Risk::Execute, &[Need::Tool("tracker/close".to_owned())]);
    let restore = |line| plan(Risk::Execute, &[command(line), Need::Git, Need::Write(file("a"))]);
    // Plan, ask, edits, auto.
    let table = [
        ("read", &read, [Allow, Allow, Allow, Allow]),
        ("edit", &edit, [Deny, Ask, Allow, Allow]),
        ("run", &run, [Ask, Ask, Ask, Allow]),
        ("git", &git, [Deny, Ask, Ask, Allow]),
        ("net", &net, [Ask, Ask, Ask, Ask]),
        ("port", &port, [Ask, Ask, Ask, Ask]),
        ("out", &out, [Deny, Ask, Ask, Ask]),
        ("server", &server, [Deny, Ask, Ask, Ask]),
        ("restore", &restore("git restore a"), [Deny, Ask, Allow, Allow]),
        ("restore more", &restore("git restore a b"), [Deny, Ask, Ask, Allow]),
        ("restore and run", &restore("git restore a; make"), [Deny, Ask, Ask, Allow]),
    ];
    for (name, plan, expected) in table {
        let found = L::ALL.map(|level| ruled(&Policy::default(), level, INSIDE, plan).0);
        assert_eq!(found, expected, "{name}");
    }
    let bare = Shelter::default();
    assert_eq!(ruled(&Policy::default(), L::Plan, bare, &run).0, Deny, "nothing holds the command back");
    assert_eq!(ruled(&Policy::default(), L::Auto, bare, &run).0, Ask, "nothing confines the command");
    assert_eq!(ruled(&Policy::default(), L::Auto, bare, &edit).0, Allow);
    assert_eq!(ruled(&Policy::default(), L::Edits, bare, &restore("git restore a")).0, Ask);
    // Which file is written is no further need of a rule that allows the command, and may be denied by one.
    let mut rule = Rule { command: Some("git *".to_owned()), ..Rule::named("git", Allow) };
    rule.needs = vec!["git".to_owned()];
    let secret = Rule { path: Some("a".to_owned()), ..Rule::named("secret", Deny) };
    let ruled = |rules: &[&Rule]| {
        let policy = Policy { rules: rules.iter().map(|rule| (*rule).clone()).collect() };
        ruled(&policy, L::Edits, INSIDE, &restore("git restore a"))
    };
    assert_eq!(ruled(&[&rule]), (Allow, Line::Allowed));
    assert_eq!(ruled(&[&rule, &secret]), (Deny, Line::Denied));
}

#[test]
fn the_first_line_that_speaks_decides() {
    let edit = plan(Risk::Write, &[Need::Write(file("a"))]);
    let rule = |action| Rule { risk: Some(Risk::Write), ..Rule::named(format!("{action:?}"), action) };
    let all = [Action::Deny, Action::Ask, Action::Allow];
    let lines = |from: usize, level| {
        let policy = Policy { rules: all[from..].iter().map(|action| rule(*action)).collect() };
        ruled(&policy, level, INSIDE, &edit).1
    };
    assert_eq!(lines(0, L::Plan), Line::Denied);
    assert_eq!(lines(1, L::Plan), Line::ReadOnly, "an allow rule at level plan allows nothing");
    assert_eq!(lines(1, L::Auto), Line::Asked);
    assert_eq!(lines(2, L::Ask), Line::Allowed);
    assert_eq!(lines(3, L::Auto), Line::Level);
}

#[test]
fn a_rule_allows_each_command_of_a_line_or_not_the_line() {
    let allow =
        |pattern: &str| Rule { command: Some(pattern.to_owned()), ..Rule::named(pattern, Action::Allow) };
    let policy = Policy { rules: vec![allow("cargo test *"), allow("tail *")] };
    let judged = |line: &str| ruled(&policy, L::Ask, INSIDE, &plan(Risk::Execute, &[command(line)])).0;
    for line in
        ["cargo test", "cargo test --all", "cargo test a && cargo test b", "cargo test 2>&1 | tail -5"]
    {
        assert_eq!(judged(line), Action::Allow, "{line}");
    }
    for line in [
        "cargo test; rm -rf /",
        "cargo test $(rm x)",
        "cargo test > /etc/x",
        "cargo test | sh",
        "sh -c 'cargo test x'",
        "env cargo test",
        "cargo testing",
        "xargs cargo test",
        "cargo test <<E\nx\nE",
        "cargo  publish",
        "eval cargo test x",
    ] {
        assert_eq!(judged(line), Action::Ask, "{line}");
    }
    let names = judge(
        &Rights { policy: &policy, grants: &[], level: L::Ask, read_only: false, shelter: INSIDE },
        "bash",
        &plan(Risk::Execute, &[command("cargo test | tail -5")]),
    );
    assert_eq!(names.rule, "cargo test *; tail *");
}

#[test]
fn a_need_that_leaves_the_sandbox_is_named_by_a_rule_or_stays_open() {
    let need = |name: &str| Rule { needs: vec![name.to_owned()], ..Rule::named(name, Action::Allow) };
    let net = plan(Risk::Execute, &[command("cargo add x"), host("index.example.org"), Need::Port(80)]);
    let left = |rules: Vec<Rule>| {
        let policy = Policy { rules };
        let rights =
            Rights { policy: &policy, grants: &[], level: L::Auto, read_only: false, shelter: INSIDE };
        let open: Vec<String> = opens(&rights, "bash", &net).iter().map(|need| need.name().into()).collect();
        (open.join(" "), judge(&rights, "bash", &net).action)
    };
    assert_eq!(left(vec![]), ("host:index.example.org port:80".to_owned(), Action::Ask));
    assert_eq!(left(vec![need("host:*.example.org")]), ("port:80".to_owned(), Action::Ask));
    assert_eq!(left(vec![need("host:*.example.org"), need("port:80")]), (String::new(), Action::Allow));
    let npm = Rule { command: Some("npm *".to_owned()), ..need("*") };
    assert_eq!(left(vec![npm]).1, Action::Ask, "a rule for another command names nothing of this one");
    let cargo = Rule { command: Some("cargo *".to_owned()), ..need("*") };
    assert_eq!(left(vec![cargo]), (String::new(), Action::Allow));
}

fn world_at(level: L, places: Vec<RolePlace>) -> World {
    let mut spec = spec();
    (spec.permission, spec.workspace.places) = (level, places);
    let mut world = World::open(spec);
    world.prompt("do it");
    world
}

fn planning() -> Vec<RolePlace> {
    let sandbox = SandboxSpec { kind: "local".to_owned(), ..SandboxSpec::default() };
    vec![RolePlace { role: WorkspaceSpec::PLANNING.to_owned(), read_only: true, sandbox }]
}

#[test]
fn at_level_plan_the_model_is_told_and_commands_run_where_nothing_can_be_changed() {
    let mut world = world_at(L::Plan, planning());
    assert!(world.story().contains("permission level is `plan`"), "{}", world.story());
    world.model_says(calls(&[("put", json!({})), ("run", json!({}))]));
    let denied = prepared(&mut world, 0);
    assert_eq!(told(&denied)[0]["policy_decided"]["rule"], "level plan: the workspace is read-only");
    let asked = prepared(&mut world, 1);
    assert_eq!(kinds(&asked), ["policy_decided", "approval_requested"]);
    approve(&mut world, agon::protocol::Choice::Once);
    recorded(&mut world);
    let (_, _, effect) = call_of(&world, 1);
    let agon::protocol::effect::Effect::Tool { context, .. } = effect else { panic!("{effect:?}") };
    assert_eq!(context.place.as_deref(), Some(WorkspaceSpec::PLANNING));
    world.check();
}

#[test]
fn a_call_that_was_allowed_does_not_run_once_the_level_is_plan() {
    let mut world = world_at(L::Auto, vec![]);
    world.model_says(calls(&[("put", json!({}))]));
    prepared(&mut world, 0);
    let changed = SettingsChanged { changed: vec![Setting::Permission(L::Plan)] };
    assert_eq!(kinds(&world.give(ArenaEvent::SettingsChanged(changed))), ["notice_given"]);
    let refused = recorded(&mut world);
    assert_eq!(told(&refused)[0]["tool_refused"]["reason"], "policy", "{}", world.story());
    world.check();
}

#[test]
fn what_is_granted_where_nothing_can_be_changed_is_asked_again_where_it_can() {
    use agon::protocol::Choice;
    for raised in [false, true] {
        let mut world = world_at(L::Plan, planning());
        world.model_says(calls(&[("run", json!({}))]));
        assert_eq!(kinds(&prepared(&mut world, 0)), ["policy_decided", "approval_requested"]);
        approve(&mut world, Choice::Session);
        recorded(&mut world);
        ran(&mut world, 0, "done");
        world.run_tools();
        if raised {
            let changed = SettingsChanged { changed: vec![Setting::Permission(L::Edits)] };
            world.give(ArenaEvent::SettingsChanged(changed));
        }
        world.model_says(calls(&[("run", json!({}))]));
        let asks =
            prepared(&mut world, 0).iter().any(|event| matches!(event, ArenaEvent::ApprovalRequested(_)));
        assert_eq!(asks, raised, "{}", world.story());
        world.check();
    }
}

#[test]
fn an_ask_rule_is_answered_by_a_grant_of_the_call_and_by_no_pattern() {
    let publish = plan(Risk::Execute, &[command("cargo publish")]);
    let asks = Rule { command: Some("cargo publish*".to_owned()), ..Rule::named("mine", Action::Ask) };
    let policy = Policy { rules: vec![asks] };
    let judged = |rule: Rule| {
        let grants = [Grant { rule, shelter: INSIDE }];
        let rights =
            Rights { policy: &policy, grants: &grants, level: L::Ask, read_only: false, shelter: INSIDE };
        judge(&rights, "bash", &publish).action
    };
    let exact = Rule::granting("granted", "bash", &publish);
    assert_eq!(judged(Rule { command: Some("cargo *".to_owned()), ..exact.clone() }), Action::Ask);
    assert_eq!(judged(exact), Action::Allow);
}

#[test]
fn a_grant_for_a_folder_does_not_follow_a_line_that_leaves_it() {
    let cd = Rule { command: Some("cd *".to_owned()), ..Rule::named("cd", Action::Allow) };
    let remove = plan(Risk::Execute, &[command("rm -rf build")]);
    let policy = Policy { rules: vec![cd] };
    let grants = [Grant { rule: Rule::granting("granted", "bash", &remove), shelter: INSIDE }];
    let rights =
        Rights { policy: &policy, grants: &grants, level: L::Ask, read_only: false, shelter: INSIDE };
    let judged = |line: &str| judge(&rights, "bash", &plan(Risk::Execute, &[command(line)])).action;
    assert_eq!(judged("rm -rf build; rm -rf build"), Action::Allow);
    for line in ["cd other && rm -rf build", "cd other; rm -rf build; cd -"] {
        assert_eq!(judged(line), Action::Ask, "{line}");
    }
    let everywhere = Rule { command: Some("rm *".to_owned()), ..Rule::named("rm", Action::Allow) };
    let policy = Policy { rules: [policy.rules.clone(), vec![everywhere]].concat() };
    let rights = Rights { policy: &policy, grants: &[], ..rights };
    let line = plan(Risk::Execute, &[command("cd other && rm -rf build")]);
    assert_eq!(judge(&rights, "bash", &line).action, Action::Allow, "a rule without a folder holds in each");
}

#[test]
fn a_rule_over_a_risk_sees_what_a_command_needs() {
    let deny = Policy { rules: vec![Rule { risk: Some(Risk::Network), ..Rule::named("no", Action::Deny) }] };
    for need in [host("a.example"), Need::Port(5432)] {
        let call = plan(Risk::Execute, &[command("x"), need]);
        assert_eq!(ruled(&deny, L::Auto, INSIDE, &call), (Action::Deny, Line::Denied));
    }
    assert_eq!(ruled(&deny, L::Auto, INSIDE, &plan(Risk::Execute, &[command("x")])).0, Action::Allow);
}

#[test]
fn the_needs_of_a_rule_for_commands_are_what_they_may_have() {
    let git = Rule {
        command: Some("git *".to_owned()),
        needs: vec!["git".to_owned()],
        ..Rule::named("git", Action::Allow)
    };
    let policy = Policy { rules: vec![git.clone()] };
    let judged = |needs: &[Need]| ruled(&policy, L::Ask, INSIDE, &plan(Risk::Execute, needs)).0;
    assert_eq!(judged(&[command("git commit -m x"), Need::Git]), Action::Allow);
    assert_eq!(judged(&[command("git log")]), Action::Allow);
    assert_eq!(judged(&[command("git fetch"), host("a.example")]), Action::Ask);
    let only = Policy { rules: vec![Rule { command: None, ..git }] };
    assert_eq!(ruled(&only, L::Ask, INSIDE, &plan(Risk::Execute, &[command("ls")])).0, Action::Ask);
}

fn needs() -> impl Strategy<Value = Need> {
    let name = || proptest::sample::select(vec!["a", "b", "src/a"]);
    prop_oneof![
        name().prop_map(|path| Need::Read(file(path))),
        name().prop_map(|path| Need::Write(file(path))),
        proptest::sample::select(vec!["ls", "ls a", "ls a; rm b", "rm b", "ls $(x)"]).prop_map(command),
        name().prop_map(host),
        proptest::sample::select(vec![80u16, 81]).prop_map(Need::Port),
        Just(Need::Git),
        Just(Need::Unconfined),
        name().prop_map(|tool| Need::Tool(tool.to_owned())),
    ]
}

fn rules() -> impl Strategy<Value = Rule> {
    let pattern = || proptest::option::of(proptest::sample::select(vec!["*", "ls *", "rm b", "a", "src/**"]));
    let words = pattern().prop_map(|word| word.map(str::to_owned));
    let needs = proptest::sample::subsequence(vec!["host:*", "port:80", "git", "unconfined", "*"], 0..3);
    let action = proptest::sample::select(vec![Action::Allow, Action::Ask, Action::Deny]);
    (words.clone(), words, needs, action, 0..3i32).prop_map(|(command, path, needs, action, priority)| {
        let needs = needs.into_iter().map(str::to_owned).collect();
        Rule { command, path, needs, priority, ..Rule::named("r", action) }
    })
}

fn plans() -> impl Strategy<Value = Plan> {
    let risk = proptest::sample::select(vec![Risk::Read, Risk::Write, Risk::Execute, Risk::Network]);
    (risk, proptest::collection::vec(needs(), 0..4)).prop_map(|(risk, needs)| plan(risk, &needs))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A role that only looks, a stricter level and a weaker sandbox each give no right that was not there before.
    #[test]
    fn no_child_has_a_right_that_its_parent_lacks(
        rules in proptest::collection::vec(rules(), 0..4), plan in plans(), level in 0..4usize, lower in 0..4usize,
        confines in any::<bool>(), holds_plans in any::<bool>(), read_only in any::<bool>(),
    ) {
        let policy = Policy { rules };
        let shelter = Shelter { confines, holds_plans };
        let parent = Rights { policy: &policy, grants: &[], level: L::ALL[level], read_only, shelter };
        let of = |rights: Rights<'_>| judge(&rights, "t", &plan).action;
        let most = of(parent);
        let less = of(Rights { read_only: true, ..parent });
        prop_assert!(less >= most, "{:?} {:?}", less, most);
        let less = of(Rights { level: L::ALL[lower.min(level)], ..parent });
        prop_assert!(less >= most, "{:?} {:?}", less, most);
        let less = of(Rights { shelter: Shelter::default(), ..parent });
        prop_assert!(less >= most, "{:?} {:?}", less, most);
        let asks = Rule::named("more", Action::Ask);
        let more = Policy { rules: policy.rules.iter().cloned().chain([asks]).collect() };
        let less = of(Rights { policy: &more, ..parent });
        prop_assert!(less >= most, "{:?} {:?}", less, most);
    }

    /// What a grant covers was shown: a call with another need that leaves the sandbox is asked again. And `--yes` is
    /// never the answer to such a need.
    #[test]
    fn no_grant_covers_a_need_that_was_not_shown_and_yes_opens_no_door(plan in plans(), more in needs()) {
        let grants = [Grant { rule: Rule::granting("granted", "t", &plan), shelter: INSIDE }];
        let rights = Rights {
            policy: &Policy::default(), grants: &grants, level: L::Ask, read_only: false, shelter: INSIDE,
        };
        prop_assert!(opens(&rights, "t", &plan).is_empty());
        let mut wider = Plan { digest: "other".to_owned(), ..plan.clone() };
        wider.needs.push(more.clone());
        let open = opens(&rights, "t", &wider);
        if more.leaves_sandbox() && !plan.needs.contains(&more) {
            prop_assert!(open.contains(&&more), "{wider:?}");
            prop_assert_ne!(judge(&rights, "t", &wider).action, Action::Allow);
        }
        let outside = Rights { shelter: Shelter { confines: true, holds_plans: false }, ..rights };
        prop_assert_eq!(judge(&outside, "t", &plan), judge(&Rights { grants: &[], ..outside }, "t", &plan));
        let without = Rights { grants: &[], ..rights };
        let left = plan.needs.iter().filter(|need| need.leaves_sandbox()).count();
        prop_assert_eq!(opens(&without, "t", &plan).len(), left);
    }
}

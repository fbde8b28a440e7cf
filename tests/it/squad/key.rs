//! What the key of the team cache depends on, field by field.

use agon::protocol::message::Structured;
use agon::protocol::spec::*;
use agon::session::policy::{Grant, Shelter};
use agon::session::squad::cache::key::{Asked, cache_key};
use serde_json::json;

use crate::support::cache::cache;
use crate::support::said;
use crate::support::squad::{blueprint, with_blueprint};
use crate::support::world::{allow_all, spec};

fn base() -> Spec {
    let mut spec = with_blueprint(spec(), blueprint(&[]));
    spec.cache = cache();
    spec.policy = allow_all();
    spec.limits.max_tokens = Some(50_000);
    spec
}

fn asked() -> Asked<'static> {
    let said = vec![said(agon::protocol::Role::User, "Mend the clock.")];
    Asked { said, fingerprint: "print", ratio: 300.into(), ..Asked::default() }
}

type Change = (&'static str, fn(&mut Spec));

/// Everything in a spec that decides a result.
const TELLS: &[Change] = &[
    ("program", |spec| spec.program = "agon 9".into()),
    ("a role's tools", |spec| roles(spec)[0].tools = Some(vec!["look".into()])),
    ("a role's order", |spec| roles(spec)[2].after.clear()),
    ("revisions", |spec| roles(spec)[2].revisions = 1),
    ("a role's steps", |spec| roles(spec)[1].max_steps = Some(3)),
    ("a role's fallbacks", |spec| roles(spec)[1].fallbacks = Some(vec!["mock/b".into()])),
    ("a role's model", |spec| roles(spec)[1].model = Some("mock/b".into())),
    ("the lead", |spec| spec.blueprint.as_mut().unwrap().lead = Some("reviewer".into())),
    ("a check", |spec| spec.blueprint.as_mut().unwrap().checks.push("make".into())),
    ("a persona's word", |spec| spec.personas[2].text.push('!')),
    ("a persona's temperature", |spec| spec.personas[2].temperature_pm = Some(1)),
    ("a persona's model", |spec| spec.personas[2].model = Some("mock/b".into())),
    ("a persona's tools", |spec| spec.personas[1].tools = Some(vec![])),
    ("the model", |spec| spec.models.swap(0, 1)),
    ("the model's window", |spec| spec.models[0].context += 1),
    ("the model's output", |spec| spec.models[0].max_output += 1),
    ("the model's temperature", |spec| spec.models[0].temperature_pm = Some(0)),
    ("the form of typed answers", |spec| spec.models[0].structured = Structured::ForcedTool),
    ("the provider's address", |spec| {
        spec.cache.as_mut().unwrap().providers.insert("mock".into(), "ff".into());
    }),
    ("a variable that commands see", |spec| {
        spec.cache.as_mut().unwrap().environment = Some("ee".into());
    }),
    ("a tool's schema", |spec| spec.tools[0].schema = json!({"type": "object", "required": ["path"]})),
    ("a tool's description", |spec| spec.tools[1].description.push('.')),
    ("a tool's risk", |spec| spec.tools[2].risk = Risk::Network),
    ("a tool's output", |spec| spec.tools[0].output_cap = 7),
    ("the policy", |spec| spec.policy.rules[0].action = Action::Ask),
    ("a rule's reason", |spec| spec.policy.rules[0].why = Some("because".into())),
    ("the limits", |spec| spec.limits.tool_timeout_ms = 1),
    ("an instruction", |spec| spec.instructions[0].text.push('!')),
    ("the sandbox", |spec| spec.workspace.sandbox.kind = "local".into()),
    ("a gap", |spec| spec.workspace.sandbox.gaps.push("the network".into())),
    ("the commit", |spec| spec.workspace.git_head = Some("abc".into())),
    ("the root, where commands may run", |spec| spec.workspace.root = "/elsewhere".into()),
];

/// Everything that does not.
const SILENT: &[Change] = &[
    ("the seed", |spec| spec.seed += 1),
    ("an instruction's path", |spec| spec.instructions[0].path.push('!')),
    ("the order of a schema's names", |spec| {
        // A map keeps the order of its names; only what they say counts.
        spec.tools[0].schema = serde_json::from_str(r#"{"type": "object"}"#).unwrap();
    }),
];

fn roles(spec: &mut Spec) -> &mut Vec<RoleSpec> {
    &mut spec.blueprint.as_mut().unwrap().roles
}

#[test]
fn each_thing_that_decides_a_result_is_in_the_key() {
    let key = cache_key(&base(), &asked());
    assert_eq!(key.len(), 64);
    for (what, change) in TELLS {
        let mut spec = base();
        change(&mut spec);
        assert_ne!(cache_key(&spec, &asked()), key, "{what} is not in the key");
    }
    for (what, change) in SILENT {
        let mut spec = base();
        change(&mut spec);
        assert_eq!(cache_key(&spec, &asked()), key, "{what} is in the key");
    }
}

#[test]
fn what_is_said_and_seen_is_in_the_key() {
    let key = cache_key(&base(), &asked());
    let schema = json!({"type": "string"});
    let grant = [Grant { rule: allow_all().rules.remove(0), shelter: Shelter::default() }];
    let seen = [("f".to_owned(), None)].into_iter().collect();
    let others = [
        Asked { fingerprint: "another", ..asked() },
        // Another branch, tag or reference: commands can see it.
        Asked { git: Some("another"), ..asked() },
        Asked { ignored: Some("another"), ..asked() },
        Asked { said: vec![said(agon::protocol::Role::User, "Mend the bell.")], ..asked() },
        Asked { said: vec![said(agon::protocol::Role::Assistant, "Mend the clock.")], ..asked() },
        Asked { schema: Some(&schema), ..asked() },
        Asked { grants: &grant, ..asked() },
        Asked { seen, ..asked() },
        Asked { spent: (1, 0), ..asked() },
        Asked { ratio: 301.into(), ..asked() },
    ];
    for other in &others {
        assert_ne!(cache_key(&base(), other), key, "{other:?}");
    }
    // Where neither tokens nor money are limited, what was spent decides nothing.
    let mut free = base();
    free.limits.max_tokens = None;
    let spent = Asked { spent: (1, 0), ..asked() };
    assert_eq!(cache_key(&free, &spent), cache_key(&free, &asked()));
}

#[test]
fn two_checkouts_share_a_run_only_where_no_command_can_tell_them_apart() {
    let place = |root: &str, tools: &[&str]| {
        let mut spec = base();
        spec.workspace.root = root.to_owned();
        roles(&mut spec)[1].tools = Some(tools.iter().map(|tool| (*tool).to_owned()).collect());
        cache_key(&spec, &asked())
    };
    assert_eq!(place("/a", &["look", "put"]), place("/b", &["look", "put"]));
    assert_ne!(place("/a", &["look", "run"]), place("/b", &["look", "run"]));
    let mut files_only = base();
    roles(&mut files_only)[1].tools = Some(vec!["look".into(), "put".into()]);
    let on = |branch: &str| cache_key(&files_only, &Asked { git: Some(branch), ..asked() });
    assert_eq!(on("main"), on("side"), "no file tool of a run that is stored sees `.git`");
}

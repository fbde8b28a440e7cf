//! Roles that work in a place of their own: what the session asks for, and what the real program keeps a role from.

use agon::protocol::effect::Effect;
use agon::protocol::spec::*;
use serde_json::Value;

use super::*;
use crate::sandbox::docker::kit::address;
use crate::support::env::Env;

fn with_reader() -> Blueprint {
    let mut plan = blueprint(&[]);
    plan.roles[2].tools = Some(vec!["look".into(), "run".into()]);
    plan.roles[2].read_only = true;
    plan
}

#[test]
fn a_read_only_role_has_commands_and_is_no_writer_and_its_calls_name_its_place() {
    let mut world = squad(with_reader());
    world.model_says(text("Turn the hand."));
    world.model_says(text("I turned the hand."));
    world.run_tools();
    world.model_says(calls(&[("run", serde_json::json!({"command": "touch x"}))]));
    let places: Vec<Option<String>> = world
        .session
        .outstanding()
        .into_iter()
        .filter_map(|order| match world.session.effect(order.call)? {
            Effect::Prepare { context: call, .. } | Effect::Tool { context: call, .. } => Some(call.place),
            _ => None,
        })
        .collect();
    assert_eq!(places, [Some("reviewer".to_owned())]);
    world.check();
    assert!(agon::arena::replay::verify(&world.log).holds(true));
}

const BLUEPRINT: &str = r#"name = "held"
[[role]]
name = "lead"
persona = "coordinator"
[[role]]
name = "coder"
persona = "coder"
tools = ["read_file", "write_file", "bash"]
after = ["lead"]
[[role]]
name = "reviewer"
persona = "reviewer"
tools = ["read_file", "bash"]
read_only = true
after = ["coder"]
revise = ["coder"]
"#;

/// The coder writes a file by a command, the reviewer tries to change it by one.
const SCRIPT: &str = r#"
[[answer]]
spark = "lead"
nth = 1
text = "Make `file`."
[[answer]]
spark = "coder"
nth = 1
calls = [{ tool = "bash", args = { command = "echo mine >file" } }]
[[answer]]
spark = "coder"
nth = 2
text = "Made."
[[answer]]
spark = "reviewer"
nth = 1
calls = [{ tool = "bash", args = { command = "cat file; echo evil >file; rm -f file; mkdir -p .git/hooks; echo own >/tmp/own && cat /tmp/own" } }]
[[answer]]
spark = "reviewer"
nth = 2
expect = ["mine", "own", "ead-only file system"]
text = "{\"verdict\": \"approve\", \"closed\": [], \"findings\": []}"
[[answer]]
spark = "lead"
nth = 2
text = "{\"answer\": \"It is there.\", \"claims\": [], \"open\": []}"
"#;

fn place(sandbox: &str) -> Env {
    let env = Env::new();
    env.config(&format!(
        "model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n{sandbox}"
    ));
    env.write("home/mock.toml", SCRIPT).write("home/held.toml", BLUEPRINT);
    env
}

fn held(env: &Env, more: &[&str]) -> crate::support::env::Ran {
    let blueprint = env.home().join("held.toml");
    let mut words =
        vec!["squad", "Make a file", "--yes", "--json", "--blueprint", blueprint.to_str().unwrap()];
    words.extend(more);
    env.run(&words)
}

fn opened(ran: &crate::support::env::Ran) -> Value {
    let entry: Value = serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
    entry["events"][0]["data"]["spec"]["workspace"].clone()
}

#[test]
fn a_reviewers_command_that_writes_fails_in_its_place_and_not_by_a_prompt() {
    let env = place("");
    let ran = held(&env, &["--sandbox", "local"]);
    if ran.stderr.contains("not to be had here") || ran.stdout.contains("landlock-only") {
        assert!(std::env::var_os("AGON_NEEDS_LOCAL").is_none(), "{ran}");
        return println!("skipped: {}", ran.stderr);
    }
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(std::fs::read_to_string(env.work().join("file")).unwrap(), "mine\n");
    assert!(!env.work().join(".git").exists());
    let workspace = opened(&ran);
    assert_eq!(workspace["places"][0]["role"], "reviewer");
    assert_eq!(workspace["places"][0]["read_only"], true);
    assert_eq!(workspace["places"][0]["sandbox"]["kind"], "local");
    assert!(workspace["places"][0]["sandbox"]["proven"].as_array().unwrap().len() > 5, "{workspace}");
    let shown = env.run(&["replay", "latest", "--full"]);
    assert!(shown.stdout.contains("reviewer works in local, which it cannot change"), "{shown}");
    let report = env.run(&["report", "latest", "--format", "md"]);
    assert!(report.stdout.contains(", sandbox local (reviewer in local, read-only)"), "{report}");
    let shown = env.run(&["verify", "latest"]);
    assert_eq!(shown.code, 0, "{shown}");
}

#[test]
fn a_session_that_nothing_confines_has_no_place_for_a_role_that_is_to_change_nothing() {
    let env = place("");
    let ran = held(&env, &["--sandbox", "none"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran}");
    assert!(ran.stderr.contains("`reviewer` is to change nothing") && ran.stderr.contains("hint: "), "{ran}");
    env.write("home/held.toml", &BLUEPRINT.replace("read_only = true", "sandbox = \"none\""));
    let ran = held(&env, &[]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("line 14: `reviewer` cannot be confined less than its session"), "{ran}");
}

#[test]
fn a_role_may_work_in_a_container_while_the_others_do_not() {
    let Some(address) = address() else { return };
    let mut env = place("[sandbox.docker]\nimage = \"agon-test\"\nmemory = \"128m\"\n");
    env.set("DOCKER_HOST", &address);
    env.write("home/held.toml", &BLUEPRINT.replace("read_only", "sandbox = \"docker\"\nread_only"));
    let ran = held(&env, &["--sandbox", "none"]);
    assert_eq!(ran.code, 0, "{ran}");
    let workspace = opened(&ran);
    assert_eq!(
        (&workspace["sandbox"]["kind"], &workspace["places"][0]["sandbox"]["kind"]),
        (&"none".into(), &"docker".into())
    );
    assert_eq!(std::fs::read_to_string(env.work().join("file")).unwrap(), "mine\n");
    let left = env.run(&["sandbox", "ps", "--json"]);
    let left: Vec<Value> = serde_json::from_str(&left.stdout).unwrap();
    assert!(left.iter().all(|row| row["owner"] == "other"), "{left:?}");
}

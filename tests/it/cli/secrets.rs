//! Tests of what holds without anybody's word: files with secrets are neither read, searched nor written, and no
//! command gets what the person's shell has open.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::run::{check, scripted};
use crate::support::env::Env;

/// Reads, searches and writes what holds a secret, and reads what only looks like it.
const CURIOUS: &str = "[[answer]]\nspark = \"solo\"\ncalls = [\
    { tool = \"read_file\", args = { path = \"app/.env.local\" } },\
    { tool = \"grep\", args = { pattern = \"hunter2\" } },\
    { tool = \"write_file\", args = { path = \"deploy.KEY\", content = \"x\" } },\
    { tool = \"read_file\", args = { path = \"environment.rs\" } }]\n\
    [[answer]]\nspark = \"solo\"\ntext = \"done\"\n";

fn curious(config: &str) -> (Env, Vec<(String, String)>) {
    let env = scripted(CURIOUS);
    let before = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.config(&format!("{before}{config}"));
    env.write("work/app/.env.local", "PASSWORD=hunter2\n");
    env.write("work/environment.rs", "// not hunter2\n");
    let ran = env.run(&["run", "--yes", "--json", "look around"]);
    assert_eq!(ran.code, 0, "{ran}");
    let ends = ran.stdout.lines().flat_map(|line| {
        let entry: Value = serde_json::from_str(line).unwrap();
        entry["events"].as_array().unwrap().clone()
    });
    let text = |event: &Value| match event["kind"].as_str().unwrap() {
        "tool_resolved" => Some(event["data"].to_string()),
        "tool_refused" => Some(event["data"].to_string()),
        _ => None,
    };
    let ends = ends.filter_map(|event| Some((event["kind"].as_str()?.to_owned(), text(&event)?))).collect();
    (env, ends)
}

#[test]
fn files_with_secrets_are_neither_read_nor_found_nor_written() {
    let (env, ends) = curious("");
    assert_eq!(ends.iter().filter(|(kind, _)| kind == "tool_refused").count(), 2, "{ends:?}");
    assert!(ends.iter().all(|(_, text)| !text.contains("PASSWORD")), "{ends:?}");
    assert!(ends.iter().any(|(_, text)| text.contains("1 files were not searched")), "{ends:?}");
    assert!(ends.iter().any(|(_, text)| text.contains("default: files that hold secrets")), "{ends:?}");
    assert!(!env.work().join("deploy.KEY").exists());
}

#[test]
fn a_person_can_switch_the_rules_off_and_a_strange_project_cannot() {
    let (env, ends) = curious("[policy]\ndefaults = false\n");
    assert!(ends.iter().all(|(kind, _)| kind == "tool_resolved"), "{ends:?}");
    assert!(ends.iter().any(|(_, text)| text.contains("PASSWORD=hunter2")), "{ends:?}");
    assert!(env.work().join("deploy.KEY").exists());

    let env = scripted("[[answer]]\nspark = \"solo\"\ntext = \"hello\"\n");
    env.project("[policy]\ndefaults = false\n");
    let ran = env.run(&["run", "greet"]);
    check(&ran, 0, "hello\n");
    assert!(ran.stderr.contains("`policy.defaults` ([WORK]/.agon/config.toml:2) is ignored"), "{ran}");
}

#[test]
fn a_file_the_shell_has_open_reaches_no_command() {
    let look = "echo began; cat <&7; ls /proc/self/fd | sort -n | tail -1";
    let script = format!(
        "[[answer]]\nspark = \"solo\"\ncalls = [{{ tool = \"bash\", args = {{ command = \"{look}\" }} }}]\n\
         [[answer]]\nspark = \"solo\"\ntext = \"done\"\n"
    );
    for kind in ["none", "auto"] {
        let env = scripted(&script);
        env.write("outside.txt", "out of reach\n");
        let plain = env.command(&["run", "look", "--yes", "--json", "--sandbox", kind]);
        let mut command = Command::new("sh");
        command.args(["-c", "exec 7<../outside.txt; exec \"$0\" \"$@\""]).arg(plain.get_program());
        command.args(plain.get_args()).current_dir(env.work()).env_clear().stdin(Stdio::null());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.output().unwrap();
        if kind == "auto" && output.status.code() == Some(2) {
            println!("skipped: nothing confines here");
            continue;
        }
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && told.contains("began"), "{told}");
        assert!(!told.contains("out of reach"), "{kind}: {told}");
    }
}

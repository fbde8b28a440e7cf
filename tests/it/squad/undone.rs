//! Work that is not there any more when the squad says it is done: undone by whomever, ignored by git or not.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::again::{AFTER, BEFORE, FILERS, play, project, squad};
use super::program::{role_of, turns};
use crate::support::env::{Env, Ran};
use crate::support::server::{Reply, Server};

/// A squad whose coder may run commands, and runs this one once it has edited its file.
fn with_command(command: &'static str, claims: fn() -> Value) -> (Env, Ran) {
    let server = Server::start(move |request: &Value, n| match (role_of(request), turns(request)) {
        ("coder", 2) => Reply::calls([("bash", json!({"command": command}))]),
        ("coordinator", 1) => {
            Reply::text(&json!({"answer": "Greeted.", "claims": claims(), "open": []}).to_string())
        }
        _ => play(request, n),
    });
    let env = project(&server);
    let with_bash = FILERS.replace("\"edit_file\"]", "\"edit_file\", \"write_file\", \"bash\"]");
    env.write("home/blueprints/filers.toml", &with_bash);
    let ran = squad(&env, &[]);
    (env, ran)
}

#[test]
fn given_a_command_of_its_own_that_undoes_all_its_work_then_the_squad_is_not_done() {
    let (env, ran) = with_command("echo hello > greeting.txt", || json!([]));
    assert_eq!(ran.code, 1, "{ran}");
    let words = "error: not done: `greeting.txt` is again as it was before";
    assert!(ran.stderr.contains(words), "{ran}");
    assert!(ran.stderr.contains("files    written and undone again: greeting.txt"), "{ran}");
    let told = "Work that was undone: `greeting.txt`.";
    assert!(ran.stdout.contains(told), "{ran}");
    let log = env.run(&["replay", "latest", "--json"]).stdout;
    assert!(log.contains("Written by `coder`, and again as it was before"), "the others are told: {log}");
    assert_eq!(env.run(&["verify", "latest", "--strict"]).code, 0);
}

#[test]
fn given_a_claim_that_lists_a_file_that_is_as_before_then_the_log_contradicts_it() {
    let changed =
        |file: &str| json!([{"kind": "changed", "text": "made", "files": [file], "evidence": ["e4"]}]);
    let claim =
        || json!([{"kind": "changed", "text": "made", "files": ["greeting.txt"], "evidence": ["e4"]}]);
    let (_, ran) = with_command("echo hello > greeting.txt; echo x > other.txt", claim);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stdout.contains("`greeting.txt` is again as it was before"), "{ran}");
    // Without a command the log knows every change.
    let server = Server::start(move |request: &Value, n| match (role_of(request), turns(request)) {
        ("coordinator", 1) => {
            Reply::text(&json!({"answer": "Both.", "claims": changed("./other.txt"), "open": []}).to_string())
        }
        _ => play(request, n),
    });
    let ran = squad(&project(&server), &[]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stdout.contains("`other.txt` was not changed"), "{ran}");
}

#[test]
fn given_a_file_for_the_time_of_the_work_that_the_squad_removes_again_then_it_is_done() {
    let claim =
        || json!([{"kind": "changed", "text": "made", "files": ["greeting.txt"], "evidence": ["e4"]}]);
    let (_, ran) = with_command("echo x > scratch; rm scratch", claim);
    assert_eq!(ran.code, 0, "{ran}");
}

#[test]
fn given_an_ignored_file_of_the_work_that_somebody_removes_after_the_checks_then_the_squad_is_not_done() {
    let place: Arc<OnceLock<PathBuf>> = Arc::default();
    let file = place.clone();
    let server = Server::start(move |request: &Value, n| {
        if (role_of(request), turns(request)) == ("coordinator", 1) {
            std::fs::write(file.get().unwrap(), BEFORE).unwrap();
        }
        play(request, n)
    });
    let env = project(&server);
    env.write("work/.gitignore", "greeting.txt\n");
    place.set(env.work().join("greeting.txt")).unwrap();
    let ran = squad(&env, &["--check", &format!("grep -q '{}' greeting.txt", AFTER.trim())]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stdout.contains("Work that was undone: `greeting.txt`."), "{ran}");
    let words = "error: not done: `greeting.txt` is again as it was before";
    assert!(ran.stderr.contains(words), "{ran}");
}

#[test]
fn given_a_claim_that_checks_pass_where_nothing_ran_then_the_run_is_not_stored() {
    let server = Server::start(|request: &Value, n| match (role_of(request), turns(request)) {
        ("coordinator", 1) => {
            let claim = json!({"kind": "checks_pass", "text": "all pass", "evidence": ["e4"]});
            Reply::text(&json!({"answer": "All pass.", "claims": [claim], "open": []}).to_string())
        }
        _ => play(request, n),
    });
    let ran = squad(&project(&server), &[]);
    assert_eq!(ran.code, 0, "{ran}");
    let words = "cache    not stored: its answer claims that checks pass, and nothing shows it";
    assert!(ran.stderr.contains(words), "{ran}");
}

#[test]
fn given_a_text_that_says_checks_pass_beside_other_claims_then_it_is_shown_and_the_run_is_not_stored() {
    let server = Server::start(|request: &Value, n| match (role_of(request), turns(request)) {
        ("coordinator", 1) => {
            let claim = json!({"kind": "changed", "text": "a file was changed", "evidence": ["e4"]});
            Reply::text(&json!({"answer": "All tests pass.", "claims": [claim], "open": []}).to_string())
        }
        _ => play(request, n),
    });
    let ran = squad(&project(&server), &[]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("\"All tests pass.\": no command or check passed after"), "{ran}");
    assert!(ran.stderr.contains("cache    not stored: its answer says \"All tests pass.\""), "{ran}");
}

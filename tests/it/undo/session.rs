//! What an undo does to a session: its words, its log, turns that were cut off, sessions that are open.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{more, runs, scripted, task, undo};
use crate::run::served;
use crate::support::env::Env;
use crate::support::server::{Reply, Server};

fn said(request: &Value) -> Vec<String> {
    let messages =
        request["messages"].as_array().unwrap().iter().filter(|message| message["role"] != "system");
    messages.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_conversation_goes_back_to_before_the_prompt_and_forward_again() {
    let server = Server::start(|request, _| Reply::text(&format!("answer {}", said(request).len())));
    let env = served(&server);
    assert_eq!(env.run(&["run", "one"]).code, 0);
    let next = |words: &str| assert_eq!(env.run(&["run", words, "--resume", "latest"]).code, 0);
    next("two");
    undo(&env, &[], 0);
    next("three");
    let last = |server: &Server| said(server.bodies().last().unwrap());
    assert_eq!(last(&server), ["one", "answer 1", "three"]);
    assert!(undo(&env, &["--redo"], 2).stderr.contains("nothing to redo"), "a task was given since");
    undo(&env, &[], 0);
    undo(&env, &[], 0);
    undo(&env, &["--redo"], 0);
    next("four");
    assert_eq!(last(&server), ["one", "answer 1", "four"]);
    undo(&env, &["--turn", "1"], 0);
    next("five");
    assert_eq!(last(&server), ["five"]);
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
    let listed = undo(&env, &["--list"], 0).stdout;
    assert!(listed.contains("turn 2: two · undone") && listed.ends_with("turn 5: five\n"), "{listed}");
    for (format, struck) in [("md", "# ~~two~~"), ("html", "<del>two</del>"), ("json", "\"is_struck\": true")]
    {
        let ran = env.run(&["report", "latest", "--format", format]);
        assert!(ran.code == 0 && ran.stdout.contains(struck), "{ran}");
    }
}

#[test]
fn files_alone_go_back_and_the_model_learns_of_it() {
    let server = Server::start(|request, _| {
        match request["messages"].as_array().unwrap().last().unwrap()["role"].as_str() {
            Some("user") if said(request).len() == 1 => {
                Reply::calls([("write_file", json!({"path": "b.txt", "content": "new\n"}))])
            }
            _ => Reply::text("done"),
        }
    });
    let env = served(&server);
    env.write("work/a.txt", "old\n");
    assert_eq!(env.run(&["run", "write", "--yes"]).code, 0);
    undo(&env, &["--only", "files"], 0);
    assert!(!env.work().join("b.txt").exists());
    assert_eq!(env.run(&["run", "again", "--resume", "latest", "--yes"]).code, 0);
    let words = said(server.bodies().last().unwrap());
    assert!(words.iter().any(|text| text.contains("took back changes to files: b.txt")), "{words:?}");
    assert_eq!(words[0], "write");
}

fn wait(what: impl Fn() -> bool) {
    let since = Instant::now();
    while !what() {
        assert!(since.elapsed() < Duration::from_secs(30), "it never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a task that runs a command which does not end by itself.
fn started(env: &Env) -> std::process::Child {
    let mut command = env.command(&["run", "wait", "--sandbox", "none", "--yes"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait(|| env.work().join("begun").exists());
    child
}

#[test]
fn while_a_command_runs_it_is_refused_and_after_a_kill_what_was_recorded_is_taken_back() {
    let script = "[[answer]]\nspark = \"solo\"\ncalls = [{ tool = \"write_file\", args = { path = \"b.txt\", content = \"2\\n\" } }]\n"
        .to_owned()
        + &runs("echo half > half.txt; touch begun; sleep 60");
    let env = scripted(&script);
    let mut child = started(&env);
    let ran = undo(&env, &[], 2);
    assert!(ran.stderr.contains("open for writing") || ran.stderr.contains("is at work"), "{ran}");
    assert_eq!(std::fs::read_to_string(env.work().join("b.txt")).unwrap(), "2\n");
    child.kill().unwrap();
    child.wait().unwrap();
    let ran = undo(&env, &[], 0);
    assert!(ran.stdout.contains("undone: turn 1 (wait)"), "{ran}");
    assert!(!env.work().join("b.txt").exists());
    assert_eq!(
        std::fs::read_to_string(env.work().join("half.txt")).unwrap(),
        "half\n",
        "of this nothing is recorded"
    );
    let verified = env.run(&["verify", "latest"]);
    assert_eq!(verified.code, 0, "{verified}");
    env.write("home/mock.toml", &"[[answer]]\nspark = \"solo\"\ntext = \"hello\"\n".repeat(3));
    let ran = env.run(&["run", "hello", "--resume", "latest", "--sandbox", "none"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "hello\n"), "{ran}");
}

#[test]
fn an_interrupted_turn_is_taken_back_with_what_its_command_had_done() {
    let env = scripted(&runs("echo half > half.txt; touch begun; sleep 60"));
    let mut child = started(&env);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(),
        rustix::process::Signal::INT,
    )
    .unwrap();
    child.wait().unwrap();
    let ran = undo(&env, &[], 0);
    assert!(ran.stdout.contains("removed   half.txt"), "{ran}");
    assert!(!env.work().join("half.txt").exists() && !env.work().join("begun").exists());
}

#[test]
fn while_another_session_is_open_in_the_workspace_it_is_refused_with_its_name() {
    let env = scripted(&(runs("echo 2 > a.txt") + &runs("touch begun; sleep 60")));
    env.write("work/a.txt", "1\n");
    task(&env);
    let first = env.run(&["sessions", "list", "--json"]).stdout;
    let first: Value = serde_json::from_str(&first).unwrap();
    let id = first[0]["id"].as_str().unwrap();
    env.write("home/mock.toml", &runs("touch begun; sleep 60"));
    let mut child = started(&env);
    let ran = undo(&env, &[id], 2);
    assert!(ran.stderr.contains("is running in `"), "{ran}");
    assert_eq!(std::fs::read_to_string(env.work().join("a.txt")).unwrap(), "2\n");
    child.kill().unwrap();
    child.wait().unwrap();
    undo(&env, &[id], 0);
    assert_eq!(std::fs::read_to_string(env.work().join("a.txt")).unwrap(), "1\n");
}

#[test]
fn a_fork_and_a_resume_take_their_turns_back_in_their_own_folders() {
    let env = scripted(&(runs("echo 2 > a.txt") + &runs("echo 3 > a.txt")));
    env.write("work/a.txt", "1\n");
    task(&env);
    more(&env);
    let made = env.run(&["fork", "latest", "--no-run"]);
    assert_eq!(made.code, 0, "{made}");
    let fork = made.stdout.trim().to_owned();
    undo(&env, &[&fork], 0);
    let text = |folder: std::path::PathBuf| std::fs::read_to_string(folder.join("a.txt")).unwrap();
    assert_eq!(text(env.home().join("forks").join(&fork)), "2\n");
    assert_eq!(text(env.work()), "3\n");
}

//! Interrupts of the real binary: Ctrl-C once ends a run orderly, twice at once.

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::kit::*;
use crate::support::env::Env;
use crate::support::server::{Reply, Server};

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

fn waits_for(what: impl Fn() -> bool) {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !what() {
        assert!(std::time::Instant::now() < patience, "it never came");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// A run whose command has begun and waits.
fn waiting(command: &'static str) -> (Server, Env, Child) {
    let server = Server::start(move |request, _| match results(request).len() {
        0 => call("x1", "bash", json!({"command": command})),
        _ => Reply::text(&format!("going on after: {}", results(request).join(" "))),
    });
    let env = served(&server);
    let child = env.command(&["run", "wait", "--yes"]).spawn().unwrap();
    let begun = env.work().join("begun");
    waits_for(|| begun.exists());
    (server, env, child)
}

#[test]
fn the_first_ctrl_c_ends_orderly_and_the_session_goes_on_later() {
    let (_server, env, child) = waiting("touch begun; sleep 600");
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let log = entries(&env);
    assert_eq!(all(&log, "tool_resolved")[0].1["body"]["status"], "cancelled");
    assert_eq!(all(&log, "session_sealed")[0].1["cause"], "interrupted");
    nothing_lost(&env);
    let ran = env.run(&["run", "go on", "--resume", "latest"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.starts_with("going on after: [e"), "{ran}");
}

/// The log without its last entry, as a kill between the answer and the seal leaves it.
#[test]
fn a_session_killed_between_its_answer_and_its_seal_is_sealed_by_a_resume() {
    let server = Server::start(|_, _| Reply::text("the answer"));
    let env = served(&server);
    assert_eq!(env.run(&["run", "ask"]).code, 0);
    let whole = std::fs::read(log_file(&env)).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
    std::fs::write(log_file(&env), &whole[..=last]).unwrap();
    let ran = env.run(&["resume", "latest"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "the answer\n"), "{ran}");
    assert_eq!(server.requests().len(), 1, "nobody is asked again");
    nothing_lost(&env);

    let sealed = std::fs::read(log_file(&env)).unwrap();
    let ran = env.run(&["resume", "latest"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran}");
    assert!(ran.stderr.contains("no open turn") && ran.stderr.contains("hint: give it a new task"), "{ran}");
    assert_eq!(std::fs::read(log_file(&env)).unwrap(), sealed, "a sealed log stays sealed");
}

#[test]
fn the_second_ctrl_c_is_a_hard_stop_and_the_session_can_be_resumed() {
    // The command does not listen to anything but a kill, and a server that is silent keeps the first waiting.
    let server = Server::start(|_, n| match n {
        1 => call("x1", "bash", json!({"command": "touch begun; sleep 600 & wait"})),
        _ => Reply::text("resumed"),
    });
    let env = served(&server);
    let child = env.command(&["run", "wait", "--yes"]).spawn().unwrap();
    let begun = env.work().join("begun");
    waits_for(|| begun.exists());
    interrupt(&child);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
    let arguments: &[&str] = match all(&entries(&env), "session_sealed").is_empty() {
        true => &["resume", "latest", "--yes"],
        // The two signals can arrive as one: the orderly end was quicker.
        false => &["run", "go on", "--resume", "latest"],
    };
    let ran = env.run(arguments);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "resumed\n"), "{ran}");
}

#[test]
fn what_a_model_had_said_when_it_was_cut_off_is_kept() {
    let whole = Reply::text("alpha beta gamma delta, and so on to the end");
    let cut = whole.offset_after("any", "gamma");
    let server =
        Server::start(move |_, _| Reply::text("alpha beta gamma delta, and so on to the end").cut_after(cut));
    let env = served(&server);
    let ran = env.run(&["run", "ask"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran}");
    let failed = &all(&entries(&env), "model_failed")[0].1["body"];
    let said = failed["said"].as_str().unwrap();
    assert!(said.starts_with("alpha beta") && !said.contains("to the end"), "{failed}");
    let told = env.run(&["replay", "latest"]).stdout;
    assert!(told.contains(&format!("cut off   {}", said.trim_end())), "{told}");
    nothing_lost(&env);
}

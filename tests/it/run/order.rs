//! The order of system calls of the real program: what orders an effect is synced before the effect begins.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::json;

use super::kit::*;
use crate::support::env::Env;
use crate::support::server::{Reply, Server};

/// One thing the trace shows, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// These kinds of events were written to the log.
    Wrote(Vec<String>),
    /// The log was synced.
    Synced,
    /// A connection to the model's port was begun.
    Connected,
    /// A shell was started with this command line.
    Ran(String),
    /// A file of the workspace was put in place.
    Renamed(String),
}

/// Reads a trace of `strace -f`: calls that were interrupted by another thread count when they return, and what
/// they wrote or started when they began.
fn steps(trace: &str, port: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut begun: BTreeMap<String, String> = BTreeMap::new();
    for line in trace.lines() {
        let Some((pid, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let (call, is_begin, is_end) = match call.strip_prefix("<... ") {
            Some(rest) => (format!("{}{rest}", begun.remove(pid).unwrap_or_default()), false, true),
            None if call.ends_with("<unfinished ...>") => {
                begun.insert(pid.to_owned(), call.trim_end_matches("<unfinished ...>").to_owned());
                (call.to_owned(), true, false)
            }
            None => (call.to_owned(), true, true),
        };
        if is_end && call.starts_with("pwrite64(") && call.contains("\\\"seq\\\":") {
            let kinds = call.split("\\\"kind\\\":\\\"").skip(1);
            let kinds = kinds.map(|rest| rest.split('\\').next().unwrap_or_default().to_owned());
            steps.push(Step::Wrote(kinds.collect()));
        }
        if is_end && call.starts_with("fdatasync(") && call.ends_with("= 0") {
            steps.push(Step::Synced);
        }
        if is_begin && call.starts_with("connect(") && call.contains(&format!("htons({port})")) {
            steps.push(Step::Connected);
        }
        if is_begin && call.starts_with("execve(") && call.contains("order-mark") {
            steps.push(Step::Ran(call.clone()));
        }
        if is_begin && call.starts_with("rename") && call.contains("order.txt") {
            steps.push(Step::Renamed(call));
        }
    }
    steps
}

/// True when, before place `at`, the log holds a synced event of this kind; `nth` counts from 1.
fn is_synced(steps: &[Step], at: usize, kind: &str, nth: usize) -> bool {
    let mut seen = 0;
    let wrote = steps.iter().position(|step| match step {
        Step::Wrote(kinds) => {
            seen += kinds.iter().filter(|written| *written == kind).count();
            seen >= nth
        }
        _ => false,
    });
    let Some(wrote) = wrote else { return false };
    let synced = steps.iter().skip(wrote).position(|step| *step == Step::Synced);
    synced.is_some_and(|after| wrote + after < at)
}

fn traced(env: &Env, trace: &std::path::Path) -> std::process::Output {
    let plain = env.command(&["run", "do it", "--yes"]);
    let mut command = Command::new("strace");
    command
        .args(["-f", "-s", "1000000", "-e", "trace=pwrite64,fdatasync,connect,execve,/rename", "-o"])
        .arg(trace);
    command.arg(plain.get_program()).args(plain.get_args()).current_dir(env.work()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(std::process::Stdio::null()).output().unwrap()
}

#[test]
fn the_kernel_sees_each_order_synced_before_its_effect_begins() {
    let probe = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        println!("skipped: strace is not installed or may not trace here");
        return;
    }
    // Each answer closes its connection, so that every model call has a connect of its own.
    let server = Server::start(|request, _| {
        let reply = match results(request).len() {
            0 => call("x1", "bash", json!({"command": "true order-mark"})),
            1 => call("x2", "write_file", json!({"path": "order.txt", "content": "x"})),
            _ => Reply::text("done"),
        };
        reply.header("connection", "close")
    });
    let env = served(&server);
    let text = config(&server.url());
    let text = text.replace("[models.\"mock/any\"]\n", "[models.\"mock/any\"]\ncontext = 128000\n");
    env.config(&text.replace("idle_timeout_ms = 400", "idle_timeout_ms = 20000"));
    let trace = env.home().join("trace");
    let output = traced(&env, &trace);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let host = server.host();
    let steps = steps(&std::fs::read_to_string(&trace).unwrap(), host.rsplit(':').next().unwrap());
    let places = |which: fn(&Step) -> bool| -> Vec<usize> {
        steps.iter().enumerate().filter(|(_, step)| which(step)).map(|(at, _)| at).collect()
    };
    let connects = places(|step| *step == Step::Connected);
    assert!(!connects.is_empty(), "the model was asked: {steps:?}");
    for (n, at) in connects.iter().enumerate() {
        assert!(is_synced(&steps, *at, "model_called", n + 1), "connect {} at {at}: {steps:#?}", n + 1);
    }
    let runs = places(|step| matches!(step, Step::Ran(_)));
    assert!(!runs.is_empty(), "{steps:?}");
    // The first of them, when the shell is looked for along the path.
    assert!(is_synced(&steps, runs[0], "tool_invoked", 1), "{steps:#?}");
    let writes = places(|step| matches!(step, Step::Renamed(_)));
    assert_eq!(writes.len(), 1, "{steps:?}");
    assert!(is_synced(&steps, writes[0], "tool_invoked", 2), "{steps:#?}");
}

#[test]
fn an_effect_before_its_sync_would_be_seen() {
    let write =
        r#"7 pwrite64(9, "{\"v\":2,\"seq\":1,\"events\":[{\"kind\":\"model_called\"}]}\n", 50, 0) = 50"#;
    let connect = "8 connect(12, {sa_family=AF_INET, sin_port=htons(4711)}, 16) = 0";
    let trace = |lines: &[&str]| steps(&lines.join("\n"), "4711");
    let good = trace(&[write, "7 fdatasync(9) = 0", connect]);
    assert!(is_synced(&good, 2, "model_called", 1));
    let early = trace(&[write, connect, "7 fdatasync(9) = 0"]);
    assert!(!is_synced(&early, 1, "model_called", 1));
    let overlapping =
        trace(&[write, "7 fdatasync(9 <unfinished ...>", connect, "7 <... fdatasync resumed>) = 0"]);
    assert!(!is_synced(&overlapping, 1, "model_called", 1), "{overlapping:?}");
    let failed = trace(&[write, "7 fdatasync(9) = -1 EIO", connect]);
    assert!(!is_synced(&failed, 1, "model_called", 1));
}

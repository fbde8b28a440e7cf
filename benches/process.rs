//! Whole processes, as a person waits for them: start-up, one turn and tool steps, each beside its limit.
#![expect(clippy::unwrap_used, reason = "a bench that cannot set itself up has nothing to measure")]
#![allow(clippy::panic, reason = "the server is the tests' own")]
#![allow(dead_code, reason = "the tests' server has more to offer than a bench needs")]

#[path = "../tests/it/support"]
mod support {
    pub mod server;
}

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use divan::Bencher;
use divan::counter::ItemsCount;
use serde_json::json;
use support::server::{Reply, Server};
use tempfile::TempDir;

fn main() {
    divan::main();
}

const STEPS: usize = 20;

fn silent(command: &mut Command) {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "{status}");
}

/// The limit of start-up: the smallest process there is.
#[divan::bench]
fn start_true() {
    silent(&mut Command::new("true"));
}

#[divan::bench]
fn start_agon_version() {
    silent(Command::new(env!("CARGO_BIN_EXE_agon")).arg("--version"));
}

/// A home that knows the server, a workspace, and the server itself.
fn place(server: Server) -> (TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("work")).unwrap();
    let config = format!("[providers.mock]\nkind = \"openai\"\nbase_url = \"{}\"\n", server.url());
    fs::write(folder.path().join("config.toml"), config).unwrap();
    (folder, server)
}

fn run(home: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agon"));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("AGON_HOME", home);
    command.args(["run", "go", "-m", "mock/any", "--yes", "--workspace"]).arg(home.join("work"));
    silent(&mut command);
}

/// One turn: process, session, one request over a socket, the answer, everything durable.
#[divan::bench(sample_count = 30)]
fn one_turn(bencher: Bencher) {
    let (home, _server) = place(Server::start(|_, _| Reply::text("done")));
    bencher.bench_local(|| run(home.path()));
}

/// A turn of twenty `sh -c 'echo N'` steps; the difference to `one_turn` by twenty is one step.
#[divan::bench(sample_count = 20)]
fn one_turn_of_20_tool_steps(bencher: Bencher) {
    let (home, _server) = place(Server::start(|request, _| {
        let said = request["messages"].as_array().map(Vec::len).unwrap_or_default();
        let step = said / 2;
        match step <= STEPS {
            true => Reply::calls([("bash", json!({"command": format!("echo {step}")}))]),
            false => Reply::text("done"),
        }
    }));
    bencher.counter(ItemsCount::new(STEPS)).bench_local(|| run(home.path()));
}

/// The limit of a tool step: the same commands, spawned one after the other.
#[divan::bench(sample_count = 20)]
fn bare_20_commands(bencher: Bencher) {
    bencher.counter(ItemsCount::new(STEPS)).bench_local(|| {
        for step in 0..STEPS {
            silent(Command::new("sh").args(["-c", &format!("echo {step}")]));
        }
    });
}

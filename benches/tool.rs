//! One tool step, `sh -c 'echo hi'`, through the vault and through the sandbox, beside a bare spawn.
#![expect(clippy::unwrap_used, reason = "a bench that cannot set itself up has nothing to measure")]

use std::process::{Command, Stdio};

use agon::ports::{Exec, Live, Opens, RunContext, Sandbox};
use agon::protocol::effect::ToolCall;
use agon::protocol::event::{PrepareResult, ToolUse};
use agon::protocol::spec::DeniedPath;
use agon::protocol::{EventRef, Lane, SparkId};
use agon::sandbox::{LocalOptions, LocalSandbox, Unconfined};
use agon::toolvault::{Plans, ToolVault};
use divan::Bencher;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

fn main() {
    divan::main();
}

struct Silent;

impl Live for Silent {
    fn push(&self, _: Lane, _: &str) {}
}

fn place() -> (TempDir, Unconfined, Runtime) {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Unconfined::open(folder.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    (folder, sandbox, runtime)
}

fn echo() -> Exec {
    Exec {
        command: "echo hi".to_owned(),
        cwd: String::new(),
        timeout_ms: 60_000,
        capture_cap: 64 * 1024,
        opens: Opens::default(),
        background: false,
    }
}

/// The limit: what the system takes for the same work.
#[divan::bench]
fn bare_spawn() -> Vec<u8> {
    let mut command = Command::new("sh");
    command.args(["-c", "echo hi"]).stdin(Stdio::null()).env_clear().env("PATH", "/usr/bin:/bin");
    command.output().unwrap().stdout
}

#[divan::bench]
fn sandbox_exec(bencher: Bencher<'_, '_>) {
    let (_folder, sandbox, runtime) = place();
    let never = CancellationToken::new();
    bencher.bench_local(|| runtime.block_on(sandbox.exec(echo(), &Silent, &never)).unwrap());
}

/// The same in namespaces of its own, with everything that `local` takes away, and so many secrets covered.
#[divan::bench(args = [0, 400, 4000])]
fn local_exec(bencher: Bencher<'_, '_>, secrets: usize) {
    let folder = tempfile::tempdir().unwrap();
    for i in 0..secrets {
        std::fs::write(folder.path().join(format!("{i}.key")), "").unwrap();
    }
    let options = LocalOptions {
        program: env!("CARGO_BIN_EXE_agon").into(),
        secrets: vec![DeniedPath::of("*.key")],
        ..LocalOptions::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let sandbox = LocalSandbox::open(folder.path(), options).unwrap();
    runtime.block_on(sandbox.start()).unwrap();
    let never = CancellationToken::new();
    bencher.bench_local(|| runtime.block_on(sandbox.exec(echo(), &Silent, &never)).unwrap());
}

/// Prepared and run, as the executor does.
#[divan::bench]
fn vault_step(bencher: Bencher<'_, '_>) {
    let (_folder, sandbox, runtime) = place();
    let (vault, never) = (ToolVault::builtin().unwrap(), CancellationToken::new());
    let plans = Plans::default();
    let call = ToolCall {
        tool_use: ToolUse { answer: EventRef::fact(2), part: 0 },
        spark: SparkId(1),
        tool: "bash".to_owned(),
        args: serde_json::json!({"command": "echo hi"}),
        bases: Vec::new(),
        place: None,
        denied: Vec::new(),
        hosts: Vec::new(),
        timeout_ms: 60_000,
        output_cap: 64 * 1024,
    };
    bencher.bench_local(|| {
        runtime.block_on(async {
            let PrepareResult::Ready(plan) = vault.prepare(&call, &sandbox, &plans).await.result else {
                return None;
            };
            let at =
                RunContext { sandbox: &sandbox, hosts: &[], live: &Silent, cancel: &never, background: &() };
            Some(vault.run(&call, &plan.digest, &plans, at).await)
        })
    });
}

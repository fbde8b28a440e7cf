//! Runs a blueprint's checks in whatever sandbox there is; knows no kind of sandbox.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::ports::{Checks, Exec, ExecEnd, Live, Opens, Sandbox};
use crate::protocol::event::CheckRan;

/// Bytes kept of each stream of a check; both together stay within 64 KiB.
const CHECK_CAPTURE: usize = 32 * 1024 - 256;

/// Checks that are run where the tools are.
pub struct SandboxChecks(Arc<dyn Sandbox>);

impl SandboxChecks {
    /// Checks in this sandbox.
    pub fn new(sandbox: Arc<dyn Sandbox>) -> Self {
        SandboxChecks(sandbox)
    }
}

#[async_trait]
impl Checks for SandboxChecks {
    async fn run(
        &self,
        command: &str,
        timeout_ms: u64,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> CheckRan {
        let exec = Exec {
            command: command.to_owned(),
            cwd: String::new(),
            timeout_ms,
            capture_cap: CHECK_CAPTURE,
            opens: Opens::default(),
            background: false,
        };
        match self.0.exec(exec, live, cancel).await {
            Ok(end) => check_of(command, timeout_ms, end),
            Err(error) => {
                CheckRan { command: command.to_owned(), exit: None, output: error, ms: 0, notes: Vec::new() }
            }
        }
    }
}

/// What agon says of it, standard output, then standard error, then a word on an end that was not the command's own.
fn check_of(command: &str, timeout_ms: u64, end: ExecEnd) -> CheckRan {
    let mut output = end.said() + &end.stdout;
    let mut add = |text: &str| {
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        output.push_str(text);
    };
    if !end.stderr.is_empty() {
        add(&end.stderr);
    }
    match (end.timed_out, end.cancelled, end.signal) {
        (true, ..) => add(&format!("[ended after {timeout_ms} ms: its time ran out]")),
        (_, true, _) => add("[cancelled]"),
        (_, _, Some(signal)) => add(&format!("[ended by signal {signal}]")),
        _ => {}
    }
    // A check that was stopped has no verdict, whatever code it left with.
    let exit = if end.timed_out || end.cancelled { None } else { end.exit };
    CheckRan { command: command.to_owned(), exit, output, ms: end.ms, notes: end.notes }
}

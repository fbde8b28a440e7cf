//! Commands in the background: `bash` starts one, the tool `bash_output` says what it printed since.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use schemars::JsonSchema;
use serde::Deserialize;

use super::bash::took;
use super::tool::{arguments, spec};
use crate::ports::{Exec, Glance, Preparation, RunContext, Sandbox, Tool, ToolEnd};
use crate::protocol::effect::ToolCall;
use crate::protocol::event::{ToolStatus, ToolUse};
use crate::protocol::spec::{Family, Risk, ToolSpec};

/// Milliseconds between looks for a port that a command which was just started listens on.
const LOOKS_MS: [u64; 6] = [200, 300, 500, 1_000, 1_500, 1_500];
/// How long a server may take to say what it does, once it listens.
const SAYS_MS: u64 = 250;
/// Milliseconds that `bash_output` waits, and at most.
const WAITS_MS: u64 = 10_000;
const MOST_WAITS_MS: u64 = 60_000;

/// Starts a command that keeps running and waits until it listens, has ended, or has had some seconds.
pub async fn start(at: RunContext<'_>, tool_use: ToolUse, exec: Exec) -> ToolEnd {
    let (opens, command) = (exec.opens.clone(), exec.command.clone());
    let before = at.sandbox.listening(&opens).await;
    let number = match at.background.start(tool_use, exec, before.clone()).await {
        Ok(number) => number,
        Err(why) => return ToolEnd::failed(why),
    };
    for ms in LOOKS_MS {
        let ends = tokio::time::timeout(Duration::from_millis(ms), at.background.news(number, true));
        tokio::select! {
            ended = ends => if ended.is_ok() { break },
            () = at.cancel.cancelled() => {
                at.background.look(number);
                let words = "cancelled while it was started in the background".to_owned();
                return ToolEnd { status: ToolStatus::Cancelled, ..ToolEnd::failed(words) };
            }
        }
        if at.sandbox.listening(&opens).await.difference(&before).next().is_some() {
            let _ =
                tokio::time::timeout(Duration::from_millis(SAYS_MS), at.background.news(number, true)).await;
            break;
        }
    }
    let Some(glance) = at.background.look(number) else { return ToolEnd::failed(gone(at, number)) };
    let ports = ports(at, &glance).await;
    let end = shown(number, &glance, &ports);
    match &glance.ended {
        Some((_, Some(0))) => ToolEnd {
            content: format!(
                "{}[whatever a command leaves running ends with it: start a server without `&`]\n",
                end.content
            ),
            ..end
        },
        Some(_) => end,
        None => {
            let listens = listens(&ports);
            let notes = vec![format!("{number} runs in the background{listens}: {command}")];
            let words =
                "[`bash_output` reads what it prints, `bash_stop` ends it; it ends with the session]\n";
            ToolEnd { content: end.content + words, notes, ..end }
        }
    }
}

/// Reads what such a command printed.
pub struct BashOutput;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The number that `bash` gave.
    id: u64,
    /// Milliseconds to wait for new output or its end; default 10000, at most 60000, 0 looks at once.
    wait_ms: Option<u64>,
}

#[async_trait]
impl Tool for BashOutput {
    fn spec(&self) -> ToolSpec {
        let made = spec::<Arguments>(
            "bash_output",
            "Says how a command in the background is doing, on which ports it listens, and what it printed since you \
             looked last. Waits until there is something new.",
            Risk::Read,
        );
        ToolSpec { family: Some(Family::Run), ..made }
    }

    async fn prepare(&self, call: &ToolCall, _: &dyn Sandbox) -> Result<Preparation, String> {
        let Arguments { id, wait_ms } = arguments(&call.args)?;
        let wait = Duration::from_millis(wait_ms.unwrap_or(WAITS_MS).min(MOST_WAITS_MS));
        Ok(Preparation::new(format!("read the output of {id}"), Risk::Read, move |at| {
            async move {
                tokio::select! {
                    () = at.background.news(id, false) => {}
                    () = tokio::time::sleep(wait) => {}
                    () = at.cancel.cancelled() => {}
                }
                match at.background.look(id) {
                    Some(glance) => {
                        let end = shown(id, &glance, &ports(at, &glance).await);
                        // That a command failed is no failure of reading it.
                        ToolEnd::ok(end.content)
                    }
                    None => ToolEnd::failed(gone(at, id)),
                }
            }
            .boxed()
        }))
    }
}

/// The ports it listens on, as far as is known.
async fn ports(at: RunContext<'_>, glance: &Glance) -> BTreeSet<u16> {
    match glance.ended {
        Some(_) => BTreeSet::new(),
        None => &at.sandbox.listening(&glance.opens).await - &glance.before,
    }
}

fn shown(number: u64, glance: &Glance, ports: &BTreeSet<u16>) -> ToolEnd {
    let how = match &glance.ended {
        Some((how, _)) => format!("ended: {how}, {}", took(glance.ms)),
        None => format!("running in the background, {}{}", took(glance.ms), listens(ports)),
    };
    let mut content = format!("command {number}: {how}\n");
    if glance.left_out > 0 {
        let _ = writeln!(content, "[{} bytes before this were left out]", glance.left_out);
    }
    match glance.output.trim_end_matches('\n') {
        "" => content.push_str("(no new output)\n"),
        text => content.extend([text, "\n"]),
    }
    let exit = glance.ended.as_ref().and_then(|(_, exit)| *exit);
    let is_well = glance.ended.is_none() || exit == Some(0);
    let status = if is_well { ToolStatus::Ok } else { ToolStatus::Failed };
    ToolEnd { status, exit, ..ToolEnd::ok(content) }
}

fn listens(ports: &BTreeSet<u16>) -> String {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    match ports.as_slice() {
        [] => String::new(),
        [only] => format!(", listening on port {only}"),
        many => format!(", listening on ports {}", many.join(", ")),
    }
}

fn gone(at: RunContext<'_>, number: u64) -> String {
    let running: Vec<String> = at
        .background
        .running()
        .into_iter()
        .map(|(number, command)| format!("{number} (`{command}`)"))
        .collect();
    let running = if running.is_empty() { "nothing".to_owned() } else { running.join(", ") };
    format!("no command runs in the background as {number}; running: {running}")
}

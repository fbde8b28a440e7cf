//! The tool `bash`: runs one command line and says how it ended.

use async_trait::async_trait;
use futures_util::FutureExt;
use schemars::JsonSchema;
use serde::Deserialize;

use super::background;
use super::git_line::{self, GitLine};
use super::seen::may_replace;
use super::tool::{arguments, blocking, spec};
use super::write_file::words;
use crate::ports::{Exec, ExecEnd, Files, Opens, Preparation, Sandbox, Tool, ToolEnd};
use crate::protocol::effect::ToolCall;
use crate::protocol::event::{PathBase, ToolStatus};
use crate::protocol::need::Need;
use crate::protocol::spec::{Risk, ToolSpec};
use crate::protocol::text::name_shown;
use crate::session::policy;

/// Bytes kept of each stream; what goes beyond the call's output cap is kept beside the log.
const CAPTURE: usize = 1024 * 1024;

/// What a person is shown of a command that keeps running.
const STAYS: &str =
    "\nin the background: until the session ends, and the session's other commands reach its ports";

/// Runs a command.
pub struct Bash;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Command line, run by `sh -c`.
    command: String,
    /// Milliseconds it may take; default is the session's limit. Ask for more for a slow build or test: ten minutes at
    /// most, unless the user set another limit.
    #[schemars(range(min = 1))]
    timeout_ms: Option<u64>,
    /// Keep it running and answer at once: for servers and watchers. No time limit applies.
    background: Option<bool>,
    /// Directory to run in, relative to the workspace; default is its root.
    cwd: Option<String>,
    /// What the sandbox opens for this command alone, if it is allowed: `git` (change the repository), `host:NAME`,
    /// `port:N` of this machine, `unconfined` (run outside the sandbox).
    #[schemars(length(max = 16))]
    needs: Option<Vec<String>>,
    /// Why the command has these needs, in one sentence; expected with `needs`.
    why: Option<String>,
}

impl Arguments {
    fn keeps_running(&self) -> bool {
        self.background == Some(true)
    }

    /// Why it cannot keep running, if it cannot.
    fn cannot_keep_running(&self, needs: &[Need], sandbox: &dyn Sandbox) -> Option<String> {
        let kind = sandbox.spec().kind;
        match self.keeps_running() {
            true if needs.contains(&Need::Git) => {
                Some("a command in the background cannot be given the repository (`git`)".to_owned())
            }
            true if !sandbox.keeps_background() && !needs.contains(&Need::Unconfined) => {
                Some(format!("the sandbox `{kind}` keeps no command running in the background"))
            }
            _ => None,
        }
    }

    /// The needs that are asked for, each once, and those that agon sees in the line itself.
    fn needs(&self, sandbox: &dyn Sandbox) -> Result<Vec<Need>, String> {
        let mut needs = Vec::new();
        for name in self.needs.iter().flatten() {
            let need = Need::asked(name).ok_or_else(|| {
                let name = name_shown(name);
                format!("unknown need `{name}`; expected `git`, `unconfined`, `host:NAME` or `port:N`")
            })?;
            if !needs.contains(&need) {
                needs.push(need);
            }
        }
        if !needs.is_empty() && self.why.as_ref().is_none_or(|why| why.trim().is_empty()) {
            return Err("`needs` expects `why`: one sentence for the person who is asked".to_owned());
        }
        if let Some(why) = sandbox.cannot_open(&needs) {
            return Err(why);
        }
        if needs.contains(&Need::Unconfined) || !sandbox.keeps_git() {
            return Ok(needs);
        }
        if self.keeps_running() {
            return Ok(needs);
        }
        match git_line::read(&self.command) {
            GitLine::Refused(command, why) => {
                let command = name_shown(&command);
                return Err(format!("`{command}` {why}, which no call may do: ask the user to run it"));
            }
            // Where it cannot be given the command says so itself.
            GitLine::Changes if sandbox.cannot_open(&[Need::Git]).is_none() => {
                needs.extend((!needs.contains(&Need::Git)).then_some(Need::Git));
            }
            GitLine::Changes | GitLine::Other => {}
        }
        Ok(needs)
    }
}

#[async_trait]
impl Tool for Bash {
    fn spec(&self) -> ToolSpec {
        spec::<Arguments>(
            "bash",
            "Runs a command line with `sh -c` in the workspace, with empty standard input. Answers with the exit \
             code, standard output and standard error. Lines `[agon: …]` are agon's own only above `stdout:`. Each \
             call starts afresh; whatever a command leaves running ends with it, except with `background`. A \
             sandbox reaches only hosts that are allowed, through a proxy, and keeps `.git` as it is; `needs` \
             asks for more. Prefer \
             the file tools for reading, searching and changing files.",
            Risk::Execute,
        )
    }

    async fn prepare(&self, call: &ToolCall, sandbox: &dyn Sandbox) -> Result<Preparation, String> {
        let args: Arguments = arguments(&call.args)?;
        if args.command.trim().is_empty() {
            return Err("`command` is empty".to_owned());
        }
        if args.command.contains('\0') {
            return Err("`command` contains a NUL character".to_owned());
        }
        let needs = args.needs(sandbox)?;
        if let Some(why) = args.cannot_keep_running(&needs, sandbox) {
            return Err(why);
        }
        let background = args.keeps_running();
        let files = sandbox.files();
        let asked = args.cwd.unwrap_or_default();
        let restored = needs.contains(&Need::Git).then(|| policy::restored(&args.command)).flatten();
        let known = call.bases.clone();
        let (cwd, own) = blocking(move || {
            let cwd = files.canonical(&asked).map_err(words)?;
            files.list(&cwd).map_err(words)?;
            let own = as_known(&*files, &cwd, &restored.unwrap_or_default(), &known);
            Ok((cwd, own))
        })
        .await?;
        let place = if cwd.is_empty() { String::new() } else { format!("in {}/:\n", name_shown(&cwd)) };
        let timeout_ms = args.timeout_ms.unwrap_or(call.timeout_ms).min(call.timeout_ms);
        let timeout_ms = if background { u64::MAX } else { timeout_ms };
        let why = args.why.filter(|_| !needs.is_empty());
        let why = why.map_or_else(String::new, |why| {
            // On one line, so that it cannot pass for what agon says below it.
            format!("\nwhy (the model's words): {}", why.split_whitespace().collect::<Vec<_>>().join(" "))
        });
        let stays = if background { STAYS } else { "" };
        let preview = format!("{place}{}{why}{stays}", args.command);
        let needs = std::iter::once(Need::Command(args.command.clone())).chain(needs);
        let own = own.unwrap_or_default();
        let needs: Vec<Need> = needs.chain(own.iter().cloned().map(Need::Write)).collect();
        let opens = Opens::of(&needs);
        let capture_cap = if background { 0 } else { CAPTURE };
        let (tool_use, command) = (call.tool_use, args.command);
        let mut exec = Exec { command, cwd: cwd.clone(), timeout_ms, capture_cap, opens, background };
        let prepared = Preparation::new(preview, Risk::Execute, move |at| {
            exec.opens.rules = at.hosts.to_vec();
            async move {
                let files = at.sandbox.files();
                // What is thrown away is compared when it is: meanwhile a person may have written there.
                let same = blocking(move || own.iter().try_for_each(|base| is_still(&*files, base))).await;
                let done = match same {
                    Ok(()) if background => return background::start(at, tool_use, exec).await,
                    Ok(()) => at.sandbox.exec(exec, at.live, at.cancel).await,
                    Err(why) => Err(why),
                };
                done.map_or_else(ToolEnd::failed, |end| answer(end, timeout_ms))
            }
            .boxed()
        });
        Ok(Preparation { needs, cwd, ..prepared })
    }
}

/// The files with what they hold, if each holds what the spark last wrote there.
fn as_known(files: &dyn Files, cwd: &str, names: &[String], known: &[PathBase]) -> Option<Vec<PathBase>> {
    let same = |name: &String| {
        let path = files.canonical(format!("{cwd}/{name}").trim_start_matches('/')).ok()?;
        let sha256 = files.digest(&path).ok()?;
        known.iter().find(|base| base.path == path && base.sha256.is_some() && base.sha256 == sha256).cloned()
    };
    names.iter().map(same).collect()
}

fn is_still(files: &dyn Files, base: &PathBase) -> Result<(), String> {
    let now = files.digest(&base.path).map_err(words)?;
    may_replace(std::slice::from_ref(base), &base.path, now.as_deref())
}

fn answer(end: ExecEnd, timeout_ms: u64) -> ToolEnd {
    let status = match (end.cancelled, end.exit) {
        (true, _) => ToolStatus::Cancelled,
        (false, Some(0)) if !end.timed_out => ToolStatus::Ok,
        _ => ToolStatus::Failed,
    };
    let content = format!(
        "{}, {}\n{}{}{}",
        how(&end, timeout_ms),
        took(end.ms),
        end.said(),
        labelled("stdout", &end.stdout),
        labelled("stderr", &end.stderr)
    );
    ToolEnd { status, exit: end.exit, notes: end.notes, ..ToolEnd::ok(content) }
}

fn how(end: &ExecEnd, timeout_ms: u64) -> String {
    let code = match (end.exit, end.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended without an exit code".to_owned(),
    };
    match (end.cancelled, end.timed_out) {
        (true, _) => format!("cancelled ({code})"),
        (_, true) => format!(
            "timed out after {timeout_ms} ms and was ended ({code}); `timeout_ms` may ask for more, up to the user's \
             setting `limits.tool_timeout_max_ms`"
        ),
        _ => code,
    }
}

/// The model is always told how long it took; loop detection looks past it.
pub(super) fn took(ms: u64) -> String {
    match ms {
        0..10_000 => format!("took {ms} ms"),
        _ => format!("took {} s", ms / 1000),
    }
}

fn labelled(name: &str, text: &str) -> String {
    match text {
        "" => format!("{name}: (empty)\n"),
        text => format!("{name}:\n{text}{}", if text.ends_with('\n') { "" } else { "\n" }),
    }
}

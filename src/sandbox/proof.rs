//! Tries what a sandbox must not allow and reports how each try ended; knows no kind of sandbox.
//!
//! One table serves `agon doctor`, the opening of a session and the tests. Whether a try succeeded is
//! decided from what came out and from what is to be seen outside, never from the command's own word.

mod acts;
mod doors;
mod stage;

use std::fmt;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use crate::ports::{Exec, ExecEnd, Opens, Sandbox};
use crate::protocol::need::Need;
pub use acts::ACTS;
pub use doors::DOORS;
use doors::Door;
pub use stage::Stage;

/// Exit code of a command that says: what I would need is not here.
const NOT_TRIED: i32 = 77;
/// Milliseconds one try may take.
const TRY_MS: u64 = 20_000;

/// One thing no confined command may do.
#[derive(Clone, Copy)]
pub struct Act {
    /// Its name in output for programs.
    pub id: &'static str,
    /// What is tried, for people.
    pub what: &'static str,
    /// The command line that tries it.
    pub command: fn(&Stage) -> String,
    /// What it achieved, if anything.
    pub achieved: fn(&Stage, &ExecEnd) -> Option<String>,
}

/// How a try ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was refused.
    Refused,
    /// It succeeded, which is a hole; the words say what was achieved.
    Succeeded(String),
    /// It could not be tried; the words say why.
    NotTried(String),
    /// It was opened for the call, and it worked.
    Opened,
    /// It cannot be opened for a call; the words say why.
    Unavailable(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Refused => write!(f, "refused"),
            Verdict::Succeeded(what) => write!(f, "NOT refused: {what}"),
            Verdict::NotTried(why) => write!(f, "not tried: {why}"),
            Verdict::Opened => write!(f, "works"),
            Verdict::Unavailable(why) => write!(f, "not available: {why}"),
        }
    }
}

/// One act and how trying it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The act's name.
    pub id: &'static str,
    /// What was tried.
    pub what: &'static str,
    /// How it ended.
    pub verdict: Verdict,
    /// Where it was tried, if in several places.
    pub places: Vec<String>,
}

/// Tries every act in a sandbox whose workspace is the stage's, and each door closed and open.
pub async fn prove(stage: &Stage, sandbox: &dyn Sandbox) -> Vec<Proof> {
    let mut proofs = Vec::new();
    for act in ACTS.iter().chain(DOORS.iter().map(|door| &door.closed)) {
        proofs.push(attempt(act, stage, sandbox).await);
    }
    for door in DOORS {
        proofs.push(through(door, stage, sandbox).await);
    }
    proofs
}

/// Tries one act.
pub async fn attempt(act: &Act, stage: &Stage, sandbox: &dyn Sandbox) -> Proof {
    let verdict = tried(act, Opens::default(), (stage, sandbox)).await;
    Proof { id: act.id, what: act.what, verdict, places: places(act, stage) }
}

/// Tries the act of a door in a call that it was opened for.
async fn through(door: &Door, stage: &Stage, sandbox: &dyn Sandbox) -> Proof {
    let needs = [(door.opens)(stage)];
    let verdict = match sandbox.cannot_open(&needs) {
        Some(why) => Verdict::Unavailable(why),
        None => match tried(&door.closed, Opens::of(&needs), (stage, sandbox)).await {
            Verdict::Succeeded(_) => Verdict::Opened,
            Verdict::NotTried(why) => Verdict::Unavailable(why),
            _ => Verdict::Unavailable("it was opened, and nothing came through".to_owned()),
        },
    };
    Proof { id: door.id, what: door.what, verdict, places: Vec::new() }
}

async fn tried(act: &Act, opens: Opens, (stage, sandbox): (&Stage, &dyn Sandbox)) -> Verdict {
    let command = (act.command)(stage);
    let exec = Exec {
        command,
        cwd: String::new(),
        timeout_ms: TRY_MS,
        capture_cap: 16 * 1024,
        opens,
        background: false,
    };
    stage.forget();
    match sandbox.exec(exec, &(), &CancellationToken::new()).await {
        Err(error) => Verdict::NotTried(error),
        Ok(end) => match (act.achieved)(stage, &end) {
            Some(what) => Verdict::Succeeded(what),
            None if end.exit == Some(NOT_TRIED) => {
                Verdict::NotTried("no program for it is to be found inside".to_owned())
            }
            None if end.timed_out => Verdict::NotTried("its time ran out".to_owned()),
            None => Verdict::Refused,
        },
    }
}

/// Whether a command can be given the repository, tried with one that does nothing.
pub async fn opens_git(sandbox: &dyn Sandbox) -> Result<(), String> {
    let exec = Exec {
        command: "true".to_owned(),
        cwd: String::new(),
        timeout_ms: TRY_MS,
        capture_cap: 1024,
        opens: Opens::of(&[Need::Git]),
        background: false,
    };
    sandbox.exec(exec, &(), &CancellationToken::new()).await.map(drop)
}

fn places(act: &Act, stage: &Stage) -> Vec<String> {
    let folder = |path: &Path| path.parent().map(|folder| folder.display().to_string());
    match act.id {
        "shown_socket" => stage.sockets().filter_map(folder).collect(),
        "tool_credentials" => stage.credentials().filter_map(folder).collect(),
        _ => Vec::new(),
    }
}

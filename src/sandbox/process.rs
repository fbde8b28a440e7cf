//! Runs one command line in its own process group, bounded in time and output; knows no workspace rules.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio_util::sync::CancellationToken;

use super::capture::Stream;
use crate::ports::{Exec, ExecEnd, Live, Wires};
use crate::protocol::Lane;

/// How long a group may take to end after being asked politely.
const GRACE: Duration = Duration::from_millis(500);
/// How long output is waited for after the command itself has ended.
const DRAIN: Duration = Duration::from_millis(250);

/// One of a command's output streams.
pub type Output = Box<dyn AsyncRead + Send + Unpin>;

/// A started command: what it writes, how far it can be reached, and how it ended.
pub trait Reach: Send {
    /// Standard output and standard error, once.
    fn outputs(&mut self) -> [Option<Output>; 2];
    /// Waits for its end. Dropped before, it can be called again.
    fn ended(&mut self) -> impl Future<Output = std::io::Result<()>> + Send;
    /// Asks it, and what it started, to end.
    fn ask_to_end(&mut self);
    /// Ends it, and what it started. Dropping the value does so too.
    fn end(&mut self);
    /// Whether something it started may still be running after its own end.
    fn is_alive(&self) -> bool;
    /// How many processes it left that were ended with it, as far as that is known.
    fn left(&self) -> usize {
        0
    }
    /// Exit code and signal of what was waited for.
    fn verdict(&mut self) -> Result<(Option<i32>, Option<i32>), String>;
}

/// Runs `exec.command` with `sh -c` in `directory`, with nothing but `environment`.
///
/// Without wires standard input is empty. When the command ends, whatever it left running in its group is ended too.
pub async fn run(
    exec: &Exec,
    directory: &Path,
    (environment, wires): (&BTreeMap<String, String>, Option<Wires>),
    live: &dyn Live,
    cancel: &CancellationToken,
) -> Result<ExecEnd, String> {
    let started = Instant::now();
    let group = Group::of(spawn(exec, directory, environment, wires)?)?;
    watch(exec, group, started, live, cancel).await
}

/// Sees a started command to its end, bounded in time and output.
pub async fn watch(
    exec: &Exec,
    mut reach: impl Reach,
    started: Instant,
    live: &dyn Live,
    cancel: &CancellationToken,
) -> Result<ExecEnd, String> {
    let outputs = [Lane::Stdout, Lane::Stderr].map(|lane| Mutex::new(Stream::new(exec.capture_cap, lane)));
    let [stdout, stderr] = reach.outputs();
    let mut pumps = Pumps {
        both: Box::pin(async {
            tokio::join!(pump(stdout, live, &outputs[0]), pump(stderr, live, &outputs[1]));
        }),
        done: false,
    };
    let (limit, asks) = (Duration::from_millis(exec.timeout_ms), live.asks());
    let limit = async {
        match asks {
            Some(asks) => asks.worked(limit).await,
            None => tokio::time::sleep(limit).await,
        }
    };
    let stopped = supervise(&mut pumps, &mut reach, limit, cancel).await?;
    settle(&mut pumps, &mut reach).await;
    drop(pumps);
    let (exit, signal) = reach.verdict()?;
    let left = match reach.left() {
        _ if stopped.is_some() => None,
        0 => None,
        1 => Some("the process that the command left running was".to_owned()),
        many => Some(format!("{many} processes that the command left running were")),
    };
    let left = left.map(|left| format!("{left} ended with it: start and use a server in one command"));
    let text = |stream: &Mutex<Stream>| stream.lock().unwrap_or_else(PoisonError::into_inner).text();
    Ok(ExecEnd {
        exit,
        signal,
        timed_out: stopped == Some(Stopped::TimedOut),
        cancelled: stopped == Some(Stopped::Cancelled),
        stdout: text(&outputs[0]),
        stderr: text(&outputs[1]),
        ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        notes: left.into_iter().collect(),
        hints: Vec::new(),
    })
}

/// Why a command was stopped before its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopped {
    TimedOut,
    Cancelled,
}

/// Runs the command line `$1` beside a process that ends the whole group once standard input closes: when agon is gone.
const GUARDED: &str = r#"exec 3<&0 </dev/null
(cat <&3 >/dev/null; kill -KILL 0) >/dev/null 2>&1 &
exec 3<&-
exec sh -c "$1""#;

fn spawn(
    exec: &Exec,
    directory: &Path,
    environment: &BTreeMap<String, String>,
    wires: Option<Wires>,
) -> Result<Child, String> {
    let (stdin, stdout, own) = match wires {
        Some(wires) => (wires.input.into(), wires.output.into(), wires.environment),
        None if exec.background => (Stdio::piped(), Stdio::piped(), BTreeMap::new()),
        None => (Stdio::null(), Stdio::piped(), BTreeMap::new()),
    };
    let command = exec.command.as_str();
    let line = if exec.background { vec![GUARDED, "sh", command] } else { vec![command] };
    Command::new("sh")
        .arg("-c")
        .args(line)
        .current_dir(directory)
        .env_clear()
        .envs(environment)
        .envs(own)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("`sh` cannot be started: {error}"))
}

/// Waits for the end, for the time limit or for the cancellation, whichever comes first.
async fn supervise(
    pumps: &mut Pumps<'_>,
    reach: &mut impl Reach,
    limit: impl Future<Output = ()>,
    cancel: &CancellationToken,
) -> Result<Option<Stopped>, String> {
    let lost = |error: std::io::Error| format!("the command was started but cannot be waited for: {error}");
    let first = pumps
        .beside(async {
            tokio::select! {
                biased;
                ended = reach.ended() => Ok(ended),
                () = cancel.cancelled() => Err(Stopped::Cancelled),
                () = limit => Err(Stopped::TimedOut),
            }
        })
        .await;
    let stopped = match first {
        Ok(ended) => return ended.map(|()| None).map_err(lost),
        Err(stopped) => stopped,
    };
    reach.ask_to_end();
    match pumps.beside(tokio::time::timeout(GRACE, reach.ended())).await {
        Ok(ended) => ended.map_err(lost)?,
        Err(_) => {
            reach.end();
            pumps.beside(reach.ended()).await.map_err(lost)?;
        }
    }
    Ok(Some(stopped))
}

/// Reads what is still in the pipes, and ends what the command left running. A grandchild that holds a pipe
/// open cannot hold the call: after the second deadline its output is no longer read.
async fn settle(pumps: &mut Pumps<'_>, reach: &mut impl Reach) {
    pumps.finish(DRAIN).await;
    if reach.is_alive() {
        reach.ask_to_end();
        pumps.finish(DRAIN).await;
        reach.end();
        pumps.finish(DRAIN).await;
    }
}

/// Reads one stream to its end.
async fn pump(pipe: Option<Output>, live: &dyn Live, stream: &Mutex<Stream>) {
    let Some(mut pipe) = pipe else { return };
    let mut block = vec![0; 16 * 1024];
    // A pipe that fails has ended as far as its reader is concerned.
    while let Ok(n @ 1..) = pipe.read(&mut block).await {
        stream.lock().unwrap_or_else(PoisonError::into_inner).take(&block[..n], live);
    }
}

/// Both readers, polled beside whatever else is waited for, so that a full pipe never blocks the command.
struct Pumps<'a> {
    both: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    done: bool,
}

impl Pumps<'_> {
    async fn beside<T>(&mut self, other: impl Future<Output = T>) -> T {
        let mut other = pin!(other);
        loop {
            tokio::select! {
                biased;
                () = &mut self.both, if !self.done => self.done = true,
                value = &mut other => return value,
            }
        }
    }

    /// Reads on until both streams have ended, at most for `limit`.
    async fn finish(&mut self, limit: Duration) {
        if !self.done {
            self.done = tokio::time::timeout(limit, &mut self.both).await.is_ok();
        }
    }
}

/// A process group that dies with this value. A command that makes a group of its own leaves it; `none`
/// names that gap.
struct Group {
    child: Child,
    /// Open for as long as a command in the background may run.
    _guard: Option<ChildStdin>,
    leader: Option<Pid>,
    status: Option<ExitStatus>,
}

impl Group {
    fn of(mut child: Child) -> Result<Self, String> {
        // Whoever waits for a child closes its input first.
        let _guard = child.stdin.take();
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        match leader {
            Some(leader) => Ok(Group { child, _guard, leader: Some(leader), status: None }),
            None => Err("the command ended before it could be watched".to_owned()),
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // A group that is gone is what was wanted.
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Reach for Group {
    fn outputs(&mut self) -> [Option<Output>; 2] {
        let (stdout, stderr) = (self.child.stdout.take(), self.child.stderr.take());
        [stdout.map(|pipe| Box::new(pipe) as Output), stderr.map(|pipe| Box::new(pipe) as Output)]
    }

    async fn ended(&mut self) -> std::io::Result<()> {
        self.status = Some(self.child.wait().await?);
        Ok(())
    }

    fn ask_to_end(&mut self) {
        self.signal(Signal::TERM);
    }

    fn end(&mut self) {
        self.signal(Signal::KILL);
    }

    fn is_alive(&self) -> bool {
        self.leader.is_some_and(|leader| test_kill_process_group(leader).is_ok())
    }

    fn verdict(&mut self) -> Result<(Option<i32>, Option<i32>), String> {
        use std::os::unix::process::ExitStatusExt;
        self.leader = None;
        Ok(self.status.map_or((None, None), |status| (status.code(), status.signal())))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

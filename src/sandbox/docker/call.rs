//! One command in a container, bounded in time and output; knows no engine but through its container.

use std::pin::pin;
use std::time::{Duration, Instant};

use bollard::container::LogOutput;
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::container::{ANSWER, Container, Output};
use super::error::DockerError;
use crate::ports::{Exec, ExecEnd, Live};
use crate::protocol::Lane;
use crate::sandbox::capture::Stream;

/// How long what runs may take to end after being asked politely.
const GRACE: Duration = Duration::from_millis(500);
/// How long output is waited for after everything has ended.
const DRAIN: Duration = Duration::from_millis(500);
/// How often it is asked whether a command that says nothing, or whose output somebody else holds, has ended.
const LOOK: Duration = Duration::from_millis(150);
/// How often that is asked at first once all output has ended.
const LOOK_SOON: Duration = Duration::from_millis(2);

/// A command that an engine has taken down and not begun.
pub struct Order {
    number: String,
    /// The file for what is known of its end.
    said: String,
}

/// Orders a command. Until it is run nothing of it has happened.
pub async fn order(
    container: &Container,
    exec: &Exec,
    place: (&str, Vec<String>),
) -> Result<Order, DockerError> {
    let (directory, environment) = place;
    let said = format!("/dev/shm/.agon-{}", uuid::Uuid::now_v7().simple());
    let words = [WATCHED, container.shell(), &exec.command, &said];
    let limit = Duration::from_millis(exec.timeout_ms) + ANSWER;
    let number = container.within(limit, container.order(&words, Some(directory), environment)).await?;
    Ok(Order { number, said })
}

/// Runs an ordered command to its end and leaves nothing of it running. An error means that the container is not to
/// be used again, and that nobody knows what the command did.
pub async fn run(
    container: &Container,
    order: Order,
    exec: &Exec,
    live: &dyn Live,
    cancel: &CancellationToken,
) -> Result<ExecEnd, DockerError> {
    let Order { number: order, said } = order;
    let started = Instant::now();
    let limit = Duration::from_millis(exec.timeout_ms);
    let output = container.within(limit + ANSWER, container.begin(&order)).await?;
    let mut call = Call {
        container,
        order,
        output,
        has_ended: false,
        streams: [Stream::new(exec.capture_cap, Lane::Stdout), Stream::new(exec.capture_cap, Lane::Stderr)],
        live,
    };
    let (mut code, mut stopped) = call.supervise(limit, cancel).await?;
    if stopped.is_some() {
        code = container.within(ANSWER, container.ended(&call.order)).await?;
        if code.is_some() {
            // It ended by itself, and the engine was slow to say so.
            stopped = None;
        } else {
            container.ask_to_end().await;
            code = call.within(GRACE).await?;
        }
    }
    container.sweep().await?;
    call.drain().await;
    let code = match code {
        Some(code) => code,
        None => container.within(ANSWER, call.code()).await?,
    };
    let fate = fate(container, code, stopped.is_some(), &said).await?;
    Ok(call.end(fate, stopped, started))
}

/// Runs the command line `$1` by the shell `$0`. A shell tells by a code above 128 that a child died of a signal,
/// and a child may leave with the same code by itself; but of a signal the shell says so, and what it says goes into
/// the file `$2`, apart from what the child says. The shell outlives a polite request to end, so that the child can
/// answer it.
/// Beside that file stand how many processes had died for want of memory before, and that the shell outlived the child.
const WATCHED: &str = r#": 2>/dev/null >"$2" || set -- "$1" /dev/null
exec 3>&2 2>"$2"
trap : TERM
n=0
while read -r k v; do [ "$k" != oom_kill ] || n=$v; done </sys/fs/cgroup/memory.events
[ "$n" != 0 ] || while read -r k v; do [ "$k" != oom_kill ] || n=$v; done </sys/fs/cgroup/memory/memory.oom_control
: >"$2"
echo "$n" >"$2.before"
(exec 2>&3 3>&-; exec "$0" -c "$1")
set -- "$2" $?
echo >"$1.outlived"
exit $2"#;

/// Prints whether the shell said something into `$0`, and how many processes were killed for want of memory so far,
/// as either kind of control group counts them.
const FATE: &str = r#"[ -s "$0" ] && echo said
[ -e "$0.outlived" ] && echo outlived
read -r n <"$0.before" && echo "before $n"
cat /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control 2>/dev/null"#;

/// How a command really ended.
struct Fate {
    exit: Option<i32>,
    signal: Option<i32>,
    starved: bool,
    /// What watched the command was killed with it, so that its own end is not known.
    unseen: bool,
}

/// Tells a signal from a code of the same number, and who sent it.
async fn fate(container: &Container, code: i64, stopped: bool, said: &str) -> Result<Fate, DockerError> {
    let exit = i32::try_from(code).ok();
    let Some(signal) = signal_of(code) else {
        return Ok(Fate { exit, signal: None, starved: false, unseen: false });
    };
    if stopped {
        return Ok(Fate { exit: None, signal: Some(signal), starved: false, unseen: false });
    }
    let told = container.within(ANSWER, container.ask(&[FATE, said])).await?;
    let number =
        |word: &str| told.lines().find_map(|line| line.strip_prefix(word)?.trim().parse::<u64>().ok());
    let starved = signal == KILL && number("oom_kill ").unwrap_or(0) > number("before ").unwrap_or(0);
    let unseen = signal == KILL && !starved && !told.lines().any(|line| line == "outlived");
    // Of these two a shell never says anything.
    let is_signal =
        matches!(signal, INTERRUPT | PIPE) || starved || unseen || told.lines().any(|line| line == "said");
    match is_signal {
        true => Ok(Fate { exit: None, signal: Some(signal), starved, unseen }),
        false => Ok(Fate { exit, signal: None, starved, unseen }),
    }
}

const INTERRUPT: i32 = 2;
const KILL: i32 = 9;
const PIPE: i32 = 13;

/// Why a command was stopped before its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopped {
    TimedOut,
    Cancelled,
}

struct Call<'a> {
    container: &'a Container,
    order: String,
    output: Output,
    has_ended: bool,
    streams: [Stream; 2],
    live: &'a dyn Live,
}

impl Call<'_> {
    /// Waits for the end, for the time limit or for the cancellation, whichever comes first.
    async fn supervise(
        &mut self,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<(Option<i64>, Option<Stopped>), DockerError> {
        let mut deadline = pin!(tokio::time::sleep(limit));
        tokio::select! {
            biased;
            () = cancel.cancelled() => Ok((None, Some(Stopped::Cancelled))),
            () = &mut deadline => Ok((None, Some(Stopped::TimedOut))),
            code = self.code() => Ok((Some(code?), None)),
        }
    }

    /// The exit code, if the command ends in time.
    async fn within(&mut self, limit: Duration) -> Result<Option<i64>, DockerError> {
        tokio::time::timeout(limit, self.code()).await.ok().transpose()
    }

    /// Reads output until the command has ended; gives its exit code. Its output may be held open by what it left
    /// running, and may have ended long before it.
    async fn code(&mut self) -> Result<i64, DockerError> {
        let mut look = LOOK_SOON;
        let mut next_look = tokio::time::Instant::now() + LOOK;
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(next_look) => {
                    if let Some(code) = self.container.ended(&self.order).await? {
                        return Ok(code);
                    }
                    if self.has_ended {
                        look = (look * 2).min(LOOK);
                        next_look = tokio::time::Instant::now() + look;
                    } else {
                        next_look = tokio::time::Instant::now() + LOOK;
                    }
                }
                piece = self.output.next(), if !self.has_ended => match piece {
                    Some(Ok(piece)) => self.take(&piece),
                    // A stream that broke has ended; whether the command has is asked for.
                    Some(Err(_)) | None => {
                        self.has_ended = true;
                        next_look = tokio::time::Instant::now();
                    }
                },
            }
        }
    }

    fn take(&mut self, piece: &LogOutput) {
        let (stream, message) = match piece {
            LogOutput::StdErr { message } => (&mut self.streams[1], message),
            LogOutput::StdOut { message } | LogOutput::Console { message } | LogOutput::StdIn { message } => {
                (&mut self.streams[0], message)
            }
        };
        stream.take(message, self.live);
    }

    /// Reads what is still on its way after everything has ended.
    async fn drain(&mut self) {
        let deadline = tokio::time::Instant::now() + DRAIN;
        while !self.has_ended {
            match tokio::time::timeout_at(deadline, self.output.next()).await {
                Ok(Some(Ok(piece))) => self.take(&piece),
                _ => self.has_ended = true,
            }
        }
    }

    fn end(&self, fate: Fate, stopped: Option<Stopped>, started: Instant) -> ExecEnd {
        let hints = [
            (fate.starved, "the container's memory ran out; the setting is `[sandbox.docker] memory`"),
            (fate.unseen, "it killed what watches it too (`kill -1`), so how it ended is not known"),
        ];
        ExecEnd {
            exit: fate.exit,
            signal: fate.signal,
            timed_out: stopped == Some(Stopped::TimedOut),
            cancelled: stopped == Some(Stopped::Cancelled),
            stdout: self.streams[0].text(),
            stderr: self.streams[1].text(),
            ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            notes: Vec::new(),
            hints: hints.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words.to_owned()).collect(),
        }
    }
}

/// A signal is told as 128 and its number; so are codes of the same number.
fn signal_of(code: i64) -> Option<i32> {
    i32::try_from(code - 128).ok().filter(|signal| (1..=64).contains(signal))
}

#[cfg(test)]
mod tests {
    use super::signal_of;

    #[test]
    fn codes_above_128_are_signals() {
        let rows =
            [(0, None), (1, None), (127, None), (128, None), (137, Some(9)), (143, Some(15)), (255, None)];
        assert!(rows.iter().all(|(code, signal)| signal_of(*code) == *signal));
    }
}

//! A server as a process: started in its sandbox, talked with over pipes, ended with whatever it started.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio_util::sync::CancellationToken;

use super::{Shared, talk};
use crate::ports::{Exec, ExecEnd, Live, Opens, Sandbox, Wires};
use crate::protocol::Lane;
use crate::protocol::effect::HostRule;
use crate::protocol::need::Need;
use crate::protocol::spec::Action;

/// Bytes that one message of a server may have.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;
/// Bytes of its standard error that are kept to say why it ended.
const MAX_LAST_WORDS: usize = 1024;
/// How long its end is waited for once it says nothing any more.
const GRACE: Duration = Duration::from_secs(1);
/// It runs as long as the session.
const NO_LIMIT_MS: u64 = 1000 * 60 * 60 * 24 * 365;

impl Shared {
    /// Starts the server once and sees it to its end; gives why it ended.
    pub(super) async fn live(
        &self,
        (command, environment, hosts): (&[String], &BTreeMap<String, String>, &[String]),
        sandbox: &dyn Sandbox,
        stop: &CancellationToken,
    ) -> String {
        let ends = || {
            let ((input, to_server), (from_server, output)) = (std::io::pipe()?, std::io::pipe()?);
            let wires = Wires {
                input: OwnedFd::from(input),
                output: OwnedFd::from(output),
                environment: environment.clone(),
            };
            let reader = Receiver::from_owned_fd(OwnedFd::from(from_server))?;
            std::io::Result::Ok((wires, reader, Sender::from_owned_fd(OwnedFd::from(to_server))?))
        };
        let (wires, reader, writer) = match ends() {
            Ok(ends) => ends,
            Err(error) => return format!("it cannot be connected: {error}"),
        };
        let (end, last_words, too_long) =
            (stop.child_token(), LastWords::default(), Arc::new(Mutex::new(None)));
        let bounded = Bounded { inner: reader, since_line: 0, too_long: Arc::clone(&too_long) };
        let mut process = pin!(sandbox.converse(exec(command, hosts), wires, &last_words, &end));
        let said = tokio::select! {
            ended = &mut process => return last_words.after(ended, None),
            said = self.talk((bounded, writer)) => said,
        };
        let said = too_long.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(said);
        // One that ends by itself has an exit code to tell.
        let ended = tokio::time::timeout(GRACE, &mut process).await;
        match ended {
            Ok(ended) => last_words.after(ended, Some(said)),
            Err(_) => {
                end.cancel();
                let _ = process.await;
                last_words.after(Err(said), None)
            }
        }
    }
}

fn exec(command: &[String], hosts: &[String]) -> Exec {
    let quoted = |word: &String| format!(" '{}'", word.replace('\'', r"'\''"));
    let mut opens = Opens::default();
    for host in hosts {
        match Need::asked(host) {
            Some(port @ Need::Port(_)) => opens.needs.push(port),
            // A host of its table can be a pattern.
            _ => opens.rules.push(HostRule { need: format!("host:{host}"), action: Action::Allow }),
        }
    }
    Exec {
        command: format!("exec{}", command.iter().map(quoted).collect::<String>()),
        cwd: String::new(),
        timeout_ms: NO_LIMIT_MS,
        capture_cap: 0,
        opens,
        background: false,
    }
}

/// Counts what a server sends without ending a line, and ends the talk where that is too much.
struct Bounded {
    inner: Receiver,
    since_line: usize,
    too_long: Arc<Mutex<Option<String>>>,
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        let came = &buffer.filled()[before..];
        self.since_line = match memchr::memrchr(b'\n', came) {
            Some(at) => came.len() - at - 1,
            None => self.since_line.saturating_add(came.len()),
        };
        if self.since_line > MAX_MESSAGE {
            let words = format!("it sent a message of more than {} MiB", MAX_MESSAGE >> 20);
            *self.too_long.lock().unwrap_or_else(PoisonError::into_inner) = Some(words.clone());
            return Poll::Ready(Err(std::io::Error::other(words)));
        }
        polled
    }
}

/// The end of what a server says on standard error.
#[derive(Default)]
struct LastWords(Mutex<String>);

impl Live for LastWords {
    fn push(&self, lane: Lane, text: &str) {
        if lane == Lane::Stderr {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push_str(text);
            let excess = kept.len().saturating_sub(MAX_LAST_WORDS);
            let excess = kept.ceil_char_boundary(excess);
            kept.drain(..excess);
        }
    }
}

impl LastWords {
    /// Why a server ended: what was seen of it, how its process ended, and its last words.
    fn after(&self, ended: Result<ExecEnd, String>, said: Option<String>) -> String {
        let how = match ended {
            Ok(ExecEnd { exit: Some(126 | 127), .. }) => "its command cannot be started".to_owned(),
            Ok(ExecEnd { exit: Some(code), .. }) => format!("it ended with exit code {code}"),
            Ok(ExecEnd { signal: Some(signal), .. }) => format!("signal {signal} ended it"),
            Ok(_) => "it ended".to_owned(),
            Err(why) => why,
        };
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = kept.lines().rev().map(str::trim).find(|line| !line.is_empty());
        let parts = [said.filter(|said| *said != talk::CLOSED), Some(how), last.map(str::to_owned)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
    }
}

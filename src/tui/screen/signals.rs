//! The signals a terminal program is sent, and what they ask for; does none of it.

use std::io;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};
use tokio::sync::Notify;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    End,
    Stop,
    Continue,
}

pub(super) struct Signals {
    interrupt: Listener,
    terminate: Listener,
    hang_up: Listener,
    quit: Listener,
    stop: Listener,
    go_on: Listener,
    closed: Arc<Notify>,
}

impl Signals {
    pub fn listen() -> io::Result<Self> {
        let raw = |number: Signal| SignalKind::from_raw(number.as_raw());
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            stop: signal(raw(Signal::TSTP))?,
            go_on: signal(raw(Signal::CONT))?,
            closed: closed(),
        })
    }

    pub async fn next(&mut self) -> Asked {
        // A terminal that disappears sends the end and a call to go on at once.
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => Asked::End,
            _ = self.terminate.recv() => Asked::End,
            _ = self.hang_up.recv() => Asked::End,
            _ = self.quit.recv() => Asked::End,
            () = self.closed.notified() => Asked::End,
            _ = self.stop.recv() => Asked::Stop,
            _ = self.go_on.recv() => Asked::Continue,
        }
    }
}

/// Reports once the terminal is closed. Only a program that the terminal controls is sent a signal then; any other would
/// read its end without end.
fn closed() -> Arc<Notify> {
    let closed = Arc::new(Notify::new());
    let theirs = Arc::clone(&closed);
    std::thread::spawn(move || {
        // Nothing is asked for: what is reported is the end alone.
        let mut terminal = [PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::empty())];
        while poll(&mut terminal, None) == Err(rustix::io::Errno::INTR) {}
        theirs.notify_one();
    });
    closed
}

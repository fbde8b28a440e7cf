//! The signals a terminal program is sent, and what they ask for; does none of it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

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
    /// None where the system cannot wait for it.
    terminal: Option<AsyncFd<OwnedFd>>,
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
            terminal: rustix::io::dup(rustix::stdio::stdin())
                .ok()
                .and_then(|fd| AsyncFd::with_interest(fd, Interest::READABLE).ok()),
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
            () = closed(self.terminal.as_ref()) => Asked::End,
            _ = self.stop.recv() => Asked::Stop,
            _ = self.go_on.recv() => Asked::Continue,
        }
    }
}

/// Waits until the terminal is closed. Only a program that the terminal controls is sent a signal then; any other would
/// read its end without end.
async fn closed(terminal: Option<&AsyncFd<OwnedFd>>) {
    let Some(terminal) = terminal else { return std::future::pending().await };
    while let Ok(mut woken) = terminal.readable().await {
        let mut asked = [PollFd::new(terminal.get_ref(), PollFlags::empty())];
        let answered = poll(&mut asked, Some(&Timespec::default()));
        if answered.is_ok()
            && asked[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
        {
            return;
        }
        woken.clear_ready();
    }
    std::future::pending().await
}

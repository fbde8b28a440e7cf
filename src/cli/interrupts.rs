//! The signals that ask for the end, to be waited for; what they end is not known here.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::error::{Failure, INTERRUPTED, USAGE};

/// Does something that may take long, unless somebody asks for the end meanwhile. Once a question has listened for
/// signals, nothing else ends the process.
pub async fn unless_interrupted<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let mut interrupts = Interrupts::listen()?;
    tokio::select! {
        biased;
        () = interrupts.next() => Err(Failure::new(INTERRUPTED, anyhow::anyhow!("interrupted"))),
        done = work => Ok(done),
    }
}

/// The signals that ask for the end.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Interrupts {
    /// From now on the signals are waited for instead of ending the process.
    pub fn listen() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).context("cannot listen for signals").map_err(|e| Failure::new(USAGE, e));
        Ok(Interrupts {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            // The terminal is gone: what was begun ends as orderly as when somebody asks for it.
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

//! The network that a command in the background shares with the calls that begin while it runs; knows no proxy.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where the proxy of a call is reached on its loopback: above the ports that the system gives out by itself. A call
/// with a network of its own has the first of them.
pub const PORTS: Range<u16> = 61_128..61_192;

/// Who is in the network that is shared. Any other call has one of its own.
#[derive(Default)]
pub struct SharedNetwork(Mutex<State>);

#[derive(Default)]
struct State {
    /// Commands that run in the background.
    background: usize,
    /// Ports that proxies of calls have there.
    ports: BTreeSet<u16>,
}

/// A call that is in it.
pub struct Joined<'n> {
    network: &'n SharedNetwork,
    /// Its proxy's port.
    pub port: u16,
    background: bool,
}

impl SharedNetwork {
    /// Lets a command of the background in, and any other call while one is there; none for a call that stays out.
    pub fn join(&self, background: bool) -> Result<Option<Joined<'_>>, String> {
        let mut state = self.state();
        if !background && state.background == 0 {
            return Ok(None);
        }
        let free = PORTS.into_iter().find(|port| !state.ports.contains(port));
        let port = free.ok_or_else(|| format!("at most {} calls run at once here", PORTS.len()))?;
        state.ports.insert(port);
        state.background += usize::from(background);
        Ok(Some(Joined { network: self, port, background }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        let mut state = self.network.state();
        state.ports.remove(&self.port);
        state.background -= usize::from(self.background);
    }
}

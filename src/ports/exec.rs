//! A command, what the sandbox opens for it alone, and how it ended.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use crate::protocol::effect::HostRule;
use crate::protocol::need::Need;

/// A command to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    /// Command line for `sh -c`.
    pub command: String,
    /// Directory, relative to the workspace; empty is the root.
    pub cwd: String,
    /// Milliseconds before its whole process group is killed.
    pub timeout_ms: u64,
    /// Bytes kept of each stream; the middle is dropped beyond and the count said.
    pub capture_cap: usize,
    /// What the sandbox opens for this command and no other.
    pub opens: Opens,
    /// True for one that keeps running while others go on: they reach the ports it listens on, and it ends with this
    /// process, however that ends.
    pub background: bool,
}

/// What a sandbox opens for one command: exactly the needs that were shown and allowed. The default opens nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opens {
    /// The repository can be changed, as far as git's own commands change it.
    pub git: bool,
    /// Hosts on the network, by name.
    pub hosts: Vec<String>,
    /// Ports of this machine.
    pub ports: Vec<u16>,
    /// The command runs outside the sandbox.
    pub unconfined: bool,
    /// What rules say of the hosts that it connects to while it runs.
    pub rules: Vec<HostRule>,
}

impl Opens {
    /// What a call with these needs has opened.
    pub fn of(needs: &[Need]) -> Self {
        let mut opens = Opens::default();
        for need in needs {
            match need {
                Need::Git => opens.git = true,
                Need::Host(host) => opens.hosts.push(host.clone()),
                Need::Port(port) => opens.ports.push(*port),
                Need::Unconfined => opens.unconfined = true,
                Need::Read(_) | Need::Write(_) | Need::Command(_) => {}
                Need::Tool(_) | Need::Confirm(_) | Need::Unknown(_) => {}
            }
        }
        opens
    }

    /// The needs it came from, as rules name them.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let git = self.git.then_some(Need::Git).into_iter();
        let hosts = self.hosts.iter().cloned().map(Need::Host);
        let ports = self.ports.iter().copied().map(Need::Port);
        let unconfined = self.unconfined.then_some(Need::Unconfined);
        git.chain(hosts).chain(ports).chain(unconfined).map(|need| Cow::into_owned(need.name()))
    }
}

/// What a command is given that its caller talks with while it runs.
#[derive(Debug)]
pub struct Wires {
    /// Its standard input.
    pub input: OwnedFd,
    /// Its standard output, of which nothing is captured.
    pub output: OwnedFd,
    /// Variables besides those every command has.
    pub environment: BTreeMap<String, String>,
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecEnd {
    /// Exit code; none when a signal ended it.
    pub exit: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// True when its time ran out.
    pub timed_out: bool,
    /// True when it was cancelled.
    pub cancelled: bool,
    /// Standard output, lossy UTF-8.
    pub stdout: String,
    /// Standard error, lossy UTF-8.
    pub stderr: String,
    /// Milliseconds it ran.
    pub ms: u64,
    /// What people have to know of it, a line each: protected names that were set aside. It stands in `stderr` too.
    pub notes: Vec<String>,
}

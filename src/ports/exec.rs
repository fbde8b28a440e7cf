//! A command, what the sandbox opens for it alone, and how it ended.

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
    /// `git`, hosts, ports, `unconfined`.
    pub needs: Vec<Need>,
    /// What rules say of the hosts that it connects to while it runs.
    pub rules: Vec<HostRule>,
}

impl Opens {
    /// What a call with these needs has opened.
    pub fn of(needs: &[Need]) -> Self {
        let needs = needs.iter().filter(|need| need.is_opened()).cloned().collect();
        Opens { needs, rules: Vec::new() }
    }

    /// Whether this need is opened.
    pub fn has(&self, need: &Need) -> bool {
        self.needs.contains(need)
    }

    /// The ports of this machine that are opened by a need.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        self.needs.iter().filter_map(|need| match need {
            Need::Port(port) => Some(*port),
            _ => None,
        })
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
    /// What people and models have to know of it, a line each: hosts it reached, protected names that were set aside.
    pub notes: Vec<String>,
    /// What its own complaint does not say, a line each, for the model.
    pub hints: Vec<String>,
}

/// Bytes of agon's own lines that a result has; people see every note.
const MOST_SAID: usize = 6 * 1024;

impl ExecEnd {
    /// agon's own lines for a model. They are shown above the output, where no command can write one like them.
    pub fn said(&self) -> String {
        let (mut text, mut left) = (String::new(), self.notes.len() + self.hints.len());
        for line in self.notes.iter().chain(&self.hints) {
            if text.len() > MOST_SAID {
                text.push_str(&format!("[agon: {left} more lines like these]\n"));
                break;
            }
            text.push_str(&format!("[agon: {}]\n", line.replace(['\n', '\r'], " ")));
            left -= 1;
        }
        text
    }
}

//! The commands that keep running in the background of a session, as its tools see them.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::{Exec, Opens};
use crate::protocol::event::ToolUse;

/// What is known of such a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// Its command line.
    pub command: String,
    /// What it printed since it was looked at last, the end of it.
    pub output: String,
    /// Bytes that it printed before, since it was looked at last.
    pub left_out: u64,
    /// Milliseconds it has run.
    pub ms: u64,
    /// How it ended, in words, with its exit code.
    pub ended: Option<(String, Option<i32>)>,
    /// What the sandbox opened for it.
    pub opens: Opens,
    /// Ports that were listened on before it began.
    pub before: BTreeSet<u16>,
}

/// Keeps them. Each has the number of the call that was ordered for it.
#[async_trait]
pub trait Background: Send + Sync {
    /// Has the command of a call begin. `before` are the ports that were listened on until then.
    async fn start(&self, tool_use: ToolUse, exec: Exec, before: BTreeSet<u16>) -> Result<u64, String>;
    /// Waits until one has ended, or until it has printed something that was not looked at.
    async fn news(&self, number: u64, only_its_end: bool);
    /// Looks at one. What it printed until now is shown once.
    fn look(&self, number: u64) -> Option<Glance>;
    /// Those that run, each with its command line.
    fn running(&self) -> Vec<(u64, String)>;
}

/// Where nothing runs in the background.
#[async_trait]
impl Background for () {
    async fn start(&self, _: ToolUse, _: Exec, _: BTreeSet<u16>) -> Result<u64, String> {
        Err("nothing runs in the background here".to_owned())
    }

    async fn news(&self, _: u64, _: bool) {}

    fn look(&self, _: u64) -> Option<Glance> {
        None
    }

    fn running(&self) -> Vec<(u64, String)> {
        Vec::new()
    }
}

//! Tools: what a call would do, the run that does it, and how it ended.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{Background, Live, Sandbox};
use crate::protocol::effect::{HostRule, ToolCall};
use crate::protocol::event::{LinkPart, PathBase, ToolStatus};
use crate::protocol::need::Need;
use crate::protocol::spec::{Risk, ToolSpec};

/// What a prepared call runs in.
#[derive(Clone, Copy)]
pub struct RunContext<'a> {
    /// Where it touches files and runs commands.
    pub sandbox: &'a dyn Sandbox,
    /// What rules say of the hosts that its commands connect to.
    pub hosts: &'a [HostRule],
    /// Where its live output goes.
    pub live: &'a dyn Live,
    /// Fires when it is to stop.
    pub cancel: &'a CancellationToken,
    /// Commands that keep running while the session goes on.
    pub background: &'a dyn Background,
}

/// Does what was prepared, at most once.
pub type Run = Box<dyn for<'a> FnOnce(RunContext<'a>) -> BoxFuture<'a, ToolEnd> + Send>;

/// What a tool call would do, before digest and sandbox are added, and the run that does it.
pub struct Preparation {
    /// Every resource it would touch: files relative to the workspace, with what they hold now.
    pub needs: Vec<Need>,
    /// Directory it would run in, relative to the workspace; empty is the root.
    pub cwd: String,
    /// The diff or command as a person should see it, never cut.
    pub preview: String,
    /// What it may do.
    pub risk: Risk,
    /// Bytes that the run keeps in memory while it waits for an approval; default 0.
    pub held: usize,
    /// Does it.
    pub run: Run,
}

impl Preparation {
    /// A call without needs, in the workspace's root.
    pub fn new(
        preview: impl Into<String>,
        risk: Risk,
        run: impl for<'a> FnOnce(RunContext<'a>) -> BoxFuture<'a, ToolEnd> + Send + 'static,
    ) -> Self {
        let (preview, run) = (preview.into(), Box::new(run));
        Preparation { needs: Vec::new(), cwd: String::new(), preview, risk, held: 0, run }
    }

    /// The same with one more need.
    #[must_use]
    pub fn needing(mut self, need: Need) -> Self {
        self.needs.push(need);
        self
    }
}

/// How a tool call ended, before redaction and cutting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolEnd {
    /// How it ended.
    pub status: ToolStatus,
    /// The whole text for the model.
    pub content: String,
    /// Exit code of a command.
    pub exit: Option<i32>,
    /// The files as they are now, for what the spark has now seen.
    pub seen: Vec<PathBase>,
    /// Pictures and links that came with the text.
    pub parts: Vec<EndPart>,
    /// What agon itself has to tell people of it, a line each.
    pub notes: Vec<String>,
}

/// A part of what a tool gives that is no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndPart {
    /// A picture: PNG, JPEG, GIF or WebP. One that models do not take is left out and named, a large one scaled down.
    Image {
        /// Its bytes.
        data: Vec<u8>,
        /// What it shows, for models and people without pictures.
        words: String,
    },
    /// A link.
    Link(LinkPart),
}

impl ToolEnd {
    /// A call that did what was asked and saw no file.
    pub fn ok(content: impl Into<String>) -> Self {
        ToolEnd {
            status: ToolStatus::Ok,
            content: content.into(),
            exit: None,
            seen: Vec::new(),
            parts: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// A call that failed; the words are for the model.
    pub fn failed(content: impl Into<String>) -> Self {
        ToolEnd { status: ToolStatus::Failed, ..ToolEnd::ok(content) }
    }
}

/// One tool.
///
/// `prepare` must have no side effect and must name every need of the call. Its run must not fail for anything a model
/// could fix: that is a `ToolEnd` with status `failed`. Both touch the world only through the sandbox they are given. A
/// run may start long after it was prepared: it compares the base of every file it writes in the very call that replaces
/// it. On cancel it ends what it started and says what really happened. Arguments have been checked against the schema.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Name, description, schema, risk.
    fn spec(&self) -> ToolSpec;

    /// Looks what the call would do; the error's words are for the model.
    async fn prepare(&self, call: &ToolCall, sandbox: &dyn Sandbox) -> Result<Preparation, String>;
}

/// Where tools come from while a session runs: a server, or the program that holds the arena.
///
/// What it gives may differ each time. A tool that it no longer gives is offered no more.
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// The tools it offers now, or why there are none; the words are for people.
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, String>;

    /// Keeps running what the source needs, such as a server, until `stop` fires; the arena calls it once for a session.
    /// Default: it needs nothing.
    async fn attend(&self, _stop: &CancellationToken) {}
}

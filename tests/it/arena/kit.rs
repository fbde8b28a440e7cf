//! Arenas for tests: a place of their own, tools and providers that misbehave on purpose.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agon::assembly::Running;
use agon::ports::{Live, Preparation, Provider, RunContext, Sandbox, Tool, ToolEnd};
use agon::protocol::effect::ToolCall;
use agon::protocol::event::{ModelFailed, ModelReply};
use agon::protocol::message::Request;
use agon::protocol::spec::{ModelSpec, Risk, ToolSpec};
use agon::protocol::{ArenaEvent, Command, Entry, Lane, StopCause};
use agon::provider::script::Script;
use agon::{Arena, ArenaBuilder};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::world::allow_all;

/// A workspace and a state folder.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        std::fs::create_dir(place.work()).unwrap();
        place
    }

    pub fn work(&self) -> PathBuf {
        self.0.path().join("work")
    }

    pub fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    /// A builder with a script for a model, and everything allowed.
    pub fn scripted(&self, script: &str) -> ArenaBuilder {
        let script = Script::from_toml("mock", script).unwrap();
        self.with(Arc::new(script)).policy(allow_all())
    }

    pub fn with(&self, provider: Arc<dyn Provider>) -> ArenaBuilder {
        let builder = ArenaBuilder::new(self.work(), self.state());
        builder.provider("mock", provider).model(ModelSpec::named("mock/any"))
    }

    /// Every byte beneath the state folder but recorded workspace content, which is raw by design.
    pub fn log_bytes(&self) -> Vec<u8> {
        fn collect(folder: &std::path::Path, into: &mut Vec<u8>) {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => collect(&entry.path(), into),
                    false => into.extend(std::fs::read(entry.path()).unwrap()),
                }
            }
        }
        let mut bytes = Vec::new();
        for folder in ["sessions", "blobs", "index"] {
            collect(&self.state().join(folder), &mut bytes);
        }
        bytes
    }
}

pub async fn prompt(arena: &Arena, text: &str) {
    let mode = agon::protocol::spec::Mode::Solo;
    arena.submit(Command::Prompt { text: text.to_owned(), mode, schema: None }).await.unwrap();
}

pub fn log(arena: &Arena) -> Vec<Entry> {
    let lines = arena.log().lines(0).unwrap();
    lines.iter().map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// Waits until the log holds what is looked for; gives it.
pub async fn until<T>(arena: &Arena, look: impl Fn(&ArenaEvent) -> Option<T>) -> T {
    for _ in 0..3000 {
        let log = log(arena);
        if let Some(found) = log.iter().flat_map(|entry| &entry.events).find_map(&look) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came: {:#?}", log(arena));
}

pub async fn closed(arena: &Arena) -> agon::protocol::event::TurnClosed {
    let closed = |event: &ArenaEvent| match event {
        ArenaEvent::TurnClosed(data) => Some(data.clone()),
        _ => None,
    };
    until(arena, closed).await
}

/// Prompts, waits for the end of the turn, stops; gives the whole log.
pub async fn whole_turn(running: &Running, text: &str) -> Vec<Entry> {
    prompt(&running.arena, text).await;
    closed(&running.arena).await;
    running.arena.submit(Command::Stop { cause: StopCause::Finished }).await.unwrap();
    running.arena.ended().await;
    log(&running.arena)
}

/// How a started tool call ended, in order: status word and content.
pub fn ends(log: &[Entry]) -> Vec<(String, String)> {
    let events = log.iter().flat_map(|entry| &entry.events);
    events
        .filter_map(|event| match event {
            ArenaEvent::ToolResolved(data) => {
                Some((format!("{:?}", data.body.status), data.body.content.clone()))
            }
            _ => None,
        })
        .collect()
}

/// What a tool of these tests does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    Panics,
    PanicsWhenPreparing,
    /// Waits for ever, but stops when told.
    WaitsUntilTold,
    /// Waits for ever, whatever it is told.
    Deaf,
}

/// A tool with a bad habit; counts its runs.
pub struct Odd(pub Habit, pub Arc<AtomicU32>);

#[async_trait::async_trait]
impl Tool for Odd {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "odd".to_owned(),
            description: "Misbehaves.".to_owned(),
            schema: json!({"type": "object"}),
            risk: Risk::Read,
            repeatable: false,
            output_cap: 1000,
        }
    }

    async fn prepare(&self, _: &ToolCall, _: &dyn Sandbox) -> Result<Preparation, String> {
        assert_ne!(self.0, Habit::PanicsWhenPreparing, "this tool cannot even look");
        let (habit, runs) = (self.0, Arc::clone(&self.1));
        Ok(Preparation::new("", Risk::Read, move |at| Box::pin(misbehave(habit, runs, at))))
    }
}

async fn misbehave(habit: Habit, runs: Arc<AtomicU32>, at: RunContext<'_>) -> ToolEnd {
    runs.fetch_add(1, Ordering::SeqCst);
    at.live.push(Lane::Stdout, "begun");
    match habit {
        Habit::Panics => panic!("this tool is broken"),
        Habit::WaitsUntilTold => {
            at.cancel.cancelled().await;
            let mut end = ToolEnd::failed("stopped half way");
            end.status = agon::protocol::event::ToolStatus::Cancelled;
            end
        }
        _ => std::future::pending().await,
    }
}

/// Panics on its first call, then answers.
#[derive(Default)]
pub struct Broken(AtomicU32);

#[async_trait::async_trait]
impl Provider for Broken {
    async fn call(
        &self,
        _: &Request,
        _: &dyn Live,
        _: &CancellationToken,
    ) -> Result<ModelReply, ModelFailed> {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => panic!("this provider is broken"),
            _ => Ok(crate::support::world::text("all right now")),
        }
    }
}

/// One call of the odd tool, then an answer that has seen how it ended.
pub fn odd_script(expect: &str) -> String {
    format!(
        "[[answer]]\ncalls = [{{ tool = \"odd\" }}]\n[[answer]]\nexpect = \"{expect}\"\ntext = \"I saw\"\n"
    )
}

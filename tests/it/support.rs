//! What the tests of several modules share: environments and small makers of values.

pub mod cache;
pub mod dice;
pub mod env;
pub mod golden;
pub mod long;
pub mod panel;
pub mod refusing;
pub mod requests;
pub mod server;
pub mod squad;
pub mod wires;
pub mod world;

use std::sync::{Arc, Mutex};

use agon::ports::Live;
use agon::protocol::effect::ToolCall;
use agon::protocol::event::{PathBase, SessionForked, ToolUse};
use agon::protocol::message::{ImagePart, Pictures};
use agon::protocol::{EventRef, Lane, Message, Part, RULES, Request, Role, SparkId};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Keeps everything that was pushed, in order.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Vec<(Lane, String)>>);

impl Recorder {
    /// All pieces.
    pub fn pieces(&self) -> Vec<(Lane, String)> {
        self.0.lock().unwrap().clone()
    }

    /// One lane's pieces, joined.
    pub fn lane(&self, lane: Lane) -> String {
        self.0.lock().unwrap().iter().filter(|(l, _)| *l == lane).map(|(_, text)| text.as_str()).collect()
    }
}

impl Live for Recorder {
    fn push(&self, lane: Lane, text: &str) {
        self.0.lock().unwrap().push((lane, text.to_owned()));
    }
}

/// A message with one text.
pub fn said(role: Role, text: &str) -> Arc<Message> {
    message(role, vec![Part::Text { text: text.to_owned() }])
}

/// A message.
pub fn message(role: Role, parts: Vec<Part>) -> Arc<Message> {
    Arc::new(Message { role, parts, from: EventRef::fact(0) })
}

/// How often a model has answered by what a server is sent: agon's own word between two messages is no answer.
pub fn answers(request: &serde_json::Value) -> usize {
    let messages = request["messages"].as_array().unwrap().iter();
    messages.filter(|message| message["role"] == "assistant" && message["content"] != "Noted.").count()
}

/// A picture whose bytes are its name, read as base64.
pub fn picture(name: &str) -> Part {
    let words = "a login form".to_owned();
    let (sha256, mime) = (name.to_owned(), "image/png".to_owned());
    Part::Image(ImagePart { sha256, mime, bytes: 3, width: 640, height: 480, words })
}

/// A request without tools for `mock/model-1`.
pub fn request(messages: Vec<Arc<Message>>) -> Request {
    Request {
        spark: String::new(),
        model: "mock/model-1".to_owned(),
        params: agon::protocol::message::Params::default(),
        messages,
        tools: Vec::new(),
        pictures: Pictures::read_with(|name| STANDARD.decode(name).ok()),
    }
}

/// A copy of a session up to an entry, of whose making nothing else is told.
pub fn forked(seq: u64) -> SessionForked {
    SessionForked {
        id: "00000000-0000-7000-8000-000000000002".into(),
        rules: RULES,
        parent: "p".into(),
        seq,
        head: "h".into(),
        workspace: "/fork".into(),
        tree: None,
        changed: vec![],
        change: None,
        active_ms: 0,
        awaits: None,
        goes_on: false,
        foreign: false,
    }
}

/// A call of a tool as the session makes it, by a spark that has seen these files.
pub fn tool_call(tool: &str, args: Value, seen: &[PathBase]) -> ToolCall {
    ToolCall {
        tool_use: ToolUse { answer: EventRef::fact(2), part: 0 },
        spark: SparkId(1),
        tool: tool.into(),
        args,
        bases: seen.to_vec(),
        place: None,
        denied: Vec::new(),
        hosts: Vec::new(),
        timeout_ms: 60_000,
        output_cap: 64 * 1024,
    }
}

impl world::World {
    /// Continues a session whose process ended after these entries.
    pub fn resumed(log: Vec<std::sync::Arc<agon::protocol::Entry>>) -> Self {
        let mut world = world::World { session: agon::session::Session::fold(&log).unwrap(), log };
        let resumed = agon::protocol::event::SessionResumed {
            rules: agon::protocol::RULES,
            program: "t".into(),
            changed: vec![],
            active_ms: 10,
            foreign: false,
        };
        world.give(agon::protocol::ArenaEvent::SessionResumed(resumed));
        world
    }
}

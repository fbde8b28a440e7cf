//! What the tests of several modules share: environments and small makers of values.

pub mod cache;
pub mod dice;
pub mod env;
pub mod golden;
pub mod long;
pub mod panel;
pub mod server;
pub mod squad;
pub mod world;

use std::sync::Mutex;

use agon::ports::Live;
use agon::protocol::event::SessionForked;
use agon::protocol::{EventRef, Lane, Message, Part, RULES, Request, Role};

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
pub fn said(role: Role, text: &str) -> Message {
    message(role, vec![Part::Text { text: text.to_owned() }])
}

/// A message.
pub fn message(role: Role, parts: Vec<Part>) -> Message {
    Message { role, parts, from: EventRef::fact(0) }
}

/// A request without tools for `mock/model-1`.
pub fn request(messages: Vec<Message>) -> Request {
    Request {
        spark: String::new(),
        model: "mock/model-1".to_owned(),
        params: agon::protocol::message::Params::default(),
        messages,
        tools: Vec::new(),
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
    }
}

//! Keeps what was written of each conversation, so that its next request writes only what is new.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::protocol::message::{ImagePart, Message, Part, Pictures};

/// Bytes of a body beside the messages that are text already.
const ROOM: usize = 64 << 10;

/// Conversations that are kept: those of the sparks of a squad or a debate, and as many again.
const MOST: usize = 16;

/// Puts messages into a wire format, each depending on those before it only.
pub(super) trait Writing {
    /// Writes one more message.
    fn write(&mut self, message: &Message);
}

/// What was written of the last conversations.
pub(super) struct Written<W>(Mutex<Vec<Conversation<W>>>);

struct Conversation<W> {
    /// What the writer began with, beside the messages.
    key: String,
    messages: Vec<Arc<Message>>,
    writer: W,
}

impl<W> Default for Written<W> {
    fn default() -> Self {
        Written(Mutex::default())
    }
}

impl<W: Writing> Written<W> {
    /// Writes what is new in a conversation, and has the whole looked at. A conversation that is not known begins with a
    /// writer of its own; `key` is all that shapes what is written beside the messages.
    pub fn with<T>(
        &self,
        key: String,
        messages: &[Arc<Message>],
        pictures: &Pictures,
        begin: impl FnOnce() -> W,
        look: impl FnOnce(&W) -> T,
    ) -> T {
        let known = self.take(&key, messages);
        let mut one = known.unwrap_or_else(|| Conversation { key, messages: Vec::new(), writer: begin() });
        for message in messages.iter().skip(one.messages.len()) {
            one.writer.write(&sendable(message, pictures));
            one.messages.push(Arc::clone(message));
        }
        let seen = look(&one.writer);
        self.put(one);
        seen
    }

    fn all(&self) -> MutexGuard<'_, Vec<Conversation<W>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The longest beginning of these messages that was written with this key.
    fn take(&self, key: &str, messages: &[Arc<Message>]) -> Option<Conversation<W>> {
        let mut all = self.all();
        let begins = |one: &Conversation<W>| {
            let same = || one.messages.iter().zip(messages).all(|(a, b)| Arc::ptr_eq(a, b));
            one.key == key && one.messages.len() <= messages.len() && same()
        };
        let fitting = all.iter().enumerate().filter(|(_, one)| begins(one));
        let at = fitting.max_by_key(|(_, one)| one.messages.len()).map(|(at, _)| at)?;
        Some(all.remove(at))
    }

    fn put(&self, one: Conversation<W>) {
        let mut all = self.all();
        // What only this list still holds is no session's any more.
        all.retain(|one| one.messages.last().is_some_and(|last| Arc::strong_count(last) > 1));
        all.push(one);
        let surplus = all.len().saturating_sub(MOST);
        all.drain(..surplus);
    }
}

/// A picture in base64, or its words where its bytes are not there or the model takes none.
pub(super) fn picture(image: &ImagePart, pictures: &Pictures) -> Result<String, String> {
    pictures.bytes_of(image).map(|bytes| STANDARD.encode(bytes)).ok_or_else(|| image.shown_as_words())
}

/// The message with words in place of the pictures that cannot be sent: at the end of the result they came with.
fn sendable<'a>(message: &'a Message, pictures: &Pictures) -> Cow<'a, Message> {
    let is_lost = |part: &Part| matches!(part, Part::Image(image) if pictures.bytes_of(image).is_none());
    if !message.parts.iter().any(is_lost) {
        return Cow::Borrowed(message);
    }
    let mut parts: Vec<Part> = Vec::new();
    for part in &message.parts {
        let words = match part {
            Part::Image(image) if is_lost(part) => image.shown_as_words(),
            part => {
                parts.push(part.clone());
                continue;
            }
        };
        match parts.last_mut() {
            Some(Part::Result { content, .. }) => content.push_str(&format!("\n{words}")),
            _ => parts.push(Part::Text { text: words }),
        }
    }
    Cow::Owned(Message { parts, ..message.clone() })
}

/// Messages on the wire: text, but for the last ones, which may still change.
pub(super) struct Pieces {
    text: Vec<Box<RawValue>>,
    open: Vec<Value>,
    /// How many of the last ones may still change.
    keep: usize,
}

impl Pieces {
    pub fn new(keep: usize) -> Self {
        Pieces { text: Vec::new(), open: Vec::new(), keep }
    }

    /// Those that may still change, alone and all open: for what only this request ends with.
    pub fn tail(&self) -> Self {
        Pieces { text: Vec::new(), open: self.open.clone(), keep: usize::MAX }
    }

    /// All of them, with another tail.
    pub fn ending(&self, tail: Pieces) -> Whole<'_> {
        Whole { first: None, text: &self.text, open: tail.open }
    }

    pub fn last_mut(&mut self) -> Option<&mut Value> {
        self.open.last_mut()
    }

    pub fn push(&mut self, message: Value) {
        self.open.push(message);
        if self.open.len() > self.keep {
            let done = self.open.remove(0);
            self.text.push(text_of(&done));
        }
    }
}

fn text_of(message: &Value) -> Box<RawValue> {
    // A JSON value always serialises.
    to_raw_value(message).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// All messages of a request.
pub(super) struct Whole<'a> {
    first: Option<Value>,
    text: &'a [Box<RawValue>],
    /// The last ones, which this request may still change.
    pub open: Vec<Value>,
}

impl Whole<'_> {
    /// The first message as text.
    pub fn first(&self) -> Option<Box<RawValue>> {
        self.text.first().cloned().or_else(|| self.open.first().map(text_of))
    }

    /// Changes the first message, or puts one in front of it where the change gives it back.
    pub fn change_first(&mut self, change: impl FnOnce(Option<&mut Value>) -> Option<Value>) {
        let Some((first, rest)) = self.text.split_first() else {
            self.first = change(self.open.first_mut());
            return;
        };
        let mut value = serde_json::from_str(first.get()).unwrap_or_default();
        match change(Some(&mut value)) {
            Some(before) => self.first = Some(before),
            None => (self.first, self.text) = (Some(value), rest),
        }
    }
}

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let len = usize::from(self.first.is_some()) + self.text.len() + self.open.len();
        let mut list = serializer.serialize_seq(Some(len))?;
        if let Some(message) = &self.first {
            list.serialize_element(message)?;
        }
        for message in self.text {
            list.serialize_element(message)?;
        }
        for message in &self.open {
            list.serialize_element(message)?;
        }
        list.end()
    }
}

/// The body of a request: its fields, of which the named one holds the messages.
pub(super) fn body(fields: &Map<String, Value>, name: &str, messages: &Whole<'_>) -> Vec<u8> {
    struct Body<'a>(&'a Map<String, Value>, &'a str, &'a Whole<'a>);
    impl Serialize for Body<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let Body(fields, name, messages) = self;
            let mut map = serializer.serialize_map(Some(fields.len()))?;
            for (key, value) in *fields {
                match key == name {
                    true => map.serialize_entry(key, messages)?,
                    false => map.serialize_entry(key, value)?,
                }
            }
            map.end()
        }
    }
    let texts: usize = messages.text.iter().map(|text| text.get().len() + 1).sum();
    let mut body = Vec::with_capacity(texts + ROOM);
    // JSON values always serialise, and a vector takes every byte.
    let _ = serde_json::to_writer(&mut body, &Body(fields, name, messages));
    body
}

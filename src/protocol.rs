//! The values every floor shares: entries, references, inputs; knows no clock, file, socket or rule.

pub mod ballot;
pub mod blueprint;
pub mod call;
pub mod command;
pub mod complaint;
pub mod effect;
pub mod event;
pub mod expand;
pub mod fit;
pub mod host;
pub mod inside;
pub mod message;
pub mod names;
pub mod need;
pub mod request_digest;
pub mod signal;
pub mod spec;
pub mod stored;
pub mod subagent;
pub mod text;
pub mod typed;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use call::{CallKind, Effect, Order, OutcomeBody, Work};
pub use command::{Choice, Command, StopCause};
pub use effect::Outcome;
pub use event::{ArenaEvent, Class};
pub use message::{Args, Message, Part, Request, Role, Usage};
pub use signal::{Lane, Signal};
pub use spec::Spec;

/// Version of the line format written by this program.
pub const FORMAT: u16 = 2;

/// Version of the decision rules; written into every segment of a log so that verify knows how strict to be.
///
/// What 8 changed: each kind of answer has an output limit of its own; a summary is ordered only where it frees enough,
/// may cover the newest messages and drops what no request can hold; an answer's own text is held against the log.
///
/// What 7 changed: the lead of a squad remembers the turn before whoever begins first, and a debate in between; what a
/// copy ordered that was only made costs nothing, also where it gave a prompt or a result anew; a brief names twenty
/// files at most; each comparison of a squad's work asks what became of the files its tools wrote; a squad of whose
/// written files nothing is left is not done, and one whose answer claims without evidence that checks pass is not stored.
pub const RULES: u32 = 8;

/// One fact and the decisions the session drew from it: the unit of the log, the bus and the replay slider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Format version of this entry ([`FORMAT`] when written by this program).
    pub v: u16,
    /// Position in the log, from 0 without gaps.
    pub seq: u64,
    /// Time of stamping in microseconds since the Unix epoch; never read by a decision.
    pub at: u64,
    /// The fact, then the decisions in the order they were taken.
    pub events: Vec<ArenaEvent>,
    /// What this program does not know of it, where it was read from a log of a newer one.
    #[serde(skip)]
    unknown: Option<Box<str>>,
}

impl Entry {
    /// Builds an entry of this program's format from one fact and its decisions.
    pub fn new(seq: u64, at: u64, fact: Fact, decisions: Vec<ArenaEvent>) -> Self {
        let mut events = Vec::with_capacity(decisions.len() + 1);
        events.push(fact.into_event());
        events.extend(decisions);
        Entry::made(seq, at, events)
    }

    /// The same from a list whose first event the session knows to be a fact.
    pub fn made(seq: u64, at: u64, events: Vec<ArenaEvent>) -> Self {
        Entry { v: FORMAT, seq, at, events, unknown: None }
    }

    /// Reads a line of a log and finds what in it this program does not know, at whatever depth.
    pub fn read(line: &[u8]) -> serde_json::Result<Self> {
        let (entry, unknown): (Entry, _) = stored::read(line)?;
        // The chain's hash is the line's, not the entry's.
        let unknown = unknown.into_iter().find(|what| what != "field `h`").map(String::into_boxed_str);
        Ok(Entry { unknown, ..entry })
    }

    /// What this program does not know, for an entry of a newer one: such a log is shown and never continued.
    pub fn newer(&self) -> Option<Cow<'_, str>> {
        let kind = || self.events.iter().find(|event| event.class() == Class::Unknown).map(ArenaEvent::kind);
        let read = self.unknown.as_deref().map(Cow::Borrowed);
        read.or_else(|| kind().map(|kind| Cow::Owned(format!("event `{kind}`"))))
    }

    /// The fact this entry starts with, or `None` for a damaged (empty) entry.
    pub fn fact(&self) -> Option<&ArenaEvent> {
        self.events.first()
    }

    /// The decisions drawn from the fact.
    pub fn decisions(&self) -> &[ArenaEvent] {
        self.events.get(1..).unwrap_or(&[])
    }

    /// True when the fact was recorded but changes nothing (`outcome_ignored` or `input_refused` follows it).
    pub fn is_void(&self) -> bool {
        matches!(self.events.get(1), Some(ArenaEvent::OutcomeIgnored(_) | ArenaEvent::InputRefused(_)))
    }

    /// Every event with its reference, skipping a fact that was ignored or refused.
    pub fn effective(&self) -> impl Iterator<Item = (EventRef, &ArenaEvent)> {
        let skip = usize::from(self.is_void());
        (0u16..).zip(&self.events).skip(skip).map(|(i, event)| (EventRef { seq: self.seq, i }, event))
    }
}

/// Names one event: entry `seq`, event `i` within it. Printed `e42`, or `e42.1` when `i` is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventRef {
    /// The entry's position in the log.
    pub seq: u64,
    /// The event's position in the entry; 0 is the fact.
    pub i: u16,
}

impl EventRef {
    /// A reference to the fact of entry `seq`.
    pub fn fact(seq: u64) -> Self {
        EventRef { seq, i: 0 }
    }
}

impl fmt::Display for EventRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.i {
            0 => write!(f, "e{}", self.seq),
            i => write!(f, "e{}.{i}", self.seq),
        }
    }
}

/// A text that does not have the shape `e42` or `e42.1`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an event reference such as `e42` or `e42.1`")]
pub struct BadEventRef(pub String);

impl FromStr for EventRef {
    type Err = BadEventRef;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadEventRef(text.to_owned());
        let digits = text.strip_prefix('e').ok_or_else(bad)?;
        let (seq, i) = digits.split_once('.').unwrap_or((digits, "0"));
        Ok(EventRef { seq: seq.parse().map_err(|_| bad())?, i: i.parse().map_err(|_| bad())? })
    }
}

impl Serialize for EventRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EventRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RefVisitor;
        impl serde::de::Visitor<'_> for RefVisitor {
            type Value = EventRef;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event reference such as `e42.1`")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<EventRef, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(RefVisitor)
    }
}

impl JsonSchema for EventRef {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "EventRef".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^e[0-9]+(\\.[0-9]+)?$",
            "description": "One event: entry number, then the event's place in the entry when it is not the fact."
        })
    }
}

/// Numbers the calls of a session; every ordered effect has its own.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct CallId(pub u64);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call-{}", self.0)
    }
}

/// Numbers the sparks of a session.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct SparkId(pub u32);

impl fmt::Display for SparkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spark-{}", self.0)
    }
}

/// A fact: an event that came from outside. Wraps an [`ArenaEvent`] whose kind is a fact kind, losslessly.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact(ArenaEvent);

impl Fact {
    /// Accepts an event of a fact kind; gives a decision or an unknown kind back.
    #[expect(clippy::result_large_err, reason = "the refused event is handed back whole, by value")]
    pub fn new(event: ArenaEvent) -> Result<Self, ArenaEvent> {
        match event.class() {
            Class::Fact => Ok(Fact(event)),
            Class::Decision | Class::Unknown => Err(event),
        }
    }

    /// The event inside.
    pub fn event(&self) -> &ArenaEvent {
        &self.0
    }

    /// Gives the event inside.
    pub fn into_event(self) -> ArenaEvent {
        self.0
    }
}

/// What the session is fed: a stamped fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Time of stamping in microseconds since the Unix epoch.
    pub at: u64,
    /// The redacted fact.
    pub fact: Fact,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_print_and_parse_alike() {
        for (text, seq, i) in [("e0", 0, 0), ("e42", 42, 0), ("e42.1", 42, 1)] {
            let parsed: EventRef = text.parse().unwrap();
            assert_eq!(parsed, EventRef { seq, i });
            assert_eq!(parsed.to_string(), text);
        }
        for bad in ["", "e", "42", "e4.", "e4.x", "e-1", "f3"] {
            assert!(bad.parse::<EventRef>().is_err(), "{bad}");
        }
    }
}

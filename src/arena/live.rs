//! Turns pushed pieces of live output into signals: counted, redacted, never waiting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::ports::{Live, SignalBus};
use crate::protocol::{CallId, Lane, Signal};

use super::redact::Redactor;

/// The live output of one attempt of one call.
pub(super) struct LiveSink {
    call: CallId,
    attempt: u32,
    bus: Arc<dyn SignalBus>,
    redactor: Arc<Redactor>,
    /// Per lane, bytes sent and text held back. Only the task of this call pushes; the lock is for `Sync`.
    lanes: Mutex<BTreeMap<Lane, Held>>,
    /// What was sent of the answer: all that is left of one that is cut off.
    said: Mutex<String>,
}

#[derive(Default)]
struct Held {
    sent: u64,
    text: String,
}

impl LiveSink {
    pub fn new(call: CallId, attempt: u32, bus: Arc<dyn SignalBus>, redactor: Arc<Redactor>) -> Self {
        LiveSink { call, attempt, bus, redactor, lanes: Mutex::default(), said: Mutex::default() }
    }

    /// Sends what was held back.
    pub fn finish(&self) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        for (lane, held) in lanes.iter_mut() {
            let rest = std::mem::take(&mut held.text);
            let rest = self.redactor.text(&rest).into_owned();
            self.send(*lane, held, rest);
        }
    }

    /// The answer as far as it came.
    pub fn said(&self) -> String {
        std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn send(&self, lane: Lane, held: &mut Held, text: String) {
        if text.is_empty() {
            return;
        }
        if lane == Lane::Text {
            self.said.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
        }
        let offset = held.sent;
        held.sent += text.len() as u64;
        self.bus.signal(Signal { call: self.call, attempt: self.attempt, lane, offset, text });
    }
}

impl Live for LiveSink {
    /// Holds back as many bytes as a secret could still be growing in.
    fn push(&self, lane: Lane, text: &str) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let held = lanes.entry(lane).or_default();
        if self.redactor.is_empty() {
            return self.send(lane, held, text.to_owned());
        }
        held.text.push_str(text);
        let ready = self.redactor.take_ready(&mut held.text);
        self.send(lane, held, ready);
    }
}

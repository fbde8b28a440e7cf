//! The text running calls have sent so far, pieced together from signals that may be lost; trusts no piece.

use std::collections::BTreeMap;

use crate::protocol::{CallId, Lane, Signal};

/// Bytes of a lane that are kept: its newest. The whole stands in the entry to come.
pub const KEPT_BYTES: usize = 64 * 1024;

/// Lanes kept at once; pieces of further ones are dropped.
pub const KEPT_LANES: usize = 256;

/// What one lane of a running call has said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partial {
    /// The attempt it belongs to.
    pub attempt: u32,
    /// Bytes of the lane before `text`: more than 0 once the beginning was let go.
    pub from: u64,
    /// The newest of what was said.
    pub text: String,
    /// True once a piece was missed: nothing is shown until the entry comes.
    broken: bool,
}

impl Partial {
    /// Appends the piece if it is the next one; a piece already held is passed over, a gap drops everything.
    fn take(&mut self, signal: &Signal) {
        let end = self.from + self.text.len() as u64;
        if self.broken || signal.offset < end {
            return;
        }
        if signal.offset > end {
            self.broken = true;
            self.text = String::new();
            return;
        }
        self.text.push_str(&signal.text);
        if self.text.len() > 2 * KEPT_BYTES {
            let cut = self.text.ceil_char_boundary(self.text.len() - KEPT_BYTES);
            self.text.drain(..cut);
            self.from += cut as u64;
        }
    }
}

/// The partials of all running calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partials {
    lanes: BTreeMap<(CallId, Lane), Partial>,
}

impl Partials {
    /// Takes a piece; a newer attempt starts its lane afresh, an older one is passed over.
    pub fn hint(&mut self, signal: &Signal) {
        let key = (signal.call, signal.lane);
        if self.lanes.len() >= KEPT_LANES && !self.lanes.contains_key(&key) {
            return;
        }
        let fresh = || Partial { attempt: signal.attempt, ..Partial::default() };
        let partial = self.lanes.entry(key).or_insert_with(fresh);
        if signal.attempt < partial.attempt {
            return;
        }
        if signal.attempt > partial.attempt {
            *partial = fresh();
        }
        partial.take(signal);
    }

    /// What was said, unless a piece was missed.
    pub fn get(&self, call: CallId, lane: Lane) -> Option<&Partial> {
        self.lanes.get(&(call, lane)).filter(|partial| !partial.broken)
    }

    /// Lets go of what a call said; its entry has the whole.
    pub fn forget(&mut self, call: CallId) {
        self.lanes.retain(|(of, _), _| *of != call);
    }

    /// Lets go of what earlier attempts of a call said.
    pub fn forget_before(&mut self, call: CallId, attempt: u32) {
        self.lanes.retain(|(of, _), partial| *of != call || partial.attempt >= attempt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(attempt: u32, offset: u64, text: &str) -> Signal {
        Signal { call: CallId(1), attempt, lane: Lane::Text, offset, text: text.to_owned() }
    }

    fn shown(pieces: &[Signal]) -> Option<String> {
        let mut partials = Partials::default();
        pieces.iter().for_each(|signal| partials.hint(signal));
        partials.get(CallId(1), Lane::Text).map(|partial| partial.text.clone())
    }

    #[test]
    fn pieces_join_and_a_gap_drops_them() {
        assert_eq!(shown(&[piece(1, 0, "añ"), piece(1, 3, "b")]).as_deref(), Some("añb"));
        assert_eq!(shown(&[piece(1, 0, "a"), piece(1, 0, "a"), piece(1, 1, "b")]).as_deref(), Some("ab"));
        assert_eq!(shown(&[piece(1, 0, "a"), piece(1, 5, "b"), piece(1, 6, "c")]), None);
        assert_eq!(shown(&[piece(1, 4, "late")]), None);
    }

    #[test]
    fn a_newer_attempt_starts_afresh() {
        assert_eq!(
            shown(&[piece(1, 0, "old"), piece(2, 0, "new"), piece(1, 3, "er")]).as_deref(),
            Some("new")
        );
        assert_eq!(shown(&[piece(1, 9, "gap"), piece(2, 0, "new")]).as_deref(), Some("new"));
    }

    #[test]
    fn memory_is_bounded_and_offsets_stay_true() {
        let mut partials = Partials::default();
        let text = "é".repeat(500);
        for n in 0..1_000 {
            partials.hint(&piece(1, n * 1_000, &text));
        }
        let partial = partials.get(CallId(1), Lane::Text).unwrap();
        assert!(partial.text.len() <= 2 * KEPT_BYTES);
        assert_eq!(partial.from + partial.text.len() as u64, 1_000_000);
        for n in 0..10_000 {
            partials.hint(&Signal { call: CallId(n), ..piece(1, 0, "x") });
        }
        assert_eq!(partials.lanes.len(), KEPT_LANES);
    }
}

//! A session as the screen holds it: its entries, the folds over them, and any earlier moment of them.

use std::sync::Arc;

use crate::projection::{Board, Costs, Gauge, Matrix, Reasons, Transcript};
use crate::protocol::{ArenaEvent, Entry, EventRef, Signal};

/// Entries between two kept moments: a jump folds at most this many.
const KEYFRAME: usize = 4_096;

/// The folds that have to be made again for another moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Moment {
    pub board: Board,
    pub costs: Costs,
    pub gauge: Gauge,
    pub matrix: Matrix,
}

impl Moment {
    pub fn apply(&mut self, entry: &Entry) {
        self.board.apply(entry);
        self.costs.apply(entry);
        self.gauge.apply(entry);
        self.matrix.apply(entry);
    }
}

/// A session: entries without gaps from 0, and what is folded from them.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub entries: Vec<Arc<Entry>>,
    pub now: Moment,
    pub transcript: Transcript,
    pub reasons: Reasons,
    keyframes: Vec<Moment>,
}

impl Record {
    /// Takes the next entry; one that is known already or comes out of order is passed over.
    pub fn apply(&mut self, entry: Arc<Entry>) -> bool {
        if entry.seq != self.entries.len() as u64 {
            return false;
        }
        if self.entries.len().is_multiple_of(KEYFRAME) {
            self.keyframes.push(self.now.clone());
        }
        self.now.apply(&entry);
        self.transcript.apply(&entry);
        self.reasons.apply(&entry);
        self.entries.push(entry);
        true
    }

    /// Takes a live piece.
    pub fn hint(&mut self, signal: &Signal) {
        self.now.board.hint(signal);
    }

    /// Finds an event.
    pub fn event(&self, at: EventRef) -> Option<&ArenaEvent> {
        self.entries.get(usize::try_from(at.seq).ok()?)?.events.get(usize::from(at.i))
    }

    /// Position of the last entry.
    pub fn last(&self) -> Option<u64> {
        (self.entries.len() as u64).checked_sub(1)
    }

    /// The folds as they were once entry `seq` was taken.
    pub fn moment(&self, seq: u64) -> Moment {
        let end = usize::try_from(seq).unwrap_or(usize::MAX).saturating_add(1).min(self.entries.len());
        let frame = (end / KEYFRAME).min(self.keyframes.len().saturating_sub(1));
        let mut moment = self.keyframes.get(frame).cloned().unwrap_or_default();
        let from = (frame * KEYFRAME).min(end);
        self.entries[from..end].iter().for_each(|entry| moment.apply(entry));
        moment
    }
}

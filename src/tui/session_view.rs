//! A session as the screen holds it: entries, the folds over them, and any earlier moment and item of them. What is
//! kept is bounded: entries are read again, items and moments are folded again from the nearest kept moment.

mod pages;

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::projection::board::OpenApproval;
use crate::projection::transcript::Item;
use crate::projection::turns::Struck;
use crate::projection::{Board, ContextUsage, Costs, Matrix, Reasons, Transcript};
use crate::protocol::{ArenaEvent, Entry, EventRef, Signal, SparkId};

pub use pages::EntrySource;
use pages::Pages;

/// Entries between two kept moments at first; twice as many whenever there are too many moments.
const STRIDE: u64 = 2_048;

/// Moments that are kept at most.
const MOMENTS: usize = 512;

/// Entries before a stretch in which causes of what is in it are looked for.
const BEFORE: u64 = 512;

/// Stretches whose items and causes are kept when they can be folded again.
const KEPT: usize = 4;

/// Ended sparks that a moment remembers.
const SPARKS: usize = 32;

/// The folds that have to be made again for another moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub board: Board,
    pub costs: Costs,
    pub gauge: ContextUsage,
    pub matrix: Matrix,
    pub struck: Struck,
}

impl Snapshot {
    pub fn apply(&mut self, entry: &Entry) {
        self.board.apply(entry);
        self.costs.apply(entry);
        self.gauge.apply(entry);
        self.matrix.apply(entry);
        self.struck.apply(entry);
        if self.board.sparks.len() > 2 * SPARKS {
            let oldest = self.board.sparks[self.board.sparks.len() - SPARKS].spark;
            self.board.forget(oldest);
            self.costs.forget(oldest);
            self.gauge.forget(oldest);
        }
    }
}

/// A stretch of the session: what was known before it, and, as long as somebody looks, what is in it.
#[derive(Debug, Default)]
struct Segment {
    /// Its first entry.
    from: u64,
    /// Items before it.
    items_before: usize,
    moment: Snapshot,
    /// Without items: only what is open.
    transcript: Transcript,
    items: OnceCell<Box<[Item]>>,
    reasons: OnceCell<Box<Reasons>>,
}

/// A session: entries without gaps, and what is folded from them.
#[derive(Debug)]
pub struct SessionView {
    pages: Pages,
    pub(super) now: Snapshot,
    /// True until the entries before the first one that is known are counted as well.
    is_counting: bool,
    stretches: Vec<Segment>,
    stride: u64,
    /// What is in the last stretch.
    transcript: Transcript,
    reasons: Reasons,
    /// What every spark is called.
    roles: BTreeMap<SparkId, Arc<str>>,
    /// Stretches that are there, those folded first first.
    there: RefCell<VecDeque<u64>>,
    can_read: bool,
}

impl Default for SessionView {
    fn default() -> Self {
        SessionView::begin(0, None)
    }
}

impl SessionView {
    /// An empty record whose entries are read again from a source; without one all are kept. A record that does not
    /// begin with the first entry is the end of one that is being counted.
    pub fn begin(first: u64, source: Option<Box<dyn EntrySource>>) -> Self {
        let can_read = source.is_some();
        let pages = Pages::from(first, source);
        SessionView {
            stretches: vec![Segment { from: pages.first(), ..Segment::default() }],
            is_counting: pages.first() > 0,
            pages,
            now: Snapshot::default(),
            stride: STRIDE,
            transcript: Transcript::default(),
            reasons: Reasons::default(),
            roles: BTreeMap::new(),
            there: RefCell::default(),
            can_read,
        }
    }

    /// Takes the next entry; one that is known already or comes out of order is passed over.
    pub fn apply(&mut self, entry: Arc<Entry>) -> bool {
        if entry.seq != self.pages.next() {
            return false;
        }
        if self.is_time() {
            self.close_stretch(entry.seq);
        }
        self.note_roles(&entry);
        self.now.apply(&entry);
        self.transcript.apply(&entry);
        self.reasons.apply(&entry);
        self.pages.push(entry);
        true
    }

    /// Turn after turn has the same few roles, so they are kept once.
    fn note_roles(&mut self, entry: &Entry) {
        for event in &entry.events {
            if let ArenaEvent::SparkIgnited(data) = event {
                let known = self.roles.values().rev().take(SPARKS).find(|role| ***role == *data.role);
                let role = known.map_or_else(|| Arc::from(data.role.as_str()), Arc::clone);
                self.roles.insert(data.spark, role);
            }
        }
    }

    /// A stretch ends where no tool call is open, so that every call is seen with its end; but not too late.
    fn is_time(&self) -> bool {
        let from = self.stretches.last().map_or(0, |stretch| stretch.from);
        let length = self.pages.next() - from;
        length >= self.stride && (self.transcript.is_settled() || length >= 4 * self.stride)
    }

    fn close_stretch(&mut self, next: u64) {
        let items = self.transcript.take_items().into_boxed_slice();
        let mut items_before = items.len();
        if let Some(last) = self.stretches.last_mut() {
            items_before += last.items_before;
            // The cells of the last stretch are empty: what is in it stood beside it.
            let _ = last.items.set(items);
            let _ = last.reasons.set(Box::new(std::mem::take(&mut self.reasons)));
            self.there.get_mut().push_back(last.from);
        }
        self.pages.each(next.saturating_sub(BEFORE)..next, |entry| self.reasons.apply(entry));
        let (moment, transcript) = (self.now.clone(), self.transcript.clone());
        self.stretches.push(Segment { from: next, items_before, moment, transcript, ..Segment::default() });
        if self.stretches.len() > MOMENTS {
            self.thin_out();
        }
        self.trim();
    }

    /// Every second stretch becomes part of the one before it.
    fn thin_out(&mut self) {
        self.stride *= 2;
        let last = self.stretches.len() - 1;
        let mut nth = 0;
        self.stretches.retain(|_| {
            nth += 1;
            nth % 2 == 1 || nth > last
        });
        for stretch in &mut self.stretches {
            (stretch.items, stretch.reasons) = Default::default();
        }
        self.there.get_mut().clear();
    }

    /// Drops what nobody looks at and what can be made again.
    pub(super) fn trim(&mut self) {
        self.pages.trim();
        if !self.can_read {
            return;
        }
        while self.there.get_mut().len() > KEPT {
            let Some(from) = self.there.get_mut().pop_front() else { return };
            if let Ok(at) = self.stretches.binary_search_by_key(&from, |stretch| stretch.from) {
                (self.stretches[at].items, self.stretches[at].reasons) = Default::default();
            }
        }
    }

    /// Approvals that wait for an answer, oldest first.
    pub fn approvals(&self) -> &[OpenApproval] {
        &self.now.board.approvals
    }

    /// Takes a live piece.
    pub(super) fn hint(&mut self, signal: &Signal) {
        self.now.board.hint(signal);
    }

    /// An entry.
    pub(super) fn entry(&self, seq: u64) -> Option<&Arc<Entry>> {
        self.pages.get(seq)
    }

    /// Shows entries one after another; what has to be read for it is not kept.
    pub(super) fn each(&self, range: Range<u64>, take: impl FnMut(&Arc<Entry>)) {
        self.pages.each(range, take);
    }

    /// Finds an event.
    pub(super) fn event(&self, at: EventRef) -> Option<&ArenaEvent> {
        self.entry(at.seq)?.events.get(usize::from(at.i))
    }

    /// Position of the last entry.
    pub fn last(&self) -> Option<u64> {
        self.pages.next().checked_sub(1).filter(|_| self.pages.next() > self.pages.first())
    }

    /// True for the end of a session the rest of which is being counted.
    pub fn is_counting(&self) -> bool {
        self.is_counting
    }

    /// Position of the first entry that is known.
    pub(super) fn first(&self) -> u64 {
        self.pages.first()
    }

    /// Position of the entry to come.
    pub fn next(&self) -> u64 {
        self.pages.next()
    }

    /// The folds as they were once entry `seq` was taken.
    pub(super) fn moment(&self, seq: u64) -> Snapshot {
        let Some(place) = self.place_of(seq) else { return Snapshot::default() };
        let stretch = &self.stretches[place];
        let mut moment = stretch.moment.clone();
        if place + 1 == self.stretches.len() || stretch.items.get().is_some() {
            self.pages.each(stretch.from..seq.saturating_add(1), |entry| moment.apply(entry));
            return moment;
        }
        // Whoever looks at a moment is shown its items next: what has to be read is read once for both.
        self.fold_again(place, |entry| {
            if entry.seq <= seq {
                moment.apply(entry);
            }
        });
        moment
    }

    /// Makes what is in a stretch again, and shows each of its entries on the way.
    fn fold_again(&self, place: usize, mut look: impl FnMut(&Entry)) {
        let (stretch, range) = (&self.stretches[place], self.range(place));
        let mut transcript = stretch.transcript.clone();
        let mut reasons = Box::<Reasons>::default();
        self.pages.each(range.start.saturating_sub(BEFORE)..range.end, |entry| {
            reasons.apply(entry);
            if entry.seq >= range.start {
                look(entry);
                transcript.apply(entry);
            }
        });
        // Both are set and dropped together, and both are gone when this is asked for.
        let _ = stretch.items.set(transcript.take_items().into_boxed_slice());
        let _ = stretch.reasons.set(reasons);
        self.there.borrow_mut().push_back(stretch.from);
    }

    fn place_of(&self, seq: u64) -> Option<usize> {
        self.stretches.partition_point(|stretch| stretch.from <= seq).checked_sub(1)
    }

    /// The entries of a stretch.
    fn range(&self, place: usize) -> Range<u64> {
        let end = self.stretches.get(place + 1).map_or(self.pages.next(), |next| next.from);
        self.stretches[place].from..end
    }

    /// The items of a stretch.
    fn items_of(&self, place: usize) -> &[Item] {
        if place + 1 == self.stretches.len() {
            return &self.transcript.items;
        }
        let stretch = &self.stretches[place];
        if stretch.items.get().is_none() {
            self.fold_again(place, |_| {});
        }
        stretch.items.get().map_or(&[], |items| items)
    }

    /// How many items there are, or were once entry `cut` was taken.
    pub(super) fn count_items(&self, cut: Option<u64>) -> usize {
        let Some(place) = self.place_of(cut.unwrap_or(u64::MAX)) else { return 0 };
        let items = self.items_of(place);
        let within = cut.map_or(items.len(), |cut| items.partition_point(|item| item.source.seq <= cut));
        self.stretches[place].items_before + within
    }

    /// An item by its number.
    pub(super) fn item(&self, at: usize) -> Option<&Item> {
        let place = self.stretches.partition_point(|stretch| stretch.items_before <= at).checked_sub(1)?;
        self.items_of(place).get(at - self.stretches[place].items_before)
    }

    /// Why what happened around an event happened.
    pub(super) fn reasons(&self, seq: u64) -> &Reasons {
        let place = self.place_of(seq).unwrap_or(0);
        if place + 1 == self.stretches.len() {
            return &self.reasons;
        }
        let stretch = &self.stretches[place];
        if stretch.reasons.get().is_none() {
            self.fold_again(place, |_| {});
        }
        stretch.reasons.get().map_or(&self.reasons, |reasons| reasons)
    }

    /// What a spark is called: its role, whether or not a moment remembers it.
    pub(super) fn role(&self, spark: SparkId) -> Option<&str> {
        self.roles.get(&spark).map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests;

//! Entries by position: those looked at last are kept, the others are read again from where they are recorded.

use std::cell::{OnceCell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::protocol::Entry;

/// Entries of a page.
const PAGE: u64 = 64;

/// Entries that are read at once at most, to be folded and not kept.
const AT_ONCE: u64 = 1_024;

/// Pages that are kept when they can be read again.
const KEPT: usize = 48;

/// Where recorded entries are read from again.
pub trait EntrySource: Send {
    /// The entries of these positions, in order; what cannot be read is left out from there on.
    fn read(&self, range: Range<u64>) -> Vec<Arc<Entry>>;
}

/// A page that was read, or not yet.
type Page = OnceCell<Box<[Arc<Entry>]>>;

/// Entries without gaps from the first one that is known.
#[derive(Default)]
pub(super) struct Pages {
    source: Option<Box<dyn EntrySource>>,
    /// Position of the first entry that is known.
    first: u64,
    /// Position of the entry to come.
    next: u64,
    /// Whole pages, from the page of `first` on.
    pages: Vec<Page>,
    /// Pages that are there, those read first first.
    there: RefCell<VecDeque<usize>>,
    /// Entries of the page that is not whole yet.
    fresh: Vec<Arc<Entry>>,
}

impl Pages {
    /// Pages that begin at an entry, which must be the first of a page.
    pub fn from(first: u64, source: Option<Box<dyn EntrySource>>) -> Self {
        let first = first / PAGE * PAGE;
        Pages { source, first, next: first, ..Pages::default() }
    }

    pub fn first(&self) -> u64 {
        self.first
    }

    pub fn next(&self) -> u64 {
        self.next
    }

    /// Takes the entry to come.
    pub fn push(&mut self, entry: Arc<Entry>) {
        self.fresh.push(entry);
        self.next += 1;
        if self.fresh.len() as u64 == PAGE {
            let page = Page::new();
            // A new cell is empty.
            let _ = page.set(std::mem::take(&mut self.fresh).into_boxed_slice());
            self.there.borrow_mut().push_back(self.pages.len());
            self.pages.push(page);
            self.trim();
        }
    }

    /// An entry, read again when it was dropped.
    pub fn get(&self, seq: u64) -> Option<&Arc<Entry>> {
        let at = usize::try_from(seq.checked_sub(self.first)? / PAGE).ok()?;
        let within = usize::try_from(seq % PAGE).ok()?;
        let Some(page) = self.pages.get(at) else {
            return if at == self.pages.len() { self.fresh.get(within) } else { None };
        };
        page.get_or_init(|| {
            self.there.borrow_mut().push_back(at);
            let from = self.first + at as u64 * PAGE;
            let source = self.source.as_ref();
            source.map(|source| source.read(from..from + PAGE)).unwrap_or_default().into_boxed_slice()
        })
        .get(within)
    }

    /// Hands entries out one after another without keeping what has to be read for it.
    pub fn each(&self, range: Range<u64>, mut take: impl FnMut(&Arc<Entry>)) {
        let mut seq = range.start.max(self.first);
        let end = range.end.min(self.next);
        while seq < end {
            let is_there = self.is_there(seq);
            let mut stop = (seq / PAGE * PAGE + PAGE).min(end);
            while !is_there && stop < end.min(seq + AT_ONCE) && !self.is_there(stop) {
                stop = (stop + PAGE).min(end);
            }
            match self.source.as_ref().filter(|_| !is_there) {
                Some(source) => source.read(seq..stop).iter().for_each(&mut take),
                None => (seq..stop).filter_map(|seq| self.get(seq)).for_each(&mut take),
            }
            seq = stop;
        }
    }

    /// True when the page of an entry need not be read.
    fn is_there(&self, seq: u64) -> bool {
        let at = usize::try_from((seq - self.first) / PAGE).unwrap_or(usize::MAX);
        self.pages.get(at).is_none_or(|page| page.get().is_some())
    }

    /// Drops the pages that were read first, as far as they can be read again.
    pub fn trim(&mut self) {
        if self.source.is_none() {
            return;
        }
        let there = self.there.get_mut();
        while there.len() > KEPT {
            if let Some(page) = there.pop_front().and_then(|at| self.pages.get_mut(at)) {
                drop(page.take());
            }
        }
    }
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "e{} to e{}", self.first, self.next)
    }
}

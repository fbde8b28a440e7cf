//! Whatever is dropped and made again is what it was.

use std::ops::Range;
use std::sync::Arc;

use super::{EntrySource, SPARKS, STRIDE, SessionView};
use crate::protocol::{ArenaEvent, Entry, EventRef, SparkId};

#[path = "../../../tests/it/support/long.rs"]
mod long;

/// A long session: the demo's turns over and over.
#[derive(Clone)]
struct Long(Arc<Vec<Arc<Entry>>>);

impl Long {
    fn of(least: usize) -> Self {
        let text = include_str!("../../../tests/golden/earlier/demo-run.jsonl");
        let entries = long::entries(text, least as u64);
        let entries =
            entries.map(|entry| Arc::new(serde_json::from_value::<Entry>(entry).unwrap())).collect();
        Long(Arc::new(entries))
    }

    fn record(&self, first: usize) -> SessionView {
        let mut record = SessionView::begin(first as u64, Some(Box::new(self.clone())));
        let first = usize::try_from(record.first()).unwrap();
        self.0[first..].iter().for_each(|entry| assert!(record.apply(Arc::clone(entry))));
        record
    }
}

impl EntrySource for Long {
    fn read(&self, range: Range<u64>) -> Vec<Arc<Entry>> {
        let at = |seq: u64| usize::try_from(seq).unwrap().min(self.0.len());
        self.0[at(range.start)..at(range.end)].to_vec()
    }
}

#[test]
fn entries_items_and_causes_are_the_same_again() {
    let long = Long::of(3 * usize::try_from(STRIDE).unwrap());
    let mut bounded = long.record(0);
    let mut whole = SessionView::default();
    long.0.iter().for_each(|entry| assert!(whole.apply(Arc::clone(entry))));
    assert!(bounded.stretches.len() >= 3);
    assert_eq!(bounded.count_items(None), whole.count_items(None));
    for at in (0..whole.count_items(None)).step_by(37) {
        assert_eq!(bounded.item(at), whole.item(at), "{at}");
        bounded.trim();
    }
    for seq in (0..whole.next()).rev().step_by(611) {
        assert_eq!(bounded.entry(seq), whole.entry(seq));
        assert_eq!(bounded.count_items(Some(seq)), whole.count_items(Some(seq)), "e{seq}");
        assert_eq!(bounded.moment(seq).board, whole.moment(seq).board, "e{seq}");
        let last = EventRef { seq, i: 0 };
        assert_eq!(bounded.reasons(seq).direct(last), whole.reasons(seq).direct(last), "e{seq}");
        bounded.trim();
    }
    let there = bounded.pages.get(0).map(|entry| entry.events.first().map(ArenaEvent::kind));
    assert_eq!(there, Some(Some("session_opened")));
}

#[test]
fn every_spark_keeps_its_name() {
    let record = Long::of(2 * usize::try_from(STRIDE).unwrap()).record(0);
    let events = (0..record.next()).flat_map(|seq| record.entry(seq).unwrap().events.iter());
    let sparks: Vec<SparkId> = events
        .filter_map(|event| match event {
            ArenaEvent::SparkIgnited(data) => Some(data.spark),
            _ => None,
        })
        .collect();
    assert!(sparks.len() > 2 * SPARKS, "{}", sparks.len());
    let nameless: Vec<_> = sparks.into_iter().filter(|spark| record.role(*spark) != Some("solo")).collect();
    assert_eq!(nameless, []);
}

#[test]
fn the_end_of_a_session_is_seen_before_all_of_it_is_counted() {
    let long = Long::of(2_000);
    let end = long.record(1_900);
    assert!(end.is_counting() && end.first() <= 1_900 && end.entry(3).is_none());
    assert_eq!(end.last(), long.record(0).last());
    let whole = long.record(0);
    let newest = |record: &SessionView| record.item(record.count_items(None) - 1).copied();
    assert_eq!(newest(&end), newest(&whole));
}

//! A session too long to be held: its end is there at once, the rest is counted, and any moment is a jump away.

use std::ops::Range;
use std::sync::Arc;

use agon::protocol::Entry;
use agon::tui::{EntrySource, Msg, SessionView, State, update};
use ratatui::crossterm::event::KeyCode::{Enter, Tab};

use super::made::{key, profile, shown, typed};
use crate::support::long;

#[derive(Clone)]
struct Long(Arc<Vec<Arc<Entry>>>);

impl EntrySource for Long {
    fn read(&self, range: Range<u64>) -> Vec<Arc<Entry>> {
        let at = |seq: u64| usize::try_from(seq).unwrap().min(self.0.len());
        self.0[at(range.start)..at(range.end)].to_vec()
    }
}

#[test]
fn the_end_is_seen_first_and_stays_where_it_is_when_all_is_counted() {
    let recorded = include_str!("../../golden/earlier/demo-run.jsonl");
    let read = |entry| Arc::new(serde_json::from_value::<Entry>(entry).unwrap());
    let long = Long(Arc::new(long::entries(recorded, 12_000).map(read).collect()));
    let count = long.0.len() as u64;
    let record = |first: u64| {
        let source: Option<Box<dyn EntrySource>> =
            (first == 0).then(|| Box::new(long.clone()) as Box<dyn EntrySource>);
        let mut record = SessionView::begin(first, source);
        long.read(first..count).into_iter().for_each(|entry| assert!(record.apply(entry)));
        Box::new(record)
    };
    let mut state = State::new(profile(), 100, 30);
    let _ =
        update(&mut state, Msg::SessionView { record: record(11_520), is_live: false, is_elsewhere: false });
    let end = shown(&state, 100, 30);
    assert!(end.contains("counting…") && end.contains(&format!("record e{}", count - 1)), "{end}");
    let _ = update(&mut state, key(Tab));
    for _ in 0..30 {
        let _ = typed(&mut state, "k");
    }
    let above = shown(&state, 100, 30);
    let _ = update(&mut state, Msg::SessionView { record: record(0), is_live: false, is_elsewhere: false });
    let counted = shown(&state, 100, 30);
    assert!(!counted.contains("counting…"), "{counted}");
    let story = |text: &str| text.lines().skip(3).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(story(&counted), story(&above));
    for seq in [17, 5_000, 11_999, 4] {
        let _ = typed(&mut state, &format!("g{seq}"));
        let _ = update(&mut state, key(Enter));
        let text = shown(&state, 100, 30);
        assert!(text.contains(&format!("◀ e{seq}")), "{text}");
    }
}

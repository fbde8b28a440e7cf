//! Records for the screen: read whole in the background, their end at once when they are long, and followed while
//! another process writes them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::cli::error::Failure;
use crate::host::RandomAccessLog;
use crate::protocol::Entry;
use crate::tui::{EntrySource, SessionView};

use super::session_options::SessionOptions;

/// Bytes of a log that is read whole before it is shown.
const SHORT: u64 = 2 << 20;

/// Bytes of a long log's end that are shown first.
const END: u64 = 512 << 10;

/// Entries a screen numbers its pages by.
const PAGE: u64 = 64;

/// How often a log that another process writes is looked at.
pub(super) const PACE: Duration = Duration::from_millis(500);

struct OnDisk(Arc<RandomAccessLog>);

impl EntrySource for OnDisk {
    fn read(&self, range: Range<u64>) -> Vec<Arc<Entry>> {
        self.0.entries(range)
    }
}

/// A record that was read, whole or its end.
pub(super) struct Seen {
    pub id: String,
    pub record: SessionView,
    /// What stopped the reading.
    pub fault: Option<String>,
    /// True when another process is at work on it.
    pub is_elsewhere: bool,
}

/// Reads a session: whole when it is short, else its end.
pub(super) fn look(kit: &SessionOptions, name: &str) -> Result<Seen, Failure> {
    let sessions = kit.sessions();
    let id = sessions.find(name)?;
    let source = sessions.log_entries(name)?;
    if source.size()? <= SHORT {
        return whole(kit, name, &AtomicBool::new(false));
    }
    let entries = source.end(END)?;
    let Some(first) = entries.iter().find(|entry| entry.seq.is_multiple_of(PAGE)).map(|entry| entry.seq)
    else {
        return whole(kit, name, &AtomicBool::new(false));
    };
    let mut record = SessionView::begin(first, None);
    for entry in entries.into_iter().filter(|entry| entry.seq >= first) {
        record.apply(entry);
    }
    Ok(Seen { is_elsewhere: false, id, record, fault: None })
}

/// Reads and checks a whole session; stops early when nobody wants it any more.
pub(super) fn whole(kit: &SessionOptions, name: &str, is_unwanted: &AtomicBool) -> Result<Seen, Failure> {
    let sessions = kit.sessions();
    let id = sessions.find(name)?;
    let source = Arc::new(sessions.log_entries(name)?);
    let mut record = SessionView::begin(0, Some(Box::new(OnDisk(Arc::clone(&source)))));
    let fault = sessions.scan(name, &mut |entry| {
        record.apply(Arc::new(entry));
        !is_unwanted.load(Ordering::Relaxed)
    })?;
    source.find_places()?;
    let is_elsewhere = sessions.standing(&id).is_held();
    Ok(Seen { id, record, fault: fault.map(|fault| fault.to_string()), is_elsewhere })
}

/// The empty record of a session that runs here.
pub(super) fn live(kit: &SessionOptions, id: &str) -> Result<SessionView, Failure> {
    Ok(SessionView::begin(0, Some(Box::new(OnDisk(Arc::new(kit.sessions().log_entries(id)?))))))
}

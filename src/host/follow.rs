//! Watching recorded sessions: one that another process writes, and the newest of a workspace.

use std::path::Path;
use std::sync::Arc;

use super::Host;
use crate::assembly::{RandomAccessLog, Sessions, WireError};
use crate::protocol::{ArenaEvent, Entry};

/// Entries that are read at once at most.
const AT_ONCE: u64 = 1_024;

/// A log that another process writes.
pub struct Follow {
    source: RandomAccessLog,
    next: u64,
    sessions: Arc<Sessions>,
    id: String,
}

impl Host {
    /// Follows a session that another process writes, from an entry on.
    pub fn follow(&self, id: &str, next: u64) -> Result<Follow, WireError> {
        let (source, sessions) = (self.sessions.log_entries(id)?, Arc::clone(&self.sessions));
        Ok(Follow { source, next, sessions, id: id.to_owned() })
    }

    /// The newest session of a workspace, or fork of one.
    pub fn newest_in(&self, workspace: &Path) -> Result<Option<String>, WireError> {
        self.sessions.newest_for(workspace)
    }
}

impl Follow {
    /// The entries that were added, and true when more may come.
    pub fn read_on(&mut self) -> (Vec<Arc<Entry>>, bool) {
        let entries = self.source.entries(self.next..self.next + AT_ONCE);
        self.next += entries.len() as u64;
        let is_over = |event: &ArenaEvent| matches!(event, ArenaEvent::SessionSealed(_));
        // The process that wrote it may be gone without a word.
        let is_gone = entries.is_empty() && !self.sessions.standing(&self.id).is_held();
        let goes_on = !is_gone && !entries.iter().any(|entry| entry.events.iter().any(is_over));
        (entries, goes_on)
    }
}

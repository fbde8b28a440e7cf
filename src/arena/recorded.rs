//! A recorded session as an arena takes it up: folded entry by entry, so that no log is ever held whole.

use std::sync::Arc;

use crate::protocol::Entry;
use crate::protocol::event::ArenaEvent;
use crate::session::convergence::Scorers;
use crate::session::{OutOfOrder, Session};

use super::{ArenaError, replay};

/// Everything an arena needs of the entries before it.
pub struct Recorded {
    session: Session,
    /// Microseconds that were worked on the open turn, and when the last entry was made.
    active: u64,
    last: Option<u64>,
    /// The first entry of a newer program, and what is not known of it.
    newer: Option<(u64, String)>,
    /// Each scorer that a debate names, with the entry that names it first.
    scorers: Vec<(u64, String)>,
    broken: Option<OutOfOrder>,
}

impl Default for Recorded {
    /// Before the first entry.
    fn default() -> Self {
        let session = Session::new();
        Recorded { session, active: 0, last: None, newer: None, scorers: Vec::new(), broken: None }
    }
}

impl Recorded {
    /// Takes the next entry. What keeps a session from being taken up is told when that is tried.
    pub fn apply(&mut self, entry: &Arc<Entry>) {
        if self.newer.is_none() {
            self.newer = entry.newer().map(|what| (entry.seq, what.into_owned()));
        }
        if let Some(name) = replay::scorer_in(entry)
            && self.scorers.iter().all(|(_, known)| known != name)
        {
            self.scorers.push((entry.seq, name.to_owned()));
        }
        self.count(entry);
        self.broken = self.session.apply(entry).err().or(self.broken.take());
    }

    /// Time between the entries of a turn counts, but for the gaps in which no process ran, and for those that are longer
    /// than the whole limit: the turn would have ended, so that the clock was set or the machine slept.
    fn count(&mut self, entry: &Entry) {
        use ArenaEvent as E;
        let limit = self.session.spec().and_then(|spec| spec.limits.max_seconds);
        let longest = limit.map_or(u64::MAX, |seconds| seconds.saturating_mul(1_000_000));
        let gap = entry.at.saturating_sub(self.last.unwrap_or(entry.at));
        let gap = Some(gap).filter(|gap| *gap <= longest).unwrap_or_default();
        match entry.fact() {
            None => return,
            Some(E::PromptGiven(_)) if !entry.is_void() => self.active = 0,
            // No process ran before these.
            Some(E::SessionResumed(_) | E::SessionForked(_) | E::FaultRecovered(_)) => {}
            Some(_) => self.active += gap,
        }
        self.last = Some(entry.at);
    }

    /// The session as it was left.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Active milliseconds of the open turn.
    pub fn active_ms(&self) -> u64 {
        self.active / 1000
    }

    /// The session, to be gone on with by these scorers.
    pub fn into_session(self, scorers: &Scorers) -> Result<Session, ArenaError> {
        if let Some((seq, kind)) = self.newer {
            return Err(ArenaError::Newer(seq, kind));
        }
        if let Some((seq, name)) = self.scorers.into_iter().find(|(_, name)| scorers.get(name).is_none()) {
            return Err(ArenaError::NoScorer(seq, name));
        }
        match self.broken {
            Some(broken) => Err(broken.into()),
            None => Ok(self.session.with_scorers(scorers.clone())),
        }
    }
}

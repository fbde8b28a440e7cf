//! What the host knows of an open session, folded from each acknowledged entry before any front end hears of it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::assembly::{WireError, WorkspaceLock};
use crate::ports::{SignalBus, Subscription};
use crate::projection::Board;
use crate::protocol::spec::PermissionLevel;
use crate::protocol::{ArenaEvent, Entry, Signal};

/// A bus that folds what passes. While a turn is open it keeps others who write out of the workspace.
pub(super) struct SessionState {
    bus: Arc<dyn SignalBus>,
    now: Mutex<Now>,
    /// State folder and workspace of a session whose turns may write.
    writes_in: Option<(PathBuf, PathBuf)>,
}

struct Now {
    board: Board,
    lock: Option<WorkspaceLock>,
    /// Tasks that are being handed in.
    pending: usize,
}

impl Now {
    fn let_go(&mut self) {
        if self.pending == 0 && !self.board.has_open_turn() {
            self.lock = None;
        }
    }
}

impl SessionState {
    /// A session as it was left. `lock` is none for one that never writes.
    pub fn new(
        bus: Arc<dyn SignalBus>,
        board: Board,
        (lock, state, root): (Option<WorkspaceLock>, PathBuf, PathBuf),
    ) -> Self {
        let writes_in = lock.is_some().then_some((state, root));
        let lock = lock.filter(WorkspaceLock::is_held);
        SessionState { bus, now: Mutex::new(Now { board, lock, pending: 0 }), writes_in }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets others write: nothing runs here any more.
    pub fn end(&self) {
        self.now().lock = None;
    }

    /// Looks at how the session is.
    pub fn look<T>(&self, look: impl FnOnce(&Board) -> T) -> T {
        look(&self.now().board)
    }

    /// Keeps others who write out of the workspace for the turn to come; without a turn that follows, until the
    /// returned value is dropped. At the level `plan` nothing is written, and no other session is kept out; `level` is the one it
    /// is about to have, else it is that of the session.
    pub fn hold(&self, level: Option<PermissionLevel>) -> Result<Pending<'_>, WireError> {
        let mut now = self.now();
        let reads_only = level.unwrap_or(now.board.permission) == PermissionLevel::Plan;
        if let (Some((state, root)), None, false) = (&self.writes_in, &now.lock, reads_only) {
            now.lock = Some(WorkspaceLock::take(state, root)?);
        }
        now.pending += 1;
        Ok(Pending(self))
    }
}

/// A task that is being handed in.
pub(super) struct Pending<'a>(&'a SessionState);

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let mut now = self.0.now();
        now.pending -= 1;
        now.let_go();
    }
}

impl SignalBus for SessionState {
    fn publish(&self, entry: Arc<Entry>) {
        let mut now = self.now();
        now.board.apply(&entry);
        // A short turn opens and closes in one entry.
        if entry.effective().any(|(_, event)| matches!(event, ArenaEvent::TurnClosed(_))) {
            now.let_go();
        }
        drop(now);
        self.bus.publish(entry);
    }

    fn signal(&self, signal: Signal) {
        self.bus.signal(signal);
    }

    fn subscribe(&self) -> Subscription {
        self.bus.subscribe()
    }
}

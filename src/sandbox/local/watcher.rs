//! Watches over the protected names at the workspace's top while commands run: those that are absent are kept
//! absent; knows no process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::crash_journal::Note;
use super::super::link_targets::Leads;
use super::super::masks::FoundPaths;
use super::super::mount_stubs::Placeholder;
use super::super::protected::ProtectedNames;
use super::super::protected_snapshot::{self, Maker, ProtectedSnapshot};
use super::masks::{self, Covers};
use super::plan::CoverKind;

/// Folders whose name alone would steer git or agon. Where one is absent, an empty one is put there during a
/// call, with a cover on it.
const FOLDERS: [&str; 2] = [".git", ".agon"];

/// Keeps one workspace.
pub struct Watcher {
    root: PathBuf,
    /// A folder of ours in which a link to each folder that was put there stands, for whoever clears up after us.
    notes: PathBuf,
    /// Where calls are noted that run; none where nobody settles them.
    calls: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Calls that are running.
    calls: usize,
    /// Folders that were put there, by us or by another agon.
    placed: Vec<(&'static str, Placeholder)>,
}

/// A call that is running.
pub struct Call<'k> {
    keeper: &'k Watcher,
    /// How protected names stood when it began.
    before: ProtectedSnapshot,
    note: Option<Note>,
    ended: bool,
}

impl Watcher {
    /// Of this workspace.
    pub fn of(root: &Path, notes: &Path, calls: Option<PathBuf>) -> Self {
        Watcher { root: root.to_owned(), notes: notes.to_owned(), calls, state: Mutex::default() }
    }

    /// Takes the folders away that a keeper put there which is gone without having cleared.
    pub fn clear_after(notes: &Path) {
        for name in FOLDERS {
            if let Ok(placed) = fs::read_link(notes.join(note(name))) {
                Placeholder::clear(&placed);
            }
        }
    }

    /// A call begins. Dropped without [`Call::end`] its processes may still be dying, so nothing is cleared yet.
    /// `found` is what is covered further down.
    pub fn begin(&self, found: &FoundPaths) -> Result<Call<'_>, String> {
        let mut state = self.state();
        for name in FOLDERS {
            // In a workspace that cannot be written there is nothing to keep either.
            let folder = self.root.join(name);
            if state.placed.iter().any(|(placed, _)| *placed == name) {
                continue;
            }
            if let Some(placed) = Placeholder::hold(&folder) {
                // Without the note it would only stay longer.
                let _ = std::os::unix::fs::symlink(&folder, self.notes.join(note(name)));
                state.placed.push((name, placed));
            }
        }
        state.calls += 1;
        drop(state);
        // What was put there counts as there: it is no name that a command makes.
        let mut call = Call {
            keeper: self,
            before: ProtectedSnapshot::now(&self.root, found),
            note: None,
            ended: false,
        };
        if let Some(calls) = &self.calls {
            call.note = Some(Note::write(calls, &self.root, &call.before)?);
        }
        Ok(call)
    }

    /// Covers the protected names at the top as they are now as well.
    pub fn cover(&self, covers: &mut Covers, protected: &ProtectedNames) {
        for path in protected_snapshot::protected_now(&self.root, protected) {
            let targets = Leads::of(&self.root, &path).targets;
            for path in std::iter::once(path).chain(targets) {
                masks::add(covers, path, CoverKind::ReadOnly);
            }
        }
    }

    /// Takes the empty folders away again, unless a call is running.
    pub fn clear(&self) {
        let mut state = self.state();
        if state.calls == 0 {
            for (name, placed) in state.placed.drain(..) {
                drop(placed);
                let _ = fs::remove_file(self.notes.join(note(name)));
            }
        }
    }

    /// The same at the end of a session.
    pub fn close(&self) {
        self.clear();
        if self.state().calls == 0 {
            FOLDERS.iter().for_each(|name| Placeholder::sweep(&self.root.join(name)));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note(name: &str) -> String {
    format!("placed{name}")
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.close();
    }
}

impl Call<'_> {
    /// The call has ended with all its processes. Protected names that it made are renamed, so that nobody takes
    /// them for what they are not; gives a line for each.
    pub fn end(mut self) -> Vec<String> {
        self.ended = true;
        let moved = protected_snapshot::set_aside(&self.keeper.root, &self.before, Maker::ThisCommand);
        if let Some(note) = self.note.take() {
            note.done(&moved);
        }
        moved.lines
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.keeper.state().calls -= 1;
        if self.ended {
            self.keeper.clear();
        }
    }
}

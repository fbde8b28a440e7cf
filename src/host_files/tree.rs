//! Walks a tree of folders on all cores. Each folder is opened once, relative to the one it is in, and never through a
//! link; what the rules of the tree leave out is not looked into.

use std::ffi::{CStr, CString, OsStr};
use std::num::NonZero;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use super::rules::Rules;

/// Most threads of a walk.
const MOST_THREADS: usize = 16;

/// Names of a folder that one thread takes at a time.
const AT_ONCE: usize = 512;

/// Names of files and folders that rules are read from.
const RULES: [&[u8]; 3] = [b".gitignore", b".ignore", b".git"];

/// What a walk has come by.
pub struct Found<'a> {
    /// Relative to the root of the tree.
    pub path: &'a Path,
    /// What it is; a link is a link.
    pub kind: FileType,
    /// The folder it is in, open.
    pub folder: BorrowedFd<'a>,
    /// Its name in there.
    pub name: &'a OsStr,
}

/// What is walked, and what becomes of it.
#[derive(Clone, Copy)]
pub struct Tree<'a> {
    /// Where the tree is; its rules are read from there on.
    pub root: &'a Path,
    /// Whether a name is looked at.
    pub keeps: &'a (dyn Fn(&OsStr) -> bool + Sync),
    /// Takes what is found, from several threads and in no order. A folder is left out where it says false.
    pub visit: &'a (dyn Fn(&Found<'_>) -> bool + Sync),
    /// When the walk ends, finished or not.
    pub until: Option<Instant>,
}

/// The names in a folder, with what each is.
type Names = Vec<(CString, FileType)>;

/// A folder, or a part of one, that waits.
struct Waiting {
    what: What,
    path: PathBuf,
    /// The rules above it; of a part, its own.
    above: Option<Arc<Rules>>,
}

enum What {
    Open(OwnedFd),
    Within(Arc<Dir>, CString),
    Part(Arc<Dir>, Names),
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    /// Folders that are being looked at.
    busy: usize,
}

/// One folder is no longer being looked at when this goes, however it goes.
struct Busy<'q>(&'q Queue);

impl Tree<'_> {
    /// Walks the open folder that is at `path` under the root. False when it was not finished in time.
    pub fn walk(&self, folder: OwnedFd, path: &Path, above: Option<Arc<Rules>>) -> bool {
        let (queue, is_late) = (Queue::default(), AtomicBool::new(false));
        let first = Waiting { what: What::Open(folder), path: path.to_owned(), above };
        queue.lock().waiting.push(first);
        let work = || {
            while let Some((next, busy)) = queue.next() {
                if self.until.is_some_and(|until| Instant::now() > until) {
                    is_late.store(true, Ordering::Relaxed);
                }
                // What cannot be opened or read any more is passed over.
                let more = if is_late.load(Ordering::Relaxed) { None } else { self.look(next) };
                queue.lock().waiting.extend(more.unwrap_or_default());
                drop(busy);
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        !is_late.into_inner()
    }

    /// Looks through one folder, or a part of one, and gives what is to be looked through then.
    fn look(&self, Waiting { what, path, above }: Waiting) -> Option<Vec<Waiting>> {
        let absolute = self.root.join(&path);
        let mut more = Vec::new();
        let (folder, mut names, rules) = match what {
            What::Part(folder, names) => (folder, names, above?),
            // A process that has it open may have read it already, and shares its place with us.
            What::Open(folder) => opened(&folder, c".", above, &absolute)?,
            What::Within(within, name) => opened(within.fd().ok()?, &name, above, &absolute)?,
        };
        while names.len() > AT_ONCE {
            let part = names.split_off((names.len() - 1) / AT_ONCE * AT_ONCE);
            let what = What::Part(Arc::clone(&folder), part);
            more.push(Waiting { what, path: path.clone(), above: Some(Arc::clone(&rules)) });
        }
        let parts = more.len();
        for (name, kind) in names {
            let os = OsStr::from_bytes(name.to_bytes());
            let Some(kind) = kind_of(&folder, &name, kind).filter(|_| (self.keeps)(os)) else { continue };
            let is_folder = kind == FileType::Directory;
            if rules.ignore(&absolute.join(os), is_folder) {
                continue;
            }
            let path = path.join(os);
            let found = Found { path: &path, kind, folder: folder.fd().ok()?, name: os };
            if (self.visit)(&found) && is_folder {
                let what = What::Within(Arc::clone(&folder), name);
                more.push(Waiting { what, path, above: Some(Arc::clone(&rules)) });
            }
        }
        more[parts..].reverse();
        Some(more)
    }
}

/// A folder's open names and the rules in it. The smallest name comes first where one thread works, so that a search
/// that needs only the first can end.
fn opened(
    within: impl AsFd,
    name: &CStr,
    above: Option<Arc<Rules>>,
    absolute: &Path,
) -> Option<(Arc<Dir>, Names, Arc<Rules>)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = Dir::new(rustix::fs::openat(within, name, flags, Mode::empty()).ok()?).ok()?;
    let mut names: Names = Vec::new();
    while let Some(Ok(entry)) = folder.read() {
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    names.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let has_rules = above.is_none() || names.iter().any(|(name, _)| RULES.contains(&name.to_bytes()));
    let rules = if has_rules { Rules::within(above, absolute) } else { above? };
    Some((Arc::new(folder), names, rules))
}

/// Some file systems do not say the kind beside the name.
fn kind_of(folder: &Dir, name: &CString, kind: FileType) -> Option<FileType> {
    if kind != FileType::Unknown {
        return Some(kind);
    }
    let stat = rustix::fs::statat(folder.fd().ok()?, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is next; nothing when nothing waits and nothing is being looked at.
    fn next(&self) -> Option<(Waiting, Busy<'_>)> {
        let mut state = self.lock();
        loop {
            if let Some(folder) = state.waiting.pop() {
                state.busy += 1;
                return Some((folder, Busy(self)));
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.lock().busy -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::time::Duration;

    fn walked(root: &Path, until: Instant) -> (BTreeSet<String>, bool) {
        let all = Mutex::new(BTreeSet::new());
        let visit = |found: &Found<'_>| {
            let name = found.path.to_string_lossy().into_owned();
            assert!(all.lock().unwrap().insert(name), "each is found once");
            !found.path.ends_with("shut")
        };
        let tree = Tree { root, keeps: &|name| name != ".git", visit: &visit, until: Some(until) };
        let folder = fs::File::open(root).unwrap();
        // Twice, by the same open folder: its second reader finds as much.
        let _ =
            Tree { visit: &|_| true, ..tree }.walk(folder.try_clone().unwrap().into(), Path::new(""), None);
        let is_whole = tree.walk(folder.into(), Path::new(""), None);
        (all.into_inner().unwrap(), is_whole)
    }

    #[test]
    fn every_name_is_found_once_and_nothing_through_a_link_or_in_what_is_left_out() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = folder.path();
        let mut wanted = BTreeSet::new();
        for a in 0..40 {
            fs::create_dir_all(root.join(format!("{a}/deep"))).unwrap();
            wanted.extend([format!("{a}"), format!("{a}/deep")]);
            for b in 0..20 {
                fs::write(root.join(format!("{a}/deep/{b}")), "").unwrap();
                wanted.insert(format!("{a}/deep/{b}"));
            }
        }
        fs::create_dir_all(root.join("wide")).unwrap();
        for name in 0..2 * AT_ONCE + 3 {
            fs::write(root.join(format!("wide/{name}")), "").unwrap();
            wanted.insert(format!("wide/{name}"));
        }
        fs::create_dir_all(root.join("wide/1-in")).unwrap();
        fs::write(root.join("wide/1-in/x"), "").unwrap();
        wanted.extend(["wide", "wide/1-in", "wide/1-in/x"].map(str::to_owned));
        fs::create_dir_all(root.join("shut/in")).unwrap();
        fs::create_dir_all(root.join(".git/in")).unwrap();
        fs::create_dir_all(root.join("7/built/in")).unwrap();
        fs::write(root.join("7/.gitignore"), "built\n*.o\n").unwrap();
        fs::write(root.join("7/deep/x.o"), "").unwrap();
        fs::write(root.join("8/x.o"), "").unwrap();
        fs::write(other.path().join("outside"), "").unwrap();
        std::os::unix::fs::symlink(other.path(), root.join("link")).unwrap();
        wanted.extend(["shut", "link", "7/.gitignore", "8/x.o"].map(str::to_owned));
        let late = Instant::now() + Duration::from_secs(60);
        assert_eq!(walked(root, late), (wanted, true));
        let (none, is_whole) = walked(root, Instant::now() - Duration::from_secs(1));
        assert!(none.is_empty() && !is_whole);
    }
}

//! Empty folders that stand where a protected name is absent, so that a cover can lie on them; shared by every agon
//! on this machine and knows no kind of sandbox.
//!
//! Whoever needs one holds a shared lock on the folder itself. It is taken away by the last: by whoever gets the
//! lock alone. The kernel frees a lock however its process ends, so nobody waits for the dead.

use std::fs::{File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::chmod_guard::Opened;

/// Says that a folder is one of these, whoever made it: nobody sets this bit on a folder that only they can write.
const MARK: u32 = 0o1000;
/// How often is tried to hold one, and how long is waited before the next time.
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(2);
/// How often is tried to be alone with one: a process that is just being started holds what its parent holds, until
/// it becomes another program. Patience is for the end of a session, when nobody comes after.
const SOON: usize = 2;
const PATIENT: usize = 50;

/// A folder that is there as long as this is, unless somebody fills it: then it is theirs and stays.
#[derive(Debug)]
pub struct Placeholder {
    path: PathBuf,
    folder: File,
}

impl Placeholder {
    /// Takes part in the one at `path`, which is made where nothing is. None where something of somebody's stands, or
    /// nothing can be made.
    pub fn hold(path: &Path) -> Option<Self> {
        for _ in 0..TRIES {
            let is_made = match rustix::fs::mkdirat(CWD, path, Mode::from_raw_mode(0o755) | Mode::SVTX) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(_) => return None,
            };
            let folder = match open(path) {
                Ok(folder) => folder,
                // The last to need it took it away meanwhile.
                Err(Errno::NOENT) => continue,
                Err(_) => return None,
            };
            // Some file systems keep no such bit; there only its maker knows it.
            if !is_made && !is_marked(&folder) {
                return None;
            }
            match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockShared) {
                Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
                // Without locks it would at worst go too early.
                _ if is_there(&folder, path) => return Some(Placeholder { path: path.to_owned(), folder }),
                _ => {}
            }
        }
        None
    }

    /// True where nothing stands, or one of these.
    pub fn may_stand(path: &Path) -> bool {
        match open(path) {
            Ok(folder) => is_marked(&folder),
            Err(error) => error == Errno::NOENT,
        }
    }

    /// True where one of these stands.
    pub fn stands(path: &Path) -> bool {
        open(path).is_ok_and(|folder| is_marked(&folder))
    }

    /// Takes away one that was made by somebody who is gone, unless somebody else needs it.
    pub fn clear(path: &Path) {
        let _opened = open_above(path);
        if let Ok(folder) = open(path) {
            remove(&folder, path, SOON);
        }
    }

    /// Takes away what is one of these for certain, unless somebody else needs it, and is patient.
    pub fn sweep(path: &Path) {
        let _opened = open_above(path);
        if let Some(folder) = open(path).ok().filter(is_marked) {
            remove(&folder, path, PATIENT);
        }
    }
}

impl Placeholder {
    /// Gives it back at the end of a session.
    pub fn release(self) {
        let path = self.path.clone();
        drop(self);
        Placeholder::sweep(&path);
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        remove(&self.folder, &self.path, SOON);
    }
}

/// Only an empty folder can be removed, and only the very one that nobody else holds.
fn remove(folder: &File, path: &Path, tries: usize) {
    let _opened = open_above(path);
    for _ in 0..tries {
        match rustix::fs::flock(folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            // A file system without locks knows no others.
            Ok(()) | Err(_) => {
                if is_there(folder, path) {
                    // One that somebody has filled meanwhile is theirs and stays.
                    if std::fs::remove_dir(path)
                        .is_err_and(|error| error.kind() == ErrorKind::DirectoryNotEmpty)
                    {
                        let _ = folder.set_permissions(Permissions::from_mode(0o755));
                    }
                }
                return;
            }
        }
    }
}

/// A command may have closed the folder it stands in.
fn open_above(path: &Path) -> Opened {
    let mut opened = Opened::default();
    path.parent().into_iter().for_each(|above| opened.open(above));
    opened
}

fn open(path: &Path) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

fn is_marked(folder: &File) -> bool {
    folder.metadata().is_ok_and(|data| data.mode() & (MARK | 0o022) == MARK)
}

fn is_there(folder: &File, path: &Path) -> bool {
    let id = |data: std::io::Result<std::fs::Metadata>| data.ok().map(|data| (data.dev(), data.ino()));
    let held = id(folder.metadata());
    held.is_some() && held == id(std::fs::symlink_metadata(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_who_needs_it_takes_it_away_and_what_is_somebodys_stays() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join(".git");
        let (first, second) = (Placeholder::hold(&path).unwrap(), Placeholder::hold(&path).unwrap());
        drop(first);
        Placeholder::clear(&path);
        assert!(path.exists() && Placeholder::may_stand(&path), "somebody else needs it");
        let found = super::super::masks::FoundPaths::default();
        let standing = super::super::protected_snapshot::ProtectedSnapshot::now(base.path(), &found);
        assert!(standing.names.len() == 1 && standing.covered.is_empty(), "it is nobody's to be replaced");
        drop(second);
        assert!(!path.exists() && Placeholder::may_stand(&path));
        // Somebody's own folder is no placeholder, empty or not; one that was filled has become somebody's.
        std::fs::create_dir(&path).unwrap();
        assert!(Placeholder::hold(&path).is_none() && !Placeholder::may_stand(&path) && path.exists());
        std::fs::remove_dir(&path).unwrap();
        let held = Placeholder::hold(&path).unwrap();
        std::fs::write(path.join("HEAD"), "").unwrap();
        drop(held);
        assert!(path.join("HEAD").exists() && !Placeholder::may_stand(&path), "it is theirs");
    }

    #[test]
    fn many_who_come_and_go_at_once_find_it_there_and_leave_nothing() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join(".git");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let held = Placeholder::hold(&path).unwrap();
                        assert!(is_there(&held.folder, &path));
                    }
                });
            }
        });
        Placeholder::sweep(&path);
        assert!(!path.exists());
    }
}

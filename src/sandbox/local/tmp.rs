//! The folder a local sandbox keeps its temporary files in, and those that dead sessions left; knows no command.
//!
//! Whoever lives holds a lock on its folder. The kernel gives it back however a process ends, so a folder of ours
//! that nobody has locked is a stray.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use tempfile::TempDir;

use super::watcher::Watcher;

/// What its name begins with, in the temporary folder of the machine.
const PREFIX: &str = "agon-sandbox-";
/// The folder of what commands see and cannot change.
pub const SETTINGS: &str = "settings";
/// What is made last: a folder without it is still being made.
const LAST: &str = "root";

/// A folder with `tmp` and `vartmp`, which become `/tmp` and `/var/tmp`, `home`, and `root`, on which the new root is
/// put together. Removed when it is dropped.
pub struct TmpFolders {
    folder: TempDir,
    _lock: File,
}

impl TmpFolders {
    /// A new one outside of a workspace, after those of dead sessions were removed. An error names what to mend.
    pub fn make(workspace: &Path) -> Result<Self, String> {
        let base = crate::sandbox::temporary();
        let named = || format!("the folder for temporary files, `TMPDIR` (`{}`)", base.display());
        if !base.is_absolute() {
            return Err(format!("{}, must be a path from the root", named()));
        }
        if base.canonicalize().is_ok_and(|base| base.starts_with(workspace)) {
            return Err(format!("{}, lies in the workspace: let it name a folder outside", named()));
        }
        TmpFolders::make_in(&base).map_err(|error| {
            format!("{}, cannot be used: {error}; let it name a folder that you can write", named())
        })
    }

    fn make_in(base: &Path) -> io::Result<Self> {
        reap(base);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(base)?;
        let lock = File::open(folder.path())?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        for (name, mode) in
            [("tmp", 0o1777), ("vartmp", 0o1777), ("home", 0o700), (SETTINGS, 0o755), (LAST, 0o700)]
        {
            let inner = folder.path().join(name);
            fs::create_dir(&inner)?;
            fs::set_permissions(&inner, fs::Permissions::from_mode(mode))?;
        }
        Ok(TmpFolders { folder, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Removes it now: a program that leaves at once drops nothing.
    pub fn remove(&self) {
        remove(self.folder.path());
    }
}

/// Removes this user's folders that nobody has locked. One that cannot be removed now is left to the next.
fn reap(base: &Path) {
    let is_ours = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
    for entry in
        fs::read_dir(base).into_iter().flatten().flatten().filter(|entry| is_ours(&entry.file_name()))
    {
        if let Some(stray) = stray(&entry.path()) {
            Watcher::clear_after(&entry.path());
            remove(&entry.path());
            drop(stray);
        }
    }
}

/// The folder, locked, when it is a stray: a real folder of this user, made to its end, that nobody holds.
fn stray(path: &Path) -> Option<File> {
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
    let folder = File::from(rustix::fs::open(path, flags, rustix::fs::Mode::empty()).ok()?);
    let is_mine = folder.metadata().ok()?.uid() == rustix::process::geteuid().as_raw();
    let is_whole = fs::symlink_metadata(path.join(LAST)).is_ok_and(|last| last.is_dir());
    let is_free = rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok();
    (is_mine && is_whole && is_free).then_some(folder)
}

/// Removes a folder with everything in it, closed folders that a command left included. Links are not followed.
pub(super) fn remove(folder: &Path) {
    if fs::remove_dir_all(folder).is_err() {
        open_up(folder);
        // What still cannot be removed is not worth failing for.
        let _ = fs::remove_dir_all(folder);
    }
}

fn open_up(folder: &Path) {
    let mut waiting: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700));
        let inner = fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = inner.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        waiting.extend(folders.map(|entry| entry.path()));
    }
}

impl Drop for TmpFolders {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dead_sessions_left_is_removed_and_what_lives_or_is_anothers_is_not() {
        let base = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = base.path().join(format!("{PREFIX}{name}"));
            fs::create_dir_all(path.join("tmp/closed/inner")).unwrap();
            fs::create_dir(path.join(LAST)).unwrap();
            path
        };
        let (dead, living, beginning) = (make("dead"), make("living"), make("beginning"));
        fs::set_permissions(dead.join("tmp/closed"), fs::Permissions::from_mode(0o000)).unwrap();
        let lock = File::open(&living).unwrap();
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        fs::remove_dir(beginning.join(LAST)).unwrap();
        let elsewhere = make("x").with_file_name("elsewhere");
        fs::rename(base.path().join(format!("{PREFIX}x")), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, base.path().join(format!("{PREFIX}link"))).unwrap();
        reap(base.path());
        assert!(!dead.exists() && living.exists() && beginning.exists() && elsewhere.join(LAST).exists());
        drop(lock);
        reap(base.path());
        assert!(!living.exists());
    }
}

//! Brings paths of a workspace from one recorded state to another: each whole or not at all, never through a link.
//!
//! What must go is removed first, so that a full disk gets room. A path that cannot be changed keeps no other from being
//! changed: what is missing then is done by doing the same again.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RawMode, Stat, Uid};

use super::beneath::{self, Beneath, io_error, look, open_file};
use super::files::digest;
use super::patch::Source;
use crate::ports::{FileError, PathChange, PathState};
use crate::temp_names;

/// Applies changes, sorted by path; gives each path that is not as it should be, and why. A path that has neither the
/// state before nor the one after is left.
pub fn put_back(
    root: &Path,
    changes: &[PathChange],
    content: Source<'_>,
) -> Result<Vec<(String, FileError)>, String> {
    let beneath = Beneath::open(root).map_err(|error| format!("`{}`: {error}", root.display()))?;
    let mut failed = Vec::new();
    let (gone, kept): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.after.is_none());
    for change in gone.into_iter().rev().chain(kept) {
        if let Err(error) = put(&beneath, change, content) {
            failed.push((change.path.clone(), error));
        }
    }
    sync(root);
    Ok(failed)
}

/// Once for all of them: thousands of files would take as many waits for the disk.
fn sync(root: &Path) {
    #[cfg(target_os = "linux")]
    if let Ok(root) = File::open(root) {
        // What could not be written was reported by then.
        let _ = rustix::fs::syncfs(root);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = File::open(root).and_then(|root| root.sync_all());
}

fn put(beneath: &Beneath, change: &PathChange, content: Source<'_>) -> Result<(), FileError> {
    let path = &change.path;
    let (parent, name) = beneath::split(path);
    let directory = match (beneath.directory(parent), &change.after) {
        (Err(FileError::Missing(_)), None) => return Ok(()),
        (Err(FileError::Missing(_)), Some(_)) if change.before.is_none() => beneath.make_directory(parent),
        (Err(FileError::Missing(_)), Some(_)) => Err(FileError::Changed(path.clone())),
        (found, _) => found,
    }
    .map_err(|error| beneath::renamed(error, path))?;
    let (here, stat) = state(directory.as_fd(), name, path)?;
    if here == change.after {
        return Ok(());
    }
    if here != change.before {
        return Err(FileError::Changed(path.clone()));
    }
    match (&change.before, &change.after) {
        (_, None) => remove(beneath, directory.as_fd(), path),
        (Some(PathState::File { sha256: old, .. }), Some(PathState::File { sha256, mode }))
            if old == sha256 =>
        {
            open_file(directory.as_fd(), name, path).map(|file| {
                rustix::fs::fchmod(&file, Mode::from_raw_mode(*mode as RawMode))
                    .map_err(|errno| io_error(path, errno))
            })?
        }
        (_, Some(after)) => replace(directory.as_fd(), path, (after, stat.as_ref()), content),
    }
}

/// What is there; a folder or a device is no state of a tree.
fn state(
    directory: BorrowedFd<'_>,
    name: &str,
    path: &str,
) -> Result<(Option<PathState>, Option<Stat>), FileError> {
    let Some(stat) = look(directory, name, path)? else { return Ok((None, None)) };
    let state = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let target =
                rustix::fs::readlinkat(directory, name, Vec::new()).map_err(|errno| io_error(path, errno))?;
            PathState::Link { target: target.to_string_lossy().into_owned() }
        }
        FileType::RegularFile => {
            let file = open_file(directory, name, path)?;
            let mode = file.metadata().map_err(|error| io_error(path, error))?.mode() & 0o777;
            let sha256 = digest(file).map_err(|error| io_error(path, error))?;
            PathState::File { sha256, mode }
        }
        _ => return Err(FileError::Changed(path.to_owned())),
    };
    Ok((Some(state), Some(stat)))
}

/// Removes a file or link, and the folders that are empty without it.
fn remove(beneath: &Beneath, directory: BorrowedFd<'_>, path: &str) -> Result<(), FileError> {
    let (mut folder, name) = beneath::split(path);
    rustix::fs::unlinkat(directory, name, AtFlags::empty()).map_err(|errno| io_error(path, errno))?;
    while !folder.is_empty() {
        let (parent, name) = beneath::split(folder);
        let Ok(above) = beneath.directory(parent) else { break };
        if rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR).is_err() {
            break;
        }
        folder = parent;
    }
    Ok(())
}

/// Writes the new state next to its place and renames it there.
fn replace(
    directory: BorrowedFd<'_>,
    path: &str,
    (after, existing): (&PathState, Option<&Stat>),
    content: Source<'_>,
) -> Result<(), FileError> {
    let beside = temp_names::name();
    let written = match after {
        PathState::Link { target } => rustix::fs::symlinkat(target.as_str(), directory, beside.as_str())
            .map_err(|errno| io_error(path, errno)),
        PathState::File { sha256, mode } => content(sha256)
            .map_err(|error| FileError::Io { path: path.to_owned(), error })
            .and_then(|bytes| {
                write(directory, &beside, &bytes, (*mode, existing)).map_err(|error| io_error(path, error))
            }),
    };
    let renamed = written.and_then(|()| {
        rustix::fs::renameat(directory, beside.as_str(), directory, beneath::split(path).1)
            .map_err(|errno| io_error(path, errno))
    });
    if renamed.is_err() {
        // The first error is the one to report.
        let _ = rustix::fs::unlinkat(directory, beside.as_str(), AtFlags::empty());
    }
    renamed
}

fn write(
    directory: BorrowedFd<'_>,
    name: &str,
    bytes: &[u8],
    (mode, existing): (u32, Option<&Stat>),
) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o600))?);
    file.write_all(bytes)?;
    if let Some(stat) = existing {
        // Only root can give a file away; for any other user the owner is already right.
        let _ = rustix::fs::fchown(&file, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)));
    }
    Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(mode as RawMode))?)
}

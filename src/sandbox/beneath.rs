//! Opens names beneath a directory one component at a time, never through a link; knows no rule about names.
//!
//! Each component is opened relative to the descriptor of the one before it with `O_NOFOLLOW`, and canonical
//! paths contain no `..`. So there is no moment at which somebody who swaps a directory for a link can
//! redirect an operation, and no check that could be older than the use.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::ports::FileError;

/// A directory that is held open.
#[derive(Debug)]
pub struct Beneath {
    root: OwnedFd,
}

impl Beneath {
    /// Opens the root itself; here alone links are followed, once.
    pub fn open(root: &std::path::Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Beneath { root: rustix::fs::open(root, flags, Mode::empty())? })
    }

    /// Opens a directory; the empty path is the root.
    pub fn directory(&self, path: &str) -> Result<OwnedFd, FileError> {
        self.descend(path, false)
    }

    /// Opens a directory and makes what is missing on the way.
    pub fn make_directory(&self, path: &str) -> Result<OwnedFd, FileError> {
        self.descend(path, true)
    }

    fn descend(&self, path: &str, create: bool) -> Result<OwnedFd, FileError> {
        let mut at = rustix::io::fcntl_dupfd_cloexec(&self.root, 0).map_err(|e| io_error(path, e))?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = match open_directory(at.as_fd(), name) {
                Err(Errno::NOENT) if create => make_and_open(at.as_fd(), name),
                other => other,
            }
            .map_err(|errno| explain(at.as_fd(), name, path, errno))?;
        }
        Ok(at)
    }

    /// Opens an ordinary file for reading. Never blocks on a pipe and never takes a terminal.
    pub fn file(&self, path: &str) -> Result<File, FileError> {
        let (parent, name) = split(path);
        if name.is_empty() {
            return Err(FileError::Directory(shown(path)));
        }
        let directory = self.directory(parent).map_err(|error| renamed(error, path))?;
        open_file(directory.as_fd(), name, path)
    }
}

/// Opens an ordinary file in a directory that is already held.
pub fn open_file(directory: BorrowedFd<'_>, name: &str, path: &str) -> Result<File, FileError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty())
        .map_err(|errno| explain(directory, name, path, errno))?;
    let stat = rustix::fs::fstat(&file).map_err(|e| io_error(path, e))?;
    refuse_unless_file(&stat, path)?;
    Ok(File::from(file))
}

/// Looks at a name without following it; none when there is nothing.
pub fn look(directory: BorrowedFd<'_>, name: &str, path: &str) -> Result<Option<Stat>, FileError> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(explain(directory, name, path, errno)),
    }
}

/// Accepts ordinary files only.
pub fn refuse_unless_file(stat: &Stat, path: &str) -> Result<(), FileError> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(FileError::Directory(shown(path))),
        _ => Err(FileError::Special(shown(path))),
    }
}

/// Splits a canonical path into its directory and its last name.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// The path as messages name it.
pub fn shown(path: &str) -> String {
    if path.is_empty() { ".".to_owned() } else { path.to_owned() }
}

/// The system's words on a path.
pub fn io_error(path: &str, error: impl Into<io::Error>) -> FileError {
    FileError::Io { path: shown(path), error: error.into().to_string() }
}

fn open_directory(at: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

fn make_and_open(at: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    match rustix::fs::mkdirat(at, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => open_directory(at, name),
        Err(errno) => Err(errno),
    }
}

/// Turns the system's number into words a model can act on. Only words depend on the second look.
fn explain(at: BorrowedFd<'_>, name: &str, path: &str, errno: Errno) -> FileError {
    let kind = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)
        .map(|stat| FileType::from_raw_mode(stat.st_mode));
    match (errno, kind) {
        (_, Ok(FileType::Symlink)) => link_error(at, name, path),
        (Errno::NOENT, _) => FileError::Missing(shown(path)),
        (Errno::NXIO | Errno::NODEV, _) => FileError::Special(shown(path)),
        (Errno::NOTDIR, _) => {
            FileError::Io { path: shown(path), error: format!("`{name}` is not a directory") }
        }
        (errno, _) => io_error(path, errno),
    }
}

/// A link is refused whatever it points to: rules about names would not hold behind it. One that plainly
/// stays inside is answered with its target, so that a model can name that instead.
fn link_error(at: BorrowedFd<'_>, name: &str, path: &str) -> FileError {
    let target = rustix::fs::readlinkat(at, name, Vec::new()).map(|t| t.to_string_lossy().into_owned());
    match target {
        Ok(target) if !target.starts_with('/') && !target.split('/').any(|part| part == "..") => {
            FileError::Io {
                path: shown(path),
                error: format!("`{name}` is a symbolic link to `{target}`; name the file itself"),
            }
        }
        _ => FileError::Outside(shown(path)),
    }
}

/// The same complaint about the whole path instead of its directory.
pub fn renamed(error: FileError, path: &str) -> FileError {
    match error {
        FileError::Missing(_) => FileError::Missing(shown(path)),
        FileError::Outside(_) => FileError::Outside(shown(path)),
        FileError::Io { error, .. } => FileError::Io { path: shown(path), error },
        other => other,
    }
}

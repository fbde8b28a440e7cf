//! A folder that is held open and only trusted when it is the user's own; follows no link, knows no entry.

use std::fs::{DirBuilder, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

/// One folder of the cache.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    /// For messages only.
    path: PathBuf,
}

/// Why something in the cache cannot be used. The words name the path.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It is not there.
    #[error("`{0}` is not there")]
    Missing(PathBuf),
    /// It is there and not to be trusted.
    #[error("`{path}` {reason}")]
    Refused {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The system said no.
    #[error("`{path}`: {error}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The system's words.
        error: std::io::Error,
    },
}

const OPEN_FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// agon itself nests nothing in an entry; whoever did so is followed this far.
const DEEPEST: u32 = 8;
/// Never blocks on a pipe, never takes a terminal.
const OPEN_FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

impl Folder {
    /// Opens the cache's own folder. The folders above it are the user's choice; it must not be a link.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let fd = rustix::fs::open(path, OPEN_FOLDER, Mode::empty())
            .map_err(|errno| explained(path, errno, rustix::fs::lstat(path)))?;
        Folder { fd, path: path.to_owned() }.owned()
    }

    /// The same, made when missing.
    pub fn make(path: &Path) -> Result<Self, FolderError> {
        match Folder::open(path) {
            Err(FolderError::Missing(_)) => {
                let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
                made.map_err(|error| FolderError::Io { path: path.to_owned(), error })?;
                Folder::open(path)
            }
            opened => opened,
        }
    }

    /// The same folder, held open once more.
    pub fn reopened(&self) -> Result<Self, FolderError> {
        let fd = self.fd.try_clone().map_err(|error| FolderError::Io { path: self.path.clone(), error })?;
        Ok(Folder { fd, path: self.path.clone() })
    }

    /// Opens a folder in this one.
    pub fn inner(&self, name: &str) -> Result<Self, FolderError> {
        let fd = rustix::fs::openat(&self.fd, name, OPEN_FOLDER, Mode::empty())
            .map_err(|errno| self.explain(name, errno))?;
        Folder { fd, path: self.path.join(name) }.owned()
    }

    /// The same, made when missing.
    pub fn make_inner(&self, name: &str) -> Result<Self, FolderError> {
        match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => self.inner(name),
            Err(errno) => Err(self.explain(name, errno)),
        }
    }

    /// Reads a file of at most `max` bytes and gives it with its system data.
    pub fn read(&self, name: &str, max: u64) -> Result<(Vec<u8>, Stat), FolderError> {
        let fd = rustix::fs::openat(&self.fd, name, OPEN_FILE, Mode::empty())
            .map_err(|errno| self.explain(name, errno))?;
        let stat = rustix::fs::fstat(&fd).map_err(|errno| self.explain(name, errno))?;
        let path = self.path.join(name);
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(FolderError::Refused { path, reason: "is not an ordinary file" });
        }
        trusted(&path, &stat)?;
        let mut bytes = Vec::new();
        let read = File::from(fd).take(max.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| FolderError::Io { path: path.clone(), error })?;
        match bytes.len() as u64 > max {
            true => Err(FolderError::Refused { path, reason: "is too large" }),
            false => Ok((bytes, stat)),
        }
    }

    /// Writes a new file for its owner alone, durably.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::from_raw_mode(0o600))
            .map_err(|errno| self.explain(name, errno))?;
        let mut file = File::from(fd);
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        written.map_err(|error| FolderError::Io { path: self.path.join(name), error })
    }

    /// Opens a file to be locked, made when missing.
    pub fn lock_file(&self, name: &str) -> Result<OwnedFd, FolderError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::openat(&self.fd, name, flags, Mode::from_raw_mode(0o600))
            .map_err(|errno| self.explain(name, errno))
    }

    /// Takes a lock on the folder itself for as long as it is open; false when another has it.
    pub fn try_lock(&self) -> bool {
        rustix::fs::flock(&self.fd, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// What stands under a name, links unfollowed; none when there is nothing.
    pub fn look(&self, name: &str) -> Option<Stat> {
        rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// True when this very folder stands under a name of another.
    pub fn is_named(&self, parent: &Folder, name: &str) -> bool {
        let (Ok(own), Some(named)) = (rustix::fs::fstat(&self.fd), parent.look(name)) else { return false };
        (own.st_dev, own.st_ino) == (named.st_dev, named.st_ino)
    }

    /// Notes when a file was last used, in microseconds since the Unix epoch.
    pub fn touch(&self, name: &str, at: u64) {
        let seconds = i64::try_from(at / 1_000_000).unwrap_or(i64::MAX);
        let rest = i64::try_from(at % 1_000_000 * 1000).unwrap_or_default();
        let stamp = rustix::fs::Timespec { tv_sec: seconds, tv_nsec: rest };
        let times = rustix::fs::Timestamps { last_access: stamp, last_modification: stamp };
        // Only the order in which runs are given up depends on it.
        let _ = rustix::fs::utimensat(&self.fd, name, &times, AtFlags::SYMLINK_NOFOLLOW);
    }

    /// Names in the folder, sorted; those that are no text stand with their bad bytes replaced.
    pub fn names(&self) -> Result<Vec<String>, FolderError> {
        let read = || -> Result<Vec<String>, Errno> {
            let entries = Dir::read_from(&self.fd)?.collect::<Result<Vec<_>, _>>()?;
            let names = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
            Ok(names.filter(|name| name != "." && name != "..").collect())
        };
        let mut names = read().map_err(|errno| self.explain("", errno))?;
        names.sort();
        Ok(names)
    }

    /// Moves a name into another folder where nothing has the new name.
    pub fn move_to(&self, name: &str, to: &Folder, new: &str) -> Result<(), Errno> {
        match rustix::fs::renameat_with(&self.fd, name, &to.fd, new, RenameFlags::NOREPLACE) {
            // A file system without the flag; a folder never replaces a folder that is not empty.
            Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::renameat(&self.fd, name, &to.fd, new),
            moved => moved,
        }
    }

    /// Makes names durable.
    pub fn sync(&self) -> Result<(), FolderError> {
        rustix::fs::fsync(&self.fd).map_err(|errno| self.explain("", errno))
    }

    /// Removes one name: anything but a folder.
    pub fn unlink(&self, name: &str) -> Result<(), FolderError> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Err(errno) if errno != Errno::NOENT => Err(self.failed(name, errno)),
            _ => Ok(()),
        }
    }

    /// Removes what stands under a name with all that is in it; a link is removed itself.
    pub fn remove(&self, name: &str) -> Result<(), FolderError> {
        self.remove_nested(name, DEEPEST)
    }

    fn remove_nested(&self, name: &str, depth: u32) -> Result<(), FolderError> {
        let Ok(fd) = rustix::fs::openat(&self.fd, name, OPEN_FOLDER, Mode::empty()) else {
            return self.unlink(name);
        };
        let inner = Folder { fd, path: self.path.join(name) };
        for name in inner.names()? {
            match depth {
                0 => inner.unlink(&name)?,
                _ => inner.remove_nested(&name, depth - 1)?,
            }
        }
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR) {
            Err(errno) if errno != Errno::NOENT => Err(self.failed(name, errno)),
            _ => Ok(()),
        }
    }

    /// The system's word on a name in this folder.
    pub fn failed(&self, name: &str, errno: Errno) -> FolderError {
        FolderError::Io { path: self.path.join(name), error: errno.into() }
    }

    fn owned(self) -> Result<Self, FolderError> {
        let stat = rustix::fs::fstat(&self.fd).map_err(|errno| self.explain("", errno))?;
        trusted(&self.path, &stat)?;
        Ok(self)
    }

    fn explain(&self, name: &str, errno: Errno) -> FolderError {
        let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        let path = if name.is_empty() { self.path.clone() } else { self.path.join(name) };
        explained(&path, errno, stat)
    }
}

/// Only what the user alone can have written is believed.
fn trusted(path: &Path, stat: &Stat) -> Result<(), FolderError> {
    let refused = |reason| Err(FolderError::Refused { path: path.to_owned(), reason });
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return refused("belongs to another user");
    }
    match stat.st_mode & 0o022 {
        0 => Ok(()),
        _ => refused("can be written by other users"),
    }
}

fn explained(path: &Path, errno: Errno, stat: Result<Stat, Errno>) -> FolderError {
    let path = path.to_owned();
    match (errno, stat.map(|stat| FileType::from_raw_mode(stat.st_mode))) {
        (_, Ok(FileType::Symlink)) => FolderError::Refused { path, reason: "is a symbolic link" },
        (Errno::NOENT, _) => FolderError::Missing(path),
        (errno, _) => FolderError::Io { path, error: errno.into() },
    }
}

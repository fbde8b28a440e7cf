//! The file system as the log needs it, so that tests can stand a failing one in its place; knows no format.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FlockOperation;

use crate::host_files;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading; it must be there.
    Read,
    /// For reading and writing; it must be there.
    Write,
    /// For reading and writing; it must not be there. Mode 0600.
    CreateNew,
}

/// Names and folders.
///
/// Nothing is durable before `sync_dir` on the folder returned.
pub trait LogFs: Send + Sync {
    /// Opens a file, not inherited by child processes.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn LogFile>>;
    /// Opens or creates a file and takes the exclusive lock on it without waiting, held until the file is
    /// dropped; none when somebody else has it.
    fn try_lock(&self, path: &Path) -> io::Result<Option<Arc<dyn LogFile>>>;
    /// True when that lock is held; leaves the file as it is.
    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        Ok(self.exists(path) && self.try_lock(path)?.is_none())
    }
    /// When the file was last written, in microseconds since the Unix epoch; none where that is not known.
    fn written_at(&self, _: &Path) -> Option<u64> {
        None
    }
    /// Creates a folder and those above it that are missing. Mode 0700.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Gives a file or folder another name, replacing a file that has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a folder with everything in it.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder, in no order.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// True when something has this name.
    fn exists(&self, path: &Path) -> bool;
}

/// An open file, used by position.
///
/// Written bytes are durable once a later `sync_data` returned; after one that failed nothing is known.
pub trait LogFile: Send + Sync {
    /// Reads what is there at `offset`; 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes once; fewer bytes than given may be taken.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes content and length durable (fdatasync).
    fn sync_data(&self) -> io::Result<()>;
    /// Cuts or extends; gives back space reserved beyond `len`.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Reserves space up to `end` without changing the length; `Unsupported` where that does not exist.
    fn reserve(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Bytes in the file.
    fn size(&self) -> io::Result<u64>;
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFs;

impl LogFs for RealFs {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn LogFile>> {
        let mut options = OpenOptions::new();
        // A pipe or a device in place of a log would be waited for or read without end.
        let is_there = || host_files::open(path)?.ok_or_else(not_ordinary);
        let file = match access {
            Access::Read => is_there()?,
            Access::Write => is_there().and_then(|_| options.read(true).write(true).open(path))?,
            Access::CreateNew => options.read(true).write(true).create_new(true).mode(0o600).open(path)?,
        };
        Ok(Arc::new(RealFile { file, locked: false }))
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Arc<dyn LogFile>>> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Arc::new(RealFile { file, locked: true }))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            file => file?,
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                // Closing is not enough: a child process between fork and exec still has the descriptor.
                rustix::fs::flock(&file, FlockOperation::Unlock)?;
                Ok(false)
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn written_at(&self, path: &Path) -> Option<u64> {
        let since = path.metadata().ok()?.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_micros()).ok()
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir_all(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.file_name()));
        names.filter_map(|name| name.map(|name| name.into_string().ok()).transpose()).collect()
    }

    fn exists(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }
}

/// Why a pipe, a device or a folder is no log.
pub(super) fn not_ordinary() -> io::Error {
    io::Error::other("it is not an ordinary file")
}

struct RealFile {
    file: File,
    locked: bool,
}

impl Drop for RealFile {
    fn drop(&mut self) {
        if self.locked {
            // Closing is not enough: a child process between fork and exec still has the descriptor.
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
    }
}

impl LogFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&self.file, rustix::fs::FallocateFlags::KEEP_SIZE, offset, len)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn reserve(&self, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

/// Creates a folder and those above it that are missing, their names durable on return.
pub(super) fn create_durable_dir(fs: &dyn LogFs, path: &Path) -> io::Result<()> {
    let missing = path.ancestors().take_while(|folder| !fs.exists(folder)).count();
    fs.create_dir(path)?;
    for folder in path.ancestors().skip(1).take(missing) {
        // A relative path ends in the empty one, which is the working directory.
        fs.sync_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?;
    }
    Ok(())
}

/// Writes all of `bytes`, however many calls it takes.
pub(super) fn write_all_at(file: &dyn LogFile, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => {
                bytes = bytes.get(taken..).unwrap_or_default();
                offset += taken as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends; gives the bytes read.
pub(super) fn read_full_at(file: &dyn LogFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        let Some(room) = buffer.get_mut(filled..) else { break };
        match file.read_at(room, offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

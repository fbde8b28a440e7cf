//! Who computes a key, across processes: a file lock that ends with its holder; knows nothing of runs.

use std::os::fd::OwnedFd;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::folder::{Folder, FolderError};

/// A key that is this session's to compute, until it is dropped.
#[derive(Debug)]
pub struct KeyLock {
    locks: Folder,
    key: String,
    _file: OwnedFd,
}

impl KeyLock {
    /// Takes the key; none when another session has it.
    pub fn take(locks: &Folder, key: &str) -> Result<Option<Self>, FolderError> {
        loop {
            let file = locks.lock_file(key)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(errno) => return Err(locks.failed(key, errno)),
            }
            // Its last holder may have removed the file between our opening and our lock: a lock on a file
            // without a name keeps nobody out.
            let (Ok(held), Some(named)) = (rustix::fs::fstat(&file), locks.look(key)) else { continue };
            if (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino) {
                let locks = locks.reopened()?;
                return Ok(Some(KeyLock { locks, key: key.to_owned(), _file: file }));
            }
        }
    }
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        // Before the lock ends, so that whoever gets it next sees that the file has no name any more.
        let _ = self.locks.unlink(&self.key);
    }
}

//! One stored run in its folder: read whole and checked, written whole, removed whole.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::folder::{Folder, FolderError};
use super::record;
use crate::ports::{CacheMiss, FoundRun};
use crate::protocol::expand::{hex, is_sha256};

/// The file with the record, beside the contents.
const RECORD: &str = "run";
/// An answer has at most a log line; the rest is paths.
const RECORD_MAX: u64 = 16 * 1024 * 1024;
/// How often a run that is stored replaces one that others store at the same time.
const MOST_REPLACED: u32 = 100;
/// A content that is recorded has at most 64 MiB.
const CONTENT_MAX: u64 = 64 * 1024 * 1024;

/// The folders of the cache.
#[derive(Debug)]
pub struct Cache {
    /// Runs by key.
    pub runs: Folder,
    /// Whose turn it is to compute a key.
    pub locks: Folder,
    /// What is being made or removed.
    new: Folder,
}

/// What the system says of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes of its files.
    pub bytes: u64,
    /// When it was last used, microseconds since the Unix epoch.
    pub used_at: u64,
}

/// How often a run is stored anew that others swept away.
const TRIES: u32 = 8;

impl Cache {
    /// Opens the cache where it is; none when it was never made.
    pub fn open(root: &Path) -> Result<Option<Self>, FolderError> {
        let open = || {
            let root = Folder::open(root)?;
            let (runs, locks, new) = (root.inner("runs")?, root.inner("locks")?, root.inner("new")?);
            Ok(Cache { runs, locks, new })
        };
        match open() {
            Err(FolderError::Missing(_)) => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Opens the cache, made when missing.
    pub fn make(root: &Path) -> Result<Self, FolderError> {
        let root = Folder::make(root)?;
        let (runs, locks, new) =
            (root.make_inner("runs")?, root.make_inner("locks")?, root.make_inner("new")?);
        Ok(Cache { runs, locks, new })
    }

    /// The record under a key, its contents not looked at.
    pub fn record(&self, key: &str) -> Result<FoundRun, Fault> {
        self.steady(key, |folder| record_in(folder, key))
    }

    /// The run under a key with its contents, all checked.
    pub fn load(&self, key: &str) -> Result<(FoundRun, BTreeMap<String, Vec<u8>>), Fault> {
        self.steady(key, |folder| {
            let found = record_in(folder, key)?;
            let contents = record::contents(&found.run);
            let contents = contents.into_iter().map(|sha256| {
                let bytes = content_in(folder, &sha256)?;
                Ok((sha256, bytes))
            });
            Ok((found, contents.collect::<Result<_, Fault>>()?))
        })
    }

    /// Reads an entry. One that was taken away while it was read is no damaged one: it is looked for again.
    fn steady<T>(&self, key: &str, read: impl Fn(&Folder) -> Result<T, Fault>) -> Result<T, Fault> {
        loop {
            let folder = match self.runs.inner(key) {
                Ok(folder) => folder,
                Err(FolderError::Missing(_)) => return Err(Fault::Missing),
                Err(error) => return Err(Fault::Damaged(error.to_string())),
            };
            match read(&folder) {
                Err(_) if !folder.is_named(&self.runs, key) => {}
                read => return read,
            }
        }
    }

    /// Stores a run under its key, durable on return; one that was there is replaced.
    pub fn store(
        &self,
        key: &str,
        record: &[u8],
        contents: &BTreeMap<String, Vec<u8>>,
    ) -> Result<(), FolderError> {
        // Swept away between its making and its lock; several may sweep one after the other.
        for _ in 1..TRIES {
            match self.try_store(key, record, contents) {
                Err(FolderError::Missing(_)) => {}
                stored => return stored,
            }
        }
        self.try_store(key, record, contents)
    }

    fn try_store(
        &self,
        key: &str,
        record: &[u8],
        contents: &BTreeMap<String, Vec<u8>>,
    ) -> Result<(), FolderError> {
        let name = new_name();
        let folder = self.new.make_inner(&name)?;
        // As long as it is locked nobody sweeps it away.
        folder.try_lock();
        let stored = self.fill(&folder, record, contents).and_then(|()| self.publish(&name, key));
        if stored.is_err() {
            let _ = self.new.remove(&name);
        }
        stored
    }

    fn fill(
        &self,
        folder: &Folder,
        record: &[u8],
        contents: &BTreeMap<String, Vec<u8>>,
    ) -> Result<(), FolderError> {
        for (sha256, bytes) in contents {
            folder.write(sha256, bytes)?;
        }
        folder.write(RECORD, record)?;
        folder.sync()
    }

    fn publish(&self, name: &str, key: &str) -> Result<(), FolderError> {
        for _ in 0..MOST_REPLACED {
            match self.new.move_to(name, &self.runs, key) {
                Ok(()) => return self.runs.sync(),
                // Also what others have stored since the last look gives way.
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => self.remove(key)?,
                Err(errno) => return Err(self.runs.failed(key, errno)),
            }
        }
        Err(self.runs.failed(key, Errno::BUSY))
    }

    /// Removes what stands under a name: first out of sight, so that no reader finds half of it.
    pub fn remove(&self, name: &str) -> Result<(), FolderError> {
        let aside = new_name();
        match self.runs.move_to(name, &self.new, &aside) {
            Ok(()) => self.new.remove(&aside),
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.runs.failed(name, errno)),
        }
    }

    /// Notes that an entry was used.
    pub fn touch(&self, key: &str, at: u64) {
        if let Ok(folder) = self.runs.inner(key) {
            folder.touch(RECORD, at);
        }
    }

    /// What an entry takes and when it was used last; none for what is no entry.
    pub fn size(&self, key: &str) -> Option<Size> {
        let folder = self.runs.inner(key).ok()?;
        let mut size = Size { bytes: 0, used_at: 0 };
        for name in folder.names().ok()? {
            let stat = folder.look(&name)?;
            size.bytes += u64::try_from(stat.st_size).unwrap_or_default();
            if name == RECORD {
                let seconds = u64::try_from(stat.st_mtime).unwrap_or_default();
                size.used_at = seconds.saturating_mul(1_000_000).saturating_add(u64::from(micros(&stat)));
            }
        }
        Some(size)
    }

    /// Removes what was left half made or half removed by processes that have ended.
    pub fn sweep(&self) {
        for name in self.new.names().unwrap_or_default() {
            let in_use = self.new.inner(&name).is_ok_and(|folder| !folder.try_lock());
            if !in_use {
                let _ = self.new.remove(&name);
            }
        }
        for name in self.locks.names().unwrap_or_default().iter().filter(|name| is_sha256(name)) {
            // Taking and dropping a lock removes its file, unless somebody has it.
            drop(super::lock::KeyLock::take(&self.locks, name));
        }
    }
}

/// Why an entry cannot be used.
#[derive(Debug)]
pub enum Fault {
    /// It is not there.
    Missing,
    /// It is not whole, or not to be trusted.
    Damaged(String),
}

fn record_in(folder: &Folder, key: &str) -> Result<FoundRun, Fault> {
    let (bytes, _) = folder.read(RECORD, RECORD_MAX).map_err(|error| Fault::Damaged(error.to_string()))?;
    record::decode(key, &bytes).map_err(Fault::Damaged)
}

fn content_in(folder: &Folder, sha256: &str) -> Result<Vec<u8>, Fault> {
    let (bytes, _) = folder.read(sha256, CONTENT_MAX).map_err(|error| Fault::Damaged(error.to_string()))?;
    match hex(&Sha256::digest(&bytes)) == sha256 {
        true => Ok(bytes),
        false => Err(Fault::Damaged(format!("content `{sha256}` is not what its digest says"))),
    }
}

impl From<Fault> for CacheMiss {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Missing => CacheMiss::Absent,
            Fault::Damaged(words) => CacheMiss::Damaged(words),
        }
    }
}

fn new_name() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

fn micros(stat: &rustix::fs::Stat) -> u32 {
    u32::try_from(stat.st_mtime_nsec / 1000).unwrap_or_default()
}

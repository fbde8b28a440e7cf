//! Content by its SHA-256, raw, mode 0600, in `objects/aa/…`; knows nothing of what the content means.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use tempfile::{NamedTempFile, TempPath};

use crate::protocol::expand::{hex, is_sha256};

/// Threads that sync new objects. A journaling file system commits what they all wait for at once: 5,000
/// small files took 27 s one after the other and 0.4 s this way.
const SYNC_THREADS: usize = 16;

/// A store of content.
#[derive(Debug)]
pub struct Objects {
    folder: PathBuf,
    /// New objects by digest, not yet synced and not yet under their names.
    pending: Mutex<BTreeMap<String, TempPath>>,
    /// Held while objects get their names: whoever relies on what another has put waits until it is stored.
    flushing: Mutex<()>,
}

impl Objects {
    /// Opens a store, made when missing.
    pub fn open(folder: &Path) -> Result<Self, String> {
        make_folder(folder)?;
        let folder = fs::canonicalize(folder).map_err(|error| named(folder, error))?;
        Ok(Objects { folder, pending: Mutex::default(), flushing: Mutex::default() })
    }

    /// The folder that holds the store and all else of the state.
    pub fn state(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
    }

    /// True when content with this digest is stored or waits for [`Objects::flush`].
    pub fn has(&self, sha256: &str) -> bool {
        self.pending().contains_key(sha256) || self.path(sha256).is_ok_and(|path| path.is_file())
    }

    /// Takes bytes; gives their digest. They are stored by [`Objects::flush`].
    pub fn put_bytes(&self, bytes: &[u8]) -> Result<String, String> {
        let sha256 = hex(&Sha256::digest(bytes));
        if !self.has(&sha256) {
            let mut file = self.temporary()?;
            file.write_all(bytes).map_err(|error| named(&self.folder, error))?;
            self.pending().insert(sha256.clone(), file.into_temp_path());
        }
        Ok(sha256)
    }

    /// Takes what a reader holds, in one pass; gives its digest and length. Stored by [`Objects::flush`].
    pub fn put(&self, mut reader: impl Read) -> Result<(String, u64), String> {
        let mut file = self.temporary()?;
        let (sha256, size) =
            hash_into(&mut reader, Some(file.as_file_mut())).map_err(|error| named(&self.folder, error))?;
        if !self.has(&sha256) {
            self.pending().insert(sha256.clone(), file.into_temp_path());
        }
        Ok((sha256, size))
    }

    /// The content with this digest, checked against it.
    pub fn read(&self, sha256: &str) -> Result<Vec<u8>, String> {
        let path = self.path(sha256)?;
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!(
                "what files held then is not here (object `{sha256}`): it stays in the state folder that recorded it, and \
                 an export carries the log alone"
            ),
            _ => format!("object `{sha256}` cannot be read: {error}"),
        })?;
        match hex(&Sha256::digest(&bytes)) == sha256 {
            true => Ok(bytes),
            false => Err(format!("object `{sha256}` is damaged")),
        }
    }

    /// Stores everything that was put, durably: contents are synced before they get their names, so that an
    /// object is never there without its content.
    pub fn flush(&self) -> Result<(), String> {
        let _alone = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let pending: Vec<(String, TempPath)> = std::mem::take(&mut *self.pending()).into_iter().collect();
        let temporary: Vec<&Path> = pending.iter().map(|(_, path)| &**path).collect();
        sync_all(&temporary)?;
        let mut folders = BTreeSet::from([self.folder.clone()]);
        for (sha256, temporary) in pending {
            let path = self.path(&sha256)?;
            let folder = path.parent().unwrap_or(&self.folder);
            if folders.insert(folder.to_owned()) {
                make_folder(folder)?;
            }
            temporary.persist(&path).map_err(|error| named(&path, error.error))?;
        }
        match folders.len() {
            1 => Ok(()),
            _ => sync_all(&folders.iter().map(PathBuf::as_path).collect::<Vec<_>>()),
        }
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<String, TempPath>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn temporary(&self) -> Result<NamedTempFile, String> {
        NamedTempFile::new_in(&self.folder).map_err(|error| named(&self.folder, error))
    }

    /// Where an object lies. Ids come from logs, so their shape is checked before they become a path.
    fn path(&self, sha256: &str) -> Result<PathBuf, String> {
        match is_sha256(sha256) {
            true => Ok(self.folder.join(&sha256[..2]).join(sha256)),
            false => Err(format!("`{sha256}` is not the id of an object")),
        }
    }
}

/// Makes the content of files, or the names in folders, durable.
fn sync_all(paths: &[&Path]) -> Result<(), String> {
    let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all()).map_err(|e| named(path, e));
    let share = paths.len().div_ceil(SYNC_THREADS).max(1);
    let results: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = paths
            .chunks(share)
            .map(|share| scope.spawn(move || share.iter().try_for_each(|path| sync(path))))
            .collect();
        let lost = |_| Err("a thread that syncs objects failed inside".to_owned());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(lost)).collect()
    });
    results.into_iter().collect()
}

/// Makes a folder that only its owner can enter.
pub fn make_folder(folder: &Path) -> Result<(), String> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| named(folder, error))
}

/// Hashes a reader to its end, copying it on the way if asked.
pub fn hash_into(reader: &mut impl Read, mut copy: Option<&mut File>) -> std::io::Result<(String, u64)> {
    let (mut hasher, mut size, mut block) = (Sha256::new(), 0, vec![0; 64 * 1024]);
    loop {
        let n = match reader.read(&mut block) {
            Ok(0) => return Ok((hex(&hasher.finalize()), size)),
            Ok(n) => n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&block[..n]);
        size += n as u64;
        if let Some(file) = copy.as_deref_mut() {
            file.write_all(&block[..n])?;
        }
    }
}

/// The system's words on a path.
pub fn named(path: &Path, error: impl std::fmt::Display) -> String {
    format!("`{}`: {error}", path.display())
}

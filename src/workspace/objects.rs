//! Content by its SHA-256, raw, mode 0600, in `objects/aa/…`; knows nothing of what the content means.

use std::fs::{self, DirBuilder, File};
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::protocol::expand::hex;

/// So many new objects are synced one by one; beyond, the whole file system is, once.
const SYNC_SINGLY: usize = 16;

/// A store of content.
#[derive(Debug)]
pub struct Objects {
    folder: PathBuf,
    unsynced: AtomicUsize,
}

impl Objects {
    /// Opens a store, made when missing.
    pub fn open(folder: &Path) -> Result<Self, String> {
        make_folder(folder)?;
        let folder = fs::canonicalize(folder).map_err(|error| named(folder, error))?;
        Ok(Objects { folder, unsynced: AtomicUsize::new(0) })
    }

    /// The folder that holds the store and all else of the state.
    pub fn state(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
    }

    /// True when content with this digest is stored.
    pub fn has(&self, sha256: &str) -> bool {
        self.path(sha256).is_ok_and(|path| path.is_file())
    }

    /// Stores bytes; gives their digest.
    pub fn put_bytes(&self, bytes: &[u8]) -> Result<String, String> {
        let sha256 = hex(&Sha256::digest(bytes));
        if !self.has(&sha256) {
            let mut file = self.temporary()?;
            file.write_all(bytes).map_err(|error| named(&self.folder, error))?;
            self.keep(file, &sha256)?;
        }
        Ok(sha256)
    }

    /// Stores what a reader holds, in one pass; gives its digest and length.
    pub fn put(&self, mut reader: impl Read) -> Result<(String, u64), String> {
        let mut file = self.temporary()?;
        let (sha256, size) =
            hash_into(&mut reader, Some(file.as_file_mut())).map_err(|error| named(&self.folder, error))?;
        if !self.has(&sha256) {
            self.keep(file, &sha256)?;
        }
        Ok((sha256, size))
    }

    /// The content with this digest, checked against it.
    pub fn read(&self, sha256: &str) -> Result<Vec<u8>, String> {
        let path = self.path(sha256)?;
        let bytes = fs::read(&path).map_err(|error| format!("object `{sha256}` cannot be read: {error}"))?;
        match hex(&Sha256::digest(&bytes)) == sha256 {
            true => Ok(bytes),
            false => Err(format!("object `{sha256}` is damaged")),
        }
    }

    /// Makes everything that was put durable.
    pub fn flush(&self) -> Result<(), String> {
        if self.unsynced.swap(0, Ordering::AcqRel) <= SYNC_SINGLY {
            return Ok(());
        }
        let folder = File::open(&self.folder).map_err(|error| named(&self.folder, error))?;
        #[cfg(target_os = "linux")]
        let synced = rustix::fs::syncfs(&folder).map_err(std::io::Error::from);
        #[cfg(not(target_os = "linux"))]
        let synced = folder.sync_all();
        synced.map_err(|error| named(&self.folder, error))
    }

    fn temporary(&self) -> Result<NamedTempFile, String> {
        NamedTempFile::new_in(&self.folder).map_err(|error| named(&self.folder, error))
    }

    fn keep(&self, file: NamedTempFile, sha256: &str) -> Result<(), String> {
        let path = self.path(sha256)?;
        let parent = path.parent().unwrap_or(&self.folder);
        let is_new = !parent.is_dir();
        make_folder(parent)?;
        let singly = self.unsynced.fetch_add(1, Ordering::AcqRel) < SYNC_SINGLY;
        if singly {
            file.as_file().sync_all().map_err(|error| named(&path, error))?;
        }
        file.persist(&path).map_err(|error| named(&path, error.error))?;
        if singly {
            sync_folder(parent)?;
            if is_new {
                sync_folder(&self.folder)?;
            }
        }
        Ok(())
    }

    /// Where an object lies. Ids come from logs, so their shape is checked before they become a path.
    fn path(&self, sha256: &str) -> Result<PathBuf, String> {
        let is_hex = sha256.len() == 64 && sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        match is_hex {
            true => Ok(self.folder.join(&sha256[..2]).join(sha256)),
            false => Err(format!("`{sha256}` is not the id of an object")),
        }
    }
}

/// Makes the names in a folder durable.
fn sync_folder(folder: &Path) -> Result<(), String> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| named(folder, error))
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

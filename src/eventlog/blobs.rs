//! Bytes kept beside the logs under their SHA-256, shared by all sessions; knows nothing of who names them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use super::fs::{Access, LogFs, create_durable_dir, read_full_at, write_all_at};
use crate::protocol::expand::hex;

/// Makes the temporary names of one process differ.
static TURN: AtomicU64 = AtomicU64::new(0);

/// Where a blob stands: `aa/<sha256>` beneath the blob folder.
pub(super) fn place(blobs: &Path, sha256: &str) -> PathBuf {
    blobs.join(sha256.get(..2).unwrap_or("__")).join(sha256)
}

/// Keeps `bytes`, durable on return; gives their SHA-256 in hex.
pub(super) fn put(fs: &dyn LogFs, blobs: &Path, bytes: &[u8]) -> io::Result<String> {
    let sha256 = hex(&Sha256::digest(bytes));
    let place = place(blobs, &sha256);
    let folder = place.parent().unwrap_or(blobs);
    create_durable_dir(fs, folder)?;
    if !fs.exists(&place) {
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!(".new-{}-{turn}", std::process::id()));
        let written = write(fs, &temporary, bytes).and_then(|()| fs.rename(&temporary, &place));
        if written.is_err() {
            let _ = fs.remove_file(&temporary);
        }
        written?;
    }
    // Also when it was there: whoever wrote it may not have come as far as this.
    fs.sync_dir(folder)?;
    fs.sync_dir(blobs)?;
    Ok(sha256)
}

fn write(fs: &dyn LogFs, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = match fs.open(path, Access::CreateNew) {
        // Left by a process that had the same id and died.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs.remove_file(path)?;
            fs.open(path, Access::CreateNew)?
        }
        file => file?,
    };
    write_all_at(&*file, bytes, 0)?;
    file.sync_data()
}

/// Reads a blob; none when its bytes are not what its name says.
pub(super) fn get(fs: &dyn LogFs, path: &Path, sha256: &str) -> io::Result<Option<Vec<u8>>> {
    let file = fs.open(path, Access::Read)?;
    let mut bytes = vec![0; usize::try_from(file.size()?).map_err(io::Error::other)?];
    let read = read_full_at(&*file, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok((hex(&Sha256::digest(&bytes)) == sha256).then_some(bytes))
}

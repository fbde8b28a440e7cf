//! Says by a locked file that somebody lives who needs a container; knows no engine.
//!
//! The container's label names the file. When the process dies, however it dies, the lock is free, and the next
//! start takes the container away. The file also lists the folders that were made as mount points, so that
//! whoever cleans up takes them away as well.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::DockerError;
use crate::sandbox::mount_stubs::Placeholder;

/// A locked file of a living sandbox. Freed when dropped and when the process dies.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    _file: File,
    /// Freed before the file, which lists them for whoever cleans up.
    held: Vec<Placeholder>,
}

impl Claim {
    /// Makes and locks a new file in `folder`, and the empty folders `placeholders` for mounts.
    pub fn take(folder: &Path, placeholders: &[PathBuf]) -> Result<Self, DockerError> {
        let path = folder.join(format!("{}.lock", uuid::Uuid::now_v7().simple()));
        let failed = |error: std::io::Error| failure(&path, &error);
        make_private(folder).map_err(failed)?;
        loop {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
            flock(&file, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
            // Whoever cleans up may have taken the file away between opening and locking.
            if is_same(&file, &path) {
                for placeholder in placeholders {
                    file.write_all(placeholder.as_os_str().as_bytes()).map_err(failed)?;
                    file.write_all(b"\0").map_err(failed)?;
                }
                let held = placeholders.iter().filter_map(|path| Placeholder::hold(path)).collect();
                return Ok(Claim { path, _file: file, held });
            }
        }
    }

    /// The file, for the container's label.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.held.drain(..).for_each(Placeholder::release);
        // A file that stays is found free at the next start.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether the claim at `path` is held. A file that is not there is held by nobody.
pub fn is_held(path: &Path) -> bool {
    let Ok(file) = OpenOptions::new().read(true).open(path) else { return false };
    matches!(flock(&file, FlockOperation::NonBlockingLockExclusive), Err(rustix::io::Errno::WOULDBLOCK))
}

/// Takes away the file of a dead claim and the empty folders it lists; does nothing to one that is held.
pub fn clear(path: &Path) {
    let Ok(mut file) = OpenOptions::new().read(true).open(path) else { return };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() || !is_same(&file, path) {
        return;
    }
    let mut listed = Vec::new();
    if file.read_to_end(&mut listed).is_ok() {
        let paths = listed.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        paths.for_each(|path| Placeholder::clear(Path::new(OsStr::from_bytes(path))));
    }
    let _ = std::fs::remove_file(path);
}

/// The claims in a folder, held or not.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "lock")).collect()
}

fn is_same(file: &File, path: &Path) -> bool {
    let id = |meta: std::io::Result<std::fs::Metadata>| meta.ok().map(|meta| (meta.dev(), meta.ino()));
    let there = id(std::fs::metadata(path));
    there.is_some() && there == id(file.metadata())
}

fn make_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn failure(path: &Path, error: &std::io::Error) -> DockerError {
    DockerError::Claim { path: path.display().to_string(), error: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_held_as_long_as_it_lives() {
        let folder = tempfile::tempdir().unwrap();
        let claim = Claim::take(&folder.path().join("claims"), &[]).unwrap();
        let path = claim.path().to_owned();
        assert!(is_held(&path));
        clear(&path);
        assert!(path.exists() && is_held(&path), "a held claim is left alone");
        drop(claim);
        assert!(!path.exists() && !is_held(&path));
    }

    #[test]
    fn what_a_dead_one_left_is_taken_away_unless_it_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let (empty, full) = (folder.path().join("a b"), folder.path().join("full"));
        std::fs::create_dir_all(&empty).unwrap();
        std::fs::create_dir_all(full.join("inside")).unwrap();
        let dead = folder.path().join("dead.lock");
        std::fs::write(&dead, format!("{}\0{}\0", empty.display(), full.display())).unwrap();
        assert_eq!(list(folder.path()), vec![dead.clone()]);
        clear(&dead);
        assert!(!dead.exists() && !empty.exists() && full.join("inside").exists());
    }
}

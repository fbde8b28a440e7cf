//! The folder of the recorded runs, trusted only when it is the user's own; follows no link, knows no run.

use std::fs::{self, DirBuilder, File, FileTimes, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::OFlags;

use crate::protocol::expand::is_sha256;
use crate::temp_names;

/// Contents have at most 64 MiB, an answer at most a log line; the rest is paths.
const FILE_MAX: u64 = 80 * 1024 * 1024;

/// A folder that belongs to the user alone.
#[derive(Debug)]
pub struct Folder(PathBuf);

/// Why the folder cannot be used: the path, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("`{}` {}", .0.display(), .1)]
pub struct FolderError(PathBuf, String);

impl FolderError {
    fn of(path: &Path, error: &io::Error) -> Self {
        FolderError(path.to_owned(), format!("cannot be used: {error}"))
    }
}

impl Folder {
    /// Opens the folder; none when it was never made.
    pub fn open(path: &Path) -> Result<Option<Self>, FolderError> {
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FolderError::of(path, &error)),
        };
        let refused = match metadata.is_dir() {
            true => distrust(&metadata),
            false if metadata.is_symlink() => Some("is a symbolic link"),
            false => Some("is not a folder"),
        };
        match refused {
            Some(words) => Err(FolderError(path.to_owned(), words.to_owned())),
            None => Ok(Some(Folder(path.to_owned()))),
        }
    }

    /// Opens the folder, made when missing.
    pub fn make(path: &Path) -> Result<Self, FolderError> {
        if let Some(folder) = Folder::open(path)? {
            return Ok(folder);
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| FolderError::of(path, &error))?;
        Ok(Folder(path.to_owned()))
    }

    /// The bytes of a file, or why it is not to be believed; none when it is not there.
    pub fn read(&self, key: &str) -> Option<Result<Vec<u8>, String>> {
        let path = self.0.join(key);
        let metadata = fs::symlink_metadata(&path).ok()?;
        let open = || -> io::Result<Vec<u8>> {
            let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
            let file = OpenOptions::new().read(true).custom_flags(flags).open(&path)?;
            let mut bytes = Vec::new();
            file.take(FILE_MAX).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let refused = match metadata.is_file() {
            true => distrust(&metadata),
            false => Some("is not an ordinary file"),
        };
        Some(match refused {
            Some(words) => Err(format!("`{}` {words}", path.display())),
            None => open().map_err(|error| format!("`{}` cannot be read: {error}", path.display())),
        })
    }

    /// Writes a file for its owner alone, whole and durable or not at all.
    pub fn write(&self, key: &str, bytes: &[u8]) -> Result<(), FolderError> {
        let (new, path) = (self.0.join(temp_names::name()), self.0.join(key));
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.0)?.sync_all()
        };
        write().map_err(|error| {
            let _ = fs::remove_file(&new);
            FolderError::of(&path, &error)
        })
    }

    /// Removes what has this name; a link is removed itself.
    pub fn remove(&self, name: &str) -> Result<(), FolderError> {
        let path = self.0.join(name);
        let removed = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&path),
            _ => fs::remove_file(&path),
        };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(FolderError::of(&path, &error)),
            _ => Ok(()),
        }
    }

    /// Notes when a run was last used, in microseconds since the Unix epoch. Only the order of removal depends on it.
    pub fn touch(&self, key: &str, at: u64) {
        let at = UNIX_EPOCH + Duration::from_micros(at.min(i64::MAX.cast_unsigned() / 1000));
        if let Ok(file) = OpenOptions::new().write(true).open(self.0.join(key)) {
            let _ = file.set_times(FileTimes::new().set_modified(at));
        }
    }

    /// Every run by key, with its bytes and when it was last used; what a killed process left half made is removed.
    pub fn runs(&self) -> Result<Vec<(String, u64, u64)>, FolderError> {
        let entries = fs::read_dir(&self.0).map_err(|error| FolderError::of(&self.0, &error))?;
        let run = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            if temp_names::is_left(&name) {
                let _ = fs::remove_file(entry.path());
            }
            let metadata = entry.metadata().ok()?;
            let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let used_at = u64::try_from(modified.as_micros()).unwrap_or(u64::MAX);
            is_sha256(&name).then_some((name, metadata.len(), used_at))
        };
        let mut runs: Vec<_> = entries.flatten().filter_map(run).collect();
        runs.sort();
        Ok(runs)
    }
}

/// Why what the system says of a file shows that others may have written it.
fn distrust(metadata: &Metadata) -> Option<&'static str> {
    match metadata.uid() == rustix::process::geteuid().as_raw() {
        false => Some("belongs to another user"),
        true => (metadata.mode() & 0o022 != 0).then_some("can be written by other users"),
    }
}

//! Looks at every file of a live workspace and digests what has changed since the last look.
//!
//! The walk yields names; each file is opened beneath the root and never through a link in its last
//! component, so that a workspace that changes underneath cannot make agon record a file from outside.

use std::collections::BTreeSet;
use std::fs::{File, FileType, Metadata};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use ignore::WalkBuilder;
use tokio_util::sync::CancellationToken;

use super::index::{Index, Stamp};
use super::objects::{Objects, hash_into, named};
use super::tree::{Kind, Tree, TreeEntry};
use crate::host_files::walk;
use crate::protocol::expand::digest_of;
use crate::temp_names;

/// Files above this size are not recorded.
pub const RECORDED_MAX: u64 = 64 * 1024 * 1024;

/// What a look at the workspace found.
#[derive(Debug)]
pub struct Scan {
    /// Everything that is recorded.
    pub tree: Tree,
    /// What is left out because it is too large or cannot be read, with its size.
    pub skipped: BTreeSet<(String, u64)>,
    /// Files whose content was read.
    pub noted: usize,
}

impl Scan {
    /// SHA-256 over sorted paths, kinds, executable bits and contents; of what is left out, path and size. Other
    /// permission bits differ from one checkout to the next.
    pub fn fingerprint(&self) -> String {
        let entries = self.tree.entries.iter();
        let entries: Vec<TreeEntry> =
            entries.map(|entry| TreeEntry { path: entry.path.clone(), kind: entry.kind.content() }).collect();
        digest_of(&("agon-workspace-1", &entries, &self.skipped))
    }
}

/// One look.
pub struct Scanner<'a> {
    root: &'a Path,
    state: PathBuf,
    folder: Dir,
    objects: Option<&'a Objects>,
    known: &'a Index,
    index: Index,
    entries: Vec<TreeEntry>,
    skipped: BTreeSet<(String, u64)>,
    /// Files that were hashed.
    noted: usize,
}

impl<'a> Scanner<'a> {
    /// Prepares a look at `root`; with `objects`, contents are recorded there. `state` is never looked at.
    pub fn new(
        root: &'a Path,
        state: &Path,
        objects: Option<&'a Objects>,
        known: &'a Index,
    ) -> Result<Self, String> {
        let folder = Dir::open_ambient_dir(root, ambient_authority()).map_err(|error| named(root, error))?;
        Ok(Scanner {
            root,
            state: state.to_owned(),
            folder,
            objects,
            known,
            index: Index::default(),
            entries: Vec::new(),
            skipped: BTreeSet::new(),
            noted: 0,
        })
    }

    /// Looks at everything; gives the new index beside it. Ends early, with an error, once nobody waits for it.
    pub fn run(mut self, dropped: &CancellationToken) -> Result<(Scan, Index), String> {
        for found in self.walk().build() {
            if dropped.is_cancelled() {
                return Err("the look at the workspace was cancelled".to_owned());
            }
            // A folder that cannot be entered is left out like a file that cannot be read.
            let Ok(found) = found else { continue };
            let Some(kind) = found.file_type().filter(|kind| !kind.is_dir()) else { continue };
            let Ok(relative) = found.path().strip_prefix(self.root) else { continue };
            let Some(path) = relative.to_str() else {
                self.skipped.insert((relative.to_string_lossy().into_owned(), 0));
                continue;
            };
            match found.metadata() {
                _ if found.file_name().to_str().is_some_and(temp_names::is_one) => self.clear(path),
                Ok(metadata) => self.take(path, kind, &metadata)?,
                Err(_) => {}
            }
        }
        self.entries.sort_by(|a, b| a.path.cmp(&b.path));
        let scan = Scan { tree: Tree { entries: self.entries }, skipped: self.skipped, noted: self.noted };
        Ok((scan, self.index))
    }

    /// Only the workspace's own rules count, so that the same content has the same tree everywhere.
    fn walk(&self) -> WalkBuilder {
        let state = self.state.clone();
        walk::builder(self.root, move |found| {
            !found.file_name().to_str().is_some_and(is_private) && found.path() != state
        })
    }

    fn take(&mut self, path: &str, kind: FileType, metadata: &Metadata) -> Result<(), String> {
        let kind = if kind.is_symlink() {
            // A link that vanished or points to a name that is no text is left out.
            self.folder
                .read_link_contents(path)
                .ok()
                .and_then(|target| target.to_str().map(str::to_owned))
                .map(|target| Kind::Link { target })
        } else if kind.is_file() {
            self.file(path, metadata)?
        } else {
            None
        };
        self.entries.extend(kind.map(|kind| TreeEntry { path: path.to_owned(), kind }));
        Ok(())
    }

    fn file(&mut self, path: &str, metadata: &Metadata) -> Result<Option<Kind>, String> {
        if metadata.len() > RECORDED_MAX {
            self.skipped.insert((path.to_owned(), metadata.len()));
            return Ok(None);
        }
        let stamp = stamp_of(metadata);
        if let Some(sha256) = self.known.digest(path, &stamp)
            && self.objects.is_none_or(|objects| self.known.is_stored(path) || objects.has(sha256))
        {
            self.index.carry(path, self.known, self.objects.is_some());
            return Ok(Some(recorded(metadata, sha256.to_owned(), stamp.size)));
        }
        self.read(path)
    }

    /// What stands beside a place to be exchanged with it is no content. What a killed process left is removed.
    fn clear(&self, path: &str) {
        if self.objects.is_some()
            && Path::new(path).file_name().and_then(|it| it.to_str()).is_some_and(temp_names::is_left)
        {
            let _ = self.folder.remove_file(path);
        }
    }

    /// Opens, looks again at what was really opened, and digests it.
    fn read(&mut self, path: &str) -> Result<Option<Kind>, String> {
        let file = match open(&self.folder, path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(_) => {
                self.skipped.insert((path.to_owned(), 0));
                return Ok(None);
            }
        };
        let hashed = now();
        let metadata = file.metadata().map_err(|error| named(Path::new(path), error))?;
        if !metadata.is_file() {
            return Ok(None);
        }
        // A file that grows while it is read has an end here all the same.
        let mut content = file.take(RECORDED_MAX + 1);
        let (sha256, size) = match self.objects {
            Some(objects) => objects.put(&mut content)?,
            None => hash_into(&mut content, None).map_err(|error| named(Path::new(path), error))?,
        };
        if size > RECORDED_MAX {
            self.skipped.insert((path.to_owned(), size));
            return Ok(None);
        }
        self.index.note(path, stamp_of(&metadata), &sha256, hashed, self.objects.is_some());
        self.noted += 1;
        Ok(Some(recorded(&metadata, sha256, size)))
    }
}

/// Opens what stands beneath a folder, never through a link in its place, and without waiting for whoever would write
/// into a pipe.
pub fn open(folder: &Dir, path: &str) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    Ok(folder.open_with(path, &options)?.into_std())
}

/// True for names that are never looked at, wherever they are.
pub fn is_private(name: &str) -> bool {
    [".git", ".agon"].iter().any(|it| it.eq_ignore_ascii_case(name))
}

fn recorded(metadata: &Metadata, sha256: String, size: u64) -> Kind {
    let mode = metadata.permissions().mode() & 0o777;
    let exec = mode & 0o100 != 0;
    Kind::File { exec, sha256, size, mode: Some(mode).filter(|mode| *mode != Kind::mode(exec, None)) }
}

fn stamp_of(metadata: &Metadata) -> Stamp {
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    Stamp {
        size: metadata.len(),
        inode: (metadata.dev(), metadata.ino()),
        modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
    }
}

fn now() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX)
}

//! Looks at every file of a live workspace and digests what has changed since the last look.
//!
//! The walk yields names; each file is opened beneath the root and never through a link in its last
//! component, so that a workspace that changes underneath cannot make agon record a file from outside.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use rustix::fs::{AtFlags, FileType, Stat};
use tokio_util::sync::CancellationToken;

use super::index::{Index, Stamp};
use super::objects::{Objects, hash_into, named};
use super::tree::{Kind, Tree, TreeEntry};
use crate::host_files::tree::{Found, Tree as Walk};
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

/// What the walk says of a name; nothing was read yet.
enum Seen {
    File {
        stamp: Stamp,
        mode: u32,
    },
    Link {
        target: String,
    },
    /// A file that is to replace the one next to it.
    Temporary,
    /// Its name is no text.
    Unnamed,
}

/// One look.
pub struct Scanner<'a> {
    root: &'a Path,
    state: PathBuf,
    folder: Dir,
    objects: Option<&'a Objects>,
    known: Index,
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
        known: Index,
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
        let is_dropped = || Err("the look at the workspace was cancelled".to_owned());
        let mut all = self.walk(dropped)?;
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        for (path, seen) in all {
            if dropped.is_cancelled() {
                return is_dropped();
            }
            let kind = match seen {
                Seen::File { stamp, mode } => self.file(&path, &stamp, mode)?,
                Seen::Link { target } => Some(Kind::Link { target }),
                Seen::Temporary => self.clear(&path),
                Seen::Unnamed => self.skip(&path, 0),
            };
            self.entries.extend(kind.map(|kind| TreeEntry { path, kind }));
        }
        if dropped.is_cancelled() {
            return is_dropped();
        }
        let scan = Scan { tree: Tree { entries: self.entries }, skipped: self.skipped, noted: self.noted };
        Ok((scan, self.index))
    }

    /// Asks for each file's size and times, on all cores. Only the workspace's own rules count, so that the same content
    /// has the same tree everywhere; a folder that cannot be entered is left out like a file that cannot be read.
    fn walk(&self, dropped: &CancellationToken) -> Result<Vec<(String, Seen)>, String> {
        let all = Mutex::new(Vec::new());
        let visit = |found: &Found<'_>| {
            if found.kind == FileType::Directory {
                return !dropped.is_cancelled() && self.root.join(found.path) != self.state;
            }
            if let Some(seen) = looked_at(found) {
                let path = found.path.to_string_lossy().into_owned();
                all.lock().unwrap_or_else(PoisonError::into_inner).push((path, seen));
            }
            false
        };
        let keeps = |name: &OsStr| !name.to_str().is_some_and(is_private);
        let tree = Walk { root: self.root, keeps: &keeps, visit: &visit, until: None };
        let folder = self.folder.try_clone().map_err(|error| named(self.root, error))?;
        tree.walk(folder.into_std_file().into(), Path::new(""), None);
        Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn file(&mut self, path: &str, stamp: &Stamp, mode: u32) -> Result<Option<Kind>, String> {
        if stamp.size > RECORDED_MAX {
            return Ok(self.skip(path, stamp.size));
        }
        let is_stored = |objects: &Objects, sha256: &str| self.known.is_stored(path) || objects.has(sha256);
        match self.known.digest(path, stamp).map(str::to_owned) {
            Some(sha256) if self.objects.is_none_or(|objects| is_stored(objects, &sha256)) => {
                self.index.carry(path, &mut self.known, self.objects.is_some());
                Ok(Some(recorded(mode, sha256, stamp.size)))
            }
            _ => self.read(path),
        }
    }

    fn skip(&mut self, path: &str, size: u64) -> Option<Kind> {
        self.skipped.insert((path.to_owned(), size));
        None
    }

    /// What a killed process left is removed.
    fn clear(&self, path: &str) -> Option<Kind> {
        if self.objects.is_some()
            && Path::new(path).file_name().and_then(|it| it.to_str()).is_some_and(temp_names::is_left)
        {
            let _ = self.folder.remove_file(path);
        }
        None
    }

    /// Opens, looks again at what was really opened, and digests it.
    fn read(&mut self, path: &str) -> Result<Option<Kind>, String> {
        let file = match open(&self.folder, path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(_) => return Ok(self.skip(path, 0)),
        };
        let hashed = now();
        let stat = rustix::fs::fstat(&file).map_err(|error| named(Path::new(path), error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        // A file that grows while it is read has an end here all the same.
        let mut content = file.take(RECORDED_MAX + 1);
        let (sha256, size) = match self.objects {
            Some(objects) => objects.put(&mut content)?,
            None => hash_into(&mut content, None).map_err(|error| named(Path::new(path), error))?,
        };
        if size > RECORDED_MAX {
            return Ok(self.skip(path, size));
        }
        self.index.note(path, stamp_of(&stat), &sha256, hashed, self.objects.is_some());
        self.noted += 1;
        Ok(Some(recorded(mode_of(&stat), sha256, size)))
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

/// What the system says of what a walk has come by; nothing where it is gone, or no file and no link.
fn looked_at(found: &Found<'_>) -> Option<Seen> {
    if found.name.to_str().is_some_and(temp_names::is_one) {
        return Some(Seen::Temporary);
    }
    if found.path.to_str().is_none() {
        return Some(Seen::Unnamed);
    }
    match found.kind {
        FileType::RegularFile => {
            let stat = rustix::fs::statat(found.folder, found.name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(Seen::File { stamp: stamp_of(&stat), mode: mode_of(&stat) })
        }
        // A link that vanished or points to a name that is no text is left out.
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(found.folder, found.name, Vec::new()).ok()?;
            Some(Seen::Link { target: target.into_string().ok()? })
        }
        _ => None,
    }
}

fn recorded(mode: u32, sha256: String, size: u64) -> Kind {
    let exec = mode & 0o100 != 0;
    Kind::File { exec, sha256, size, mode: Some(mode).filter(|mode| *mode != Kind::mode(exec, None)) }
}

/// Permission bits.
fn mode_of(stat: &Stat) -> u32 {
    u32::try_from(i128::from(stat.st_mode)).unwrap_or_default() & 0o777
}

fn stamp_of(stat: &Stat) -> Stamp {
    // These numbers are of other types on other systems.
    let of = |number: i128| u64::try_from(number).unwrap_or_default();
    let time = |seconds: i128, rest: i128| i64::try_from(seconds * 1_000_000_000 + rest).unwrap_or(i64::MAX);
    Stamp {
        size: of(stat.st_size.into()),
        inode: (of(stat.st_dev.into()), of(stat.st_ino.into())),
        modified: time(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
        changed: time(stat.st_ctime.into(), stat.st_ctime_nsec.into()),
    }
}

fn now() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX)
}

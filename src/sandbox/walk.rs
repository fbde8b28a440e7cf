//! Names the files of a workspace, ignore rules honoured; every folder is opened under the root.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType};

use super::beneath::{self, Beneath};
use super::protected;
use crate::host_files::rules::Rules;
use crate::host_files::tree::{Found, Tree};
use crate::ports::{DirEntry, FileError, FileKind, Visited};
use crate::protocol::text::quoted;

/// How long a walk may take before it ends with what it has found.
const LONGEST: Duration = Duration::from_secs(30);
/// Most names that are held to find the first of them.
const MOST_HELD: usize = 1_000_000;

/// Hands on what is under `path` (canonical). False when there was not the time to finish.
///
/// Only the workspace's own rules count, none from above it or from the user's home, so that the same
/// workspace gives the same names everywhere. A directory that is named outright is looked into even when
/// the rules leave it out.
pub fn visit(
    (root, beneath): (&Path, &Beneath),
    path: &str,
    visit: &(dyn Fn(Visited<'_>) -> bool + Sync),
) -> Result<bool, FileError> {
    let (is_empty, until) = (AtomicBool::new(true), Instant::now() + LONGEST);
    let hand_on = |found: &Found<'_>| {
        let kind = match found.kind {
            FileType::Directory => FileKind::Directory,
            FileType::RegularFile => FileKind::File,
            FileType::Symlink => FileKind::Link,
            _ => FileKind::Special,
        };
        if kind != FileKind::Directory {
            is_empty.store(false, Ordering::Relaxed);
        }
        let Some(path) = found.path.to_str() else {
            let path = quoted(found.path.as_os_str().as_bytes());
            let kind = if kind == FileKind::Directory { kind } else { FileKind::Unnamed };
            return visit(Visited { path: &path, kind, open: &|| Err(FileError::Missing(path.clone())) });
        };
        let name = found.name.to_str().unwrap_or_default();
        let open = || -> Result<File, FileError> { beneath::open_file(found.folder, name, path) };
        visit(Visited { path, kind, open: &open })
    };
    let keeps = |name: &std::ffi::OsStr| !name.to_str().is_some_and(protected::is_private_folder);
    let tree = Tree { root, keeps: &keeps, visit: &hand_on, until: Some(until) };
    let start = |path: &str| -> Result<OwnedFd, FileError> { beneath.directory(path) };
    let (is_left_out, above) = above(root, path);
    if !is_left_out {
        let is_whole = tree.walk(start(path)?, Path::new(path), above);
        if path.is_empty() || !is_empty.load(Ordering::Relaxed) {
            return Ok(is_whole);
        }
    }
    Ok(tree.walk(start(path)?, Path::new(path), None))
}

/// Whether the rules leave a directory (canonical) out.
pub fn is_left_out(root: &Path, path: &str) -> bool {
    above(root, path).0
}

/// Whether the rules above a directory leave it out, and those rules; the root has none.
fn above(root: &Path, path: &str) -> (bool, Option<Arc<Rules>>) {
    let (mut rules, mut at) = (None, root.to_owned());
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let within = Rules::within(rules, &at);
        at.push(name);
        if protected::is_private_folder(name) || within.ignore(&at, true) {
            return (true, None);
        }
        rules = Some(within);
    }
    (false, rules)
}

/// Files and links under `path` (canonical), sorted, at most `max`; true when there were more.
pub fn files(
    (root, beneath): (&Path, &Beneath),
    path: &str,
    max: usize,
) -> Result<(Vec<DirEntry>, bool), FileError> {
    let held = Mutex::new(Vec::new());
    let is_whole = visit((root, beneath), path, &|found| {
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        if found.kind != FileKind::Directory && held.len() < MOST_HELD {
            held.push(DirEntry { path: found.path.to_owned(), kind: found.kind, bytes: 0 });
        }
        held.len() < MOST_HELD
    })?;
    let mut entries = held.into_inner().unwrap_or_else(PoisonError::into_inner);
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let is_more = entries.len() > max || !is_whole;
    entries.truncate(max);
    for entry in entries.iter_mut().filter(|entry| entry.kind != FileKind::Unnamed) {
        let (parent, name) = beneath::split(&entry.path);
        let stat = beneath.directory(parent).ok();
        let stat = stat.and_then(|folder| rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok());
        entry.bytes = stat.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
    }
    Ok((entries, is_more))
}

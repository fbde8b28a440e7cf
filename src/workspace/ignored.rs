//! What is in no recorded tree of a workspace, ignored files and those above the size limit: what of it changed since a
//! moment, and a digest of the small ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::scan::is_private;
use super::tree::Tree;
use crate::host_files;
use crate::protocol::expand::{digest_of, hex};
use crate::temp_names;

/// Entries of folders that are looked at; a workspace with more is listed as far as that.
const MOST_SEEN: usize = 500_000;

/// Larger files are part of no digest.
const SMALL_MAX: u64 = 256 * 1024;

/// Names that are given.
const MOST_NAMED: usize = 50;

/// The files, and the folders without any recorded file, in which something changed since `since`, in microseconds since
/// the Unix epoch; sorted, at most 50. Folders end with `/`.
pub fn changed(root: &Path, state: &Path, tree: &Tree, since: u64) -> Vec<String> {
    let mut look = Look { state, since, seen: 0 };
    let known: BTreeSet<&str> = tree.entries.iter().map(|entry| entry.path.as_str()).collect();
    let (mut found, mut folders) = (BTreeSet::new(), vec![String::new()]);
    while let Some(folder) = folders.pop() {
        for (path, name) in look.entries(&root.join(&folder)) {
            let path_name = format!("{folder}{name}");
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let inner = format!("{path_name}/");
            if !metadata.is_dir() {
                if !known.contains(path_name.as_str()) && look.is_new(&metadata) {
                    found.insert(path_name);
                }
            } else if known.range(inner.as_str()..).next().is_some_and(|next| next.starts_with(&inner)) {
                folders.push(inner);
            } else if look.has_new(&path) {
                found.insert(inner);
            }
        }
    }
    found.into_iter().take(MOST_NAMED).collect()
}

/// SHA-256 over the names and contents of the small files that no tree has, in folders that have recorded files; none
/// without any.
pub fn digest(root: &Path, state: &Path, tree: &Tree) -> Option<String> {
    let mut look = Look { state, since: 0, seen: 0 };
    let known: BTreeSet<&str> = tree.entries.iter().map(|entry| entry.path.as_str()).collect();
    let above = |path: &&str| Path::new(path).ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>();
    let mut folders: BTreeSet<PathBuf> = known.iter().flat_map(above).collect();
    folders.insert(PathBuf::new());
    let mut found = BTreeMap::new();
    for folder in folders {
        for (path, name) in look.entries(&root.join(&folder)) {
            let inner = folder.join(name).to_string_lossy().into_owned();
            let is_small = fs::symlink_metadata(&path).is_ok_and(|it| it.is_file() && it.len() <= SMALL_MAX);
            if is_small && !known.contains(inner.as_str()) && !temp_names::is_one(&inner) {
                found.insert(
                    inner,
                    host_files::head(&path, SMALL_MAX).map(|bytes| hex(&Sha256::digest(bytes))),
                );
            }
        }
    }
    (!found.is_empty()).then(|| digest_of(&("agon-ignored-1", found)))
}

struct Look<'a> {
    state: &'a Path,
    since: u64,
    seen: usize,
}

impl Look<'_> {
    fn entries(&mut self, folder: &Path) -> Vec<(PathBuf, String)> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let room = MOST_SEEN.saturating_sub(self.seen);
        let named = entries.take(room).filter_map(|entry| {
            let name = entry.file_name().into_string().ok().filter(|name| !is_private(name))?;
            Some((entry.path(), name)).filter(|(path, _)| path != self.state)
        });
        let named: Vec<_> = named.collect();
        self.seen += named.len();
        named
    }

    /// The last change of content or rights.
    fn is_new(&self, metadata: &fs::Metadata) -> bool {
        let changed = metadata.ctime().saturating_mul(1_000_000).saturating_add(metadata.ctime_nsec() / 1000);
        u64::try_from(changed).is_ok_and(|changed| changed >= self.since)
    }

    /// True when a file in a folder, however deep, is new.
    fn has_new(&mut self, folder: &Path) -> bool {
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for (path, _) in self.entries(&folder) {
                match fs::symlink_metadata(&path) {
                    Ok(metadata) if metadata.is_dir() => folders.push(path),
                    Ok(metadata) if self.is_new(&metadata) => return true,
                    _ => {}
                }
            }
        }
        false
    }
}

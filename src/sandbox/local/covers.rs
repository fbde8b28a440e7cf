//! Which names of the workspace are covered while commands run: what is protected, and what is secret.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use globset::GlobSet;

use super::super::names::{MOST_COVERED, MOST_SEEN, SKIPPED};
use super::super::protected;
use super::plan::{Cover, CoverKind};

/// Looks through the workspace and says what has to be covered, ancestors first.
///
/// A folder above a covered name is pinned: moved elsewhere it would take the cover along, and leave the way free
/// for another in its place.
pub fn find(root: &Path, secrets: &GlobSet) -> Vec<Cover> {
    let mut found: BTreeMap<PathBuf, CoverKind> = BTreeMap::new();
    let mut waiting = VecDeque::from([PathBuf::new()]);
    let mut seen = 0;
    while let Some(folder) = waiting.pop_front() {
        for entry in fs::read_dir(root.join(&folder)).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MOST_SEEN || found.len() > MOST_COVERED {
                return covers(found);
            }
            let path = folder.join(entry.file_name());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            match kind_of(&path, secrets) {
                Some(kind) => cover(&mut found, &path, kind),
                None if is_folder && !SKIPPED.iter().any(|name| entry.file_name() == *name) => {
                    waiting.push_back(path);
                }
                None => {}
            }
        }
    }
    covers(found)
}

/// What a name asks for, by its path beneath the workspace.
fn kind_of(path: &Path, secrets: &GlobSet) -> Option<CoverKind> {
    if secrets.is_match(path) {
        return Some(CoverKind::Masked);
    }
    protected::reason(&path.to_string_lossy()).map(|_| CoverKind::ReadOnly)
}

fn cover(found: &mut BTreeMap<PathBuf, CoverKind>, path: &Path, kind: CoverKind) {
    for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        found.entry(above.to_owned()).or_insert(CoverKind::Pinned);
    }
    found.insert(path.to_owned(), kind);
}

fn covers(found: BTreeMap<PathBuf, CoverKind>) -> Vec<Cover> {
    let parts = |path: PathBuf| path.iter().map(OsString::from).collect();
    found.into_iter().map(|(path, kind)| Cover { path: parts(path), kind }).collect()
}

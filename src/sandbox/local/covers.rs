//! Which names of the workspace are covered while commands run: what is protected, and what is secret.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use globset::GlobSet;

use super::super::leads::Leads;
use super::super::names::{MOST_COVERED, MOST_SEEN, SKIPPED, is_protected};
use super::plan::{Cover, CoverKind};

/// What is covered, and the links that cannot be.
#[derive(Debug)]
pub struct Found {
    pub covers: Vec<Cover>,
    /// Links that protected names are or lead through: a link is no place for a cover, so it is put back after a call.
    pub links: Vec<(PathBuf, PathBuf)>,
}

/// Looks through the workspace and says what has to be covered, ancestors first.
///
/// A folder above a covered name is pinned: moved elsewhere it would take the cover along, and leave the way free
/// for another in its place.
pub fn find(root: &Path, secrets: &GlobSet) -> Found {
    let (mut found, mut links) = (BTreeMap::new(), Vec::new());
    let mut waiting = VecDeque::from([PathBuf::new()]);
    let mut seen = 0;
    while let Some(folder) = waiting.pop_front() {
        for entry in fs::read_dir(root.join(&folder)).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MOST_SEEN || found.len() > MOST_COVERED {
                return Found { covers: covers(found), links };
            }
            let path = folder.join(entry.file_name());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            match kind_of(root, &path, secrets) {
                Some(kind) => {
                    cover(&mut found, &path, kind);
                    let leads = Leads::of(root, &path);
                    leads.targets.iter().for_each(|target| cover(&mut found, target, CoverKind::ReadOnly));
                    links.extend(leads.links);
                }
                None if is_folder && !SKIPPED.iter().any(|name| entry.file_name() == *name) => {
                    waiting.push_back(path);
                }
                None => {}
            }
        }
    }
    Found { covers: covers(found), links }
}

/// What a name asks for, by its path beneath the workspace.
fn kind_of(root: &Path, path: &Path, secrets: &GlobSet) -> Option<CoverKind> {
    if secrets.is_match(path) {
        return Some(CoverKind::Masked);
    }
    is_protected(root, path).then_some(CoverKind::ReadOnly)
}

fn cover(found: &mut BTreeMap<PathBuf, CoverKind>, path: &Path, kind: CoverKind) {
    for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        found.entry(above.to_owned()).or_insert(CoverKind::Pinned);
    }
    let covered = found.entry(path.to_owned()).or_insert(kind);
    *covered = (*covered).max(kind);
}

fn covers(found: BTreeMap<PathBuf, CoverKind>) -> Vec<Cover> {
    let parts = |path: PathBuf| path.iter().map(OsString::from).collect();
    found.into_iter().map(|(path, kind)| Cover { path: parts(path), kind }).collect()
}

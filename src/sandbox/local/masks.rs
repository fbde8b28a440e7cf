//! The covers that lie on a workspace in namespaces: on each name that is found, and on the folders above it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::super::masks::{FoundPaths, Kind};
use super::plan::CoverKind;

/// What lies on each path, relative to the workspace; ancestors come first.
pub type Covers = BTreeMap<PathBuf, CoverKind>;

/// Says what has to be covered of what was found.
pub fn of(found: &FoundPaths) -> Covers {
    let mut covers = Covers::new();
    for (path, kind) in &found.names {
        let kind = match kind {
            Kind::Guarded => CoverKind::ReadOnly,
            Kind::Masked | Kind::Closed => CoverKind::Masked,
        };
        add(&mut covers, path.clone(), kind);
    }
    covers
}

/// Adds a cover where there is none as strict.
///
/// A folder above a covered name is pinned: moved elsewhere it would take the cover along, and leave the way free
/// for another in its place.
///
/// What lies in a masked folder cannot be reached, neither by a command nor for a cover.
pub fn add(covers: &mut Covers, path: PathBuf, kind: CoverKind) {
    if path.ancestors().skip(1).any(|above| covers.get(above) == Some(&CoverKind::Masked)) {
        return;
    }
    for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        covers.entry(above.to_owned()).or_insert(CoverKind::Pinned);
    }
    let covered = covers.entry(path).or_insert(kind);
    *covered = (*covered).max(kind);
}

//! The covers that lie on a workspace in namespaces: on each name that is found, and on the folders above it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::super::covers::{Found, Kind};
use super::plan::{Cover, CoverKind};

/// Says what has to be covered of what was found, ancestors first.
///
/// A folder above a covered name is pinned: moved elsewhere it would take the cover along, and leave the way free
/// for another in its place.
pub fn of(found: &Found) -> Vec<Cover> {
    let names = &found.names;
    let above = names.keys().flat_map(|path| path.ancestors().skip(1));
    let above = above.filter(|above| !above.as_os_str().is_empty());
    let mut covers: BTreeMap<PathBuf, CoverKind> =
        above.map(|above| (above.to_owned(), CoverKind::Pinned)).collect();
    covers.extend(names.iter().map(|(path, kind)| match kind {
        Kind::Guarded => (path.clone(), CoverKind::ReadOnly),
        Kind::Masked | Kind::Closed => (path.clone(), CoverKind::Masked),
    }));
    let parts = |path: PathBuf| path.iter().map(std::ffi::OsString::from).collect();
    covers.into_iter().map(|(path, kind)| Cover { path: parts(path), kind }).collect()
}

//! The covers that lie on a workspace in namespaces: on each name that is found, and on the folders above it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use globset::GlobSet;

use super::super::covers::{Found, Kind};
use super::plan::{Cover, CoverKind};

/// Looks through the workspace and says what has to be covered, ancestors first; with the links that cannot be.
///
/// A folder above a covered name is pinned: moved elsewhere it would take the cover along, and leave the way free
/// for another in its place.
pub fn find(root: &Path, secrets: &GlobSet) -> (Vec<Cover>, Vec<(PathBuf, PathBuf)>) {
    let Found { names, links } = Found::of(root, secrets);
    let above = names.keys().flat_map(|path| path.ancestors().skip(1));
    let above = above.filter(|above| !above.as_os_str().is_empty());
    let mut covers: BTreeMap<PathBuf, CoverKind> =
        above.map(|above| (above.to_owned(), CoverKind::Pinned)).collect();
    covers.extend(names.into_iter().map(|(path, kind)| match kind {
        Kind::Guarded => (path, CoverKind::ReadOnly),
        Kind::Masked => (path, CoverKind::Masked),
    }));
    let parts = |path: PathBuf| path.iter().map(std::ffi::OsString::from).collect();
    (covers.into_iter().map(|(path, kind)| Cover { path: parts(path), kind }).collect(), links)
}

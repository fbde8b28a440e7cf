//! Whether written files hold again what they held before; changes nothing.

use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::objects::hash_into;
use super::scan::{RECORDED_MAX, open};
use super::tree::{Kind, Tree};
use crate::protocol::event::PathBase;

/// The paths that hold what they are said to have held. What the tree does not have is looked at where it is, since
/// git may ignore it; what cannot be read is not said to hold anything.
pub fn again(root: &Path, tree: &Tree, said: &[PathBase]) -> Vec<String> {
    let known = tree.by_path();
    let folder = Dir::open_ambient_dir(root, ambient_authority());
    let digest = |path: &str| {
        let mut file = open(folder.as_ref().ok()?, path).ok()?;
        // A pipe or a device that a command put there has no end, and no tool writes a file this large.
        let is_file = file.metadata().is_ok_and(|data| data.is_file() && data.len() <= RECORDED_MAX);
        is_file.then(|| hash_into(&mut file, None)).transpose().ok().flatten()
    };
    let holds = |base: &&PathBase| match (known.get(base.path.as_str()), &base.sha256) {
        (Some(Kind::File { sha256, .. }), said) => said.as_ref() == Some(sha256),
        (Some(Kind::Link { .. }), _) => false,
        (None, Some(said)) => digest(&base.path).is_some_and(|(sha256, _)| sha256 == *said),
        (None, None) => std::fs::symlink_metadata(root.join(&base.path)).is_err(),
    };
    said.iter().filter(holds).map(|base| base.path.clone()).collect()
}

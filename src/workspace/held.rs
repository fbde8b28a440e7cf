//! Whether recorded trees, or the files, hold what they held when somebody looked at them; changes nothing.

use std::collections::BTreeMap;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::objects::{Objects, hash_into};
use super::scan::{RECORDED_MAX, is_private, open};
use super::tree::{Kind, Tree};
use crate::host_files::rules;
use crate::ports::Untold;
use crate::protocol::event::PathBase;

/// The first path of which no tree tells what it held.
pub fn untold(
    objects: &Objects,
    root: &Path,
    trees: &[String],
    held: &[PathBase],
) -> Result<Option<Untold>, String> {
    let mut open: Vec<&PathBase> = held.iter().collect();
    for tree in trees {
        if open.is_empty() {
            break;
        }
        let tree = Tree::load(objects, tree)?;
        let known = tree.by_path();
        open.retain(|base| !tells(&known, base));
    }
    let untold = open.into_iter().find_map(|base| {
        let left_out = is_left_out(root, &base.path);
        (left_out || base.sha256.is_some()).then(|| Untold { path: base.path.clone(), left_out })
    });
    Ok(untold)
}

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

fn tells(known: &BTreeMap<&str, &Kind>, base: &PathBase) -> bool {
    let inside = || {
        let folder = format!("{}/", base.path);
        known.range(folder.as_str()..).next().is_some_and(|(path, _)| path.starts_with(&folder))
    };
    match (known.get(base.path.as_str()), &base.sha256) {
        (Some(Kind::File { sha256, .. }), Some(held)) => sha256 == held,
        (Some(_), held) => held.is_none(),
        (None, None) => base.path.is_empty() || inside(),
        (None, Some(_)) => false,
    }
}

/// True for a path that a look at the workspace passes over. A rule further down that takes a file back in is not
/// followed: what is there and taken in stands in a tree.
fn is_left_out(root: &Path, path: &str) -> bool {
    if path.split('/').any(is_private) {
        return true;
    }
    let is_folder = root.join(path).is_dir();
    let (mut folder, mut rest) = (root.to_owned(), path);
    let own = [".git/info/exclude", ".gitignore", ".ignore"];
    loop {
        let names = if folder == root { &own[..] } else { &own[1..] };
        let ignores = |name: &&str| {
            let rules = rules::of_file(&folder, &folder.join(name));
            rules.matched_path_or_any_parents(rest, is_folder).is_ignore()
        };
        if !rest.is_empty() && names.iter().any(ignores) {
            return true;
        }
        let Some((first, more)) = rest.split_once('/') else { return false };
        folder.push(first);
        rest = more;
    }
}

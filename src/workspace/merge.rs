//! Brings the changes of a copy home: for each path a three-way merge of what the copy began with, what it has now, and
//! what is here; changes no file.

use std::collections::BTreeMap;

use diffy::{ConflictStyle, MergeOptions};

use super::compare;
use super::objects::Objects;
use super::tree::{Kind, Tree, TreeEntry};
use super::undo::{changes, leave_in_the_way};
use crate::ports::PathChange;
use crate::protocol::event::DiffTaken;

/// Files above this size, in bytes, are not merged.
const MERGED_MAX: u64 = 4 * 1024 * 1024;

/// What bringing a copy's changes home would do to the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergePlan {
    /// From the tree that is there now to the merged one.
    pub diff: DiffTaken,
    /// The same, path by path, sorted.
    pub changes: Vec<PathChange>,
    /// Paths that both changed in different places: merged.
    pub merged: Vec<String>,
    /// Paths that do not merge, and why; a text gets conflict markers, anything else stays as it is.
    pub conflicts: Vec<(String, &'static str)>,
}

/// Merges what changed from `base` to `theirs` into `ours`. New contents are put into the store, unflushed.
pub fn plan(objects: &Objects, base: &Tree, theirs: &Tree, ours: &Tree) -> Result<(Tree, MergePlan), String> {
    let mut plan = MergePlan::default();
    let mut made: BTreeMap<String, Option<Kind>> = BTreeMap::new();
    let here = ours.by_path();
    for (path, old, new) in compare::differing(base, theirs) {
        let own = here.get(path).copied();
        if own == new {
            continue;
        }
        if own == old {
            made.insert(path.to_owned(), new.cloned());
            continue;
        }
        match (own, old, new) {
            (Some(own), Some(old), Some(new)) => {
                let (kind, conflict) = both(objects, (old, own, new))?;
                match conflict {
                    Some(why) => plan.conflicts.push((path.to_owned(), why)),
                    None => plan.merged.push(path.to_owned()),
                }
                made.insert(path.to_owned(), Some(kind));
            }
            (Some(_), None, Some(_)) => plan.conflicts.push((path.to_owned(), "both added it")),
            (Some(_), _, None) => {
                plan.conflicts.push((path.to_owned(), "the fork removed it, and it was changed here"))
            }
            (None, _, _) => {
                plan.conflicts.push((path.to_owned(), "it was removed here, and the fork changed it"))
            }
        }
    }
    let mut paths = here;
    for (path, kind) in &made {
        match kind {
            Some(kind) => drop(paths.insert(path, kind)),
            None => drop(paths.remove(path.as_str())),
        }
    }
    let blocked = leave_in_the_way(ours, &mut paths);
    plan.conflicts.extend(blocked.into_iter().map(|path| (path, "a file or folder is in its place")));
    let entry = |(path, kind): (&&str, &&Kind)| TreeEntry { path: (*path).to_owned(), kind: (*kind).clone() };
    let target = Tree { entries: paths.iter().map(entry).collect() };
    plan.changes = changes(ours, &target)?;
    plan.diff = compare::trees(objects, ours, &target)?;
    Ok((target, plan))
}

/// A path that is not as it was on either side: what it becomes, and why it does not merge.
fn both(
    objects: &Objects,
    (old, own, new): (&Kind, &Kind, &Kind),
) -> Result<(Kind, Option<&'static str>), String> {
    let (
        Kind::File { sha256: old_sha, exec: old_exec, mode: old_mode, .. },
        Kind::File { sha256: own_sha, exec: own_exec, mode: own_mode, size: own_size },
        Kind::File { sha256: new_sha, exec: new_exec, mode: new_mode, size: new_size },
    ) = (old, own, new)
    else {
        return Ok((own.clone(), Some("it is or was a symbolic link")));
    };
    let is_theirs = (new_exec, new_mode) != (old_exec, old_mode);
    let (exec, mode) = if is_theirs { (*new_exec, *new_mode) } else { (*own_exec, *own_mode) };
    let file = |sha256: &str, size| Kind::File { exec, sha256: sha256.to_owned(), size, mode };
    if own_sha == new_sha || new_sha == old_sha {
        return Ok((file(own_sha, *own_size), None));
    }
    if own_sha == old_sha {
        return Ok((file(new_sha, *new_size), None));
    }
    if (*own_size).max(*new_size) > MERGED_MAX {
        return Ok((own.clone(), Some("both changed it, and it is too large to be merged")));
    }
    let [old, ours, theirs] = [old_sha, own_sha, new_sha].map(|sha256| objects.read(sha256));
    let (old, ours, theirs) = (old?, ours?, theirs?);
    if [&old, &ours, &theirs].iter().any(|bytes| bytes.contains(&0)) {
        return Ok((own.clone(), Some("both changed it, and it is no text")));
    }
    let merged =
        MergeOptions::new().set_conflict_style(ConflictStyle::Merge).merge_bytes(&old, &ours, &theirs);
    let (bytes, conflict) = match merged {
        Ok(bytes) => (bytes, None),
        Err(bytes) => (bytes, Some("both changed the same lines; they are marked in the file")),
    };
    let sha256 = objects.put_bytes(&bytes)?;
    // What is not flushed yet cannot be read for the diff.
    objects.flush()?;
    Ok((file(&sha256, bytes.len() as u64), conflict))
}

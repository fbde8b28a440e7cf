//! Plans how the changes of turns are taken back: for each path three trees decide; changes no file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ignore::gitignore::Gitignore;

use super::compare::{self, Differing, differing};
use super::objects::Objects;
use super::scan::is_private;
use super::tree::{Kind, Tree, TreeEntry};
use crate::host_files::rules;
use crate::ports::{PathChange, PathState};
use crate::protocol::event::DiffTaken;

/// What an undo would do to the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoPlan {
    /// From the tree that is there now to the one it is to be, as a reviewer reads it.
    pub diff: DiffTaken,
    /// The same, path by path, sorted.
    pub changes: Vec<PathChange>,
    /// Paths of the turns that hold neither what the turn began with nor what it ended with: they stay as they are.
    pub left: Vec<String>,
    /// Those of them that `force` changes nevertheless.
    pub forced: Vec<String>,
}

/// Takes turns back, the last one first, each given by the trees it began and ended with. For each path of a turn: where
/// `now` has what the turn ended with, it gets what the turn began with; where it has that already, nothing is done; any
/// other path is left as it is, or with `force` gets what the turn began with.
pub fn target(
    objects: &Objects,
    now: &Tree,
    turns: &[(Tree, Tree)],
    force: bool,
) -> Result<(Tree, UndoPlan), String> {
    let mut paths = now.by_path();
    let mut plan = UndoPlan::default();
    for (before, after) in turns {
        let unignored = Unignored::between(objects, before, after)?;
        for (path, old, new) in differing(before, after) {
            let here = paths.get(path).copied();
            if here == old || (old.is_none() && unignored.covers(path)) {
                continue;
            }
            match (here == new, force) {
                (true, _) => {}
                (false, true) => plan.forced.push(path.to_owned()),
                (false, false) => {
                    plan.left.push(path.to_owned());
                    continue;
                }
            }
            put(&mut paths, path, old);
        }
    }
    plan.left.extend(leave_in_the_way(now, &mut paths));
    let entries = paths.iter();
    let entry = |(path, kind): (&&str, &&Kind)| TreeEntry { path: (*path).to_owned(), kind: (*kind).clone() };
    let target = Tree { entries: entries.map(entry).collect() };
    plan.changes = changes(now, &target)?;
    plan.diff = compare::trees(objects, now, &target)?;
    for list in [&mut plan.left, &mut plan.forced] {
        list.sort();
        list.dedup();
    }
    Ok((target, plan))
}

fn put<'t>(paths: &mut BTreeMap<&'t str, &'t Kind>, path: &'t str, kind: Option<&'t Kind>) {
    match kind {
        Some(kind) => drop(paths.insert(path, kind)),
        None => drop(paths.remove(path)),
    }
}

/// A file cannot be where a folder with files that stay is, nor beneath a file that stays.
pub fn leave_in_the_way<'t>(now: &Tree, paths: &mut BTreeMap<&'t str, &'t Kind>) -> BTreeSet<String> {
    let held = now.by_path();
    let is_new = |path: &str| !held.contains_key(path);
    let above = |path: &str| -> Vec<String> {
        path.match_indices('/').map(|(at, _)| path[..at].to_owned()).collect()
    };
    let mut clashes = BTreeSet::new();
    for path in paths.keys() {
        for folder in above(path).iter().filter(|folder| paths.contains_key(folder.as_str())) {
            clashes.extend([*path, folder.as_str()].into_iter().filter(|one| is_new(one)).map(str::to_owned));
        }
    }
    for path in &clashes {
        paths.remove(path.as_str());
    }
    clashes
}

/// What differs between two trees, path by path.
pub fn changes(before: &Tree, after: &Tree) -> Result<Vec<PathChange>, String> {
    differing(before, after).into_iter().map(change).collect()
}

fn change((path, old, new): Differing<'_>) -> Result<PathChange, String> {
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && !is_private(name);
    if !path.split('/').all(is_name) {
        return Err(format!("a recorded tree has the path `{path}`, which no workspace has"));
    }
    Ok(PathChange { path: path.to_owned(), before: old.map(state), after: new.map(state) })
}

fn state(kind: &Kind) -> PathState {
    match kind {
        Kind::File { exec, sha256, mode, .. } => {
            PathState::File { sha256: sha256.clone(), mode: Kind::mode(*exec, *mode) }
        }
        Kind::Link { target } => PathState::Link { target: target.clone() },
    }
}

/// What a turn's change of ignore files brought into its trees: it was there before and is not the turn's to remove.
struct Unignored(Vec<(String, Gitignore)>);

impl Unignored {
    fn between(objects: &Objects, before: &Tree, after: &Tree) -> Result<Self, String> {
        let mut found = Vec::new();
        for (path, old, _) in differing(before, after) {
            let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
            if let (".gitignore" | ".ignore", Some(Kind::File { sha256, .. })) = (name, old) {
                let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
                found.push((folder, rules::of_text(Path::new(""), &objects.read(sha256)?)));
            }
        }
        Ok(Unignored(found))
    }

    fn covers(&self, path: &str) -> bool {
        self.0.iter().any(|(folder, rules)| {
            let inner = path.strip_prefix(folder.as_str());
            inner.is_some_and(|inner| rules.matched_path_or_any_parents(inner, false).is_ignore())
        })
    }
}

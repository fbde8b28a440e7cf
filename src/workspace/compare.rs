//! The difference of two recorded trees, as a reviewer reads it; knows no live workspace.

use std::collections::BTreeSet;
use std::time::Duration;

use similar::TextDiff;

use super::objects::Objects;
use super::tree::{Kind, Tree};
use crate::ports::{FileChange, FileContent};
use crate::protocol::event::DiffTaken;
use crate::protocol::text::{cut_middle, name_shown};

/// Bytes of the diff that are kept.
const DIFF_MAX: usize = 64 * 1024;
/// Files above this size are named, not compared line by line.
const COMPARED_MAX: u64 = 1024 * 1024;
/// Once so much is written, further files are only named: the middle is cut anyway.
const WRITTEN_MAX: usize = 4 * 1024 * 1024;
/// Beyond this one file's diff may be less tidy, never wrong.
const PATIENCE: Duration = Duration::from_secs(1);

/// The diff, its middle cut at 64 KiB, and every changed path, sorted; the names of the trees are left empty.
pub fn trees(objects: &Objects, before: &Tree, after: &Tree) -> Result<DiffTaken, String> {
    let (mut diff, mut taken) = (String::new(), DiffTaken::default());
    for (path, old, new) in differing(before, after) {
        taken.files.push(path.to_owned());
        match (old, new) {
            (None, _) => taken.added.push(path.to_owned()),
            (_, None) => taken.removed.push(path.to_owned()),
            _ => {}
        }
        diff += &match diff.len() < WRITTEN_MAX {
            true => one(objects, path, old, new)?,
            false => heading(path, old, new),
        };
    }
    taken.diff = cut_middle(&diff, DIFF_MAX).0;
    Ok(taken)
}

/// Every file that differs, by path. A link that differs is refused: only files are put back from a cache.
pub fn changes(before: &Tree, after: &Tree) -> Result<Vec<FileChange>, String> {
    let change = |(path, old, new): Differing<'_>| {
        let (before, after) = (old.map(file_of).transpose(), new.map(file_of).transpose());
        match (before, after) {
            (Ok(before), Ok(after)) => Ok(FileChange { path: path.to_owned(), before, after }),
            _ => Err(format!("`{path}` is or was a symbolic link")),
        }
    };
    // Permission bits that say nothing of execution are no part of a cached run.
    let differs = |(_, old, new): &Differing<'_>| old.map(Kind::content) != new.map(Kind::content);
    differing(before, after).into_iter().filter(differs).map(change).collect()
}

/// A path, what it was and what it is.
pub type Differing<'t> = (&'t str, Option<&'t Kind>, Option<&'t Kind>);

/// Every path that differs, sorted.
pub fn differing<'t>(before: &'t Tree, after: &'t Tree) -> Vec<Differing<'t>> {
    let (old, new) = (before.by_path(), after.by_path());
    let paths: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    let pairs = paths.into_iter().map(|path| (path, old.get(path).copied(), new.get(path).copied()));
    pairs.filter(|(_, old, new)| old != new).collect()
}

fn file_of(kind: &Kind) -> Result<FileContent, ()> {
    match kind {
        Kind::File { exec, sha256, .. } => Ok(FileContent { sha256: sha256.clone(), exec: *exec }),
        Kind::Link { .. } => Err(()),
    }
}

fn one(objects: &Objects, path: &str, old: Option<&Kind>, new: Option<&Kind>) -> Result<String, String> {
    let mut text = heading(path, old, new);
    if old.and_then(content_id) == new.and_then(content_id) {
        return Ok(text);
    }
    let (Some(before), Some(after)) = (content(objects, old)?, content(objects, new)?) else {
        text += &format!("binary or large content: {} -> {}\n", described(old), described(new));
        return Ok(text);
    };
    let name = |side: &str, kind: Option<&Kind>| match kind {
        Some(_) => name_shown(&format!("{side}/{path}")).into_owned(),
        None => "/dev/null".to_owned(),
    };
    text += &TextDiff::configure()
        .timeout(PATIENCE)
        .diff_lines(before.as_str(), after.as_str())
        .unified_diff()
        .header(&name("a", old), &name("b", new))
        .to_string();
    Ok(text)
}

/// What happened to the path, mode and kind included.
fn heading(path: &str, old: Option<&Kind>, new: Option<&Kind>) -> String {
    let word = |kind: &Kind| match kind {
        Kind::File { exec: false, mode: None, .. } => "file".to_owned(),
        Kind::File { exec: true, mode: None, .. } => "executable file".to_owned(),
        Kind::File { mode: Some(mode), .. } => format!("file with mode {mode:04o}"),
        Kind::Link { .. } => "symbolic link".to_owned(),
    };
    let path = name_shown(path);
    match (old, new) {
        (None, Some(new)) => format!("added {}: {path}\n", word(new)),
        (Some(old), None) => format!("removed {}: {path}\n", word(old)),
        (Some(old), Some(new)) if word(old) != word(new) => {
            format!("changed from {} to {}: {path}\n", word(old), word(new))
        }
        _ => format!("changed: {path}\n"),
    }
}

fn content_id(kind: &Kind) -> Option<(&str, bool)> {
    Some(match kind {
        Kind::File { sha256, .. } => (sha256, false),
        Kind::Link { target } => (target, true),
    })
}

/// The text of one side; none when it is binary or too large, empty when there is no such side.
fn content(objects: &Objects, kind: Option<&Kind>) -> Result<Option<String>, String> {
    match kind {
        None => Ok(Some(String::new())),
        Some(Kind::Link { target }) => Ok(Some(format!("{target}\n"))),
        Some(Kind::File { size, .. }) if *size > COMPARED_MAX => Ok(None),
        Some(Kind::File { sha256, .. }) => {
            let bytes = objects.read(sha256)?;
            Ok(String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')))
        }
    }
}

fn described(kind: Option<&Kind>) -> String {
    match kind {
        None => "nothing".to_owned(),
        Some(Kind::Link { target }) => format!("link to {target}"),
        Some(Kind::File { sha256, size, .. }) => {
            format!("{size} bytes ({})", &sha256[..12.min(sha256.len())])
        }
    }
}

//! Names the files of a workspace, ignore rules honoured; yields names only, every open goes beneath the root.

use std::path::Path;
use std::time::{Duration, Instant};

use ignore::{DirEntry as Found, WalkBuilder};

use super::protected;
use crate::host_files::walk;
use crate::ports::{DirEntry, FileKind};
use crate::protocol::text::quoted;

/// How long a walk may take before it ends with what it has found.
const LONGEST: Duration = Duration::from_secs(30);

/// Files and links beneath `path` (canonical), sorted, at most `max`; true when there were more.
///
/// Only the workspace's own rules count, none from above it or from the user's home, so that the same
/// workspace gives the same names everywhere. A directory that is named outright is looked into even when
/// the rules leave it out.
pub fn files(root: &Path, path: &str, max: usize) -> (Vec<DirEntry>, bool) {
    let found = collect(root, root, path, max);
    match found.0.is_empty() && !path.is_empty() {
        true => collect(root, &root.join(path), path, max),
        false => found,
    }
}

fn collect(root: &Path, start: &Path, path: &str, max: usize) -> (Vec<DirEntry>, bool) {
    let (mut entries, since) = (Vec::new(), Instant::now());
    for found in builder(root, start, path).build().flatten() {
        if since.elapsed() > LONGEST {
            return (sorted(entries), true);
        }
        let Some(entry) = entry_of(root, &found) else { continue };
        // What has no name was only come by beneath it.
        if entry.kind != FileKind::Unnamed && !beneath(&entry.path, path) {
            continue;
        }
        if entries.len() == max {
            return (sorted(entries), true);
        }
        entries.push(entry);
    }
    (sorted(entries), false)
}

fn builder(root: &Path, start: &Path, path: &str) -> WalkBuilder {
    let (root, path) = (root.to_owned(), path.to_owned());
    let mut builder = walk::builder(start, move |found| {
        let relative = found.path().strip_prefix(&root).unwrap_or(Path::new("")).to_string_lossy();
        // Downwards on the way to `path`, and everything beneath it.
        let on_the_way = beneath(&path, &relative) || beneath(&relative, &path);
        on_the_way && !found.file_name().to_str().is_some_and(protected::is_private_folder)
    });
    builder.sort_by_file_name(std::ffi::OsStr::cmp);
    builder
}

fn entry_of(root: &Path, found: &Found) -> Option<DirEntry> {
    let kind = match found.file_type()? {
        kind if kind.is_dir() => return None,
        kind if kind.is_file() => FileKind::File,
        kind if kind.is_symlink() => FileKind::Link,
        _ => FileKind::Special,
    };
    let path = found.path().strip_prefix(root).ok()?;
    let bytes = found.metadata().map_or(0, |metadata| metadata.len());
    Some(match path.to_str() {
        Some(path) => DirEntry { path: path.to_owned(), kind, bytes },
        None => {
            let path = quoted(path.as_os_str().as_encoded_bytes());
            DirEntry { path, kind: FileKind::Unnamed, bytes }
        }
    })
}

/// True when a canonical path is a directory itself or lies beneath it.
fn beneath(path: &str, directory: &str) -> bool {
    directory.is_empty()
        || path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn sorted(mut entries: Vec<DirEntry>) -> Vec<DirEntry> {
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    entries
}

//! What `.git` holds beside its objects, as one digest; runs no git and changes nothing.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::objects::hash_into;
use crate::host_files;
use crate::protocol::expand::hex;

/// What decides what git does and shows. Objects are left out: alone they mean nothing. The index is left out too:
/// it is written anew whenever somebody asks for the status, and commands in a sandbox cannot write it.
const PARTS: [&str; 8] =
    ["HEAD", "MERGE_HEAD", "commondir", "config", "hooks", "info", "packed-refs", "refs"];
/// The text `gitdir: …` of a worktree or submodule is short.
const POINTER_MAX: u64 = 4096;

/// Files above this size, in bytes, count by their size and the time of their last change.
const HASHED_MAX: u64 = 32 * 1024 * 1024;

/// SHA-256 over head, references, configuration and hooks; none without `.git`.
///
/// A `.git` that is a file (a worktree, a submodule) is followed to its folder and to the one it shares.
/// What cannot be read counts as its name with a mark, so that it neither hides a change nor stops a scan. Ends early
/// once nobody waits for it.
pub fn digest(root: &Path, dropped: &CancellationToken) -> Option<String> {
    let dot_git = root.join(".git");
    let metadata = fs::symlink_metadata(&dot_git).ok()?;
    let mut look = Look { hasher: Sha256::new(), dropped };
    look.hasher.update(b"agon-git-1\0");
    let folder = match metadata.is_dir() {
        true => dot_git,
        false => look.pointed(root, &dot_git)?,
    };
    look.take_parts(&folder);
    if let Some(shared) = short_text(&folder.join("commondir")) {
        look.take_parts(&folder.join(shared.trim()));
    }
    Some(hex(&look.hasher.finalize()))
}

fn short_text(path: &Path) -> Option<String> {
    let is_file = fs::symlink_metadata(path).ok()?.is_file();
    String::from_utf8(is_file.then(|| host_files::head(path, POINTER_MAX))??).ok()
}

/// A digest in the making.
struct Look<'a> {
    hasher: Sha256,
    dropped: &'a CancellationToken,
}

impl Look<'_> {
    /// The folder a `.git` file names.
    fn pointed(&mut self, root: &Path, file: &Path) -> Option<PathBuf> {
        let text = short_text(file)?;
        self.piece(text.as_bytes());
        Some(root.join(text.strip_prefix("gitdir:")?.trim()))
    }

    fn take_parts(&mut self, folder: &Path) {
        for part in PARTS {
            self.take(&folder.join(part), part);
        }
    }

    /// Takes a name and what it holds, folders to their depths, in the order of their names, links unfollowed.
    fn take(&mut self, path: &Path, name: &str) {
        let Ok(metadata) = fs::symlink_metadata(path) else { return };
        if self.dropped.is_cancelled() {
            return;
        }
        self.piece(name.as_bytes());
        if metadata.is_dir() {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
            names.sort();
            for inner in names {
                self.take(&path.join(&inner), &format!("{name}/{}", inner.to_string_lossy()));
            }
        } else if metadata.len() > HASHED_MAX {
            self.piece(&metadata.len().to_be_bytes());
            self.piece(&metadata.mtime().to_be_bytes());
        } else if metadata.is_file() {
            match content(path) {
                Some(sha256) => self.piece(sha256.as_bytes()),
                None => self.piece(b"unreadable"),
            }
        } else {
            let target = fs::read_link(path).unwrap_or_default();
            self.piece(target.as_os_str().as_encoded_bytes());
        }
    }

    /// Lengths stand before contents, so that no two states read alike.
    fn piece(&mut self, bytes: &[u8]) {
        self.hasher.update((bytes.len() as u64).to_be_bytes());
        self.hasher.update(bytes);
    }
}

fn content(path: &Path) -> Option<String> {
    let mut file = host_files::open(path).ok()??.take(HASHED_MAX);
    Some(hash_into(&mut file, None).ok()?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(root: &Path) -> Option<String> {
        super::digest(root, &CancellationToken::new())
    }

    fn put(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn heads_references_and_hooks_count_and_objects_and_the_index_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(digest(root), None);
        put(root.join(".git/HEAD"), "ref: refs/heads/main\n");
        let mut seen = vec![digest(root).unwrap()];
        for name in ["refs/heads/main", "packed-refs", "hooks/post-commit", "config", "info/exclude"] {
            put(root.join(".git").join(name), "1");
            seen.push(digest(root).unwrap());
        }
        let all: std::collections::BTreeSet<_> = seen.iter().collect();
        assert_eq!(all.len(), seen.len(), "each made a difference");
        for name in ["objects/aa/bb", "index"] {
            put(root.join(".git").join(name), "1");
            assert_eq!(digest(root).as_ref(), seen.last(), "{name}");
        }
    }

    #[test]
    fn a_worktree_is_followed_to_its_own_and_its_shared_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("tree");
        put(root.join(".git"), "gitdir: ../main/.git/worktrees/tree\n");
        let own = folder.path().join("main/.git/worktrees/tree");
        put(own.join("HEAD"), "ref: refs/heads/side\n");
        put(own.join("commondir"), "../..\n");
        let first = digest(&root).unwrap();
        put(folder.path().join("main/.git/refs/heads/side"), "1");
        let second = digest(&root).unwrap();
        put(own.join("HEAD"), "2");
        assert!(first != second && second != digest(&root).unwrap());
    }
}

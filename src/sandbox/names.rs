//! Names of a workspace that every sandbox treats alike: which are secret, which are protected, and what becomes of
//! protected ones that a command has made; knows no kind of sandbox.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::protected;
use crate::ports::ExecEnd;

/// Folders that are not looked into: others' packages and what builds leave behind.
pub const SKIPPED: &[&str] = &["node_modules", "target", ".venv", "vendor", "__pycache__"];
/// Most names that are looked at, and most that are covered; what lies nearest to the top comes first.
pub const MOST_SEEN: usize = 50_000;
pub const MOST_COVERED: usize = 400;

/// Protected names directly in a workspace, and one folder further down in hidden folders, where CI keeps its own.
/// Relative to the root.
pub fn protected_now(root: &Path) -> BTreeSet<PathBuf> {
    let entries = |folder: &Path| fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
    let hidden = entries(Path::new("")).filter(|entry| {
        entry.file_type().is_ok_and(|kind| kind.is_dir())
            && entry.file_name().as_encoded_bytes().starts_with(b".")
    });
    let folders: Vec<PathBuf> =
        std::iter::once(PathBuf::new()).chain(hidden.map(|entry| entry.file_name().into())).collect();
    let paths =
        folders.iter().flat_map(|folder| entries(folder).map(move |entry| folder.join(entry.file_name())));
    paths.filter(|path| protected::reason(&path.to_string_lossy()).is_some()).collect()
}

/// Renames protected names that a command has made, so that nobody takes them for what they are not. Gives a line
/// for each, for the model.
pub fn set_aside(root: &Path, before: &BTreeSet<PathBuf>) -> Vec<String> {
    let made = protected_now(root).into_iter().filter(|path| !before.contains(path));
    let lines = made.filter_map(|path| {
        let aside = free_name(root, &path);
        let line = match fs::rename(root.join(&path), root.join(&aside)) {
            Ok(()) => format!("is now `{}`", aside.display()),
            // Another agon's call in the same workspace has set it aside.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => format!("should not be there and cannot be renamed: {error}"),
        };
        Some(format!("[agon: `{}` is a protected name; what this command made {line}]\n", path.display()))
    });
    lines.collect()
}

/// What a command's own complaint does not say: why `.git`, or a whole workspace, cannot be written, and what to do.
pub fn told_of_closed(end: &ExecEnd, read_only: bool) -> Vec<String> {
    if end.exit == Some(0) {
        return Vec::new();
    }
    let lines = || end.stderr.lines().chain(end.stdout.lines());
    let is_closed = |line: &&str| line.contains("Read-only file system");
    let is_git = |line: &str| line.contains(".git/") || line.contains(".git'");
    let words = match (lines().find(is_closed), lines().filter(is_closed).any(is_git), read_only) {
        (None, ..) => return Vec::new(),
        (Some(_), _, true) => {
            "the workspace cannot be changed from here: say what should be changed; what you need to write for yourself goes to /tmp"
        }
        (Some(_), true, false) => {
            "`.git` cannot be changed by a command, so `git add`, `git commit`, `git stash` and the like fail here; leave the change in the files and propose a commit message: the person commits"
        }
        _ => return Vec::new(),
    };
    vec![format!("[agon: {words}]\n")]
}

/// A name beside it that nobody has.
fn free_name(root: &Path, path: &Path) -> PathBuf {
    let name = |i: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(if i == 0 { ".untrusted".to_owned() } else { format!(".untrusted{i}") });
        PathBuf::from(name)
    };
    (0..1000).map(name).find(|name| !exists(&root.join(name))).unwrap_or_else(|| name(0))
}

/// The patterns as one set, read as policy reads them; one that cannot be read matches nothing.
pub fn globs(patterns: &[String]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let mut glob = GlobBuilder::new(pattern);
        if let Ok(glob) = glob.empty_alternates(true).case_insensitive(true).build() {
            set.add(glob);
        }
    }
    set.build().unwrap_or_else(|_| GlobSet::empty())
}

/// True for anything of this name, a broken link included.
pub fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_names_that_were_made_are_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("AGENTS.md"), "before").unwrap();
        let before = protected_now(root);
        fs::create_dir_all(root.join(".github/workflows")).unwrap();
        fs::write(root.join("CLAUDE.md"), "evil").unwrap();
        fs::write(root.join("CLAUDE.md.untrusted"), "in the way").unwrap();
        let lines = set_aside(root, &before);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[1].contains("`CLAUDE.md` is a protected name") && lines[1].contains("CLAUDE.md.untrusted1")
        );
        assert!(root.join(".github/workflows.untrusted").is_dir() && root.join("AGENTS.md").exists());
        assert_eq!(protected_now(root), before);
    }
}

//! Which names of a workspace lie under a cover while commands run: protected ones read-only, secret ones empty.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::sandbox::protected;

/// Folders that are not looked into: others' packages and what builds leave behind.
const SKIPPED: &[&str] = &["node_modules", "target", ".venv", "vendor", "__pycache__"];
/// Folders in the root that are covered, there or not.
const ALWAYS: [&str; 2] = [".git", ".agon"];
/// Most names that are looked at, and most that are covered; what lies nearest to the root comes first.
const MOST_SEEN: usize = 50_000;
const MOST_COVERED: usize = 400;

/// The names under a cover, absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Covers {
    /// Shown and not to be changed.
    pub guarded: Vec<PathBuf>,
    /// Shown empty.
    pub masked: Vec<PathBuf>,
    /// Of the guarded ones, folders that have to be made first.
    pub missing: Vec<PathBuf>,
}

impl Covers {
    /// Looks through a workspace. `secrets` are globs of paths beneath it.
    pub fn find(root: &Path, secrets: &[String]) -> Self {
        let secrets = globs(secrets);
        let missing: Vec<PathBuf> =
            ALWAYS.iter().map(|name| root.join(name)).filter(|path| !exists(path)).collect();
        let mut covers = Covers { guarded: missing.clone(), masked: Vec::new(), missing };
        let mut waiting = VecDeque::from([PathBuf::new()]);
        let mut seen = 0;
        while let Some(folder) = waiting.pop_front() {
            for entry in fs::read_dir(root.join(&folder)).into_iter().flatten().flatten() {
                seen += 1;
                if seen > MOST_SEEN || covers.guarded.len() + covers.masked.len() >= MOST_COVERED {
                    return covers;
                }
                let (path, kind) = (folder.join(entry.file_name()), entry.file_type());
                let is_folder = kind.as_ref().is_ok_and(fs::FileType::is_dir);
                // A mount follows a link to wherever it leads, so a link itself cannot be covered.
                let is_link = kind.as_ref().is_ok_and(fs::FileType::is_symlink);
                let name = path.to_string_lossy();
                let is_protected = protected::reason(&name).is_some();
                match (is_link, secrets.is_match(&path), is_protected) {
                    (true, ..) => {}
                    (_, true, _) if !is_folder => covers.masked.push(root.join(path)),
                    (_, _, true) => covers.guarded.push(root.join(path)),
                    _ if is_folder && !SKIPPED.iter().any(|name| entry.file_name() == *name) => {
                        waiting.push_back(path);
                    }
                    _ => {}
                }
            }
        }
        covers
    }
}

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
    let lines = made.map(|path| {
        let aside = free_name(root, &path);
        let line = match fs::rename(root.join(&path), root.join(&aside)) {
            Ok(()) => format!("is now `{}`", aside.display()),
            Err(error) => format!("should not be there and cannot be renamed: {error}"),
        };
        format!("[agon: `{}` is a protected name; what this command made {line}]\n", path.display())
    });
    lines.collect()
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
fn globs(patterns: &[String]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let mut glob = GlobBuilder::new(pattern);
        if let Ok(glob) = glob.empty_alternates(true).case_insensitive(true).build() {
            set.add(glob);
        }
    }
    set.build().unwrap_or_else(|_| GlobSet::empty())
}

/// Makes an empty folder to mount upon; true when there is a folder.
pub fn is_made(folder: &Path) -> bool {
    match fs::create_dir(folder) {
        Ok(()) => true,
        Err(error) => error.kind() == std::io::ErrorKind::AlreadyExists && folder.is_dir(),
    }
}

/// True for anything of this name, a broken link included.
fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_names_are_guarded_secret_ones_masked_and_two_always() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in [
            "AGENTS.md",
            ".env",
            "src/deep/.env",
            "src/a.rs",
            "node_modules/x/.env",
            "sub/.git/config",
            ".git/x",
        ] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", root.join("src/.env")).unwrap();
        let covers = Covers::find(root, &["{,*/}{.env,.env.*}".to_owned()]);
        let names = |paths: &[PathBuf]| {
            let mut names: Vec<_> =
                paths.iter().map(|path| path.strip_prefix(root).unwrap().display().to_string()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&covers.guarded), [".agon", ".git", "AGENTS.md", "sub/.git"]);
        assert_eq!(names(&covers.masked), [".env", "src/deep/.env"]);
        assert_eq!(names(&covers.missing), [".agon"]);
    }

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

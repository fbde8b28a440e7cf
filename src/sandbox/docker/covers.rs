//! Which names of a workspace lie under a cover while commands run: protected ones read-only, secret ones empty.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use crate::sandbox::names::{MOST_COVERED, MOST_SEEN, SKIPPED, globs};
use crate::sandbox::placeholder::Placeholder;
use crate::sandbox::protected;

/// Folders in the root that are covered, there or not.
const ALWAYS: [&str; 2] = [".git", ".agon"];

/// The names under a cover, absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Covers {
    /// Shown and not to be changed.
    pub guarded: Vec<PathBuf>,
    /// Shown empty.
    pub masked: Vec<PathBuf>,
    /// Of the guarded ones, folders that have to be made first, or that another agon has made for itself.
    pub missing: Vec<PathBuf>,
}

impl Covers {
    /// Looks through a workspace. `secrets` are globs of paths beneath it.
    pub fn find(root: &Path, secrets: &[String]) -> Self {
        let secrets = globs(secrets);
        let missing: Vec<PathBuf> =
            ALWAYS.iter().map(|name| root.join(name)).filter(|path| Placeholder::may_stand(path)).collect();
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
                    (_, _, true) if covers.missing.contains(&root.join(&path)) => {}
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
}

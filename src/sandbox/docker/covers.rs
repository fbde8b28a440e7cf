//! Which names of a workspace lie under a cover while commands run: protected ones read-only, secret ones empty.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use crate::sandbox::leads::Leads;
use crate::sandbox::names::{MOST_COVERED, MOST_SEEN, SKIPPED, globs, is_protected};
use crate::sandbox::placeholder::Placeholder;

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
    /// Folders above guarded names, which must stay where they are.
    pub pinned: Vec<PathBuf>,
    /// Links that protected names are or lead through, relative to the root, with what they say: a mount follows a
    /// link, so they are put back after a call.
    pub links: Vec<(PathBuf, PathBuf)>,
}

impl Covers {
    /// Looks through a workspace. `secrets` are globs of paths beneath it.
    pub fn find(root: &Path, secrets: &[String]) -> Self {
        let mut covers = Covers::look(root, secrets);
        let is_closed = |folder: &Path| covers.guarded.iter().any(|guarded| folder.starts_with(guarded));
        let above = covers.guarded.iter().flat_map(|guarded| guarded.ancestors().skip(1));
        let above = above.filter(|folder| *folder != root && folder.starts_with(root) && !is_closed(folder));
        let pinned: std::collections::BTreeSet<PathBuf> = above.map(Path::to_owned).collect();
        covers.pinned = pinned.into_iter().collect();
        covers
    }

    fn look(root: &Path, secrets: &[String]) -> Self {
        let secrets = globs(secrets);
        let missing: Vec<PathBuf> =
            ALWAYS.iter().map(|name| root.join(name)).filter(|path| Placeholder::may_stand(path)).collect();
        let mut covers = Covers { guarded: missing.clone(), missing, ..Covers::default() };
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
                let is_protected = is_protected(root, &path);
                if is_protected {
                    let leads = Leads::of(root, &path);
                    covers.links.extend(leads.links);
                    for target in leads.targets.into_iter().map(|target| root.join(target)) {
                        if !covers.guarded.contains(&target) {
                            covers.guarded.push(target);
                        }
                    }
                }
                match (is_link, secrets.is_match(&path), is_protected) {
                    (true, ..) => {}
                    (_, true, _) if !is_folder => covers.masked.push(root.join(path)),
                    (_, _, true) if covers.guarded.contains(&root.join(&path)) => {}
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

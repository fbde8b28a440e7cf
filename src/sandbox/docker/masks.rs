//! Which names of a workspace lie under a cover while commands run: protected ones read-only, secret ones empty.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::protocol::spec::{DeniedPath, DeniedPaths};
use crate::sandbox::masks::{FoundPaths, Kind};
use crate::sandbox::mount_stubs::Placeholder;
use crate::sandbox::protected::ProtectedNames;

/// Folders in the root that are covered, there or not.
const ALWAYS: [&str; 2] = [".git", ".agon"];

/// The names under a cover, absolute.
#[derive(Clone, Debug, Default)]
pub struct Covers {
    /// Shown and not to be changed.
    pub guarded: Vec<PathBuf>,
    /// Shown empty.
    pub masked: Vec<PathBuf>,
    /// Folders shown empty.
    pub closed: Vec<PathBuf>,
    /// Of the guarded ones, folders that have to be made first, or that another agon has made for itself.
    pub missing: Vec<PathBuf>,
    /// Folders above covered names, which must stay where they are.
    pub pinned: Vec<PathBuf>,
    /// What they were made of: a mount follows a link, so links are put back after a call.
    pub found: FoundPaths,
}

impl Covers {
    /// Looks through a workspace. `secrets` are paths under it.
    pub fn find(root: &Path, secrets: &[DeniedPath], protected: &ProtectedNames) -> Result<Self, String> {
        let mut covers = Covers::look(root, secrets, protected)?;
        let guarded: BTreeSet<&Path> = covers.guarded.iter().map(PathBuf::as_path).collect();
        let covered = covers.guarded.iter().chain(&covers.closed).chain(&covers.masked);
        let above = covered.flat_map(|covered| covered.ancestors().skip(1));
        let is_free = |folder: &Path| !folder.ancestors().any(|above| guarded.contains(above));
        let above = above.filter(|folder| *folder != root && folder.starts_with(root));
        let pinned: BTreeSet<&Path> = above.collect();
        let pinned = pinned.into_iter().filter(|folder| is_free(folder)).map(Path::to_owned).collect();
        covers.pinned = pinned;
        Ok(covers)
    }

    fn look(root: &Path, secrets: &[DeniedPath], protected: &ProtectedNames) -> Result<Self, String> {
        let found = FoundPaths::of(root, &DeniedPaths::new(secrets), protected)?;
        let names = found.names.clone();
        let missing: Vec<PathBuf> =
            ALWAYS.iter().map(|name| root.join(name)).filter(|path| Placeholder::may_stand(path)).collect();
        let mut covers = Covers { guarded: missing.clone(), missing, found, ..Covers::default() };
        for (path, kind) in names.into_iter().map(|(path, kind)| (root.join(path), kind)) {
            // A mount follows a link to wherever it leads, so a link itself cannot be covered.
            match (kind, std::fs::symlink_metadata(&path)) {
                (Kind::Masked | Kind::Closed, Ok(data)) if data.is_dir() => covers.closed.push(path),
                (Kind::Masked, Ok(data)) if !data.is_symlink() => covers.masked.push(path),
                (Kind::Guarded, Ok(data)) if !data.is_symlink() && !covers.missing.contains(&path) => {
                    covers.guarded.push(path);
                }
                _ => {}
            }
        }
        Ok(covers)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        fs::create_dir(root.join("config")).unwrap();
        fs::write(root.join("config/prod"), "").unwrap();
        std::os::unix::fs::symlink("../config/prod", root.join("src/.env.prod")).unwrap();
        let secrets = [DeniedPath::of("{,*/}{.env,.env.*}")];
        let covers = Covers::find(root, &secrets, &ProtectedNames::default()).unwrap();
        let names = |paths: &[PathBuf]| {
            let mut names: Vec<_> =
                paths.iter().map(|path| path.strip_prefix(root).unwrap().display().to_string()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&covers.guarded), [".agon", ".git", "AGENTS.md", "sub/.git"]);
        assert_eq!(names(&covers.masked), [".env", "config/prod", "src/deep/.env"]);
        assert_eq!(names(&covers.missing), [".agon"]);
    }
}

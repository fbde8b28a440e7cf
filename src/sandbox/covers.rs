//! Which names of a workspace are covered while commands run: protected ones are not to be changed, secret ones not to
//! be read; knows no kind of sandbox.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use globset::GlobSet;

use super::leads::Leads;
use super::names::is_protected;

/// Folders that are not looked into: others' packages and what builds leave behind.
const SKIPPED: &[&str] = &["node_modules", "target", ".venv", "vendor", "__pycache__"];
/// Most names that are looked at, and most that are covered; what lies nearest to the top comes first.
const MOST_SEEN: usize = 50_000;
const MOST_COVERED: usize = 400;

/// What becomes of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It can be read and not changed.
    Guarded,
    /// It cannot be read.
    Masked,
    /// A folder that cannot be looked into: it is shown empty, so that a command that opens it finds nothing.
    Closed,
}

/// What is covered, relative to the root.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Names and what they lead to as links, ancestors first. A link among them is no place for a cover.
    pub names: BTreeMap<PathBuf, Kind>,
    /// Links that protected names are or lead through, with what they say: they are put back after a call.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// There was more to look at or to cover than is done.
    pub is_cut: bool,
}

impl Found {
    /// Looks through a workspace.
    pub fn of(root: &Path, secrets: &GlobSet) -> Self {
        let (mut found, mut seen) = (Found::default(), 0);
        let mut waiting = VecDeque::from([PathBuf::new()]);
        while let Some(folder) = waiting.pop_front() {
            let entries = fs::read_dir(root.join(&folder));
            if entries.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
                && folder.parent().is_some()
            {
                if found.names.len() >= MOST_COVERED {
                    found.is_cut = true;
                    return found;
                }
                found.names.insert(folder.clone(), Kind::Closed);
            }
            for entry in entries.into_iter().flatten().flatten() {
                seen += 1;
                let path = folder.join(entry.file_name());
                let is_guarded = is_protected(root, &path);
                let is_full = found.names.len() >= MOST_COVERED && (is_guarded || secrets.is_match(&path));
                if seen > MOST_SEEN || is_full {
                    found.is_cut = true;
                    return found;
                }
                if secrets.is_match(&path) {
                    found.add(root, &path, Kind::Masked);
                } else if is_guarded {
                    found.add(root, &path, Kind::Guarded);
                }
                // In a secret folder each file is one as well.
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder && !is_guarded && !SKIPPED.iter().any(|name| entry.file_name() == *name) {
                    waiting.push_back(path);
                }
            }
        }
        found
    }

    /// A name with what it leads to.
    fn add(&mut self, root: &Path, path: &Path, kind: Kind) {
        let Leads { links, targets, .. } = Leads::of(root, path);
        for path in targets.into_iter().chain([path.to_owned()]) {
            let covered = self.names.entry(path).or_insert(kind);
            *covered = (*covered).max(kind);
        }
        if kind == Kind::Guarded {
            self.links.extend(links);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn closed_folders_are_covered_up_to_the_same_bound() {
        let folder = tempfile::tempdir().unwrap();
        let set = |mode: u32| {
            for i in 0..=MOST_COVERED {
                let closed = folder.path().join(format!("d{i}"));
                fs::create_dir_all(&closed).unwrap();
                fs::set_permissions(&closed, Permissions::from_mode(mode)).unwrap();
            }
        };
        set(0);
        let found = Found::of(folder.path(), &GlobSet::empty());
        set(0o755);
        // Nothing is closed to root.
        let expected = if rustix::process::geteuid().is_root() { (0, false) } else { (MOST_COVERED, true) };
        assert_eq!((found.names.len(), found.is_cut), expected);
    }
}

//! Which names of a workspace are covered while commands run: protected ones are not to be changed, secret ones not to
//! be read; knows no kind of sandbox.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};

use super::git_index;
use super::link_targets::{Leads, small_text};
use super::protected::ProtectedNames;
use super::protected_snapshot::{is_protected, is_repository};
use crate::host_files;
use crate::protocol::spec::DeniedPaths;
use crate::protocol::text::name_shown;

/// Folders that are not looked into, but for submodules in them: others' packages and what builds leave behind.
const SKIPPED: &[&str] = &["node_modules", "target", ".venv", "vendor", "__pycache__"];
/// Most names that are looked at, and most that are covered. Beyond them nothing is opened: what a command can read or
/// change must not hang on how many names another has made before.
pub const MOST_SEEN: usize = 1_000_000;
pub const MOST_COVERED: usize = 4_000;
/// Bytes of the longest path that is covered. The kernel takes 4,096, and an engine puts its own folders before it.
const LONGEST: usize = 3_500;

/// Bytes of the largest list of submodules.
const LARGEST_MODULES: u64 = 1024 * 1024;
/// Bytes of the largest index that is read, and of the largest file that is compared with it.
const LARGEST_INDEX: u64 = 256 * 1024 * 1024;
const LARGEST_TRACKED: u64 = 1024 * 1024;

/// What a git repository keeps by the thousand: digests, and branches that may be called like secrets.
const OBJECTS: &[&str] = &["objects", "refs", "logs"];

/// What in a repository names commands that git runs, or leads to it.
const STEERING: &[&str] =
    &["HEAD", "config", "config.worktree", "hooks", "commondir", "worktrees", "modules"];

/// What a folder that is looked into lies in.
#[derive(Clone, Copy, Default)]
struct Within {
    guarded: bool,
    repository: bool,
}

impl Within {
    fn skips(self, folder: &OsStr) -> bool {
        let skipped = if self.repository { OBJECTS } else { SKIPPED };
        skipped.iter().any(|name| folder == *name)
    }
}

/// The submodules of a folder that lie in what is not looked into. The user's git runs what steers git in them.
fn hidden_submodules(root: &Path, folder: &Path) -> Vec<PathBuf> {
    let text = host_files::text(&root.join(folder).join(".gitmodules"), LARGEST_MODULES).unwrap_or_default();
    let paths = text.lines().filter_map(|line| {
        let line = line.split_once("\"]").map_or(line, |(_, after)| after);
        let (key, path) = line.split_once('=')?;
        let path = match path.trim().strip_prefix('"') {
            Some(quoted) => quoted.split('"').next()?,
            None => path.split(['#', ';']).next()?.trim(),
        };
        key.trim().eq_ignore_ascii_case("path").then(|| Path::new(path))
    });
    let is_hidden = |path: &&Path| {
        path.components().all(|part| matches!(part, Component::Normal(_)))
            && path.iter().any(|name| SKIPPED.iter().any(|skipped| name == *skipped))
    };
    let inside = |path: &Path| {
        let path = folder.join(path);
        root.join(&path).canonicalize().is_ok_and(|real| real == root.join(&path)).then_some(path)
    };
    paths.filter(is_hidden).filter_map(inside).collect()
}

/// Content that git tracks under names of secrets, by its names in the index.
fn tracked(root: &Path, secrets: &DeniedPaths) -> BTreeMap<PathBuf, Vec<u8>> {
    let file = root.join(".git");
    let named = small_text(&file).and_then(|text| Some(root.join(text.strip_prefix("gitdir: ")?.trim_end())));
    let index = host_files::head(&named.unwrap_or(file).join("index"), LARGEST_INDEX).unwrap_or_default();
    let mut found = BTreeMap::new();
    let read = git_index::entries(&index, 20, &mut |entry| {
        let path = Path::new(OsStr::from_bytes(entry.name));
        if secrets.holds(path) {
            found.insert(path.to_owned(), entry.object.to_vec());
        }
    });
    if read.is_ok() { found } else { BTreeMap::new() }
}

/// A file whose content is in the repository is no secret of this machine. Changed, it may be one.
fn is_as_tracked(root: &Path, path: &Path, tracked: &BTreeMap<PathBuf, Vec<u8>>) -> bool {
    let Some(object) = tracked.get(path) else { return false };
    let is_file = fs::symlink_metadata(root.join(path)).is_ok_and(|data| data.is_file());
    let Some(bytes) = host_files::head(&root.join(path), LARGEST_TRACKED).filter(|_| is_file) else {
        return false;
    };
    let mut digest = Sha1::new();
    digest.update(format!("blob {}\0", bytes.len()));
    digest.update(&bytes);
    digest.finalize().as_slice() == object.as_slice()
}

/// What becomes of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
pub struct FoundPaths {
    /// Which names are protected.
    pub protected: ProtectedNames,
    /// Names and what they lead to as links, ancestors first. A link among them is no place for a cover.
    pub names: BTreeMap<PathBuf, Kind>,
    /// Links that protected names are or lead through, with what they say: they are put back after a call.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Names of secrets that are shown, because they hold what git has of them.
    pub as_tracked: BTreeMap<PathBuf, Vec<u8>>,
}

impl FoundPaths {
    /// The names that were shown as git has them and hold something else now: a person may have put a key there.
    pub fn no_more_as_tracked(&self, root: &Path) -> impl Iterator<Item = &PathBuf> {
        self.as_tracked.keys().filter(move |path| !is_as_tracked(root, path, &self.as_tracked))
    }

    /// Looks through a workspace. An error says what there is too much of, and where.
    pub fn of(root: &Path, secrets: &DeniedPaths, protected: &ProtectedNames) -> Result<Self, String> {
        let (mut found, mut seen) = (FoundPaths { protected: protected.clone(), ..FoundPaths::default() }, 0);
        let mut as_tracked = BTreeMap::new();
        let tracked = LazyCell::new(|| tracked(root, secrets));
        let mut is_shown = |path: &Path| {
            let is_shown = is_as_tracked(root, path, &tracked);
            if let Some(object) = tracked.get(path).filter(|_| is_shown) {
                as_tracked.insert(path.to_owned(), object.clone());
            }
            is_shown
        };
        let mut waiting = VecDeque::from([(PathBuf::new(), Within::default())]);
        let mut submodules = BTreeSet::new();
        while let Some((folder, mut within)) = waiting.pop_front() {
            let is_top = folder.parent().is_none();
            // The workspace itself cannot be guarded, but what steers git in it can.
            let is_bare_top = is_top && is_repository(root);
            let entries = fs::read_dir(root.join(&folder));
            let unseen = [ErrorKind::PermissionDenied, ErrorKind::InvalidFilename];
            if entries.as_ref().is_err_and(|error| unseen.contains(&error.kind())) && !is_top {
                found.names.insert(folder.clone(), Kind::Closed);
            }
            if !is_top && !within.repository && is_repository(&root.join(&folder)) {
                if !within.guarded {
                    found.add(root, &folder, Kind::Guarded);
                }
                within = Within { guarded: true, repository: true };
            }
            for entry in entries.into_iter().flatten().flatten() {
                seen += 1;
                let path = folder.join(entry.file_name());
                // No protected name has more than two parts.
                let near =
                    folder.file_name().map_or(path.clone(), |above| Path::new(above).join(entry.file_name()));
                let steers = is_bare_top && STEERING.iter().any(|name| entry.file_name() == *name);
                let is_guarded = within.guarded || steers || is_protected(root, &near, protected);
                let is_secret = secrets.holds(&path) && !is_shown(&path);
                if is_secret {
                    found.add(root, &path, Kind::Masked);
                } else if is_guarded && !within.guarded {
                    found.add(root, &path, Kind::Guarded);
                }
                // A secret folder hides what is in it.
                let is_folder = !is_secret && entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder && !within.skips(&entry.file_name()) {
                    waiting.push_back((path, Within { guarded: is_guarded, ..within }));
                }
                if entry.file_name() == ".gitmodules" {
                    let hidden = hidden_submodules(root, &folder).into_iter();
                    let new = hidden.filter(|path| submodules.insert(path.clone()));
                    waiting.extend(new.map(|path| (path, Within::default())));
                }
            }
            if seen > MOST_SEEN {
                return Err(format!(
                    "the workspace has more than {MOST_SEEN} files to look through for secrets and protected names: move \
                     what is not needed out of it, or work in a folder further down"
                ));
            }
            if found.names.len() > MOST_COVERED {
                return Err(found.too_many());
            }
        }
        found.as_tracked = as_tracked;
        found.leave_out_hidden(root);
        let above: BTreeSet<&Path> = found.names.keys().flat_map(|name| name.ancestors().skip(1)).collect();
        let is_deep = |name: &&PathBuf| root.join(name).as_os_str().len() > LONGEST;
        match found.names.keys().find(is_deep) {
            Some(name) => Err(too_deep(name)),
            None if above.len() > MOST_COVERED => Err(found.too_many()),
            None => Ok(found),
        }
    }

    /// Leaves out what lies in a folder that is shown empty: there is nothing to lay a cover on.
    fn leave_out_hidden(&mut self, root: &Path) {
        let hides = |(name, kind): (&PathBuf, &Kind)| {
            let hides = *kind != Kind::Guarded
                && fs::symlink_metadata(root.join(name)).is_ok_and(|data| data.is_dir());
            hides.then(|| name.clone())
        };
        let hidden: BTreeSet<PathBuf> = self.names.iter().filter_map(hides).collect();
        self.names.retain(|name, _| !name.ancestors().skip(1).any(|above| hidden.contains(above)));
    }

    fn too_many(&self) -> String {
        format!(
            "more names would have to be kept from commands than can be ({MOST_COVERED}: protected names, secrets, closed \
             folders, the folders they are in), most of them in `{}`: remove what is not needed there, or move it out of \
             the workspace",
            name_shown(&self.fullest().to_string_lossy())
        )
    }

    /// The folder furthest down that holds more than half of the names.
    fn fullest(&self) -> PathBuf {
        let mut counts: BTreeMap<&Path, usize> = BTreeMap::new();
        for above in self.names.keys().flat_map(|name| name.ancestors().skip(1)) {
            *counts.entry(above).or_default() += 1;
        }
        let full = counts.into_iter().filter(|(_, count)| count * 2 > self.names.len());
        let deepest = full.map(|(folder, _)| folder).max_by_key(|folder| folder.iter().count());
        deepest.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
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

/// Where it lies is told by its ends alone.
fn too_deep(name: &Path) -> String {
    let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
    let (first, last) = (parts.first().map_or("", AsRef::as_ref), parts.last().map_or("", AsRef::as_ref));
    format!(
        "`{}` lies {} folders deep, too deep to be kept from commands: remove what lies there, or move it further up",
        name_shown(&format!("{first}/…/{last}")),
        parts.len().saturating_sub(1)
    )
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::protocol::spec::DeniedPath;

    #[test]
    fn more_names_than_can_be_covered_are_an_error_that_says_where() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = DeniedPaths::new(&[DeniedPath::of("{,*/}.env.*")]);
        let name = |i: usize| folder.path().join(format!("a/b/.env.{i}"));
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("a/.env.x"), "").unwrap();
        (1..MOST_COVERED).for_each(|i| fs::write(name(i), "").unwrap());
        assert_eq!(
            FoundPaths::of(folder.path(), &secrets, &ProtectedNames::default()).unwrap().names.len(),
            MOST_COVERED
        );
        fs::write(name(0), "").unwrap();
        let error = FoundPaths::of(folder.path(), &secrets, &ProtectedNames::default()).unwrap_err();
        assert!(error.contains("most of them in `a/b`"), "{error}");
    }

    #[test]
    fn secrets_are_masked_within_protected_folders_and_none_within_a_folder_that_is_masked_itself() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            ".git/HEAD",
            ".git/refs/heads/a.pem",
            ".git/objects/a.pem",
            ".git/deploy.pem",
            ".claude/.env",
            ".github/workflows/.env",
            "sub/.git/.env",
            ".env.d/AGENTS.md",
            "fixture.git/HEAD",
            "fixture.git/objects/a.pem",
            "fixture.git/refs/x",
            "fixture.git/x.pem",
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let secrets = DeniedPaths::new(&[DeniedPath::of("{,*/}{.env,.env.*,*.pem}")]);
        let found = FoundPaths::of(folder.path(), &secrets, &ProtectedNames::default()).unwrap();
        let names = |kind: Kind| {
            let names = found.names.iter().filter(|(_, of)| **of == kind);
            names.map(|(name, _)| name.to_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names(Kind::Guarded), [".claude", ".git", ".github/workflows", "fixture.git", "sub/.git"]);
        assert_eq!(
            names(Kind::Masked),
            [
                ".claude/.env",
                ".env.d",
                ".git/deploy.pem",
                ".github/workflows/.env",
                "fixture.git/x.pem",
                "sub/.git/.env"
            ]
        );
    }

    #[test]
    fn a_submodule_in_a_folder_of_packages_is_guarded_and_no_path_in_its_list_leads_out() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, other) = (folder.path().canonicalize().unwrap(), other.path().canonicalize().unwrap());
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let named = |paths: &[&str]| {
            paths.iter().map(|path| format!("[submodule \"x\"]\n\tpath = {path}\n")).collect::<String>()
        };
        for name in ["vendor/x", "vendor/plain", "vendor/x/vendor/deep", "vendor/y", "vendor/z#"] {
            put(&format!("{name}/.git"), "gitdir: /nowhere\n");
        }
        fs::create_dir_all(other.join("vendor/.git")).unwrap();
        std::os::unix::fs::symlink(other.join("vendor"), root.join("node_modules")).unwrap();
        let outside = format!("../{}/vendor", other.file_name().unwrap().display());
        let odd = ["vendor/y ; a note", "\"vendor/z#\""];
        put(
            ".gitmodules",
            &named(&["vendor/x", "vendor/x", odd[0], odd[1], "node_modules", &outside, "/vendor/x", ""]),
        );
        put("vendor/x/.gitmodules", "[submodule \"x\"] Path = vendor/deep # as git reads it\n");
        let found = FoundPaths::of(&root, &DeniedPaths::new(&[]), &ProtectedNames::default()).unwrap();
        let guarded = found.names.iter().filter(|(_, kind)| **kind == Kind::Guarded);
        let guarded: Vec<&str> = guarded.map(|(name, _)| name.to_str().unwrap()).collect();
        let lists = [".gitmodules", "vendor/x/.gitmodules"];
        let deep = "vendor/x/vendor/deep/.git";
        assert_eq!(guarded, [lists[0], "vendor/x/.git", lists[1], deep, "vendor/y/.git", "vendor/z#/.git"]);
    }

    #[test]
    fn what_steers_git_is_guarded_in_a_workspace_that_is_a_repository_itself() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &&str| folder.path().join(name);
        ["objects", "refs", "hooks", "src"].iter().for_each(|name| fs::create_dir(at(name)).unwrap());
        ["HEAD", "config", "a.rs"].iter().for_each(|name| fs::write(at(name), "").unwrap());
        let found =
            FoundPaths::of(folder.path(), &DeniedPaths::new(&[]), &ProtectedNames::default()).unwrap();
        let guarded: Vec<&str> = found.names.keys().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(guarded, ["HEAD", "config", "hooks"]);
    }

    #[test]
    fn a_name_too_deep_to_be_covered_is_an_error_that_shows_its_ends() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = DeniedPaths::new(&[DeniedPath::of("{,*/}.env")]);
        // Step by step: a path of that length is none any more.
        let mut at = fs::File::open(folder.path()).unwrap();
        for depth in 0..420 {
            let place = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&at));
            if depth == 300 {
                assert!(FoundPaths::of(folder.path(), &secrets, &ProtectedNames::default()).is_ok());
            }
            if depth == 340 {
                let secret = Path::new(&place).join(".env");
                fs::write(&secret, "").unwrap();
                let error = FoundPaths::of(folder.path(), &secrets, &ProtectedNames::default()).unwrap_err();
                assert!(error.contains("`dddddddddd/…/.env` lies 340 folders deep"), "{error}");
                fs::remove_file(secret).unwrap();
            }
            let next = Path::new(&place).join("dddddddddd");
            fs::create_dir(&next).unwrap();
            at = fs::File::open(next).unwrap();
        }
        let error = FoundPaths::of(folder.path(), &secrets, &ProtectedNames::default()).unwrap_err();
        assert!(error.contains("`dddddddddd/…/dddddddddd` lies"), "nobody can look into it: {error}");
    }

    #[test]
    fn closed_folders_count_among_the_covers() {
        let folder = tempfile::tempdir().unwrap();
        let set = |mode: u32| {
            for i in 0..=MOST_COVERED {
                let closed = folder.path().join(format!("d{i}"));
                fs::create_dir_all(&closed).unwrap();
                fs::set_permissions(&closed, Permissions::from_mode(mode)).unwrap();
            }
        };
        set(0);
        let found = FoundPaths::of(folder.path(), &DeniedPaths::new(&[]), &ProtectedNames::default());
        set(0o755);
        // Nothing is closed to root.
        assert_eq!(found.is_ok(), rustix::process::geteuid().is_root(), "{found:?}");
        assert!(found.err().is_none_or(|error| error.contains("most of them in `.`")));
    }
}

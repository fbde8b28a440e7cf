//! Finds what stays hidden in folders that are shown: sockets and pipes of other processes, files with credentials,
//! and what is closed to other users.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use globset::GlobSet;

use super::super::protected_snapshot::globs;
use super::plan::{Mount, MountKind};
use super::tools;

/// Most covers in one folder before the folder they are in is hidden as a whole.
const MOST_IN_ONE: usize = 256;

/// What a folder that is shown is searched for. Sockets and pipes always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// What other users may not read.
    Closed,
    /// Files named like [`tools::CREDENTIALS`].
    Credentials,
}

/// A folder or file that is shown read-only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Where it is seen.
    pub target: PathBuf,
    /// Where it is outside.
    pub source: PathBuf,
    pub search: Search,
}

/// What is hidden in what is shown, with what is seen in its place. `apart` are targets that are shown or hidden for a
/// reason of their own: the search ends there. A symbolic link is never followed.
///
/// This reads whole folder trees, so it belongs to the opening of a session and not to a call.
pub fn find(shown: &[Shown], apart: &BTreeSet<PathBuf>) -> BTreeMap<PathBuf, MountKind> {
    let names: Vec<String> = tools::CREDENTIALS.iter().map(|name| (*name).to_owned()).collect();
    let finder = Finder { credentials: globs(&names), apart };
    let mut found = BTreeMap::new();
    for Shown { target, source, search } in shown {
        if fs::symlink_metadata(source).is_ok_and(|data| data.is_file()) {
            if *search == Search::Credentials && finder.is_credential(target) {
                found.insert(target.clone(), MountKind::Blank);
            }
            continue;
        }
        let mut waiting = vec![(source.clone(), target.clone())];
        while let Some((at, seen_at)) = waiting.pop() {
            let (hidden, folders) = finder.look(&at, &seen_at, *search);
            if hidden.len() > MOST_IN_ONE && seen_at != *target {
                found.insert(seen_at, MountKind::Nothing);
                continue;
            }
            found.extend(hidden);
            waiting.extend(folders);
        }
    }
    found
}

struct Finder<'a> {
    credentials: GlobSet,
    apart: &'a BTreeSet<PathBuf>,
}

/// What is hidden, by target, and the folders to look into, each with its target.
type Looked = (Vec<(PathBuf, MountKind)>, Vec<(PathBuf, PathBuf)>);

impl Finder<'_> {
    fn is_credential(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| self.credentials.is_match(name))
    }

    fn look(&self, folder: &Path, seen_at: &Path, search: Search) -> Looked {
        let (mut hidden, mut folders) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (target, Ok(kind)) = (seen_at.join(entry.file_name()), entry.file_type()) else { continue };
            if kind.is_symlink() || self.apart.contains(&target) {
                continue;
            }
            let is_closed = || {
                let open = if kind.is_dir() { 0o005 } else { 0o004 };
                // What cannot be looked at is gone.
                entry.metadata().is_ok_and(|data| data.mode() & open != open)
            };
            if kind.is_socket() || kind.is_fifo() || (search == Search::Closed && is_closed()) {
                hidden.push((target, MountKind::Nothing));
            } else if kind.is_dir() {
                let is_packages = tools::NOT_SEARCHED.iter().any(|name| entry.file_name() == *name);
                let is_searched = search == Search::Closed || !is_packages;
                folders.extend(is_searched.then(|| (entry.path(), target)));
            } else if search == Search::Credentials && self.is_credential(&target) {
                hidden.push((target, MountKind::Blank));
            }
        }
        (hidden, folders)
    }
}

/// Covers for the sockets that processes of this machine listen on now, wherever they are in what is shown: one may
/// have been made since the session was opened, or be in a folder that is not searched.
pub fn listening(mounts: &[Mount]) -> Vec<Mount> {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    covers_of(&table, mounts)
}

fn covers_of(table: &str, mounts: &[Mount]) -> Vec<Mount> {
    let sockets: BTreeSet<&Path> = table
        .lines()
        .filter_map(|line| line.find(" /").map(|at| Path::new(&line[at + 1..])))
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket()))
        .collect();
    let mut covers: BTreeMap<PathBuf, MountKind> = BTreeMap::new();
    for socket in sockets {
        for mount in mounts {
            let MountKind::Bind { source, writable: false } = &mount.kind else { continue };
            let Ok(beneath) = socket.strip_prefix(source) else { continue };
            let target = Path::new(&mount.target).join(beneath);
            // What lies nearest decides: a socket may be hidden already, or in a folder of another kind.
            let above = |other: &&Mount| target.starts_with(&other.target);
            let nearest = mounts.iter().filter(above).max_by_key(|other| other.target.len());
            if nearest.is_some_and(|nearest| nearest.target == mount.target) {
                covers.insert(target, MountKind::Nothing);
            }
        }
    }
    covers.into_iter().map(|(target, kind)| Mount { target: target.into_os_string(), kind }).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn put(path: PathBuf, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn sockets_credentials_and_what_is_closed_to_others_are_found_at_any_depth() {
        let folder = tempfile::tempdir().unwrap();
        let base = &fs::canonicalize(folder.path()).unwrap();
        let deep = base.join("a/b/c/d/e/f/g");
        put(deep.join("key"), 0o600);
        put(deep.join("open"), 0o644);
        put(deep.join("npmrc"), 0o644);
        put(deep.join("pip.conf"), 0o644);
        put(deep.join("my.PFX"), 0o644);
        put(deep.join("credentials.toml.bak"), 0o644);
        put(deep.join("credentials.rs"), 0o644);
        put(deep.join("site-packages/x/.env"), 0o644);
        put(base.join("apart/key"), 0o600);
        put(base.join("shut/x"), 0o644);
        fs::set_permissions(base.join("shut"), Permissions::from_mode(0o711)).unwrap();
        let _socket = UnixListener::bind(deep.join("s")).unwrap();
        let apart = BTreeSet::from([base.join("apart")]);
        let names = |search: Search| {
            let shown = Shown { target: base.clone(), source: base.clone(), search };
            let found = find(&[shown], &apart);
            found
                .into_keys()
                .map(|path| {
                    path.strip_prefix(base).unwrap().display().to_string().replace("a/b/c/d/e/f/g", "…")
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(names(Search::Closed), ["…/key", "…/s", "shut"]);
        let credentials = ["…/credentials.toml.bak", "…/my.PFX", "…/npmrc", "…/pip.conf", "…/s"];
        assert_eq!(names(Search::Credentials), credentials);
    }

    #[test]
    fn a_folder_with_more_than_can_be_covered_is_hidden_whole() {
        let folder = tempfile::tempdir().unwrap();
        (0..=MOST_IN_ONE).for_each(|i| put(folder.path().join(format!("many/{i}")), 0o600));
        let (target, source) = (PathBuf::from("/seen"), folder.path().to_owned());
        let found = find(&[Shown { target, source, search: Search::Closed }], &BTreeSet::new());
        assert_eq!(found, BTreeMap::from([("/seen/many".into(), MountKind::Nothing)]));
    }

    #[test]
    fn a_socket_is_covered_where_it_is_shown_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let base = &fs::canonicalize(folder.path()).unwrap();
        let line = |name: &str| {
            fs::create_dir_all(base.join(name).parent().unwrap()).unwrap();
            drop(UnixListener::bind(base.join(name)).unwrap());
            format!("0000000000000000: 00000002 00000000 00010000 0001 01 1 {}\n", base.join(name).display())
        };
        let table =
            [line("real/a b.sock"), line("real/hidden/s"), line("other/s"), line("real/ws/s")].concat();
        let mount = |target: &str, kind| Mount { target: base.join(target).into(), kind };
        let bind = |source: &str, writable| MountKind::Bind { source: base.join(source).into(), writable };
        let mounts = [
            mount("shown", bind("real", false)),
            mount("shown/hidden", MountKind::Nothing),
            mount("shown/ws", bind("real/ws", true)),
        ];
        assert_eq!(covers_of(&table, &mounts), [mount("shown/a b.sock", MountKind::Nothing)]);
    }
}

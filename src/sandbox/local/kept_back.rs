//! Finds what stays hidden in folders that are shown: sockets and pipes of other processes, files with credentials,
//! and what is closed to other users.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

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
    /// Files like [`tools::credentials`].
    Credentials,
    /// Nothing else.
    Sockets,
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

/// What is hidden in what is shown, with what is seen in its place; and the folders of packages that were left for
/// [`Packages`]. `apart` are targets that are shown or hidden for a reason of their own: the search ends there. A symbolic
/// link is never followed.
///
/// This reads whole folder trees, so it belongs to the opening of a session and not to a call.
pub fn find(shown: &[Shown], apart: &BTreeSet<PathBuf>) -> (BTreeMap<PathBuf, MountKind>, Vec<Shown>) {
    let (names, in_folders) = tools::credentials();
    let finder = Finder { names: globs(&names), in_folders: globs(&in_folders), apart };
    let (mut found, mut packages) = (BTreeMap::new(), Vec::new());
    for Shown { target, source, search } in shown {
        if fs::symlink_metadata(source).is_ok_and(|data| data.is_file()) {
            if *search == Search::Credentials && finder.is_credential(target) {
                found.insert(target.clone(), MountKind::Blank);
            }
            continue;
        }
        let mut waiting = vec![(source.clone(), target.clone())];
        while let Some((at, seen_at)) = waiting.pop() {
            let (hidden, folders, left) = finder.look(&at, &seen_at, *search);
            packages.extend(left);
            if hidden.len() > MOST_IN_ONE && seen_at != *target {
                found.insert(seen_at, MountKind::Nothing);
                continue;
            }
            found.extend(hidden);
            waiting.extend(folders);
        }
    }
    (found, packages)
}

/// Folders of packages, which are too large to be searched for sockets and pipes before a session opens.
pub struct Packages {
    folders: Vec<Shown>,
    found: OnceLock<BTreeMap<PathBuf, MountKind>>,
}

impl Packages {
    /// One search serves all sandboxes that show the same folders at the same time: those of a session and its roles.
    pub fn of(folders: &[Shown]) -> Arc<Self> {
        static ALIVE: Mutex<Vec<Weak<Packages>>> = Mutex::new(Vec::new());
        let mut alive = ALIVE.lock().unwrap_or_else(PoisonError::into_inner);
        alive.retain(|one| one.strong_count() > 0);
        let same = alive.iter().filter_map(Weak::upgrade).find(|one| one.folders == folders);
        same.unwrap_or_else(|| {
            let new = Arc::new(Packages { folders: folders.to_vec(), found: OnceLock::new() });
            alive.push(Arc::downgrade(&new));
            new
        })
    }

    /// Searches, or waits for the search that was begun.
    pub fn search(&self) -> &BTreeMap<PathBuf, MountKind> {
        self.found.get_or_init(|| find(&self.folders, &BTreeSet::new()).0)
    }

    /// Whether the search is over.
    pub fn is_searched(&self) -> bool {
        self.found.get().is_some()
    }

    /// Covers for what was found, as far as it can be seen.
    pub fn covers(&self, mounts: &[Mount]) -> Vec<Mount> {
        let seen = self.search().iter().filter(|(target, _)| is_bound(target, mounts));
        seen.map(|(target, kind)| mount(target.clone(), kind.clone())).collect()
    }
}

fn mount(target: PathBuf, kind: MountKind) -> Mount {
    Mount { target: target.into_os_string(), kind }
}

/// Whether a place shows what is there outside. What lies nearest decides: it may be hidden already.
fn is_bound(target: &Path, mounts: &[Mount]) -> bool {
    nearest(target, mounts).is_some_and(|nearest| nearest.kind.shown().is_some())
}

fn nearest<'a>(target: &Path, mounts: &'a [Mount]) -> Option<&'a Mount> {
    mounts.iter().filter(|mount| target.starts_with(&mount.target)).max_by_key(|mount| mount.target.len())
}

struct Finder<'a> {
    names: GlobSet,
    in_folders: GlobSet,
    apart: &'a BTreeSet<PathBuf>,
}

/// What is hidden, by target; the folders to look into, each with its target; and those of packages.
type Looked = (Vec<(PathBuf, MountKind)>, Vec<(PathBuf, PathBuf)>, Vec<Shown>);

impl Finder<'_> {
    fn is_credential(&self, path: &Path) -> bool {
        let Some(name) = path.file_name() else { return false };
        let folder = path.parent().and_then(Path::file_name);
        self.names.is_match(name)
            || folder.is_some_and(|folder| self.in_folders.is_match(Path::new(folder).join(name)))
    }

    fn look(&self, folder: &Path, seen_at: &Path, search: Search) -> Looked {
        let (mut hidden, mut folders, mut packages) = (Vec::new(), Vec::new(), Vec::new());
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_symlink() || (kind.is_file() && search == Search::Sockets) {
                continue;
            }
            let target = seen_at.join(entry.file_name());
            if self.apart.contains(&target) {
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
                match is_packages && search == Search::Credentials {
                    true => packages.push(Shown { target, source: entry.path(), search: Search::Sockets }),
                    false => folders.push((entry.path(), target)),
                }
            } else if search == Search::Credentials && self.is_credential(&target) {
                hidden.push((target, MountKind::Blank));
            }
        }
        (hidden, folders, packages)
    }
}

/// Covers for the sockets that processes of this machine listen on now, wherever they are in what is shown: one may
/// have been made since the session was opened. The table has the path a socket was bound by: one that was moved, or
/// bound by a relative path, is found by a search alone.
pub fn listening(mounts: &[Mount]) -> Vec<Mount> {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    covers_of(&table, mounts)
}

fn covers_of(table: &str, mounts: &[Mount]) -> Vec<Mount> {
    // Folders on the way may be links, and most sockets are in few folders.
    let mut folders: BTreeMap<&Path, Option<PathBuf>> = BTreeMap::new();
    let sockets: BTreeSet<PathBuf> = table
        .lines()
        .filter_map(|line| line.find(" /").map(|at| Path::new(&line[at + 1..])))
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket()))
        .filter_map(|path| {
            let folder = path.parent()?;
            let real = folders.entry(folder).or_insert_with(|| fs::canonicalize(folder).ok());
            Some(real.as_ref()?.join(path.file_name()?))
        })
        .collect();
    let mut covers: BTreeMap<PathBuf, MountKind> = BTreeMap::new();
    for socket in sockets {
        for mount in mounts {
            let Some(source) = mount.kind.shown() else { continue };
            let Ok(beneath) = socket.strip_prefix(source) else { continue };
            let target = Path::new(&mount.target).join(beneath);
            if nearest(&target, mounts).is_some_and(|nearest| nearest.target == mount.target) {
                covers.insert(target, MountKind::Nothing);
            }
        }
    }
    covers.into_iter().map(|(target, kind)| self::mount(target, kind)).collect()
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
        put(deep.join("cacert.pem"), 0o644);
        put(deep.join("my-key.pem"), 0o644);
        put(deep.join("monkey/cert.pem"), 0o644);
        put(deep.join(".azure/token.json"), 0o644);
        put(deep.join(".azure/bin/bicep"), 0o644);
        put(deep.join("site-packages/x/.env"), 0o644);
        put(base.join("apart/key"), 0o600);
        put(base.join("shut/x"), 0o644);
        fs::set_permissions(base.join("shut"), Permissions::from_mode(0o711)).unwrap();
        let _socket = UnixListener::bind(deep.join("s")).unwrap();
        let apart = BTreeSet::from([base.join("apart")]);
        let names = |search: Search| {
            let shown = Shown { target: base.clone(), source: base.clone(), search };
            let (found, left) = find(&[shown], &apart);
            assert_eq!(left.len(), usize::from(search == Search::Credentials), "site-packages come later");
            found
                .into_keys()
                .map(|path| {
                    path.strip_prefix(base).unwrap().display().to_string().replace("a/b/c/d/e/f/g", "…")
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(names(Search::Closed), ["…/key", "…/s", "shut"]);
        let credentials = [
            "…/.azure/token.json",
            "…/credentials.toml.bak",
            "…/my-key.pem",
            "…/my.PFX",
            "…/npmrc",
            "…/pip.conf",
            "…/s",
        ];
        assert_eq!(names(Search::Credentials), credentials);
        assert_eq!(names(Search::Sockets), ["…/s"]);
    }

    #[test]
    fn a_folder_with_more_than_can_be_covered_is_hidden_whole() {
        let folder = tempfile::tempdir().unwrap();
        (0..=MOST_IN_ONE).for_each(|i| put(folder.path().join(format!("many/{i}")), 0o600));
        let (target, source) = (PathBuf::from("/seen"), folder.path().to_owned());
        let found = find(&[Shown { target, source, search: Search::Closed }], &BTreeSet::new()).0;
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
        fs::create_dir(base.join("real")).unwrap();
        std::os::unix::fs::symlink(base.join("real"), base.join("link")).unwrap();
        let table =
            [line("link/a b.sock"), line("real/hidden/s"), line("other/s"), line("real/ws/s")].concat();
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

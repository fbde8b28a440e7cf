//! Caches of tools that commands write to as well as read: each under a layer that lasts as long as the session, or, where
//! there is none to lay it on, in the session's `/tmp`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::plan::{Mount, MountKind};
use super::tmp;

/// Overlayfs takes no layer that lies on itself.
const OVERLAYFS: rustix::fs::FsWord = 0x794c_7630;

/// A folder beneath the home, and the variable that moves it with the name it has in `/tmp`, if there is one.
const CACHES: &[(&str, Option<(&str, &str)>)] = &[
    (".cache/go-build", Some(("GOCACHE", "go-build"))),
    (".cache/pip", Some(("PIP_CACHE_DIR", "pip"))),
    (".cache/uv", Some(("UV_CACHE_DIR", "uv"))),
    (".cargo/registry", None),
    (".gradle/caches", None),
    (".local/share/pnpm/store", None),
    (".m2/repository", None),
    (".npm/_cacache", Some(("npm_config_cache", "npm"))),
    (".nuget/packages", None),
    ("go/pkg", None),
];

/// The caches of a session that calls write to.
#[derive(Debug, Default)]
pub struct Caches {
    /// Where each is seen, and the folder for its changes.
    layered: Vec<(PathBuf, PathBuf)>,
}

impl Caches {
    /// Those that are shown get a layer in `scratch`; the others are moved by their variable.
    pub fn of(
        home: Option<&Path>,
        (mounts, scratch): (&[Mount], &Path),
        environment: &mut BTreeMap<String, OsString>,
    ) -> Self {
        let mut caches = Caches::default();
        let tmp = environment.get("TMPDIR").map(PathBuf::from).unwrap_or_default();
        let takes_layers = rustix::fs::statfs(scratch).is_ok_and(|found| found.f_type != OVERLAYFS);
        for (folder, variable) in CACHES {
            let place = home.map(|home| home.join(folder)).unwrap_or_default();
            let is_shown = mounts.iter().any(|mount| {
                mount.target == *place && matches!(mount.kind, MountKind::Bind { writable: false, .. })
            });
            // A layer shows what is below without what is mounted there, and so what is hidden.
            let hides = mounts.iter().any(|mount| Path::new(&mount.target).starts_with(&place) && mount.target != *place);
            let changes = scratch.join("caches").join(folder.replace('/', "-"));
            if is_shown && !hides && takes_layers && fs::create_dir_all(&changes).is_ok() {
                caches.layered.push((place, changes));
            } else if let Some((name, moved)) = variable {
                environment.insert((*name).to_owned(), tmp.join(moved).into_os_string());
            }
        }
        caches
    }

    /// What a call mounts of them, and what it takes away again when it is dropped: no two calls share a working folder.
    pub fn mounts(&self) -> (Vec<Mount>, Working) {
        let mounted: (Vec<Mount>, Vec<TempDir>) = self
            .layered
            .iter()
            .filter_map(|(place, changes)| {
                let work = tempfile::Builder::new().prefix("work-").tempdir_in(changes.parent()?).ok()?;
                let (upper, target) = (changes.clone().into_os_string(), place.clone().into_os_string());
                let kind =
                    MountKind::Overlay { upper, work: work.path().as_os_str().to_owned(), is_needed: false };
                Some((Mount { target, kind }, work))
            })
            .unzip();
        (mounted.0, Working(mounted.1))
    }
}

/// The working folders of a call's layers.
pub struct Working(Vec<TempDir>);

impl Drop for Working {
    fn drop(&mut self) {
        // What is in them is closed to everybody.
        self.0.iter().for_each(|folder| tmp::remove(folder.path()));
    }
}

//! Caches of tools that commands write to as well as read: each under a layer that lasts as long as the session, or, where
//! there is none to lay it on, in the session's `/tmp`.

use std::fs;
use std::path::{Path, PathBuf};

use super::fs_layout::FsLayout;
use super::plan::MountKind;

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

/// Lays the caches that are shown under layers in `scratch`, and moves the others by their variables.
pub fn add(home: Option<&Path>, scratch: &Path, layout: &mut FsLayout) {
    let tmp = layout.environment.get("TMPDIR").map(PathBuf::from).unwrap_or_default();
    let takes_layers = rustix::fs::statfs(scratch).is_ok_and(|found| found.f_type != OVERLAYFS);
    for (folder, variable) in CACHES {
        let place = home.map(|home| home.join(folder)).unwrap_or_default();
        // A layer shows what is below without what is mounted there, and so what is hidden.
        let beneath = layout.mounts.iter().filter(|mount| Path::new(&mount.target).starts_with(&place));
        let is_whole = takes_layers && beneath.count() == 1;
        let changes = scratch.join("caches").join(folder.replace('/', "-"));
        let (upper, work) = (changes.join("upper"), changes.join("work"));
        let made = || fs::create_dir_all(&upper).and_then(|()| fs::create_dir(&work));
        let shown = layout.mounts.iter_mut().find(|mount| mount.target == *place);
        let source = shown.as_ref().and_then(|mount| match &mount.kind {
            MountKind::Bind { source, writable: false } => Some(source.clone()),
            _ => None,
        });
        if let (Some(mount), Some(source)) = (shown, source)
            && is_whole
            && made().is_ok()
        {
            let [upper, work] = [upper, work].map(PathBuf::into_os_string);
            mount.kind = MountKind::Layered { source, upper, work };
            layout.writable.push(place.into_os_string());
        } else if let Some((name, moved)) = variable {
            layout.environment.insert((*name).to_owned(), tmp.join(moved).into_os_string());
        }
    }
}

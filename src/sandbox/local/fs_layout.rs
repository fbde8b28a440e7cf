//! What of this machine a confined command sees, decided once when the sandbox is opened; mounts nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::super::repository;
use super::home_layout::HomeLayout;
use super::kept_back::{self, Search, Shown};
use super::plan::{Mount, MountKind};
use super::{tmp, tools};
use crate::host_files;

/// Folders of the system that are shown read-only where they are there.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/etc",
    "/nix/store",
    "/nix/var/nix/profiles",
    "/gnu/store",
];
/// Those in which people and services keep files of their own: what is closed to others there stays closed.
const SEARCHED: &[&str] = &["/etc", "/opt", "/usr/local"];
/// Most bytes of cargo's own settings.
const MOST_SETTINGS: u64 = 64 * 1024;
/// Where commands see settings that agon makes for them.
pub const SETTINGS: &str = "/run/agon";
/// Folder of a session in which layers over caches are.
const CACHES: &str = "caches";
/// Devices without a state.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// Variables of the caller that a command may see. None carries a key.
const PASSED_ON: &[&str] = &["PATH", "LANG", "USER"];

type Mounts = BTreeMap<PathBuf, MountKind>;

/// The view: what is mounted, what may be written, and the environment that fits.
#[derive(Clone, Debug)]
pub struct FsLayout {
    pub mounts: Vec<Mount>,
    pub writable: Vec<OsString>,
    pub environment: BTreeMap<String, OsString>,
    /// Shown folders that are not searched yet.
    pub packages: Vec<Shown>,
}

impl FsLayout {
    /// The same for a sandbox without a view of its own: what may be read and written of the real one, with a home
    /// and temporary files in `scratch`.
    pub fn of_rules(&self, workspace: &Path, scratch: &Path, read_only: bool) -> (Vec<OsString>, FsLayout) {
        let mut readable: Vec<OsString> = vec!["/proc".into(), workspace.as_os_str().to_owned()];
        let hides = |mount: &&Mount| matches!(mount.kind, MountKind::Nothing | MountKind::Blank);
        let hidden = self.mounts.iter().filter(hides);
        let hidden: Vec<&Path> = hidden.map(|mount| Path::new(&mount.target)).collect();
        for mount in &self.mounts {
            match &mount.kind {
                MountKind::Bind { source, writable: false } => {
                    without(Path::new(source), &hidden, &mut readable);
                }
                // The links of `/dev` lead to whatever is open, which is no file of a file system.
                MountKind::Link { .. } if SYSTEM.iter().any(|system| mount.target == *system) => {
                    readable.push(mount.target.clone());
                }
                _ => {}
            }
        }
        let (home, tmp) = (scratch.join("home").into_os_string(), scratch.join("tmp").into_os_string());
        let mut writable = vec![home.clone(), tmp.clone()];
        writable.extend(DEVICES.iter().filter(|device| Path::new(device).exists()).map(OsString::from));
        if !read_only {
            writable.push(workspace.as_os_str().to_owned());
        }
        let mut environment = self.environment.clone();
        environment.insert("HOME".to_owned(), home);
        if read_only {
            let target = Path::new(&tmp).join("target");
            environment.insert("CARGO_TARGET_DIR".to_owned(), target.into_os_string());
        }
        environment.insert("TMPDIR".to_owned(), tmp);
        // Without layers they cannot be written.
        environment.retain(|name, _| tools::caches().all(|cache| cache != name));
        // There is no network to ask, and waiting for it would be lost time.
        for (name, value) in [
            ("CARGO_NET_OFFLINE", "true"),
            ("npm_config_offline", "true"),
            ("PIP_NO_INDEX", "1"),
            ("UV_OFFLINE", "1"),
        ] {
            environment.insert(name.to_owned(), value.into());
        }
        (readable, FsLayout { mounts: Vec::new(), writable, environment, packages: Vec::new() })
    }

    /// Folders of the session that layers and new caches need.
    pub fn layers(&self, scratch: &Path) -> Vec<PathBuf> {
        let caches = scratch.join(CACHES);
        let folders = self.mounts.iter().flat_map(|mount| match &mount.kind {
            MountKind::Layered { layer, .. } => {
                ["upper", "work"].map(|name| Path::new(layer).join(name)).to_vec()
            }
            MountKind::Bind { source, .. } if Path::new(source).starts_with(&caches) => vec![source.into()],
            _ => Vec::new(),
        });
        folders.collect()
    }

    /// The view on `workspace` with `scratch/tmp` as `/tmp`. `variable` is the caller's environment.
    pub fn of(
        workspace: &Path,
        scratch: &Path,
        (read_only, own): (bool, &[PathBuf]),
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> FsLayout {
        let (mut mounts, mut shown) = (Mounts::new(), Vec::new());
        let home = variable("HOME").map(PathBuf::from).filter(|home| may_be_hidden(home, workspace));
        system(&mut mounts, &mut shown);
        devices(&mut mounts);
        let homes = HomeLayout::of(home.as_deref(), own);
        for folder in extra_folders(workspace, &homes, variable) {
            show(&mut mounts, &folder, &folder);
            shown.push(searched(&folder, &folder, Search::Credentials));
        }
        if let Some(home) = &home {
            mounts.insert(home.clone(), MountKind::Memory { mib: 512, mode: 0o700, sealed: false });
        }
        let closed =
            tool_folders(&mut mounts, &mut shown, (home.as_deref(), &homes), (workspace, scratch), variable);
        let mut writable: Vec<OsString> = vec!["/tmp".into(), "/var/tmp".into(), "/dev".into()];
        writable.extend(home.clone().map(PathBuf::into_os_string));
        mounts.insert("/tmp".into(), bind(scratch.join("tmp"), true));
        mounts.insert("/var/tmp".into(), bind(scratch.join("vartmp"), true));
        mounts.insert(SETTINGS.into(), bind(scratch.join(tmp::SETTINGS), false));
        mounts.insert(workspace.to_owned(), bind(workspace.to_owned(), !read_only));
        if !read_only {
            writable.push(workspace.as_os_str().to_owned());
        }
        let git = repository::outside(workspace, own, variable("HOME").as_deref().map(Path::new));
        // Beneath the system's folders it is seen as it is.
        let git = git.filter(|git| !SYSTEM.iter().any(|system| git.starts_with(system)));
        if let Some(git) = &git {
            mounts.insert(git.clone(), bind(git.clone(), false));
        }
        hold_still(&mut mounts);
        let mut packages = keep_back(&mut mounts, &shown, closed);
        packages.extend(git.iter().map(|git| searched(git, git, Search::Sockets)));
        for shown in [Some(workspace), git.as_deref()].into_iter().flatten() {
            if let Some(home) = &home {
                hold_way(&mut mounts, home, shown);
            }
        }
        let mut environment = environment(home.as_deref(), variable);
        if read_only {
            // So that somebody who only looks can build and test all the same.
            environment.insert("CARGO_TARGET_DIR".to_owned(), "/tmp/target".into());
            environment.insert("PYTHONPYCACHEPREFIX".to_owned(), "/tmp/pycache".into());
        }
        // Caches that a variable puts outside of the home are written to as well.
        let layered = mounts.iter().filter(|(_, kind)| matches!(kind, MountKind::Layered { .. }));
        writable.extend(layered.map(|(target, _)| target.clone().into_os_string()));
        // A path sorts after every path it lies beneath.
        let mounts = mounts
            .into_iter()
            .map(|(target, kind)| Mount { target: target.into_os_string(), kind })
            .collect();
        FsLayout { mounts, writable, environment, packages }
    }
}

/// Whether a workspace is or holds what every sandbox shows read-only or mounts itself: commands could never change it.
pub fn is_of_the_system(workspace: &Path) -> bool {
    let is_device = workspace.starts_with("/dev") && !workspace.starts_with("/dev/shm");
    let made = ["/proc", "/sys"].iter().any(|made| workspace.starts_with(made));
    is_device || made || SYSTEM.iter().any(|system| Path::new(system).starts_with(workspace))
}

/// A folder that tools write to, under the session's layer of this number.
fn layered(source: PathBuf, scratch: &Path, number: usize) -> MountKind {
    let layer = scratch.join(CACHES).join(number.to_string());
    MountKind::Layered { source: source.into_os_string(), layer: layer.into_os_string() }
}

/// Whether what lies there can be written already.
fn is_of_the_session(kind: Option<&MountKind>) -> bool {
    matches!(kind, Some(MountKind::Layered { .. } | MountKind::Bind { writable: true, .. }))
}

fn bind(source: PathBuf, writable: bool) -> MountKind {
    MountKind::Bind { source: source.into_os_string(), writable }
}

/// A home that is the workspace, or lies in or above it in a way that hiding it would hide the system, stays.
fn may_be_hidden(home: &Path, workspace: &Path) -> bool {
    let holds = |system: &&str| {
        Path::new(system).starts_with(home) || (home.starts_with(system) && *system != "/opt")
    };
    let is_system = SYSTEM.iter().any(holds);
    home.is_absolute()
        && home.is_dir()
        && home.parent().is_some()
        && !home.starts_with(workspace)
        && !is_system
}

fn system(mounts: &mut Mounts, shown: &mut Vec<Shown>) {
    for folder in SYSTEM {
        show(mounts, Path::new(folder), Path::new(folder));
    }
    shown
        .extend(SEARCHED.iter().map(|folder| searched(Path::new(folder), Path::new(folder), Search::Closed)));
    mounts.insert("/proc".into(), MountKind::Processes);
    for folder in ["/run", "/var"] {
        mounts.insert(folder.into(), MountKind::Memory { mib: 1, mode: 0o755, sealed: true });
    }
}

fn devices(mounts: &mut Mounts) {
    mounts.insert("/dev".into(), MountKind::Memory { mib: 1, mode: 0o755, sealed: true });
    mounts.insert("/dev/shm".into(), MountKind::Memory { mib: 64, mode: 0o1777, sealed: false });
    mounts.insert("/dev/pts".into(), MountKind::Terminals);
    for (name, to) in [
        ("/dev/ptmx", "pts/ptmx"),
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        mounts.insert(name.into(), MountKind::Link { to: to.into() });
    }
    for device in DEVICES.iter().filter(|device| Path::new(device).exists()) {
        mounts.insert(device.into(), MountKind::Device { source: device.into() });
    }
}

fn searched(target: &Path, source: &Path, search: Search) -> Shown {
    Shown { target: target.to_owned(), source: source.to_owned(), search }
}

/// Shows the folders of the table, each where it is: beneath the home, and where its variable says. Gives what stays
/// hidden or is not searched in them.
fn tool_folders(
    mounts: &mut Mounts,
    shown: &mut Vec<Shown>,
    (home, homes): (Option<&Path>, &HomeLayout),
    (workspace, scratch): (&Path, &Path),
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Apart {
    let mut apart = Apart::default();
    for tool in tools::TABLE {
        let named = tool.variable.and_then(variable).unwrap_or_default();
        let named = std::env::split_paths(&named).filter(|folder| homes.may_hold_tools(folder, workspace));
        for folder in home.map(|home| home.join(tool.folder)).into_iter().chain(named) {
            let of = |parts: &[&str]| -> Vec<PathBuf> {
                parts.iter().flat_map(|part| places(&folder, part)).filter(|place| place.exists()).collect()
            };
            apart.hidden.extend(of(tool.hidden));
            let (packages, written) = (of(tool.packages), of(tool.written));
            if SYSTEM.iter().any(|system| folder.starts_with(system)) {
                // It is seen as a whole.
                shown.push(searched(&folder, &folder, Search::Credentials));
                apart.packages.extend(packages.iter().map(|place| searched(place, place, Search::Sockets)));
                continue;
            }
            for (place, is_searched) in of(tool.shown)
                .into_iter()
                .map(|place| (place, true))
                .chain(packages.into_iter().map(|place| (place, false)))
            {
                // A link is shown as what it leads to, unless it leads into the home again.
                let Ok(real) = fs::canonicalize(&place) else { continue };
                let is_written = place.ancestors().any(|above| is_of_the_session(mounts.get(above)));
                let is_shown = mounts.contains_key(&place) || is_written;
                if home.is_some_and(|home| home.starts_with(&real)) || is_shown {
                    continue;
                }
                match is_searched {
                    true => shown.push(searched(&place, &real, Search::Credentials)),
                    false => apart.packages.push(searched(&place, &real, Search::Sockets)),
                }
                let kind = match written.contains(&place) {
                    true => layered(real, scratch, mounts.len()),
                    false => bind(real, false),
                };
                mounts.insert(place, kind);
            }
            // What is not there yet is the session's own.
            let is_of_home = home.is_some_and(|home| folder.starts_with(home));
            let written = tool.written.iter().filter(|_| is_of_home);
            for place in written.flat_map(|part| places(&folder, part)) {
                if !place.ancestors().any(|above| is_of_the_session(mounts.get(above))) {
                    let layer = scratch.join(CACHES).join(mounts.len().to_string());
                    mounts.entry(place).or_insert_with(|| bind(layer, true));
                }
            }
        }
    }
    apart
}

/// Of each tool in a home a folder that is shown, and one of its packages.
pub fn tool_folders_of(home: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let first = |tool: &tools::Tool, parts: &[&str]| {
        let places = parts.iter().flat_map(|part| places(&home.join(tool.folder), part));
        places.into_iter().find(|place| place.is_dir())
    };
    let shown = tools::TABLE.iter().filter_map(|tool| first(tool, tool.shown));
    (shown.collect(), tools::TABLE.iter().filter_map(|tool| first(tool, tool.packages)).collect())
}

/// Where a part of the table is. `*` is any name, `.` the folder itself.
fn places(folder: &Path, part: &str) -> Vec<PathBuf> {
    part.split('/').fold(vec![folder.to_owned()], |places, name| match name {
        "." => places,
        "*" => {
            let entries = places.iter().flat_map(fs::read_dir).flatten().flatten();
            entries.map(|entry| entry.path()).collect()
        }
        name => places.into_iter().map(|place| place.join(name)).collect(),
    })
}

/// What is treated apart in the folders of tools.
#[derive(Default)]
struct Apart {
    hidden: Vec<PathBuf>,
    packages: Vec<Shown>,
}

/// Hides what is not to be seen in what is shown. A closed folder on the way to something that is shown becomes an
/// empty one that only leads there. Gives the folders of packages, which are not searched here.
fn keep_back(mounts: &mut Mounts, shown: &[Shown], apart: Apart) -> Vec<Shown> {
    for hidden in apart.hidden {
        mounts.entry(hidden).or_insert(MountKind::Nothing);
    }
    let mut packages = apart.packages;
    let ends = mounts.keys().chain(packages.iter().map(|shown| &shown.target)).cloned();
    let ends: BTreeSet<PathBuf> = ends.collect();
    let (found, left) = kept_back::find(shown, &ends);
    packages.extend(left);
    for (target, kind) in found {
        let leads_on = ends.iter().any(|end| end.starts_with(&target));
        let way = MountKind::Memory { mib: 1, mode: 0o755, sealed: true };
        mounts.entry(target).or_insert(if leads_on { way } else { kind });
    }
    packages
}

/// What lies beneath a temporary folder gets a fresh folder to lie in: commands can rename and link what they find
/// there, and the next call would be put together along their links.
fn hold_still(mounts: &mut Mounts) {
    for temporary in ["/tmp", "/var/tmp"] {
        let first = |target: &PathBuf| {
            let name = target.strip_prefix(temporary).ok()?.components().next()?;
            Some(Path::new(temporary).join(name))
        };
        let tops: Vec<PathBuf> = mounts.keys().filter_map(first).collect();
        for top in tops {
            mounts.entry(top).or_insert(MountKind::Memory { mib: 64, mode: 0o755, sealed: true });
        }
    }
}

/// The folders between the home and what is shown beneath it (the workspace, its repository) are empty but for what
/// leads there. What a command wrote to them would be gone with the call, so it is refused.
fn hold_way(mounts: &mut Mounts, home: &Path, shown: &Path) {
    let first = shown.strip_prefix(home).ok().and_then(|beneath| beneath.components().next());
    if let Some(top) = first.map(|first| home.join(first)).filter(|top| top != shown) {
        mounts.entry(top).or_insert(MountKind::Memory { mib: 1, mode: 0o755, sealed: true });
    }
}

/// Folders of programs outside the system's: those of `PATH`, and those that the tools' variables name.
fn extra_folders(
    workspace: &Path,
    homes: &HomeLayout,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Vec<PathBuf> {
    let path = variable("PATH").unwrap_or_default();
    let named = tools::WHOLE.iter().filter_map(|name| variable(name)).map(PathBuf::from);
    std::env::split_paths(&path)
        .map(|folder| prefix_of(&folder).filter(|prefix| homes.may_show(prefix)).unwrap_or(folder))
        .chain(named)
        .filter(|folder| folder.is_absolute() && folder.is_dir() && folder.parent().is_some())
        .filter(|folder| !SYSTEM.iter().any(|system| folder.starts_with(system)))
        .filter(|folder| !workspace.starts_with(folder) && !folder.starts_with(workspace))
        .filter(|folder| homes.may_show(folder))
        .filter(|folder| {
            !["/proc", "/dev", "/run", "/sys", "/tmp"].iter().any(|other| folder == Path::new(other))
        })
        .collect()
}

/// The folder that programs were unpacked to, whose `bin` is given: they need what lies next to it. No checkout of
/// sources is one.
fn prefix_of(bin: &Path) -> Option<PathBuf> {
    let prefix = bin.parent().filter(|_| bin.file_name().is_some_and(|name| name == "bin"))?;
    let is_there = |name: &&str| prefix.join(name).is_dir();
    let is_unpacked = ["lib", "lib64", "libexec", "pkg", "share"].iter().any(is_there);
    (is_unpacked && !prefix.join(".git").exists()).then(|| prefix.to_owned())
}

/// Shows a folder read-only, or the link that stands in its place.
fn show(mounts: &mut Mounts, target: &Path, source: &Path) {
    let Ok(data) = fs::symlink_metadata(source) else { return };
    if data.is_dir() {
        mounts.insert(target.to_owned(), bind(source.to_owned(), false));
    } else if let (true, Ok(to)) = (data.is_symlink(), fs::read_link(source)) {
        mounts.insert(target.to_owned(), MountKind::Link { to: to.into_os_string() });
    }
}

/// A folder as rules say it, which cannot take away: where something beneath is hidden, each entry by itself. A link
/// is what it leads to.
fn without(place: &Path, hidden: &[&Path], rules: &mut Vec<OsString>) {
    if hidden.contains(&place) || place.is_symlink() {
        return;
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(place)) {
        return rules.push(place.as_os_str().to_owned());
    }
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    entries.for_each(|entry| without(&entry.path(), hidden, rules));
}

/// Whether cargo's own settings name a program to start the compiler with.
fn names_a_wrapper(home: Option<&Path>, variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    let cargo = variable("CARGO_HOME").map(PathBuf::from).or_else(|| Some(home?.join(".cargo")));
    let settings = |name: &str| host_files::text(&cargo.as_ref()?.join(name), MOST_SETTINGS);
    ["config.toml", "config"].into_iter().filter_map(settings).any(|text| text.contains("rustc-wrapper"))
}

fn environment(
    home: Option<&Path>,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> BTreeMap<String, OsString> {
    let passed = PASSED_ON.iter().filter_map(|name| Some((*name, variable(name)?)));
    // What is neither there nor in the home can only be made outside.
    let is_of_use = |folder: PathBuf| folder.is_dir() || home.is_some_and(|home| folder.starts_with(home));
    let folders = tools::variables().filter_map(|name| Some((name, variable(name)?)));
    let folders = folders.filter(|(_, value)| std::env::split_paths(value).any(is_of_use));
    let mut environment: BTreeMap<String, OsString> =
        passed.chain(folders).map(|(name, value)| (name.to_owned(), value)).collect();
    environment.entry("PATH".to_owned()).or_insert_with(|| "/usr/local/bin:/usr/bin:/bin".into());
    environment.insert("TERM".to_owned(), "dumb".into());
    environment.insert("TMPDIR".to_owned(), "/tmp".into());
    environment
        .insert("HOME".to_owned(), home.map_or_else(|| "/tmp".into(), |home| OsStr::new(home).to_owned()));
    if names_a_wrapper(home, variable) {
        // A cache or a server of the person's, which is not seen inside; empty, cargo goes without.
        environment.insert("RUSTC_WRAPPER".to_owned(), OsString::new());
    }
    environment.insert("npm_config_update_notifier".to_owned(), "false".into());
    if !home.is_some_and(|home| home.join(".cache/node/corepack").is_dir()) {
        // What it fetches is there for the next command.
        environment.insert("COREPACK_HOME".to_owned(), "/tmp/corepack".into());
    }
    // It traces the process at its end, which is refused here; the sanitizers themselves work.
    environment.insert("LSAN_OPTIONS".to_owned(), "detect_leaks=0".into());
    environment
}

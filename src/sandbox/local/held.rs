//! Splits what a session's commands see into what its holder mounts once and what each call mounts for itself.
//!
//! A call's own is what a command can write to or what belongs to its processes, and what lies under that. A folder
//! that is shown under something of a call's own is mounted aside by the holder, with everything that hides parts
//! of it, and each call binds it into its place as it is.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::super::protected_snapshot::{Same, same};
use super::plan::{Mount, MountKind};

/// Where the new root is on a holder's stage, and the folder next to it for what calls bind into theirs.
pub const NEW_ROOT: &str = "/new";
pub const ASIDE: &str = "/aside";

/// What is mounted by whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// What the holder mounts, with targets on its stage.
    pub held: Vec<Mount>,
    /// Folders it makes there for mounts of calls.
    pub points: Vec<OsString>,
    /// What each call mounts, with targets in the new root.
    pub own: Vec<Mount>,
    /// What lies outside in the places of what is held.
    outside: Vec<PathBuf>,
}

/// Who mounts what is at a place.
#[derive(Clone, Copy)]
enum Side<'a> {
    Held,
    Own,
    Aside(usize, &'a Path),
}

impl Split {
    /// Of these mounts, which are sorted by their targets. The workspace is each call's own.
    pub fn of(mounts: &[Mount], workspace: &Path) -> Self {
        let (mut split, mut sides, mut aside) = (Split::default(), BTreeMap::new(), 0);
        for mount in mounts {
            let target = Path::new(&mount.target);
            let above = target.ancestors().skip(1).find_map(|above| sides.get(above).copied());
            let side = match (above, is_of_a_call(&mount.kind) || target == workspace) {
                (_, true) => Side::Own,
                (None | Some(Side::Held), false) => Side::Held,
                (Some(Side::Own), false) if mount.kind.shown().is_some() => {
                    aside += 1;
                    Side::Aside(aside, target)
                }
                (Some(side), false) => side,
            };
            match side {
                Side::Held => split.hold(mount, on_stage(NEW_ROOT, target)),
                Side::Own => {
                    if matches!(above, None | Some(Side::Held)) {
                        split.points.push(on_stage(NEW_ROOT, target));
                    }
                    split.own.push(mount.clone());
                }
                Side::Aside(number, top) => {
                    let beneath =
                        Path::new(&number.to_string()).join(target.strip_prefix(top).unwrap_or(top));
                    split.hold(mount, on_stage(ASIDE, &beneath));
                    if target == top {
                        let kind = MountKind::Held { number };
                        split.own.push(Mount { target: mount.target.clone(), kind });
                    }
                }
            }
            sides.insert(target, side);
        }
        split.outside = outside(mounts, &sides);
        split.outside.push(workspace.to_owned());
        split
    }

    fn hold(&mut self, mount: &Mount, target: OsString) {
        self.held.push(Mount { target, kind: mount.kind.clone() });
    }

    /// Which files and folders lie outside in the places of what is held, as it is now. Where one was replaced, its
    /// mount shows what is gone, or hides it no longer.
    pub fn marks(&self) -> Vec<Option<Same>> {
        self.outside.iter().map(|path| same(path)).collect()
    }
}

/// Where something is on the stage. A path that ends with nothing has no slash there.
fn on_stage(part: &str, path: &Path) -> OsString {
    let names = path.components().filter(|part| matches!(part, std::path::Component::Normal(_)));
    Path::new(part).join(names.collect::<PathBuf>()).components().collect::<PathBuf>().into_os_string()
}

fn is_of_a_call(kind: &MountKind) -> bool {
    match kind {
        MountKind::Memory { sealed, .. } => !sealed,
        MountKind::Bind { writable, .. } => *writable,
        MountKind::Processes | MountKind::Terminals => true,
        _ => false,
    }
}

fn outside(mounts: &[Mount], sides: &BTreeMap<&Path, Side<'_>>) -> Vec<PathBuf> {
    let shown = |target: &Path| {
        let binds = mounts.iter().filter_map(|mount| match &mount.kind {
            MountKind::Bind { source, .. } => Some((Path::new(&mount.target), Path::new(source))),
            _ => None,
        });
        let above =
            binds.filter(|(top, _)| target.starts_with(top)).max_by_key(|(top, _)| top.as_os_str().len());
        above.and_then(|(top, source)| Some(source.join(target.strip_prefix(top).ok()?)))
    };
    let held = |mount: &&Mount| !matches!(sides.get(Path::new(&mount.target)), Some(Side::Own) | None);
    let places = mounts.iter().filter(held).filter_map(|mount| match &mount.kind {
        MountKind::Bind { source, .. } | MountKind::Layered { source, .. } | MountKind::Device { source } => {
            Some(source.into())
        }
        _ => shown(Path::new(&mount.target)),
    });
    places.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(target: &str, writable: bool) -> Mount {
        mount(target, MountKind::Bind { source: format!("/real{target}").into(), writable })
    }

    fn mount(target: &str, kind: MountKind) -> Mount {
        Mount { target: target.into(), kind }
    }

    fn targets(mounts: &[Mount]) -> Vec<&str> {
        mounts.iter().map(|mount| mount.target.to_str().unwrap()).collect()
    }

    #[test]
    fn what_can_be_written_is_a_calls_own_and_everything_else_is_mounted_once() {
        let memory = |sealed| MountKind::Memory { mib: 1, mode: 0o755, sealed };
        let mounts = [
            mount("/dev", memory(true)),
            mount("/dev/null", MountKind::Device { source: "/dev/null".into() }),
            mount("/dev/shm", memory(false)),
            bind("/etc", false),
            mount("/etc/shadow", MountKind::Nothing),
            mount("/home/me", memory(false)),
            bind("/home/me/.cargo/bin", false),
            mount("/home/me/.cargo/bin/key", MountKind::Blank),
            bind("/home/me/.rustup", false),
            mount("/home/me/code", memory(true)),
            bind("/home/me/code/ws", false),
            mount("/proc", MountKind::Processes),
            bind("/tmp", true),
            bind("/usr", false),
        ];
        let split = Split::of(&mounts, Path::new("/home/me/code/ws"));
        let held = [
            "/new/dev",
            "/new/dev/null",
            "/new/etc",
            "/new/etc/shadow",
            "/aside/1",
            "/aside/1/key",
            "/aside/2",
            "/new/usr",
        ];
        assert_eq!(targets(&split.held), held);
        let own = [
            "/dev/shm",
            "/home/me",
            "/home/me/.cargo/bin",
            "/home/me/.rustup",
            "/home/me/code",
            "/home/me/code/ws",
            "/proc",
            "/tmp",
        ];
        assert_eq!(targets(&split.own), own);
        assert_eq!(split.own[3].kind, MountKind::Held { number: 2 });
        assert_eq!(split.points, ["/new/dev/shm", "/new/home/me", "/new/proc", "/new/tmp"]);
        let outside: Vec<&str> = split.outside.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(outside[2], "/real/etc/shadow");
        assert_eq!(outside[4], "/real/home/me/.cargo/bin/key");
        assert_eq!(outside.last(), Some(&"/home/me/code/ws"));
    }
}

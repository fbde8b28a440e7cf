//! Puts the new root together, every step beneath a descriptor and never through a link; knows no command.
//!
//! What stays the same is put together once, on the stage of a holder ([`hold`]). A call adds its own to a copy of
//! that ([`build`]).

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use super::held::{ASIDE, NEW_ROOT};
use super::plan::{Cover, CoverKind, HeldPlan, Mount, MountKind, StagePlan};

/// What is said of a name that cannot be covered: it is the workspace that has to be mended, not the machine.
pub const UNCOVERED: &str = "cannot be covered";

/// What is said where a layer over a repository is refused.
pub const NO_LAYER: &str = "this machine lays no layer over a repository";

/// Mounts on the stage what every call sees, closed to writing.
pub fn hold(plan: &HeldPlan) -> Result<(), String> {
    // What the machine unmounts later goes here as well; what is mounted here is seen nowhere else.
    let below = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", below).map_err(|e| format!("the mounts cannot be set apart: {e}"))?;
    let cannot = |e: Errno| format!("the new root cannot be made: {e}");
    memory(&plan.base, c"mode=700,size=1m").map_err(cannot)?;
    let stage = open_path(&plan.base).map_err(|e| format!("the new root cannot be opened: {e}"))?;
    let stage = stage.as_fd();
    make_empty(stage).map_err(|e| format!("the new root cannot be filled: {e}"))?;
    let root = target(stage, OsStr::new(NEW_ROOT), true).map_err(cannot)?;
    memory(fd_path(&root).as_os_str(), c"mode=755,size=4m").map_err(cannot)?;
    let empty = Empty::of(stage).map_err(|e| format!("the new root cannot be filled: {e}"))?;
    for mount in &plan.mounts {
        place(stage, &empty, mount).map_err(|e| unplaced(mount, e))?;
    }
    for point in &plan.points {
        target(stage, point, true).map_err(cannot)?;
    }
    close(stage, &plan.mounts)?;
    remount(&walk(stage, OsStr::new(NEW_ROOT)).map_err(cannot)?, false).map_err(cannot)
}

/// Builds a call's view in a copy of its holder's mounts and makes it the root of this process.
pub fn build(base: &OsStr, plan: &StagePlan, processes: u64) -> Result<(), String> {
    let stage = open_path(base).map_err(|e| format!("the new root cannot be opened: {e}"))?;
    let empty = Empty::of(stage.as_fd()).map_err(|e| format!("the new root cannot be filled: {e}"))?;
    let root = walk(stage.as_fd(), OsStr::new(NEW_ROOT));
    let root = root.map_err(|e| format!("the new root cannot be opened: {e}"))?;
    let root = root.as_fd();
    for mount in &plan.mounts {
        let placed = match mount.kind {
            MountKind::Held { number } => place_held((stage.as_fd(), number), root, &mount.target),
            _ => place(root, &empty, mount),
        };
        placed.map_err(|e| unplaced(mount, e))?;
    }
    // Before any cover: in a workspace with thousands of them the table is read once.
    let mounted = close(root, &plan.mounts)?;
    for cover in &plan.covers {
        put_cover(root, &empty, (&plan.workspace, &mounted), cover)
            .map_err(|e| uncovered(&shown(cover), e))?;
    }
    limit_processes(root, processes);
    finish(root).map_err(|e| format!("the sandbox's files cannot be closed off: {e}"))
}

fn unplaced(mount: &Mount, error: Errno) -> String {
    if matches!(mount.kind, MountKind::Overlay { .. }) {
        return format!("{NO_LAYER} (overlayfs on the folder for temporary files): {error}");
    }
    format!("`{}` cannot be put into the sandbox: {error}", Path::new(&mount.target).display())
}

fn memory(place: &OsStr, data: &std::ffi::CStr) -> rustix::io::Result<()> {
    rustix::mount::mount("tmpfs", place, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, data)
}

/// An empty file and an empty folder nobody may open, to lay over what is not to be seen.
struct Empty {
    folder: OwnedFd,
    file: OwnedFd,
    /// A file that everybody may read.
    blank: OwnedFd,
}

/// Names of them on the stage.
const EMPTY: [&str; 3] = ["empty", "empty.file", "empty.blank"];

fn make_empty(stage: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let [folder, file, blank] = EMPTY;
    rustix::fs::mkdirat(stage, folder, Mode::from_raw_mode(0))?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    drop(rustix::fs::openat(stage, file, flags, Mode::from_raw_mode(0))?);
    rustix::fs::openat(stage, blank, flags, Mode::from_raw_mode(0o444)).map(drop)
}

impl Empty {
    fn of(stage: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        let [folder, file, blank] = EMPTY.map(|name| walk(stage, OsStr::new(name)));
        Ok(Empty { folder: folder?, file: file?, blank: blank? })
    }

    fn like(&self, is_folder: bool) -> PathBuf {
        fd_path(if is_folder { &self.folder } else { &self.file })
    }
}

/// Binds what the holder has mounted aside. What is closed in it is closed in the copy.
fn place_held(
    (stage, number): (BorrowedFd<'_>, usize),
    root: BorrowedFd<'_>,
    path: &OsStr,
) -> rustix::io::Result<()> {
    let source = match walk(stage, Path::new(ASIDE).join(number.to_string()).as_os_str()) {
        // It was not there when the holder began.
        Err(Errno::NOENT) => return Ok(()),
        source => source?,
    };
    let place = target(root, path, is_folder(&source)?)?;
    match rustix::mount::mount_bind_recursive(fd_path(&source), fd_path(&place)) {
        // Removed since; with the next call another holder is started.
        Err(Errno::NOENT) => Ok(()),
        bound => bound,
    }
}

fn place(root: BorrowedFd<'_>, empty: &Empty, mount: &Mount) -> rustix::io::Result<()> {
    let quiet = MountFlags::NOSUID | MountFlags::NODEV;
    match &mount.kind {
        MountKind::Bind { source, writable } => {
            let source = match open_path(source) {
                // Removed since the session was opened: there is nothing to show.
                Err(Errno::NOENT) if !writable => return Ok(()),
                source => source?,
            };
            let is_folder = is_folder(&source)?;
            let target = target(root, &mount.target, is_folder)?;
            match rustix::mount::mount_bind_recursive(fd_path(&source), fd_path(&target)) {
                // Removed just now.
                Err(Errno::NOENT) if !writable => return Ok(()),
                bound => bound?,
            }
            // What is mounted further down is closed by `close`.
            remount(&walk(root, &mount.target)?, *writable)
        }
        MountKind::Layered { source, layer } => match place_cache(root, &mount.target, source, layer) {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(_) => {
                let kind = MountKind::Bind { source: source.clone(), writable: false };
                place(root, empty, &Mount { target: mount.target.clone(), kind })
            }
        },
        MountKind::Memory { mib, mode, .. } => {
            let target = target(root, &mount.target, true)?;
            let data = format!("mode={mode:o},size={mib}m");
            let data = std::ffi::CString::new(data).map_err(|_| Errno::INVAL)?;
            rustix::mount::mount("tmpfs", fd_path(&target), "tmpfs", quiet, data.as_c_str())
        }
        MountKind::Nothing | MountKind::Blank => {
            let covered = match walk(root, &mount.target) {
                // Gone, or a link by now, which leads nowhere the sandbox does not show.
                Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(()),
                covered => covered?,
            };
            let is_folder = is_folder(&covered)?;
            let is_blank = mount.kind == MountKind::Blank && !is_folder;
            let over = if is_blank { fd_path(&empty.blank) } else { empty.like(is_folder) };
            rustix::mount::mount_bind(over, fd_path(&covered))?;
            remount(&walk(root, &mount.target)?, false)
        }
        MountKind::Device { source } => {
            let source = open_path(source)?;
            let place = target(root, &mount.target, false)?;
            rustix::mount::mount_bind(fd_path(&source), fd_path(&place))?;
            // A read-only mount keeps the machine's own node as it is, for root too, and lets what it stands for be
            // read and written.
            remount_with(
                &walk(root, &mount.target)?,
                MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::RDONLY,
            )
        }
        MountKind::Overlay { upper, work } => place_layer(root, &mount.target, [upper, work]),
        MountKind::Link { to } => {
            let path = Path::new(&mount.target);
            let parent = target(root, path.parent().unwrap_or(Path::new("/")).as_os_str(), true)?;
            rustix::fs::symlinkat(to, parent, path.file_name().unwrap_or_default())
        }
        // By `place_held`; a holder holds nothing of another.
        MountKind::Held { .. } => Err(Errno::INVAL),
        MountKind::Processes => {
            let target = target(root, &mount.target, true)?;
            rustix::mount::mount("proc", fd_path(&target), "proc", quiet | MountFlags::NOEXEC, None)
        }
        MountKind::Terminals => {
            let target = target(root, &mount.target, true)?;
            let data = c"newinstance,ptmxmode=0666,mode=0620";
            let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
            // A kernel without them leaves a sandbox without pseudo-terminals, which few commands need.
            let _ = rustix::mount::mount("devpts", fd_path(&target), "devpts", flags, data);
            Ok(())
        }
    }
}

/// Lays a layer over what is there.
fn place_layer(root: BorrowedFd<'_>, path: &OsStr, layer: [&OsString; 2]) -> rustix::io::Result<()> {
    let lower = walk(root, path)?;
    lay_over(&lower, &lower, layer.map(Path::new))
}

/// Shows a folder under a layer of the session.
fn place_cache(root: BorrowedFd<'_>, path: &OsStr, source: &OsStr, layer: &OsStr) -> rustix::io::Result<()> {
    let lower = open_path(source)?;
    let [upper, work] = ["upper", "work"].map(|name| Path::new(layer).join(name));
    lay_over(&lower, &target(root, path, true)?, [&upper, &work])
}

/// Everything is named by what was opened, so that no name of a folder is read as an option.
fn lay_over(lower: &OwnedFd, place: &OwnedFd, layer: [&Path; 2]) -> rustix::io::Result<()> {
    let [upper, work] = layer.map(|folder| open_path(folder.as_os_str()));
    let (upper, work) = (upper?, work?);
    let [below, above, beside] = [lower, &upper, &work].map(|fd| fd_path(fd).display().to_string());
    let data = format!("lowerdir={below},upperdir={above},workdir={beside},userxattr");
    let data = std::ffi::CString::new(data).map_err(|_| Errno::INVAL)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("overlay", fd_path(place), "overlay", flags, data.as_c_str())
}

/// Why nothing is run: most likely a command has closed a folder on the way.
fn uncovered(name: &str, error: Errno) -> String {
    let hint = if error == Errno::ACCESS { "; open the folder it is in (`chmod u+rwx`)" } else { "" };
    format!("`{name}` {UNCOVERED}: {error}{hint}")
}

fn put_cover(
    root: BorrowedFd<'_>,
    empty: &Empty,
    (workspace, mounted): (&OsStr, &[PathBuf]),
    cover: &Cover,
) -> rustix::io::Result<()> {
    let mut path = PathBuf::from(workspace);
    path.extend(&cover.path);
    let covered = match walk(root, path.as_os_str()) {
        Ok(covered) => covered,
        // Gone, or a link by now: a link cannot be covered and leads nowhere the sandbox does not show.
        Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(()),
        Err(error) => return Err(error),
    };
    let link = fd_path(&covered);
    match cover.kind {
        CoverKind::Pinned => {
            rustix::mount::mount_bind_recursive(&link, &link)?;
            settle(root, path.as_os_str(), true, mounted)
        }
        CoverKind::ReadOnly => {
            rustix::mount::mount_bind_recursive(&link, &link)?;
            settle(root, path.as_os_str(), false, mounted)
        }
        CoverKind::Masked => {
            rustix::mount::mount_bind(empty.like(is_folder(&covered)?), &link)?;
            settle(root, path.as_os_str(), false, &[])
        }
    }
}

/// Closes what was placed: keeps later mounts of the machine out, takes the rights from what is mounted further down in
/// what was bound, and makes sealed memory read-only. Gives every mount point in the root, relative to it.
fn close(root: BorrowedFd<'_>, mounts: &[Mount]) -> Result<Vec<PathBuf>, String> {
    let cannot = |e: Errno| format!("the sandbox's files cannot be closed off: {e}");
    let apart = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change(fd_path(&root), apart).map_err(cannot)?;
    let mounted = mounted_in(root).map_err(cannot)?;
    for point in &mounted {
        let above = mounts.iter().filter(|mount| point.starts_with(relative(&mount.target)));
        let nearest = above.max_by_key(|mount| mount.target.len());
        let Some(Mount { target, kind: MountKind::Bind { writable, .. } }) = nearest else { continue };
        // One that is hidden by a later mount cannot be reached by any process.
        if let (true, Ok(mount)) = (point != relative(target), walk(root, point.as_os_str())) {
            remount(&mount, *writable).map_err(cannot)?;
        }
    }
    for Mount { target, kind } in mounts {
        if let MountKind::Memory { sealed: true, .. } = kind {
            let sealed = walk(root, target).and_then(|mount| remount(&mount, false));
            sealed.map_err(|e| format!("`{}`: {}", Path::new(target).display(), cannot(e)))?;
        }
    }
    Ok(mounted)
}

fn relative(target: &OsStr) -> &Path {
    let path = Path::new(target);
    let names = path.strip_prefix("/").unwrap_or(path);
    if names.as_os_str().is_empty() { Path::new(".") } else { names }
}

/// Takes the rights from a cover that has just been made, and from those of `mounted` that lie under it.
fn settle(
    root: BorrowedFd<'_>,
    target: &OsStr,
    writable: bool,
    mounted: &[PathBuf],
) -> rustix::io::Result<()> {
    remount(&walk(root, target)?, writable)?;
    let place = relative(target);
    for beneath in mounted.iter().filter(|mount| mount.starts_with(place) && *mount != place) {
        // One that is hidden by a later mount cannot be reached, by nobody.
        if let Ok(mount) = walk(root, beneath.as_os_str()) {
            remount(&mount, writable)?;
        }
    }
    Ok(())
}

/// Flags that were set outside are locked and have to be named again.
fn remount(mount: &OwnedFd, writable: bool) -> rustix::io::Result<()> {
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::RDONLY, !writable);
    remount_with(mount, flags)
}

fn remount_with(mount: &OwnedFd, mut flags: MountFlags) -> rustix::io::Result<()> {
    let now = rustix::fs::fstatvfs(mount)?.f_flag;
    for (was, kept) in [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        flags |= if now.contains(was) { kept } else { MountFlags::empty() };
    }
    rustix::mount::mount_remount(fd_path(mount), flags | MountFlags::BIND, c"")
}

/// Mount points under the root, relative to it, as this process sees them now.
fn mounted_in(root: BorrowedFd<'_>) -> rustix::io::Result<Vec<PathBuf>> {
    let place = rustix::fs::readlink(fd_path(&root), Vec::new())?;
    let (place, table) =
        (Path::new(OsStr::from_bytes(place.as_bytes())), std::fs::read("/proc/self/mountinfo"));
    let table = table.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let lines = table.split(|byte| *byte == b'\n');
    let points = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    let points = points.map(|point| PathBuf::from(OsString::from_vec(unescaped(point))));
    Ok(points.filter_map(|point| point.strip_prefix(place).map(Path::to_owned).ok()).collect())
}

/// `\040` is a space; the table writes four characters so.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = octal.filter(|_| first == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &tail[3..] } else { tail };
    }
    out
}

/// Since Linux 6.14 a process namespace has a largest number of its own, which also holds for root. Without it
/// the limit of the user is left.
fn limit_processes(root: BorrowedFd<'_>, processes: u64) {
    let file =
        rustix::fs::openat(root, "proc/sys/kernel/pid_max", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    if let Ok(file) = file {
        let _ = rustix::io::write(&file, processes.to_string().as_bytes());
    }
}

/// `/proc` becomes read-only, the new root becomes the root, and the old one goes with the stage.
fn finish(root: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let quiet = MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RDONLY;
    let processes = walk(root, OsStr::new("/proc"))?;
    rustix::mount::mount_remount(fd_path(&processes), quiet | MountFlags::NOEXEC, c"")?;
    rustix::process::fchdir(root)?;
    // The old root lies over the new one until it is taken off.
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")
}

/// The place of a mount, made where it is not there: in memory, or as an empty folder in a folder of ours.
fn target(root: BorrowedFd<'_>, path: &OsStr, is_folder: bool) -> rustix::io::Result<OwnedFd> {
    match walk(root, path) {
        Err(Errno::NOENT) => {}
        found => return found,
    }
    let path = Path::new(path);
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::NOENT) };
    // Most often the folder above is there: one look for it instead of one for each name.
    let parent = target(root, parent.as_os_str(), true)?;
    match is_folder {
        true => match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
            // By another call just now, in the session's `/tmp`.
            Err(Errno::EXIST) => {}
            made => made?,
        },
        false => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            drop(rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o644))?);
        }
    }
    open_beneath(parent.as_fd(), name)
}

/// The same for what has to be there.
fn walk(root: BorrowedFd<'_>, path: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, relative(path), OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), flags) {
        // Before Linux 5.6, and in containers that refuse what they do not know.
        Err(Errno::NOSYS | Errno::PERM) => {}
        found => return found,
    }
    let mut at = open_beneath(root, OsStr::new("."))?;
    for name in names(path) {
        at = open_beneath(at.as_fd(), name)?;
    }
    Ok(at)
}

fn names(path: &OsStr) -> Vec<&OsStr> {
    let normal = |component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    };
    Path::new(path).components().filter_map(normal).collect()
}

/// One name, never through a link.
fn open_beneath(folder: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    match FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) {
        FileType::Symlink => Err(Errno::LOOP),
        _ => Ok(found),
    }
}

/// A path of the system or of the caller, which may lead through links.
fn open_path(path: &OsStr) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

fn is_folder(fd: &OwnedFd) -> rustix::io::Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) == FileType::Directory)
}

fn fd_path(fd: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
}

fn shown(cover: &Cover) -> String {
    cover.path.iter().map(|name| name.to_string_lossy()).collect::<Vec<_>>().join("/")
}

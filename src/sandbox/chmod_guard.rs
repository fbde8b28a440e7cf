//! Opens folders that a command has closed to their owner, and closes them again; knows no protected name.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

/// Folders that their owner can look into and change as long as this is.
#[derive(Debug, Default)]
pub struct Opened(Vec<(OwnedFd, Mode)>);

impl Opened {
    /// Opens a folder where its mode alone closes it. Nothing happens to a link, nor to what is somebody else's.
    pub fn open(&mut self, folder: &Path) {
        let flags = HELD | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(held) = rustix::fs::open(folder, flags, Mode::empty()) else { return };
        let Ok(data) = rustix::fs::fstat(&held) else { return };
        let mode = Mode::from_raw_mode(data.st_mode);
        let is_folder = FileType::from_raw_mode(data.st_mode) == FileType::Directory;
        if is_folder && !mode.contains(Mode::RWXU) && set_mode(&held, mode | Mode::RWXU) {
            self.0.push((held, mode));
        }
    }

    /// Opens the folders on the way from `root`, which is opened as well, to a path beneath it.
    pub fn open_way(&mut self, root: &Path, path: &Path) {
        let above: Vec<PathBuf> = path.ancestors().skip(1).map(|above| root.join(above)).collect();
        above.iter().rev().for_each(|above| self.open(above));
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        for (held, mode) in self.0.drain(..).rev() {
            set_mode(&held, mode);
        }
    }
}

/// How a folder is held whose mode is changed. Only Linux holds one that its owner may not read.
#[cfg(target_os = "linux")]
const HELD: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const HELD: OFlags = OFlags::RDONLY;

#[cfg(not(target_os = "linux"))]
fn set_mode(held: &OwnedFd, mode: Mode) -> bool {
    rustix::fs::fchmod(held, mode).is_ok()
}

/// By what is held and not by a name, which may lead elsewhere by now.
#[cfg(target_os = "linux")]
fn set_mode(held: &OwnedFd, mode: Mode) -> bool {
    use std::os::fd::AsRawFd;
    let held = format!("/proc/self/fd/{}", held.as_raw_fd());
    rustix::fs::chmodat(rustix::fs::CWD, held, mode, rustix::fs::AtFlags::empty()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_was_closed_is_open_for_a_while_and_links_are_left_alone() {
        let base = tempfile::tempdir().unwrap();
        let (folder, other) = (base.path().join("a"), base.path().join("other"));
        fs::create_dir_all(folder.join("b")).unwrap();
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&other, folder.join("b/link")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        set(&other, 0o555);
        set(&folder.join("b"), 0o1555);
        set(&folder, 0);
        let mut opened = Opened::default();
        opened.open_way(&folder, Path::new("b/link/x"));
        assert_eq!((mode(&folder), mode(&folder.join("b")), mode(&other)), (0o700, 0o1755, 0o555));
        drop(opened);
        assert_eq!(mode(&folder), 0);
        set(&folder, 0o755);
        assert_eq!(mode(&folder.join("b")), 0o1555);
        set(&folder.join("b"), 0o755);
    }
}

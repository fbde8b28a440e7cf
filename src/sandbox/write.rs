//! Replaces one file in a directory that is held open: whole or not at all, and only over what was expected.

use std::fs::File;
use std::io::Write;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RawMode, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use super::beneath::{io_error, look, open_file, refuse_unless_file, shown};
use super::files::digest;
use crate::ports::FileError;
use crate::temp_names;

/// Looks at what would be replaced: nothing, or an ordinary file with a single name.
///
/// A file with several names is refused because one of them may lie outside the workspace.
pub fn replaceable(directory: BorrowedFd<'_>, name: &str, path: &str) -> Result<Option<Stat>, FileError> {
    let Some(stat) = look(directory, name, path)? else { return Ok(None) };
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Symlink {
        // Opening it gives the words for a link.
        return open_file(directory, name, path).and(Err(FileError::Special(shown(path))));
    }
    refuse_unless_file(&stat, path)?;
    match stat.st_nlink > 1 {
        true => Err(FileError::Special(shown(path))),
        false => Ok(Some(stat)),
    }
}

/// Puts `content` in place of the file, provided it still holds `base` (`None`: does not exist).
pub fn replace(
    directory: BorrowedFd<'_>,
    name: &str,
    path: &str,
    content: &[u8],
    base: Option<&str>,
) -> Result<(), FileError> {
    let existing = replaceable(directory, name, path)?;
    let temporary = Temporary { directory, name: temp_names::name() };
    let mode = existing.as_ref().map_or(0o666, |stat| stat.st_mode & 0o777);
    write_beside(directory, &temporary.name, content, (existing.as_ref(), mode))
        .map_err(|e| io_error(path, e))?;
    expect_base(directory, name, path, base)?;
    temporary.rename(name, base.is_none()).map_err(|errno| match errno {
        Errno::EXIST => FileError::Changed(path.to_owned()),
        errno => io_error(path, errno),
    })?;
    rustix::fs::fsync(directory).map_err(|e| io_error(path, e))
}

fn expect_base(
    directory: BorrowedFd<'_>,
    name: &str,
    path: &str,
    base: Option<&str>,
) -> Result<(), FileError> {
    let now = match replaceable(directory, name, path)? {
        None => None,
        Some(_) => Some(digest(open_file(directory, name, path)?).map_err(|e| io_error(path, e))?),
    };
    if now.as_deref() == base { Ok(()) } else { Err(FileError::Changed(path.to_owned())) }
}

/// Writes a file that is to take the place of `existing`, with its owner and `mode`, or of none; then the umask has its
/// say. A copy is nobody else's business until it has that mode.
pub fn write_beside(
    directory: BorrowedFd<'_>,
    name: &str,
    content: &[u8],
    (existing, mode): (Option<&Stat>, RawMode),
) -> std::io::Result<()> {
    let first = Mode::from_raw_mode(if existing.is_some() { 0o600 } else { mode });
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(directory, name, flags, first)?);
    file.write_all(content)?;
    if let Some(stat) = existing {
        let (owner, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        // Only root can give a file away; for anybody else the owner is already right.
        let _ = rustix::fs::fchown(&file, Some(owner), Some(group));
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    }
    file.sync_all()
}

/// The name of a new file beside the old one; the file is removed again unless it was renamed.
struct Temporary<'d> {
    directory: BorrowedFd<'d>,
    name: String,
}

impl Temporary<'_> {
    fn rename(&self, name: &str, must_be_new: bool) -> Result<(), Errno> {
        let flags = if must_be_new { RenameFlags::NOREPLACE } else { RenameFlags::empty() };
        match rustix::fs::renameat_with(self.directory, self.name.as_str(), self.directory, name, flags) {
            // A file system without the flag: the name was looked at a moment ago.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::renameat(self.directory, self.name.as_str(), self.directory, name)
            }
            other => other,
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // Fails when it was renamed, which is the good case.
        let _ = rustix::fs::unlinkat(self.directory, self.name.as_str(), AtFlags::empty());
    }
}

//! Reads what a workspace holds, from the host: ordinary files only, never waiting, at most so many bytes.
//!
//! A workspace may come from anyone, and a command may have just left a pipe where agon reads its rules. Opening a pipe
//! waits for a writer without end, so every such file is opened with `O_NONBLOCK` and looked at once it is open.

pub mod rules;
pub mod tree;
pub mod walk;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The real path, as far as it is there.
pub fn real(path: &Path) -> PathBuf {
    let whole = path.ancestors().find_map(|above| Some((above.canonicalize().ok()?, above)));
    let real =
        |(real, above): (PathBuf, &Path)| Some(real.iter().chain(path.strip_prefix(above).ok()?).collect());
    whole.and_then(real).unwrap_or_else(|| path.to_owned())
}

/// Opens an ordinary file, links followed; none for a folder, a pipe, a socket or a device.
pub fn open(path: &Path) -> io::Result<Option<File>> {
    // Opening a device can already do something, so the kind is looked at before as well.
    if !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    Ok(file.metadata()?.is_file().then_some(file))
}

/// The first `max` bytes of an ordinary file; none for anything else and for what cannot be read.
pub fn head(path: &Path, max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path).ok()??.take(max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The whole text of an ordinary file of at most `max` bytes.
pub fn text(path: &Path, max: u64) -> Option<String> {
    let bytes = head(path, max.saturating_add(1))?;
    String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode};

    #[test]
    fn pipes_devices_and_folders_are_no_files_and_long_ones_no_texts() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, file) = (folder.path().join("pipe"), folder.path().join("file"));
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink(&pipe, folder.path().join("link")).unwrap();
        std::fs::write(&file, "1234").unwrap();
        for special in [&*pipe, &folder.path().join("link"), Path::new("/dev/zero"), folder.path()] {
            assert!(open(special).unwrap().is_none(), "{special:?}");
            assert_eq!(head(special, 1), None);
        }
        assert_eq!((text(&file, 4).as_deref(), text(&file, 3)), (Some("1234"), None));
        assert_eq!(head(&file, 3).as_deref(), Some(&b"123"[..]));
    }
}

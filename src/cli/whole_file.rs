//! Writes a file whole or not at all; knows nothing of what is in it.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Puts a file in its place at once, so that no reader sees half of it; one that was there keeps its rights. What is
/// there and no plain file (a pipe, a terminal) is written into instead.
pub fn write_whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    if target.metadata().is_ok_and(|there| !there.is_file()) {
        return std::fs::OpenOptions::new().write(true).open(&target)?.write_all(bytes);
    }
    let mut whole = new_beside(&target)?;
    whole.write_all(bytes)?;
    whole.as_file().sync_all()?;
    whole.persist(&target).map(drop).map_err(|error| error.error)
}

/// Makes sure that a file could be written there.
pub fn check(file: &Path) -> io::Result<()> {
    match std::fs::metadata(file) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => Ok(()),
        _ => new_beside(&file.canonicalize().unwrap_or_else(|_| file.to_owned())).map(drop),
    }
}

/// A file without its name yet, in the folder of another and with the same rights.
fn new_beside(file: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folder.metadata()?;
    let rights = file.metadata().map_or(0o666, |there| there.permissions().mode() & 0o777);
    let made = tempfile::Builder::new()
        .permissions(Permissions::from_mode(rights))
        .prefix(".agon-")
        .tempfile_in(folder);
    // The name that nobody asked for is no part of what went wrong.
    made.map_err(|error| error.kind().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.md");
        std::fs::write(&file, "a longer text than the new one").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        write_whole(&file, b"new").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = write_whole(&folder.path().join("none/a.md"), b"x").unwrap_err();
        assert_eq!(
            error.raw_os_error(),
            Some(2),
            "what the system said, without a name nobody knows: {error}"
        );
        assert!(write_whole(folder.path(), b"x").is_err());
    }
}

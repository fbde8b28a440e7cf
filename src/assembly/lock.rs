//! Keeps two agon processes that write out of one workspace; knows no session.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::assembly::{LogError, WireError};
use crate::protocol::expand::digest_of;

/// A workspace that this process alone may write in. Freed when dropped, and when the process dies.
#[derive(Debug)]
pub struct WorkspaceLock {
    file: Option<File>,
}

impl WorkspaceLock {
    /// For a session that writes only later: it keeps no other session out.
    pub fn not_yet() -> Self {
        WorkspaceLock { file: None }
    }

    /// True when others are kept out.
    pub fn is_held(&self) -> bool {
        self.file.is_some()
    }

    /// Takes the workspace, or says who has it. The lock is kept in the state folder, never in the workspace.
    pub fn take(state: &Path, root: &Path) -> Result<Self, WireError> {
        let folder = state.join("locks");
        let path = folder.join(digest_of(&root.display().to_string()));
        let failed =
            |error: std::io::Error| -> WireError { LogError::Io { path: folder.clone(), error }.into() };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                file.set_len(0).map_err(failed)?;
                write!(file, "{}", std::process::id()).map_err(failed)?;
                Ok(WorkspaceLock { file: Some(file) })
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                // A holder that has not written its number yet is still a holder.
                let read = file.rewind().and_then(|()| file.read_to_string(&mut pid));
                let pid = read.ok().and_then(|_| pid.trim().parse().ok());
                Err(WireError::Busy { root: root.to_owned(), pid })
            }
            Err(error) => Err(failed(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_second_writer_is_told_who_was_first_until_it_is_gone() {
        let state = tempfile::tempdir().unwrap();
        let first = WorkspaceLock::take(state.path(), Path::new("/w")).unwrap();
        assert!(WorkspaceLock::take(state.path(), Path::new("/other")).is_ok());
        let error = WorkspaceLock::take(state.path(), Path::new("/w")).unwrap_err();
        assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
        let rights = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let folder = state.path().join("locks");
        let file = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        assert_eq!((rights(&folder), rights(&file)), (0o700, 0o600));
        drop(first);
        assert!(WorkspaceLock::take(state.path(), Path::new("/w")).is_ok());
    }
}

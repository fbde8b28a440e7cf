//! Why a recorded run cannot be applied or stored, in words; touches no cache and no file.

use crate::ports::{CacheMiss, FileError};
use crate::protocol::event::PatchRefused;

pub(super) fn gone(miss: &CacheMiss) -> String {
    match miss {
        CacheMiss::Absent => "it is no longer there".to_owned(),
        miss => format!("it can no longer be used: {miss}"),
    }
}

/// A refusal that is about no single file.
pub(super) fn whole(reason: String) -> PatchRefused {
    PatchRefused { path: String::new(), reason }
}

pub(super) fn refused(error: FileError) -> PatchRefused {
    let words = error.to_string();
    let (path, reason) = match error {
        FileError::Changed(path) => {
            (path, "it does not hold what it held before the recorded run".to_owned())
        }
        FileError::Io { path, error } => (path, error),
        FileError::Outside(path)
        | FileError::Missing(path)
        | FileError::Directory(path)
        | FileError::Special(path)
        | FileError::Protected { path, .. }
        | FileError::TooLarge { path, .. } => (path, words),
    };
    PatchRefused { path, reason }
}

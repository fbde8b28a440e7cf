//! Why a recorded run cannot be applied or stored, in words; touches no cache and no file.

use crate::ports::{CacheMiss, FileError, Untold};
use crate::protocol::event::PatchRefused;

/// Why a run that looked at such a path is not stored.
pub(super) fn untold_words(Untold { path, left_out }: &Untold) -> String {
    match left_out {
        true => {
            format!("`{path}` was read or written, which git ignores, so the key does not tell what it held")
        }
        false => format!("`{path}` was changed by another process for a while, and read then"),
    }
}

pub(super) fn gone(miss: &CacheMiss) -> String {
    match miss {
        CacheMiss::Absent => "it is not there any more".to_owned(),
        miss => format!("it cannot be had any more: {miss}"),
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

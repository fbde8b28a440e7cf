//! What can go wrong with a log before anything is appended; the words name the session, path or entry.

use std::io;
use std::path::{Path, PathBuf};

use super::chain::Header;
use super::summary::SessionSummary;
use crate::projection::phrases;
use crate::protocol::text::quoted;
use crate::protocol::{Entry, FORMAT};

/// Why a session cannot be found, opened, read, copied or removed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// No session has this id or prefix, and no file this path.
    #[error("there is no session `{0}`")]
    NotFound(String),
    /// There is no entry. Where its program ended before the first one was written, nothing was asked and nothing done.
    #[error("session `{0}` holds no entry: it was never opened, or its log was emptied")]
    NeverOpened(String),
    /// A file that holds no entry of a log.
    #[error("`{}` is not a log of agon: it begins with no entry", .0.display())]
    NotALog(PathBuf),
    /// More than one session begins so.
    #[error("`{prefix}` fits more than one session:{}", listed(matches))]
    Ambiguous {
        /// What was asked for.
        prefix: String,
        /// Up to ten that fit, newest first.
        matches: Vec<SessionSummary>,
    },
    /// The id is not a UUID in its usual lower-case spelling.
    #[error("`{}` is not a session id", brief(.0))]
    BadId(String),
    /// A session of this id is already there.
    #[error("session `{0}` already exists")]
    Exists(String),
    /// Another writer has the session open.
    #[error("session `{id}` is open for writing in {}", holder(*pid))]
    Held {
        /// The session.
        id: String,
        /// The other writer's process, when its id could be read.
        pid: Option<u32>,
    },
    /// Bytes were changed, lost or moved, and whole lines stand after the damage: no crash leaves that.
    #[error("the log is damaged at entry {seq} (byte {offset}): {why}")]
    Corrupt {
        /// The first entry that cannot be trusted; everything before it can.
        seq: u64,
        /// Where its line begins.
        offset: u64,
        /// What is wrong with it.
        why: &'static str,
        /// The session, or the path of a log outside the state folder.
        session: String,
    },
    /// An unfinished tail where only whole lines are accepted (import).
    #[error("the log ends in {bytes} bytes of an unfinished entry {seq}")]
    Unfinished {
        /// The entry that was being written.
        seq: u64,
        /// Bytes of it that are there.
        bytes: u64,
    },
    /// The log's format is one that is no longer read.
    #[error("the log was made by an older agon (format {v}; this one reads format {FORMAT})")]
    Older {
        /// Its format.
        v: u64,
    },
    /// The log is from a newer program from this entry on: what this one can read is shown, and never continued.
    #[error("entry {seq} was written by a newer agon: unknown {what}")]
    Newer {
        /// The entry.
        seq: u64,
        /// What is not known.
        what: String,
    },
    /// The chain is whole, but the entry does not have the shape its version says.
    #[error("entry {seq} cannot be understood: {error}")]
    Unreadable {
        /// The entry.
        seq: u64,
        /// The parser's words.
        error: String,
    },
    /// The log does not have this entry.
    #[error("the log has {count} entries; there is no entry {seq}")]
    NoSuchEntry {
        /// The entry asked for.
        seq: u64,
        /// How many there are.
        count: u64,
    },
    /// The log file does not stand in the state folder.
    #[error("`{}` stands outside the state folder and can only be read", .0.display())]
    Outside(PathBuf),
    /// A blob's bytes are not what its name says.
    #[error("blob `{0}` is damaged")]
    BadBlob(String),
    /// The system said no.
    #[error("cannot use `{}`: {error}", path.display())]
    Io {
        /// What was touched.
        path: PathBuf,
        /// The system's words.
        error: io::Error,
    },
}

impl LogError {
    /// An entry that holds something this program does not know.
    pub(super) fn newer(entry: &Entry) -> Option<LogError> {
        Some(LogError::Newer { seq: entry.seq, what: entry.newer()?.into_owned() })
    }

    /// An entry whose format this program does not read.
    pub(super) fn other_format(Header { v, seq, .. }: Header) -> LogError {
        match v < u64::from(FORMAT) {
            true => LogError::Older { v },
            false => LogError::Newer { seq, what: format!("format version {v}") },
        }
    }

    /// Names the path a failed call was about.
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> LogError + '_ {
        move |error| LogError::Io { path: path.to_owned(), error }
    }

    /// A session's log could not be opened: where there is none, its program ended before it made one.
    pub(super) fn opening(id: &str, path: &Path, error: io::Error) -> LogError {
        match error.kind() {
            io::ErrorKind::NotFound => LogError::NeverOpened(id.to_owned()),
            _ => LogError::Io { path: path.to_owned(), error },
        }
    }

    /// What can be done about it, when there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            LogError::Held { .. } => Some("it can be watched meanwhile: `agon replay`".to_owned()),
            LogError::Corrupt { seq: 0, .. } => None,
            LogError::Corrupt { seq, session, .. } => Some(format!(
                "it can be read up to entry {0}, and continued from there: agon fork {session} --at {0}",
                seq - 1
            )),
            LogError::Older { .. } => Some("show it with the agon that made it".to_owned()),
            LogError::Newer { .. } => Some("continue it with the newer program that wrote it".to_owned()),
            LogError::NotFound(_) | LogError::Ambiguous { .. } => {
                Some("see them all: agon sessions".to_owned())
            }
            LogError::Io { error, .. }
                if matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied
                        | io::ErrorKind::ReadOnlyFilesystem
                        | io::ErrorKind::NotADirectory
                ) =>
            {
                Some(
                    "make it a folder you can write, or keep agon's files elsewhere: AGON_HOME=DIR"
                        .to_owned(),
                )
            }
            LogError::NeverOpened(id) => Some(format!("remove it: agon sessions rm {id}")),
            LogError::Outside(_) => Some("take it in first: `agon sessions import`".to_owned()),
            _ => None,
        }
    }
}

/// A line each: the id, when its newest entry was made, how its first prompt begins.
fn listed(matches: &[SessionSummary]) -> String {
    let line = |row: &SessionSummary| {
        let when = format!("{} {}", phrases::day(row.newest_at), phrases::time_of_day(row.newest_at));
        let prompt = row.prompt.as_deref().unwrap_or_default();
        let prompt: String =
            prompt.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(60).collect();
        format!("\n  {}  {when}  {prompt}", row.id)
    };
    matches.iter().map(line).collect()
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// The beginning of a name that a file gives, on one line.
fn brief(name: &str) -> String {
    let begin: String = name.chars().take(64).collect();
    quoted(begin.as_bytes()).trim_matches('"').to_owned()
}

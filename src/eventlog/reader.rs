//! Reads a log entry by entry with the chain checked; needs no lock, changes nothing, knows no rule.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::LogError;
use super::chain::{Header, Link, root_session};
use super::damage;
use super::fs::LogFile;
use super::lines::{Lines, Piece};
use crate::protocol::{Entry, FORMAT};

/// How a log that was read to its end ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Whole entries.
    pub count: u64,
    /// Chain hash of the last of them; of the root when there is none.
    pub link: Link,
    /// Bytes up to the end of the last whole entry.
    pub len: u64,
    /// Bytes after that: an entry that is being written, or was when its writer died.
    pub unfinished: u64,
}

/// A line whose place in the chain was checked.
#[derive(Debug)]
pub struct CheckedLine<'a> {
    /// Version, position, time.
    pub header: Header,
    /// The bytes as they stand in the file, newline included.
    pub bytes: &'a [u8],
}

impl CheckedLine<'_> {
    /// The line's entry.
    pub fn entry(&self) -> Result<Entry, LogError> {
        let unreadable = |error: serde_json::Error| LogError::Unreadable {
            seq: self.header.seq,
            error: error.to_string(),
        };
        Entry::read(self.bytes).map_err(unreadable)
    }
}

/// Reads entries from the first on. As an iterator it gives each entry once, then one error if there is one.
///
/// A tail that a crash (or a writer at work) left ends the reading without an error: see
/// [`EntryReader::ending`]. Everything else that does not fit is [`LogError::Corrupt`].
pub struct EntryReader {
    path: PathBuf,
    file: Arc<dyn LogFile>,
    lines: Lines,
    ending: Ending,
    is_over: bool,
    /// The session as errors name it.
    name: String,
}

impl EntryReader {
    /// Reads `file`. `session` is the root of a log that has no entry yet, `name` what errors call it.
    pub(super) fn new(path: PathBuf, file: Arc<dyn LogFile>, session: &str, name: String) -> Self {
        let lines = Lines::new(Arc::clone(&file), 0, u64::MAX);
        let ending = Ending { count: 0, link: Link::root(session), len: 0, unfinished: 0 };
        EntryReader { path, file, lines, ending, is_over: false, name }
    }

    /// Where the log ends, as far as it was read.
    pub fn ending(&self) -> &Ending {
        &self.ending
    }

    /// The next line, its chain checked, its events not looked at; none at the end.
    pub fn next_line(&mut self) -> Result<Option<CheckedLine<'_>>, LogError> {
        if self.is_over {
            return Ok(None);
        }
        let (why, end) = match self.lines.next_piece() {
            Err(error) => {
                self.is_over = true;
                return Err(LogError::Io { path: self.path.clone(), error });
            }
            Ok(Piece::End) => {
                self.is_over = true;
                return Ok(None);
            }
            Ok(Piece::Line(line)) => match check(&self.ending, line) {
                Ok((header, link)) => {
                    self.ending.count += 1;
                    self.ending.link = link;
                    self.ending.len += line.len() as u64;
                    if header.v != u64::from(FORMAT) {
                        self.is_over = true;
                        return Err(LogError::other_format(header));
                    }
                    return Ok(Some(CheckedLine { header, bytes: line }));
                }
                Err(why) => (why, u64::MAX),
            },
            // What a writer at work has put there since is the rest of this line, and no line after it.
            Ok(Piece::Rest(rest)) => ("the line has no end", self.ending.len + rest.len() as u64),
            Ok(Piece::TooLong) => ("the line is too long", u64::MAX),
        };
        self.is_over = true;
        judge(&self.path, &self.file, end, &mut self.ending, why, &self.name).map(|()| None)
    }

    /// The next entry, typed; none at the end.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, LogError> {
        let result = match self.next_line() {
            Ok(Some(line)) => line.entry().map(Some),
            Ok(None) => return Ok(None),
            Err(error) => Err(error),
        };
        if result.is_err() {
            self.is_over = true;
        }
        result
    }
}

impl Iterator for EntryReader {
    type Item = Result<Entry, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_entry().transpose()
    }
}

/// Checks one line (with newline) against what came before it.
fn check(before: &Ending, line: &[u8]) -> Result<(Header, Link), &'static str> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let header = Header::read(line).ok_or("the line does not begin as an entry does")?;
    if header.seq != before.count {
        return Err("another entry is in its place");
    }
    let previous = match header.seq {
        0 => Link::root_in(header.v, &root_session(line).ok_or("the first entry opens no session")?),
        _ => before.link,
    };
    let link = previous.check(line).ok_or("its hash does not fit")?;
    Ok((header, link))
}

/// A bad place was met before byte `end`: the tail of a crash, which is noted, or damage?
fn judge(
    path: &Path,
    file: &Arc<dyn LogFile>,
    end: u64,
    ending: &mut Ending,
    why: &'static str,
    name: &str,
) -> Result<(), LogError> {
    let size = file.size().map_err(LogError::io(path))?.min(end);
    if damage::whole_line_after(Arc::clone(file), ending.len, size).map_err(LogError::io(path))? {
        let session = name.to_owned();
        return Err(LogError::Corrupt { seq: ending.count, offset: ending.len, why, session });
    }
    ending.unfinished = size.saturating_sub(ending.len);
    Ok(())
}

//! Cuts a log file into lines, in large reads and without copying; knows no format but the newline.

use std::io;
use std::sync::Arc;

use super::MAX_LINE;
use super::fs::{LogFile, read_full_at};

/// Bytes read at once, once a log is larger than that.
const CHUNK: usize = 256 * 1024;

/// What comes next in the file.
#[derive(Debug)]
pub enum Piece<'a> {
    /// A line with its newline.
    Line(&'a [u8]),
    /// What stands after the last newline, at most [`MAX_LINE`] bytes, not empty.
    Rest(&'a [u8]),
    /// More than [`MAX_LINE`] bytes without a newline; they are skipped up to and with the next newline.
    TooLong,
    /// Nothing any more.
    End,
}

/// A file read line by line, from some offset up to some limit.
pub struct Lines {
    file: Arc<dyn LogFile>,
    limit: u64,
    /// File offset of `buffer[0]`.
    base: u64,
    buffer: Vec<u8>,
    /// Next unread byte of the buffer.
    start: usize,
    /// Bytes of the buffer that are filled.
    end: usize,
}

impl Lines {
    /// Reads `file` from byte `offset` up to byte `limit` or the end, whichever comes first.
    pub fn new(file: Arc<dyn LogFile>, offset: u64, limit: u64) -> Self {
        Lines { file, limit, base: offset, buffer: Vec::new(), start: 0, end: 0 }
    }

    /// The next piece. Its bytes live until the next call.
    pub fn next_piece(&mut self) -> io::Result<Piece<'_>> {
        let mut searched = 0;
        loop {
            let waiting = self.buffer.get(self.start + searched..self.end).unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', waiting) {
                let (from, to) = (self.start, self.start + searched + at + 1);
                self.start = to;
                let line = self.buffer.get(from..to).unwrap_or_default();
                return Ok(if line.len() > MAX_LINE { Piece::TooLong } else { Piece::Line(line) });
            }
            searched += waiting.len();
            if searched > MAX_LINE {
                self.skip_line()?;
                return Ok(Piece::TooLong);
            }
            if !self.fill()? {
                return Ok(self.rest());
            }
        }
    }

    fn rest(&mut self) -> Piece<'_> {
        let from = std::mem::replace(&mut self.start, self.end);
        match self.buffer.get(from..self.end).unwrap_or_default() {
            [] => Piece::End,
            rest => Piece::Rest(rest),
        }
    }

    /// Moves what is unread to the front and reads on; false when there is nothing more.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.base += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        let next = self.base + self.end as u64;
        let left = usize::try_from(self.limit.saturating_sub(next)).unwrap_or(usize::MAX);
        if self.end == self.buffer.len() {
            let more = if self.buffer.is_empty() { left.min(CHUNK) } else { self.buffer.len().max(CHUNK) };
            self.buffer.resize(self.end + more, 0);
        }
        let room = left.min(self.buffer.len() - self.end);
        let Some(room) = self.buffer.get_mut(self.end..self.end + room) else { return Ok(false) };
        let read = read_full_at(&*self.file, room, next)?;
        self.end += read;
        Ok(read > 0)
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let waiting = self.buffer.get(self.start..self.end).unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', waiting) {
                self.start += at + 1;
                return Ok(());
            }
            self.start = self.end;
            if !self.fill()? {
                return Ok(());
            }
        }
    }
}

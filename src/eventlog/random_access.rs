//! A log read by position: any stretch of it again, its end at once, what another process adds; checks no chain.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::fs::not_ordinary;
use crate::host_files;
use crate::protocol::Entry;

/// Entries between two places that are known.
const MARK: u64 = 64;

/// Bytes that are read at once.
const BLOCK: usize = 256 * 1024;

/// The same where a few entries are wanted.
const PAGE_BLOCK: usize = 64 * 1024;

/// A log file and where in it every 64th entry begins; the places are looked for when they are needed.
pub struct RandomAccessLog {
    file: File,
    marks: Mutex<Vec<u64>>,
}

impl RandomAccessLog {
    /// Opens a log.
    pub fn open(log: &Path) -> io::Result<Self> {
        let file = host_files::open(log)?.ok_or_else(not_ordinary)?;
        Ok(RandomAccessLog { file, marks: Mutex::new(vec![0]) })
    }

    /// Bytes of the log.
    pub fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// The entries of these positions, as far as they are there, whole and readable.
    pub fn entries(&self, range: Range<u64>) -> Vec<Arc<Entry>> {
        self.read(range).unwrap_or_default()
    }

    fn read(&self, range: Range<u64>) -> io::Result<Vec<Arc<Entry>>> {
        let mut found = Vec::new();
        let Some(place) = self.place(range.start / MARK)? else { return Ok(found) };
        let mut seq = range.start / MARK * MARK;
        let block = if range.end - range.start > MARK { BLOCK } else { PAGE_BLOCK };
        let mut lines = Lines { file: &self.file, at: place, bytes: Vec::new(), from: 0, block };
        while seq < range.end
            && let Some(line) = lines.next()?
        {
            if seq >= range.start {
                match Entry::read(line) {
                    Ok(entry) if entry.seq == seq => found.push(Arc::new(entry)),
                    _ => return Ok(found),
                }
            }
            seq += 1;
        }
        Ok(found)
    }

    /// Looks for every place at once, so that the first look far back does not have to.
    pub fn find_places(&self) -> io::Result<()> {
        self.place(u64::MAX).map(drop)
    }

    /// Where the entry of a mark begins; none when the log is shorter.
    fn place(&self, mark: u64) -> io::Result<Option<u64>> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = usize::try_from(mark).unwrap_or(usize::MAX);
        if let Some(place) = marks.get(wanted) {
            return Ok(Some(*place));
        }
        let (mut block, mut left) = (vec![0; BLOCK], MARK);
        let mut at = marks.last().copied().unwrap_or(0);
        while marks.len() <= wanted {
            let count = self.file.read_at(&mut block, at)?;
            if count == 0 {
                return Ok(None);
            }
            for end in memchr::memchr_iter(b'\n', &block[..count]) {
                left -= 1;
                if left == 0 {
                    marks.push(at + end as u64 + 1);
                    left = MARK;
                }
            }
            at += count as u64;
        }
        Ok(marks.get(wanted).copied())
    }

    /// The last entries of the log, in order: those in its last `bytes` bytes.
    pub fn end(&self, bytes: u64) -> io::Result<Vec<Arc<Entry>>> {
        let text = last_lines(&self.file, bytes)?;
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.filter_map(|line| Entry::read(line).ok()).map(Arc::new).collect())
    }
}

/// The whole lines among the last `bytes` bytes of a log.
pub(super) fn last_lines(file: &File, bytes: u64) -> io::Result<Vec<u8>> {
    let size = file.metadata()?.len();
    let from = size.saturating_sub(bytes);
    let mut text = vec![0; usize::try_from(size - from).unwrap_or(0)];
    file.read_exact_at(&mut text, from)?;
    text.truncate(memchr::memrchr(b'\n', &text).map_or(0, |at| at + 1));
    if from > 0 {
        text.drain(..memchr::memchr(b'\n', &text).map_or(0, |at| at + 1));
    }
    Ok(text)
}

/// Lines one after another, those that are not whole left out.
struct Lines<'a> {
    file: &'a File,
    at: u64,
    bytes: Vec<u8>,
    from: usize,
    block: usize,
}

impl Lines<'_> {
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let mut searched = self.from;
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.bytes[searched..]) {
                let line = self.from..searched + end;
                self.from = line.end + 1;
                return Ok(Some(&self.bytes[line]));
            }
            self.bytes.drain(..self.from);
            (self.from, searched) = (0, self.bytes.len());
            self.bytes.resize(searched + self.block, 0);
            let count = self.file.read_at(&mut self.bytes[searched..], self.at)?;
            self.bytes.truncate(searched + count);
            self.at += count as u64;
            if count == 0 {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_stretch_is_read_and_an_unfinished_line_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log-000000.jsonl");
        let line = |seq: u64| {
            let fill = "x".repeat(usize::try_from(seq % 7).unwrap() * 9_000);
            format!("{{\"v\":2,\"seq\":{seq},\"at\":1,\"events\":[],\"h\":\"{fill}\"}}\n")
        };
        let mut text: String = (0..200).map(line).collect();
        text.push_str("{\"v\":2,\"seq\":200,\"a");
        std::fs::write(&path, &text).unwrap();
        let log = RandomAccessLog::open(&path).unwrap();
        let seqs = |entries: Vec<Arc<Entry>>| entries.iter().map(|entry| entry.seq).collect::<Vec<_>>();
        assert_eq!(seqs(log.entries(130..133)), [130, 131, 132]);
        assert_eq!(seqs(log.entries(0..2)), [0, 1]);
        assert_eq!(seqs(log.entries(198..400)), [198, 199]);
        assert!(log.entries(256..257).is_empty());
        assert_eq!(seqs(log.end(90_000).unwrap()).last(), Some(&199));
        assert_eq!(seqs(log.end(1 << 30).unwrap()).len(), 200);
    }
}

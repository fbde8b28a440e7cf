//! Keeps head and tail of a stream of unknown length, and decodes it piece by piece; knows no process.

use std::collections::VecDeque;

use crate::ports::Live;
use crate::protocol::Lane;
use crate::protocol::text::gap_line;

/// One stream of a command: what is kept of it, and what is shown as it comes.
#[derive(Debug)]
pub struct Stream {
    capture: Capture,
    decoder: Decoder,
    lane: Lane,
}

impl Stream {
    /// A stream of which nothing has come, and at most `cap` bytes are kept.
    pub fn new(cap: usize, lane: Lane) -> Self {
        Stream { capture: Capture::new(cap), decoder: Decoder::default(), lane }
    }

    /// Takes the next bytes.
    pub fn take(&mut self, bytes: &[u8], live: &dyn Live) {
        self.capture.push(bytes);
        let text = self.decoder.push(bytes);
        if !text.is_empty() {
            live.push(self.lane, &text);
        }
    }

    /// What was kept.
    pub fn text(&self) -> String {
        self.capture.text()
    }
}

/// What is kept of one stream: at most `cap` bytes, the middle dropped.
#[derive(Debug)]
struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_cap: usize,
    tail_cap: usize,
    dropped: u64,
}

impl Capture {
    /// An empty capture of at most `cap` bytes.
    fn new(cap: usize) -> Self {
        let head_cap = cap.div_ceil(2);
        Capture { head: Vec::new(), tail: VecDeque::new(), head_cap, tail_cap: cap - head_cap, dropped: 0 }
    }

    /// Takes the next bytes.
    fn push(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(self.head_cap - self.head.len()));
        self.head.extend_from_slice(first);
        let keep = &rest[rest.len().saturating_sub(self.tail_cap)..];
        let excess = (self.tail.len() + keep.len()).saturating_sub(self.tail_cap);
        self.tail.drain(..excess);
        self.tail.extend(keep);
        self.dropped += (rest.len() - keep.len() + excess) as u64;
    }

    /// The text, lossy, with a line in the middle that counts what was dropped.
    fn text(&self) -> String {
        let mut bytes = self.head.clone();
        let (a, b) = self.tail.as_slices();
        if self.dropped == 0 {
            bytes.extend_from_slice(a);
            bytes.extend_from_slice(b);
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        // A character that the gap cut in two is left out with it.
        let torn_head = incomplete_end(&bytes);
        bytes.truncate(bytes.len() - torn_head);
        let tail: Vec<u8> = [a, b].concat();
        let torn_tail = tail.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
        let gone = self.dropped + (torn_head + torn_tail) as u64;
        let tail = String::from_utf8_lossy(&tail[torn_tail..]);
        format!("{}{}{tail}", String::from_utf8_lossy(&bytes), gap_line(gone))
    }
}

/// Decodes bytes that arrive in any pieces; a character split between two comes with the second.
#[derive(Debug, Default)]
struct Decoder {
    waiting: Vec<u8>,
}

impl Decoder {
    /// The text that is complete so far.
    fn push(&mut self, bytes: &[u8]) -> String {
        self.waiting.extend_from_slice(bytes);
        let rest = self.waiting.split_off(self.waiting.len() - incomplete_end(&self.waiting));
        let ready = std::mem::replace(&mut self.waiting, rest);
        String::from_utf8_lossy(&ready).into_owned()
    }
}

/// Bytes at the end (0..=3) that begin a character without ending it.
fn incomplete_end(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let needs = match bytes[bytes.len() - back] {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            0x80..=0xbf => continue,
            _ => return 0,
        };
        return if needs > back { back } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(cap: usize, pieces: &[&[u8]]) -> String {
        let mut capture = Capture::new(cap);
        pieces.iter().for_each(|piece| capture.push(piece));
        capture.text()
    }

    #[test]
    fn what_fits_stays_whole() {
        assert_eq!(captured(6, &[b"abc", b"def"]), "abcdef");
        assert_eq!(captured(0, &[]), "");
    }

    #[test]
    fn head_and_tail_are_the_same_however_the_bytes_arrive() {
        let expected = "abc\n[… 4 bytes left out …]\nhij";
        assert_eq!(captured(6, &[b"abcdefghij"]), expected);
        let single: Vec<&[u8]> = b"abcdefghij".chunks(1).collect();
        assert_eq!(captured(6, &single), expected);
        assert_eq!(captured(6, &[b"ab", b"cdefghi", b"j"]), expected);
    }

    #[test]
    fn a_torn_character_counts_as_left_out() {
        assert_eq!(captured(4, &["aäbbbbäz".as_bytes()]), "a\n[… 8 bytes left out …]\nz");
    }

    #[test]
    fn decoding_waits_for_the_rest_of_a_character() {
        for size in 1..6 {
            let mut decoder = Decoder::default();
            let text: String = "aä€😀z".as_bytes().chunks(size).map(|piece| decoder.push(piece)).collect();
            assert_eq!(text, "aä€😀z", "pieces of {size}");
        }
        assert_eq!(Decoder::default().push(b"\xff\xfea"), "\u{fffd}\u{fffd}a");
    }
}

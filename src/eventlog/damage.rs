//! Tells a torn tail from a damaged log; knows what a crash can leave behind, and repairs nothing.
//!
//! A crash leaves the beginning of what was being written, or parts of it with zeros between. It never
//! leaves a whole line that does not follow the one before it, and nothing whole stands behind it. So: a
//! whole line at or after the bad place means that bytes were changed, lost or moved.

use std::io;
use std::sync::Arc;

use super::chain::{Header, stored_hash, tail_ends};
use super::fs::LogFile;
use super::lines::{Lines, Piece};

/// True when anything from byte `offset` on is a whole line, wherever it belongs.
pub fn whole_line_after(file: Arc<dyn LogFile>, offset: u64, limit: u64) -> io::Result<bool> {
    let mut lines = Lines::new(file, offset, limit);
    loop {
        let found = match lines.next_piece()? {
            Piece::Line(line) => holds_whole_line(line),
            Piece::Rest(rest) => holds_whole_line(rest),
            Piece::TooLong => false,
            Piece::End => return Ok(false),
        };
        if found {
            return Ok(true);
        }
    }
}

/// Looks for a line that is ended by any byte: a newline may be what was changed. Zeros end nothing, they
/// are what was never written; nor does the end of the file.
fn holds_whole_line(bytes: &[u8]) -> bool {
    let mut start = 0;
    for end in tail_ends(bytes) {
        let ended = bytes.get(end).is_some_and(|byte| *byte != 0);
        if ended && bytes.get(start..end).is_some_and(is_well_formed) {
            return true;
        }
        if ended {
            start = if bytes.get(end + 1) == Some(&b'{') { end + 1 } else { start };
        }
    }
    false
}

/// True for a line (without newline) that could have been written, whether or not its hash fits.
fn is_well_formed(line: &[u8]) -> bool {
    Header::read(line).is_some()
        && stored_hash(line).is_some()
        && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eventlog::chain::Link;

    fn line(text: &str) -> Vec<u8> {
        let mut line = format!(r#"{{"v":2,"seq":0,"at":7,"events":["{text}"]"#).into_bytes();
        Link::root("s").next(&line).close(&mut line);
        line
    }

    #[test]
    fn a_whole_line_is_seen_even_when_its_newline_was_changed() {
        let whole = line("a");
        let bare = &whole[..whole.len() - 1];
        assert!(holds_whole_line(&whole));
        assert!(!holds_whole_line(bare), "the end of the file ends nothing");
        assert!(!holds_whole_line(&[bare, b"\0\0\0"].concat()), "zeros end nothing");
        assert!(holds_whole_line(&[bare, b"\x0b", bare].concat()));
        assert!(holds_whole_line(&[b"{\"v\":2 broken,\"h\":\"", &[b'x'; 43][..], b"\"}?", &whole].concat()));
    }

    #[test]
    fn fragments_and_zeros_are_not_whole() {
        let whole = line("a");
        for cut in 1..whole.len() - 1 {
            assert!(!holds_whole_line(&whole[..cut]));
            assert!(!holds_whole_line(&whole[cut..]));
        }
        assert!(!holds_whole_line(&[0; 4096]));
        assert!(!holds_whole_line(b"\n"));
    }
}

//! Decodes server-sent events from bytes cut anywhere; knows nothing of what the events carry.
//!
//! The decoding is the library's. It reads broken UTF-8 as replacement characters, which would put damaged words into
//! an answer, so the bytes are checked here before it sees them.

use std::num::NonZeroUsize;

use sse_core::{SseDecoder, SseEvent};

/// Bytes one event may have before the stream is given up: an answer of 700 KiB, escaped, still fits.
pub const MAX_EVENT: usize = 4 << 20;

/// Why a stream cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event has more than [`MAX_EVENT`] bytes.
    #[error("a streamed event has more than {MAX_EVENT} bytes")]
    TooLong,
    /// The bytes are not UTF-8.
    #[error("the stream is not UTF-8")]
    NotUtf8,
}

/// Takes bytes as they come and hands out the data of each complete event.
#[derive(Debug)]
pub struct Decoder {
    events: SseDecoder,
    /// The start of a character whose end has not come yet.
    torn: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        let events = SseDecoder::with_limit(NonZeroUsize::new(MAX_EVENT).unwrap_or(NonZeroUsize::MIN));
        Decoder { events, torn: Vec::new() }
    }
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Decoder::default()
    }

    /// Decodes the next bytes; `on_data` gets the data of each event that is now complete.
    ///
    /// The result is the same however the bytes are cut. Event names, ids and comments are dropped: the
    /// formats spoken here repeat them inside the data.
    pub fn feed<E: From<SseError>>(
        &mut self,
        mut bytes: &[u8],
        mut on_data: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        self.check_utf8(bytes)?;
        while let Some(event) = self.events.next(&mut bytes) {
            match event {
                Ok(SseEvent::Message(message)) => on_data(&message.data)?,
                Ok(SseEvent::Retry(_)) => {}
                Err(_) => return Err(SseError::TooLong.into()),
            }
        }
        Ok(())
    }

    /// What is left at the end of the stream: an event without its blank line, as some servers end.
    ///
    /// Whether it is whole is for the caller to find out. None when nothing or no UTF-8 is left.
    pub fn finish(mut self) -> Option<String> {
        if !self.torn.is_empty() {
            return None;
        }
        let mut rest = None;
        let keep = |data: &str| {
            rest = Some(data.to_owned());
            Ok::<(), SseError>(())
        };
        self.feed(b"\n\n", keep).ok()?;
        rest
    }

    /// Refuses what is not UTF-8; a character that is cut off at the end is checked with the next bytes.
    fn check_utf8(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        let mut bytes = bytes;
        while let ([next, rest @ ..], false) = (bytes, self.torn.is_empty()) {
            self.torn.push(*next);
            bytes = rest;
            match std::str::from_utf8(&self.torn) {
                Ok(_) => self.torn.clear(),
                Err(error) if error.error_len().is_some() => return Err(SseError::NotUtf8),
                Err(_) => {}
            }
        }
        match std::str::from_utf8(bytes) {
            Ok(_) => Ok(()),
            Err(error) if error.error_len().is_some() => Err(SseError::NotUtf8),
            Err(error) => {
                self.torn.extend_from_slice(&bytes[error.valid_up_to()..]);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Result<Vec<String>, SseError> {
        let mut decoder = Decoder::new();
        let mut seen = Vec::new();
        for piece in pieces {
            decoder.feed(piece, |data| {
                seen.push(data.to_owned());
                Ok::<(), SseError>(())
            })?;
        }
        Ok(seen)
    }

    #[test]
    fn line_ends_comments_and_several_data_lines() {
        let stream = "\u{feff}: hello\ndata: a\r\rdata:b\r\n\r\nevent: x\ndata:  c\ndata\ndata: d\nid: 1\n\n\n: bye\n\ndataset: no\n\n";
        assert_eq!(decode(&[stream.as_bytes()]).unwrap(), ["a", "b", " c\n\nd"]);
    }

    #[test]
    fn a_byte_that_is_no_utf8_is_reported_at_once() {
        assert_eq!(decode(&[b"data: \xff\n\n"]), Err(SseError::NotUtf8));
    }

    #[test]
    fn an_event_has_a_bound() {
        let line = vec![b'x'; MAX_EVENT / 2];
        assert_eq!(decode(&[b"data:", &line, &line, b"x"]), Err(SseError::TooLong));
        let mut two = b"data:".to_vec();
        two.extend_from_slice(&line);
        two.push(b'\n');
        assert_eq!(decode(&[&two, &two, b"data: one more\n"]), Err(SseError::TooLong));
    }

    #[test]
    fn the_rest_of_an_unfinished_stream() {
        let rest = |bytes: &[u8]| {
            let mut decoder = Decoder::new();
            decoder.feed(bytes, |_| Ok::<(), SseError>(())).unwrap();
            decoder.finish()
        };
        assert_eq!(rest(b"data: a\n\ndata: [DONE]"), Some("[DONE]".to_owned()));
        assert_eq!(rest(b"data: [DONE]\n"), Some("[DONE]".to_owned()));
        assert_eq!(rest(b"data: a\n\n"), None);
        assert_eq!(rest(b"data: \xe2\x82"), None);
    }
}

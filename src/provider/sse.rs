//! Decodes server-sent events from bytes cut anywhere; knows nothing of what the events carry.
//!
//! The decoding is the library's. Bytes that are no UTF-8 become replacement characters: one broken character of an answer
//! that is paid for does not cost the rest of it.

use std::num::NonZeroUsize;

use sse_core::{SseDecoder, SseEvent};

/// Bytes one event may have before the stream is given up: an answer of 700 KiB, escaped, still fits.
pub const MAX_EVENT: usize = 4 << 20;

/// An event has more than [`MAX_EVENT`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a streamed event has more than {MAX_EVENT} bytes")]
pub struct TooLong;

/// Takes bytes as they come and hands out the data of each complete event.
#[derive(Debug)]
pub struct Decoder(SseDecoder);

impl Default for Decoder {
    fn default() -> Self {
        Decoder(SseDecoder::with_limit(NonZeroUsize::new(MAX_EVENT).unwrap_or(NonZeroUsize::MIN)))
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
    pub fn feed<E: From<TooLong>>(
        &mut self,
        mut bytes: &[u8],
        mut on_data: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(event) = self.0.next(&mut bytes) {
            match event {
                Ok(SseEvent::Message(message)) => on_data(&message.data)?,
                Ok(SseEvent::Retry(_)) => {}
                Err(_) => return Err(TooLong.into()),
            }
        }
        Ok(())
    }

    /// What is left at the end of the stream: an event without its blank line, as some servers end.
    ///
    /// Whether it is whole is for the caller to find out. None when nothing is left.
    pub fn finish(mut self) -> Option<String> {
        let mut rest = None;
        let keep = |data: &str| {
            rest = Some(data.to_owned());
            Ok::<(), TooLong>(())
        };
        self.feed(b"\n\n", keep).ok()?;
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Result<Vec<String>, TooLong> {
        let mut decoder = Decoder::new();
        let mut seen = Vec::new();
        for piece in pieces {
            decoder.feed(piece, |data| {
                seen.push(data.to_owned());
                Ok::<(), TooLong>(())
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
    fn a_byte_that_is_no_utf8_costs_its_own_character_alone() {
        assert_eq!(decode(&[b"data: a\xffb\n\ndata: \xc3", b"\xa4\n\n"]).unwrap(), ["a\u{fffd}b", "\u{e4}"]);
    }

    #[test]
    fn an_event_has_a_bound() {
        let line = vec![b'x'; MAX_EVENT / 2];
        assert_eq!(decode(&[b"data:", &line, &line, b"x"]), Err(TooLong));
        let mut two = b"data:".to_vec();
        two.extend_from_slice(&line);
        two.push(b'\n');
        assert_eq!(decode(&[&two, &two, b"data: one more\n"]), Err(TooLong));
    }

    #[test]
    fn the_rest_of_an_unfinished_stream() {
        let rest = |bytes: &[u8]| {
            let mut decoder = Decoder::new();
            decoder.feed(bytes, |_| Ok::<(), TooLong>(())).unwrap();
            decoder.finish()
        };
        assert_eq!(rest(b"data: a\n\ndata: [DONE]"), Some("[DONE]".to_owned()));
        assert_eq!(rest(b"data: [DONE]\n"), Some("[DONE]".to_owned()));
        assert_eq!(rest(b"data: a\n\n"), None);
    }
}

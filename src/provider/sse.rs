//! Decodes server-sent events from bytes cut anywhere; knows nothing of what the events carry.
//!
//! Own code, because `eventsource-stream` moves the rest of a chunk once for every line, starts a line
//! anew with every piece of it (both quadratic), never bounds a line, panics on a byte order mark, and waits
//! for the end of the stream before it reports a byte that is not UTF-8. It stays as the peer in tests and
//! benches.

/// Bytes one event may have before the stream is given up: an answer of 700 KiB, escaped, still fits.
pub const MAX_EVENT: usize = 4 << 20;

/// Why a stream cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event has more than [`MAX_EVENT`] bytes.
    #[error("a streamed event has more than {MAX_EVENT} bytes")]
    TooLong,
    /// A line is not UTF-8.
    #[error("the stream is not UTF-8")]
    NotUtf8,
}

/// Takes bytes as they come and hands out the data of each complete event.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The start of a line whose end has not come yet.
    partial: Vec<u8>,
    /// Data lines of the event under way, each with its newline.
    data: Vec<u8>,
    /// The last line ended with `\r`: a `\n` right after belongs to it.
    after_cr: bool,
    /// Something was decoded: a byte order mark is no longer one.
    started: bool,
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
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                self.keep_partial(bytes)?;
                break;
            };
            self.after_cr = bytes[end] == b'\r';
            if self.partial.is_empty() {
                self.line(&bytes[..end], &mut on_data)?;
            } else {
                self.keep_partial(&bytes[..end])?;
                let line = std::mem::take(&mut self.partial);
                self.line(&line, &mut on_data)?;
                self.partial = line;
                self.partial.clear();
            }
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    /// What is left at the end of the stream: an event without its blank line, as some servers end.
    ///
    /// Whether it is whole is for the caller to find out. None when nothing or no UTF-8 is left.
    pub fn finish(mut self) -> Option<String> {
        let line = std::mem::take(&mut self.partial);
        if !line.is_empty() {
            self.line::<SseError>(&line, &mut |_| Ok(())).ok()?;
        }
        if self.data.is_empty() {
            return None;
        }
        self.data.pop();
        String::from_utf8(self.data).ok()
    }

    fn keep_partial(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.partial.len() + bytes.len() > MAX_EVENT {
            return Err(SseError::TooLong);
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    fn line<E: From<SseError>>(
        &mut self,
        line: &[u8],
        on_data: &mut impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = match std::mem::replace(&mut self.started, true) {
            false => line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line),
            true => line,
        };
        if line.is_empty() {
            return self.dispatch(on_data);
        }
        let value = match line.strip_prefix(b"data") {
            Some([]) => &[][..],
            Some([b':', b' ', value @ ..] | [b':', value @ ..]) => value,
            _ => return Ok(()),
        };
        if self.data.len() + value.len() > MAX_EVENT {
            return Err(SseError::TooLong.into());
        }
        self.data.extend_from_slice(value);
        self.data.push(b'\n');
        Ok(())
    }

    fn dispatch<E: From<SseError>>(
        &mut self,
        on_data: &mut impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some((_, data)) = self.data.split_last() else {
            return Ok(());
        };
        let handed = match std::str::from_utf8(data) {
            Ok(text) => on_data(text),
            Err(_) => Err(SseError::NotUtf8.into()),
        };
        self.data.clear();
        handed
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
        assert_eq!(decode(&[b"data:", &line, &line]), Err(SseError::TooLong));
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

//! The hash chain and the shape of a line, on raw bytes; knows no file and no event.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::protocol::FORMAT;

/// Bytes of `,"h":"` + hash + `"}`: what follows the hashed part of a line, newline excluded.
pub const TAIL: usize = OPENING.len() + HASH_CHARS + CLOSING.len();

const OPENING: &[u8] = b",\"h\":\"";
const CLOSING: &[u8] = b"\"}";
const HASH_CHARS: usize = 43;

/// One link of the chain: the hash of everything up to and including a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link([u8; 32]);

impl Link {
    /// What the first line's hash builds on. A fork keeps the root of the session it was copied from.
    pub fn root(session: &str) -> Self {
        Link::root_in(u64::from(FORMAT), session)
    }

    /// The same in a log of format `v`.
    pub fn root_in(v: u64, session: &str) -> Self {
        Link(Sha256::digest(format!("agon-log-{v}{session}")).into())
    }

    /// The link after a line whose hashed part is `body`.
    #[must_use]
    pub fn next(&self, body: &[u8]) -> Self {
        Link(Sha256::new().chain_update(self.0).chain_update(body).finalize().into())
    }

    /// The 43 characters that stand in a line.
    pub fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// Ends a line: appends the hash field, the closing brace and the newline to `line`.
    pub fn close(&self, line: &mut Vec<u8>) {
        let mut text = [0; HASH_CHARS];
        // 32 bytes always fill 43 characters; were it otherwise, the line would not verify and be refused.
        let _ = URL_SAFE_NO_PAD.encode_slice(self.0, &mut text);
        line.extend_from_slice(OPENING);
        line.extend_from_slice(&text);
        line.extend_from_slice(CLOSING);
        line.push(b'\n');
    }

    /// The link after `line` (without newline), if its tail has the right shape and its hash fits.
    pub fn check(&self, line: &[u8]) -> Option<Link> {
        let body = line.get(..line.len().checked_sub(TAIL)?)?;
        let link = self.next(body);
        let mut text = [0; HASH_CHARS];
        URL_SAFE_NO_PAD.encode_slice(link.0, &mut text).ok()?;
        (stored_hash(line)? == text).then_some(link)
    }
}

/// The 43 characters at their place in a line (without newline), if the tail has the right shape.
pub fn stored_hash(line: &[u8]) -> Option<&[u8]> {
    let tail = line.get(line.len().checked_sub(TAIL)?..)?;
    tail.strip_prefix(OPENING)?.strip_suffix(CLOSING)
}

/// Every place after which a tail of the right shape ends, for the examination of damage only.
pub(super) fn tail_ends(bytes: &[u8]) -> impl Iterator<Item = usize> {
    memchr::memmem::find_iter(bytes, OPENING)
        .map(|at| at + TAIL)
        .filter(|end| bytes.get(..*end).is_some_and(|line| line.ends_with(CLOSING)))
}

/// What stands at the start of every line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Format version.
    pub v: u64,
    /// Position in the log.
    pub seq: u64,
    /// Microseconds since the Unix epoch.
    pub at: u64,
}

impl Header {
    /// Reads `{"v":N,"seq":N,"at":N,`; none when a line starts otherwise.
    pub fn read(line: &[u8]) -> Option<Self> {
        let (v, rest) = number(line.strip_prefix(b"{\"v\":")?)?;
        let (seq, rest) = number(rest.strip_prefix(b",\"seq\":")?)?;
        let (at, rest) = number(rest.strip_prefix(b",\"at\":")?)?;
        rest.starts_with(b",").then_some(Header { v, seq, at })
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value: u64 = 0;
    let mut rest = bytes;
    while let Some((digit @ b'0'..=b'9', more)) = rest.split_first() {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        rest = more;
    }
    (rest.len() < bytes.len()).then_some((value, rest))
}

/// The session id in a log's first line, from which the chain's root is made.
pub fn root_session(line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct First<'a> {
        #[serde(borrow)]
        events: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Opened {
        kind: String,
        data: Id,
    }
    #[derive(Deserialize)]
    struct Id {
        id: String,
    }
    let first: First<'_> = serde_json::from_slice(line).ok()?;
    let opened: Opened = serde_json::from_str(first.events.first()?.get()).ok()?;
    (opened.kind == "session_opened").then_some(opened.data.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_closed_by_a_link_is_accepted_by_its_predecessor_only() {
        let root = Link::root("s");
        let mut line = br#"{"v":2,"seq":0,"at":7,"events":[]"#.to_vec();
        let link = root.next(&line);
        link.close(&mut line);
        assert_eq!(line.pop(), Some(b'\n'));
        assert_eq!(root.check(&line), Some(link));
        assert_eq!(Link::root("t").check(&line), None);
        assert_eq!(stored_hash(&line), Some(link.text().as_bytes()));
        assert_eq!(Header::read(&line), Some(Header { v: 2, seq: 0, at: 7 }));
    }

    #[test]
    fn the_chain_is_the_documented_one() {
        // Computed with coreutils: printf 'agon-log-2s' | sha256sum, then over root bytes and body.
        let root = Link::root("s");
        let by_hand: [u8; 32] = Sha256::digest(b"agon-log-2s").into();
        assert_eq!(root.0, by_hand);
        let both: Vec<u8> = by_hand.iter().copied().chain(*b"body").collect();
        let digest: [u8; 32] = Sha256::digest(&both).into();
        assert_eq!(root.next(b"body").0, digest);
        assert_eq!(TAIL, 51);
    }

    #[test]
    fn a_short_or_strange_line_is_refused_without_a_panic() {
        let root = Link::root("s");
        for line in [&b""[..], b"{}", b"\0\0\0", &[0; 51], &[0xff; 200]] {
            assert_eq!(root.check(line), None);
            assert_eq!(Header::read(line), None);
            assert_eq!(root_session(line), None);
        }
        let huge = br#"{"v":2,"seq":18446744073709551616,"at":1,"events":[]}"#;
        assert_eq!(Header::read(huge), None, "a number that does not fit");
        assert_eq!(Header::read(br#"{"v":,"seq":1,"at":1,"events":[]}"#), None);
    }
}

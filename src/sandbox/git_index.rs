//! Reads git's index: what is staged under which name. Every entry is one that git could have written, and nothing hangs on
//! another file.

use sha2::{Digest, Sha256};

use super::protected::is_private_folder;

/// What follows the time stamps of an entry, from its beginning.
const MODE: usize = 24;
const OBJECT: usize = 40;

/// One name of an index.
pub struct Entry<'a> {
    /// Kind and permissions, as git writes them.
    pub mode: &'a [u8],
    /// The name of its content.
    pub object: &'a [u8],
    /// 0, or which side of a conflict it is.
    pub stage: u8,
    /// Its path, with `/`.
    pub name: &'a [u8],
    /// Git looks for no change of it, as `--assume-unchanged` says.
    pub is_assumed: bool,
    /// Git takes it for left out of the work tree, as `--skip-worktree` says.
    pub is_skipped: bool,
}

/// A digest of what an index with object names of `hash` bytes stages; a refreshed one has the same. An error says what no
/// index of git's has.
pub fn staged(bytes: &[u8], hash: usize) -> Result<[u8; 32], &'static str> {
    let mut digest = Sha256::new();
    entries(bytes, hash, &mut |entry| {
        digest.update(entry.mode);
        digest.update(entry.object);
        digest.update([entry.stage]);
        digest.update((entry.name.len() as u64).to_le_bytes());
        digest.update(entry.name);
    })?;
    Ok(digest.finalize().into())
}

/// Hands on every entry, and reads the index to its end.
pub fn entries(bytes: &[u8], hash: usize, visit: &mut dyn FnMut(Entry<'_>)) -> Result<(), &'static str> {
    let end = bytes.len().checked_sub(hash).ok_or("it is too short")?;
    let version = number(bytes, 4)?;
    if !bytes.starts_with(b"DIRC") || !(2..=4).contains(&version) {
        return Err("it is no index of a known version");
    }
    let (mut at, mut name) = (12, Vec::new());
    for _ in 0..number(bytes, 8)? {
        let flags_at = at + OBJECT + hash;
        let flags = number(bytes, flags_at - 2)? & 0xffff;
        let is_extended = version > 2 && flags & 0x4000 != 0;
        let is_skipped = is_extended && number(bytes, flags_at)? >> 16 & 0x4000 != 0;
        let mut name_at = flags_at + if is_extended { 4 } else { 2 };
        if version == 4 {
            let (strip, length) = varint(bytes.get(name_at..end).unwrap_or_default())?;
            let kept = name.len().checked_sub(strip).ok_or("a name is cut too far")?;
            name.truncate(kept);
            name_at += length;
        } else {
            name.clear();
        }
        let rest = bytes.get(name_at..end).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == 0).ok_or("a name does not end")?;
        name.extend_from_slice(&rest[..length]);
        let name_end = name_at + length;
        if !is_plain(&name) || !matches!(number(bytes, at + MODE)? >> 12, 0o10 | 0o12 | 0o16 | 0o4) {
            return Err("an entry names a place that git never writes to");
        }
        let (mode, object) = (&bytes[at + MODE..at + MODE + 4], &bytes[at + OBJECT..at + OBJECT + hash]);
        let (stage, is_assumed) = (((flags >> 12) & 3) as u8, flags & 0x8000 != 0);
        visit(Entry { mode, object, stage, name: &name, is_assumed, is_skipped });
        // Earlier versions fill an entry up to a multiple of eight, with one zero at least.
        at = if version == 4 { name_end + 1 } else { at + (name_end - at) / 8 * 8 + 8 };
    }
    extensions(bytes, at, end)
}

fn extensions(bytes: &[u8], mut at: usize, end: usize) -> Result<(), &'static str> {
    while at < end {
        let kind = bytes.get(at..at + 4).ok_or("an extension is cut off")?;
        // Those in small letters have to be understood; `sdir` says that a folder may be one entry.
        if kind != b"sdir" && !kind[0].is_ascii_uppercase() {
            return Err("it hangs on another file");
        }
        at = (at + 8).saturating_add(number(bytes, at + 4)? as usize);
    }
    if at == end { Ok(()) } else { Err("it does not end where it should") }
}

fn number(bytes: &[u8], at: usize) -> Result<u32, &'static str> {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map(u32::from_be_bytes).ok_or("it ends within an entry")
}
/// A number of git's, with its length.
fn varint(bytes: &[u8]) -> Result<(usize, usize), &'static str> {
    let mut value = 0_usize;
    for (i, byte) in bytes.iter().take(5).enumerate() {
        value = (value << 7) | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Ok((value, i + 1));
        }
        value += 1;
    }
    Err("a number does not end")
}

/// A path under the work tree that touches no repository's folder.
fn is_plain(name: &[u8]) -> bool {
    // A folder of a sparse index ends with a slash.
    let name = name.strip_suffix(b"/").unwrap_or(name);
    name.split(|byte| *byte == b'/').all(|part| {
        let text = String::from_utf8_lossy(part);
        let is_short_name = text.to_ascii_lowercase().starts_with("git~");
        !part.is_empty() && part != b"." && part != b".." && !is_short_name && !is_git(&text)
    })
}

fn is_git(part: &str) -> bool {
    // NTFS takes what follows a colon for a stream of the same folder, and a backslash for a slash.
    part.split([':', '\\'])
        .any(|part| part.to_lowercase().trim_start().starts_with(".git") && is_private_folder(part))
}

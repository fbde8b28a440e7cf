//! One stored run as bytes: a line of JSON and the digest of that line; knows no folder.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ports::{CachedRun, FoundRun};
use crate::protocol::expand::{digest_of, hex};

/// Shape of a record; another number is not read.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Record {
    v: u32,
    key: String,
    run: CachedRun,
}

/// True for 64 lower-case hexadecimal digits: nothing else becomes a name in the cache.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A run under its key as bytes.
pub fn encode(key: &str, run: CachedRun) -> Result<Vec<u8>, String> {
    let record = Record { v: VERSION, key: key.to_owned(), run };
    let mut bytes = serde_json::to_vec(&record).map_err(|error| error.to_string())?;
    let sum = hex(&Sha256::digest(&bytes));
    bytes.extend(format!("\n{sum}\n").into_bytes());
    Ok(bytes)
}

/// The run that bytes stored under `key` hold, everything checked; the error says what is wrong.
pub fn decode(key: &str, bytes: &[u8]) -> Result<FoundRun, String> {
    // The JSON, a newline, 64 digits, a newline.
    let (json, end) =
        bytes.len().checked_sub(66).map(|at| bytes.split_at(at)).ok_or("the record is too short")?;
    if end != format!("\n{}\n", hex(&Sha256::digest(json))).as_bytes() {
        return Err("the record is not what its digest says".to_owned());
    }
    let record: Record =
        serde_json::from_slice(json).map_err(|error| format!("the record cannot be read: {error}"))?;
    if record.v != VERSION {
        return Err(format!("the record has version {}; this agon reads {VERSION}", record.v));
    }
    if record.key != key {
        return Err("the record was stored under another key".to_owned());
    }
    match contents(&record.run).iter().find(|sha256| !is_sha256(sha256)) {
        Some(bad) => Err(format!("`{bad}` is not the digest of a content")),
        None => Ok(FoundRun { digest: digest_of(&(key, &record.run)), run: record.run }),
    }
}

/// Digests of the contents a run leads to.
pub fn contents(run: &CachedRun) -> BTreeSet<String> {
    run.changes.iter().filter_map(|change| Some(change.after.as_ref()?.sha256.clone())).collect()
}

/// True while a run may be used. One that is stored at a time yet to come is as good as expired: with a
/// clock that was set back it would else live on for as long as the clock was wrong.
pub fn is_fresh(now: u64, stored_at: u64, ttl_us: u64) -> bool {
    now.checked_sub(stored_at).is_some_and(|age| age < ttl_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_clock_makes_a_run_immortal() {
        let (hour, stored) = (3_600_000_000, 1_700_000_000_000_000);
        assert!(is_fresh(stored, stored, 24 * hour));
        assert!(is_fresh(stored + 24 * hour - 1, stored, 24 * hour));
        assert!(!is_fresh(stored + 24 * hour, stored, 24 * hour));
        assert!(!is_fresh(stored - 1, stored, 24 * hour), "the clock was set back");
        assert!(!is_fresh(0, u64::MAX, u64::MAX));
        assert!(!is_fresh(stored, stored, 0), "a life of no time is over at once");
    }

    #[test]
    fn only_digests_are_names() {
        assert!(is_sha256(&"a0".repeat(32)));
        for bad in
            ["", "..", &"A0".repeat(32), &"a0".repeat(31), &format!("../{}", "a".repeat(61)), &"é".repeat(32)]
        {
            assert!(!is_sha256(bad), "{bad}");
        }
    }
}

//! One stored run as bytes: a line of JSON and the digest of that line; knows no folder.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ports::{CachedRun, FoundRun};
use crate::protocol::expand::{digest_of, hex, is_sha256};

/// Shape of a record; another number is not read.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Record {
    v: u32,
    key: String,
    run: CachedRun,
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

/// Whether a run may be used by its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// It may.
    Fresh,
    /// It was stored too long ago.
    Expired,
    /// It was stored at a time yet to come. It is not used, since with a clock that was set back it would live on
    /// for as long as the clock is wrong, nor is it removed: the clock may be put right.
    Ahead,
}

/// The age of a run that was stored at a time.
pub fn age(now: u64, stored_at: u64, ttl_us: u64) -> Age {
    match now.checked_sub(stored_at) {
        Some(age) if age < ttl_us => Age::Fresh,
        Some(_) => Age::Expired,
        None => Age::Ahead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_clock_makes_a_run_immortal() {
        let (hour, stored) = (3_600_000_000, 1_700_000_000_000_000);
        for (now, at, ttl, expected) in [
            (stored, stored, 24 * hour, Age::Fresh),
            (stored + 24 * hour - 1, stored, 24 * hour, Age::Fresh),
            (stored + 24 * hour, stored, 24 * hour, Age::Expired),
            (stored - 1, stored, 24 * hour, Age::Ahead),
            (0, u64::MAX, u64::MAX, Age::Ahead),
            (stored, stored, 0, Age::Expired),
        ] {
            assert_eq!(age(now, at, ttl), expected, "{now} {at} {ttl}");
        }
    }
}

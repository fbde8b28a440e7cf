//! One stored run as bytes: a line of JSON, the digest of that line, the contents; knows no folder.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ports::{CachedRun, Contents, FoundRun};
use crate::protocol::expand::{digest_of, hex};

/// Shape of a record; another number is not read.
const VERSION: u32 = 2;

#[derive(Serialize, Deserialize)]
struct Record {
    v: u32,
    key: String,
    run: CachedRun,
    /// Digests and lengths of the contents, in the order in which they follow.
    contents: Vec<(String, usize)>,
}

/// Of a record of any version.
#[derive(Deserialize)]
struct Version {
    v: u32,
}

/// A run under its key as bytes. `given` must have every content that its changes lead to.
pub fn encode(key: &str, run: CachedRun, given: &Contents) -> Result<Vec<u8>, String> {
    let wanted: BTreeSet<&String> =
        run.changes.iter().filter_map(|change| Some(&change.after.as_ref()?.sha256)).collect();
    let content = |sha256: &String| match given.get(sha256) {
        Some(bytes) => Ok((sha256.clone(), bytes.as_slice())),
        None => Err(format!("content `{sha256}` was not given")),
    };
    let contents: Vec<(String, &[u8])> = wanted.into_iter().map(content).collect::<Result<_, _>>()?;
    let lengths = contents.iter().map(|(sha256, bytes)| (sha256.clone(), bytes.len())).collect();
    let record = Record { v: VERSION, key: key.to_owned(), run, contents: lengths };
    let mut file = serde_json::to_vec(&record).map_err(|error| error.to_string())?;
    let sum = sha256(&file);
    file.extend(format!("\n{sum}\n").into_bytes());
    contents.iter().for_each(|(_, bytes)| file.extend_from_slice(bytes));
    Ok(file)
}

/// The run that a file stored under `key` holds with its contents, everything checked; the error says what is wrong.
pub fn decode(key: &str, file: &[u8]) -> Result<(FoundRun, Contents), String> {
    let mut lines = file.splitn(3, |byte| *byte == b'\n');
    let (Some(json), Some(sum), Some(mut rest)) = (lines.next(), lines.next(), lines.next()) else {
        return Err("the record is cut off".to_owned());
    };
    if sum != sha256(json).as_bytes() {
        return Err("the record is not what its digest says".to_owned());
    }
    let unreadable = |error: serde_json::Error| format!("the record cannot be read: {error}");
    let Version { v } = serde_json::from_slice(json).map_err(unreadable)?;
    if v != VERSION {
        return Err(format!("the record has version {v}; this agon reads {VERSION}"));
    }
    let record: Record = serde_json::from_slice(json).map_err(unreadable)?;
    if record.key != key {
        return Err("the record was stored under another key".to_owned());
    }
    let mut contents = Contents::new();
    for (said, length) in record.contents {
        let (bytes, more) = rest.split_at_checked(length).ok_or("its contents are cut off")?;
        if sha256(bytes) != said {
            return Err(format!("content `{said}` is not what its digest says"));
        }
        contents.insert(said, bytes.to_vec());
        rest = more;
    }
    match rest.is_empty() {
        true => Ok((FoundRun { digest: digest_of(&(key, &record.run)), run: record.run }, contents)),
        false => Err("more follows than its contents".to_owned()),
    }
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_version_is_not_read() {
        for other in [VERSION - 1, VERSION + 1] {
            let json = format!("{{\"v\":{other},\"key\":\"k\",\"run\":null,\"contents\":[]}}");
            let file = format!("{json}\n{}\n", sha256(json.as_bytes()));
            let error = decode("k", file.as_bytes()).map(drop).unwrap_err();
            assert_eq!(error, format!("the record has version {other}; this agon reads {VERSION}"));
        }
    }
}

//! What each file looked like when its content was last hashed, so that a second look only asks the system.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::objects::{make_folder, named};

/// Shape of the file on disk; another number is read as an empty index.
const VERSION: u32 = 1;
/// File systems with fine time stamps take them from a clock that ticks every few milliseconds.
const FINE_NS: i128 = 50_000_000;
/// Time stamps in whole seconds may mean a clock of one or two seconds.
const COARSE_NS: i128 = 2_000_000_000;

/// Known files by path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    version: u32,
    files: BTreeMap<String, Known>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    stamp: Stamp,
    sha256: String,
    /// When it was hashed, in nanoseconds since the Unix epoch.
    hashed: i64,
    /// True once this process has seen the content in the store.
    #[serde(skip)]
    stored: bool,
}

/// What the system says of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Size in bytes.
    pub size: u64,
    /// Device and inode.
    pub inode: (u64, u64),
    /// Last change of content, nanoseconds since the Unix epoch.
    pub modified: i64,
    /// Last change of anything, which no program can set back.
    pub changed: i64,
}

impl Stamp {
    /// True when a later change cannot hide behind the same stamp: the file was already old enough when it
    /// was hashed that a new change would have got a newer time.
    fn is_settled(&self, hashed: i64) -> bool {
        let newest = self.modified.max(self.changed);
        let tick = if newest % 1_000_000_000 == 0 { COARSE_NS } else { FINE_NS };
        i128::from(newest) + tick < i128::from(hashed)
    }
}

impl Default for Index {
    fn default() -> Self {
        Index { version: VERSION, files: BTreeMap::new() }
    }
}

impl Index {
    /// Reads an index. One that is missing, damaged or of another version is an empty one: it is derived.
    pub fn load(path: &Path) -> Self {
        let read = || -> Option<Index> {
            let index: Index = serde_json::from_reader(BufReader::new(File::open(path).ok()?)).ok()?;
            (index.version == VERSION).then_some(index)
        };
        read().unwrap_or_default()
    }

    /// Writes the index, whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), String> {
        let folder = path.parent().ok_or("the index has no folder")?;
        make_folder(folder)?;
        let mut file = NamedTempFile::new_in(folder).map_err(|error| named(folder, error))?;
        let mut writer = BufWriter::new(&mut file);
        serde_json::to_writer(&mut writer, self).map_err(|error| named(path, error))?;
        writer.flush().map_err(|error| named(path, error))?;
        drop(writer);
        file.persist(path).map_err(|error| named(path, error.error)).map(|_| ())
    }

    /// The digest of a file whose stamp is still the one it was hashed with.
    pub fn digest(&self, path: &str, stamp: &Stamp) -> Option<&str> {
        let known = self.files.get(path)?;
        (known.stamp == *stamp && stamp.is_settled(known.hashed)).then_some(known.sha256.as_str())
    }

    /// Files it knows.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// True when this process has seen the content of a path in the store.
    pub fn is_stored(&self, path: &str) -> bool {
        self.files.get(path).is_some_and(|known| known.stored)
    }

    /// Takes what is known of a path out of an older index; `stored` when its content is in the store.
    pub fn carry(&mut self, path: &str, older: &mut Index, stored: bool) {
        if let Some((path, mut known)) = older.files.remove_entry(path) {
            known.stored |= stored;
            self.files.insert(path, known);
        }
    }

    /// Notes a digest. `stamp` was taken before the content was read, `hashed` is the time at that moment; `stored` when
    /// the content was put into the store.
    pub fn note(&mut self, path: &str, stamp: Stamp, sha256: &str, hashed: i64, stored: bool) {
        self.files.insert(path.to_owned(), Known { stamp, sha256: sha256.to_owned(), hashed, stored });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(changed: i64) -> Stamp {
        Stamp { size: 1, inode: (1, 1), modified: changed, changed }
    }

    #[test]
    fn a_file_hashed_right_after_its_change_is_hashed_again() {
        let mut index = Index::default();
        let at = 1_700_000_000_123_456_789;
        index.note("fresh", stamp(at), "1", at + 10_000_000, false);
        index.note("old", stamp(at), "2", at + 60_000_000, false);
        assert_eq!(index.digest("fresh", &stamp(at)), None);
        assert_eq!(index.digest("old", &stamp(at)), Some("2"));
        assert_eq!(index.digest("old", &stamp(at + 1)), None);
        assert_eq!(index.digest("unknown", &stamp(at)), None);
    }

    #[test]
    fn whole_seconds_need_more_distance() {
        let mut index = Index::default();
        let at = 1_700_000_000_000_000_000;
        index.note("a", stamp(at), "1", at + 1_000_000_000, false);
        assert_eq!(index.digest("a", &stamp(at)), None);
        index.note("a", stamp(at), "1", at + 3_000_000_000, false);
        assert_eq!(index.digest("a", &stamp(at)), Some("1"));
    }

    #[test]
    fn a_damaged_index_is_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/index.json");
        let mut index = Index::default();
        index.note("a", stamp(1_700_000_000_123_456_789), "1", i64::MAX, false);
        index.save(&path).unwrap();
        assert_eq!(Index::load(&path), index);
        std::fs::write(&path, "{\"version\":1,\"files\":{\"a\":").unwrap();
        assert_eq!(Index::load(&path), Index::default());
    }
}

//! All stored runs together: counted, listed, shown, removed; knows no session.

use crate::ports::FoundRun;

use super::folder::{Folder, FolderError};
use super::{RunStore, record};

/// Why the stock cannot be looked at or changed.
#[derive(Debug, thiserror::Error)]
pub enum StockError {
    /// The folder cannot be used.
    #[error("the team cache cannot be used: {0}")]
    Folder(#[from] FolderError),
    /// No key was given, which all keys start with.
    #[error("no key was given")]
    NoKey,
    /// No run has such a key.
    #[error("no run in the team cache has a key that starts with `{0}`")]
    NoRun(String),
    /// Several have.
    #[error("{count} runs in the team cache have keys that start with `{prefix}`")]
    Ambiguous {
        /// What was given.
        prefix: String,
        /// How many.
        count: usize,
    },
    /// The run is not whole.
    #[error("run `{key}` is damaged: {words}")]
    Damaged {
        /// Its key.
        key: String,
        /// What is wrong with it.
        words: String,
    },
}

/// The cache in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Runs that can be used.
    pub fresh: u64,
    /// Runs that are too old.
    pub expired: u64,
    /// Runs that are not whole.
    pub damaged: u64,
    /// Bytes of all runs.
    pub bytes: u64,
    /// Bytes they may take.
    pub max_bytes: u64,
    /// Tokens the usable runs took when they were made.
    pub tokens: u64,
    /// Millionths of a dollar they took.
    pub micro_usd: u64,
}

/// One stored run in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its key.
    pub key: String,
    /// Bytes it takes.
    pub bytes: u64,
    /// When it was last used, microseconds since the Unix epoch.
    pub used_at: u64,
    /// True when it is too old to be used.
    pub expired: bool,
    /// The run, or what is wrong with it.
    pub run: Result<FoundRun, String>,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Runs.
    pub runs: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl RunStore {
    /// Every run, the last used first, each checked whole.
    pub fn list(&self) -> Result<Vec<Row>, StockError> {
        let Some(folder) = Folder::open(&self.settings.folder)? else { return Ok(Vec::new()) };
        let now = self.clock.now();
        let row = |(key, bytes, used_at): (String, u64, u64)| {
            let run = folder.read(&key)?.and_then(|file| record::decode(&key, &file)).map(|(found, _)| found);
            let expired = run.as_ref().is_ok_and(|found| !self.is_fresh(found, now));
            Some(Row { key, bytes, used_at, expired, run })
        };
        let mut rows: Vec<Row> = folder.runs()?.into_iter().filter_map(row).collect();
        rows.sort_by(|a, b| b.used_at.cmp(&a.used_at).then_with(|| a.key.cmp(&b.key)));
        Ok(rows)
    }

    /// The cache in numbers.
    pub fn stats(&self) -> Result<Stats, StockError> {
        let mut stats = Stats { max_bytes: self.settings.max_bytes, ..Stats::default() };
        for row in self.list()? {
            stats.bytes += row.bytes;
            match row.run {
                Err(_) => stats.damaged += 1,
                Ok(_) if row.expired => stats.expired += 1,
                Ok(found) => {
                    stats.fresh += 1;
                    stats.tokens = stats.tokens.saturating_add(found.run.run.tokens);
                    stats.micro_usd = stats.micro_usd.saturating_add(found.run.run.micro_usd);
                }
            }
        }
        Ok(stats)
    }

    /// The run whose key starts with `prefix`, with its whole key.
    pub fn show(&self, prefix: &str) -> Result<(String, FoundRun), StockError> {
        if prefix.trim().is_empty() {
            return Err(StockError::NoKey);
        }
        let mut rows = self.list()?;
        rows.retain(|row| row.key.starts_with(prefix));
        let prefix = prefix.to_owned();
        match (rows.pop(), rows.len()) {
            (None, _) => Err(StockError::NoRun(prefix)),
            (Some(Row { key, run, .. }), 0) => match run {
                Ok(found) => Ok((key, found)),
                Err(words) => Err(StockError::Damaged { key, words }),
            },
            (Some(_), others) => Err(StockError::Ambiguous { prefix, count: others + 1 }),
        }
    }

    /// Removes what is expired or damaged, then the least recently used until the rest fits.
    pub fn prune(&self) -> Result<Removed, StockError> {
        let removed = self.remove_rows(|row| row.expired || row.run.is_err())?;
        let Some(folder) = Folder::open(&self.settings.folder)? else { return Ok(removed) };
        let more = make_room(&folder, self.settings.max_bytes, None);
        Ok(Removed { runs: removed.runs + more.runs, bytes: removed.bytes + more.bytes })
    }

    /// Removes every run. Names that are no key are left alone.
    pub fn clear(&self) -> Result<Removed, StockError> {
        self.remove_rows(|_| true)
    }

    fn remove_rows(&self, which: impl Fn(&Row) -> bool) -> Result<Removed, StockError> {
        let mut removed = Removed::default();
        let Some(folder) = Folder::open(&self.settings.folder)? else { return Ok(removed) };
        for row in self.list()?.iter().filter(|row| which(row)) {
            folder.remove(&row.key)?;
            removed.add(row.bytes);
        }
        Ok(removed)
    }
}

impl Removed {
    fn add(&mut self, bytes: u64) {
        self.runs += 1;
        self.bytes += bytes;
    }
}

/// Removes the least recently used runs until all fit into `max`; `keep` goes last.
pub fn make_room(folder: &Folder, max: u64, keep: Option<&str>) -> Removed {
    let mut runs = folder.runs().unwrap_or_default();
    runs.sort_by_key(|(key, _, used_at)| (Some(key.as_str()) == keep, *used_at));
    let mut total: u64 = runs.iter().map(|(_, bytes, _)| bytes).sum();
    let mut removed = Removed::default();
    for (key, bytes, _) in runs {
        if total <= max {
            break;
        }
        // One that cannot be removed is tried again with the next store.
        if folder.remove(&key).is_ok() {
            total -= bytes;
            removed.add(bytes);
        }
    }
    removed
}

//! All stored runs together: counted, listed, shown, given up, removed; knows no session.

use crate::ports::{CacheMiss, FoundRun};
use crate::protocol::expand::is_sha256;

use super::entry::{Cache, Fault};
use super::folder::FolderError;
use super::record::Age;
use super::{RunStore, record};

/// Why the stock cannot be looked at or changed.
#[derive(Debug, thiserror::Error)]
pub enum StockError {
    /// The folder cannot be used.
    #[error("the team cache cannot be used: {0}")]
    Folder(String),
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

impl From<FolderError> for StockError {
    fn from(error: FolderError) -> Self {
        StockError::Folder(error.to_string())
    }
}

/// The cache in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Runs that can be used.
    pub fresh: u64,
    /// Runs that are too old.
    pub expired: u64,
    /// Runs of a time that has not come yet; they are kept, and not used.
    pub ahead: u64,
    /// Runs whose record is not whole.
    pub damaged: u64,
    /// Names that are no key; they are left alone.
    pub ignored: u64,
    /// Bytes of the runs that are whole.
    pub bytes: u64,
    /// Bytes of the others, which are of no use to anybody.
    pub damaged_bytes: u64,
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
    /// Whether it may be used by its age; one that cannot be read has none.
    pub age: Option<Age>,
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
    /// Every run, the last used first. Records are checked, contents are not.
    pub fn list(&self) -> Result<Vec<Row>, StockError> {
        let Some(cache) = Cache::open(&self.inner.settings.folder)? else { return Ok(Vec::new()) };
        let mut rows: Vec<Row> = keys(&cache)?.into_iter().filter_map(|key| self.row(&cache, key)).collect();
        rows.sort_by(|a, b| b.used_at.cmp(&a.used_at).then_with(|| a.key.cmp(&b.key)));
        Ok(rows)
    }

    fn row(&self, cache: &Cache, key: String) -> Option<Row> {
        let run = match cache.record(&key) {
            Ok(found) => Ok(found),
            Err(Fault::Missing) => return None,
            Err(Fault::Damaged(words)) => Err(words),
        };
        let (now, ttl) = (self.inner.clock.now(), self.inner.ttl_us());
        let age = run.as_ref().ok().map(|found| record::age(now, found.run.stored_at, ttl));
        let (bytes, used_at) = cache.size(&key).map_or((0, 0), |size| (size.bytes, size.used_at));
        Some(Row { key, bytes, used_at, age, run })
    }

    /// The cache in numbers.
    pub fn stats(&self) -> Result<Stats, StockError> {
        let mut stats = Stats { max_bytes: self.inner.settings.max_bytes, ..Stats::default() };
        let Some(cache) = Cache::open(&self.inner.settings.folder)? else { return Ok(stats) };
        let names = cache.runs.names()?;
        stats.ignored = names.iter().filter(|name| !is_sha256(name)).count() as u64;
        for row in self.list()? {
            match &row.run {
                Ok(_) => stats.bytes += row.bytes,
                Err(_) => stats.damaged_bytes += row.bytes,
            }
            match row.run {
                Err(_) => stats.damaged += 1,
                Ok(_) if row.age == Some(Age::Expired) => stats.expired += 1,
                Ok(_) if row.age == Some(Age::Ahead) => stats.ahead += 1,
                Ok(found) => {
                    stats.fresh += 1;
                    stats.tokens = stats.tokens.saturating_add(found.run.run.tokens);
                    stats.micro_usd = stats.micro_usd.saturating_add(found.run.run.micro_usd);
                }
            }
        }
        Ok(stats)
    }

    /// The run whose key starts with `prefix`, contents checked; gives its key with it.
    pub fn show(&self, prefix: &str) -> Result<(String, FoundRun), StockError> {
        if prefix.trim().is_empty() {
            return Err(StockError::NoKey);
        }
        let none = || StockError::NoRun(prefix.to_owned());
        let cache = Cache::open(&self.inner.settings.folder)?.ok_or_else(none)?;
        let mut keys = keys(&cache)?;
        keys.retain(|key| key.starts_with(prefix));
        let key = match keys.len() {
            1 => keys.pop().ok_or_else(none)?,
            0 => return Err(none()),
            count => return Err(StockError::Ambiguous { prefix: prefix.to_owned(), count }),
        };
        match cache.load(&key) {
            Ok((found, _)) => Ok((key, found)),
            Err(Fault::Missing) => Err(none()),
            Err(Fault::Damaged(words)) => Err(StockError::Damaged { key, words }),
        }
    }

    /// Removes what is expired or damaged, then the least recently used until the rest fits.
    pub fn prune(&self) -> Result<Removed, StockError> {
        let Some(cache) = Cache::open(&self.inner.settings.folder)? else { return Ok(Removed::default()) };
        cache.sweep();
        let mut removed = Removed::default();
        for row in self.list()? {
            let damaged = matches!(cache.load(&row.key).map_err(CacheMiss::from), Err(CacheMiss::Damaged(_)));
            if row.age == Some(Age::Expired) || damaged {
                cache.remove(&row.key)?;
                removed.add(row.bytes);
            }
        }
        let given_up = give_up(&cache, self.inner.settings.max_bytes, self.inner.clock.now(), None);
        Ok(Removed { runs: removed.runs + given_up.runs, bytes: removed.bytes + given_up.bytes })
    }

    /// Removes every run. Names that are no key are left alone.
    pub fn clear(&self) -> Result<Removed, StockError> {
        let Some(cache) = Cache::open(&self.inner.settings.folder)? else { return Ok(Removed::default()) };
        let mut removed = Removed::default();
        for key in keys(&cache)? {
            let bytes = cache.size(&key).map_or(0, |size| size.bytes);
            cache.remove(&key)?;
            removed.add(bytes);
        }
        cache.sweep();
        Ok(removed)
    }
}

impl Removed {
    fn add(&mut self, bytes: u64) {
        self.runs += 1;
        self.bytes += bytes;
    }
}

/// Removes the least recently used runs until all fit into `max`: first those whose last use is yet to come, which
/// nobody can use before; `keep` goes last.
pub fn give_up(cache: &Cache, max: u64, now: u64, keep: Option<&str>) -> Removed {
    let keys = keys(cache).unwrap_or_default();
    let mut sizes: Vec<_> =
        keys.into_iter().filter_map(|key| cache.size(&key).map(|size| (key, size))).collect();
    let used = |at: u64| if at > now { 0 } else { at };
    sizes.sort_by_key(|(key, size)| (Some(key.as_str()) == keep, used(size.used_at)));
    let mut total: u64 = sizes.iter().map(|(_, size)| size.bytes).sum();
    let mut removed = Removed::default();
    for (key, size) in sizes {
        if total <= max {
            break;
        }
        // One that cannot be removed is tried again with the next store.
        if cache.remove(&key).is_ok() {
            total -= size.bytes;
            removed.add(size.bytes);
        }
    }
    removed
}

fn keys(cache: &Cache) -> Result<Vec<String>, FolderError> {
    let mut names = cache.runs.names()?;
    names.retain(|name| is_sha256(name));
    Ok(names)
}

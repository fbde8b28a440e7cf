//! Recorded runs by key, in a folder of the user's; knows no workspace, no session and no rule.
//!
//! Each run has a folder of its own with its record and the contents it leads to. Contents are copies and not
//! shared with the workspace's objects: only changed files are stored, and a run that owns them can be
//! counted, given up and removed without asking who else needs them.

mod entry;
mod folder;
mod lock;
mod record;
mod stock;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::ports::{CacheMiss, CachedRun, Clock, FileChange, FoundRun, Live, TeamCache};
use crate::protocol::Lane;
use crate::protocol::effect::FinishedRun;
use crate::protocol::expand::is_sha256;
use entry::Cache;
use lock::KeyLock;

pub use record::Age;
pub use stock::{Removed, Row, Stats, StockError};

/// How often a session that waits for another looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How a cache is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its folder; made when the first run is stored.
    pub folder: PathBuf,
    /// How long a run may be used.
    pub ttl: Duration,
    /// Bytes all runs may take together; the least recently used are given up beyond.
    pub max_bytes: u64,
    /// True to make every run anew and store it.
    pub refresh: bool,
    /// How long to wait for another session that makes the same run.
    pub patience: Duration,
}

/// The team cache of one session. Opening it touches nothing.
#[derive(Clone)]
pub struct RunStore {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Settings,
    clock: Arc<dyn Clock>,
    /// Keys that are this session's to compute.
    held: Mutex<BTreeMap<String, KeyLock>>,
}

/// What came of asking for a key's lock.
enum Turn {
    /// It is this session's to compute.
    Ours,
    /// Another session computes it.
    Theirs,
    /// There are no locks to be had; everybody computes.
    Nobodys,
}

impl RunStore {
    /// A cache with these settings.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>) -> Self {
        RunStore { inner: Arc::new(Inner { settings, clock, held: Mutex::default() }) }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> T + Send + 'static,
    ) -> Result<T, String> {
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        done.map_err(|error| format!("the team cache failed inside: {error}"))
    }

    async fn look(&self, key: &str) -> Result<FoundRun, CacheMiss> {
        let key = key.to_owned();
        let looked = self.blocking(move |inner| inner.load(&key).map(|(found, _)| found)).await;
        looked.unwrap_or_else(|error| Err(CacheMiss::Unusable(error)))
    }

    async fn turn(&self, key: &str) -> Turn {
        let key = key.to_owned();
        self.blocking(move |inner| inner.turn(&key)).await.unwrap_or(Turn::Nobodys)
    }
}

#[async_trait]
impl TeamCache for RunStore {
    async fn get(
        &self,
        key: &str,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<FoundRun, CacheMiss> {
        let until = tokio::time::Instant::now() + self.inner.settings.patience;
        let mut told = false;
        let mut removed = None;
        loop {
            let miss = match self.inner.settings.refresh {
                true => CacheMiss::Refreshed,
                false => match self.look(key).await {
                    Ok(found) => return Ok(found),
                    Err(miss @ CacheMiss::Unusable(_)) => return Err(miss),
                    Err(miss) => miss,
                },
            };
            // What was found wrong at first is what is told, not that it is gone since.
            let first = removed.get_or_insert(miss).clone();
            match self.turn(key).await {
                Turn::Nobodys => return Err(first),
                _ if first == CacheMiss::Refreshed => return Err(first),
                // The other may have stored the run between the look and the lock.
                Turn::Ours => return self.look(key).await.map_err(|_| first),
                Turn::Theirs => {}
            }
            if !told {
                live.push(Lane::Progress, "another session makes the same run; waiting for it\n");
                told = true;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = cancel.cancelled() => return Err(first),
            }
            if tokio::time::Instant::now() >= until {
                return Err(first);
            }
        }
    }

    async fn put(
        &self,
        key: &str,
        run: FinishedRun,
        changes: Vec<FileChange>,
        contents: BTreeMap<String, Vec<u8>>,
    ) -> Result<u64, String> {
        let key = key.to_owned();
        self.blocking(move |inner| {
            let stored_at = inner.clock.now();
            let stored = inner.store(&key, CachedRun { run, stored_at, changes }, &contents);
            inner.held().remove(&key);
            stored
        })
        .await?
    }

    async fn open(&self, key: &str) -> Result<(FoundRun, BTreeMap<String, Vec<u8>>), CacheMiss> {
        let key = key.to_owned();
        let opened = self.blocking(move |inner| inner.load(&key)).await;
        opened.unwrap_or_else(|error| Err(CacheMiss::Unusable(error)))
    }

    fn let_go(&self) {
        self.inner.held().clear();
    }
}

impl Inner {
    fn held(&self) -> MutexGuard<'_, BTreeMap<String, KeyLock>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ttl_us(&self) -> u64 {
        u64::try_from(self.settings.ttl.as_micros()).unwrap_or(u64::MAX)
    }

    /// A run with its contents, noted as used. One that is damaged or expired is removed.
    fn load(&self, key: &str) -> Result<(FoundRun, BTreeMap<String, Vec<u8>>), CacheMiss> {
        if !is_sha256(key) {
            return Err(CacheMiss::Unusable(format!("`{key}` is not a key")));
        }
        let cache = match Cache::open(&self.settings.folder) {
            Ok(Some(cache)) => cache,
            Ok(None) => return Err(CacheMiss::Absent),
            Err(error) => return Err(CacheMiss::Unusable(error.to_string())),
        };
        let now = self.clock.now();
        let loaded =
            cache.load(key).map_err(CacheMiss::from).and_then(|(found, contents)| {
                match record::age(now, found.run.stored_at, self.ttl_us()) {
                    Age::Fresh => Ok((found, contents)),
                    Age::Expired => Err(CacheMiss::Expired),
                    Age::Ahead => Err(CacheMiss::Ahead),
                }
            });
        match loaded {
            Ok(loaded) => {
                cache.touch(key, now);
                Ok(loaded)
            }
            Err(CacheMiss::Damaged(words)) => Err(CacheMiss::Damaged(match cache.remove(key) {
                Ok(()) => words,
                Err(error) => format!("{words}; it cannot be removed: {error}"),
            })),
            Err(miss) => {
                if miss == CacheMiss::Expired {
                    // It will be replaced, or stay expired.
                    let _ = cache.remove(key);
                }
                Err(miss)
            }
        }
    }

    fn store(&self, key: &str, run: CachedRun, contents: &BTreeMap<String, Vec<u8>>) -> Result<u64, String> {
        if !is_sha256(key) {
            return Err(format!("`{key}` is not a key"));
        }
        if let Some(missing) = record::contents(&run).iter().find(|sha256| !contents.contains_key(*sha256)) {
            return Err(format!("content `{missing}` was not given"));
        }
        let used_at = run.stored_at;
        let record = record::encode(key, run)?;
        let bytes = contents.values().fold(record.len() as u64, |sum, bytes| sum + bytes.len() as u64);
        let max = self.settings.max_bytes;
        if bytes > max {
            return Err(format!("the run takes {bytes} bytes; the team cache may have {max}"));
        }
        let words = |error: folder::FolderError| error.to_string();
        let cache = Cache::make(&self.settings.folder).map_err(words)?;
        cache.sweep();
        cache.store(key, &record, contents).map_err(words)?;
        cache.touch(key, used_at);
        stock::give_up(&cache, max, used_at, Some(key));
        Ok(bytes)
    }

    fn turn(&self, key: &str) -> Turn {
        let mut held = self.held();
        if held.contains_key(key) {
            return Turn::Ours;
        }
        let taken = Cache::make(&self.settings.folder).and_then(|cache| KeyLock::take(&cache.locks, key));
        match taken {
            Ok(Some(lock)) => {
                held.insert(key.to_owned(), lock);
                Turn::Ours
            }
            Ok(None) => Turn::Theirs,
            // Read-only, full or foreign: nothing can be stored here either.
            Err(_) => Turn::Nobodys,
        }
    }
}

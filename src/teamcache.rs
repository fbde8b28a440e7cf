//! Recorded runs by key, a file each, in a folder of the user's; knows no workspace, no session and no rule.
//!
//! A file holds a run's record and the contents it leads to. Contents are copies and not shared with the workspace's
//! objects: a run that owns them can be counted and removed without asking who else needs them.

mod folder;
mod record;
mod stock;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::ports::{CacheMiss, CachedRun, Clock, Contents, FileChange, FoundRun, TeamCache};
use crate::protocol::effect::FinishedRun;
use crate::protocol::expand::is_sha256;
use folder::Folder;

pub use stock::{Removed, Row, Stats, StockError};

/// How a cache is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its folder; made when the first run is stored.
    pub folder: PathBuf,
    /// How long a run may be used.
    pub ttl: Duration,
    /// Bytes all runs may take together; beyond that the least recently used are removed.
    pub max_bytes: u64,
    /// True to miss every run and store it again.
    pub refresh: bool,
}

/// The team cache of one session. Opening it touches nothing.
#[derive(Clone)]
pub struct RunStore {
    settings: Settings,
    clock: Arc<dyn Clock>,
}

impl RunStore {
    /// A cache with these settings.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>) -> Self {
        RunStore { settings, clock }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RunStore) -> T + Send + 'static,
    ) -> Result<T, String> {
        let store = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        done.map_err(|error| format!("the team cache failed inside: {error}"))
    }

    /// A run with its contents, noted as used. A damaged or expired one is removed.
    fn load(&self, key: &str) -> Result<(FoundRun, Contents), CacheMiss> {
        let unusable = |error: folder::FolderError| CacheMiss::Unusable(error.to_string());
        if !is_sha256(key) {
            return Err(CacheMiss::Unusable(format!("`{key}` is not a key")));
        }
        let folder = Folder::open(&self.settings.folder).map_err(unusable)?.ok_or(CacheMiss::Absent)?;
        let read = match folder.read(key) {
            None => return Err(CacheMiss::Absent),
            Some(read) => read.and_then(|bytes| record::decode(key, &bytes)),
        };
        let removed = || match folder.remove(key) {
            Ok(()) => String::new(),
            Err(error) => format!("; it cannot be removed: {error}"),
        };
        let (found, contents) = read.map_err(|words| CacheMiss::Damaged(format!("{words}{}", removed())))?;
        let now = self.clock.now();
        if !self.is_fresh(&found, now) {
            removed();
            return Err(CacheMiss::Expired);
        }
        folder.touch(key, now);
        Ok((found, contents))
    }

    /// True for a run of the last `ttl`; one of a time yet to come would live as long as the clock is wrong.
    fn is_fresh(&self, found: &FoundRun, now: u64) -> bool {
        let ttl = u64::try_from(self.settings.ttl.as_micros()).unwrap_or(u64::MAX);
        now.checked_sub(found.run.stored_at).is_some_and(|age| age < ttl)
    }

    fn store(&self, key: &str, run: CachedRun, contents: &Contents) -> Result<u64, String> {
        if !is_sha256(key) {
            return Err(format!("`{key}` is not a key"));
        }
        let at = run.stored_at;
        let file = record::encode(key, run, contents)?;
        let (bytes, max) = (file.len() as u64, self.settings.max_bytes);
        if bytes > max {
            return Err(format!("the run takes {bytes} bytes; the team cache may have {max}"));
        }
        let folder = Folder::make(&self.settings.folder).map_err(|error| error.to_string())?;
        folder.write(key, &file).map_err(|error| error.to_string())?;
        folder.touch(key, at);
        stock::make_room(&folder, max, Some(key));
        Ok(bytes)
    }
}

#[async_trait]
impl TeamCache for RunStore {
    async fn get(&self, key: &str) -> Result<(FoundRun, Contents), CacheMiss> {
        if self.settings.refresh {
            return Err(CacheMiss::Refreshed);
        }
        let key = key.to_owned();
        let loaded = self.blocking(move |store| store.load(&key)).await;
        loaded.unwrap_or_else(|error| Err(CacheMiss::Unusable(error)))
    }

    async fn put(
        &self,
        key: &str,
        run: FinishedRun,
        changes: Vec<FileChange>,
        contents: Contents,
    ) -> Result<u64, String> {
        let key = key.to_owned();
        let stored_at = self.clock.now();
        let run = CachedRun { run, stored_at, changes };
        self.blocking(move |store| store.store(&key, run, &contents)).await?
    }
}

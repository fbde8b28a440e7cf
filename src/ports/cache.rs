//! The port of the team cache, and how it speaks of changed files; holds no implementation.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::protocol::effect::FinishedRun;

/// What an ordinary file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileContent {
    /// SHA-256 of its content in hex.
    pub sha256: String,
    /// Whether its owner may execute it.
    pub exec: bool,
}

/// What a run did to one file. Both sides absent, or both alike, is no change and never listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Relative to the workspace, with `/`.
    pub path: String,
    /// What it held before; none when it was not there.
    pub before: Option<FileContent>,
    /// What it holds after; none when it was removed.
    pub after: Option<FileContent>,
}

/// A run as the cache keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedRun {
    /// What it came to.
    pub run: FinishedRun,
    /// When it was stored, in microseconds since the Unix epoch.
    pub stored_at: u64,
    /// What it changed, by path, sorted.
    pub changes: Vec<FileChange>,
}

/// A run that was found, with the digest that binds a patch to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRun {
    /// The run.
    pub run: CachedRun,
    /// SHA-256 over key and run, hex.
    pub digest: String,
}

/// The contents of files by SHA-256, hex.
pub type Contents = BTreeMap<String, Vec<u8>>;

/// Why no recorded run is given. The words go into the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheMiss {
    /// No run is stored under the key.
    #[error("absent")]
    Absent,
    /// It is too old, and was removed.
    #[error("expired")]
    Expired,
    /// It was not asked for: the run is to be made again and stored anew.
    #[error("refreshed")]
    Refreshed,
    /// There is no cache.
    #[error("disabled")]
    Disabled,
    /// It was not whole, and was removed.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The cache cannot be used.
    #[error("unusable: {0}")]
    Unusable(String),
}

/// Recorded runs by the digest of everything that determined them.
///
/// No failure of the cache may fail a run: `get` turns each into a miss that says why. What it gives was checked whole,
/// contents included. A key is 64 lower-case hexadecimal digits; any other text is refused and never becomes a path.
#[async_trait]
pub trait TeamCache: Send + Sync {
    /// A run with the contents its changes lead to.
    async fn get(&self, key: &str) -> Result<(FoundRun, Contents), CacheMiss>;

    /// Stores a run with the contents its changes lead to, whole or not at all; gives the bytes it takes.
    async fn put(
        &self,
        key: &str,
        run: FinishedRun,
        changes: Vec<FileChange>,
        contents: Contents,
    ) -> Result<u64, String>;
}

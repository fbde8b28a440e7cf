//! Carries out what concerns the team cache: a run found, stored, applied; decides nothing about sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::ports::{CacheMiss, FileChange, FileError, TeamCache};
use crate::protocol::OutcomeBody;
use crate::protocol::effect::FinishedRun;
use crate::protocol::event::{
    CacheHit, CacheMissed, CacheStored, FailStatus, PatchApplied, PatchRefused, TurnCause,
};

use super::super::live::LiveSink;
use super::{MAX_REPLY, Shared, failed};

/// Bytes of changed files a run may have to be stored.
const STORED_MAX: usize = 64 * 1024 * 1024;

impl Shared {
    pub(super) async fn cache_get(
        &self,
        key: String,
        live: &LiveSink,
        token: &CancellationToken,
    ) -> OutcomeBody {
        let found = match &self.ports.cache {
            Some(cache) => cache.get(&key, live, token).await,
            None => Err(CacheMiss::Disabled),
        };
        let found = match found {
            Ok(found) => found,
            Err(miss) => return missed(key, &miss),
        };
        let run = found.run;
        let hit = CacheHit {
            key: key.clone(),
            session: run.run.session,
            stored_at: run.stored_at,
            answer: run.run.answer,
            tokens: run.run.tokens,
            micro_usd: run.run.micro_usd,
            digest: found.digest,
            paths: run.changes.into_iter().map(|change| change.path).collect(),
        };
        match serde_json::to_vec(&hit).map(|json| json.len()) {
            Ok(bytes) if bytes <= MAX_REPLY => OutcomeBody::CacheHit(hit),
            _ => missed(key, &CacheMiss::Unusable("the run does not fit into a log entry".to_owned())),
        }
    }

    pub(super) async fn cache_put(
        &self,
        key: String,
        before: &str,
        git: Option<String>,
        run: FinishedRun,
    ) -> OutcomeBody {
        match self.stored(&key, before, git, run).await {
            Ok(bytes) => OutcomeBody::CacheStored(CacheStored { key, bytes }),
            Err(reason) => failed(FailStatus::Failed, format!("the run is not stored: {reason}")),
        }
    }

    async fn stored(
        &self,
        key: &str,
        before: &str,
        git: Option<String>,
        run: FinishedRun,
    ) -> Result<u64, String> {
        let cache = self.ports.cache.as_ref().ok_or("the team cache is disabled")?;
        if run.cause != TurnCause::Done {
            return Err("it did not end done".to_owned());
        }
        if self.ports.workspace.fingerprint().await?.git != git {
            return Err("it changed `.git`".to_owned());
        }
        let changes = self.ports.workspace.changes(before).await?;
        self.check_writes(changes.clone()).await?;
        let contents = self.contents(&changes).await?;
        cache.put(key, run, changes, contents).await
    }

    /// A patch may only write what tools may write.
    async fn check_writes(&self, changes: Vec<FileChange>) -> Result<(), String> {
        let files = self.ports.sandbox.files();
        let checked = tokio::task::spawn_blocking(move || {
            let mut checks = changes.iter().map(|change| files.check_write(&change.path));
            checks.try_for_each(|check| check.map_err(|error| error.to_string()))
        });
        checked.await.map_err(|error| error.to_string())?
    }

    /// What the changed files hold now, unless one of them holds a secret.
    async fn contents(&self, changes: &[FileChange]) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let (mut contents, mut total) = (BTreeMap::new(), 0);
        for change in changes {
            if self.redactor.finds(change.path.as_bytes()) {
                return Err("the name of a changed file contains a known secret".to_owned());
            }
            let Some(after) = &change.after else { continue };
            if contents.contains_key(&after.sha256) {
                continue;
            }
            let bytes = self.ports.workspace.content(&after.sha256).await?;
            if self.redactor.finds(&bytes) {
                return Err(format!("`{}` contains a known secret", change.path));
            }
            total += bytes.len();
            if total > STORED_MAX {
                return Err(format!("it changed more than {STORED_MAX} bytes"));
            }
            contents.insert(after.sha256.clone(), bytes);
        }
        Ok(contents)
    }

    pub(super) async fn patch(&self, key: &str, digest: &str) -> OutcomeBody {
        let applied = match &self.ports.cache {
            Some(cache) => self.patched(Arc::clone(cache), key, digest).await,
            None => Err(whole("the team cache is disabled".to_owned())),
        };
        match applied {
            Ok(paths) => OutcomeBody::PatchApplied(PatchApplied { paths }),
            Err(refused) => OutcomeBody::PatchRefused(refused),
        }
    }

    async fn patched(
        &self,
        cache: Arc<dyn TeamCache>,
        key: &str,
        digest: &str,
    ) -> Result<Vec<String>, PatchRefused> {
        let (found, contents) =
            cache.open(key).await.map_err(|miss| whole(format!("the run is gone: {miss}")))?;
        if found.digest != digest {
            return Err(whole("another run was stored since".to_owned()));
        }
        let files = self.ports.sandbox.files();
        let patched = tokio::task::spawn_blocking(move || {
            files.patch(&found.run.changes, &mut |sha256| {
                contents.get(sha256).cloned().ok_or_else(|| format!("content `{sha256}` is not there"))
            })
        });
        match patched.await {
            Ok(done) => done.map_err(refused),
            Err(error) => Err(whole(error.to_string())),
        }
    }
}

fn missed(key: String, miss: &CacheMiss) -> OutcomeBody {
    OutcomeBody::CacheMissed(CacheMissed { key, reason: miss.to_string() })
}

/// A refusal that is about no single file.
fn whole(reason: String) -> PatchRefused {
    PatchRefused { path: String::new(), reason }
}

fn refused(error: FileError) -> PatchRefused {
    let words = error.to_string();
    let (path, reason) = match error {
        FileError::Changed(path) => {
            (path, "it does not hold what it held before the recorded run".to_owned())
        }
        FileError::Io { path, error } => (path, error),
        FileError::Outside(path)
        | FileError::Missing(path)
        | FileError::Directory(path)
        | FileError::Special(path)
        | FileError::Protected { path, .. }
        | FileError::TooLarge { path, .. } => (path, words),
    };
    PatchRefused { path, reason }
}

//! Carries out what concerns the team cache: a run found, stored, applied; decides nothing about sessions.

mod plan;
mod refusal;

use std::sync::Arc;

use crate::ports::{CacheMiss, Contents, FileChange, FoundRun, TeamCache};
use crate::protocol::OutcomeBody;
use crate::protocol::effect::{CachePutOrder, FinishedRun};
use crate::protocol::event::{CacheHit, CacheMissed, CacheStored, PatchApplied, PatchRefused};

use super::{Handlers, or_failed};
use refusal::{gone, refused, whole};

/// Bytes of changed files a run may have to be stored.
const STORED_MAX: usize = 64 * 1024 * 1024;

impl Handlers {
    pub(super) async fn cache_get(&self, key: String) -> OutcomeBody {
        let found = match &self.ports.cache {
            Some(cache) => self.found(&**cache, &key).await,
            None => Err(CacheMiss::Disabled),
        };
        match found {
            Ok(hit) => OutcomeBody::CacheHit(hit),
            Err(miss) => OutcomeBody::CacheMissed(CacheMissed { key, reason: miss.to_string() }),
        }
    }

    async fn found(&self, cache: &dyn TeamCache, key: &str) -> Result<CacheHit, CacheMiss> {
        let (FoundRun { run: found, digest }, contents) = cache.get(key).await?;
        let (files, changes) = (self.ports.sandbox.files(), found.changes);
        let planned = tokio::task::spawn_blocking(move || plan::of(&*files, &changes, &contents, digest));
        let planned = planned.await.map_err(|error| CacheMiss::Unusable(error.to_string()))?;
        let run = found.run;
        Ok(CacheHit {
            key: key.to_owned(),
            session: run.session,
            stored_at: found.stored_at,
            answer: run.answer,
            calls: run.calls,
            tokens: run.tokens,
            micro_usd: run.micro_usd,
            ran_commands: run.ran_commands,
            flags: run.flags,
            plan: planned.map_err(CacheMiss::Unusable)?,
        })
    }

    pub(super) async fn cache_put(&self, order: CachePutOrder, run: FinishedRun) -> OutcomeBody {
        let stored = self.stored(&order, run).await;
        let stored = stored.map(|bytes| OutcomeBody::CacheStored(CacheStored { key: order.key, bytes }));
        or_failed(stored.map_err(|reason| format!("the run is not stored: {reason}")))
    }

    async fn stored(&self, order: &CachePutOrder, run: FinishedRun) -> Result<u64, String> {
        let cache = self.ports.cache.as_ref().ok_or("the team cache is disabled")?;
        if self.ports.workspace.fingerprint().await?.git != order.git {
            return Err("`.git` was changed meanwhile".to_owned());
        }
        if self.ports.workspace.checkpoint().await?.tree != order.after {
            return Err("the workspace changed since the squad left it".to_owned());
        }
        let changes = self.ports.workspace.changes(&order.before).await?;
        self.check_writes(changes.clone()).await?;
        let contents = self.contents(&changes).await?;
        cache.put(&order.key, run, changes, contents).await
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
    async fn contents(&self, changes: &[FileChange]) -> Result<Contents, String> {
        let (mut contents, mut total) = (Contents::new(), 0);
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

    pub(super) async fn patch(&self, key: &str, digest: &str, attempt: u32) -> OutcomeBody {
        let applied = match &self.ports.cache {
            Some(cache) => self.patched(Arc::clone(cache), key, (digest, attempt)).await,
            None => Err(whole("the team cache is disabled".to_owned())),
        };
        match applied {
            Ok(applied) => OutcomeBody::PatchApplied(applied),
            Err(refused) => OutcomeBody::PatchRefused(refused),
        }
    }

    async fn patched(
        &self,
        cache: Arc<dyn TeamCache>,
        key: &str,
        (digest, attempt): (&str, u32),
    ) -> Result<PatchApplied, PatchRefused> {
        let (found, contents) = cache.get(key).await.map_err(|miss| whole(gone(&miss)))?;
        if found.digest != digest {
            return Err(whole("another run was stored since".to_owned()));
        }
        let files = self.ports.sandbox.files();
        let gone = found.run.changes.iter().filter(|change| change.after.is_none());
        let removed = gone.map(|change| change.path.clone()).collect();
        // What an earlier attempt wrote before the program ended, nobody was told of.
        let all: Vec<String> = found.run.changes.iter().map(|change| change.path.clone()).collect();
        let patched = tokio::task::spawn_blocking(move || {
            files.patch(&found.run.changes, &mut |sha256| {
                contents.get(sha256).cloned().ok_or_else(|| format!("content `{sha256}` is not there"))
            })
        });
        match patched.await {
            Ok(Ok(paths)) => Ok(PatchApplied { paths: if attempt > 1 { all } else { paths }, removed }),
            Ok(Err(error)) => Err(refused(error)),
            Err(error) => Err(whole(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::PathBuf;
    use std::time::Duration;

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::arena::live::LiveSink;
    use crate::arena::provider_pool::ProviderPool;
    use crate::arena::redact::Redactor;
    use crate::arena::{ArenaPorts, Attendance};
    use crate::assembly::SystemClock;
    use crate::bus::Bus;
    use crate::eventlog::SessionStore;
    use crate::protocol::effect::{Bare, CacheGetOrder, PatchOrder};
    use crate::protocol::{CallId, Effect, EventRef};
    use crate::sandbox::{SandboxChecks, Unconfined};
    use crate::teamcache::{RunStore, Settings};
    use crate::toolvault::ToolVault;
    use crate::workspace::WorkspaceStore;

    /// A real workspace with real adapters, and the handlers of the arena.
    struct Bench {
        folder: tempfile::TempDir,
        handlers: Handlers,
        key: String,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let (root, state) = (folder.path().join("ws"), folder.path().join("state"));
            fs::create_dir(&root).unwrap();
            let sandbox = Arc::new(Unconfined::open(&root).unwrap());
            let settings = Settings {
                folder: state.join("cache"),
                ttl: Duration::from_secs(3600),
                max_bytes: 1 << 20,
                refresh: false,
            };
            let ports = ArenaPorts {
                log: Arc::new(
                    SessionStore::new(state.clone()).create(&uuid::Uuid::now_v7().to_string()).unwrap(),
                ),
                bus: Arc::new(Bus::new()),
                vault: Arc::new(ToolVault::builtin().unwrap()),
                sandbox: sandbox.clone(),
                places: Arc::default(),
                checks: Arc::new(SandboxChecks::new(sandbox)),
                workspace: Arc::new(WorkspaceStore::open(&root, &state).unwrap()),
                cache: Some(Arc::new(RunStore::new(settings, Arc::new(SystemClock)))),
                providers: BTreeMap::new(),
                provider_limits: BTreeMap::new(),
                scorers: crate::session::convergence::Scorers::default(),
                learnings: None,
                workers: BTreeMap::new(),
                clock: Arc::new(SystemClock),
                secrets: Vec::new(),
                attended: Attendance::Unattended,
            };
            let redactor = Arc::new(Redactor::new(&[("KEY".to_owned(), "s3cret-value".to_owned())]).unwrap());
            let providers = Arc::new(ProviderPool::new(&BTreeMap::new(), &BTreeMap::new()));
            let (plans, jobs) = (Default::default(), Default::default());
            let handlers = Handlers { ports, redactor, providers, plans, jobs };
            Bench { folder, handlers, key: "0a".repeat(32) }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join("ws").join(name)
        }

        fn put(&self, name: &str, text: &str) {
            fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            fs::write(self.path(name), text).unwrap();
        }

        async fn tree(&self) -> (String, Option<String>) {
            let tree = self.handlers.ports.workspace.checkpoint().await.unwrap().tree;
            (tree, self.handlers.ports.workspace.fingerprint().await.unwrap().git)
        }

        async fn carry_out(&self, effect: Effect) -> OutcomeBody {
            self.attempt(1, effect).await
        }

        async fn attempt(&self, attempt: u32, effect: Effect) -> OutcomeBody {
            let (bus, redactor) = (Arc::clone(&self.handlers.ports.bus), Arc::clone(&self.handlers.redactor));
            let live = LiveSink::new(CallId(1), attempt, bus, redactor);
            self.handlers.carry_out((CallId(1), attempt), effect, &live, &CancellationToken::new()).await
        }

        async fn store(&self, before: (String, Option<String>)) -> OutcomeBody {
            let run = FinishedRun {
                session: "0190-test".to_owned(),
                request: String::new(),
                answer: "all tests pass".to_owned(),
                ran_commands: false,
                calls: 2,
                tokens: 7,
                micro_usd: 3,
                models: vec!["mock/a".to_owned()],
                flags: Vec::new(),
            };
            let (before, git) = before;
            let (after, key) = (self.tree().await.0, self.key.clone());
            let answer = EventRef::fact(0);
            let order = CachePutOrder { key, before, after, git, answer };
            self.carry_out(Effect::CachePut { order, context: run }).await
        }

        async fn look(&self) -> OutcomeBody {
            let order = CacheGetOrder { key: self.key.clone() };
            self.carry_out(Effect::CacheGet { order, context: Bare }).await
        }

        async fn patch(&self, digest: &str) -> OutcomeBody {
            let digest = digest.to_owned();
            let order = PatchOrder { key: self.key.clone(), digest };
            self.carry_out(Effect::Patch { order, context: Bare }).await
        }
    }

    fn not_stored(outcome: OutcomeBody) -> String {
        let OutcomeBody::EffectFailed(failed) = outcome else { panic!("{outcome:?}") };
        failed.error
    }

    #[tokio::test]
    async fn with_the_tree_put_back_a_stored_run_leads_to_the_same_tree_again() {
        let place = Bench::new();
        place.put("src/main.rs", "fn main() {}");
        place.put("old.txt", "old");
        let before = place.tree().await;
        place.put("src/main.rs", "fn main() { run() }");
        place.put("src/new/run.rs", "fn run() {}");
        fs::remove_file(place.path("old.txt")).unwrap();
        let (after, _) = place.tree().await;
        assert!(matches!(place.store(before.clone()).await, OutcomeBody::CacheStored(_)));
        place.put("src/main.rs", "fn main() {}");
        place.put("old.txt", "old");
        fs::remove_dir_all(place.path("src/new")).unwrap();
        assert_eq!(place.tree().await, before);
        let OutcomeBody::CacheHit(hit) = place.look().await else { panic!() };
        assert_eq!((hit.tokens, hit.answer.as_str()), (7, "all tests pass"));
        let paths = ["old.txt", "src/main.rs", "src/new/run.rs"];
        assert_eq!(hit.plan.paths().map(|base| base.path.as_str()).collect::<Vec<_>>(), paths);
        for shown in ["`old.txt` is removed", "-fn main() {}", "+fn main() { run() }", "+fn run() {}"] {
            assert!(hit.plan.preview.contains(shown), "{}", hit.plan.preview);
        }
        let OutcomeBody::PatchApplied(applied) = place.patch(&hit.plan.digest).await else { panic!() };
        assert_eq!(applied.paths, paths);
        assert_eq!(place.tree().await.0, after);
        // An attempt after a crash finds it done.
        assert!(
            matches!(place.patch(&hit.plan.digest).await, OutcomeBody::PatchApplied(again) if again.paths.is_empty())
        );
        let order = PatchOrder { key: place.key.clone(), digest: hit.plan.digest.clone() };
        let again = Effect::Patch { order, context: Bare };
        let OutcomeBody::PatchApplied(again) = place.attempt(2, again).await else { panic!() };
        assert_eq!(again.paths, paths, "what the attempt before wrote is told");
    }

    #[tokio::test]
    async fn a_file_that_differs_refuses_the_patch_and_is_named() {
        let place = Bench::new();
        place.put("a.txt", "one");
        place.put("b.txt", "one");
        let before = place.tree().await;
        place.put("a.txt", "two");
        place.put("b.txt", "two");
        place.store(before).await;
        place.put("a.txt", "one");
        place.put("b.txt", "one");
        let OutcomeBody::CacheHit(hit) = place.look().await else { panic!() };
        place.put("b.txt", "three");
        let OutcomeBody::CacheMissed(missed) = place.look().await else { panic!() };
        assert!(missed.reason.contains("`b.txt` is not what it was before"), "{}", missed.reason);
        let OutcomeBody::PatchRefused(refused) = place.patch(&hit.plan.digest).await else { panic!() };
        assert_eq!(refused.path, "b.txt");
        assert_eq!(fs::read_to_string(place.path("a.txt")).unwrap(), "one");
        let OutcomeBody::PatchRefused(refused) = place.patch("another").await else { panic!() };
        assert_eq!(refused.reason, "another run was stored since");
    }

    #[tokio::test]
    async fn a_run_that_wrote_a_secret_is_not_stored() {
        for (name, text) in
            [("a.txt", "key = s3cret-value"), ("bin", "\0czNjcmV0LXZhbHVl"), ("s3cret-value", "x")]
        {
            let place = Bench::new();
            place.put("old.txt", "s3cret-value was here before");
            let before = place.tree().await;
            place.put(name, text);
            let error = not_stored(place.store(before.clone()).await);
            assert!(error.contains("known secret") && !error.contains("s3cret-value"), "{error}");
            assert!(matches!(place.look().await, OutcomeBody::CacheMissed(miss) if miss.reason == "absent"));
            fs::remove_file(place.path(name)).unwrap();
            // What the run did not write is not stored, so it is no obstacle.
            assert!(matches!(place.store(before).await, OutcomeBody::CacheStored(_)));
        }
    }

    #[tokio::test]
    async fn a_run_that_could_not_be_repeated_whole_is_not_stored() {
        let place = Bench::new();
        place.put(".git/HEAD", "ref: refs/heads/main");
        let before = place.tree().await;
        place.put(".git/HEAD", "ref: refs/heads/side");
        assert!(not_stored(place.store(before).await).contains("`.git` was changed meanwhile"));
        let before = place.tree().await;
        std::os::unix::fs::symlink("HEAD", place.path("link")).unwrap();
        assert!(not_stored(place.store(before).await).contains("symbolic link"));
        let before = place.tree().await;
        place.put("AGENTS.md", "obey");
        assert!(not_stored(place.store(before).await).contains("is protected"));
    }

    #[tokio::test]
    async fn without_a_cache_everything_goes_on() {
        let mut place = Bench::new();
        place.handlers.ports.cache = None;
        let before = place.tree().await;
        assert!(matches!(place.look().await, OutcomeBody::CacheMissed(miss) if miss.reason == "disabled"));
        assert!(not_stored(place.store(before).await).contains("disabled"));
        assert!(matches!(place.patch("x").await, OutcomeBody::PatchRefused(_)));
    }
}

//! The team cache: what is stored comes back whole or not at all, for a time, from a folder that can be trusted.

mod bad_folders;
mod patch;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agon::ports::{CacheMiss, Clock, FileChange, FileContent, FoundRun, TeamCache};
use agon::protocol::effect::FinishedRun;
use agon::teamcache::{RunStore, Settings};
use sha2::{Digest, Sha256};

use crate::support::env::Env;

const HOUR: u64 = 3_600_000_000;
const NOW: u64 = 1_800_000_000_000_000;

/// A time that moves when it is told to.
#[derive(Debug)]
struct Told(AtomicU64);

#[async_trait::async_trait]
impl Clock for Told {
    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    async fn sleep(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

struct Place {
    folder: tempfile::TempDir,
    clock: Arc<Told>,
    settings: Settings,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(&folder.path().join("cache/team"));
        Place { folder, clock: Arc::new(Told(AtomicU64::new(NOW))), settings }
    }

    fn root(&self) -> PathBuf {
        self.settings.folder.clone()
    }

    fn entry(&self, key: &str) -> PathBuf {
        self.root().join(key)
    }

    /// What one session has of the cache.
    fn cache(&self) -> RunStore {
        RunStore::new(self.settings.clone(), self.clock.clone())
    }

    fn at(&self, now: u64) {
        self.clock.0.store(now, Ordering::SeqCst);
    }
}

fn settings(folder: &Path) -> Settings {
    Settings {
        folder: folder.to_owned(),
        ttl: Duration::from_secs(24 * 3600),
        max_bytes: 1024 * 1024,
        refresh: false,
    }
}

fn key(of: &str) -> String {
    sha256(of.as_bytes())
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn run(answer: &str) -> FinishedRun {
    FinishedRun {
        request: "Greet the world.".to_owned(),
        session: "0190".to_owned(),
        answer: answer.to_owned(),
        ran_commands: false,
        calls: 5,
        tokens: 1200,
        micro_usd: 34,
        models: vec!["mock/a".to_owned(), "mock/b".to_owned()],
        flags: Vec::new(),
    }
}

/// A run that turns `greeting.txt` from one text into another and adds an executable.
fn changes(new: &[u8]) -> (Vec<FileChange>, BTreeMap<String, Vec<u8>>) {
    let content = |bytes: &[u8], exec| Some(FileContent { sha256: sha256(bytes), exec });
    let changes = vec![
        FileChange { path: "bin/run".to_owned(), before: None, after: content(b"#!/bin/sh\n", true) },
        FileChange { path: "gone.txt".to_owned(), before: content(b"gone", false), after: None },
        FileChange {
            path: "greeting.txt".to_owned(),
            before: content(b"hello", false),
            after: content(new, false),
        },
    ];
    let contents = [new, b"#!/bin/sh\n"].map(|bytes| (sha256(bytes), bytes.to_vec()));
    (changes, BTreeMap::from(contents))
}

async fn put(cache: &RunStore, key: &str, answer: &str) -> Result<u64, String> {
    let (changes, contents) = changes(format!("{answer} for everybody").as_bytes());
    cache.put(key, run(answer), changes, contents).await
}

async fn get(cache: &RunStore, key: &str) -> Result<FoundRun, CacheMiss> {
    cache.get(key).await.map(|(found, _)| found)
}

#[tokio::test]
async fn what_is_stored_comes_back_whole_in_another_session() {
    let place = Place::new();
    let cache = place.cache();
    assert_eq!(get(&cache, &key("a")).await, Err(CacheMiss::Absent));
    let bytes = put(&cache, &key("a"), "done").await.unwrap();
    let (found, contents) = place.cache().get(&key("a")).await.unwrap();
    let (changes, stored) = changes(b"done for everybody");
    assert_eq!((found.run.run.clone(), &found.run.changes, contents), (run("done"), &changes, stored));
    assert_eq!(found.run.stored_at, NOW);
    assert_eq!(get(&place.cache(), &key("a")).await.unwrap(), found);
    let stats = cache.stats().unwrap();
    assert_eq!((stats.fresh, stats.bytes, stats.tokens, stats.micro_usd), (1, bytes, 1200, 34));
}

#[tokio::test]
async fn only_the_user_can_read_what_is_stored() {
    let place = Place::new();
    put(&place.cache(), &key("a"), "done").await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&place.root()), mode(&place.entry(&key("a")))), (0o700, 0o600));
}

#[tokio::test]
async fn a_later_run_replaces_the_earlier_and_has_another_digest() {
    let place = Place::new();
    let cache = place.cache();
    put(&cache, &key("a"), "first").await.unwrap();
    let first = get(&cache, &key("a")).await.unwrap();
    put(&cache, &key("a"), "second").await.unwrap();
    let second = get(&cache, &key("a")).await.unwrap();
    assert_eq!(second.run.run.answer, "second");
    assert_ne!(first.digest, second.digest);
    assert_eq!(cache.list().unwrap().len(), 1);
    assert_eq!(fs::read_dir(place.root()).unwrap().count(), 1, "nothing is left half made");
}

#[tokio::test]
async fn a_run_is_used_for_its_time_and_no_clock_makes_it_immortal() {
    let cases = [
        (NOW + 24 * HOUR - 1, true),
        (NOW + 24 * HOUR, false),
        (u64::MAX, false),
        // With a clock that was set back it would live on for as long as the clock is wrong.
        (NOW - 1, false),
        (0, false),
    ];
    for (now, usable) in cases {
        let place = Place::new();
        put(&place.cache(), &key("a"), "done").await.unwrap();
        place.at(now);
        assert_eq!(place.cache().stats().unwrap().fresh, u64::from(usable), "at {now}");
        let got = get(&place.cache(), &key("a")).await;
        assert_eq!(got.is_ok(), usable, "at {now}: {got:?}");
        if !usable {
            assert_eq!(got, Err(CacheMiss::Expired));
            place.at(NOW);
            assert_eq!(get(&place.cache(), &key("a")).await, Err(CacheMiss::Absent), "it was removed");
        }
    }
}

#[tokio::test]
async fn the_least_recently_used_is_given_up_and_a_use_counts() {
    let mut place = Place::new();
    let bytes = put(&place.cache(), &key("old"), "done").await.unwrap();
    place.settings.max_bytes = bytes * 3 + bytes / 2;
    let cache = place.cache();
    for (at, name) in [(1, "middle"), (2, "young")] {
        place.at(NOW + at * HOUR);
        put(&cache, &key(name), "done").await.unwrap();
    }
    place.at(NOW + 3 * HOUR);
    get(&cache, &key("old")).await.unwrap();
    place.at(NOW + 4 * HOUR);
    put(&cache, &key("new"), "done").await.unwrap();
    let kept: Vec<String> = cache.list().unwrap().into_iter().map(|row| row.key).collect();
    assert_eq!(kept, [key("new"), key("old"), key("young")]);
    assert!(cache.stats().unwrap().bytes <= place.settings.max_bytes);
}

#[tokio::test]
async fn a_run_larger_than_the_cache_is_refused_and_displaces_nothing() {
    let mut place = Place::new();
    place.settings.max_bytes = 4096;
    let cache = place.cache();
    put(&cache, &key("a"), "done").await.unwrap();
    let error = put(&cache, &key("b"), &"x".repeat(8192)).await.unwrap_err();
    assert!(error.contains("may have 4096"), "{error}");
    assert!(get(&cache, &key("a")).await.is_ok());
    let (changes, _) = changes(b"x");
    let error = cache.put(&key("c"), run("done"), changes, BTreeMap::new()).await.unwrap_err();
    assert!(error.contains("was not given"), "{error}");
}

#[tokio::test]
async fn to_refresh_is_to_miss_and_to_store() {
    let mut place = Place::new();
    put(&place.cache(), &key("a"), "first").await.unwrap();
    place.settings.refresh = true;
    let cache = place.cache();
    assert_eq!(get(&cache, &key("a")).await, Err(CacheMiss::Refreshed));
    put(&cache, &key("a"), "second").await.unwrap();
    place.settings.refresh = false;
    assert_eq!(get(&place.cache(), &key("a")).await.unwrap().run.run.answer, "second");
}

#[tokio::test]
async fn prune_removes_what_is_of_no_use_and_clear_everything() {
    let place = Place::new();
    let cache = place.cache();
    put(&cache, &key("old"), "done").await.unwrap();
    place.at(NOW + 25 * HOUR);
    for name in ["good", "bad", "worse"] {
        put(&cache, &key(name), "done").await.unwrap();
    }
    fs::write(place.entry(&key("bad")), "{}").unwrap();
    let mut worse = fs::read(place.entry(&key("worse"))).unwrap();
    *worse.last_mut().unwrap() ^= 1;
    fs::write(place.entry(&key("worse")), worse).unwrap();
    let stats = cache.stats().unwrap();
    assert_eq!((stats.fresh, stats.expired, stats.damaged), (1, 1, 2));
    assert_eq!(stats.bytes, cache.list().unwrap().iter().map(|row| row.bytes).sum::<u64>());
    assert_eq!(cache.prune().unwrap().runs, 3);
    assert!(get(&cache, &key("good")).await.is_ok());
    assert_eq!(cache.clear().unwrap().runs, 1);
    assert_eq!(cache.list().unwrap(), []);
    assert_eq!(cache.clear().unwrap().runs, 0);
}

#[tokio::test]
async fn a_run_is_shown_by_the_start_of_its_key() {
    let place = Place::new();
    let cache = place.cache();
    put(&cache, &key("a"), "done").await.unwrap();
    assert_eq!(cache.show(&key("a")[..6]).unwrap().1.run.run, run("done"));
    for other in 0..16 {
        put(&cache, &key(&format!("other {other}")), "done").await.unwrap();
    }
    // Of seventeen keys two begin with the same of sixteen digits.
    let digits = "0123456789abcdef".chars().map(String::from);
    let told: Vec<String> = digits.filter_map(|digit| Some(cache.show(&digit).err()?.to_string())).collect();
    assert!(told.iter().any(|told| told.contains("runs in the team cache have keys that start")), "{told:?}");
    for none in ["", " "] {
        assert_eq!(cache.show(none).unwrap_err().to_string(), "no key was given");
    }
    for bad in ["xyz", "../..", "/"] {
        assert!(cache.show(bad).unwrap_err().to_string().contains("no run"), "{bad}");
    }
}

#[tokio::test]
async fn the_command_line_counts_lists_shows_and_clears() {
    let env = Env::new();
    let folder = env.home().join("cache/team");
    let answer = "All tests pass.\n\u{1b}[2Jtrick";
    let (changes, contents) = changes(b"hello, world");
    let cache = RunStore::new(settings(&folder), Arc::new(agon::assembly::SystemClock));
    let ran = env.run(&["cache", "list"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    assert!(ran.stderr.contains("empty") && !folder.exists(), "{ran}");
    cache.put(&key("a"), run(answer), changes, contents).await.unwrap();
    let listed = env.run(&["cache", "list"]);
    assert!(listed.stdout.contains(&key("a")[..12]) && listed.stdout.contains("3 files"), "{listed}");
    let stats = env.run(&["cache", "stats"]);
    assert!(stats.stdout.starts_with("1 run, ") && stats.stdout.contains("1,200 tokens"), "{stats}");
    let shown = env.run(&["cache", "show", &key("a")[..8]]);
    for part in ["adds     bin/run", "removes  gone.txt", "changes  greeting.txt", "All tests pass."] {
        assert!(shown.stdout.contains(part), "{part}: {shown}");
    }
    assert!(!format!("{listed}{shown}").contains('\u{1b}'), "{shown}");
    assert!(!shown.stdout.contains("hello, world"), "contents are never shown: {shown}");
    let json: serde_json::Value =
        serde_json::from_str(&env.run(&["cache", "list", "--json"]).stdout).unwrap();
    assert_eq!(json[0]["key"], key("a"));
    let nothing = env.run(&["cache", "show", ""]);
    assert!(nothing.code == 2 && nothing.stderr.contains("no key was given"), "{nothing}");
    assert!(nothing.stderr.contains("agon cache list"), "{nothing}");
    cache.put(&key("b"), run("Looked."), vec![], BTreeMap::new()).await.unwrap();
    let shown = env.run(&["cache", "show", &key("b")[..8]]);
    assert!(shown.stdout.contains("\nfiles    none\n"), "{shown}");
    let typed = "{\"answer\":{\"a\":\"\u{9b}2J\u{202e}\"},\"claims\":[],\"open\":[]}";
    cache.put(&key("c"), run(typed), vec![], BTreeMap::new()).await.unwrap();
    let shown = env.run(&["cache", "show", &key("c")[..8]]);
    assert!(
        shown.stdout.contains("\"a\": \"") && !shown.stdout.contains(['\u{9b}', '\u{202e}']),
        "{shown:?}"
    );
    std::fs::remove_file(folder.join(key("c"))).unwrap();
    std::fs::write(folder.join(key("b")), "no record").unwrap();
    let stats = env.run(&["cache", "stats"]);
    assert!(stats.stdout.contains("\n1 damaged; `agon cache prune` removes"), "{stats}");
    assert!(env.run(&["cache", "prune"]).stdout.starts_with("removed 1 run, 9 B"));
    let unknown = env.run(&["cache", "show", "ffff"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("agon cache list"), "{unknown}");
    assert!(env.run(&["cache", "clear"]).stdout.starts_with("removed 1 run, "));
    assert_eq!(env.run(&["cache", "prune"]).stdout, "removed 0 runs, 0 B\n");
}

#[test]
fn the_configuration_says_how_the_cache_is_kept() {
    let env = Env::new();
    let shown = env.run(&["config", "show"]);
    for line in ["cache.enabled = true", "cache.ttl_hours = 24", "cache.max_mib = 256"] {
        let shown = shown.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(line), "{line}: {shown}");
    }
    env.config("[cache]\nttl_hours = -1\n");
    assert_eq!(env.run(&["config", "show"]).code, 2);
    env.config("[cache]\nmax_mb = 1\n");
    assert!(env.run(&["config", "show"]).stderr.contains("did you mean `max_mib`?"));
    env.config("[cache]\nmax_mib = 1\n");
    let stats: serde_json::Value =
        serde_json::from_str(&env.run(&["cache", "stats", "--json"]).stdout).unwrap();
    assert_eq!(stats["max_bytes"], 1024 * 1024);
}

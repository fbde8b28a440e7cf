//! Several sessions and processes on one key: one computes, the others wait, nobody waits for ever.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agon::assembly::SystemClock;
use agon::ports::{CacheMiss, TeamCache};
use agon::protocol::Lane;
use agon::teamcache::RunStore;
use tokio_util::sync::CancellationToken;

use super::{Place, changes, get, key, put, run, settings};
use crate::support::Recorder;

/// Tells a copy of this program which part to play, and where.
const PART: &str = "AGON_TEST_CACHE_PART";
const WHERE: &str = "AGON_TEST_CACHE_FOLDER";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_sessions_one_computes_and_all_have_its_run() {
    let place = Arc::new(Place::new());
    let computed = Arc::new(AtomicU64::new(0));
    let sessions = (0..8).map(|number| {
        let (place, computed) = (Arc::clone(&place), Arc::clone(&computed));
        tokio::spawn(async move {
            let cache = place.cache();
            match get(&cache, &key("a")).await {
                Ok(found) => found.run.run.answer,
                Err(miss) => {
                    assert_eq!(miss, CacheMiss::Absent);
                    computed.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    let answer = format!("by {number}");
                    put(&cache, &key("a"), &answer).await.unwrap();
                    answer
                }
            }
        })
    });
    let mut answers = Vec::new();
    for session in sessions.collect::<Vec<_>>() {
        answers.push(session.await.unwrap());
    }
    assert_eq!(computed.load(Ordering::SeqCst), 1);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(fs::read_dir(place.root().join("locks")).unwrap().count(), 0, "locks go with their holders");
}

#[tokio::test]
async fn who_waits_is_told_and_gets_the_turn_of_one_that_gives_up() {
    let place = Place::new();
    let (first, second) = (place.cache(), place.cache());
    assert_eq!(get(&first, &key("a")).await, Err(CacheMiss::Absent));
    assert_eq!(
        get(&first, &key("a")).await,
        Err(CacheMiss::Absent),
        "asking again is not waiting for oneself"
    );
    assert_eq!(get(&second, &key("b")).await, Err(CacheMiss::Absent), "another key is free");
    let (live, token) = (Recorder::default(), CancellationToken::new());
    let key = key("a");
    let mut waiting = second.get(&key, &live, &token);
    assert!(futures_util::poll!(&mut waiting).is_pending());
    while live.lane(Lane::Progress).is_empty() {
        let _ = tokio::time::timeout(Duration::from_millis(10), &mut waiting).await;
    }
    assert!(live.lane(Lane::Progress).contains("waiting"));
    first.let_go();
    assert_eq!((&mut waiting).await, Err(CacheMiss::Absent));
    drop(waiting);
    drop(second);
    assert_eq!(
        get(&place.cache(), &key).await,
        Err(CacheMiss::Absent),
        "the end of a session is a giving up"
    );
}

#[tokio::test]
async fn waiting_ends_with_patience_and_with_a_cancel() {
    let mut place = Place::new();
    let holder = place.cache();
    get(&holder, &key("a")).await.unwrap_err();
    place.settings.patience = Duration::from_millis(150);
    assert_eq!(get(&place.cache(), &key("a")).await, Err(CacheMiss::Absent), "it computes too");
    place.settings.patience = Duration::from_secs(3600);
    let token = CancellationToken::new();
    token.cancel();
    let got = place.cache().get(&key("a"), &Recorder::default(), &token).await;
    assert_eq!(got, Err(CacheMiss::Absent));
    place.settings.refresh = true;
    assert_eq!(
        get(&place.cache(), &key("a")).await,
        Err(CacheMiss::Refreshed),
        "who refreshes does not wait"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_see_whole_runs_while_others_store_prune_and_clear() {
    let place = Arc::new(Place::new());
    let writers = (0..3).map(|number| {
        let place = Arc::clone(&place);
        tokio::spawn(async move {
            for round in 0..20 {
                let cache = place.cache();
                put(&cache, &key("a"), &format!("{number} {round}")).await.unwrap();
                match round % 3 {
                    0 => drop(cache.clear()),
                    1 => drop(cache.prune()),
                    _ => {}
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let reader = place.cache();
    let mut whole = 0;
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        match reader.open(&key("a")).await {
            Ok((found, contents)) => {
                let (_, expected) = changes(format!("{} for everybody", found.run.run.answer).as_bytes());
                assert_eq!(contents, expected);
                whole += 1;
            }
            Err(miss) => assert_eq!(miss, CacheMiss::Absent, "a run that is taken away is no damage"),
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(whole > 0, "the reader saw a run at least once");
}

#[test]
fn of_many_processes_one_computes() {
    let folder = tempfile::tempdir().unwrap();
    let mut children: Vec<Child> = (0..4).map(|_| child(folder.path(), "compute", "")).collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let computed = fs::read_to_string(folder.path().join("computed")).unwrap();
    assert_eq!(computed.lines().count(), 1, "{computed}");
}

#[tokio::test]
async fn a_killed_process_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let mut holder = child(folder.path(), "hold", "");
    while !folder.path().join("computed").exists() {
        assert!(holder.try_wait().unwrap().is_none(), "the holder ended");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let cache = cache_at(folder.path());
    let (live, token, key) = (Recorder::default(), CancellationToken::new(), key("a"));
    let mut waiting = cache.get(&key, &live, &token);
    while live.lane(Lane::Progress).is_empty() {
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut waiting).await.is_err());
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(waiting.await, Err(CacheMiss::Absent), "its turn has passed on");
}

#[test]
fn a_disk_that_takes_no_more_is_told_and_leaves_nothing_half_stored() {
    let folder = tempfile::tempdir().unwrap();
    // No file may grow beyond 1 KiB, as on a disk that is full: the write fails, the process goes on.
    let mut full = child(folder.path(), "fill", "trap '' XFSZ; ulimit -f 1; ");
    assert!(full.wait().unwrap().success());
    let told = fs::read_to_string(folder.path().join("computed")).unwrap();
    assert!(told.contains("too large"), "{told}");
    let team = folder.path().join("team");
    for name in ["runs", "new"] {
        assert_eq!(fs::read_dir(team.join(name)).unwrap().count(), 0, "{name}");
    }
}

/// Starts this program again to play a part.
fn child(folder: &Path, part: &str, before: &str) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{before}exec \"$0\" \"$@\"")).arg(program);
    command.args(["--exact", "teamcache::race::another_process", "--ignored", "--test-threads=1"]);
    command.env(PART, part).env(WHERE, folder).stdout(Stdio::null());
    command.spawn().unwrap()
}

fn cache_at(folder: &Path) -> RunStore {
    RunStore::new(settings(&folder.join("team")), Arc::new(SystemClock))
}

fn note(folder: &Path, text: &str) {
    let file = fs::OpenOptions::new().create(true).append(true).open(folder.join("computed"));
    file.unwrap().write_all(format!("{text}\n").as_bytes()).unwrap();
}

/// No test of its own: the part of another process in the tests above.
#[tokio::test]
#[ignore = "started by the tests of races, with its part in the environment"]
async fn another_process() {
    let (Ok(part), Ok(folder)) = (std::env::var(PART), std::env::var(WHERE)) else { return };
    let folder = PathBuf::from(folder);
    let cache = cache_at(&folder);
    if part == "fill" {
        let (changes, contents) = changes(&[b'x'; 8192]);
        note(&folder, &cache.put(&key("a"), run("done"), changes, contents).await.unwrap_err());
        return;
    }
    if get(&cache, &key("a")).await.is_ok() {
        return;
    }
    note(&folder, &part);
    if part == "hold" {
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    put(&cache, &key("a"), "done").await.unwrap();
}

//! Real processes on one session: killed at random, racing for the lock, watched by strace.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use agon::eventlog::{LogError, SessionStore};
use agon::ports::EventLog;

use super::kit::*;

/// Folder in which [`child`] works; without it the test does nothing.
const FOLDER: &str = "AGON_TEST_LOG_CHILD";

/// Entries after which the child stops by itself.
const ENOUGH: &str = "AGON_TEST_LOG_ENOUGH";

/// Not a test of its own: the process the others start and kill. It appends and says so after each
/// acknowledgement, on a socket beside its session.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let enough: u64 = std::env::var(ENOUGH).map_or(u64::MAX, |text| text.parse().unwrap());
    let mut parent = UnixStream::connect(folder.join("acks")).unwrap();
    if let Err(error) = work(folder, enough, &mut parent) {
        let _ = writeln!(parent, "failed {error}");
    }
}

fn work(folder: &Path, enough: u64, parent: &mut UnixStream) -> Result<(), LogError> {
    let store = SessionStore::new(folder);
    let log = match store.find(ID) {
        Err(LogError::NotFound(_)) => store.create(ID)?,
        found => store.open(&found?, &mut |_| {})?.log,
    };
    let mut dice = Dice(log.head().count);
    loop {
        let count = log.head().count;
        let next = count + 1 + dice.below(4);
        let head = append(&log, (count..next).map(of_any_size)).unwrap();
        let told = parent.write_all(format!("ack {}\n", head.count).as_bytes());
        if told.is_err() || head.count >= enough {
            return Ok(());
        }
    }
}

fn of_any_size(seq: u64) -> agon::protocol::Entry {
    match seq {
        0 => usual(0),
        _ => said(seq, &"k".repeat(Dice(seq).below(3000) as usize)),
    }
}

fn start(folder: &Path, listener: &UnixListener, wrapper: &[&str]) -> (Child, BufReader<UnixStream>) {
    let binary = std::env::current_exe().unwrap();
    let mut words = wrapper.iter().map(std::ffi::OsStr::new).chain([binary.as_os_str()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(["eventlog::kill::child", "--exact"]).env(FOLDER, folder);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (acks, _) = listener.accept().unwrap();
    (child, BufReader::new(acks))
}

fn ack(line: &str) -> u64 {
    line.trim().strip_prefix("ack ").unwrap_or_else(|| panic!("{line}")).parse().unwrap()
}

#[test]
fn a_kill_at_any_moment_loses_no_acknowledged_entry() {
    let kills = std::env::var("AGON_TEST_KILLS").map_or(200, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join("acks")).unwrap();
    let store = SessionStore::new(folder.path());
    let mut dice = Dice(kills);
    let (mut acked, mut torn) = (0, 0);
    for _ in 0..kills {
        let (mut child, mut acks) = start(folder.path(), &listener, &[]);
        let mut line = String::new();
        acks.read_line(&mut line).unwrap();
        acked = acked.max(ack(&line));
        std::thread::sleep(Duration::from_micros(dice.below(8000)));
        child.kill().unwrap();
        child.wait().unwrap();
        acked = acks.lines().map_while(Result::ok).map(|line| ack(&line)).fold(acked, u64::max);
        let mut reader = store.read(&store.find(ID).unwrap()).unwrap();
        for (seq, entry) in reader.by_ref().enumerate() {
            assert_eq!(entry.unwrap(), of_any_size(seq as u64));
        }
        assert!(reader.ending().count >= acked, "{} of {acked}", reader.ending().count);
        torn += u64::from(reader.ending().unfinished > 0);
    }
    let (opened, _) = open(&store, &store.find(ID).unwrap()).unwrap();
    assert!(opened.log.head().count >= acked);
    println!("{kills} kills, {acked} entries acknowledged, 0 lost, {torn} torn tails");
}

#[test]
fn a_session_open_in_another_process_is_read_only_here() {
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join("acks")).unwrap();
    let store = SessionStore::new(folder.path());
    let (mut child, mut acks) = start(folder.path(), &listener, &[]);
    let mut line = String::new();
    acks.read_line(&mut line).unwrap();
    let session = store.find(ID).unwrap();
    match refused(&store, &session) {
        LogError::Held { pid, id } => assert_eq!((pid, id.as_str()), (Some(child.id()), ID)),
        other => panic!("{other}"),
    }
    assert!(matches!(store.remove(&session), Err(LogError::Held { .. })));
    let mut reader = store.read(&session).unwrap();
    assert!(reader.by_ref().map(Result::unwrap).count() as u64 >= ack(&line));
    child.kill().unwrap();
    child.wait().unwrap();
    open(&store, &session).unwrap();
}

#[test]
fn of_two_writers_exactly_one_wins() {
    let (_folder, store, session) = filled(2);
    for _ in 0..50 {
        let barrier = std::sync::Barrier::new(2);
        let race = || {
            barrier.wait();
            let result = store.open(&session, &mut |_| {});
            barrier.wait();
            result
        };
        let (a, b) = std::thread::scope(|scope| {
            let (a, b) = (scope.spawn(race), scope.spawn(race));
            (a.join().unwrap(), b.join().unwrap())
        });
        let loser = match (a, b) {
            (Ok(_winner), Err(loser)) | (Err(loser), Ok(_winner)) => loser,
            (Ok(_), Ok(_)) => panic!("both have it"),
            (Err(a), Err(b)) => panic!("{a}; {b}"),
        };
        assert!(matches!(loser, LogError::Held { .. }), "{loser}");
    }
}

#[test]
fn a_child_process_does_not_keep_the_lock() {
    let (_folder, store, session) = filled(2);
    let (opened, _) = open(&store, &session).unwrap();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    drop(opened);
    open(&store, &session).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_kernel_sees_fdatasync_return_before_every_acknowledgement() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    if !traced.is_ok_and(|output| output.status.success()) {
        println!("skipped: strace is not installed or may not trace here");
        return;
    }
    let listener = UnixListener::bind(folder.path().join("acks")).unwrap();
    let calls = ["-f", "-e", "trace=pwrite64,fdatasync,write,sendto", "-o", trace.to_str().unwrap()];
    let wrapper: Vec<&str> = ["strace", "-E", "AGON_TEST_LOG_ENOUGH=40"].into_iter().chain(calls).collect();
    let (mut child, acks) = start(folder.path(), &listener, &wrapper);
    let told = acks
        .lines()
        .map_while(Result::ok)
        .inspect(|line| {
            let _ = ack(line);
        })
        .count();
    child.wait().unwrap();
    let (mut synced, mut acked) = (0, 0);
    for line in std::fs::read_to_string(&trace).unwrap().lines() {
        if line.contains("fdatasync") && line.ends_with("= 0") {
            synced += 1;
        } else if line.contains("\"ack ") && !line.contains("resumed") {
            acked += 1;
            assert!(synced >= acked, "acknowledgement {acked} was told after {synced} syncs: {line}");
        }
    }
    assert_eq!(acked, told, "every acknowledgement was seen in the trace");
    assert!(acked >= 10 && synced >= acked, "{acked} {synced}");
}

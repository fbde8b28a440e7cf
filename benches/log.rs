//! What the log costs beside its limits, measured in the same run: a bare write + fdatasync loop, and a
//! bare typed parse + SHA-256 chain of the same bytes. Results belong into `docs/performance.md`.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs::File;
use std::future::poll_fn;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use agon::eventlog::{SessionLog, SessionPath, SessionStore};
use agon::ports::EventLog;
use agon::protocol::event::{CallCancelled, SessionOpened, SteeringGiven};
use agon::protocol::spec::{Limits, Policy, RetrySpec, SandboxSpec, Spec, WorkspaceSpec};
use agon::protocol::{ArenaEvent, CallId, Entry, Fact};
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use sha2::{Digest, Sha256};
use tokio::runtime::{Builder, Runtime};

const ID: &str = "019aa000-0000-7000-8000-000000000001";
const ENTRIES: u64 = 100_000;
const APPENDS: u64 = 500;
const PRODUCERS: u64 = 32;

fn main() {
    divan::main();
    // A static is never dropped, so its folder is removed here.
    std::fs::remove_dir_all(folder()).unwrap();
}

/// An entry whose line has about 366 bytes, as real ones do on average.
fn entry(seq: u64) -> Entry {
    let at = 1_790_000_000_000_000 + seq;
    if seq == 0 {
        return Entry::new(0, at, Fact::new(opened()).unwrap(), Vec::new());
    }
    let text =
        format!("step {seq}: the quick brown fox jumps over the lazy dog, \"twice\"\n{}", "x".repeat(40));
    let fact = ArenaEvent::SteeringGiven(SteeringGiven { spark: None, text });
    let reason = "a person interrupted".to_owned();
    let decision = ArenaEvent::CallCancelled(CallCancelled { call: CallId(seq), reason });
    Entry::new(seq, at, Fact::new(fact).unwrap(), vec![decision])
}

fn opened() -> ArenaEvent {
    let sandbox = SandboxSpec { kind: "none".to_owned(), ..SandboxSpec::default() };
    let workspace = WorkspaceSpec { root: "/w".to_owned(), git_head: None, sandbox, places: Vec::new() };
    let spec = Spec {
        program: "bench".to_owned(),
        seed: 1,
        workspace,
        models: Vec::new(),
        personas: Vec::new(),
        tools: Vec::new(),
        offered: None,
        sources: Vec::new(),
        gates: Vec::new(),
        effort: None,
        policy: Policy::default(),
        limits: Limits::default(),
        retry: RetrySpec::default(),
        instructions: Vec::new(),
        blueprint: None,
        cache: None,
    };
    ArenaEvent::SessionOpened(Box::new(SessionOpened { id: ID.to_owned(), rules: 1, spec }))
}

/// One folder for all measurements, on the disk the benchmark is started on.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir_in(".").unwrap()).path()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

fn new_log() -> Arc<SessionLog> {
    let state = tempfile::tempdir_in(folder()).unwrap().keep();
    let log = SessionStore::new(state).create(ID).unwrap();
    runtime().block_on(log.append(vec![Arc::new(entry(0))])).unwrap();
    Arc::new(log)
}

/// The peer: one line, one write, one fdatasync; nothing else.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn append_bare_write_and_fdatasync(bencher: Bencher<'_, '_>) {
    let line = line_of(1);
    let file = || tempfile::tempfile_in(folder()).unwrap();
    bencher.counter(ItemsCount::new(APPENDS)).with_inputs(file).bench_values(|mut file: File| {
        for _ in 0..APPENDS {
            file.write_all(&line).unwrap();
            file.sync_data().unwrap();
        }
    });
}

/// The log: one entry at a time, each acknowledged before the next.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn append_one_by_one(bencher: Bencher<'_, '_>) {
    let runtime = runtime();
    bencher.counter(ItemsCount::new(APPENDS)).with_inputs(new_log).bench_values(|log| {
        runtime.block_on(async {
            for seq in 1..=APPENDS {
                log.append(vec![Arc::new(entry(seq))]).await.unwrap();
            }
        });
    });
}

/// The log: 32 tasks append at once, each waiting for its own acknowledgement.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn append_from_32_producers(bencher: Bencher<'_, '_>) {
    let runtime = runtime();
    let count = APPENDS * PRODUCERS;
    bencher.counter(ItemsCount::new(count)).with_inputs(new_log).bench_values(|log| {
        runtime.block_on(async {
            let next = Arc::new(tokio::sync::Mutex::new(1));
            let producers =
                (0..PRODUCERS).map(|_| tokio::spawn(produce(Arc::clone(&log), Arc::clone(&next))));
            for producer in producers.collect::<Vec<_>>() {
                producer.await.unwrap();
            }
        });
    });
}

/// Takes the next number and hands the entry over in that order, then waits for the acknowledgement alone.
async fn produce(log: Arc<SessionLog>, next: Arc<tokio::sync::Mutex<u64>>) {
    for _ in 0..APPENDS {
        let mut turn = next.lock().await;
        let mut append = log.append(vec![Arc::new(entry(*turn))]);
        *turn += 1;
        // The first poll queues the entry.
        let queued = poll_fn(|context| Poll::Ready(append.as_mut().poll(context))).await;
        drop(turn);
        match queued {
            Poll::Ready(result) => result.unwrap(),
            Poll::Pending => append.await.unwrap(),
        };
    }
}

/// A closed log of 100,000 entries in the page cache, with its bytes.
fn filled() -> &'static (SessionStore, SessionPath, Vec<u8>) {
    static FILLED: OnceLock<(SessionStore, SessionPath, Vec<u8>)> = OnceLock::new();
    FILLED.get_or_init(|| {
        let store = SessionStore::new(folder().join("filled"));
        let log = store.create(ID).unwrap();
        for start in (0..ENTRIES).step_by(1000) {
            let batch = (start..start + 1000).map(|seq| Arc::new(entry(seq))).collect();
            runtime().block_on(log.append(batch)).unwrap();
        }
        drop(log);
        let session = store.find(ID).unwrap();
        let bytes = std::fs::read(&session.log).unwrap();
        (store, session, bytes)
    })
}

fn line_of(seq: u64) -> Vec<u8> {
    let mut line = serde_json::to_vec(&entry(seq)).unwrap();
    line.extend_from_slice(&[b'h'; 51]);
    line.push(b'\n');
    line
}

/// The limit: a typed parse and the chain over bytes already in memory, nothing else.
#[divan::bench(sample_count = 15, sample_size = 1)]
fn fold_bare_parse_and_chain(bencher: Bencher<'_, '_>) {
    let (_, _, bytes) = filled();
    bencher.counter(ItemsCount::new(ENTRIES)).counter(BytesCount::of_slice(bytes)).bench(|| {
        let mut hash = [0u8; 32];
        let mut events = 0;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let body = &line[..line.len() - 52];
            hash = Sha256::new().chain_update(hash).chain_update(body).finalize().into();
            events += serde_json::from_slice::<Entry>(line).unwrap().events.len();
        }
        (hash, events)
    });
}

/// The log: from the file, chain checked, typed.
#[divan::bench(sample_count = 15, sample_size = 1)]
fn fold_the_log(bencher: Bencher<'_, '_>) {
    let (store, session, bytes) = filled();
    bencher.counter(ItemsCount::new(ENTRIES)).counter(BytesCount::of_slice(bytes)).bench(|| {
        let entries = store.read(session).unwrap();
        entries.map(|entry| entry.unwrap().events.len()).sum::<usize>()
    });
}

/// The log: chain checked, events not parsed.
#[divan::bench(sample_count = 15, sample_size = 1)]
fn check_the_chain_only(bencher: Bencher<'_, '_>) {
    let (store, session, bytes) = filled();
    bencher.counter(ItemsCount::new(ENTRIES)).counter(BytesCount::of_slice(bytes)).bench(|| {
        let mut reader = store.read(session).unwrap();
        while reader.next_line().unwrap().is_some() {}
        reader.ending().count
    });
}

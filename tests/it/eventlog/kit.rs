//! Entries, logs and folders the log's tests share.

use std::path::Path;
use std::sync::Arc;

use agon::eventlog::{LOG_NAME, LogError, Opened, SessionLog, SessionPath, SessionStore};
use agon::ports::{AppendError, EventLog, Head};
use agon::protocol::event::{PauseCause, SessionOpened, SessionPaused, SteeringGiven};
use agon::protocol::spec::{Limits, Policy, RetrySpec, SandboxSpec, Spec, WorkspaceSpec};
use agon::protocol::{ArenaEvent, Entry, Fact};

pub const ID: &str = "019aa000-0000-7000-8000-000000000001";
pub const OTHER: &str = "019aa000-0000-7000-8000-000000000002";

pub fn opened(id: &str) -> Entry {
    let spec = Spec {
        program: "agon test".to_owned(),
        seed: 1,
        workspace: WorkspaceSpec {
            root: "/work".to_owned(),
            git_head: None,
            sandbox: SandboxSpec { kind: "none".to_owned(), ..SandboxSpec::default() },
            places: vec![],
        },
        models: Vec::new(),
        personas: Vec::new(),
        tools: Vec::new(),
        offered: None,
        sources: vec![],
        gates: vec![],
        effort: None,
        policy: Policy::default(),
        limits: Limits::default(),
        retry: RetrySpec::default(),
        instructions: Vec::new(),
        blueprint: None,
        cache: None,
    };
    let event = ArenaEvent::SessionOpened(Box::new(SessionOpened { id: id.to_owned(), rules: 1, spec }));
    Entry::new(0, 1000, Fact::new(event).unwrap(), Vec::new())
}

pub fn said(seq: u64, text: &str) -> Entry {
    let event = ArenaEvent::SteeringGiven(SteeringGiven { spark: None, text: text.to_owned() });
    Entry::new(seq, 1000 + seq, Fact::new(event).unwrap(), Vec::new())
}

pub fn paused(seq: u64) -> Entry {
    let event = ArenaEvent::SessionPaused(SessionPaused { cause: PauseCause::Disk });
    Entry::new(seq, 1000 + seq, Fact::new(event).unwrap(), Vec::new())
}

/// Entry `seq` of the usual log of session [`ID`].
pub fn usual(seq: u64) -> Entry {
    match seq {
        0 => opened(ID),
        _ => said(seq, &format!("step {seq} \"JSON\"* {}", "x".repeat((seq % 7) as usize * 20))),
    }
}

pub fn append(log: &SessionLog, entries: impl IntoIterator<Item = Entry>) -> Result<Head, AppendError> {
    block_on(log.append(entries.into_iter().map(Arc::new).collect()))
}

pub fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// A store in a folder of its own, with one closed session of `count` usual entries, each acknowledged.
pub fn filled(count: u64) -> (tempfile::TempDir, SessionStore, SessionPath) {
    let folder = tempfile::tempdir().unwrap();
    let store = SessionStore::new(folder.path());
    let log = store.create(ID).unwrap();
    for seq in 0..count {
        append(&log, [usual(seq)]).unwrap();
    }
    drop(log);
    let session = store.find(ID).unwrap();
    (folder, store, session)
}

pub fn open(store: &SessionStore, session: &SessionPath) -> Result<(Opened, Vec<Entry>), LogError> {
    let mut entries = Vec::new();
    let opened = store.open(session, &mut |entry| entries.push(entry))?;
    Ok((opened, entries))
}

/// The error of an open that must fail.
pub fn refused(store: &SessionStore, session: &SessionPath) -> LogError {
    store.open(session, &mut |_| {}).err().expect("it should be refused")
}

/// Session [`ID`] of a store whose state folder is `state`.
pub fn session_in(state: &Path) -> SessionPath {
    SessionPath { id: ID.to_owned(), log: state.join("sessions").join(ID).join(LOG_NAME), stored: true }
}

/// A small generator, so that every failure can be repeated from its seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end.max(1)
    }
}

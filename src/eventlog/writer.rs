//! The open log: hands appends to the one thread that owns the file, and reads what was acknowledged.

mod commit;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use self::commit::Committer;
use super::chain::Link;
use super::fs::LogFile;
use super::lines::{Lines, Piece};
use super::open::Site;
use super::reader::Ending;
use super::{LogError, MAX_LINE, blobs};
use crate::ports::{AppendError, EventLog, Head};
use crate::protocol::expand::is_sha256;
use crate::protocol::{ArenaEvent, Entry};

/// Appends that may wait; more wait in their own tasks.
const QUEUE: usize = 1024;

/// Stack of a writer's thread; it only copies, hashes and makes system calls.
const STACK: usize = 128 * 1024;

/// Every how many entries the place in the file is remembered.
const STRIDE: u64 = 64;

/// Byte offsets of every 64th entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(Vec<u64>);

impl Marks {
    /// Notes where entry `seq` begins; entries come in order.
    pub fn note(&mut self, seq: u64, offset: u64) {
        if seq.is_multiple_of(STRIDE) {
            self.0.push(offset);
        }
    }

    /// The nearest noted entry at or before `seq` and its offset.
    fn before(&self, seq: u64) -> (u64, u64) {
        let at = usize::try_from(seq / STRIDE).unwrap_or(usize::MAX).min(self.0.len().saturating_sub(1));
        self.0.get(at).map_or((0, 0), |offset| (at as u64 * STRIDE, *offset))
    }
}

/// What is on disk and acknowledged.
struct Durable {
    count: u64,
    link: Link,
    len: u64,
    marks: Marks,
}

/// What both sides see; never held across a system call.
#[derive(Clone)]
struct Shared(Arc<Mutex<Durable>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Durable> {
        // Nothing in the critical sections can panic halfway through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One caller's batch, serialised but not yet chained.
struct Append {
    first: u64,
    /// The hashed parts of the lines, one after the other.
    bodies: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
    /// It may use the room that is kept back for a last word.
    last_word: bool,
    ack: oneshot::Sender<Result<Head, AppendError>>,
}

/// Everything a writer starts with.
pub(super) struct Start {
    pub site: Site,
    pub file: Arc<dyn LogFile>,
    pub lock: Arc<dyn LogFile>,
    pub ending: Ending,
    pub marks: Marks,
}

/// The log of one session, open for writing. Dropping it waits for what was handed over, and unlocks.
pub struct SessionLog {
    site: Site,
    file: Arc<dyn LogFile>,
    shared: Shared,
    queue: Option<mpsc::Sender<Append>>,
    thread: Option<JoinHandle<()>>,
}

impl SessionLog {
    /// Starts the thread that owns the file.
    pub(super) fn start(start: Start) -> Result<Self, LogError> {
        let Start { site, file, lock, ending, marks } = start;
        let durable = Durable { count: ending.count, link: ending.link, len: ending.len, marks };
        let shared = Shared(Arc::new(Mutex::new(durable)));
        let (queue, waiting) = mpsc::channel(QUEUE);
        let committer = Committer::new(Arc::clone(&file), shared.clone());
        let work = move || {
            committer.run(waiting);
            drop(lock);
        };
        let name = format!("log-{}", site.id.get(..8).unwrap_or(&site.id));
        let thread = std::thread::Builder::new().name(name).stack_size(STACK).spawn(work);
        let thread = Some(thread.map_err(LogError::io(&site.folder))?);
        Ok(SessionLog { site, file, shared, queue: Some(queue), thread })
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        &self.site.id
    }
}

impl Drop for SessionLog {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already told to everyone who waited.
            let _ = thread.join();
        }
    }
}

#[async_trait]
impl EventLog for SessionLog {
    async fn append(&self, entries: Vec<Arc<Entry>>) -> Result<Head, AppendError> {
        let Some(first) = entries.first() else { return Ok(self.head()) };
        let (ack, acknowledged) = oneshot::channel();
        let mut append = serialise(first.seq, &entries, ack)?;
        append.last_word = entries.iter().all(|entry| is_last_word(entry));
        let gone = || AppendError::Poisoned("its writer has ended".to_owned());
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        queue.send(append).await.map_err(|_| gone())?;
        acknowledged.await.map_err(|_| gone())?
    }

    fn visit(&self, from: u64, visit: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<()> {
        let ((mut seq, offset), len) = {
            let durable = self.shared.lock();
            (durable.marks.before(from), durable.len)
        };
        let mut lines = Lines::new(Arc::clone(&self.file), offset, len);
        loop {
            match lines.next_piece()? {
                Piece::Line(line) if seq >= from => {
                    if !visit(line) {
                        return Ok(());
                    }
                }
                Piece::Line(_) => {}
                Piece::End => return Ok(()),
                Piece::Rest(_) | Piece::TooLong => {
                    return Err(io::Error::other("the log was changed by another program"));
                }
            }
            seq += 1;
        }
    }

    async fn put_blob(&self, bytes: Vec<u8>) -> io::Result<String> {
        let site = self.site.clone();
        let put = move || blobs::put(&*site.fs, &site.blobs, &bytes);
        tokio::task::spawn_blocking(put).await.map_err(io::Error::other)?
    }

    fn blob(&self, sha256: &str) -> Option<Vec<u8>> {
        let path = is_sha256(sha256).then(|| blobs::place(&self.site.blobs, sha256))?;
        blobs::get(&*self.site.fs, &path, sha256).ok().flatten()
    }

    fn head(&self) -> Head {
        let durable = self.shared.lock();
        Head { count: durable.count, hash: durable.link.text() }
    }
}

/// The entry that may still be written when the disk is full.
fn is_last_word(entry: &Entry) -> bool {
    matches!(entry.fact(), Some(ArenaEvent::SessionPaused(_)))
}

fn serialise(
    first: u64,
    entries: &[Arc<Entry>],
    ack: oneshot::Sender<Result<Head, AppendError>>,
) -> Result<Append, AppendError> {
    let mut bodies = Vec::with_capacity(entries.len() * 512);
    let mut ends = Vec::with_capacity(entries.len());
    for (expected, entry) in (first..).zip(entries) {
        if entry.seq != expected {
            return Err(AppendError::OutOfOrder { expected, got: entry.seq });
        }
        let start = bodies.len();
        let written = serde_json::to_writer(&mut bodies, &**entry);
        written
            .map_err(|error| AppendError::Poisoned(format!("entry {expected} has no JSON form: {error}")))?;
        bodies.pop();
        let bytes = bodies.len() - start + super::chain::TAIL + 1;
        if bytes > MAX_LINE {
            return Err(AppendError::TooLong { seq: entry.seq, bytes, max: MAX_LINE });
        }
        ends.push(bodies.len());
    }
    Ok(Append { first, bodies, ends, last_word: false, ack })
}

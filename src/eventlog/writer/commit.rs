//! The writer's thread: takes what waits, one write, one fdatasync, then acknowledges; knows no event.

use std::io;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::{Append, Marks, Shared};
use crate::eventlog::chain::Link;
use crate::eventlog::fs::{LogFile, write_all_at};
use crate::ports::{AppendError, Head};

/// Entries taken for one write.
const GROUP_ENTRIES: usize = 1024;

/// Bytes after which no further append is taken for one write.
const GROUP_BYTES: usize = 1024 * 1024;

/// Room beyond the log's end that only a last word may use.
const KEPT_BACK: u64 = 16 * 1024;

/// Space is reserved in steps of the log's own size, within these bounds.
const RESERVE: std::ops::RangeInclusive<u64> = 64 * 1024..=1024 * 1024;

/// Appends that share one write.
struct Group {
    bytes: Vec<u8>,
    acks: Vec<(oneshot::Sender<Result<Head, AppendError>>, Head)>,
    /// Where each entry begins in `bytes`.
    starts: Vec<usize>,
    last_word: bool,
    /// The entry after the group's last, and the link it builds on.
    next: u64,
    link: Link,
}

/// What is left to do after an append failed.
enum Failure {
    Full(String),
    Fatal(String),
}

/// The only one that writes to the file.
pub(super) struct Committer {
    file: Arc<dyn LogFile>,
    shared: Shared,
    count: u64,
    link: Link,
    len: u64,
    /// Space is reserved up to here; none where the file system cannot reserve.
    reserved: Option<u64>,
    poisoned: Option<String>,
    spare: Vec<u8>,
}

impl Committer {
    pub fn new(file: Arc<dyn LogFile>, shared: Shared) -> Self {
        let (count, link, len) = {
            let durable = shared.lock();
            (durable.count, durable.link, durable.len)
        };
        Committer { file, shared, count, link, len, reserved: Some(len), poisoned: None, spare: Vec::new() }
    }

    /// Works until every sender is gone.
    pub fn run(mut self, mut waiting: mpsc::Receiver<Append>) {
        while let Some(append) = waiting.blocking_recv() {
            let group = self.gather(append, &mut waiting);
            self.commit(group);
        }
        if self.poisoned.is_none() && self.reserved.is_some_and(|reserved| reserved > self.len) {
            // Gives back what was reserved and not used; the length stays, so nothing can be lost by it.
            let _ = self.file.set_len(self.len);
        }
    }

    fn gather(&mut self, first: Append, waiting: &mut mpsc::Receiver<Append>) -> Group {
        let mut bytes = std::mem::take(&mut self.spare);
        bytes.clear();
        let (next, link) = (self.count, self.link);
        let mut group = Group { bytes, acks: Vec::new(), starts: Vec::new(), last_word: true, next, link };
        let mut next = Some(first);
        while let Some(append) = next {
            match append.first == group.next {
                true => group.add(append),
                false => {
                    let error = AppendError::OutOfOrder { expected: group.next, got: append.first };
                    let _ = append.ack.send(Err(error));
                }
            }
            let room = group.starts.len() < GROUP_ENTRIES && group.bytes.len() < GROUP_BYTES;
            next = if room { waiting.try_recv().ok() } else { None };
        }
        group
    }

    fn commit(&mut self, group: Group) {
        if group.acks.is_empty() {
            self.spare = group.bytes;
            return;
        }
        let result = match &self.poisoned {
            Some(why) => Err(AppendError::Poisoned(why.clone())),
            None => self.write(&group.bytes, group.last_word).map_err(|failure| self.failed(failure)),
        };
        if result.is_ok() {
            self.publish(&group);
        }
        for (ack, head) in group.acks {
            let _ = ack.send(result.clone().map(|()| head));
        }
        self.spare = group.bytes;
        if self.spare.capacity() > GROUP_BYTES {
            self.spare = Vec::new();
        }
    }

    fn write(&mut self, bytes: &[u8], last_word: bool) -> Result<(), Failure> {
        self.make_room(bytes.len() as u64, last_word)?;
        if let Err(error) = write_all_at(&*self.file, bytes, self.len) {
            return Err(self.cut_back(error));
        }
        // After a failed fdatasync nobody knows what is on disk, and a second one may lie: never again.
        self.file.sync_data().map_err(|error| Failure::Fatal(format!("syncing failed: {error}")))
    }

    /// Keeps room reserved for these bytes and for a last word; full when there is none.
    fn make_room(&mut self, bytes: u64, last_word: bool) -> Result<(), Failure> {
        let Some(reserved) = self.reserved else { return Ok(()) };
        let kept_back = if last_word { 0 } else { KEPT_BACK };
        let needed = self.len + bytes + kept_back;
        if needed <= reserved {
            return Ok(());
        }
        let step = self.len.clamp(*RESERVE.start(), *RESERVE.end());
        let wanted = [needed + step, needed];
        for end in wanted {
            match self.file.reserve(self.len, end - self.len) {
                Ok(()) => {
                    self.reserved = Some(end);
                    return Ok(());
                }
                Err(error) if is_full(&error) => {}
                Err(_) => {
                    self.reserved = None;
                    return Ok(());
                }
            }
        }
        Err(Failure::Full(format!("no room for {} more bytes", bytes)))
    }

    /// Cuts off what a failed write left; the log is whole again or closed for good.
    fn cut_back(&mut self, error: io::Error) -> Failure {
        if let Err(second) = self.file.set_len(self.len) {
            return Failure::Fatal(format!("writing failed: {error}; cutting back failed: {second}"));
        }
        // Cutting back gave the reservation away as well.
        self.reserved = self.reserved.map(|_| self.len);
        if !is_full(&error) {
            return Failure::Fatal(format!("writing failed: {error}"));
        }
        let _ = self.make_room(0, false);
        Failure::Full(error.to_string())
    }

    fn failed(&mut self, failure: Failure) -> AppendError {
        match failure {
            Failure::Full(why) => AppendError::Full(why),
            Failure::Fatal(why) => {
                self.poisoned = Some(why.clone());
                AppendError::Poisoned(why)
            }
        }
    }

    fn publish(&mut self, group: &Group) {
        let mut durable = self.shared.lock();
        for (seq, start) in (self.count..).zip(&group.starts) {
            Marks::note(&mut durable.marks, seq, self.len + *start as u64);
        }
        self.count = group.next;
        self.link = group.link;
        self.len += group.bytes.len() as u64;
        (durable.count, durable.link, durable.len) = (self.count, self.link, self.len);
    }
}

impl Group {
    /// Chains an append's lines onto those before.
    fn add(&mut self, append: Append) {
        let mut from = 0;
        self.last_word &= append.last_word;
        self.next += append.ends.len() as u64;
        for end in append.ends {
            let body = append.bodies.get(from..end).unwrap_or_default();
            self.starts.push(self.bytes.len());
            self.bytes.extend_from_slice(body);
            self.link = self.link.next(body);
            self.link.close(&mut self.bytes);
            from = end;
        }
        self.acks.push((append.ack, Head { count: self.next, hash: self.link.text() }));
    }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull, WriteZero};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge | WriteZero)
}

//! Commands in the background: each runs as ordered work of its own, which the call that starts it hands it to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::ports::{Background, Exec, ExecEnd, Glance, Live, Sandbox};
use crate::protocol::effect::BackgroundOrder;
use crate::protocol::event::{BackgroundEnded, ToolUse};
use crate::protocol::{CallId, Lane};

/// Bytes of output kept of each.
const KEPT: usize = 256 * 1024;
/// Bytes of the last output that the log keeps.
const LAST: usize = 4 * 1024;
/// How many that have ended can still be read.
const MOST_ENDED: usize = 16;

/// The commands of one session.
#[derive(Default)]
pub struct Jobs {
    table: Mutex<BTreeMap<u64, Job>>,
    /// Counts what changed.
    changes: watch::Sender<u64>,
}

struct Job {
    tool_use: ToolUse,
    began: Instant,
    /// Handed over and not begun yet.
    exec: Option<Exec>,
    /// What is known of it, apart from what it printed.
    known: Glance,
    /// The end of what it printed.
    printed: String,
    /// Bytes it printed, and how many of them were looked at.
    bytes: (u64, u64),
    /// Whether the call that started it has looked at it, and whether it saw its end.
    looked: Option<bool>,
}

impl Jobs {
    /// Runs the command of an order, once it is handed over, to its end.
    pub async fn keep(
        &self,
        (call, order): (CallId, BackgroundOrder),
        sandbox: Result<Arc<dyn Sandbox>, String>,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> BackgroundEnded {
        let number = call.0;
        self.add(number, &order);
        let run = async {
            let sandbox = sandbox?;
            let exec = tokio::select! {
                biased;
                exec = self.until(|table| table.get_mut(&number)?.exec.take()) => exec,
                () = cancel.cancelled() => return Err("stopped before it began".to_owned()),
            };
            sandbox.exec(exec, &Tee { live, jobs: self, number }, cancel).await
        };
        let (how, exit, notes) = match run.await {
            Ok(end) => (how(&end), end.exit, end.notes),
            Err(why) => (why, None, Vec::new()),
        };
        self.end(number, &how, exit);
        // What the call that started it says of its end need not be said again.
        let known = tokio::select! {
            known = self.until(|table| table.get_mut(&number)?.looked) => known,
            () = cancel.cancelled() => false,
        };
        let mut table = self.table();
        let job = table.get(&number);
        let output = job.map(|job| last(&job.printed, LAST).to_owned()).unwrap_or_default();
        let ms = job.map(|job| job.known.ms).unwrap_or_default();
        let ended: Vec<u64> =
            table.iter().filter(|(_, job)| job.known.ended.is_some()).map(|(n, _)| *n).collect();
        for old in &ended[..ended.len().saturating_sub(MOST_ENDED)] {
            table.remove(old);
        }
        BackgroundEnded { tool_use: order.tool_use, exit, how, output, ms, known, notes }
    }

    fn add(&self, number: u64, order: &BackgroundOrder) {
        let known = Glance { command: order.command.clone(), ..Glance::default() };
        let job = Job {
            tool_use: order.tool_use,
            began: Instant::now(),
            exec: None,
            known,
            printed: String::new(),
            bytes: (0, 0),
            looked: None,
        };
        self.table().insert(number, job);
        self.changed();
    }

    fn end(&self, number: u64, how: &str, exit: Option<i32>) {
        if let Some(job) = self.table().get_mut(&number) {
            job.known.ms = job.age();
            job.known.ended = Some((how.to_owned(), exit));
        }
        self.changed();
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Waits until the table gives something.
    async fn until<T>(&self, mut give: impl FnMut(&mut BTreeMap<u64, Job>) -> Option<T>) -> T {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            if let Some(given) = give(&mut self.table()) {
                return given;
            }
            // The sender is this value.
            let _ = changes.changed().await;
        }
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<u64, Job>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    fn age(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn look(&mut self) -> Glance {
        let (printed, seen) = self.bytes;
        let new = usize::try_from(printed - seen).unwrap_or(usize::MAX);
        let output = last(&self.printed, new).to_owned();
        let left_out = (printed - seen).saturating_sub(output.len() as u64);
        self.bytes.1 = printed;
        self.looked.get_or_insert(self.known.ended.is_some());
        let ms = if self.known.ended.is_some() { self.known.ms } else { self.age() };
        Glance { output, left_out, ms, ..self.known.clone() }
    }
}

#[async_trait]
impl Background for Jobs {
    async fn start(&self, tool_use: ToolUse, exec: Exec, before: BTreeSet<u16>) -> Result<u64, String> {
        let (command, opens) = (exec.command.clone(), exec.opens.clone());
        let mut exec = Some(exec);
        let started = self.until(|table| {
            let (number, job) = table.iter_mut().rev().find(|(_, job)| job.tool_use == tool_use)?;
            (job.exec, job.began) = (exec.take(), Instant::now());
            (job.known.command, job.known.opens) = (command.clone(), opens.clone());
            job.known.before = before.clone();
            Some(*number)
        });
        let number = started.await;
        self.changed();
        Ok(number)
    }

    async fn news(&self, number: u64, only_its_end: bool) {
        let is_new = |job: &Job| job.known.ended.is_some() || (!only_its_end && job.bytes.0 > job.bytes.1);
        self.until(|table| table.get(&number).is_none_or(is_new).then_some(())).await;
    }

    fn look(&self, number: u64) -> Option<Glance> {
        let glance = self.table().get_mut(&number).map(Job::look);
        self.changed();
        glance
    }

    fn running(&self) -> Vec<(u64, String)> {
        let table = self.table();
        let running = table.iter().filter(|(_, job)| job.known.ended.is_none());
        running.map(|(number, job)| (*number, job.known.command.clone())).collect()
    }
}

/// Live output that is kept as well.
struct Tee<'a> {
    live: &'a dyn Live,
    jobs: &'a Jobs,
    number: u64,
}

impl Live for Tee<'_> {
    fn push(&self, lane: Lane, text: &str) {
        self.live.push(lane, text);
        if let Some(job) = self.jobs.table().get_mut(&self.number) {
            job.bytes.0 += text.len() as u64;
            job.printed.push_str(text);
            let excess = job.printed.ceil_char_boundary(job.printed.len().saturating_sub(KEPT));
            // Moved seldom, not with each piece.
            if excess > KEPT {
                job.printed.drain(..excess);
            }
        }
        self.jobs.changed();
    }
}

fn how(end: &ExecEnd) -> String {
    match (end.cancelled, end.exit, end.signal) {
        (true, ..) => "stopped".to_owned(),
        (_, Some(code), _) => format!("exit code {code}"),
        (_, None, Some(signal)) => format!("ended by signal {signal}"),
        (_, None, None) => "ended without an exit code".to_owned(),
    }
}

/// At most so many bytes from the end of a text.
fn last(text: &str, most: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(most))..]
}

//! What a front end hears of an open session: entries without gaps, live pieces, the end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::{Answers, CommandError, Handle};
use crate::arena::Ending;
use crate::ports::Subscription;
use crate::protocol::{CallId, Choice, Command, Entry, Signal};

/// Entries that are handed over at once at most.
const AT_ONCE: u64 = 1_024;

/// News of a session.
#[derive(Debug)]
pub enum Update {
    /// The next entries, in order.
    Entries(Vec<Arc<Entry>>),
    /// A live piece of a running call; any may be missing.
    Signal(Signal),
    /// An answer that the host gave was not taken, in words.
    NotTaken(String),
    /// The end. Every entry was handed over before.
    Ended(Ending),
}

/// One front end that listens. Dropping it answers nothing and stops nothing.
pub struct Updates {
    handle: Handle,
    news: Subscription,
    next: u64,
    /// True while the log holds entries that were not handed over.
    is_behind: bool,
    ending: Option<Ending>,
    /// The last approval that was answered for everybody, and answers under way.
    answered: Option<CallId>,
    answers: FuturesUnordered<BoxFuture<'static, Option<String>>>,
}

impl Updates {
    pub(super) fn of(handle: Handle, from: u64) -> Self {
        handle.inner().listening.fetch_add(1, Ordering::AcqRel);
        let news = handle.inner().arena.subscribe();
        let (ending, answered, answers) = (None, None, FuturesUnordered::new());
        Updates { handle, news, next: from, is_behind: true, ending, answered, answers }
    }

    /// The session.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits for the next news. Dropped and asked again it loses nothing.
    pub async fn next(&mut self) -> io::Result<Update> {
        loop {
            if self.is_behind {
                let entries = self.read_on()?;
                if !entries.is_empty() {
                    return Ok(Update::Entries(entries));
                }
            }
            if let Some(ending) = &self.ending {
                return Ok(Update::Ended(ending.clone()));
            }
            self.answer();
            tokio::select! {
                biased;
                Some(told) = self.answers.next() => {
                    if let Some(words) = told {
                        return Ok(Update::NotTaken(words));
                    }
                }
                Some(signal) = self.news.signals.next() => return Ok(Update::Signal(signal)),
                Some(entry) = self.news.entries.next() => {
                    let entries = self.take(entry)?;
                    if !entries.is_empty() {
                        return Ok(Update::Entries(entries));
                    }
                }
                ending = self.handle.ended() => {
                    // What the bus still holds is in the log as well.
                    (self.ending, self.is_behind) = (Some(ending), true);
                }
            }
        }
    }

    /// The next entries of the log; none when there are none.
    fn read_on(&mut self) -> io::Result<Vec<Arc<Entry>>> {
        // After a failure the next entry tries again.
        self.is_behind = false;
        // What is recorded a moment before the host folds it comes by the bus: every view that shows an ask can answer it.
        let known = match self.ending {
            Some(_) => u64::MAX,
            None => self.handle.inner().state.look(|board| board.seq.map_or(0, |seq| seq + 1)),
        };
        let entries = self.handle.read(self.next..known.min(self.next + AT_ONCE))?;
        self.next += entries.len() as u64;
        self.is_behind = !entries.is_empty();
        Ok(entries)
    }

    /// An entry of the bus with those that wait behind it, and before each what the bus has lost.
    fn take(&mut self, first: Arc<Entry>) -> io::Result<Vec<Arc<Entry>>> {
        let (mut entries, mut waiting, start) = (Vec::new(), Some(first), self.next);
        while let Some(entry) = waiting {
            if entry.seq > self.next {
                // Nothing was handed over yet: the next entry tries again.
                let missed = self.handle.read(self.next..entry.seq).inspect_err(|_| self.next = start)?;
                entries.extend(missed);
            }
            if entry.seq >= self.next {
                self.next = entry.seq + 1;
                entries.push(entry);
            }
            waiting = match (entries.len() as u64) < AT_ONCE {
                true => self.news.entries.next().now_or_never().flatten(),
                false => None,
            };
        }
        Ok(entries)
    }

    /// Answers what is asked, where approvals are answered with yes: never what leaves the sandbox.
    fn answer(&mut self) {
        let Answers::Yes { by, .. } = &self.handle.inner().answers else { return };
        let last = self.answered;
        for ask in self.handle.asks().into_iter().filter(|ask| Some(ask.call) > last && ask.opens.is_empty())
        {
            self.answered = Some(ask.call);
            let (handle, call) = (self.handle.clone(), ask.call);
            let answer = Command::Answer { call, digest: ask.digest, choice: Choice::Once, by: by.clone() };
            self.answers.push(Box::pin(async move {
                match handle.command(answer).await {
                    Ok(_) | Err(CommandError::AlreadyAnswered(_)) => None,
                    Err(error) => Some(format!("the answer to {call} was not taken: {error}")),
                }
            }));
        }
    }

    /// Goes away as [`Handle::leave`] says, and gives what was recorded meanwhile.
    pub async fn leave(self) -> Vec<Arc<Entry>> {
        let (handle, next) = (self.handle.clone(), self.next);
        drop(self);
        handle.leave().await;
        // What cannot be read is shown when the session is looked at again.
        handle.read(next..u64::MAX).unwrap_or_default()
    }
}

impl Drop for Updates {
    fn drop(&mut self) {
        self.handle.inner().listening.fetch_sub(1, Ordering::AcqRel);
    }
}

//! What a running call asks for: put to the session as a fact, answered by its decision. Meanwhile the call's time stops,
//! for as long as a question waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::arena::driver::Message;
use crate::ports::Asks;
use crate::protocol::effect::PreparedUse;
use crate::protocol::event::{HostAsked, Plan};
use crate::protocol::expand::digest_of;
use crate::protocol::need::Need;
use crate::protocol::spec::Risk;
use crate::protocol::{CallId, Work};

/// How long a question waits: as long as package tools are told to wait for a connection.
const PATIENCE: Duration = Duration::from_secs(600);
/// Most questions of one call: one that asks more is trying names.
const MOST: usize = 32;

/// What one attempt of a tool call asks for.
pub(super) struct CallAsks {
    call: CallId,
    attempt: u32,
    order: PreparedUse,
    inbox: mpsc::Sender<Message>,
    /// Questions that wait for an answer.
    open: Arc<watch::Sender<usize>>,
    /// Questions that it may still ask; none once a person did not answer one in time.
    left: AtomicUsize,
    /// How long a question waits.
    patience: Duration,
}

impl CallAsks {
    pub fn new(work: &Work, order: PreparedUse, inbox: mpsc::Sender<Message>) -> Self {
        let (open, left) = (Arc::new(watch::Sender::new(0)), AtomicUsize::new(MOST));
        CallAsks { call: work.call, attempt: work.attempt, order, inbox, open, left, patience: PATIENCE }
    }
}

/// Where the answer to a question goes. The question is open as long as this value, whoever still waits for it.
pub(in crate::arena) struct Answer {
    to: Option<oneshot::Sender<bool>>,
    open: Arc<watch::Sender<usize>>,
}

impl Answer {
    fn of(asks: &CallAsks) -> (Self, oneshot::Receiver<bool>) {
        asks.open.send_modify(|open| *open += 1);
        let (to, answered) = oneshot::channel();
        (Answer { to: Some(to), open: Arc::clone(&asks.open) }, answered)
    }

    fn send(mut self, is_allowed: bool) {
        // A call that has ended no longer waits.
        let _ = self.to.take().map(|to| to.send(is_allowed));
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.open.send_modify(|open| *open -= 1);
    }
}

#[async_trait]
impl Asks for CallAsks {
    async fn ask(&self, need: Need, words: String) -> Option<bool> {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()?;
        let preview = format!("{words}\nneeds: {}", need.name());
        let digest = digest_of(&(&self.order.digest, &preview));
        let (cwd, risk) = (String::new(), Risk::Network);
        let plan = Plan { needs: vec![need], cwd, preview, risk, digest };
        let tool_use = self.order.tool_use;
        let asked = HostAsked { call: self.call, attempt: self.attempt, tool_use, plan };
        let (answer, answered) = Answer::of(self);
        // A driver that is gone answers nothing.
        let sent = self.inbox.send(Message::Asked { asked, answer }).await;
        sent.ok()?;
        match timeout(self.patience, answered).await {
            Ok(answer) => answer.ok(),
            Err(_) => {
                self.left.store(0, Ordering::Relaxed);
                None
            }
        }
    }

    async fn worked(&self, time: Duration) {
        let (mut open, mut left) = (self.open.subscribe(), time);
        // What is left of the time that one unanswered question stops: no connection may wait for it any more.
        let mut still = self.patience;
        loop {
            let (since, asked) = (Instant::now(), *open.borrow_and_update());
            let is_still = asked > 0 && !still.is_zero();
            let running = if is_still { &mut still } else { &mut left };
            tokio::select! {
                () = sleep(*running) => match is_still {
                    true => still = Duration::ZERO,
                    false => return,
                },
                // The sender is this value.
                _ = open.changed() => {
                    *running = running.saturating_sub(since.elapsed());
                    if *open.borrow() < asked {
                        still = self.patience;
                    }
                }
            }
        }
    }
}

/// Where answers go that are awaited, by the entry of the question.
#[derive(Default)]
pub(super) struct Awaited(BTreeMap<u64, (CallId, Answer)>);

impl Awaited {
    pub fn add(&mut self, call: CallId, asked: u64, answer: Answer) {
        self.0.insert(asked, (call, answer));
    }

    /// Tells a call what was decided on its question.
    pub fn settle(&mut self, asked: u64, is_allowed: bool) {
        if let Some((_, answer)) = self.0.remove(&asked) {
            answer.send(is_allowed);
        }
    }

    /// Forgets a call, whose questions get no answer.
    pub fn forget(&mut self, call: CallId) {
        self.0.retain(|_, (asks, _)| *asks != call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::EventRef;
    use crate::protocol::event::ToolUse;

    fn asks(patience: Duration) -> (Arc<CallAsks>, mpsc::Receiver<Message>) {
        let (inbox, heard) = mpsc::channel(MOST);
        let tool_use = ToolUse { answer: EventRef::fact(2), part: 0 };
        let order = PreparedUse { tool_use, prepared: EventRef::fact(3), digest: "d".to_owned() };
        let (open, left) = (Arc::new(watch::Sender::new(0)), AtomicUsize::new(MOST));
        (Arc::new(CallAsks { call: CallId(7), attempt: 1, order, inbox, open, left, patience }), heard)
    }

    #[tokio::test]
    async fn the_time_of_a_call_stands_still_while_a_person_is_asked() {
        let (asks, mut heard) = asks(PATIENCE);
        asks.worked(Duration::from_millis(1)).await;
        let mut awaited = Awaited::default();
        for is_allowed in [Some(true), Some(false), None] {
            let asking = Arc::clone(&asks);
            let asked = tokio::spawn(async move {
                asking.ask(Need::Host("a.example".to_owned()), "connect".to_owned()).await
            });
            let Some(Message::Asked { asked: fact, answer }) = heard.recv().await else { panic!() };
            let need = fact.plan.connection().unwrap().name().into_owned();
            assert_eq!((fact.call, fact.attempt, need.as_str()), (CallId(7), 1, "host:a.example"));
            let worked = asks.worked(Duration::from_millis(1));
            let waited = tokio::time::timeout(Duration::from_millis(100), worked).await;
            assert!(waited.is_err(), "no time of the call has passed");
            awaited.add(fact.call, 7, answer);
            awaited.settle(6, true);
            match is_allowed {
                Some(is_allowed) => awaited.settle(7, is_allowed),
                None => awaited.forget(fact.call),
            }
            assert_eq!(asked.await.unwrap(), is_allowed);
            asks.worked(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn a_question_that_no_connection_waits_for_any_more_stops_no_time_once_it_is_answered() {
        let (asks, mut heard) = asks(PATIENCE);
        let gone = asks.ask(Need::Host("a.example".to_owned()), "connect".to_owned());
        // It is asked, and then its client leaves.
        assert!(timeout(Duration::from_millis(20), gone).await.is_err());
        let Some(Message::Asked { answer, .. }) = heard.recv().await else { panic!() };
        let worked = timeout(Duration::from_millis(50), asks.worked(Duration::from_millis(1))).await;
        assert!(worked.is_err(), "it is still open");
        answer.send(true);
        asks.worked(Duration::from_millis(1)).await;
    }

    #[tokio::test]
    async fn who_does_not_answer_in_time_is_asked_no_more_and_a_call_asks_only_so_much() {
        let host = |name: &str| Need::Host(name.to_owned());
        let (absent, mut heard) = asks(Duration::from_millis(20));
        let (asked, _open) = tokio::join!(absent.ask(host("a.example"), String::new()), heard.recv());
        assert_eq!(asked, None, "the time that a question waits is over");
        absent.worked(Duration::from_millis(1)).await;
        assert_eq!(absent.ask(host("b.example"), String::new()).await, None);
        assert!(heard.is_empty(), "nobody is asked who did not answer before");
        let (scanned, mut heard) = asks(PATIENCE);
        for nth in 0..MOST {
            let name = format!("h{nth}.example");
            let (asked, _) = tokio::join!(scanned.ask(host(&name), String::new()), async {
                let Some(Message::Asked { answer, .. }) = heard.recv().await else { panic!() };
                answer.send(false)
            });
            assert_eq!(asked, Some(false));
        }
        assert_eq!(scanned.ask(host("last.example"), String::new()).await, None);
        assert!(heard.is_empty());
    }
}

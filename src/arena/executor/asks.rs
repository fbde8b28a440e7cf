//! What a running call asks for: put to the session as a fact, answered by its decision. Meanwhile the call's time stands
//! still.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::Shared;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};

use crate::arena::driver::Message;
use crate::ports::{Answer, Asks};
use crate::protocol::effect::PreparedUse;
use crate::protocol::event::{HostAsked, Plan};
use crate::protocol::expand::digest_of;
use crate::protocol::need::Need;
use crate::protocol::spec::Risk;
use crate::protocol::{CallId, EventRef, Work};

/// Most needs that one call asks about: a person reads each of them.
const MOST: usize = 32;

/// What one attempt of a tool call asks for.
pub(super) struct CallAsks {
    call: CallId,
    attempt: u32,
    order: PreparedUse,
    inbox: mpsc::Sender<Message>,
    /// How many wait for an answer.
    waiting: watch::Sender<usize>,
    /// The answer to each need, once it is there.
    answers: Mutex<BTreeMap<String, Shared<oneshot::Receiver<Answer>>>>,
}

impl CallAsks {
    pub fn new(work: &Work, order: PreparedUse, inbox: mpsc::Sender<Message>) -> Self {
        let (waiting, answers) = (watch::Sender::new(0), Mutex::default());
        CallAsks { call: work.call, attempt: work.attempt, order, inbox, waiting, answers }
    }
}

/// Somebody waits as long as this value is there.
struct Waits<'a>(&'a watch::Sender<usize>);

impl<'a> Waits<'a> {
    fn on(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|waiting| *waiting += 1);
        Waits(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

impl CallAsks {
    fn asked(&self, need: Need, words: &str) -> HostAsked {
        let preview = format!("{words}\nneeds: {}", need.name());
        let digest = digest_of(&(&self.order.digest, &preview));
        let (cwd, risk) = (String::new(), Risk::Network);
        let plan = Plan { needs: vec![need], cwd, preview, risk, digest };
        HostAsked { call: self.call, attempt: self.attempt, tool_use: self.order.tool_use, plan }
    }
}

#[async_trait]
impl Asks for CallAsks {
    async fn ask(&self, need: Need, words: String) -> Option<Answer> {
        let _waits = Waits::on(&self.waiting);
        // A driver that is gone answers nothing. From here on the question does not depend on who waits.
        let Ok(inbox) = self.inbox.reserve().await else { return Some(Err(String::new())) };
        let answered = {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            let name = need.name().into_owned();
            if !answers.contains_key(&name) && answers.len() == MOST {
                return None;
            }
            let ask = || {
                let (answer, answered) = oneshot::channel();
                inbox.send(Message::Asked { asked: self.asked(need, &words), answer });
                answered.shared()
            };
            answers.entry(name).or_insert_with(ask).clone()
        };
        Some(answered.await.unwrap_or_else(|_| Err(String::new())))
    }

    async fn worked(&self, time: Duration) {
        let (mut waiting, mut left) = (self.waiting.subscribe(), time);
        loop {
            let since = Instant::now();
            let waits = *waiting.borrow_and_update() > 0;
            let change = waiting.changed();
            match waits {
                // The sender is this value.
                true => drop(change.await),
                false => tokio::select! {
                    () = sleep(left) => return,
                    _ = change => left = left.saturating_sub(since.elapsed()),
                },
            }
        }
    }
}

/// Where answers go that are awaited, by the fact that asks.
#[derive(Default)]
pub(super) struct Awaited(BTreeMap<EventRef, (CallId, oneshot::Sender<Answer>)>);

impl Awaited {
    pub fn add(&mut self, asked: EventRef, call: CallId, answer: oneshot::Sender<Answer>) {
        self.0.insert(asked, (call, answer));
    }

    /// Gives the answer to what was asked.
    pub fn settle(&mut self, asked: EventRef, said: Answer) {
        if let Some((_, answer)) = self.0.remove(&asked) {
            // A call that has ended no longer waits.
            let _ = answer.send(said);
        }
    }

    /// Forgets a call, which answers it with no.
    pub fn forget(&mut self, call: CallId) {
        self.0.retain(|_, (of, _)| *of != call);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::timeout;

    use super::*;
    use crate::protocol::event::ToolUse;

    const SHORT: Duration = Duration::from_millis(1);

    fn asks() -> (Arc<CallAsks>, mpsc::Receiver<Message>) {
        let (inbox, heard) = mpsc::channel(MOST + 1);
        let tool_use = ToolUse { answer: EventRef::fact(2), part: 0 };
        let order = PreparedUse { tool_use, prepared: EventRef::fact(3), digest: "d".to_owned() };
        let (waiting, answers) = (watch::Sender::new(0), Mutex::default());
        (Arc::new(CallAsks { call: CallId(7), attempt: 1, order, inbox, waiting, answers }), heard)
    }

    fn host(name: &str) -> Need {
        Need::Host(name.to_owned())
    }

    async fn heard(inbox: &mut mpsc::Receiver<Message>) -> (HostAsked, oneshot::Sender<Answer>) {
        let Some(Message::Asked { asked, answer }) = inbox.recv().await else { panic!() };
        (asked, answer)
    }

    #[tokio::test]
    async fn the_time_of_a_call_stands_still_while_somebody_is_asked() {
        let (asks, mut inbox) = asks();
        asks.worked(SHORT).await;
        let mut awaited = Awaited::default();
        for (said, name) in [(Some(Ok(())), "a"), (Some(Err("use b".to_owned())), "b"), (None, "c")] {
            let asking = Arc::clone(&asks);
            let twice = async move {
                let ask = || asking.ask(host(name), "connect".to_owned());
                tokio::join!(ask(), ask())
            };
            let asked = tokio::spawn(twice);
            let (fact, answer) = heard(&mut inbox).await;
            assert_eq!((fact.call, fact.attempt), (CallId(7), 1));
            assert_eq!(fact.plan.connection().unwrap().name(), format!("host:{name}"));
            let waited = timeout(Duration::from_millis(100), asks.worked(SHORT)).await;
            assert!(waited.is_err(), "no time of the call has passed");
            let at = EventRef::fact(9);
            awaited.add(at, fact.call, answer);
            awaited.settle(EventRef::fact(8), Ok(()));
            match said.clone() {
                Some(said) => awaited.settle(at, said),
                None => awaited.forget(fact.call),
            }
            let answer = Some(said.unwrap_or_else(|| Err(String::new())));
            assert_eq!(asked.await.unwrap(), (answer.clone(), answer));
            asks.worked(SHORT).await;
        }
        assert!(inbox.try_recv().is_err(), "what two connections ask about is one question");
    }

    #[tokio::test]
    async fn a_question_that_nothing_waits_for_stops_no_clock_and_its_answer_is_kept() {
        let (asks, mut inbox) = asks();
        let left = timeout(Duration::from_millis(50), asks.ask(host("a"), "connect".to_owned())).await;
        assert!(left.is_err());
        asks.worked(SHORT).await;
        let (_, answer) = heard(&mut inbox).await;
        answer.send(Ok(())).unwrap();
        assert_eq!(asks.ask(host("a"), "connect".to_owned()).await, Some(Ok(())));
        assert!(inbox.try_recv().is_err(), "it is not asked again");
    }

    #[tokio::test]
    async fn a_call_asks_about_a_limited_number_of_hosts() {
        let (asks, mut inbox) = asks();
        for n in 0..MOST + 5 {
            let asked = timeout(SHORT, asks.ask(host(&n.to_string()), "connect".to_owned())).await;
            assert_eq!(asked.ok(), (n >= MOST).then_some(None), "{n}");
        }
        let mut count = 0;
        while inbox.try_recv().is_ok() {
            count += 1;
        }
        assert_eq!(count, MOST);
    }
}

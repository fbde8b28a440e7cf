//! What a running call asks for: put to the session as a fact, answered by its decision. Meanwhile the call's time stands
//! still.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};

use crate::arena::driver::Message;
use crate::ports::Asks;
use crate::protocol::effect::PreparedUse;
use crate::protocol::event::{HostAsked, Plan};
use crate::protocol::expand::digest_of;
use crate::protocol::need::Need;
use crate::protocol::spec::Risk;
use crate::protocol::{CallId, Work};

/// What one attempt of a tool call asks for.
pub(super) struct CallAsks {
    call: CallId,
    attempt: u32,
    order: PreparedUse,
    inbox: mpsc::Sender<Message>,
    /// Questions that wait for an answer.
    open: watch::Sender<usize>,
}

impl CallAsks {
    pub fn new(work: &Work, order: PreparedUse, inbox: mpsc::Sender<Message>) -> Self {
        CallAsks { call: work.call, attempt: work.attempt, order, inbox, open: watch::Sender::new(0) }
    }
}

/// A question that is open as long as this value.
struct Open<'a>(&'a watch::Sender<usize>);

impl<'a> Open<'a> {
    fn of(open: &'a watch::Sender<usize>) -> Self {
        open.send_modify(|open| *open += 1);
        Open(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

#[async_trait]
impl Asks for CallAsks {
    async fn ask(&self, need: Need, words: String) -> bool {
        let preview = format!("{words}\nneeds: {}", need.name());
        let digest = digest_of(&(&self.order.digest, &preview));
        let (cwd, risk) = (String::new(), Risk::Network);
        let plan = Plan { needs: vec![need], cwd, preview, risk, digest };
        let tool_use = self.order.tool_use;
        let asked = HostAsked { call: self.call, attempt: self.attempt, tool_use, plan };
        let _open = Open::of(&self.open);
        let (answer, answered) = oneshot::channel();
        // A driver that is gone answers nothing.
        let sent = self.inbox.send(Message::Asked { asked, answer }).await;
        sent.is_ok() && answered.await.unwrap_or(false)
    }

    async fn worked(&self, time: Duration) {
        let (mut open, mut left) = (self.open.subscribe(), time);
        loop {
            let since = Instant::now();
            let asks = *open.borrow_and_update() > 0;
            let change = open.changed();
            match asks {
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

/// Where answers go that are awaited, by call and need.
#[derive(Default)]
pub(super) struct Awaited(BTreeMap<CallId, Vec<(String, oneshot::Sender<bool>)>>);

impl Awaited {
    pub fn add(&mut self, call: CallId, need: String, answer: oneshot::Sender<bool>) {
        self.0.entry(call).or_default().push((need, answer));
    }

    /// Tells a call what was decided on its need.
    pub fn settle(&mut self, call: CallId, need: &str, is_allowed: bool) {
        let Some(open) = self.0.get_mut(&call) else { return };
        for (_, answer) in open.extract_if(.., |(asked, _)| asked == need) {
            // A call that has ended no longer waits.
            let _ = answer.send(is_allowed);
        }
    }

    /// Forgets a call, which answers it with no.
    pub fn forget(&mut self, call: CallId) {
        self.0.remove(&call);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::protocol::EventRef;
    use crate::protocol::event::ToolUse;

    #[tokio::test]
    async fn the_time_of_a_call_stands_still_while_somebody_is_asked() {
        let (inbox, mut heard) = mpsc::channel(8);
        let tool_use = ToolUse { answer: EventRef::fact(2), part: 0 };
        let order = PreparedUse { tool_use, prepared: EventRef::fact(3), digest: "d".to_owned() };
        let asks = CallAsks { call: CallId(7), attempt: 1, order, inbox, open: watch::Sender::new(0) };
        let asks = Arc::new(asks);
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
            awaited.add(fact.call, need.clone(), answer);
            awaited.settle(fact.call, "host:other", true);
            match is_allowed {
                Some(is_allowed) => awaited.settle(fact.call, &need, is_allowed),
                None => awaited.forget(fact.call),
            }
            assert_eq!(asked.await.unwrap(), is_allowed == Some(true));
            asks.worked(Duration::from_millis(1)).await;
        }
    }
}

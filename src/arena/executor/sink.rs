//! Where a worker says what its call does and what came of it; the executor listens at the other end.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::ports::{Asks, Live, Sink};
use crate::protocol::{Lane, Order, Outcome};

use super::super::live::LiveSink;

/// The sink of one attempt. It is dropped with the work, and so a missing outcome is noticed.
pub(super) struct CallSink {
    order: Order,
    live: Arc<LiveSink>,
    outcomes: mpsc::Sender<Outcome>,
    asks: Option<Arc<dyn Asks>>,
}

impl CallSink {
    /// The outcome and one that comes late are heard; a flood is not.
    pub fn new(
        order: Order,
        live: Arc<LiveSink>,
        asks: Option<Arc<dyn Asks>>,
    ) -> (Self, mpsc::Receiver<Outcome>) {
        let (outcomes, heard) = mpsc::channel(2);
        (CallSink { order, live, outcomes, asks }, heard)
    }
}

impl Live for CallSink {
    fn push(&self, lane: Lane, text: &str) {
        if self.order.speaks(lane) {
            self.live.push(lane, text);
        }
    }

    fn asks(&self) -> Option<Arc<dyn Asks>> {
        self.asks.clone()
    }
}

impl Sink for CallSink {
    fn end(&self, outcome: Outcome) {
        // Beyond two, or where nobody listens any more, there is nothing to say.
        let _ = self.outcomes.try_send(outcome);
    }
}

//! The signal bus over async-broadcast: a doorbell, never the truth; knows no log, screen or session.

use std::sync::Arc;

use async_broadcast::{InactiveReceiver, Sender, broadcast};

use crate::ports::{SignalBus, Subscription};
use crate::protocol::{Entry, Signal};

/// Messages each channel holds for its slowest subscriber; older ones make room for newer ones.
///
/// Entries are small handles and a subscriber that drains once per frame (60 a second) stays within this up
/// to 60,000 messages a second; one that does not reads the log from where its `seq` jumps.
pub const CAPACITY: usize = 1024;

/// Two lossy channels, entries and signals, to any number of subscribers.
///
/// Subscriptions end when the bus is dropped, after the messages they still hold.
pub struct Bus {
    entries: Channel<Arc<Entry>>,
    signals: Channel<Signal>,
}

/// One channel, kept open by an inactive receiver while nobody listens.
struct Channel<T> {
    sender: Sender<T>,
    idle: InactiveReceiver<T>,
}

impl<T: Clone> Channel<T> {
    fn new(capacity: usize) -> Self {
        let (mut sender, receiver) = broadcast(capacity);
        sender.set_overflow(true);
        sender.set_await_active(false);
        Channel { sender, idle: receiver.deactivate() }
    }

    /// Never waits: with overflow on the only refusal is that nobody listens, which is no failure here.
    fn send(&self, message: T) {
        let _ = self.sender.try_broadcast(message);
    }
}

impl Bus {
    /// A bus that holds [`CAPACITY`] entries and as many signals.
    pub fn new() -> Self {
        Bus::with_capacity(CAPACITY)
    }

    /// A bus of another capacity, at least 1.
    pub fn with_capacity(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Bus { entries: Channel::new(capacity), signals: Channel::new(capacity) }
    }
}

impl Default for Bus {
    fn default() -> Self {
        Bus::new()
    }
}

impl SignalBus for Bus {
    fn publish(&self, entry: Arc<Entry>) {
        self.entries.send(entry);
    }

    fn signal(&self, signal: Signal) {
        self.signals.send(signal);
    }

    /// The streams skip what was lost: a lagging subscriber goes on with the oldest message still held.
    fn subscribe(&self) -> Subscription {
        Subscription {
            entries: Box::pin(self.entries.idle.activate_cloned()),
            signals: Box::pin(self.signals.idle.activate_cloned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::event::{ArenaEvent, StopRequested};
    use crate::protocol::{CallId, Fact, Lane, StopCause};
    use futures_util::{FutureExt, StreamExt};

    fn entry(seq: u64) -> Arc<Entry> {
        let stop = ArenaEvent::StopRequested(StopRequested { cause: StopCause::Quit });
        Arc::new(Entry::new(seq, seq, Fact::new(stop).unwrap(), Vec::new()))
    }

    fn signal(offset: u64) -> Signal {
        Signal { call: CallId(1), attempt: 1, lane: Lane::Text, offset, text: "x".to_owned() }
    }

    /// What a subscriber has at hand now, without waiting.
    fn held(subscription: &mut Subscription) -> (Vec<u64>, Vec<u64>) {
        let mut seqs = Vec::new();
        let mut offsets = Vec::new();
        while let Some(Some(entry)) = subscription.entries.next().now_or_never() {
            seqs.push(entry.seq);
        }
        while let Some(Some(signal)) = subscription.signals.next().now_or_never() {
            offsets.push(signal.offset);
        }
        (seqs, offsets)
    }

    #[test]
    fn everyone_hears_everything_in_order() {
        let bus = Bus::new();
        let mut many: Vec<_> = (0..8).map(|_| bus.subscribe()).collect();
        for n in 0..100 {
            bus.publish(entry(n));
            bus.signal(signal(n));
        }
        let all: Vec<u64> = (0..100).collect();
        for subscription in &mut many {
            assert_eq!(held(subscription), (all.clone(), all.clone()));
        }
    }

    #[test]
    fn a_slow_subscriber_sees_a_gap_and_goes_on_while_a_quick_one_misses_nothing() {
        let bus = Bus::with_capacity(4);
        let (mut slow, mut quick) = (bus.subscribe(), bus.subscribe());
        bus.publish(entry(0));
        assert_eq!(held(&mut slow).0, [0]);
        let mut heard = held(&mut quick).0;
        for n in 1..=10 {
            bus.publish(entry(n));
            heard.extend(held(&mut quick).0);
        }
        assert_eq!(held(&mut slow).0, [7, 8, 9, 10]);
        assert_eq!(heard, (0..=10).collect::<Vec<_>>());
        bus.publish(entry(11));
        assert_eq!(held(&mut slow).0, [11]);
    }

    #[test]
    fn a_full_channel_of_signals_loses_no_entry() {
        let bus = Bus::with_capacity(4);
        let mut subscription = bus.subscribe();
        bus.publish(entry(0));
        (0..1000).for_each(|n| bus.signal(signal(n)));
        assert_eq!(held(&mut subscription), (vec![0], vec![996, 997, 998, 999]));
    }

    #[test]
    fn with_no_subscriber_nothing_is_kept_and_nothing_fails() {
        let bus = Bus::with_capacity(2);
        (0..10).for_each(|n| bus.publish(entry(n)));
        let mut late = bus.subscribe();
        assert_eq!(held(&mut late).0, [0u64; 0]);
        bus.publish(entry(10));
        assert_eq!(held(&mut late).0, [10]);
        drop(late);
        (11..20).for_each(|n| bus.publish(entry(n)));
        let mut later = bus.subscribe();
        bus.publish(entry(20));
        assert_eq!(held(&mut later).0, [20]);
    }

    #[tokio::test]
    async fn a_waiting_subscriber_is_woken_and_its_stream_ends_with_the_bus() {
        let bus = Bus::new();
        let mut subscription = bus.subscribe();
        let listening = tokio::spawn(async move {
            let mut seqs = Vec::new();
            while let Some(entry) = subscription.entries.next().await {
                seqs.push(entry.seq);
            }
            seqs
        });
        tokio::task::yield_now().await;
        (0..3).for_each(|n| bus.publish(entry(n)));
        drop(bus);
        assert_eq!(listening.await.unwrap(), [0, 1, 2]);
    }
}

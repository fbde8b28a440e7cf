//! The bus with four subscribers, beside the bare channel it is made of; measures nothing else.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use agon::bus::{Bus, CAPACITY};
use agon::ports::SignalBus;
use agon::protocol::event::{ArenaEvent, StopRequested};
use agon::protocol::{Entry, Fact, StopCause};
use divan::counter::ItemsCount;
use futures_util::{FutureExt, StreamExt};

const SUBSCRIBERS: usize = 4;
const MESSAGES: usize = 512;

fn main() {
    divan::main();
}

fn entry() -> Arc<Entry> {
    let stop = ArenaEvent::StopRequested(StopRequested { cause: StopCause::Quit });
    Arc::new(Entry::new(0, 0, Fact::new(stop).expect("a fact"), Vec::new()))
}

/// Publishes a batch and drains it at every subscriber; counts deliveries.
#[divan::bench]
fn bus(bencher: divan::Bencher<'_, '_>) {
    let bus = Bus::new();
    let mut subscriptions: Vec<_> = (0..SUBSCRIBERS).map(|_| bus.subscribe()).collect();
    let entry = entry();
    bencher.counter(ItemsCount::new(MESSAGES * SUBSCRIBERS)).bench_local(|| {
        for _ in 0..MESSAGES {
            bus.publish(Arc::clone(&entry));
        }
        for subscription in &mut subscriptions {
            while let Some(Some(entry)) = subscription.entries.next().now_or_never() {
                divan::black_box(entry);
            }
        }
    });
}

/// The same batch over the channel itself.
#[divan::bench]
fn bare_channel(bencher: divan::Bencher<'_, '_>) {
    let (mut sender, receiver) = async_broadcast::broadcast(CAPACITY);
    sender.set_overflow(true);
    sender.set_await_active(false);
    let mut receivers = vec![receiver; SUBSCRIBERS];
    let entry = entry();
    bencher.counter(ItemsCount::new(MESSAGES * SUBSCRIBERS)).bench_local(|| {
        for _ in 0..MESSAGES {
            let _ = sender.try_broadcast(Arc::clone(&entry));
        }
        for receiver in &mut receivers {
            while let Ok(entry) = receiver.try_recv() {
                divan::black_box(entry);
            }
        }
    });
}

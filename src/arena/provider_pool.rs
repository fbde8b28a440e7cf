//! The providers a session can call, how many calls each takes at once, and how fast; more may be connected while it runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use crate::ports::Provider;
use crate::protocol::effect::OutcomeBody;
use crate::protocol::event::ErrorKind;

/// Model calls under way at one provider at once.
const CALLS_PER_PROVIDER: usize = 16;

/// Milliseconds between the beginnings of two calls: the first after a provider said that they come too fast, and the most.
const GAP: (u64, u64) = (25, 2_000);

/// The longest a provider holds back the calls of others, in milliseconds.
const LONGEST_HOLD: u64 = 60_000;

/// A provider, and what lets calls to it in: held here so that a delay is no decision.
#[derive(Clone)]
pub(super) struct Pooled {
    pub provider: Arc<dyn Provider>,
    permits: Arc<Semaphore>,
    /// By model: that is what providers limit.
    paces: Arc<Mutex<BTreeMap<String, Pace>>>,
}

/// How fast calls of a model may begin. A refusal of one of them counts for all.
struct Pace {
    /// None begins before.
    hold: Instant,
    /// The next begins no earlier.
    next: Instant,
    gap: Duration,
}

impl Pooled {
    /// Waits until the provider takes one more call of this model.
    pub async fn admit(&self, model: &str) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        loop {
            let begin = self.paced(model, Pace::slot);
            sleep_until(begin).await;
            // Another call may have been asked to slow down meanwhile.
            if self.paced(model, |pace| pace.hold) <= Instant::now() {
                return permit;
            }
        }
    }

    /// Learns from how a call ended how fast the next may follow.
    pub fn heed(&self, model: &str, body: &OutcomeBody) {
        match body {
            OutcomeBody::ModelFailed(failed) if failed.kind == ErrorKind::RateLimited => {
                self.paced(model, |pace| pace.slow(failed.retry_after_ms.unwrap_or_default()));
            }
            OutcomeBody::ModelAnswered(_) => self.paced(model, Pace::quicken),
            _ => {}
        }
    }

    fn paced<T>(&self, model: &str, act: impl FnOnce(&mut Pace) -> T) -> T {
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let pace = Pace { hold: now, next: now, gap: Duration::ZERO };
        act(paces.entry(model.to_owned()).or_insert(pace))
    }
}

impl Pace {
    fn slot(&mut self) -> Instant {
        let begin = self.next.max(self.hold).max(Instant::now());
        self.next = begin + self.gap;
        begin
    }

    fn slow(&mut self, asked_ms: u64) {
        let gap = (self.gap * 2).max(Duration::from_millis(GAP.0)).min(Duration::from_millis(GAP.1));
        let hold = Instant::now() + Duration::from_millis(asked_ms.min(LONGEST_HOLD)).max(gap);
        (self.gap, self.hold) = (gap, self.hold.max(hold));
    }

    fn quicken(&mut self) {
        self.gap = Some(self.gap * 3 / 4).filter(|gap| gap.as_millis() > 5).unwrap_or_default();
    }
}

/// Providers by name.
#[derive(Default)]
pub(super) struct ProviderPool(RwLock<BTreeMap<String, Pooled>>);

impl ProviderPool {
    pub fn new(providers: &BTreeMap<String, Arc<dyn Provider>>, limits: &BTreeMap<String, usize>) -> Self {
        let pool = ProviderPool::default();
        for (name, provider) in providers {
            pool.connect(name, Arc::clone(provider), limits.get(name).copied());
        }
        pool
    }

    /// Adds a provider that takes `limit` calls at once; one of this name that is there already stays.
    pub fn connect(&self, name: &str, provider: Arc<dyn Provider>, limit: Option<usize>) {
        let permits = limit.unwrap_or(CALLS_PER_PROVIDER).max(1);
        let mut open = self.0.write().unwrap_or_else(PoisonError::into_inner);
        open.entry(name.to_owned()).or_insert_with(|| Pooled {
            provider,
            permits: Arc::new(Semaphore::new(permits)),
            paces: Arc::default(),
        });
    }

    pub fn get(&self, name: &str) -> Option<Pooled> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

/// The provider's name: what stands before the first slash of `PROVIDER/MODEL`.
pub(super) fn provider_of(model: &str) -> &str {
    model.split_once('/').map_or(model, |(provider, _)| provider)
}

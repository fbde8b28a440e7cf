//! The providers a session can call and how many calls each takes at once; more may be connected while it runs.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Semaphore;

use crate::ports::Provider;

/// Model calls under way at one provider at once.
const CALLS_PER_PROVIDER: usize = 16;

/// A provider and its permits: held here so that a delay is no decision.
type Pooled = (Arc<dyn Provider>, Arc<Semaphore>);

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
        open.entry(name.to_owned()).or_insert_with(|| (provider, Arc::new(Semaphore::new(permits))));
    }

    pub fn get(&self, name: &str) -> Option<Pooled> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

/// The provider's name: what stands before the first slash of `PROVIDER/MODEL`.
pub(super) fn provider_of(model: &str) -> &str {
    model.split_once('/').map_or(model, |(provider, _)| provider)
}

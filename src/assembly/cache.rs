//! The team cache as an arena and the command line see it: made from the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::assembly::{SystemClock, WireError, providers};
use crate::config::{CacheTable, Config};
use crate::ports::{FoundRun, TeamCache};
use crate::protocol::expand::digest_of;
use crate::protocol::spec::{CacheSpec, ModelSpec};
use crate::teamcache::{Removed, Row, RunStore, Settings, Stats};

/// The recorded runs of a user.
pub struct Runs {
    store: RunStore,
    folder: PathBuf,
    is_on: bool,
}

impl Runs {
    /// Those of a configuration, switched off or not.
    pub fn of(config: &Config) -> Self {
        let table = config.cache();
        let defaults = CacheTable::defaults();
        let number = |value: Option<u64>, default: Option<u64>| value.or(default).unwrap_or_default();
        let folder = config.places().cache.join("team");
        let settings = Settings {
            folder: folder.clone(),
            ttl: Duration::from_secs(number(table.ttl_hours, defaults.ttl_hours).saturating_mul(3600)),
            max_bytes: number(table.max_mib, defaults.max_mib).saturating_mul(1024 * 1024),
            refresh: table.refresh.unwrap_or_default(),
        };
        Runs { store: RunStore::new(settings, Arc::new(SystemClock)), folder, is_on: is_on(config) }
    }

    /// False when squads neither look runs up nor store them.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Where they are.
    pub fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// The cache in numbers.
    pub fn stats(&self) -> Result<Stats, WireError> {
        Ok(self.store.stats()?)
    }

    /// Every run, the last used first.
    pub fn list(&self) -> Result<Vec<Row>, WireError> {
        Ok(self.store.list()?)
    }

    /// The run whose key starts with `prefix`, with its whole key.
    pub fn show(&self, prefix: &str) -> Result<(String, FoundRun), WireError> {
        Ok(self.store.show(prefix)?)
    }

    /// Removes what is expired or damaged, and what is too much.
    pub fn prune(&self) -> Result<Removed, WireError> {
        Ok(self.store.prune()?)
    }

    /// Removes every run.
    pub fn clear(&self) -> Result<Removed, WireError> {
        Ok(self.store.clear()?)
    }
}

/// What squads on these models need to know of the cache; none when it is switched off, and none with the
/// built-in scripts: a demonstration that is over at once shows nothing.
pub(super) fn spec(config: &Config, models: &[ModelSpec]) -> Option<CacheSpec> {
    if !is_on(config) {
        return None;
    }
    let mut providers = BTreeMap::new();
    for model in models {
        let name = model.name.split('/').next().unwrap_or_default();
        if providers::is_builtin(config, name) {
            return None;
        }
        if !providers.contains_key(name) {
            providers.insert(name.to_owned(), providers::identity(config, name)?);
        }
    }
    // A container gets what its settings name; what they name is in no sandbox's own words.
    let docker = config.docker().ok();
    let named = docker.iter().flat_map(|table| &table.env);
    let named: BTreeMap<&str, Option<&str>> =
        named.map(|name| (name.0.as_str(), config.environment().get(&name.0))).collect();
    let environment = Some(digest_of(&(crate::sandbox::passed_on(), named)));
    Some(CacheSpec { providers, environment })
}

/// The cache of one new session; none when it is switched off.
pub(super) fn port(config: &Config) -> Option<Arc<dyn TeamCache>> {
    is_on(config).then(|| Arc::new(Runs::of(config).store) as Arc<dyn TeamCache>)
}

/// True unless it is switched off, be it by a cache that may hold nothing or a life of no time.
fn is_on(config: &Config) -> bool {
    let table = config.cache();
    table.enabled.unwrap_or(true) && table.max_mib != Some(0) && table.ttl_hours != Some(0)
}

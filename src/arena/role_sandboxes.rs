//! Where the roles of a squad run their commands apart from the others; starts no sandbox.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ports::Sandbox;

/// Sandboxes that belong to one role each, beside the session's. Shared by an arena and whoever opens more.
#[derive(Default)]
pub struct RoleSandboxes(Mutex<State>);

#[derive(Default)]
struct State {
    of_roles: BTreeMap<String, Arc<dyn Sandbox>>,
    /// Every one that was ever given, to be closed in the end.
    given: Vec<Arc<dyn Sandbox>>,
}

impl RoleSandboxes {
    /// Gives these roles these places, and takes every other's away. A call that runs goes on where it is.
    pub fn set(&self, of_roles: BTreeMap<String, Arc<dyn Sandbox>>) {
        let mut state = self.state();
        for sandbox in of_roles.values() {
            if !state.given.iter().any(|given| Arc::ptr_eq(given, sandbox)) {
                state.given.push(Arc::clone(sandbox));
            }
        }
        state.of_roles = of_roles;
    }

    /// The place of a role.
    pub fn get(&self, role: &str) -> Option<Arc<dyn Sandbox>> {
        self.state().of_roles.get(role).cloned()
    }

    /// Takes all of them away, for closing: each once, and none that is the session's own.
    pub(super) fn take_all(&self, own: &Arc<dyn Sandbox>) -> Vec<Arc<dyn Sandbox>> {
        let state = std::mem::take(&mut *self.state());
        state.given.into_iter().filter(|given| !Arc::ptr_eq(given, own)).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

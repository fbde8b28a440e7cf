//! Runs that were prepared and wait for their approval, so that nothing is computed twice; a bounded cache of one session.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Held;
use crate::ports::Run;
use crate::protocol::effect::ToolCall;

/// Most runs that wait at once, and most bytes they hold together.
const MOST: usize = 64;
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// The runs that wait, oldest first. What is not here any more is prepared again.
#[derive(Default)]
pub struct Plans(Mutex<VecDeque<Waiting>>);

/// One run with what it was made from: it counts only for the same call of the same tool under the same settings.
struct Waiting {
    tool: Arc<Held>,
    call: ToolCall,
    digest: String,
    bytes: usize,
    run: Run,
}

impl Plans {
    pub(super) fn keep(&self, tool: Arc<Held>, call: ToolCall, digest: String, bytes: usize, run: Run) {
        let mut waiting = self.locked();
        waiting.retain(|one| one.call.tool_use != call.tool_use);
        let call = ToolCall { bases: Vec::new(), ..call };
        waiting.push_back(Waiting { tool, call, digest, bytes, run });
        while waiting.len() > MOST || waiting.iter().map(|one| one.bytes).sum::<usize>() > MOST_BYTES {
            waiting.pop_front();
        }
    }

    /// Gives the run of this call out, once.
    pub(super) fn take(&self, tool: &Arc<Held>, call: &ToolCall, digest: &str) -> Option<Run> {
        let mut waiting = self.locked();
        let at = waiting.iter().position(|one| one.call.tool_use == call.tool_use)?;
        let one = waiting.remove(at)?;
        (one.digest == digest && Arc::ptr_eq(&one.tool, tool) && is_same(&one.call, call)).then_some(one.run)
    }

    fn locked(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True where nothing that a run was made from has changed. The files it has seen are compared when it writes.
fn is_same(one: &ToolCall, other: &ToolCall) -> bool {
    let of = |call: &ToolCall| {
        (call.spark, call.timeout_ms, call.output_cap, call.place.clone(), call.denied.clone())
    };
    of(one) == of(other) && one.tool == other.tool && one.args == other.args
}

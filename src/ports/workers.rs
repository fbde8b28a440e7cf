//! Who carries out ordered work, behind a port: given an order with all it needs, they say what came of it.

use std::sync::Arc;

use crate::ports::Live;
use crate::protocol::{CallId, Outcome, Work};

/// Where one attempt of a call says what it does and what came of it.
///
/// What is said here is raw: the arena redacts, cuts, keeps blobs and holds deadlines. The first outcome counts;
/// another one is recorded as ignored. A sink that is dropped without an outcome ends its call as failed.
pub trait Sink: Live {
    /// The one outcome of this attempt.
    fn end(&self, outcome: Outcome);
}

/// Carries out ordered work of the kinds it is registered for.
///
/// `start` must return at once and may be called again for the same call with a later attempt. After a `cancel` the
/// work ends as soon as it can and still gives its outcome; a second `cancel` of the same attempt says that nobody
/// waits for it any more. Nothing here decides: a failure is an outcome too.
pub trait Workers: Send + Sync {
    /// Starts one attempt.
    fn start(&self, work: Work, sink: Arc<dyn Sink>);
    /// Tells one attempt to stop.
    fn cancel(&self, call: CallId, attempt: u32);
}

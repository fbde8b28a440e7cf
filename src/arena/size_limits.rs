//! What fits into a line of the log: a longer command is refused, a longer outcome gives way to one that says so.

use serde::Serialize;

use crate::protocol::event::ArenaEvent;
use crate::protocol::{OutcomeBody, Part};

/// Bytes a fact may have, so that the decisions beside it still fit into its line.
const MOST: usize = 700 * 1024;

/// Tool calls of one answer: what is decided on each of them has a place beside it.
const MOST_CALLS: usize = 128;

/// Why an outcome cannot be recorded, if so.
pub(super) fn excess(body: &OutcomeBody) -> Option<String> {
    let calls = match body {
        OutcomeBody::ModelAnswered(reply) => {
            reply.message.iter().filter(|part| matches!(part, Part::Call { .. })).count()
        }
        _ => 0,
    };
    match bytes_over(body) {
        Some(bytes) => Some(format!("what came of it has {bytes} bytes; a log entry may have {MOST}")),
        None => (calls > MOST_CALLS).then(|| {
            format!("the answer asks for {calls} tool calls at once; at most {MOST_CALLS} are taken")
        }),
    }
}

/// A command's fact, refused before the session sees it when it is too long.
pub(super) fn command(fact: ArenaEvent) -> Result<ArenaEvent, String> {
    match bytes_over(&fact) {
        None => Ok(fact),
        Some(bytes) => Err(format!("it has {bytes} bytes as a log entry; at most {MOST} fit")),
    }
}

/// The size of what is too long.
fn bytes_over(value: &impl Serialize) -> Option<usize> {
    // Protocol values always serialise.
    let bytes = serde_json::to_vec(value).map(|json| json.len()).unwrap_or_default();
    (bytes > MOST).then_some(bytes)
}

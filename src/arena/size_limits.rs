//! What fits into a line of the log: a longer command is refused, a longer outcome gives way to one that says so.

use serde::Serialize;

use crate::protocol::event::ArenaEvent;

/// Bytes a fact may have, so that the decisions beside it still fit into its line.
pub(super) const MOST: usize = 700 * 1024;

/// A command's fact, refused before the session sees it when it is too long.
pub(super) fn command(fact: ArenaEvent) -> Result<ArenaEvent, String> {
    match bytes_over(&fact) {
        None => Ok(fact),
        Some(bytes) => Err(format!("it has {bytes} bytes as a log entry; at most {MOST} fit")),
    }
}

/// The size of what is too long.
pub(super) fn bytes_over(value: &impl Serialize) -> Option<usize> {
    // Protocol values always serialise.
    let bytes = serde_json::to_vec(value).map(|json| json.len()).unwrap_or_default();
    (bytes > MOST).then_some(bytes)
}

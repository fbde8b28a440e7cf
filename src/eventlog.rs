//! The durable log of a session: one JSONL file, hash-chained, one writer; knows no rule of any session.
//!
//! ```text
//! line  = {"v":2,"seq":N,"at":<µs>,"events":[…],"h":"<43 base64url characters>"}\n
//! h     = SHA-256( previous h (32 raw bytes) ‖ all bytes of this line before its last 51 )
//! first = SHA-256( "agon-log-2" ‖ root session id )
//! ```
//!
//! The last 51 bytes are `,"h":"` + 43 characters + `"}`; the newline is not counted, and the hash is found
//! by its place, never by searching. A chain shows damage, not authorship, and cannot show a tail that was
//! cut off at a line's end: who wants to know that compares the head and the count.

pub mod archive;
pub mod blobs;
pub mod chain;
pub mod damage;
pub mod error;
pub mod fs;
pub mod lines;
pub mod open;
pub mod random_access;
pub mod reader;
pub mod session_status;
pub mod store;
pub mod summary;
pub mod writer;

pub use error::LogError;
pub use open::Opened;
pub use reader::{Ending, EntryReader};
pub use store::{SessionPath, SessionStore};
pub use summary::SessionSummary;
pub use writer::SessionLog;

/// Most bytes a line may have, newline included. A longer one is refused when written, damage when read.
pub const MAX_LINE: usize = 768 * 1024;

/// Name of the log inside a session's folder.
pub const LOG_NAME: &str = "log-000000.jsonl";

/// Name of the lock file inside a session's folder; it holds the writer's process id.
pub const LOCK_NAME: &str = "lock";

//! Folds of entries that views read; never decides and never does I/O.
//!
//! A projection has `apply(&Entry)` and, where live text matters, `hint(&Signal)`. It skips void facts, keeps
//! references instead of bodies, and accepts any order of events without a panic.

pub mod answering;
pub mod board;
pub mod cache_summary;
pub mod calls;
pub mod changes;
pub mod context_usage;
pub mod costs;
pub mod matrix;
pub mod partials;
pub mod phrases;
pub mod report;
pub mod reservations;
pub mod safe_text;
pub mod squad;
pub mod telling;
pub mod transcript;
pub mod turns;
pub mod typed;
pub mod visible;
pub mod why;
pub mod wrapping;

pub use board::Board;
pub use context_usage::ContextUsage;
pub use costs::Costs;
pub use matrix::Matrix;
pub use report::Report;
pub use transcript::Transcript;
pub use turns::Turns;
pub use why::Reasons;

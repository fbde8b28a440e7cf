//! Folds of entries that views read; never decides and never does I/O.
//!
//! A projection has `apply(&Entry)` and, where live text matters, `hint(&Signal)`. It skips void facts, keeps
//! references instead of bodies, and accepts any order of events without a panic.

pub mod about;
pub mod board;
pub mod caching;
pub mod calls;
pub mod costs;
pub mod gauge;
pub mod ledger;
pub mod lines;
pub mod matrix;
pub mod partials;
pub mod report;
pub mod safe_text;
pub mod squad;
pub mod transcript;
pub mod typed;
pub mod why;
pub mod words;

pub use board::Board;
pub use costs::Costs;
pub use gauge::Gauge;
pub use matrix::Matrix;
pub use report::Report;
pub use transcript::Transcript;
pub use why::Reasons;

//! Folds of entries that views read; never decides and never does I/O.

pub mod safe_text;

//! What several tests share.

pub mod env;

//! What several tests share.

pub mod env;
pub mod world;

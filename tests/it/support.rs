//! What the tests of several modules share: environments and small makers of values.

pub mod env;
pub mod world;

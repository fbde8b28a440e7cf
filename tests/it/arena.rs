//! The arena in process: real log, real tools, real files; what goes wrong becomes an outcome and nothing else.

mod faults;
mod gates;
mod hosts;
pub(crate) mod kit;
mod parts;
mod scorers;
mod sources;
mod turns;
mod workers;

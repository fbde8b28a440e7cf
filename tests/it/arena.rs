//! The arena in process: real log, real tools, real files; what goes wrong becomes an outcome and nothing else.

mod faults;
mod kit;
mod scorers;
mod turns;

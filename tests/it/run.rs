//! The real program against real servers: the main job, and every bad input with its exit code and words.

mod answers;
mod disk;
mod job;
pub(crate) mod kit;
mod logs;
mod models;
mod order;
mod places;
mod servers;
mod signals;
mod storm;
mod traps;
mod window;

pub(crate) use kit::served;

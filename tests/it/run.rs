//! The real program against real servers: the main job, and every bad input with its exit code and words.

mod job;
mod kit;
mod logs;
mod models;
mod places;
mod signals;

//! agon: an event-sourced arena for AI agents. The map of the crate, lowest floor first.

pub mod protocol;

pub mod projection;
pub mod session;

pub mod ports;

pub mod bus;
pub mod eventlog;
pub mod library;
pub mod provider;
pub mod sandbox;
pub mod toolvault;
pub mod workspace;

pub mod arena;

pub mod config;
pub mod wiring;

pub mod cli;

//! agon: an event-sourced arena for AI agents. The map of the crate, lowest floor first.
//!
//! To embed agon, see the example of [`ArenaBuilder`].

pub mod protocol;

pub mod projection;
pub mod session;

pub mod host_files;
pub mod ports;
pub mod temp_names;

pub mod bus;
pub mod eventlog;
pub mod library;
pub mod mcp;
pub mod provider;
pub mod sandbox;
pub mod teamcache;
pub mod toolvault;
pub mod workspace;

pub mod arena;

pub mod assembly;
pub mod config;

pub mod host;

pub mod cli;
pub mod tui;

pub use arena::{Arena, Ending};
pub use assembly::{ArenaBuilder, sandbox_entry};
pub use host::{Handle, Host};

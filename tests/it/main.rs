//! All integration tests in one binary; `house` fails when a file of this folder is not listed here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

mod architecture;
mod arena;
mod cli;
mod config;
mod conformance;
mod crash;
mod debate;
mod demo;
mod dependencies;
mod eventlog;
mod host;
mod house;
mod litellm;
mod mcp;
mod projection;
mod protocol;
mod provider_anthropic;
mod provider_openai;
mod provider_responses;
mod provider_script;
mod report;
mod run;
mod sandbox;
mod session;
mod session_properties;
mod squad;
mod support;
mod teamcache;
mod toolvault;
mod tui;
mod undo;
mod workspace;

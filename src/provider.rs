//! Adapters that ask models; they know wire formats and nothing of sessions, files or retries.

pub mod anthropic;
mod call_ids;
mod exchange;
mod failure;
mod http;
mod limits;
mod number;
pub mod openai;
mod refusal;
pub mod script;
mod secret;
mod server;
pub mod sse;
pub mod tokens;

pub use http::Timeouts;
pub use secret::Secret;
pub use server::{ServerConfig, ServerConfigError};

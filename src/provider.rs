//! Adapters that ask models; they know wire formats and nothing of sessions, files or retries.

pub mod anthropic;
mod call_ids;
mod catalog;
mod exchange;
mod failure;
mod http;
mod limits;
#[cfg(feature = "llama")]
pub mod llama;
mod number;
pub mod openai;
pub mod pull;
mod refusal;
pub mod responses;
pub mod script;
mod secret;
mod server;
pub mod sse;
mod think;
pub mod tokens;
mod written;

pub use http::{Timeouts, client as http_client};
pub use secret::Secret;
pub use server::{Server, ServerConfig, ServerConfigError};

/// A wire format: its name in the configuration and what speaks it.
pub struct Format {
    /// `kind` of a provider.
    pub kind: &'static str,
    /// Makes a provider of a server's address.
    pub connect: fn(ServerConfig) -> Result<Server, ServerConfigError>,
}

/// The wire formats. A new one is a file and a row.
pub const FORMATS: &[Format] = &[
    Format { kind: "openai", connect: openai::connect },
    Format { kind: "openai-responses", connect: responses::connect },
    Format { kind: "anthropic", connect: anthropic::connect },
];

//! Adapters that ask models; they know wire formats and nothing of sessions, files or retries.

mod failure;
mod http;
mod limits;
pub mod openai;
mod refusal;
pub mod script;
mod secret;
pub mod sse;
mod think;
pub mod tokens;
mod window;

pub use http::Timeouts;
pub use secret::Secret;
pub use window::Window;

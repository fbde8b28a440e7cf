//! agon: an event-sourced arena for AI agents. The map of the crate, lowest floor first.
//!
//! An arena from Rust, with a tool and a persona of one's own and a script for a model:
//!
//! ```
//! use std::sync::Arc;
//!
//! use agon::ports::{Preparation, Sandbox, Tool, ToolEnd};
//! use agon::protocol::effect::ToolCall;
//! use agon::protocol::spec::{Mode, ModelSpec, PersonaSpec, Risk, ToolSpec};
//! use agon::protocol::{ArenaEvent, Command, StopCause};
//! use agon::provider::script::Script;
//! use agon::{ArenaBuilder, Ending};
//! use tokio_stream::StreamExt;
//!
//! /// Says how many words a text has.
//! struct CountWords;
//!
//! #[async_trait::async_trait]
//! impl Tool for CountWords {
//!     fn spec(&self) -> ToolSpec {
//!         ToolSpec {
//!             name: "count_words".to_owned(),
//!             description: "Counts the words of a text.".to_owned(),
//!             schema: serde_json::json!({
//!                 "type": "object",
//!                 "properties": {"text": {"type": "string"}},
//!                 "required": ["text"]
//!             }),
//!             risk: Risk::Read,
//!             repeatable: true,
//!             output_cap: 1000,
//!         }
//!     }
//!
//!     async fn prepare(&self, call: &ToolCall, _: &dyn Sandbox) -> Result<Preparation, String> {
//!         let text = call.args["text"].as_str().unwrap_or_default().to_owned();
//!         let words = text.split_whitespace().count();
//!         Ok(Preparation::new("count words", Risk::Read, move |_| {
//!             Box::pin(async move { ToolEnd::ok(format!("{words} words")) })
//!         }))
//!     }
//! }
//!
//! const SCRIPT: &str = r#"
//! [[answer]]
//! calls = [{ tool = "count_words", args = { text = "all that is gold" } }]
//!
//! [[answer]]
//! expect = "4 words"
//! text = "four"
//! "#;
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let workspace = tempfile::tempdir()?;
//! let state = tempfile::tempdir()?;
//! let running = ArenaBuilder::new(workspace.path(), state.path())
//!     .provider("mock", Arc::new(Script::from_toml("mock", SCRIPT)?))
//!     .model(ModelSpec::named("mock/any"))
//!     .persona(PersonaSpec::with_text("counter", "You count."))
//!     .tool(Arc::new(CountWords))
//!     .open()
//!     .await?;
//! let arena = running.arena;
//! let mut news = arena.subscribe();
//! let text = "How many words has `all that is gold`?".to_owned();
//! arena.submit(Command::Prompt { text, mode: Mode::Solo, schema: None }).await?;
//! while let Some(entry) = news.entries.next().await {
//!     if entry.events.iter().any(|event| matches!(event, ArenaEvent::TurnClosed(_))) {
//!         break;
//!     }
//! }
//! arena.submit(Command::Stop { cause: StopCause::Finished }).await?;
//! assert!(matches!(arena.ended().await, Ending::Sealed(Some(closed)) if closed.answer.is_some()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod protocol;

pub mod projection;
pub mod session;

pub mod host_files;
pub mod ports;
pub mod temp_names;

pub mod bus;
pub mod eventlog;
pub mod library;
pub mod provider;
pub mod sandbox;
pub mod teamcache;
pub mod toolvault;
pub mod workspace;

pub mod arena;

pub mod assembly;
pub mod config;

pub mod cli;
pub mod tui;

pub use arena::{Arena, Ending};
pub use assembly::{ArenaBuilder, sandbox_entry};

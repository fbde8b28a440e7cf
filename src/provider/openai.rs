//! Asks any server that speaks OpenAI's chat completions; knows no session, retries nothing.

mod answer;
mod calls;
mod dialect;
mod request;

use std::fmt;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::ports::{Live, OfferedModel, Provider};
use crate::protocol::event::{ModelFailed, ModelReply};
use crate::protocol::message::Request;
use crate::provider::http::Endpoint;
pub(super) use crate::provider::openai::answer::Answer;
pub use crate::provider::openai::dialect::{DIALECTS, Dialect};
pub(super) use crate::provider::openai::request::is_strict;
use crate::provider::openai::request::{Host, Writer};
use crate::provider::server::{ServerConfig, ServerConfigError};
use crate::provider::written::Written;
use crate::provider::{catalog, exchange};

/// A model source behind an OpenAI-compatible endpoint.
///
/// What differs between hosts is in [`DIALECTS`].
/// `thinking: false` needs no word here: nothing that was dropped is ever asked for in this format.
pub struct OpenAi {
    endpoint: Endpoint,
    bodies: Bodies,
}

/// Writes the requests of a host.
pub(super) struct Bodies {
    host: Host,
    written: Written<Writer>,
}

impl Bodies {
    fn new(dialect: &'static Dialect, opaque_kind: String) -> Self {
        Bodies { host: Host { dialect, opaque_kind }, written: Written::default() }
    }

    /// For what speaks this dialect inside this process.
    #[cfg(feature = "llama")]
    pub fn in_process(dialect: &str) -> Self {
        Bodies::new(Dialect::named(dialect).unwrap_or(Dialect::of("", "")), String::new())
    }

    /// The body of a request.
    pub fn write(&self, request: &Request) -> Vec<u8> {
        let begin = || Writer::new(&self.host, &request.pictures);
        let write = |writer: &Writer| request::body(request, writer);
        self.written.with(String::new(), &request.messages, &request.pictures, begin, write)
    }
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi").field("peer", &self.endpoint.peer).finish_non_exhaustive()
    }
}

impl OpenAi {
    /// Checks the configuration; opens no connection and reads no certificate yet.
    pub fn new(config: ServerConfig) -> Result<Self, ServerConfigError> {
        let (name, named) = (config.name.clone(), config.dialect.clone());
        let bearer = config.api_key.as_ref().map(|key| format!("Bearer {}", key.reveal()));
        let own: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
        let endpoint = config.endpoint(&["chat", "completions"], &own)?;
        let host = endpoint.url.host_str().unwrap_or_default();
        let dialect = match named {
            None => Dialect::of(host, &name),
            Some(named) => Dialect::named(&named).ok_or_else(|| {
                let known = DIALECTS.iter().map(|row| format!("`{}`", row.name)).collect::<Vec<_>>();
                ServerConfigError::Dialect { name, dialect: named, known: known.join(", ") }
            })?,
        };
        let bodies = Bodies::new(dialect, format!("openai/{host}"));
        Ok(OpenAi { endpoint, bodies })
    }
}

#[async_trait]
impl Provider for OpenAi {
    async fn call(
        &self,
        request: &Request,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelFailed> {
        let (body, Host { dialect, opaque_kind }) = (self.bodies.write(request), &self.bodies.host);
        let answer = Answer::new(request::forced(request, dialect), opaque_kind.clone());
        let ended = exchange::call(&self.endpoint, request, body, answer, live, cancel).await;
        ended.map_err(|failed| exchange::droppable(failed, |name| request::can_drop(request, dialect, name)))
    }

    async fn models(&self) -> Result<Vec<OfferedModel>, ModelFailed> {
        catalog::list(&self.endpoint).await
    }

    async fn model(&self, name: &str) -> Option<OfferedModel> {
        catalog::describe(&self.endpoint, name).await
    }
}

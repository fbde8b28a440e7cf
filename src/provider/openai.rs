//! Asks any server that speaks OpenAI's chat completions; knows no session, retries nothing.

mod answer;
mod calls;
mod dialect;
mod request;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::ports::Live;
use crate::protocol::event::{ModelFailed, ModelReply};
use crate::protocol::message::Request;
use crate::provider::exchange;
use crate::provider::http::{Endpoint, Post};
pub(super) use crate::provider::openai::answer::Answer;
pub use crate::provider::openai::dialect::{DIALECTS, Dialect};
pub(super) use crate::provider::openai::request::is_strict;
use crate::provider::openai::request::{Host, Writer};
use crate::provider::server::{Server, ServerConfig, ServerConfigError, Speaks};
use crate::provider::written::Written;

/// Chat completions as a host takes them. What differs between hosts is in [`DIALECTS`].
///
/// `thinking: false` needs no word here: nothing that was dropped is ever asked for in this format.
pub(super) struct Completions {
    host: Host,
    written: Written<Writer>,
}

impl Completions {
    fn new(dialect: &'static Dialect, opaque_kind: String) -> Self {
        Completions { host: Host { dialect, opaque_kind }, written: Written::default() }
    }

    /// For what speaks this dialect inside this process.
    #[cfg(feature = "llama")]
    pub fn in_process(dialect: &str) -> Self {
        Completions::new(Dialect::named(dialect).unwrap_or(Dialect::of("", "")), String::new())
    }

    /// The body of a request.
    pub fn write(&self, request: &Request) -> Vec<u8> {
        let begin = || Writer::new(&self.host, &request.pictures);
        let write = |writer: &Writer| request::body(request, writer);
        self.written.with(String::new(), &request.messages, &request.pictures, begin, write)
    }
}

/// A server of chat completions.
pub fn connect(config: ServerConfig) -> Result<Server, ServerConfigError> {
    let (name, named, bearer) = (config.name.clone(), config.dialect.clone(), config.bearer());
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
    let speaks = Box::new(Completions::new(dialect, format!("openai/{host}")));
    Ok(Server { endpoint, speaks })
}

#[async_trait]
impl Speaks for Completions {
    async fn call(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelFailed> {
        let (body, Host { dialect, opaque_kind }) = (self.write(request), &self.host);
        let offered = request.tools.iter().map(|tool| tool.name.clone()).collect();
        let answer = Answer::new(request::forced(request, dialect), offered, opaque_kind.clone());
        let headers = if dialect.copilot { request::copilot_headers(request, &body) } else { Vec::new() };
        let post = Post { json: body, headers };
        let ended = exchange::call(endpoint, request, post, answer, live, cancel).await;
        ended.map_err(|failed| exchange::droppable(failed, |name| request::can_drop(request, dialect, name)))
    }
}

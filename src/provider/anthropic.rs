//! Asks any server that speaks Anthropic's Messages API; knows no session, retries nothing.

mod answer;
mod request;
mod schema;

use std::fmt;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::ports::{Live, Provider, Window};
use crate::protocol::event::{ModelFailed, ModelReply};
use crate::protocol::message::Request;
use crate::provider::anthropic::answer::Answer;
use crate::provider::anthropic::request::Sent;
use crate::provider::exchange;
use crate::provider::http::Endpoint;
use crate::provider::server::{ServerConfig, ServerConfigError};
use crate::provider::window;

/// The version of the API whose format this is.
const VERSION: &str = "2023-06-01";

/// A model source behind the Messages API.
///
/// Thinking goes back with its signature, to the model it came from and only while all that was sent before it is
/// unchanged: the API refuses any other.
pub struct Anthropic {
    endpoint: Endpoint,
    /// Host without its port: what opaque parts are marked with, before the model's name.
    host: String,
}

impl fmt::Debug for Anthropic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Anthropic").field("peer", &self.endpoint.peer).finish_non_exhaustive()
    }
}

impl Anthropic {
    /// Checks the configuration; opens no connection and reads no certificate yet.
    pub fn new(config: ServerConfig) -> Result<Self, ServerConfigError> {
        let config = config.without_dialect()?;
        let key = config.api_key.clone();
        let mut own = vec![("anthropic-version", VERSION)];
        own.extend(key.as_ref().map(|key| ("x-api-key", key.reveal())));
        let endpoint = config.endpoint(&["messages"], &own)?;
        let host = endpoint.url.host_str().unwrap_or_default().to_owned();
        Ok(Anthropic { endpoint, host })
    }
}

#[async_trait]
impl Provider for Anthropic {
    async fn call(
        &self,
        request: &Request,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelFailed> {
        let opaque_kind = format!("anthropic/{}/{}", self.host, exchange::model_name(request));
        let Sent { body, forced, prefix } = request::write(request, &opaque_kind);
        let answer = Answer::new(forced, opaque_kind, prefix);
        let bytes = body.to_string().into_bytes();
        let ended = exchange::call(&self.endpoint, request, bytes, answer, live, cancel).await;
        ended.map_err(|mut failed| {
            failed.refused.retain(|name| request::can_drop(&body, name));
            failed
        })
    }

    async fn window(&self, model: &str) -> Option<Window> {
        window::ask(&self.endpoint, model).await
    }
}

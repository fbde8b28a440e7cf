//! Asks any server that speaks Anthropic's Messages API; knows no session, retries nothing.

mod answer;
mod request;
mod schema;

use std::fmt;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::ports::{Live, OfferedModel, Provider};
use crate::protocol::event::{ModelFailed, ModelReply};
use crate::protocol::message::Request;
use crate::provider::anthropic::answer::Answer;
use crate::provider::anthropic::request::{Conversations, Sent};
use crate::provider::http::Endpoint;
use crate::provider::server::{ServerConfig, ServerConfigError};
use crate::provider::{catalog, exchange};

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
    written: Conversations,
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
        Ok(Anthropic { endpoint, host, written: Conversations::default() })
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
        let Sent { body, droppable, forced, prefix } = request::write(request, &opaque_kind, &self.written);
        let answer = Answer::new(forced, opaque_kind, prefix);
        let ended = exchange::call(&self.endpoint, request, body, answer, live, cancel).await;
        ended.map_err(|mut failed| {
            // Proxies name what they made of thinking.
            failed
                .refused
                .iter_mut()
                .filter(|name| *name == "reasoning")
                .for_each(|name| *name = "thinking".into());
            exchange::droppable(failed, |name| droppable.contains(&name))
        })
    }

    async fn models(&self) -> Result<Vec<OfferedModel>, ModelFailed> {
        catalog::list(&self.endpoint).await
    }

    async fn model(&self, name: &str) -> Option<OfferedModel> {
        catalog::describe(&self.endpoint, name).await
    }
}

//! Asks any server that speaks OpenAI's Responses API; keeps nothing on the server, retries nothing.

mod answer;
mod request;

use std::fmt;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::ports::{Live, OfferedModel, Provider};
use crate::protocol::event::{ModelFailed, ModelReply};
use crate::protocol::message::Request;
use crate::provider::http::Endpoint;
use crate::provider::responses::answer::Answer;
use crate::provider::responses::request::{Conversations, Sent};
use crate::provider::server::{ServerConfig, ServerConfigError};
use crate::provider::{catalog, exchange};

/// A model source behind the Responses API.
///
/// Reasoning comes encrypted and goes back as it came, to the model it came from and to no other.
pub struct Responses {
    endpoint: Endpoint,
    /// Host without its port: what opaque parts are marked with, before the model's name.
    host: String,
    written: Conversations,
}

impl fmt::Debug for Responses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responses").field("peer", &self.endpoint.peer).finish_non_exhaustive()
    }
}

impl Responses {
    /// Checks the configuration; opens no connection and reads no certificate yet.
    pub fn new(config: ServerConfig) -> Result<Self, ServerConfigError> {
        let config = config.without_dialect()?;
        let bearer = config.api_key.as_ref().map(|key| format!("Bearer {}", key.reveal()));
        let own: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
        let endpoint = config.endpoint(&["responses"], &own)?;
        let host = endpoint.url.host_str().unwrap_or_default().to_owned();
        Ok(Responses { endpoint, host, written: Conversations::default() })
    }
}

#[async_trait]
impl Provider for Responses {
    async fn call(
        &self,
        request: &Request,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelFailed> {
        let opaque_kind = format!("openai-responses/{}/{}", self.host, exchange::model_name(request));
        let Sent { body, droppable } = request::write(request, &opaque_kind, &self.written);
        let answer = Answer::new(request::forced(request), opaque_kind);
        let ended = exchange::call(&self.endpoint, request, body, answer, live, cancel).await;
        ended.map_err(|failed| exchange::droppable(failed, |name| droppable.contains(&name)))
    }

    async fn models(&self) -> Result<Vec<OfferedModel>, ModelFailed> {
        catalog::list(&self.endpoint).await
    }

    async fn model(&self, name: &str) -> Option<OfferedModel> {
        catalog::describe(&self.endpoint, name).await
    }
}

//! Asks any server that speaks OpenAI's Responses API; keeps nothing on the server, retries nothing.

mod answer;
mod request;

use std::fmt;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::ports::{Live, Provider, Window};
use crate::protocol::event::{ModelFailed, ModelReply};
use crate::protocol::message::Request;
use crate::provider::exchange;
use crate::provider::http::Endpoint;
use crate::provider::responses::answer::Answer;
use crate::provider::server::{ServerConfig, ServerConfigError};
use crate::provider::window;

/// A model source behind the Responses API.
///
/// Reasoning comes encrypted and goes back as it came, to the model it came from and to no other.
pub struct Responses {
    endpoint: Endpoint,
    /// Host without its port: what opaque parts are marked with, before the model's name.
    host: String,
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
        Ok(Responses { endpoint, host })
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
        let body = request::body(request, &opaque_kind);
        let answer = Answer::new(request::forced(request), opaque_kind);
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

//! Asks any server that speaks OpenAI's Responses API; keeps nothing on the server, retries nothing.

mod answer;
mod request;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::ports::Live;
use crate::protocol::event::{ModelFailed, ModelReply};
use crate::protocol::message::Request;
use crate::provider::exchange;
use crate::provider::http::Endpoint;
use crate::provider::responses::answer::Answer;
use crate::provider::responses::request::{Conversations, Sent};
use crate::provider::server::{Server, ServerConfig, ServerConfigError, Speaks};

/// The Responses API.
///
/// Reasoning comes encrypted and goes back as it came, to the model it came from and to no other.
struct Responses {
    /// Host without its port: what opaque parts are marked with, before the model's name.
    host: String,
    written: Conversations,
}

/// A server of the Responses API.
pub fn connect(config: ServerConfig) -> Result<Server, ServerConfigError> {
    let config = config.without_dialect()?;
    let bearer = config.bearer();
    let own: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
    let endpoint = config.endpoint(&["responses"], &own)?;
    let host = endpoint.url.host_str().unwrap_or_default().to_owned();
    Ok(Server { endpoint, speaks: Box::new(Responses { host, written: Conversations::default() }) })
}

#[async_trait]
impl Speaks for Responses {
    async fn call(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelFailed> {
        let opaque_kind = format!("openai-responses/{}/{}", self.host, exchange::model_name(request));
        let Sent { body, droppable } = request::write(request, &opaque_kind, &self.written);
        let answer = Answer::new(request::forced(request), opaque_kind);
        let ended = exchange::call(endpoint, request, body, answer, live, cancel).await;
        ended.map_err(|failed| exchange::droppable(failed, |name| droppable.contains(&name)))
    }
}

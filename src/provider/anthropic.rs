//! Asks any server that speaks Anthropic's Messages API; knows no session, retries nothing.

mod answer;
mod request;
mod schema;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::ports::Live;
use crate::protocol::event::{ModelFailed, ModelReply};
use crate::protocol::message::Request;
use crate::provider::anthropic::answer::Answer;
use crate::provider::anthropic::request::{Conversations, Sent};
use crate::provider::exchange;
use crate::provider::http::Endpoint;
use crate::provider::server::{Server, ServerConfig, ServerConfigError, Speaks};

/// The version of the API whose format this is.
const VERSION: &str = "2023-06-01";

/// The Messages API.
///
/// Thinking goes back with its signature, to the model it came from and only while all that was sent before it is
/// unchanged: the API refuses any other.
struct Messages {
    /// Host without its port: what opaque parts are marked with, before the model's name.
    host: String,
    written: Conversations,
}

/// A server of the Messages API.
pub fn connect(config: ServerConfig) -> Result<Server, ServerConfigError> {
    let config = config.without_dialect()?;
    let key = config.api_key.clone();
    let mut own = vec![("anthropic-version", VERSION)];
    own.extend(key.as_ref().map(|key| ("x-api-key", key.reveal())));
    let endpoint = config.endpoint(&["messages"], &own)?;
    let host = endpoint.url.host_str().unwrap_or_default().to_owned();
    Ok(Server { endpoint, speaks: Box::new(Messages { host, written: Conversations::default() }) })
}

#[async_trait]
impl Speaks for Messages {
    async fn call(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelFailed> {
        let opaque_kind = format!("anthropic/{}/{}", self.host, exchange::model_name(request));
        let Sent { body, droppable, forced, prefix } = request::write(request, &opaque_kind, &self.written);
        let answer = Answer::new(forced, opaque_kind, prefix);
        let ended = exchange::call(endpoint, request, body, answer, live, cancel).await;
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
}

//! A model's server and how it is reached, the same for every wire format.

use std::fmt;

use async_trait::async_trait;
use reqwest::Url;
use tokio_util::sync::CancellationToken;

use crate::ports::{Live, OfferedModel, Provider};
use crate::protocol::event::{ModelFailed, ModelReply};
use crate::protocol::message::Request;
use crate::provider::catalog;

use crate::provider::Secret;
use crate::provider::failure::Peer;
use crate::provider::http::{self, Endpoint, Timeouts};

/// What a server speaks.
#[async_trait]
pub(super) trait Speaks: Send + Sync {
    /// Makes one call.
    async fn call(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelFailed>;
}

/// A model source behind a server. Making one checks the configuration; it opens no connection and reads no certificate.
pub struct Server {
    pub(super) endpoint: Endpoint,
    pub(super) speaks: Box<dyn Speaks>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("peer", &self.endpoint.peer).finish_non_exhaustive()
    }
}

#[async_trait]
impl Provider for Server {
    async fn call(
        &self,
        request: &Request,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelFailed> {
        self.speaks.call(&self.endpoint, request, live, cancel).await
    }

    async fn models(&self) -> Result<Vec<OfferedModel>, ModelFailed> {
        catalog::list(&self.endpoint).await
    }

    async fn model(&self, name: &str) -> Option<OfferedModel> {
        catalog::describe(&self.endpoint, name).await
    }
}

/// How a server is reached.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Name in the configuration, for messages.
    pub name: String,
    /// What the format's own path is appended to, usually ending in `/v1`. A query is kept.
    pub base_url: String,
    /// Sent as the format wants it; not sent without one.
    pub api_key: Option<Secret>,
    /// More headers. They may replace the default ones.
    pub headers: Vec<(String, Secret)>,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Name of its row among the dialects of its format; by its address and name when absent.
    pub dialect: Option<String>,
}

impl ServerConfig {
    /// A server without a key, with the default time limits.
    pub fn new(name: impl Into<String>, base_url: impl Into<String>) -> Self {
        ServerConfig {
            name: name.into(),
            base_url: base_url.into(),
            api_key: None,
            headers: Vec::new(),
            timeouts: Timeouts::default(),
            dialect: None,
        }
    }

    /// For a format whose servers do not differ.
    pub(super) fn without_dialect(self) -> Result<Self, ServerConfigError> {
        match self.dialect {
            None => Ok(self),
            Some(dialect) => {
                Err(ServerConfigError::Dialect { name: self.name, dialect, known: "none".to_owned() })
            }
        }
    }

    /// The header of a key that is sent as `Bearer`.
    pub(super) fn bearer(&self) -> Option<String> {
        self.api_key.as_ref().map(|key| format!("Bearer {}", key.reveal()))
    }

    /// The endpoint at a path under the base URL; `own` are the headers of the format.
    pub(super) fn endpoint(self, path: &[&str], own: &[(&str, &str)]) -> Result<Endpoint, ServerConfigError> {
        let ServerConfig { name, base_url, api_key, headers: more, timeouts, dialect: _ } = self;
        let (Some(base), Some(url)) = (url_under(&base_url, &[]), url_under(&base_url, path)) else {
            return Err(ServerConfigError::BaseUrl { name, base_url });
        };
        let pairs = more.iter().map(|(name, value)| (name.as_str(), value.reveal()));
        let headers = match http::headers(own.iter().copied().chain(pairs)) {
            Ok(headers) => headers,
            Err(header) => return Err(ServerConfigError::Header { name, header }),
        };
        let host = url.host_str().unwrap_or_default();
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let mut secrets: Vec<Secret> = api_key.into_iter().collect();
        secrets.extend(more.into_iter().map(|(_, value)| value).filter(|v| v.reveal().len() >= 8));
        Ok(Endpoint::new(url, base, headers, timeouts, Peer { name, host, secrets }))
    }
}

/// A configuration no server can be reached with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerConfigError {
    /// The base URL is no absolute http or https URL.
    #[error("provider `{name}`: `{base_url}` is not an http or https URL")]
    BaseUrl {
        /// The provider.
        name: String,
        /// What was configured.
        base_url: String,
    },
    /// There is no such dialect.
    #[error("provider `{name}`: unknown dialect `{dialect}`; known are {known}")]
    Dialect {
        /// The provider.
        name: String,
        /// What was configured.
        dialect: String,
        /// Those of its format.
        known: String,
    },
    /// A header's name or value has characters that headers cannot have.
    #[error("provider `{name}`: header `{header}` has characters a header cannot have")]
    Header {
        /// The provider.
        name: String,
        /// The header's name.
        header: String,
    },
}

fn url_under(base: &str, path: &[&str]) -> Option<Url> {
    let mut url = Url::parse(base.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    url.host_str()?;
    url.path_segments_mut().ok()?.pop_if_empty().extend(path);
    Some(url)
}

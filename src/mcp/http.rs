//! A server elsewhere: one connection after another over streamable HTTP.

use std::collections::{BTreeMap, HashMap};

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio_util::sync::CancellationToken;

use super::{OpenClient, Shared};

impl Shared {
    /// Connects once and talks until the server ends it; gives why.
    pub(super) async fn connected(
        &self,
        (url, headers, open): (&reqwest::Url, &BTreeMap<String, String>, &OpenClient),
        stop: &CancellationToken,
    ) -> String {
        let (client, token) = match open() {
            Ok(opened) => opened,
            Err(why) => return why,
        };
        let mut own = HashMap::new();
        for (name, value) in headers {
            let (Ok(named), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) else {
                return format!("its header `{name}` cannot be sent");
            };
            own.insert(named, value);
        }
        let config = StreamableHttpClientTransportConfig::with_uri(url.as_str()).custom_headers(own);
        let config = token.into_iter().fold(config, StreamableHttpClientTransportConfig::auth_header);
        tokio::select! {
            why = self.talk(StreamableHttpClientTransport::with_client(client, config)) => why,
            () = stop.cancelled() => String::new(),
        }
    }
}

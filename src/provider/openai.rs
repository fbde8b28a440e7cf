//! Asks any server that speaks OpenAI's chat completions; knows no session, retries nothing.

mod answer;
mod calls;
mod dialect;
mod request;

use std::fmt;

use async_trait::async_trait;
use reqwest::Url;
use tokio_util::sync::CancellationToken;

use crate::ports::{Live, Provider};
use crate::protocol::event::{ErrorKind, ModelFailed, ModelReply};
use crate::protocol::message::{Part, Request, Usage};
use crate::provider::failure::{Peer, shortened};
use crate::provider::http::{self, Body, Endpoint, Timeouts};
use crate::provider::openai::answer::{Answer, Trouble};
pub use crate::provider::openai::dialect::{DIALECTS, Dialect};
use crate::provider::openai::request::Host;
use crate::provider::{Secret, Window, sse, tokens, window};

/// Bytes of text, thinking and arguments one answer may have: a log line has 768 KiB.
pub const MAX_ANSWER: usize = 700 << 10;

/// Bytes a JSON answer may have on the wire, where everything may be escaped.
const MAX_WHOLE: usize = sse::MAX_EVENT;

/// How a server is reached.
#[derive(Clone, Debug)]
pub struct OpenAiConfig {
    /// Name in the configuration, for messages.
    pub name: String,
    /// What `/chat/completions` is appended to, usually ending in `/v1`. A query is kept.
    pub base_url: String,
    /// Sent as `Authorization: Bearer`; no header without one.
    pub api_key: Option<Secret>,
    /// More headers. They may replace the default ones.
    pub headers: Vec<(String, Secret)>,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Name of its row in [`DIALECTS`]; by its address and name when absent.
    pub dialect: Option<String>,
}

impl OpenAiConfig {
    /// A server without a key, with the default time limits.
    pub fn new(name: impl Into<String>, base_url: impl Into<String>) -> Self {
        OpenAiConfig {
            name: name.into(),
            base_url: base_url.into(),
            api_key: None,
            headers: Vec::new(),
            timeouts: Timeouts::default(),
            dialect: None,
        }
    }
}

/// A configuration no server can be reached with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenAiConfigError {
    /// The base URL is no absolute http or https URL.
    #[error("provider `{name}`: `{base_url}` is not an http or https URL")]
    BaseUrl {
        /// The provider.
        name: String,
        /// What was configured.
        base_url: String,
    },
    /// There is no such dialect.
    #[error("provider `{name}`: unknown dialect `{dialect}`; known are {}", known_dialects())]
    Dialect {
        /// The provider.
        name: String,
        /// What was configured.
        dialect: String,
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

/// A model source behind an OpenAI-compatible endpoint.
///
/// What differs between hosts is in [`DIALECTS`].
/// `thinking: false` needs no word here: nothing that was dropped is ever asked for in this format.
pub struct OpenAi {
    endpoint: Endpoint,
    host: Host,
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi").field("peer", &self.endpoint.peer).finish_non_exhaustive()
    }
}

impl OpenAi {
    /// Checks the configuration; opens no connection and reads no certificate yet.
    pub fn new(config: OpenAiConfig) -> Result<Self, OpenAiConfigError> {
        let name = config.name.clone();
        let url = endpoint_url(&config.base_url).ok_or_else(|| OpenAiConfigError::BaseUrl {
            name: name.clone(),
            base_url: config.base_url.clone(),
        })?;
        let bearer = config.api_key.as_ref().map(|key| format!("Bearer {}", key.reveal()));
        let pairs = bearer.iter().map(|bearer| ("authorization", bearer.as_str()));
        let more = config.headers.iter().map(|(name, value)| (name.as_str(), value.reveal()));
        let headers = http::headers(pairs.chain(more))
            .map_err(|header| OpenAiConfigError::Header { name: name.clone(), header })?;
        let host = url.host_str().unwrap_or_default();
        let dialect = match &config.dialect {
            None => Dialect::of(host, &name),
            Some(named) => Dialect::named(named)
                .ok_or_else(|| OpenAiConfigError::Dialect { name: name.clone(), dialect: named.clone() })?,
        };
        let asked = Host { dialect, opaque_kind: format!("openai/{host}") };
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let mut secrets: Vec<Secret> = config.api_key.into_iter().collect();
        secrets.extend(config.headers.into_iter().map(|(_, value)| value).filter(|v| v.reveal().len() >= 8));
        let peer = Peer { name, host, secrets };
        Ok(OpenAi { endpoint: Endpoint::new(url, headers, config.timeouts, peer), host: asked })
    }

    /// How many tokens a model holds, where the server tells.
    pub async fn window(&self, model: &str) -> Option<Window> {
        window::ask(&self.endpoint, model).await
    }

    async fn exchange(
        &self,
        request: &Request,
        answer: &mut Answer,
        live: &dyn Live,
    ) -> Result<(), ModelFailed> {
        let body = request::body(request, &self.host);
        let mut body = self.endpoint.post(body.to_string().into_bytes()).await?;
        let mut first = Vec::new();
        // Blank bytes keep a connection alive while a model loads; they say nothing yet.
        while first.is_empty()
            && let Some(piece) = body.piece().await?
        {
            first = piece.trim_ascii_start().to_vec();
        }
        // What the body says it is counts, not the header: proxies and small servers often get that wrong.
        match first.first() {
            Some(b'{' | b'[') => self.read_whole(body, first, answer, live).await,
            Some(b'<') | None => Err(self.no_answer(&body, &first)),
            Some(_) => self.read_stream(body, first, answer, live).await,
        }
    }

    /// The server streams, as it was asked to.
    async fn read_stream(
        &self,
        mut body: Body<'_>,
        first: Vec<u8>,
        answer: &mut Answer,
        live: &dyn Live,
    ) -> Result<(), ModelFailed> {
        let mut decoder = sse::Decoder::new();
        self.absorb(&mut decoder, &first, answer, live)?;
        while !answer.is_closed() {
            if answer.has_events() {
                body.begin();
            }
            match body.piece().await {
                Ok(Some(piece)) => self.absorb(&mut decoder, &piece, answer, live)?,
                Ok(None) => break,
                // The reason to stop was given; all that is missing is the usage.
                Err(_) if answer.has_finished() => break,
                Err(failed) => return Err(failed),
            }
        }
        if answer.is_closed() {
            body.drain().await;
        }
        if !answer.has_finished()
            && let Some(rest) = decoder.finish()
        {
            // An event without its blank line is taken if it is whole; a torn one is what the cut left.
            let _ = answer.event(&rest, live);
        }
        let cut = |when: &str| {
            let what = format!("ended its stream {when}");
            Err(self.endpoint.peer.failed(ErrorKind::Network, &what, "try again"))
        };
        match (answer.has_finished(), answer.has_events()) {
            (true, _) => Ok(()),
            (false, true) => cut("in the middle of the answer"),
            (false, false) if first.starts_with(b"data:") => cut("in the middle of its first event"),
            (false, false) => Err(self.no_answer(&body, &first)),
        }
    }

    fn absorb(
        &self,
        decoder: &mut sse::Decoder,
        bytes: &[u8],
        answer: &mut Answer,
        live: &dyn Live,
    ) -> Result<(), ModelFailed> {
        decoder.feed(bytes, |data| answer.event(data, live)).map_err(|trouble| self.troubled(trouble))
    }

    /// The server answers in one piece although it was asked to stream.
    async fn read_whole(
        &self,
        mut body: Body<'_>,
        mut whole: Vec<u8>,
        answer: &mut Answer,
        live: &dyn Live,
    ) -> Result<(), ModelFailed> {
        body.begin();
        while let Some(piece) = body.piece().await? {
            whole.extend_from_slice(&piece);
            if whole.len() > MAX_WHOLE {
                return Err(self.troubled(Trouble::TooLarge));
            }
        }
        match std::str::from_utf8(&whole) {
            Ok(text) => answer.whole(text, live).map_err(|trouble| self.troubled(trouble)),
            Err(_) => Err(self.troubled(sse::SseError::NotUtf8.into())),
        }
    }

    fn troubled(&self, trouble: Trouble) -> ModelFailed {
        let peer = &self.endpoint.peer;
        match trouble {
            Trouble::Reported(report) => peer.reported(&report),
            Trouble::TooLarge => {
                let what =
                    format!("answered with more than {MAX_ANSWER} bytes, the most a log line can hold");
                peer.failed(ErrorKind::TooLarge, &what, "ask for less at once, or set a lower output limit")
            }
            Trouble::Sse(error) => {
                peer.failed(ErrorKind::BadResponse, &format!("answered badly: {error}"), "try again")
            }
            Trouble::Strange { data, error } => {
                let what =
                    format!("sent something that is no chat completion ({error}): {}", shortened(&data));
                peer.failed(ErrorKind::BadResponse, &what, "is this an OpenAI-compatible endpoint?")
            }
        }
    }

    fn no_answer(&self, body: &Body<'_>, first: &[u8]) -> ModelFailed {
        let what = match (body.content_type(), String::from_utf8_lossy(first)) {
            (_, text) if text.trim().is_empty() => "answered nothing at all".to_owned(),
            (kind, text) if text.trim_start().starts_with('<') => {
                format!("answered an HTML page (`{kind}`) instead of a chat completion")
            }
            (kind, text) => format!("answered no chat completion (`{kind}`): {}", shortened(&text)),
        };
        self.endpoint.peer.failed(
            ErrorKind::BadResponse,
            &what,
            "check the base URL: it usually ends in `/v1`",
        )
    }

    async fn reply(
        &self,
        request: &Request,
        answer: Answer,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelFailed> {
        let (counted, roughly) = (answer.usage(), answer.usage_so_far(request).unwrap_or_default());
        let mut reply = answer.into_reply(&self.host.opaque_kind);
        if reply.model.is_empty() {
            reply.model = request::model_name(request).to_owned();
        }
        let bytes = serde_json::to_vec(&reply.message).map_or(usize::MAX, |json| json.len());
        if bytes > MAX_ANSWER {
            return Err(self.troubled(Trouble::TooLarge));
        }
        reply.usage = match counted {
            Some(usage) => usage,
            // The answer is whole: a cancel now only ends the counting.
            None => tokio::select! {
                biased;
                () = cancel.cancelled() => roughly,
                usage = count(request.clone(), reply.message.clone()) => usage.unwrap_or(roughly),
            },
        };
        Ok(reply)
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
        let mut answer = Answer::new(request::forced(request, self.host.dialect));
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(self.endpoint.peer.failed(ErrorKind::Cancelled, "was told to stop", "")),
            ended = self.exchange(request, &mut answer, live) => ended,
        };
        let ended = match ended {
            Ok(()) => {
                let usage = answer.usage_so_far(request);
                self.reply(request, answer, cancel).await.map_err(|failed| (failed, usage))
            }
            Err(failed) => Err((failed, answer.usage_so_far(request))),
        };
        ended.map_err(|(mut failed, usage)| {
            failed.refused.retain(|name| request::can_drop(request, self.host.dialect, name));
            ModelFailed { usage, ..failed }
        })
    }
}

/// Counts what the provider did not; off the async threads, for the encoding may have to be loaded.
async fn count(request: Request, parts: Vec<Part>) -> Option<Usage> {
    let counting = tokio::task::spawn_blocking(move || {
        let model = request.model.as_str();
        let tokens_of = |text: &str| tokens::count_text(model, text);
        Usage {
            input: tokens::count(model, &request),
            output: tokens::measure_parts(&parts, &tokens_of),
            estimated: true,
            ..Usage::default()
        }
    });
    counting.await.ok()
}

fn known_dialects() -> String {
    DIALECTS.iter().map(|row| format!("`{}`", row.name)).collect::<Vec<_>>().join(", ")
}

fn endpoint_url(base: &str) -> Option<Url> {
    let mut url = Url::parse(base.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    url.host_str()?;
    url.path_segments_mut().ok()?.pop_if_empty().extend(["chat", "completions"]);
    Some(url)
}

//! Sends one request and hands out the body piece by piece within its time limits; knows no provider's format.

use std::io::Write;
use std::sync::OnceLock;
use std::time::Duration;

use flate2::write::GzDecoder;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::{Instant, timeout_at};

use crate::protocol::event::{ErrorKind, ModelFailed};
use crate::provider::failure::{Peer, Report};
use crate::provider::wait;

/// Bytes of an error's body that are read.
const MAX_ERROR_BODY: usize = 64 << 10;

/// Bytes of a list of models that are read.
const MAX_FETCHED: usize = 32 << 20;

/// Packed bytes that are unpacked at a time, and the most they may become: no answer packs 256 to 1.
const UNPACK: (usize, usize) = (4096, 1 << 20);

/// How long the end of a finished answer is waited for.
const DRAIN: Duration = Duration::from_millis(20);

/// How long the count of an answer is waited for that has given its reason to stop.
const TAIL: Duration = Duration::from_secs(5);

/// How long each stage of a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands, TLS included. Default 10 s.
    pub connect: Duration,
    /// From sending the request to the first piece of the answer. Default 300 s: local models load first.
    pub first_token: Duration,
    /// Between two pieces of the answer. Default 120 s.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(10),
            first_token: Duration::from_secs(300),
            idle: Duration::from_secs(120),
        }
    }
}

/// One endpoint with its connections.
pub(super) struct Endpoint {
    /// Where calls are posted.
    pub url: reqwest::Url,
    /// What every address of the server begins with.
    pub base: reqwest::Url,
    pub headers: HeaderMap,
    pub timeouts: Timeouts,
    pub peer: Peer,
    /// Built at the first call: reading the system's certificates takes time.
    client: OnceLock<Result<reqwest::Client, String>>,
}

/// What is posted, with headers of this request alone.
pub(super) struct Post {
    pub json: Vec<u8>,
    pub headers: Vec<(&'static str, &'static str)>,
}

impl From<Vec<u8>> for Post {
    fn from(json: Vec<u8>) -> Self {
        Post { json, headers: Vec::new() }
    }
}

impl Endpoint {
    pub fn new(
        url: reqwest::Url,
        base: reqwest::Url,
        headers: HeaderMap,
        timeouts: Timeouts,
        peer: Peer,
    ) -> Self {
        Endpoint { url, base, headers, timeouts, peer, client: OnceLock::new() }
    }

    /// Posts JSON; an answer that is no success is a failure already.
    pub async fn post(&self, post: Post) -> Result<Body<'_>, ModelFailed> {
        let request = self.client()?.post(self.url.clone()).body(post.json);
        self.send(post.headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)))
            .await
    }

    /// Asks for JSON at another address of the same server, by a post where there is something to post.
    pub async fn fetch(
        &self,
        url: reqwest::Url,
        json: Option<serde_json::Value>,
    ) -> Result<serde_json::Value, ModelFailed> {
        let bad = |what: &str| self.peer.failed(ErrorKind::BadResponse, what, "check the base URL");
        let client = self.client()?;
        let request = match json {
            Some(json) => client.post(url).body(json.to_string()),
            None => client.get(url),
        };
        let mut body = self.send(request).await?;
        let mut whole = Vec::new();
        while let Some(piece) = body.piece().await? {
            whole.extend_from_slice(&piece);
            if whole.len() > MAX_FETCHED {
                return Err(bad(&format!("answered with more than {MAX_FETCHED} bytes")));
            }
        }
        serde_json::from_slice(&whole).map_err(|_| bad("answered no JSON"))
    }

    fn client(&self) -> Result<&reqwest::Client, ModelFailed> {
        let built = self.client.get_or_init(|| client(&self.url, self.timeouts.connect));
        built.as_ref().map_err(|words| {
            let what = format!("cannot be asked: {words}");
            self.peer.failed(ErrorKind::Network, &what, "check this machine's TLS setup")
        })
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Body<'_>, ModelFailed> {
        let deadline = Instant::now() + self.timeouts.first_token;
        let request = request.headers(self.headers.clone());
        let response = match timeout_at(deadline, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.send_failed(error)),
            Err(_) => return Err(self.silent()),
        };
        let mut body =
            Body { endpoint: self, response, deadline, begun: false, idle: self.timeouts.idle, gzip: None };
        match body.header("content-encoding").unwrap_or_default().trim() {
            "" | "identity" => {}
            "gzip" | "x-gzip" => body.gzip = Some(GzDecoder::new(Vec::new())),
            other => {
                let what = format!("answered packed as `{other}`, which was not asked for");
                let hint = "configure its proxy not to compress answers";
                return Err(self.peer.failed(ErrorKind::BadRequest, &what, hint));
            }
        }
        match body.response.status().as_u16() {
            200..=299 => Ok(body),
            status => Err(body.refusal(status).await),
        }
    }

    fn silent(&self) -> ModelFailed {
        let what = format!("sent nothing for {} ms", self.timeouts.first_token.as_millis());
        self.peer.failed(
            ErrorKind::Timeout,
            &what,
            "raise `first_token_timeout_ms` if the model needs longer to begin",
        )
    }

    fn send_failed(&self, error: reqwest::Error) -> ModelFailed {
        let words = root_words(&error);
        let (kind, what, hint) = if error.is_connect() && error.is_timeout() {
            let ms = self.timeouts.connect.as_millis();
            (ErrorKind::Timeout, format!("did not take the connection within {ms} ms"), "is the host right?")
        } else if error.is_timeout() {
            (ErrorKind::Timeout, format!("took too long: {words}"), "try again")
        } else if error.is_connect() {
            let hint = "is the server running, and is the base URL right?";
            (ErrorKind::Network, format!("cannot be reached: {words}"), hint)
        } else {
            (ErrorKind::Network, format!("broke the connection before it answered: {words}"), "try again")
        };
        self.peer.failed(kind, &what, hint)
    }
}

/// The body of a successful answer, piece by piece.
pub(super) struct Body<'a> {
    endpoint: &'a Endpoint,
    response: reqwest::Response,
    deadline: Instant,
    begun: bool,
    /// How long it may be silent once it has begun.
    idle: Duration,
    /// For proxies that pack answers although nobody asks them to.
    gzip: Option<GzDecoder<Vec<u8>>>,
}

impl Body<'_> {
    /// The answer's content type, or the empty string.
    pub fn content_type(&self) -> String {
        self.header("content-type").unwrap_or_default()
    }

    /// The answer has begun: from here on the idle limit holds.
    pub fn begin(&mut self) {
        self.begun = true;
    }

    /// The answer is whole: all that may follow is its count.
    pub fn end_soon(&mut self) {
        self.idle = self.idle.min(TAIL);
    }

    /// The next piece; none at the proper end.
    pub async fn piece(&mut self) -> Result<Option<Vec<u8>>, ModelFailed> {
        let idle = self.idle;
        let deadline = if self.begun { Instant::now() + idle } else { self.deadline };
        match timeout_at(deadline, self.response.chunk()).await {
            Ok(Ok(Some(piece))) => self.unpacked(Vec::from(piece)).map(Some),
            Ok(Ok(None)) => self.unpacked_rest(),
            Ok(Err(error)) => {
                let what = format!("broke off in the middle of its answer: {}", root_words(&error));
                Err(self.endpoint.peer.failed(ErrorKind::Network, &what, "try again"))
            }
            Err(_) if self.begun => {
                let what = format!("fell silent for {} ms in the middle of its answer", idle.as_millis());
                let hint = "try again, or raise `idle_timeout_ms` if the model pauses that long";
                Err(self.endpoint.peer.failed(ErrorKind::Timeout, &what, hint))
            }
            Err(_) => Err(self.endpoint.silent()),
        }
    }

    fn unpacked(&mut self, piece: Vec<u8>) -> Result<Vec<u8>, ModelFailed> {
        let Some(gzip) = self.gzip.as_mut() else { return Ok(piece) };
        let (at_once, most) = UNPACK;
        for some in piece.chunks(at_once) {
            let before = gzip.get_ref().len();
            let written = gzip.write_all(some).and_then(|()| gzip.flush());
            let why = match written {
                Ok(()) if gzip.get_ref().len() - before <= most => continue,
                Ok(()) => format!("{at_once} bytes of it unpack to more than {most}"),
                Err(error) => error.to_string(),
            };
            return Err(self.packed_badly(&why));
        }
        Ok(std::mem::take(gzip.get_mut()))
    }

    /// What was still packed when the answer ended; none when nothing was.
    fn unpacked_rest(&mut self) -> Result<Option<Vec<u8>>, ModelFailed> {
        let Some(mut gzip) = self.gzip.take() else { return Ok(None) };
        let finished = gzip.try_finish();
        let rest = std::mem::take(gzip.get_mut());
        match finished {
            Ok(()) => Ok((!rest.is_empty()).then_some(rest)),
            Err(error) => Err(self.packed_badly(&error.to_string())),
        }
    }

    fn packed_badly(&self, why: &str) -> ModelFailed {
        let what = format!("answered with gzip that cannot be unpacked: {why}");
        self.endpoint.peer.failed(ErrorKind::BadResponse, &what, "try again")
    }

    /// Reads on to the end if it is near, so that the connection can be used again; false where it breaks instead.
    pub async fn drain(&mut self) -> bool {
        let rest = async {
            loop {
                match self.response.chunk().await {
                    Ok(Some(_)) => {}
                    ended => return ended.is_ok(),
                }
            }
        };
        tokio::time::timeout(DRAIN, rest).await.unwrap_or(true)
    }

    fn header(&self, name: &str) -> Option<String> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    }

    async fn refusal(&mut self, status: u16) -> ModelFailed {
        let peer = &self.endpoint.peer;
        if (300..400).contains(&status) {
            let to = self.header("location").unwrap_or_else(|| "nowhere".to_owned());
            let what = format!("answered {status} and points to `{to}`");
            return peer.failed(ErrorKind::BadRequest, &what, "name the final address as the base URL");
        }
        let mut read = Vec::new();
        while read.len() < MAX_ERROR_BODY {
            // What was read before a break is worth more than the news of the break.
            match self.piece().await {
                Ok(Some(piece)) => read.extend_from_slice(&piece),
                Ok(None) | Err(_) => break,
            }
        }
        let mut failed = peer.reported(&Report::of_answer(status, &read));
        if failed.kind.is_retryable() {
            let asked = wait::of_headers(&|name| self.header(name), std::time::SystemTime::now());
            failed.retry_after_ms = asked.or(failed.retry_after_ms);
        }
        failed
    }
}

/// Builds headers from configured pairs; the error names the pair, never its value.
pub(super) fn headers<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    map.insert(reqwest::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    map.insert(reqwest::header::ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    for (name, value) in pairs {
        let key = HeaderName::try_from(name).map_err(|_| name.to_owned())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| name.to_owned())?;
        value.set_sensitive(true);
        map.insert(key, value);
    }
    Ok(map)
}

/// The deepest cause, which is the one that says something (`Connection refused`), without any URL.
pub(super) fn root_words(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if std::ptr::addr_eq(cause, error) {
        return "no reason given".to_owned();
    }
    cause.to_string()
}

/// A client for one server: no redirects, and no proxy between this machine and itself.
pub fn client(url: &reqwest::Url, connect: Duration) -> Result<reqwest::Client, String> {
    // An error means that a provider is installed already, which is all that is needed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("agon/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(connect)
        .tcp_nodelay(true);
    if url.scheme() == "http" {
        // Nothing is encrypted: do not spend time on reading the system's certificates.
        builder = builder.tls_backend_preconfigured(tls_without_roots()?);
    }
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| root_words(&error))
}

fn tls_without_roots() -> Result<rustls::ClientConfig, String> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}

/// A proxy cannot reach this machine's own servers.
fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

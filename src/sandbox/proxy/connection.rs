//! One client of the proxy: its requests, each judged by itself; plain HTTP is passed on, CONNECT becomes a tunnel.

use std::convert::Infallible;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::tally::Counted;
use super::{HEAD, MOST_HEAD, Proxy, tunnel};
use crate::protocol::host::Target;

type Answer = Response<BoxBody<Bytes, hyper::Error>>;
/// Where work goes that a request leaves behind: its tunnel, or its connection to the server.
type Jobs = mpsc::UnboundedSender<BoxFuture<'static, ()>>;

/// Headers that speak of one connection only.
const HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHORIZATION,
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// Serves one client until it leaves.
pub async fn serve(proxy: Arc<Proxy>, stream: TcpStream) {
    let (jobs, left) = mpsc::unbounded_channel();
    let service = service_fn(move |request| {
        let (proxy, jobs) = (Arc::clone(&proxy), jobs.clone());
        async move { Ok::<_, Infallible>(answer(proxy, request, jobs).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(MOST_HEAD)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // What a client does wrong ends its connection and nothing else.
    let _ = tokio::join!(served, finish(left));
}

/// Sees to what requests leave behind, until no more can come.
async fn finish(mut left: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>) {
    let (mut running, mut may_come) = (FuturesUnordered::new(), true);
    while may_come || !running.is_empty() {
        tokio::select! {
            job = left.recv(), if may_come => match job {
                Some(job) => running.push(job),
                None => may_come = false,
            },
            Some(()) = running.next() => {}
        }
    }
}

async fn answer(proxy: Arc<Proxy>, request: Request<Incoming>, jobs: Jobs) -> Answer {
    if !is_authorized(&proxy, request.headers()) {
        let mut refused = said(
            StatusCode::PROXY_AUTHENTICATION_REQUIRED,
            "the proxy variables of this call have its token",
        );
        let basic = HeaderValue::from_static("Basic realm=\"agon\"");
        refused.headers_mut().insert(header::PROXY_AUTHENTICATE, basic);
        return refused;
    }
    let is_tunnel = request.method() == Method::CONNECT;
    let Some(target) = target_of(request.uri(), is_tunnel) else {
        return said(StatusCode::BAD_REQUEST, "this is a proxy for HTTP and CONNECT");
    };
    let client = request.headers().get(header::USER_AGENT).and_then(|client| client.to_str().ok());
    let outside = match proxy.open(&target, client).await {
        Ok(outside) => outside,
        Err(why) => {
            let words = format!("`{target}` is refused: {}", why.words(&target));
            return said(StatusCode::FORBIDDEN, &words);
        }
    };
    if is_tunnel {
        let upgrade = hyper::upgrade::on(request);
        let job = async move {
            let Ok(inside) = upgrade.await else { return };
            if let Err(why) = tunnel::run(TokioIo::new(inside), outside, &target).await {
                proxy.tally.refused(&target, Some(why));
            }
        };
        // Without a listener the client is gone.
        let _ = jobs.send(job.boxed());
        return Response::new(Full::default().map_err(|never| match never {}).boxed());
    }
    let passed = pass_on(request, outside, &target, &jobs).await;
    passed.unwrap_or_else(|error| said(StatusCode::BAD_GATEWAY, &format!("`{target}`: {error}")))
}

fn is_authorized(proxy: &Proxy, headers: &HeaderMap) -> bool {
    let given = headers.get(header::PROXY_AUTHORIZATION).and_then(|given| given.to_str().ok());
    let given = given.and_then(|given| given.split_once(' '));
    given.is_some_and(|(kind, given)| {
        kind.eq_ignore_ascii_case("basic") && given.trim() == proxy.credentials()
    })
}

/// CONNECT names host and port; every other method a whole address of HTTP.
fn target_of(uri: &Uri, is_tunnel: bool) -> Option<Target> {
    let is_plain = uri.scheme_str() == Some("http") && !uri.authority()?.as_str().contains('@');
    match is_tunnel {
        true => Target::new(uri.host()?, uri.port_u16()?),
        false if is_plain => Target::new(uri.host()?, uri.port_u16().unwrap_or(80)),
        false => None,
    }
}

/// Sends the request over a connection of its own.
async fn pass_on(
    mut request: Request<Incoming>,
    outside: Counted,
    target: &Target,
    jobs: &Jobs,
) -> Result<Answer, hyper::Error> {
    let idle = outside.idle();
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(MOST_HEAD)
        .handshake(TokioIo::new(outside))
        .await?;
    let driven = async move {
        tokio::select! {
            _ = connection => {}
            () = idle => {}
        }
    };
    let _ = jobs.send(driven.boxed());
    without_hops(request.headers_mut());
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().unwrap_or_default();
    *request.version_mut() = Version::HTTP_11;
    let host = if target.port == 80 { target.bracketed() } else { target.to_string() };
    if let Ok(host) = HeaderValue::from_str(&host) {
        request.headers_mut().insert(header::HOST, host);
    }
    let mut answer = sender.send_request(request).await?;
    without_hops(answer.headers_mut());
    Ok(answer.map(BodyExt::boxed))
}

fn without_hops(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|names| names.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP) {
        headers.remove(name);
    }
}

/// An answer of agon's own.
fn said(status: StatusCode, words: &str) -> Answer {
    let text = Full::from(format!("agon: {words}\n")).map_err(|never| match never {}).boxed();
    let mut answer = Response::new(text);
    *answer.status_mut() = status;
    answer
}

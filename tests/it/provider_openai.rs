//! The OpenAI-compatible provider against a real socket: translation, every split, every failure.

mod decoding;
mod dialects;
mod failures;
mod requests;
mod streams;
mod thinking;

use std::time::Duration;

use agon::ports::Provider;
use agon::protocol::Role;
use agon::protocol::event::{ModelFailed, ModelReply};
use agon::protocol::message::Request;
use agon::provider::openai;
use agon::provider::{ServerConfig, Timeouts};
use tokio_util::sync::CancellationToken;

use crate::support::server::{Reply, Server};
use crate::support::{Recorder, request, said};

/// The key of every test: it must never be seen anywhere but in its header.
const KEY: &str = "sk-test-0123456789";

fn config(url: &str) -> ServerConfig {
    ServerConfig { api_key: Some(KEY.into()), ..ServerConfig::new("mock", url) }
}

/// Limits short enough for a test of silence, for no test that succeeds.
fn impatient(url: &str) -> impl Provider + use<> {
    let timeouts = Timeouts {
        connect: Duration::from_millis(300),
        first_token: Duration::from_millis(300),
        idle: Duration::from_millis(300),
    };
    openai::connect(ServerConfig { timeouts, ..config(url) }).unwrap()
}

fn hello() -> Request {
    request(vec![said(Role::User, "hello")])
}

async fn call(provider: &impl Provider, request: &Request) -> (Result<ModelReply, ModelFailed>, Recorder) {
    let live = Recorder::default();
    let ended = provider.call(request, &live, &CancellationToken::new()).await;
    if let Err(failed) = &ended {
        assert!(!failed.message.contains(KEY), "{}", failed.message);
        assert!(failed.message.starts_with("`mock` (127.0.0.1:"), "{}", failed.message);
    }
    (ended, live)
}

/// Asks a server that always gives this reply.
async fn ask(reply: Reply) -> (Result<ModelReply, ModelFailed>, Recorder) {
    let server = Server::start(move |_, _| reply.clone());
    call(&openai::connect(config(&server.url())).unwrap(), &hello()).await
}

async fn answer(reply: Reply) -> ModelReply {
    ask(reply).await.0.unwrap()
}

async fn failure(reply: Reply) -> ModelFailed {
    ask(reply).await.0.unwrap_err()
}

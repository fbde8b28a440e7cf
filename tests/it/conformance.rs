//! One set of scenarios over every wire format and every row of a host, against strict servers on real sockets.

mod breaks;
mod talks;

use agon::protocol::event::{ModelFailed, ModelReply};
use agon::protocol::message::{Args, Finish, Part, Request, ToolDecl, Usage};
use agon::protocol::{Lane, Role};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::server::{Reply, Server};
use crate::support::wires::{KEY, Says, Stop, Wire, wires};
use crate::support::{Recorder, message, request, said};

fn hello(wire: Wire) -> Request {
    let mut request = request(vec![said(Role::System, "Be brief."), said(Role::User, "hello")]);
    request.model = format!("mock/{}", wire.model());
    request.params.max_output = Some(2000);
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    request.tools = vec![ToolDecl { name: "read".into(), description: "Reads a file.".into(), schema }];
    request
}

async fn call(wire: Wire, server: &Server, request: &Request) -> (Result<ModelReply, ModelFailed>, Recorder) {
    let live = Recorder::default();
    let ended = wire.provider(&server.url()).call(request, &live, &CancellationToken::new()).await;
    if let Err(failed) = &ended {
        assert!(!failed.message.contains(KEY), "{wire:?}: {}", failed.message);
        assert!(failed.message.starts_with("`mock` (127.0.0.1:"), "{wire:?}: {}", failed.message);
    }
    (ended, live)
}

/// Asks a server that always gives this reply.
async fn ask(wire: Wire, reply: Reply) -> (Result<ModelReply, ModelFailed>, Recorder) {
    let server = wire.server(move |_, _| reply.clone());
    call(wire, &server, &hello(wire)).await
}

async fn answer(wire: Wire, says: &Says) -> (ModelReply, Recorder) {
    let (ended, live) = ask(wire, wire.reply(says)).await;
    (ended.unwrap_or_else(|failed| panic!("{wire:?}: {}", failed.message)), live)
}

fn texts(reply: &ModelReply) -> String {
    let text = |part: &Part| match part {
        Part::Text { text } => Some(text.clone()),
        _ => None,
    };
    reply.message.iter().filter_map(text).collect()
}

fn calls(reply: &ModelReply) -> Vec<(String, Value)> {
    let call = |part: &Part| match part {
        Part::Call { name, args: Args::Json(args), .. } => Some((name.clone(), args.clone())),
        _ => None,
    };
    reply.message.iter().filter_map(call).collect()
}

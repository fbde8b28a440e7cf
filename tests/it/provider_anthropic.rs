//! The adapter of the Messages API against a real socket: translation, every split, every way to stop or fail.

mod failures;
mod program;
mod requests;
mod strict;

use agon::ports::Provider;
use agon::protocol::event::{ErrorKind, ModelFailed, ModelReply};
use agon::protocol::message::{Args, Finish, Opaque, Part, Request, Usage};
use agon::protocol::{Lane, Role};
use agon::provider::ServerConfig;
use agon::provider::anthropic;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::server::{Reply, Server};
use crate::support::{Recorder, request, said};

/// The key of every test: it must never be seen anywhere but in its header.
const KEY: &str = "sk-ant-0123456789";

fn config(url: &str) -> ServerConfig {
    ServerConfig { api_key: Some(KEY.into()), ..ServerConfig::new("mock", url) }
}

fn hello() -> Request {
    request(vec![said(Role::User, "hello")])
}

async fn call(server: &Server, request: &Request) -> (Result<ModelReply, ModelFailed>, Recorder) {
    let live = Recorder::default();
    let provider = anthropic::connect(config(&server.url())).unwrap();
    let ended = provider.call(request, &live, &CancellationToken::new()).await;
    if let Err(failed) = &ended {
        assert!(!failed.message.contains(KEY), "{}", failed.message);
    }
    (ended, live)
}

async fn ask(reply: Reply) -> (Result<ModelReply, ModelFailed>, Recorder) {
    let server = Server::start(move |_, _| reply.clone());
    call(&server, &hello()).await
}

async fn sent(request: &Request) -> Value {
    let server = Server::start(|_, _| message_of("end_turn", &[text_block("ok")]));
    call(&server, request).await.0.unwrap();
    server.bodies().remove(0)
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn thinking(text: &str, signature: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": signature})
}

fn tool_use(id: &str, name: &str, input: Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

/// A streamed answer as the API sends it: each block begins empty and grows in two pieces.
fn events(stop: &str, blocks: &[Value]) -> Vec<Value> {
    let usage = json!({"input_tokens": 10, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 60, "output_tokens": 1});
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": [], "stop_reason": null, "usage": usage}}),
        json!({"type": "ping"}),
    ];
    for (index, block) in blocks.iter().enumerate() {
        let mut begun = block.clone();
        let mut deltas = Vec::new();
        let mut halves = |kind: &str, field: &str, whole: &str| {
            let half = whole.floor_char_boundary(whole.len() / 2);
            for piece in [&whole[..half], &whole[half..]] {
                deltas.push(json!({"type": kind, field: piece}));
            }
        };
        match block["type"].as_str().unwrap() {
            "text" => {
                halves("text_delta", "text", block["text"].as_str().unwrap());
                begun["text"] = "".into();
            }
            "thinking" => {
                halves("thinking_delta", "thinking", block["thinking"].as_str().unwrap());
                halves("signature_delta", "signature", block["signature"].as_str().unwrap());
                (begun["thinking"], begun["signature"]) = ("".into(), "".into());
            }
            "tool_use" => {
                halves("input_json_delta", "partial_json", &block["input"].to_string());
                begun["input"] = json!({});
            }
            _ => {}
        }
        events.push(json!({"type": "content_block_start", "index": index, "content_block": begun}));
        events.extend(
            deltas
                .into_iter()
                .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 25}}));
    events.push(json!({"type": "message_stop"}));
    events
}

fn stream(events: &[Value]) -> Vec<u8> {
    let event = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(event).collect::<String>().into_bytes()
}

fn message_of(stop: &str, blocks: &[Value]) -> Reply {
    Reply::raw_sse(stream(&events(stop, blocks)))
}

/// Thinking with its signature, redacted thinking, a text and two calls at once.
fn rich() -> Vec<Value> {
    vec![
        thinking("Let me lööök.", "EqQBsig=="),
        json!({"type": "redacted_thinking", "data": "EmwKA"}),
        text_block("I look."),
        tool_use("toolu_1", "read", json!({"path": "ä.txt"})),
        tool_use("toolu_2", "list", json!({})),
    ]
}

const HOST: &str = "anthropic/127.0.0.1/model-1";

/// A block of this model, bound to what was sent.
fn own(block: Value, prefix: &Value) -> Opaque {
    Opaque { provider: HOST.into(), json: json!({"prefix": prefix, "block": block}), dropped: false }
}

fn rich_parts(prefix: &Value) -> Vec<Part> {
    let called = |id: &str, name: &str, args: Value| Part::Call {
        id: id.into(),
        name: name.into(),
        args: Args::Json(args),
    };
    vec![
        Part::Reasoning {
            text: "Let me lööök.".into(),
            opaque: Some(own(thinking("Let me lööök.", "EqQBsig=="), prefix)),
        },
        Part::Opaque(own(json!({"type": "redacted_thinking", "data": "EmwKA"}), prefix)),
        Part::Text { text: "I look.".into() },
        called("toolu_1", "read", json!({"path": "ä.txt"})),
        called("toolu_2", "list", json!({})),
    ]
}

#[tokio::test]
async fn a_streamed_answer_whole_and_however_it_is_split() {
    let (ended, live) = ask(message_of("tool_use", &rich())).await;
    let reply = ended.unwrap();
    let Part::Reasoning { opaque: Some(opaque), .. } = &reply.message[0] else { panic!("{reply:?}") };
    let expected = ModelReply {
        message: rich_parts(&opaque.json["prefix"]),
        usage: Usage { input: 100, cached: 60, written: 30, output: 25, reasoning: 0, estimated: false },
        model: "claude-x".into(),
        finish: Finish::ToolCalls,
        waited_ms: 0,
    };
    assert_eq!(reply, expected);
    assert_eq!(live.lane(Lane::Reasoning), "Let me lööök.");
    assert_eq!(live.lane(Lane::Text), "I look.");
    assert_eq!(live.lane(Lane::Args(0)), "{\"path\":\"ä.txt\"}");
    let bytes = stream(&events("tool_use", &rich()));
    let length = bytes.len();
    let server = Server::start(move |_, n| Reply::raw_sse(bytes.clone()).split_at([n * 7]));
    for at in 1..=length / 7 {
        assert_eq!(call(&server, &hello()).await.0.unwrap(), expected, "split at {}", at * 7);
    }
    let whole = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": rich(), "stop_reason": "tool_use",
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 60, "output_tokens": 25}});
    assert_eq!(ask(Reply::json(&whole)).await.0.unwrap(), expected, "in one piece");
}

#[tokio::test]
async fn every_reason_to_stop() {
    let rows = [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("max_tokens", Finish::Length),
        ("refusal", Finish::Refused),
        ("pause_turn", Finish::Other("pause_turn".into())),
    ];
    for (word, finish) in rows {
        let reply = ask(message_of(word, &[text_block("words")])).await.0.unwrap();
        assert_eq!(
            (reply.finish, reply.message),
            (finish, vec![Part::Text { text: "words".into() }]),
            "{word}"
        );
    }
    // Less output would not help: the conversation has to become shorter.
    let full = ask(message_of("model_context_window_exceeded", &[text_block("words")])).await.0.unwrap_err();
    assert_failed(&full, ErrorKind::ContextOverflow, "the answer filled the context window");
    assert!(full.usage.is_some_and(|usage| !usage.estimated && usage.output > 0), "{:?}", full.usage);
    // A refusal before the first word has its reason beside it.
    let mut refused = events("refusal", &[]);
    let why = "This request was declined because it could enable cyber harm.";
    let at = refused.len() - 2;
    refused[at]["delta"]["stop_details"] =
        json!({"type": "refusal", "category": "cyber", "explanation": why});
    let reply = ask(Reply::raw_sse(stream(&refused))).await.0.unwrap();
    assert_eq!((reply.finish, reply.message), (Finish::Refused, vec![Part::Text { text: why.into() }]));
}

#[track_caller]
fn assert_failed(failed: &ModelFailed, kind: ErrorKind, words: &str) {
    assert_eq!(failed.kind, kind, "{}", failed.message);
    assert!(failed.message.contains(words), "`{words}` is missing in: {}", failed.message);
}

//! The adapter of the Responses API against a real socket: what is sent, and what only this format has.

use agon::ports::Provider;
use agon::protocol::event::{ErrorKind, ModelFailed, ModelReply};
use agon::protocol::message::{AnswerSchema, Args, Finish, Opaque, Part, Request, Structured, ToolDecl};
use agon::protocol::{Lane, Role};
use agon::provider::responses;
use agon::provider::{ServerConfig, ServerConfigError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::env::Env;
use crate::support::server::{Reply, Server};
use crate::support::wires::{KEY, Says, Wire};
use crate::support::{Recorder, message, picture, request, said};

const WIRE: Wire = Wire { kind: "openai-responses", dialect: None };

fn config(url: &str) -> ServerConfig {
    ServerConfig { api_key: Some(KEY.into()), ..ServerConfig::new("mock", url) }
}

async fn call(server: &Server, request: &Request) -> (Result<ModelReply, ModelFailed>, Recorder) {
    let live = Recorder::default();
    let provider = responses::connect(config(&server.url())).unwrap();
    let ended = provider.call(request, &live, &CancellationToken::new()).await;
    (ended, live)
}

async fn ask(reply: Reply) -> (Result<ModelReply, ModelFailed>, Recorder) {
    let server = Server::start(move |_, _| reply.clone());
    call(&server, &request(vec![said(Role::User, "hello")])).await
}

async fn sent(request: &Request) -> Value {
    let server = Server::start(|_, _| WIRE.reply(&Says::text("ok")));
    call(&server, request).await.0.unwrap();
    server.bodies().remove(0)
}

fn events(events: &[Value]) -> Reply {
    Reply::raw_sse(events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>())
}

fn own(json: Value) -> Opaque {
    Opaque { provider: "openai-responses/127.0.0.1/gpt-5-mini".into(), json, dropped: false }
}

fn result(id: &str, content: &str) -> Part {
    Part::Result { id: id.into(), name: "read".into(), content: content.into(), is_error: false }
}

/// A conversation with everything in it, of this model and of another.
fn conversation() -> Request {
    let reasoning = json!({"type": "reasoning", "summary": [], "encrypted_content": "gpt-5-mini-1"});
    let foreign =
        Opaque { provider: "anthropic/api/claude".into(), json: json!({"block": 1}), dropped: false };
    let asked = |id: &str, args: Args| Part::Call { id: id.into(), name: "read".into(), args };
    let thought = |text: &str, opaque| Part::Reasoning { text: text.into(), opaque };
    let mut whole = request(vec![
        said(Role::System, "You are a coder."),
        said(Role::System, "AGENTS.md: be brief."),
        said(Role::User, "The task."),
        message(
            Role::Assistant,
            vec![
                thought("of another", Some(foreign)),
                thought("mine", Some(own(reasoning.clone()))),
                Part::Opaque(own(json!({"phase": "commentary"}))),
                Part::Text { text: "I look.".into() },
                asked("call 1!", Args::Broken("{\"path\":".into())),
                asked("c1", Args::Json(json!({"path": "a"}))),
            ],
        ),
        message(Role::Tool, vec![result("c1", "[e4] one"), picture("AAAA")]),
        message(Role::Tool, vec![result("call 1!", "[e5] no JSON")]),
        // An answer that was cut while it thought: the API takes no reasoning that leads to nothing.
        message(Role::Assistant, vec![thought("cut", Some(own(reasoning)))]),
        said(Role::System, "Ten steps are left."),
    ]);
    whole.model = "mock/gpt-5-mini".into();
    whole.params.max_output = Some(8192);
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    whole.tools = vec![ToolDecl { name: "read".into(), description: "Reads.".into(), schema }.into()];
    whole
}

#[tokio::test]
async fn a_whole_conversation() {
    let said = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    let call = |id: &str, args: &str| json!({"type": "function_call", "call_id": id, "name": "read", "arguments": args});
    let output =
        |id: &str, text: &str| json!({"type": "function_call_output", "call_id": id, "output": text});
    let mut look = said("assistant", "output_text", "I look.");
    look["phase"] = "commentary".into();
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA"});
    let mut body = sent(&conversation()).await;
    let key = body.as_object_mut().unwrap().remove("prompt_cache_key").unwrap();
    assert_eq!(key.as_str().unwrap().len(), 32);
    let expected = json!({
        "model": "gpt-5-mini",
        "instructions": "You are a coder.\n\nAGENTS.md: be brief.",
        "input": [
            said("user", "input_text", "The task."),
            {"type": "reasoning", "summary": [], "encrypted_content": "gpt-5-mini-1"},
            look,
            call("call", "{\"path\":"),
            call("c1", "{\"path\":\"a\"}"),
            output("c1", "[e4] one"),
            output("call", "[e5] no JSON"),
            {"type": "message", "role": "user", "content": [image]},
            said("user", "input_text", "Ten steps are left."),
        ],
        "tools": [{"type": "function", "name": "read", "description": "Reads.", "strict": false,
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}],
        "max_output_tokens": 8192,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto"},
        "store": false,
        "stream": true,
    });
    assert_eq!(body, expected, "{body:#}");
    let mut later = conversation();
    later.messages.truncate(4);
    later.messages.push(message(Role::Tool, vec![result("c1", "one"), result("call 1!", "two")]));
    assert_eq!(sent(&later).await["prompt_cache_key"], key, "one conversation, one key");
}

fn typed(via: Structured, without: &[&str]) -> Request {
    let schema = json!({"type": "object", "properties": {"vote": {"type": "string"}}, "required": ["vote"], "additionalProperties": false});
    let mut request = conversation();
    request.params.schema = Some(AnswerSchema { name: "ballot".into(), schema, via });
    request.params.without = without.iter().map(|name| (*name).to_owned()).collect();
    request
}

#[tokio::test]
async fn what_a_model_refuses_is_left_out_and_asked_for_in_words() {
    let format = sent(&typed(Structured::ResponseFormat, &[])).await;
    assert_eq!(format["text"]["format"]["type"], "json_schema");
    assert_eq!(
        (&format["text"]["format"]["name"], &format["text"]["format"]["strict"]),
        (&json!("ballot"), &json!(true))
    );
    let object = sent(&typed(Structured::JsonObject, &[])).await;
    assert_eq!(object["text"], json!({"format": {"type": "json_object"}}));
    let forced = sent(&typed(Structured::ForcedTool, &[])).await;
    assert_eq!(forced["tool_choice"], json!({"type": "function", "name": "ballot"}));
    for (via, name) in [(Structured::ResponseFormat, "text"), (Structured::ForcedTool, "tool_choice")] {
        let body = sent(&typed(via, &[name])).await;
        assert!(body.get(name).is_none() && body["instructions"].as_str().unwrap().contains("JSON Schema"));
    }
    let plain = sent(&typed(Structured::Words, &["include", "reasoning", "signature"])).await;
    assert!(plain.get("include").is_none() && plain.get("reasoning").is_none());
    assert!(!plain["input"].to_string().contains("encrypted_content"), "{plain}");
}

#[tokio::test]
async fn address_and_headers() {
    let server = Server::start(|_, _| WIRE.reply(&Says::text("ok")));
    call(&server, &conversation()).await.0.unwrap();
    let sent = &server.requests()[0];
    assert_eq!(sent.line, "POST /v1/responses");
    assert_eq!(sent.header("authorization"), Some(&*format!("Bearer {KEY}")));
    let named = ServerConfig { dialect: Some("mistral".into()), ..config("http://127.0.0.1:1/v1") };
    assert!(matches!(responses::connect(named), Err(ServerConfigError::Dialect { .. })));
}

#[tokio::test]
async fn an_answer_in_one_piece_and_one_without_items() {
    let output = json!([
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "gpt-5-mini-1", "status": null, "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Grüße", "annotations": []}]},
        {"type": "function_call", "id": "fc", "call_id": "c1", "name": "read", "arguments": ""},
    ]);
    let response = json!({"id": "r", "object": "response", "status": "completed", "model": "m-1", "output": output,
        "usage": {"input_tokens": 3.0, "output_tokens": "4"}});
    let last_only = events(&[json!({"type": "response.completed", "response": response})]);
    for reply in [Reply::json(&response), last_only] {
        let (ended, live) = ask(reply).await;
        let reply = ended.unwrap();
        let reasoning = json!({"type": "reasoning", "encrypted_content": "gpt-5-mini-1", "summary": [{"type": "summary_text", "text": "Hm."}]});
        let opaque =
            Opaque { provider: "openai-responses/127.0.0.1/model-1".into(), json: reasoning, dropped: false };
        assert_eq!(
            reply.message,
            [
                Part::Reasoning { text: "Hm.".into(), opaque: Some(opaque) },
                Part::Text { text: "Grüße".into() },
                Part::Call { id: "c1".into(), name: "read".into(), args: Args::Json(json!({})) },
            ]
        );
        assert_eq!((reply.usage.input, reply.usage.output, reply.model.as_str()), (3, 4, "m-1"));
        assert_eq!(
            (live.lane(Lane::Text), live.lane(Lane::Reasoning)),
            ("Grüße".to_owned(), "Hm.".to_owned())
        );
    }
    // A server that streams text and says nothing of items.
    let bare = events(&[
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": "one "}),
        json!({"type": "response.something_new", "x": 1}),
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": "two"}),
        json!({"type": "response.completed", "response": {"status": "completed", "usage": null}}),
    ]);
    let reply = ask(bare).await.0.unwrap();
    assert_eq!(reply.message, [Part::Text { text: "one two".into() }]);
    assert!(reply.usage.estimated, "what is not counted is counted here");
}

#[tokio::test]
async fn a_response_that_failed_or_stopped_says_why() {
    let ended = |status: &str, more: Value| {
        let mut response = json!({"object": "response", "status": status, "model": "m", "output": []});
        response.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        events(&[json!({"type": format!("response.{status}"), "response": response})])
    };
    let rows = [
        ("rate_limit_exceeded", "Slow down", ErrorKind::RateLimited),
        ("server_error", "The server had an error", ErrorKind::Overloaded),
        (
            "context_length_exceeded",
            "Your input exceeds the context window of this model",
            ErrorKind::ContextOverflow,
        ),
        ("insufficient_quota", "You exceeded your current quota", ErrorKind::Quota),
        ("invalid_prompt", "Invalid prompt", ErrorKind::BadRequest),
    ];
    for (code, words, kind) in rows {
        let failed =
            ask(ended("failed", json!({"error": {"code": code, "message": words}}))).await.0.unwrap_err();
        assert_eq!(failed.kind, kind, "{}", failed.message);
        assert!(failed.message.contains(words), "{}", failed.message);
    }
    let paused = ask(ended("incomplete", json!({"incomplete_details": {"reason": "max_tool_calls"}})))
        .await
        .0
        .unwrap();
    assert_eq!(paused.finish, Finish::Other("max_tool_calls".into()));
}

/// What the API refuses, sent by hand: the tests' server can refuse.
#[tokio::test]
async fn the_server_itself_is_strict() {
    let reasoning = |content: &str| json!({"type": "reasoning", "summary": [], "encrypted_content": content});
    let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "x"});
    let user = json!({"role": "user", "content": [{"type": "input_text", "text": "a"}]});
    let with = |name: &str, value: Value| {
        let mut body =
            json!({"model": "gpt-5-mini", "store": false, "stream": true, "input": [user.clone()]});
        body[name] = value;
        body
    };
    let input = |items: &[Value]| with("input", items.to_vec().into());
    let rows = [
        (input(&[user.clone(), output.clone()]), "No tool call found for function call output"),
        (input(&[user.clone(), call.clone()]), "No tool output found for function call"),
        (input(&[user.clone(), reasoning("gpt-5-mini-1")]), "without its required following item"),
        (input(&[reasoning("other-1"), call.clone(), output.clone()]), "could not be verified"),
        (
            input(&[json!({"type": "message", "id": "m1", "role": "user", "content": "a"})]),
            "Items are not persisted",
        ),
        (
            input(&[
                json!({"role": "assistant", "content": [{"type": "input_text", "text": "a"}]}),
                user.clone(),
            ]),
            "Invalid value: 'input_text'",
        ),
        (with("messages", json!([])), "Unknown parameter: 'messages'"),
        (with("previous_response_id", json!("resp_1")), "Previous response with id"),
        (with("temperature", json!(0.5)), "'temperature' is not supported"),
        (
            with("tools", json!([{"type": "function", "name": "f", "parameters": {"type": "object"}}])),
            "'additionalProperties' is required",
        ),
        (with("text", json!({"format": {"type": "json_schema", "schema": {}}})), "'text.format.name'"),
    ];
    for (body, words) in rows {
        let server = Server::start(|_, _| WIRE.reply(&Says::text("ok")));
        let headers = format!("authorization: Bearer {KEY}\r\n");
        let answer = server.post("/v1/responses", &headers, &body).await;
        assert!(answer.contains(words), "{words}: {answer}");
        assert!(!server.take_violations().is_empty());
    }
}

/// Reads a file, then answers; the server refuses reasoning that did not come back as it went out.
fn play(request: &Value, n: usize) -> Reply {
    let thought = "Both at once.";
    match n {
        1 => WIRE.reply(&Says {
            thought,
            proof: "p1".into(),
            calls: vec![("c1".into(), "read_file", json!({"path": "a.txt"}))],
            ..Says::default()
        }),
        2 => {
            let input = request["input"].to_string();
            assert!(input.contains("gpt-5-mini-p1") && input.contains("first file"), "{input}");
            WIRE.reply(&Says::text("I have read it."))
        }
        _ => panic!("asked {n} times"),
    }
}

#[test]
fn a_session_works_through_tools_and_plays_back_from_its_log() {
    let server = Server::start(play);
    let mut env = Env::new();
    env.set("RESPONSES_KEY", KEY);
    env.config(&format!(
        "model = \"gpt/gpt-5-mini\"\n[models.\"gpt/gpt-5-mini\"]\ncontext = 100000\nrefuses = [\"temperature\"]\n[providers.gpt]\nkind = \"openai-responses\"\nbase_url = \"{}\"\napi_key_env = \"RESPONSES_KEY\"\n",
        server.url()
    ));
    env.write("work/a.txt", "first file\n");
    let ran = env.run(&["run", "read it", "--yes", "--json"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("I have read it.") && !ran.stdout.contains(KEY), "{ran}");
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
    let sessions = env.run(&["sessions", "list", "--json"]);
    let list: Value = serde_json::from_str(&sessions.stdout).unwrap();
    let id = list[0]["id"].as_str().unwrap_or_else(|| panic!("{list}")).to_owned();
    let again = env.run(&["run", "read it", "--yes", "-m", &format!("log/{id}")]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "I have read it.\n"), "{again}");
    assert_eq!(server.requests().len(), 2, "nothing is asked of the server again");
}

#[test]
fn an_unknown_kind_is_named_with_those_there_are() {
    let env = Env::new();
    env.config("model = \"x/y\"\n[providers.x]\nkind = \"opnai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n");
    let ran = env.run(&["run", "hi"]);
    assert_ne!(ran.code, 0);
    let words =
        "unknown kind `opnai`; known are `openai`, `openai-responses`, `anthropic`, `llama`, `script`";
    assert!(ran.stderr.contains(words), "{ran}");
}

//! What is sent: messages, tools, schemas, address, headers and key.

use agon::protocol::message::{AnswerSchema, Args, Finish, Part, Pictures, Structured, ToolDecl};
use agon::protocol::{Lane, Role};
use serde_json::{Value, json};

use super::*;
use crate::support::{message, picture};

/// What the server is sent for a request, and how it was asked.
async fn sent(request: &Request) -> Value {
    let server = Server::start(|_, _| Reply::text("ok"));
    call(&openai::connect(config(&server.url())).unwrap(), request).await.0.unwrap();
    server.bodies().remove(0)
}

fn result(id: &str, name: &str, content: &str) -> Part {
    Part::Result { id: id.into(), name: name.into(), content: content.into(), is_error: false }
}

fn asked(id: &str, name: &str, args: Args) -> Part {
    Part::Call { id: id.into(), name: name.into(), args }
}

#[tokio::test]
async fn a_whole_conversation() {
    let mut whole = request(vec![
        said(Role::System, "You are a coder."),
        message(Role::User, vec![Part::Text { text: "what is this?".into() }, picture("AAAA")]),
        message(
            Role::Assistant,
            vec![
                Part::Reasoning { text: "hm".into(), opaque: None },
                Part::Text { text: "I look.".into() },
                asked("x", "read", Args::Json(serde_json::from_str("{\"b\":1.10,\"a\":2}").unwrap())),
                asked("x", "write", Args::Broken("{\"b\":".into())),
                asked("", "read", Args::Json(json!({}))),
            ],
        ),
        message(Role::Tool, vec![result("x", "write", "[e4] wrote")]),
        message(Role::Tool, vec![result("x", "read", "[e5] text"), picture("BBBB")]),
        message(Role::Tool, vec![result("", "read", "[e6] more")]),
        said(Role::User, "and now?"),
    ]);
    whole.spark = "coder".into();
    whole.model = "mock/vendor/model-1".into();
    whole.params.temperature_pm = Some(700);
    whole.params.max_output = Some(4096);
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    whole.tools =
        vec![ToolDecl { name: "read".into(), description: "Reads.".into(), schema: schema.clone() }.into()];
    let function = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let shown = |data: &str| json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}});
    let expected = json!({
        "model": "vendor/model-1",
        "messages": [
            {"role": "system", "content": "You are a coder."},
            {"role": "user", "content": [{"type": "text", "text": "what is this?"}, shown("AAAA")]},
            {"role": "assistant", "content": "I look.", "tool_calls": [
                function("x", "read", "{\"b\":1.10,\"a\":2}"),
                function("x-2", "write", "{\"b\":"),
                function("call", "read", "{}"),
            ]},
            {"role": "tool", "tool_call_id": "x-2", "content": "[e4] wrote"},
            {"role": "tool", "tool_call_id": "x", "content": "[e5] text"},
            {"role": "tool", "tool_call_id": "call", "content": "[e6] more"},
            {"role": "assistant", "content": "Noted."},
            {"role": "user", "content": [shown("BBBB"), {"type": "text", "text": "and now?"}]},
        ],
        "tools": [{"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": schema}}],
        "temperature": 0.7,
        "max_tokens": 4096,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    let sent = sent(&whole).await;
    assert_eq!(sent, expected, "{sent:#}");
}

#[tokio::test]
async fn a_picture_that_cannot_be_read_or_is_not_taken_is_sent_as_its_words() {
    let mut seen = request(vec![
        said(Role::User, "look"),
        message(Role::Assistant, vec![asked("x", "show", Args::Json(json!({})))]),
        message(Role::Tool, vec![result("x", "show", "[e5] taken"), picture("AAAA")]),
    ]);
    seen.pictures = Pictures::default();
    let expected = "[e5] taken\n[image/png of 640×480: a login form]";
    assert_eq!(sent(&seen).await["messages"][2]["content"], expected);
}

#[tokio::test]
async fn address_headers_and_key() {
    let server = Server::start(|_, _| Reply::text("ok"));
    let mut with = config(&format!("{}/?api-version=1", server.url()));
    with.headers = vec![("x-team".into(), "blue".into())];
    call(&openai::connect(with).unwrap(), &hello()).await.0.unwrap();
    let mut without = config(&server.url());
    without.api_key = None;
    call(&openai::connect(without).unwrap(), &hello()).await.0.unwrap();
    let requests = server.requests();
    assert_eq!(requests[0].line, "POST /v1/chat/completions?api-version=1");
    assert_eq!(requests[0].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(requests[0].header("x-team"), Some("blue"));
    assert_eq!(requests[0].header("user-agent"), Some(concat!("agon/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(requests[1].line, "POST /v1/chat/completions");
    assert_eq!(requests[1].header("authorization"), None);
}

fn typed(via: Structured) -> Request {
    let schema = json!({"type": "object", "properties": {"vote": {"type": "string"}}, "required": ["vote"], "additionalProperties": false});
    let mut request = hello();
    request.params.schema = Some(AnswerSchema { name: "ballot".into(), schema, via });
    request
}

#[tokio::test]
async fn typed_answers() {
    let by_format = sent(&typed(Structured::ResponseFormat)).await;
    assert_eq!(by_format["response_format"]["type"], "json_schema");
    assert_eq!(by_format["response_format"]["json_schema"]["name"], "ballot");
    assert_eq!(by_format["response_format"]["json_schema"]["strict"], true);
    assert_eq!(by_format["response_format"]["json_schema"]["schema"]["required"], json!(["vote"]));
    assert_eq!((by_format.get("tools"), by_format.get("tool_choice")), (None, None));
    let in_words = sent(&typed(Structured::Words)).await;
    assert_eq!((in_words.get("response_format"), in_words.get("tools")), (None, None));
}

#[tokio::test]
async fn a_forced_tool_answers_in_text() {
    let server = Server::start(|request, _| {
        assert_eq!(request["tool_choice"], json!({"type": "function", "function": {"name": "ballot"}}));
        Reply::calls([("ballot", json!({"vote": "yes"}))])
    });
    let provider = openai::connect(config(&server.url())).unwrap();
    let (ended, live) = call(&provider, &typed(Structured::ForcedTool)).await;
    let reply = ended.unwrap();
    assert_eq!(reply.message, [Part::Text { text: "{\"vote\":\"yes\"}".into() }]);
    assert_eq!(reply.finish, Finish::Stop);
    assert_eq!(live.lane(Lane::Text), "{\"vote\":\"yes\"}");
}

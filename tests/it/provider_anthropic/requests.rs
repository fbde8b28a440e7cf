//! What is sent: messages in turn, thinking with its signature, tools, schemas, marks for the cache.

use agon::protocol::message::{AnswerSchema, Structured, ToolDecl};
use agon::provider::ServerConfigError;

use super::*;
use crate::support::{message, picture};

fn result(id: &str, name: &str, content: &str, is_error: bool) -> Part {
    Part::Result { id: id.into(), name: name.into(), content: content.into(), is_error }
}

/// How a conversation begins: with parts of another model, a call with an id no API takes, a result that is an error.
fn beginning() -> Request {
    let foreign = Opaque {
        provider: "openai/openrouter.ai".into(),
        json: json!({"reasoning_details": [1]}),
        dropped: false,
    };
    let mut whole = request(vec![
        said(Role::System, "You are a coder."),
        said(Role::System, "AGENTS.md: be brief."),
        said(Role::User, "The task."),
        said(Role::User, "[summary]"),
        message(
            Role::Assistant,
            vec![
                Part::Reasoning { text: "of another".into(), opaque: Some(foreign) },
                Part::Reasoning { text: "unsigned".into(), opaque: None },
                Part::Text { text: String::new() },
                Part::Call {
                    id: "call 1!".into(),
                    name: "read".into(),
                    args: Args::Broken("{\"path\":".into()),
                },
            ],
        ),
        message(Role::Tool, vec![result("call 1!", "read", "[e3] no JSON", true)]),
    ]);
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let tool =
        |name: &str| ToolDecl { name: name.into(), description: "Does.".into(), schema: schema.clone() };
    whole.tools = vec![tool("read").into(), tool("list").into()];
    whole.params.max_output = Some(8192);
    whole
}

/// What a server answers that is asked first for calls, then for nothing more.
fn in_turn(_: &Value, n: usize) -> Reply {
    match n {
        1 => message_of("tool_use", &rich()),
        _ => message_of("end_turn", &[text_block("ok")]),
    }
}

/// The beginning, what the model answered to it, and what came of that.
async fn conversation(server: &Server) -> Request {
    let mut whole = beginning();
    whole.model = "mock/bound".into();
    let answer = call(server, &whole).await.0.unwrap().message;
    whole.messages.extend([
        message(Role::Assistant, answer),
        message(Role::Tool, vec![result("toolu_2", "list", "[e5] a", false), picture("AAAA")]),
        message(Role::Tool, vec![result("toolu_1", "read", "[e6] text", false)]),
        said(Role::User, "And now?"),
        said(Role::System, "Ten steps are left."),
    ]);
    whole
}

/// The second request, after what the conversation became was changed.
async fn second(change: impl FnOnce(&mut Request)) -> Value {
    let server = Server::start(in_turn);
    let mut whole = conversation(&server).await;
    change(&mut whole);
    call(&server, &whole).await.0.unwrap();
    server.bodies().remove(1)
}

#[tokio::test]
async fn a_whole_conversation() {
    let cached = |mut block: Value| {
        block["cache_control"] = json!({"type": "ephemeral"});
        block
    };
    let answer =
        |id: &str, content: &str| json!({"type": "tool_result", "tool_use_id": id, "content": content});
    let mut failed = answer("call", "[e3] no JSON");
    failed["is_error"] = true.into();
    let tool = |name: &str| json!({"name": name, "description": "Does.", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}});
    let expected = json!({
        "model": "bound",
        "max_tokens": 8192,
        "thinking": {"type": "adaptive", "display": "summarized"},
        "system": [text_block("You are a coder."), cached(text_block("AGENTS.md: be brief."))],
        "messages": [
            {"role": "user", "content": [text_block("The task."), text_block("[summary]")]},
            {"role": "assistant", "content": [tool_use("call", "read", json!({"arguments": "{\"path\":"}))]},
            {"role": "user", "content": [cached(failed)]},
            {"role": "assistant", "content": rich()},
            {"role": "user", "content": [
                answer("toolu_2", "[e5] a"),
                answer("toolu_1", "[e6] text"),
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                text_block("And now?"),
                cached(text_block("Ten steps are left.")),
            ]},
        ],
        "tools": [tool("read"), tool("list")],
        "stream": true,
    });
    let sent = second(|_| ()).await;
    assert_eq!(sent, expected, "{sent:#}");
}

fn thinks(body: &Value) -> bool {
    body["messages"].to_string().contains("thinking")
}

#[tokio::test]
async fn thinking_goes_back_to_its_own_model_only_and_never_once_it_was_redacted() {
    assert!(thinks(&second(|_| ()).await));
    assert!(!thinks(&second(|whole| whole.model = "mock/model-2".into()).await), "of another model");
    let dropped = second(|whole| whole.params.thinking = Some(false)).await;
    assert!(!thinks(&dropped));
    assert_eq!(dropped["thinking"]["type"], "adaptive", "newer models cannot be told not to think");
    let refused = second(|whole| whole.params.without = vec!["signature".into()]).await;
    assert!(!thinks(&refused));
}

/// The server refuses a block whose beginning is another one, so that each of these would fail the test.
#[tokio::test]
async fn thinking_is_left_out_once_anything_before_it_changed() {
    type Change = (&'static str, fn(&mut Request));
    let changes: [Change; 5] = [
        ("the system prompt", |whole| whole.messages[0] = said(Role::System, "You are a reviewer.")),
        ("a tool", |whole| whole.tools.truncate(1)),
        ("an earlier message", |whole| whole.messages[2] = said(Role::User, "Another task.")),
        ("a summary instead of messages", |whole| drop(whole.messages.drain(3..6))),
        ("how the answer is asked for", |whole| *whole = typed(Structured::ResponseFormat, whole.clone())),
    ];
    for (what, change) in changes {
        assert!(!thinks(&second(change).await), "{what}");
    }
    // A block that redaction took away takes those after it along.
    let redacted = second(|whole| {
        if let Part::Reasoning { opaque: Some(opaque), .. } =
            &mut std::sync::Arc::make_mut(&mut whole.messages[6]).parts[0]
        {
            opaque.dropped = true;
        }
    });
    assert!(!thinks(&redacted.await));
}

fn typed(via: Structured, mut request: Request) -> Request {
    let schema = json!({"type": "object", "properties": {"vote": {"type": "string"}}, "required": ["vote"], "additionalProperties": false});
    request.params.schema = Some(AnswerSchema { name: "ballot".into(), schema, via });
    request
}

#[tokio::test]
async fn typed_answers() {
    let server = Server::start(|request, _| {
        assert_eq!(request["tool_choice"], json!({"type": "tool", "name": "ballot"}));
        assert_eq!(
            request["thinking"],
            json!({"type": "disabled"}),
            "the API takes no forced tool with thinking"
        );
        message_of("tool_use", &[tool_use("toolu_9", "ballot", json!({"vote": "yes"}))])
    });
    let (ended, live) = call(&server, &typed(Structured::ForcedTool, hello())).await;
    let reply = ended.unwrap();
    assert_eq!(
        (reply.message, reply.finish),
        (vec![Part::Text { text: "{\"vote\":\"yes\"}".into() }], Finish::Stop)
    );
    assert_eq!(live.lane(Lane::Text), "{\"vote\":\"yes\"}");
    let formatted = sent(&typed(Structured::ResponseFormat, beginning())).await;
    assert_eq!(formatted["output_config"]["format"]["schema"]["required"], json!(["vote"]));
    assert_eq!((formatted["tools"].as_array().unwrap().len(), formatted.get("tool_choice")), (2, None));
    let in_words = |body: &Value| body["system"].to_string().contains("fitting this JSON Schema");
    let mut open = typed(Structured::ResponseFormat, hello());
    open.params.schema.as_mut().unwrap().schema = json!({"type": "object"});
    let mut refused = typed(Structured::ResponseFormat, hello());
    refused.params.without = vec!["output_config".into()];
    let mut unforced = typed(Structured::ForcedTool, hello());
    unforced.params.without = vec!["tool_choice".into()];
    for request in [open, refused, unforced] {
        let body = sent(&request).await;
        assert!(
            in_words(&body) && body.get("output_config").is_none() && body.get("tools").is_none(),
            "{body}"
        );
    }
    let said = sent(&typed(Structured::Words, hello())).await;
    assert_eq!((said.get("output_config"), said.get("system")), (None, None));
}

/// Every schema of agon's own, as the API takes it.
#[tokio::test]
async fn the_schemas_of_squads_and_debates_are_taken() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/protocol/schemas")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut request = typed(Structured::ResponseFormat, hello());
        request.params.schema.as_mut().unwrap().schema = serde_json::from_str(&text).unwrap();
        let body = sent(&request).await;
        assert!(body["output_config"]["format"]["schema"].is_object(), "{body}");
    }
}

#[tokio::test]
async fn address_headers_and_what_is_always_sent() {
    let server = Server::start(|_, _| message_of("end_turn", &[text_block("ok")]));
    let mut request = hello();
    request.params.temperature_pm = Some(1500);
    call(&server, &request).await.0.unwrap();
    request.params.without = vec!["thinking".into()];
    call(&server, &request).await.0.unwrap();
    assert_eq!(server.bodies()[0].get("temperature"), None, "none is taken beside thinking");
    let sent = &server.requests()[1];
    assert_eq!(sent.line, "POST /v1/messages");
    assert_eq!(sent.header("x-api-key"), Some(KEY));
    assert_eq!(sent.header("authorization"), None);
    assert_eq!(sent.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!((&sent.json["max_tokens"], &sent.json["temperature"]), (&json!(4096), &json!(1)));
    assert!(
        !sent.json.to_string().contains("cache_control"),
        "a request that stands alone is not worth a mark"
    );
    let named = ServerConfig { dialect: Some("mistral".into()), ..config("http://127.0.0.1:1/v1") };
    assert!(matches!(anthropic::connect(named), Err(ServerConfigError::Dialect { .. })));
    assert!(matches!(anthropic::connect(config("ftp://x")), Err(ServerConfigError::BaseUrl { .. })));
}

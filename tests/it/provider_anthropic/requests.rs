//! What is sent: messages in turn, thinking with its signature, tools, schemas, marks for the cache.

use agon::protocol::message::{AnswerSchema, Structured, ToolDecl};
use agon::provider::ServerConfigError;

use super::*;
use crate::support::message;

fn result(id: &str, name: &str, content: &str, is_error: bool) -> Part {
    Part::Result { id: id.into(), name: name.into(), content: content.into(), is_error }
}

/// A conversation with everything in it, of this model and of another.
fn conversation() -> Request {
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
        message(Role::Assistant, rich_parts()),
        message(
            Role::Tool,
            vec![
                result("toolu_2", "list", "[e5] a", false),
                Part::Image { media: "image/png".into(), data: "AAAA".into() },
            ],
        ),
        message(Role::Tool, vec![result("toolu_1", "read", "[e6] text", false)]),
        said(Role::User, "And now?"),
        said(Role::System, "Ten steps are left."),
    ]);
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let tool =
        |name: &str| ToolDecl { name: name.into(), description: "Does.".into(), schema: schema.clone() };
    whole.tools = vec![tool("read"), tool("list")];
    whole.params.max_output = Some(8192);
    whole
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
        "model": "model-1",
        "max_tokens": 8192,
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
    let sent = sent(&conversation()).await;
    assert_eq!(sent, expected, "{sent:#}");
}

#[tokio::test]
async fn thinking_goes_back_to_its_own_model_only_and_never_once_it_was_redacted() {
    let thinks = |body: &Value| body["messages"].to_string().contains("signature");
    assert!(thinks(&sent(&conversation()).await));
    let mut other = conversation();
    other.model = "mock/model-2".into();
    assert!(!thinks(&sent(&other).await), "a signature of another model is refused");
    let mut redacted = conversation();
    redacted.params.thinking = Some(false);
    let body = sent(&redacted).await;
    assert!(!thinks(&body));
    assert_eq!(body["thinking"], json!({"type": "disabled"}));
}

fn typed(via: Structured, mut request: Request) -> Request {
    let schema = json!({"type": "object", "properties": {"vote": {"type": "string"}}, "required": ["vote"], "additionalProperties": false});
    request.params.schema = Some(AnswerSchema { name: "ballot".into(), schema, via });
    request
}

#[tokio::test]
async fn typed_answers() {
    for via in [Structured::ForcedTool, Structured::ResponseFormat] {
        let server = Server::start(|request, _| {
            assert_eq!(request["tool_choice"], json!({"type": "tool", "name": "ballot"}));
            assert_eq!(
                request["thinking"],
                json!({"type": "disabled"}),
                "the API takes no forced tool with thinking"
            );
            message_of("tool_use", &[tool_use("toolu_9", "ballot", json!({"vote": "yes"}))])
        });
        let (ended, live) = call(&server, &typed(via, hello())).await;
        let reply = ended.unwrap();
        assert_eq!(
            (reply.message, reply.finish),
            (vec![Part::Text { text: "{\"vote\":\"yes\"}".into() }], Finish::Stop)
        );
        assert_eq!(live.lane(Lane::Text), "{\"vote\":\"yes\"}");
    }
    let beside_tools = sent(&typed(Structured::ResponseFormat, conversation())).await;
    assert_eq!(beside_tools.get("tool_choice"), None);
    assert!(beside_tools["system"].to_string().contains("fitting this JSON Schema"));
    let in_words = sent(&typed(Structured::Words, hello())).await;
    assert_eq!((in_words.get("tool_choice"), in_words.get("system")), (None, None));
}

#[tokio::test]
async fn address_headers_and_what_is_always_sent() {
    let server = Server::start(|_, _| message_of("end_turn", &[text_block("ok")]));
    let mut request = hello();
    request.params.temperature_pm = Some(1500);
    call(&server, &request).await.0.unwrap();
    let sent = &server.requests()[0];
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
    assert!(matches!(Anthropic::new(named), Err(ServerConfigError::Dialect { .. })));
    assert!(matches!(Anthropic::new(config("ftp://x")), Err(ServerConfigError::BaseUrl { .. })));
}

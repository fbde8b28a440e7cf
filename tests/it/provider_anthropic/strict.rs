//! The tests' server refuses what the Messages API refuses.

use super::*;

/// What the API refuses, sent by hand: the tests' server can refuse.
#[tokio::test]
async fn the_server_itself_is_strict() {
    let base = || json!({"model": "m", "max_tokens": 10, "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let with = |messages: Value| {
        let mut body = base();
        body["messages"] = messages;
        body
    };
    let also = |name: &str, value: Value, model: &str| {
        let mut body = base();
        (body["model"], body["thinking"]) = (model.into(), json!({"type": "adaptive"}));
        body[name] = value;
        body
    };
    let mut unlimited = base();
    unlimited.as_object_mut().unwrap().remove("max_tokens");
    let asks = json!({"role": "assistant", "content": [tool_use("toolu_1", "f", json!({}))]});
    let rows = [
        (unlimited, "max_tokens: Field required"),
        (
            with(json!([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])),
            "roles must alternate",
        ),
        (
            with(
                json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "c"}]}]),
            ),
            "unexpected `tool_use_id`",
        ),
        (
            with(json!([{"role": "user", "content": "a"}, asks, {"role": "user", "content": "b"}])),
            "without `tool_result` blocks",
        ),
        (
            with(
                json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}]}, {"role": "user", "content": "b"}]),
            ),
            "signature: Field required",
        ),
        (
            with(json!([{"role": "user", "content": [text_block("")]}])),
            "text content blocks must be non-empty",
        ),
        (with(json!([{"role": "system", "content": "a"}])), "Unexpected role"),
        (
            with(json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])),
            "does not support assistant message prefill",
        ),
        (also("temperature", json!(0.5), "m"), "may only be set to 1 when thinking is enabled"),
        (also("tool_choice", json!({"type": "tool", "name": "f"}), "m"), "Thinking may not be enabled"),
        (also("tool_choice", json!({"type": "any"}), "claude-opus-5-5"), "are not supported for this model"),
        (also("thinking", json!({"type": "disabled"}), "bound"), "thinking.type.disabled"),
        (also("temperature", json!(1), "bound"), "`temperature` is deprecated"),
        (
            also(
                "output_config",
                json!({"format": {"type": "json_schema", "schema": {"type": "integer", "minimum": 1}}}),
                "m",
            ),
            "property 'minimum' is not supported",
        ),
        (
            also(
                "output_config",
                json!({"format": {"type": "json_schema", "schema": {"type": "object"}}}),
                "m",
            ),
            "must be explicitly set to false",
        ),
        (
            also(
                "messages",
                json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": [thinking("t", "s")]}, {"role": "user", "content": "b"}]),
                "bound",
            ),
            "bound to a different conversation",
        ),
    ];
    for (body, words) in rows {
        let server = Server::start(|_, _| message_of("end_turn", &[text_block("ok")]));
        let client = post(&server, &body).await;
        assert!(client.contains(words), "{words}: {client}");
        assert!(!server.take_violations().is_empty());
    }
}

/// Posts a body as it is and gives the whole answer back.
async fn post(server: &Server, body: &Value) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(server.host()).await.unwrap();
    let body = body.to_string();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nx-api-key: {KEY}\r\nanthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // Head and body of the refusal come in pieces of their own; the body is JSON on one line.
    while !answer.ends_with(b"}}") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "{}", String::from_utf8_lossy(&answer));
    }
    String::from_utf8_lossy(&answer).into_owned()
}

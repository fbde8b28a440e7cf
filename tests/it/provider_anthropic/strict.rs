//! The tests' server refuses what the Messages API refuses.

use super::*;

fn body(name: &str, value: Value, model: &str) -> Value {
    let mut body = json!({"model": model, "max_tokens": 10, "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    body[name] = value;
    body
}

/// Sends each by hand: the server has to refuse it in these words.
async fn refused(rows: impl IntoIterator<Item = (Value, &str)>) {
    for (body, words) in rows {
        let server = Server::start(|_, _| message_of("end_turn", &[text_block("ok")]));
        let headers = format!("x-api-key: {KEY}\r\nanthropic-version: 2023-06-01\r\n");
        let answer = server.post("/v1/messages", &headers, &body).await;
        assert!(answer.contains(words), "{words}: {answer}");
        assert!(!server.take_violations().is_empty());
    }
}

#[tokio::test]
async fn messages_out_of_order() {
    let user = |content: Value| json!({"role": "user", "content": content});
    let assistant = |content: Value| json!({"role": "assistant", "content": content});
    let with = |messages: &[Value]| body("messages", messages.to_vec().into(), "m");
    let asks = assistant(json!([tool_use("toolu_1", "f", json!({}))]));
    let orphan = user(json!([{"type": "tool_result", "tool_use_id": "x", "content": "c"}]));
    let unsigned = assistant(json!([{"type": "thinking", "thinking": "t"}]));
    refused([
        (with(&[user("a".into()), user("b".into())]), "roles must alternate"),
        (with(&[orphan]), "unexpected `tool_use_id`"),
        (with(&[user("a".into()), asks, user("b".into())]), "without `tool_result` blocks"),
        (with(&[user("a".into()), unsigned, user("b".into())]), "signature: Field required"),
        (with(&[user(json!([text_block("")]))]), "text content blocks must be non-empty"),
        (with(&[json!({"role": "system", "content": "a"})]), "Unexpected role"),
        (with(&[user("a".into()), assistant("b".into())]), "does not support assistant message prefill"),
    ])
    .await;
}

#[tokio::test]
async fn parameters() {
    let mut unlimited = body("model", "m".into(), "m");
    unlimited.as_object_mut().unwrap().remove("max_tokens");
    let adaptive = |name: &str, value: Value, model: &str| {
        let mut body = body(name, value, model);
        body["thinking"] = json!({"type": "adaptive"});
        body
    };
    let format = |schema: Value| json!({"format": {"type": "json_schema", "schema": schema}});
    let bound = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": [thinking("t", "s")]}, {"role": "user", "content": "b"}]);
    refused([
        (unlimited, "max_tokens: Field required"),
        (adaptive("temperature", json!(0.5), "m"), "may only be set to 1 when thinking is enabled"),
        (adaptive("tool_choice", json!({"type": "tool", "name": "f"}), "m"), "Thinking may not be enabled"),
        (body("tool_choice", json!({"type": "any"}), "claude-opus-5-5"), "are not supported for this model"),
        (body("thinking", json!({"type": "disabled"}), "bound"), "thinking.type.disabled"),
        (body("temperature", json!(1), "bound"), "`temperature` is deprecated"),
        (body("output_config", format(json!({"type": "integer", "minimum": 1})), "m"), "property 'minimum'"),
        (body("output_config", format(json!({"type": "object"})), "m"), "must be explicitly set to false"),
        (body("messages", bound, "bound"), "bound to a different conversation"),
    ])
    .await;
}

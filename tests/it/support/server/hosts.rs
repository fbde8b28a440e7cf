//! What one host refuses beyond the common format: status and words as they were published.

use serde_json::{Value, json};

/// The refusal of a request by a host; none when it takes it.
pub fn refusal(host: &str, body: &Value) -> Option<(u16, Value)> {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    match host {
        "openai" | "azure" => old_limit(body),
        "openrouter" => unsigned(&messages, "reasoning_details").map(openrouter),
        "groq" => field_of_assistant(&messages, "reasoning_content").map(groq),
        "together" => too_much(body),
        "mistral" => mistral(body, &messages),
        "deepseek" => deepseek(body, &messages),
        "xai" => unknown_field(body),
        "gemini" => unsigned(&messages, "extra_content").map(gemini),
        "ollama" | "github-copilot" => None,
        "lmstudio" => template(&messages).or_else(|| lmstudio(body)),
        _ => template(&messages),
    }
}

fn bad(words: impl Into<String>) -> (u16, Value) {
    let message: String = words.into();
    (
        400,
        json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": null}}),
    )
}

/// <https://github.com/langgenius/dify/issues/9746>
fn old_limit(body: &Value) -> Option<(u16, Value)> {
    body.get("max_tokens")?;
    let message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    let (kind, code) = ("invalid_request_error", "unsupported_parameter");
    Some((400, json!({"error": {"message": message, "type": kind, "param": "max_tokens", "code": code}})))
}

/// The first message with calls that lacks what must come back, on itself or on its first call.
fn unsigned(messages: &[Value], field: &str) -> Option<usize> {
    let lacks = |message: &Value| {
        message.get("tool_calls").is_some()
            && message.get(field).is_none()
            && message["tool_calls"][0].get(field).is_none()
    };
    messages.iter().position(lacks)
}

/// <https://github.com/massgen/MassGen/issues/624>
fn openrouter(_: usize) -> (u16, Value) {
    let raw = "Gemini models require OpenRouter reasoning details to be preserved in each request.";
    let metadata = json!({"raw": raw, "provider_name": "Google AI Studio"});
    (400, json!({"error": {"message": "Provider returned error", "code": 400, "metadata": metadata}}))
}

/// <https://github.com/securo-finance/securo/issues/884>
fn gemini(at: usize) -> (u16, Value) {
    let message = format!(
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly. Additional data, function call `default_api:read`, position {at}."
    );
    (400, json!([{"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}]))
}

fn field_of_assistant(messages: &[Value], field: &str) -> Option<usize> {
    messages.iter().position(|message| message.get(field).is_some())
}

/// <https://github.com/janhq/jan/issues/8136>
fn groq(at: usize) -> (u16, Value) {
    bad(format!(
        "'messages.{at}' : for 'role:assistant' the following must be satisfied[('messages.{at}' : property 'reasoning_content' is unsupported)]"
    ))
}

/// <https://github.com/stanford-crfm/helm/pull/2079>
fn too_much(body: &Value) -> Option<(u16, Value)> {
    let asked = body["max_tokens"].as_u64().filter(|asked| *asked > 4096)?;
    let message = format!(
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 4097 `inputs` tokens and {asked} `max_new_tokens`"
    );
    Some((422, json!({"error": {"message": message, "type": "invalid_request_error"}})))
}

fn extra_forbidden(place: Value) -> (u16, Value) {
    let detail = json!([{"type": "extra_forbidden", "loc": place, "msg": "Extra inputs are not permitted", "input": true}]);
    (
        422,
        json!({"object": "error", "message": {"detail": detail}, "type": "invalid_request_error", "param": null, "code": null}),
    )
}

/// <https://github.com/dnakov/anon-kode/issues/53>, <https://github.com/editor-code-assistant/eca/issues/231>,
/// <https://github.com/charmbracelet/crush/issues/1590>, <https://github.com/anomalyco/opencode/issues/1680>,
/// <https://github.com/zed-industries/zed/issues/37021>
fn mistral(body: &Value, messages: &[Value]) -> Option<(u16, Value)> {
    for field in ["stream_options", "max_completion_tokens"] {
        if body.get(field).is_some() {
            return Some(extra_forbidden(json!(["body", field])));
        }
    }
    for (at, message) in messages.iter().enumerate() {
        for field in ["reasoning_content", "reasoning_details", "extra_content"] {
            if message.get(field).is_some() {
                return Some(extra_forbidden(json!(["body", "messages", at, "assistant", field])));
            }
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let id = call["id"].as_str().unwrap_or_default();
            if id.len() != 9 || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
                let message = format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.");
                return Some((
                    400,
                    json!({"object": "error", "message": message, "type": "invalid_function_call", "code": "3280"}),
                ));
            }
        }
    }
    let order = |message: String| {
        (
            400,
            json!({"object": "error", "message": message, "type": "invalid_request_message_order", "param": null, "code": "3230"}),
        )
    };
    messages.windows(2).find_map(|pair| {
        let (before, role) = (pair[0]["role"].as_str()?, pair[1]["role"].as_str()?);
        let refused =
            matches!((before, role), ("tool", "user") | ("user", "tool") | ("assistant", "assistant"))
                || role == "system";
        refused.then(|| order(format!("Unexpected role '{role}' after role '{before}'")))
    })
}

/// <https://github.com/zed-industries/zed/issues/55321>, <https://github.com/llm-exe/llm-exe/issues/662>,
/// <https://github.com/BerriAI/litellm/pull/31466>, <https://github.com/browserbase/stagehand/issues/1204>
fn deepseek(body: &Value, messages: &[Value]) -> Option<(u16, Value)> {
    let lacks = |m: &Value| m["role"] == "assistant" && !m["reasoning_content"].is_string();
    if messages.iter().any(lacks) {
        return Some(bad("The `reasoning_content` in the thinking mode must be passed back to the API."));
    }
    match body["response_format"]["type"].as_str() {
        Some("json_schema") => return Some(bad("This response_format type is unavailable now")),
        Some("json_object") if !json!(messages).to_string().to_lowercase().contains("json") => {
            return Some(bad(
                "Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'.",
            ));
        }
        _ => {}
    }
    body["tool_choice"].is_object().then(|| bad("deepseek-reasoner does not support this tool_choice"))
}

/// <https://github.com/open-webui/open-webui/issues/21266>: what the reasoning models do not know is refused by name.
fn unknown_field(body: &Value) -> Option<(u16, Value)> {
    const KNOWN: [&str; 9] = [
        "model",
        "messages",
        "tools",
        "tool_choice",
        "response_format",
        "temperature",
        "max_tokens",
        "stream",
        "stream_options",
    ];
    let name = body.as_object()?.keys().find(|name| !KNOWN.contains(&name.as_str()))?;
    let words = format!("Model grok does not support parameter {name}.");
    Some((400, json!({"code": "Client specified an invalid argument", "error": words})))
}

/// <https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/189>
fn lmstudio(body: &Value) -> Option<(u16, Value)> {
    let refused = body["response_format"]["type"] == "json_object";
    refused.then(|| (400, json!({"error": "'response_format.type' must be 'json_schema' or 'text'"})))
}

/// The rules of two chat templates that servers apply to what they are sent: Qwen's (vllm-project/vllm#41114,
/// ggml-org/llama.cpp#20733) on system messages, and Devstral's and Gemma's (charmbracelet/crush#279) on turns,
/// which skip tools and the calls for them.
fn template(messages: &[Value]) -> Option<(u16, Value)> {
    if messages.iter().skip(1).any(|message| message["role"] == "system") {
        return Some(bad("System message must be at the beginning."));
    }
    let turns = messages.iter().filter(|message| {
        message["role"] == "user" || (message["role"] == "assistant" && message.get("tool_calls").is_none())
    });
    let wrong = turns.enumerate().any(|(at, message)| (message["role"] == "user") != (at % 2 == 0));
    wrong.then(|| {
        bad("After the optional system message, conversation roles must alternate user/assistant/user/assistant/...")
    })
}

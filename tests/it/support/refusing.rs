//! What OpenAI's reasoning models answer to parameters they refuse, word for word.

use serde_json::{Value, json};

use super::server::Reply;

/// The refusal of a request to `gpt-5`, if it gets one.
pub fn as_gpt5(request: &Value) -> Option<Reply> {
    let error = |words: String, param: &str, code: &str| {
        let error = json!({"message": words, "type": "invalid_request_error", "param": param, "code": code});
        Some(Reply::status(400, &json!({"error": error}).to_string()))
    };
    if request.get("max_tokens").is_some() {
        let words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                     'max_completion_tokens' instead.";
        return error(words.to_owned(), "max_tokens", "unsupported_parameter");
    }
    match request.get("temperature") {
        Some(value) if *value != json!(1) => error(
            format!(
                "Unsupported value: 'temperature' does not support {value} with this model. Only the default (1) \
                 value is supported."
            ),
            "temperature",
            "unsupported_value",
        ),
        _ => None,
    }
}

/// The same for every request, wherever it comes to one.
pub fn or_refused(request: &Value, answer: impl FnOnce() -> Reply) -> Reply {
    as_gpt5(request).unwrap_or_else(answer)
}

//! Reads off a provider's error which parameters of a request its model refuses.

use crate::protocol::event::ErrorKind;
use crate::protocol::spec::TOOLS;
use crate::provider::failure::Report;

/// Parameters without which a request still means the same.
const OPTIONAL: [&str; 16] = [
    "reasoning_effort",
    "reasoning.effort",
    "output_config.effort",
    "chat_template_kwargs",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "stream_options",
    "response_format",
    "thinking",
    "output_config",
    "tool_choice",
    "reasoning",
    "include",
    "text",
    "prompt_cache_key",
];

/// Of these, names that are words of any message as well: they count where the error names its parameter, or one of its
/// fields between quotes.
const WORDS: [&str; 3] = ["reasoning", "include", "text"];

/// How servers speak of the effort without the name it was sent by.
const EFFORT: [&str; 2] = ["effort parameter", "parameter reasoningeffort"];

/// No parameter: stands for all thinking of earlier answers.
const SIGNATURE: &str = "signature";

/// What servers say of a model that cannot call tools: Ollama, OpenRouter, vLLM.
pub(super) const NO_TOOLS: [&str; 3] = ["not support tools", "support tool use", "tools are not supported"];

/// What servers say of a parameter they refuse, whatever its value. An error about a value alone (`too large`,
/// `must be at most 2`) has none of it.
///
/// OpenAI, Azure: `Unsupported value: 'temperature' does not support 0.3 with this model`, `Unsupported parameter:
/// 'max_tokens' is not supported with this model`, `Unrecognized request argument supplied: max_completion_tokens`.
/// Mistral, vLLM: `extra_forbidden`, `Extra inputs are not permitted`. Gemini: `Unknown name "stream_options"`. Groq,
/// Cerebras: `property 'stream_options' is unsupported`. Moonshot: `invalid temperature: only 1 is allowed for this
/// model`. DeepSeek: `This response_format type is unavailable now`, LM Studio: `'response_format.type' must be
/// 'json_schema' or 'text'`, llama-cpp-python: `Input should be 'text' or 'json_object'`. Anthropic: `temperature is deprecated for this model`,
/// `Invalid `signature` in `thinking` block`, `output_config.format.schema: Schema is too complex`,
/// `This model does not support the effort parameter`. xAI: `Model grok-4 does not support parameter reasoningEffort`. Groq:
/// `reasoning_effort must be one of none or default`. LiteLLM: `gpt-5 models
/// don't support temperature=0.3`.
const REFUSALS: [&str; 22] = [
    "must be one of `none`",
    "must be one of none",
    "unsupported",
    "not support",
    "n't support",
    "unrecognized",
    "unknown name",
    "unknown parameter",
    "unknown_parameter",
    "extra_forbidden",
    "not permitted",
    "not allowed",
    "is deprecated",
    "is allowed for this model",
    "unavailable now",
    "must be 'json_schema'",
    "input should be 'text'",
    "invalid `signature`",
    "could not be verified",
    "must be verified to generate",
    "too complex",
    "grammar is too large",
];

/// The optional parameters an error refuses, by their names on the wire; whether they were sent is not looked at.
pub(super) fn refused(report: &Report) -> Vec<String> {
    let words = report.words.to_lowercase();
    // What to use instead is not what is refused.
    let words = words.split(". use ").next().unwrap_or_default();
    if report.kind() == ErrorKind::BadRequest && NO_TOOLS.iter().any(|phrase| words.contains(phrase)) {
        return vec![TOOLS.to_owned()];
    }
    let is_refusal = REFUSALS.iter().any(|phrase| words.contains(phrase) || report.code.contains(phrase));
    if report.kind() != ErrorKind::BadRequest || !is_refusal {
        return Vec::new();
    }
    if words.contains("invalid `signature`") || words.contains("could not be verified") {
        return vec![SIGNATURE.to_owned()];
    }
    let is_meant = |name: &&&str| match report.param.as_str() {
        "" if WORDS.contains(name) => {
            ['`', '\''].iter().any(|quote| words.contains(&format!("{quote}{name}.")))
        }
        "" => {
            names(words, name) || name.ends_with("effort") && EFFORT.iter().any(|said| words.contains(said))
        }
        param => param == **name || param.split('.').next() == Some(**name),
    };
    OPTIONAL.iter().filter(is_meant).map(|name| (*name).to_owned()).collect()
}

/// True when a text has this name as a word of its own.
fn names(words: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    words.match_indices(name).any(|(at, _)| {
        let (before, after) = (&words[..at], &words[at + name.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EFFORTS: [&str; 3] = ["reasoning_effort", "reasoning.effort", "output_config.effort"];

    /// Status, body, and the parameters it refuses.
    const ANSWERS: &[(u16, &str, &[&str])] = &[
        // Ollama #5793; OpenRouter.
        (
            400,
            r#"{"error":{"message":"registry.ollama.ai/library/gemma3:4b does not support tools","type":"api_error"}}"#,
            &["tools"],
        ),
        (404, r#"{"error":{"message":"No endpoints found that support tool use.","code":404}}"#, &["tools"]),
        // OpenAI, gpt-5 and o3; langchaingo #1355, aider #3907.
        (
            400,
            r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0.3 with this model. Only the default (1) value is supported.","type":"invalid_request_error","param":"temperature","code":"unsupported_value"}}"#,
            &["temperature"],
        ),
        (
            400,
            r#"{"error":{"message":"Unsupported parameter: 'temperature' is not supported with this model.","type":"invalid_request_error","param":"temperature","code":"unsupported_parameter"}}"#,
            &["temperature"],
        ),
        // OpenAI and Azure; the other name is in the text, but `param` says which is meant.
        (
            400,
            r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}"#,
            &["max_tokens"],
        ),
        // Azure with an older API version.
        (
            400,
            r#"{"error":{"message":"Unrecognized request argument supplied: max_completion_tokens","type":"invalid_request_error","param":null,"code":null}}"#,
            &["max_completion_tokens"],
        ),
        // OpenRouter passes the provider's own answer on as text.
        (
            400,
            r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\n  \"error\": {\n    \"message\": \"Unsupported value: 'temperature' does not support 0.3 with this model. Only the default (1) value is supported.\",\n    \"param\": \"temperature\"}}","provider_name":"OpenAI"}}}"#,
            &["temperature"],
        ),
        // Mistral; anon-kode #53.
        (
            422,
            r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted","input":{"include_usage":true}}]},"type":"invalid_request_error","param":null,"code":null}"#,
            &["stream_options"],
        ),
        // FastAPI servers.
        (
            422,
            r#"{"detail":[{"type":"extra_forbidden","loc":["body","max_completion_tokens"],"msg":"Extra inputs are not permitted","input":5}]}"#,
            &["max_completion_tokens"],
        ),
        (
            400,
            r#"{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs are not permitted'}]","type":"BadRequestError","param":null,"code":400}"#,
            &["stream_options"],
        ),
        // Gemini's endpoint answers with a list.
        (
            400,
            r#"[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"stream_options\": Cannot find field.","status":"INVALID_ARGUMENT"}}]"#,
            &["stream_options"],
        ),
        (
            400,
            r#"{"error":{"message":"property 'stream_options' is unsupported","type":"invalid_request_error"}}"#,
            &["stream_options"],
        ),
        (
            400,
            r#"{"error":{"message":"invalid temperature: only 1 is allowed for this model","type":"invalid_request_error"}}"#,
            &["temperature"],
        ),
        (
            400,
            r#"{"error":{"message":"litellm.BadRequestError: AnthropicException - `temperature` is deprecated for this model.","type":null,"param":null,"code":"400"}}"#,
            &["temperature"],
        ),
        (
            400,
            r#"{"error":{"message":"litellm.UnsupportedParamsError: gpt-5 models (including gpt-5-codex) don't support temperature=0.3. Only temperature=1 is supported.","type":"None","param":null,"code":"400"}}"#,
            &["temperature"],
        ),
        // DeepSeek, LM Studio, llama-cpp-python.
        (
            400,
            r#"{"error":{"message":"This response_format type is unavailable now","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
            &["response_format"],
        ),
        (400, r#"{"error":"'response_format.type' must be 'json_schema' or 'text'"}"#, &["response_format"]),
        (
            500,
            r#"{"error":{"message":"[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text' or 'json_object'\"}]","type":"internal_server_error","param":null,"code":null}}"#,
            &["response_format"],
        ),
        // OpenAI's Responses API: openai/openai-agents-python#2063, anomalyco/opencode#5104.
        (
            400,
            r#"{"error":{"message":"The encrypted content gAAA...wXBV could not be verified.","type":"invalid_request_error","param":null,"code":"invalid_encrypted_content"}}"#,
            &["signature"],
        ),
        (
            400,
            r#"{"error":{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error","param":"include","code":null}}"#,
            &["include"],
        ),
        (
            400,
            r#"{"error":{"message":"Your organization must be verified to generate reasoning summaries. Please go to: …","type":"invalid_request_error","param":"reasoning.summary","code":"unsupported_value"}}"#,
            &["reasoning"],
        ),
        // Anthropic's published words.
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"\"thinking.type.disabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior."}}"#,
            &["thinking"],
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.5.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."}}"#,
            &["signature"],
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"output_config.format.schema: For 'integer' type, property 'minimum' is not supported"}}"#,
            &["output_config"],
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"output_config.format.schema: Schema is too complex for compilation"}}"#,
            &["output_config"],
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"tool_choice: type \"tool\" and \"any\" are not supported for this model"}}"#,
            &["tool_choice"],
        ),
        // LiteLLM in front of models that do not think, and of hosts without the key.
        (
            400,
            r#"{"error":{"message":"litellm.UnsupportedParamsError: llama doesn't support `reasoning.effort` (its model cost map entry lacks `supports_reasoning`). To drop unsupported params set `litellm.drop_params = True`","type":"None","param":null,"code":"400"}}"#,
            &["reasoning.effort", "reasoning"],
        ),
        (
            400,
            r#"{"error":{"message":"litellm.UnsupportedParamsError: anthropic does not support parameters: ['prompt_cache_key'], for model=x.","type":"None","param":null,"code":"400"}}"#,
            &["prompt_cache_key"],
        ),
        // Effort: anthropics/claude-code#30010, BerriAI/litellm#16265, earendil-works/pi#1745, OpenAI.
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"This model does not support the effort parameter."}}"#,
            &EFFORTS,
        ),
        (
            400,
            r#"{"code":"Client specified an invalid argument","error":"Model grok-4-latest does not support parameter reasoningEffort."}"#,
            &EFFORTS,
        ),
        (
            400,
            r#"{"error":{"message":"`reasoning_effort` must be one of `none` or `default`","type":"invalid_request_error"}}"#,
            &["reasoning_effort"],
        ),
        (
            400,
            r#"{"error":{"message":"Unsupported parameter: 'reasoning.effort' is not supported with this model.","type":"invalid_request_error","param":"reasoning.effort","code":"unsupported_parameter"}}"#,
            &["reasoning.effort", "reasoning"],
        ),
        // What is no refusal of a parameter.
        (
            400,
            r#"{"error":{"message":"max_tokens is too large: 200000. This model supports at most 16384 completion tokens","param":"max_tokens"}}"#,
            &[],
        ),
        (
            400,
            r#"{"error":{"message":"Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.","param":"temperature","code":"decimal_above_max_value"}}"#,
            &[],
        ),
        (
            400,
            r#"{"error":{"message":"Unsupported value: 'messages[0].role' does not support 'system' with this model.","param":"messages[0].role","code":"unsupported_value"}}"#,
            &[],
        ),
        (401, r#"{"error":{"message":"temperature is not allowed for your key"}}"#, &[]),
        (400, r#"{"error":{"message":"max_completion_tokens_x is not supported"}}"#, &[]),
    ];

    #[test]
    fn refusals_are_read_in_the_words_of_real_servers() {
        for (status, body, expected) in ANSWERS {
            assert_eq!(refused(&Report::of_answer(*status, body.as_bytes())), *expected, "{body}");
        }
    }
}

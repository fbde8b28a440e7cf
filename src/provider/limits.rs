//! Reads the limits a provider names when it refuses a request as too large, out of its own words.

use crate::protocol::event::ModelLimits;

/// Characters between a phrase and its number.
const NEAR: usize = 24;

/// The limits these words name; none when they name none.
///
/// Read as published: OpenAI, vLLM (both wordings), TGI and Together, Mistral, Groq, DeepSeek, OpenRouter, Gemini,
/// llama-server, Anthropic. A test has a row for each.
pub(super) fn read(words: &str) -> Option<ModelLimits> {
    let text: String = words.to_lowercase().chars().filter(|c| !matches!(c, '`' | '\'' | '"')).collect();
    let after = |phrases: &[&str]| phrases.iter().find_map(|phrase| first_after(&text, phrase));
    let before = |phrases: &[&str]| phrases.iter().find_map(|phrase| last_before(&text, phrase));
    let mut limits = ModelLimits {
        context: after(&[
            "maximum context length is",
            "maximum context length of",
            "max_new_tokens must be <=",
            "context size (",
            "context size of",
            "(tpm): limit",
        ])
        .or_else(|| before(&["maximum context length"])),
        input: before(&[
            "tokens in the messages",
            "in the messages",
            "input tokens",
            "inputs tokens",
            "of text input",
        ])
        .or_else(|| after(&["prompt contains", "messages resulted in", "request ("])),
        output: after(&["supports at most", "less than or equal to", "valid range of max_tokens is [1,"])
            .or_else(|| before(&[", which is the maximum allowed number of output tokens"]))
            .or_else(|| before(&["(exclusive)"]).map(|end| end.saturating_sub(1))),
    };
    // Anthropic: `context limit: 188240 + 21333 > 200000`, `too long: 208310 tokens > 200000 maximum`.
    if let Some((left, right)) = text.split_once('>')
        && (text.contains("context limit:") || text.contains("too long:"))
    {
        limits.input = numbers(left).next();
        limits.context = numbers(right).next();
    }
    (limits != ModelLimits::default()).then_some(limits)
}

fn first_after(text: &str, phrase: &str) -> Option<u64> {
    let rest = text.split_once(phrase)?.1;
    numbers(&rest[..rest.floor_char_boundary(NEAR)]).next()
}

/// The number right before the phrase, at the first place where there is one.
fn last_before(text: &str, phrase: &str) -> Option<u64> {
    text.match_indices(phrase).find_map(|(at, _)| {
        let near = text.ceil_char_boundary(at.saturating_sub(NEAR));
        numbers(&text[near..at]).last()
    })
}

/// Whole numbers in a text, also as `200,000`.
fn numbers(text: &str) -> impl Iterator<Item = u64> {
    let joined = |c: char| c.is_ascii_digit() || c == ',';
    text.split(move |c: char| !joined(c))
        .map(|piece| piece.trim_matches(',').replace(',', ""))
        .filter_map(|digits| digits.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_words() {
        let rows = [
            // OpenAI and older vLLM: vllm-project/vllm#20409
            (
                "This model's maximum context length is 8192 tokens. However, you requested 10192 tokens (2000 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.",
                (Some(8192), Some(2000), None),
            ),
            // vLLM: stepfun-ai/Step-Audio-R1#3
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 8192 tokens and your request has 12 input tokens (32000 > 8192 - 12).",
                (Some(8192), Some(12), None),
            ),
            // vLLM: vllm-project/vllm#42474
            (
                "This model's maximum context length is 128000 tokens. However, you requested 65535 output tokens and your prompt contains at least 62466 input tokens, for a total of at least 128001 tokens.",
                (Some(128_000), Some(62_466), None),
            ),
            // TGI, Together: bytedance/UI-TARS-desktop#626
            (
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 65537. Given: 79993 `inputs` tokens and 1024 `max_new_tokens`",
                (Some(65_537), Some(79_993), None),
            ),
            (
                "Prompt contains 33000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
                (Some(32_768), Some(33_000), None),
            ),
            (
                "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens (8000 of text input, 32000 in the output).",
                (Some(32_768), Some(8_000), None),
            ),
            (
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 10192 tokens.",
                (Some(8192), Some(10_192), None),
            ),
            (
                "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
                (None, None, Some(16_384)),
            ),
            (
                "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model",
                (None, None, Some(8192)),
            ),
            (
                "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
                (None, None, Some(8192)),
            ),
            (
                "Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 8193 (exclusive).",
                (None, None, Some(8192)),
            ),
            (
                "request (4102 tokens) exceeds the available context size (4096 tokens), try increasing it",
                (Some(4096), Some(4102), None),
            ),
            (
                "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for this model",
                (None, None, Some(64_000)),
            ),
            (
                "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again",
                (Some(200_000), Some(188_240), None),
            ),
            // Groq: what an account may use in a minute.
            (
                "Request too large for model `llama-3.3-70b-versatile` in organization `org_x` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 34600, please reduce your message size and try again.",
                (Some(6000), None, None),
            ),
            ("prompt is too long: 208,310 tokens > 200,000 maximum", (Some(200_000), Some(208_310), None)),
        ];
        for (words, (context, input, output)) in rows {
            assert_eq!(read(words), Some(ModelLimits { context, input, output }), "{words}");
        }
        for words in ["", "no such model", "Rate limit reached: limit 6000, used 5900"] {
            assert_eq!(read(words), None, "{words}");
        }
    }
}

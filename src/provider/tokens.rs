//! Counts tokens, exactly where the encoding is known and roughly where that is enough; loads nothing before it is needed.

mod tables;

use tiktoken_rs::CoreBPE;
use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

use crate::protocol::message::{Part, Request};

/// Tokens every message costs beside its words.
const PER_MESSAGE: u64 = 3;
/// Tokens that open the answer.
const PER_ANSWER: u64 = 3;
/// Tokens a picture is taken for: one of usual size at high detail.
const PER_IMAGE: u64 = 765;

/// Input tokens of a request, by the model's own encoding (`o200k` for unknown models).
///
/// `model` may be `PROVIDER/MODEL` or a bare name. The first call for an encoding loads it, which takes a
/// good part of a second: call it where blocking is allowed.
pub fn count(model: &str, request: &Request) -> u64 {
    let encoding = encoding(model);
    measure(request, &|text| encoded(encoding, text))
}

/// Tokens of one text, as [`count`] counts.
pub fn count_text(model: &str, text: &str) -> u64 {
    encoded(encoding(model), text)
}

/// Input tokens of a request at four characters a token: deterministic, cheap, good to a third or so.
pub fn estimate(request: &Request) -> u64 {
    measure(request, &estimate_text)
}

/// Tokens of one text at four characters a token, rounded up.
pub fn estimate_text(text: &str) -> u64 {
    (text.chars().count() as u64).div_ceil(4)
}

/// Tokens of an answer's parts, by the measure given.
pub(super) fn measure_parts(parts: &[Part], tokens: &dyn Fn(&str) -> u64) -> u64 {
    parts.iter().map(|part| measure_part(part, tokens)).sum()
}

fn measure(request: &Request, tokens: &dyn Fn(&str) -> u64) -> u64 {
    let messages = request.messages.iter().map(|m| PER_MESSAGE + measure_parts(&m.parts, tokens));
    let tools = request.tools.iter().map(|tool| {
        tokens(&tool.name) + tokens(&tool.description) + tokens(&tool.schema.to_string()) + PER_MESSAGE
    });
    let schema = request.params.schema.iter().map(|answer| tokens(&answer.schema.to_string()));
    PER_ANSWER + messages.sum::<u64>() + tools.sum::<u64>() + schema.sum::<u64>()
}

fn measure_part(part: &Part, tokens: &dyn Fn(&str) -> u64) -> u64 {
    match part {
        Part::Text { text } | Part::Reasoning { text, .. } => tokens(text),
        Part::Call { name, args, .. } => tokens(name) + tokens(&args.text()),
        Part::Result { content, .. } => tokens(content),
        Part::Image(_) => PER_IMAGE,
        Part::Opaque(_) | Part::Unknown(_) => 0,
    }
}

fn encoded(encoding: Option<&CoreBPE>, text: &str) -> u64 {
    // Without its table, which ships with the program, a count is as good as an estimate.
    encoding.map_or_else(|| estimate_text(text), |encoding| encoding.encode_ordinary(text).len() as u64)
}

fn encoding(model: &str) -> Option<&'static CoreBPE> {
    let bare = model.rsplit('/').next().unwrap_or(model);
    // Two tables serve every model of today. The older ones would add two megabytes to the program.
    match get_tokenizer(bare) {
        Some(Tokenizer::O200kBase | Tokenizer::O200kHarmony) | None => tables::O200K.as_ref(),
        Some(_) => tables::CL100K.as_ref(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        assert_eq!(count_text("openai/gpt-4o", "hello world"), 2);
        assert_eq!(count_text("local/some-llama", "hello world"), 2);
        assert_eq!(count_text("openai/gpt-4", "hello world"), 2);
        assert_eq!(estimate_text(""), 0);
        assert_eq!(estimate_text("häuser"), 2);
    }
}

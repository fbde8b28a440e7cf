//! What Anthropic's Messages API refuses in a request, in its own words.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Recorded;

/// Everything wrong with a request, in words; empty when it is right.
///
/// Words: anthropics/claude-code#6575 (results missing), #13460 (orphan results), anthropics/anthropic-sdk-python#1598
/// and langgenius/dify#41092 (signatures).
pub fn violations(request: &Recorded) -> Vec<String> {
    let mut found = Vec::new();
    let mut unless = |right: bool, words: String| {
        if !right {
            found.push(words);
        }
    };
    let body = &request.json;
    unless(request.header("anthropic-version").is_some(), "anthropic-version: header is required".into());
    unless(request.header("x-api-key").is_some(), "x-api-key header is required".into());
    for field in ["model", "max_tokens", "messages"] {
        unless(body.get(field).is_some(), format!("{field}: Field required"));
    }
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let mut open: BTreeSet<String> = BTreeSet::new();
    let mut before = String::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default().to_owned();
        unless(
            ["user", "assistant"].contains(&role.as_str()),
            format!("messages.{at}: Unexpected role \"{role}\""),
        );
        unless(
            role != before,
            format!("messages.{at}: roles must alternate between \"user\" and \"assistant\""),
        );
        unless(at > 0 || role == "user", "messages.0: first message must use the \"user\" role".into());
        before = role;
        let blocks = match &message["content"] {
            Value::String(_) => Vec::new(),
            content => content.as_array().cloned().unwrap_or_default(),
        };
        unless(
            message["content"].is_string() || !blocks.is_empty(),
            format!("messages.{at}: content must be non-empty"),
        );
        let mut answered = BTreeSet::new();
        let mut others = false;
        for (n, block) in blocks.iter().enumerate() {
            let place = format!("messages.{at}.content.{n}");
            match block["type"].as_str().unwrap_or_default() {
                "text" => {
                    let says = block["text"].as_str().is_some_and(|text| !text.trim().is_empty());
                    unless(says, format!("{place}: text content blocks must be non-empty"));
                    others = true;
                }
                "tool_result" => {
                    let id = block["tool_use_id"].as_str().unwrap_or_default().to_owned();
                    unless(
                        open.contains(&id),
                        format!("{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}"),
                    );
                    unless(!others, format!("{place}: `tool_result` blocks must come first"));
                    answered.insert(id);
                }
                "thinking" => unless(
                    block["signature"].as_str().is_some_and(|signature| !signature.is_empty()),
                    format!("{place}.thinking.signature: Field required"),
                ),
                "tool_use" => {
                    let id = block["id"].as_str().unwrap_or_default();
                    let shaped = !id.is_empty()
                        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
                    unless(
                        shaped,
                        format!("{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
                    );
                    unless(
                        block["input"].is_object(),
                        format!("{place}.tool_use.input: Input should be a valid dictionary"),
                    );
                }
                _ => others = true,
            }
        }
        let missing: Vec<&String> = open.difference(&answered).collect();
        unless(
            missing.is_empty(),
            format!(
                "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing:?}",
                at.saturating_sub(1)
            ),
        );
        let asked = blocks.iter().filter(|block| block["type"] == "tool_use");
        open = asked.filter_map(|block| block["id"].as_str().map(str::to_owned)).collect();
    }
    unless(
        open.is_empty(),
        format!("`tool_use` ids were found without `tool_result` blocks immediately after: {open:?}"),
    );
    let marks = body.to_string().matches("\"cache_control\"").count();
    unless(marks <= 4, format!("A maximum of 4 blocks with cache_control may be provided. Found {marks}."));
    let forced = body["tool_choice"]["type"] == "tool";
    unless(
        !forced || body["thinking"]["type"] == "disabled",
        "Thinking may not be enabled when tool_choice forces tool use.".into(),
    );
    found
}

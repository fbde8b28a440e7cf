//! What Anthropic's Messages API refuses in a request, in its own words.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Recorded;

/// Everything wrong with a request, in words; empty when it is right.
///
/// Words: anthropics/claude-code#6575 (results missing), #13460 (orphan results), anthropics/anthropic-sdk-python#1598
/// and langgenius/dify#41092 (signatures).
pub fn violations(request: &Recorded) -> Vec<String> {
    let mut found = Found(Vec::new());
    let body = &request.json;
    found.unless(request.header("anthropic-version").is_some(), || {
        "anthropic-version: header is required".into()
    });
    found.unless(request.header("x-api-key").is_some(), || "x-api-key header is required".into());
    for field in ["model", "max_tokens", "messages"] {
        found.unless(body.get(field).is_some(), || format!("{field}: Field required"));
    }
    let mut open: BTreeSet<String> = BTreeSet::new();
    let mut before = "";
    for (at, message) in body["messages"].as_array().into_iter().flatten().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        found.role(at, role, before);
        open = found.content(at, &message["content"], &open);
        before = role;
    }
    found.all_answered(body["messages"].as_array().map_or(0, Vec::len), &open, &BTreeSet::new());
    let marks = body.to_string().matches("\"cache_control\"").count();
    found.unless(marks <= 4, || {
        format!("A maximum of 4 blocks with cache_control may be provided. Found {marks}.")
    });
    let forced = body["tool_choice"]["type"] == "tool";
    found.unless(!forced || body["thinking"]["type"] == "disabled", || {
        "Thinking may not be enabled when tool_choice forces tool use.".into()
    });
    found.0
}

struct Found(Vec<String>);

impl Found {
    fn unless(&mut self, right: bool, words: impl FnOnce() -> String) {
        if !right {
            self.0.push(words());
        }
    }

    fn role(&mut self, at: usize, role: &str, before: &str) {
        self.unless(["user", "assistant"].contains(&role), || {
            format!("messages.{at}: Unexpected role \"{role}\"")
        });
        self.unless(role != before, || {
            format!("messages.{at}: roles must alternate between \"user\" and \"assistant\"")
        });
        self.unless(at > 0 || role == "user", || {
            "messages.0: first message must use the \"user\" role".into()
        });
    }

    /// Looks at the blocks of a message; gives the calls that the next one has to answer.
    fn content(&mut self, at: usize, content: &Value, open: &BTreeSet<String>) -> BTreeSet<String> {
        let empty = Vec::new();
        let blocks = content.as_array().unwrap_or(&empty);
        self.unless(content.is_string() || !blocks.is_empty(), || {
            format!("messages.{at}: content must be non-empty")
        });
        let (mut answered, mut asked, mut others) = (BTreeSet::new(), BTreeSet::new(), false);
        for (n, block) in blocks.iter().enumerate() {
            let place = format!("messages.{at}.content.{n}");
            match block["type"].as_str().unwrap_or_default() {
                "tool_result" => {
                    let id = block["tool_use_id"].as_str().unwrap_or_default().to_owned();
                    self.unless(open.contains(&id), || {
                        format!("{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}")
                    });
                    self.unless(!others, || format!("{place}: `tool_result` blocks must come first"));
                    answered.insert(id);
                }
                "tool_use" => {
                    asked.insert(block["id"].as_str().unwrap_or_default().to_owned());
                    self.tool_use(&place, block);
                }
                "thinking" => self.unless(block["signature"].as_str().is_some_and(|s| !s.is_empty()), || {
                    format!("{place}.thinking.signature: Field required")
                }),
                kind => {
                    let says = block["text"].as_str().is_some_and(|text| !text.trim().is_empty());
                    self.unless(kind != "text" || says, || {
                        format!("{place}: text content blocks must be non-empty")
                    });
                    others = true;
                }
            }
        }
        self.all_answered(at, open, &answered);
        asked
    }

    fn tool_use(&mut self, place: &str, block: &Value) {
        let id = block["id"].as_str().unwrap_or_default();
        let shaped =
            !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        self.unless(shaped, || {
            format!("{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        });
        self.unless(block["input"].is_object(), || {
            format!("{place}.tool_use.input: Input should be a valid dictionary")
        });
    }

    fn all_answered(&mut self, at: usize, open: &BTreeSet<String>, answered: &BTreeSet<String>) {
        let missing: Vec<&String> = open.difference(answered).collect();
        self.unless(missing.is_empty(), || {
            format!(
                "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing:?}",
                at.saturating_sub(1)
            )
        });
    }
}

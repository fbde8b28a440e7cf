//! What Anthropic's Messages API refuses in a request, in its own words.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Recorded;
use super::validate::is_packed;

/// Everything wrong with a request, in words; empty when it is right. `earlier` are the requests before it.
///
/// Words: anthropics/claude-code#6575 (results missing), #13460 (orphan results), anthropics/anthropic-sdk-python#1598
/// and langgenius/dify#41092 (signatures), agentjido/req_llm#302 (schemas); platform.claude.com: preserved thinking,
/// what's new in Claude Opus 5.5.
pub fn violations(request: &Recorded, earlier: &[Recorded]) -> Vec<String> {
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
    found.unless(before != "assistant", || {
        "This model does not support assistant message prefill. The conversation must end with a user message."
            .into()
    });
    found.parameters(body);
    if is_bound(body) {
        found.of_newer_models(body, earlier);
    }
    found.0
}

/// The models whose thinking cannot be turned off and is bound to its conversation.
fn is_bound(body: &Value) -> bool {
    let model = body["model"].as_str().unwrap_or_default();
    ["claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1", "bound"].contains(&model)
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

    fn parameters(&mut self, body: &Value) {
        let marks = body.to_string().matches("\"cache_control\"").count();
        self.unless(marks <= 4, || {
            format!("A maximum of 4 blocks with cache_control may be provided. Found {marks}.")
        });
        let thinks = ["enabled", "adaptive"].iter().any(|kind| body["thinking"]["type"] == *kind);
        self.unless(body["tool_choice"]["type"] != "tool" || !thinks, || {
            "Thinking may not be enabled when tool_choice forces tool use.".into()
        });
        let temperature = body.get("temperature");
        self.unless(!thinks || temperature.is_none_or(|value| *value == json!(1)), || {
            "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.".into()
        });
        self.unless(temperature.and_then(Value::as_f64).is_none_or(|value| value <= 1.0), || {
            "temperature: range: 0..1".into()
        });
        let texts = body["system"].as_array().into_iter().flatten();
        self.unless(texts.clone().all(|block| block["text"] != ""), || {
            "system: text content blocks must be non-empty".into()
        });
        for (at, tool) in body["tools"].as_array().into_iter().flatten().enumerate() {
            let name = tool["name"].as_str().unwrap_or_default();
            let shaped = (1..=128).contains(&name.len()) && is_word(name);
            self.unless(shaped, || {
                format!("tools.{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
            });
            self.unless(tool["input_schema"]["type"] == "object", || {
                format!("tools.{at}.input_schema.type: Field required")
            });
        }
        if let Some(format) = body.pointer("/output_config/format") {
            self.unless(format["type"] == "json_schema", || {
                "output_config.format.type: Field required".into()
            });
            self.schema(&format["schema"]);
        }
    }

    /// A schema of a typed answer, at each of its places.
    fn schema(&mut self, schema: &Value) {
        let words = |what: &str| format!("output_config.format.schema: {what}");
        let Some(fields) = schema.as_object() else { return };
        let kind = fields.get("type").map(Value::to_string).unwrap_or_default();
        for name in ["minimum", "maximum", "minLength", "maxLength", "maxItems", "multipleOf", "oneOf"] {
            self.unless(!fields.contains_key(name), || {
                words(&format!("For {kind} type, property '{name}' is not supported"))
            });
        }
        let is_closed = fields.get("additionalProperties") == Some(&Value::Bool(false));
        self.unless(!kind.contains("object") || is_closed, || {
            words("For 'object' type, 'additionalProperties' must be explicitly set to false")
        });
        for inner in ["properties", "$defs"].iter().filter_map(|name| fields.get(*name)?.as_object()) {
            inner.values().for_each(|value| self.schema(value));
        }
        for inner in ["items", "anyOf"].iter().filter_map(|name| fields.get(*name)) {
            match inner.as_array() {
                Some(list) => list.iter().for_each(|value| self.schema(value)),
                None => self.schema(inner),
            }
        }
    }

    /// What Claude Opus 5.5 and its like refuse beyond that.
    fn of_newer_models(&mut self, body: &Value, earlier: &[Recorded]) {
        self.unless(!["tool", "any"].iter().any(|kind| body["tool_choice"]["type"] == *kind), || {
            "tool_choice: type \"tool\" and \"any\" are not supported for this model".into()
        });
        let kind = body["thinking"]["type"].as_str().unwrap_or("adaptive");
        self.unless(kind == "adaptive", || {
            format!(
                "\"thinking.type.{kind}\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior."
            )
        });
        self.unless(body.get("temperature").is_none(), || {
            "`temperature` is deprecated for this model.".into()
        });
        let known: Vec<Value> = earlier.iter().map(|request| prefix(&request.json, usize::MAX)).collect();
        for (at, message) in body["messages"].as_array().into_iter().flatten().enumerate() {
            let blocks = message["content"].as_array().into_iter().flatten();
            for (n, block) in blocks.enumerate().filter(|(_, block)| is_thinking(block)) {
                self.unless(known.contains(&prefix(body, at)), || {
                    let kind = block["type"].as_str().unwrap_or_default();
                    format!(
                        "messages.{at}.content.{n}: Invalid `signature` in `{kind}` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
                    )
                });
            }
        }
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
                    let is_new = answered.insert(id.clone());
                    self.unless(is_new, || format!("{place}: each tool_use must have a single result: {id}"));
                }
                "tool_use" => {
                    asked.insert(block["id"].as_str().unwrap_or_default().to_owned());
                    self.tool_use(&place, block);
                }
                "thinking" => self.unless(block["signature"].as_str().is_some_and(|s| !s.is_empty()), || {
                    format!("{place}.thinking.signature: Field required")
                }),
                "image" => {
                    let kind = block["source"]["media_type"].as_str().unwrap_or_default();
                    let taken = ["image/jpeg", "image/png", "image/gif", "image/webp"].contains(&kind);
                    self.unless(taken, || {
                        format!("{place}.image.source.base64.media_type: unexpected {kind}")
                    });
                    let data = block["source"]["data"].as_str().unwrap_or_default();
                    self.unless(block["source"]["type"] == "base64" && is_packed(data), || {
                        format!("{place}.image.source.base64: invalid base64 data")
                    });
                    others = true;
                }
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
        self.unless(!id.is_empty() && is_word(id), || {
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

fn is_word(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn is_thinking(block: &Value) -> bool {
    block["type"] == "thinking" || block["type"] == "redacted_thinking"
}

/// System, tools and the first messages, without marks for the cache: what thinking is bound to.
fn prefix(body: &Value, messages: usize) -> Value {
    let all = body["messages"].as_array().cloned().unwrap_or_default();
    let first: Vec<Value> = all.into_iter().take(messages).collect();
    let mut prefix = json!({"system": body["system"], "tools": body["tools"], "messages": first});
    unmark(&mut prefix);
    prefix
}

fn unmark(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(unmark);
        }
        Value::Array(list) => list.iter_mut().for_each(unmark),
        _ => {}
    }
}

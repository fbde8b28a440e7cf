//! What OpenAI's Responses API refuses in a request, in its own words.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Recorded;
use super::validate::is_picture;

/// Everything wrong with a request, in words; empty when it is right.
///
/// Words: continuedev/continue#10092 (orphan outputs), symgraph/GhidrAssist#78 (missing outputs),
/// openai/openai-agents-python#1611 (reasoning without what follows), openai/openai-agents-js#546 (ids of nothing kept),
/// anomalyco/opencode#5104 (another model's reasoning).
pub fn violations(request: &Recorded) -> Vec<String> {
    let mut found = Found(Vec::new());
    let body = &request.json;
    found.unless(request.header("authorization").is_some(), || {
        "Missing bearer authentication in header".into()
    });
    for field in ["model", "input"] {
        found.unless(body.get(field).is_some(), || format!("Missing required parameter: '{field}'."));
    }
    for field in ["messages", "max_tokens", "max_completion_tokens", "response_format", "stream_options"] {
        found.unless(body.get(field).is_none(), || format!("Unknown parameter: '{field}'."));
    }
    found.unless(body.get("previous_response_id").is_none_or(Value::is_null), || {
        "Previous response with id not found.".into()
    });
    found.parameters(body);
    found.input(body);
    found.0
}

struct Found(Vec<String>);

impl Found {
    fn unless(&mut self, right: bool, words: impl FnOnce() -> String) {
        if !right {
            self.0.push(words());
        }
    }

    fn parameters(&mut self, body: &Value) {
        let is_reasoner = body["model"] != "plain";
        self.unless(!is_reasoner || body.get("temperature").is_none(), || {
            "Unsupported parameter: 'temperature' is not supported with this model.".into()
        });
        self.unless(is_reasoner || body.get("include").is_none(), || {
            "Encrypted content is not supported with this model.".into()
        });
        self.unless(is_reasoner || body.get("reasoning").is_none(), || {
            "Unsupported parameter: 'reasoning.summary' is not supported with this model.".into()
        });
        let mut names = BTreeSet::new();
        for (at, tool) in body["tools"].as_array().into_iter().flatten().enumerate() {
            let name = tool["name"].as_str().unwrap_or_default();
            self.unless(!name.is_empty(), || format!("Missing required parameter: 'tools[{at}].name'."));
            self.unless(names.insert(name.to_owned()), || format!("Duplicate tool name: {name}"));
            // Strict is the default, and it takes closed schemas only.
            let is_closed = tool["parameters"]["additionalProperties"] == Value::Bool(false);
            self.unless(tool["strict"] == Value::Bool(false) || is_closed, || {
                format!(
                    "Invalid schema for function '{name}': In context=(), 'additionalProperties' is required to be supplied and to be false."
                )
            });
        }
        if body["tool_choice"]["type"] == "function" {
            let wanted = body["tool_choice"]["name"].as_str().unwrap_or_default();
            self.unless(names.contains(wanted), || {
                format!("Tool choice '{wanted}' not found in 'tools' parameter.")
            });
        }
        if let Some(format) = body.pointer("/text/format") {
            let is_named = format["type"] != "json_schema" || format["name"].is_string();
            self.unless(is_named, || "Missing required parameter: 'text.format.name'.".into());
        }
    }

    fn input(&mut self, body: &Value) {
        let empty = Vec::new();
        let input = body["input"].as_array().unwrap_or(&empty);
        self.unless(body["input"].is_string() || !input.is_empty(), || {
            "input: expected at least one item".into()
        });
        let (mut open, mut reasoning) = (BTreeSet::new(), None);
        for (at, item) in input.iter().enumerate() {
            let kind = item["type"].as_str().unwrap_or("message");
            let is_own = kind == "function_call" || item["role"] == "assistant" || kind == "reasoning";
            if let Some(before) = reasoning.filter(|_| !is_own) {
                self.without_following(before);
            }
            reasoning = None;
            self.unless(item.get("id").is_none() || body["store"] != Value::Bool(false), || {
                format!(
                    "Item with id '{}' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.",
                    item["id"].as_str().unwrap_or_default()
                )
            });
            match kind {
                "message" => self.message(at, item),
                "reasoning" => {
                    reasoning = Some(at);
                    self.reasoning(at, item, body["model"].as_str().unwrap_or_default());
                }
                "function_call" => {
                    let id = item["call_id"].as_str().unwrap_or_default().to_owned();
                    self.unless(!id.is_empty() && id.len() <= 64, || {
                        format!("Invalid 'input[{at}].call_id': string too long or empty")
                    });
                    self.unless(item["arguments"].is_string(), || {
                        format!("Invalid type for 'input[{at}].arguments': expected a string")
                    });
                    self.unless(open.insert(id.clone()), || {
                        format!("Duplicate item found with call_id {id}")
                    });
                }
                "function_call_output" => {
                    let id = item["call_id"].as_str().unwrap_or_default();
                    self.unless(open.remove(id), || {
                        format!("No tool call found for function call output with call_id {id}.")
                    });
                    self.unless(item["output"].is_string() || item["output"].is_array(), || {
                        format!("Missing required parameter: 'input[{at}].output'.")
                    });
                }
                other => self.0.push(format!("Invalid value: '{other}'. Supported values are: …")),
            }
        }
        if let Some(before) = reasoning {
            self.without_following(before);
        }
        for id in open {
            self.0.push(format!("No tool output found for function call {id}."));
        }
    }

    fn without_following(&mut self, at: usize) {
        self.0
            .push(format!("Item {at} of type 'reasoning' was provided without its required following item."));
    }

    fn message(&mut self, at: usize, item: &Value) {
        let role = item["role"].as_str().unwrap_or_default();
        self.unless(["user", "assistant", "system", "developer"].contains(&role), || {
            format!("Invalid value: '{role}' for 'input[{at}].role'.")
        });
        let kinds: &[&str] = match role {
            "assistant" => &["output_text", "refusal"],
            _ => &["input_text", "input_image", "input_file"],
        };
        let pieces = item["content"].as_array();
        self.unless(pieces.is_none_or(|pieces| !pieces.is_empty()), || {
            format!("Invalid 'input[{at}].content': empty array")
        });
        for piece in pieces.into_iter().flatten() {
            let kind = piece["type"].as_str().unwrap_or_default();
            self.unless(kinds.contains(&kind), || {
                format!("Invalid value: '{kind}'. Supported values are: {kinds:?}.")
            });
            let url = piece["image_url"].as_str().unwrap_or_default();
            self.unless(kind != "input_image" || is_picture(url), || {
                format!("Invalid 'input[{at}].content.image_url': {url}")
            });
        }
    }

    /// The tests' reasoning is the model's name and anything: each model reads its own.
    fn reasoning(&mut self, at: usize, item: &Value, model: &str) {
        self.unless(item["summary"].is_array(), || {
            format!("Missing required parameter: 'input[{at}].summary'.")
        });
        let content = item["encrypted_content"].as_str().unwrap_or_default();
        self.unless(content.starts_with(model), || {
            format!(
                "The encrypted content {content} could not be verified. Reason: Encrypted content could not be decrypted or parsed."
            )
        });
    }
}

//! What the real API refuses in a request.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::Recorded;

/// Everything wrong with a request, in words; empty when it is right.
pub fn violations(request: &Recorded) -> Vec<String> {
    let mut found = Found(Vec::new());
    found.unless(request.line.starts_with("POST ") && request.line.contains("/chat/completions"), || {
        format!("`{}` is no chat completion", request.line)
    });
    found
        .unless(request.header("content-type") == Some("application/json"), || "no JSON content type".into());
    let body = &request.json;
    found.unless(body["model"].as_str().is_some_and(|model| !model.is_empty()), || "no model".into());
    found.unless(body["stream"] == Value::Bool(true), || "`stream` is not true".into());
    found.tools(body);
    found.messages(body);
    found.0
}

struct Found(Vec<String>);

impl Found {
    fn unless(&mut self, right: bool, words: impl FnOnce() -> String) {
        if !right {
            self.0.push(words());
        }
    }

    fn tools(&mut self, body: &Value) {
        let Some(tools) = body.get("tools") else {
            self.unless(body.get("tool_choice").is_none(), || "`tool_choice` without tools".into());
            return;
        };
        self.unless(tools.as_array().is_some_and(|tools| !tools.is_empty()), || "empty `tools`".into());
        let mut names = BTreeSet::new();
        for tool in tools.as_array().into_iter().flatten() {
            let name = tool["function"]["name"].as_str().unwrap_or_default();
            let acceptable = (1..=64).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            self.unless(tool["type"] == "function" && acceptable, || format!("bad tool {tool}"));
            self.unless(names.insert(name.to_owned()), || format!("tool `{name}` twice"));
            self.unless(tool["function"]["parameters"]["type"] == "object", || {
                format!("the parameters of `{name}` are no object schema")
            });
        }
        if let Some(choice) = body.get("tool_choice").and_then(|choice| choice["function"]["name"].as_str()) {
            self.unless(names.contains(choice), || format!("`tool_choice` names unknown tool `{choice}`"));
        }
    }

    fn messages(&mut self, body: &Value) {
        let empty = Vec::new();
        let messages = body["messages"].as_array().unwrap_or(&empty);
        self.unless(!messages.is_empty(), || "no messages".into());
        let mut open: BTreeSet<String> = BTreeSet::new();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        for (at, message) in messages.iter().enumerate() {
            let role = message["role"].as_str().unwrap_or_default();
            if role != "tool" {
                self.unless(open.is_empty(), || format!("message {at} comes before the results of {open:?}"));
                open.clear();
            }
            match role {
                "system" | "developer" | "user" => {
                    self.unless(says_something(&message["content"]), || format!("message {at} says nothing"));
                    for (nth, piece) in message["content"].as_array().into_iter().flatten().enumerate() {
                        let place = format!("messages[{at}].content[{nth}]");
                        self.piece(&place, role, piece);
                    }
                }
                "assistant" => self.assistant(at, message, &mut open, &mut seen),
                "tool" => {
                    let id = message["tool_call_id"].as_str().unwrap_or_default();
                    self.unless(open.remove(id), || {
                        format!("message {at} answers `{id}`, which nobody asked")
                    });
                    self.unless(message["content"].is_string(), || format!("message {at} has no content"));
                }
                other => self.0.push(format!("message {at} has role `{other}`")),
            }
        }
        self.unless(open.is_empty(), || format!("the request ends before the results of {open:?}"));
    }

    /// A piece of content, as OpenAI describes it: a picture is an object with a URL, and only users show pictures.
    fn piece(&mut self, place: &str, role: &str, piece: &Value) {
        match piece["type"].as_str().unwrap_or_default() {
            "text" => self
                .unless(piece["text"].is_string(), || format!("Missing required parameter: '{place}.text'.")),
            "image_url" => {
                let url = piece["image_url"]["url"].as_str().unwrap_or_default();
                self.unless(role == "user", || {
                    format!("Invalid '{place}'. Image URLs are only allowed for messages with role 'user'.")
                });
                self.unless(is_picture(url), || format!("Invalid '{place}.image_url.url': {url}"));
            }
            kind => {
                self.0.push(format!("Invalid value: '{kind}'. Supported values are: 'text', 'image_url'."))
            }
        }
    }

    fn assistant(
        &mut self,
        at: usize,
        message: &Value,
        open: &mut BTreeSet<String>,
        seen: &mut BTreeSet<String>,
    ) {
        let Some(calls) = message.get("tool_calls") else {
            self.unless(message["content"].is_string(), || format!("message {at} has no content"));
            return;
        };
        self.unless(calls.as_array().is_some_and(|calls| !calls.is_empty()), || {
            format!("message {at} has empty `tool_calls`")
        });
        for call in calls.as_array().into_iter().flatten() {
            let id = call["id"].as_str().unwrap_or_default().to_owned();
            let named = call["function"]["name"].as_str().is_some_and(|name| !name.is_empty());
            let argued = call["function"]["arguments"].is_string();
            self.unless(call["type"] == "function" && named && argued, || format!("bad call {call}"));
            self.unless((1..=40).contains(&id.len()), || {
                format!("message {at}: id `{id}` is empty or too long")
            });
            self.unless(seen.insert(id.clone()), || format!("message {at}: id `{id}` is used twice"));
            open.insert(id);
        }
    }
}

/// A picture in the URL itself, of a kind that hosts take.
pub(super) fn is_picture(url: &str) -> bool {
    let packed = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    packed.is_some_and(|(kind, data)| {
        ["image/jpeg", "image/png", "image/gif", "image/webp"].contains(&kind) && is_packed(data)
    })
}

/// Bytes in base64, with its padding.
pub(super) fn is_packed(data: &str) -> bool {
    !data.is_empty() && STANDARD.decode(data).is_ok()
}

fn says_something(content: &Value) -> bool {
    match content {
        Value::String(text) => !text.is_empty(),
        Value::Array(pieces) => !pieces.is_empty() && pieces.iter().all(|piece| piece["type"].is_string()),
        _ => false,
    }
}

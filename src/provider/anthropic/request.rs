//! Writes a request in the format of the Messages API; knows no connection and no answer.

use serde_json::{Map, Value, json};

use crate::protocol::message::{AnswerSchema, Args, Message, Opaque, Part, Request, Role, Structured};
use crate::provider::call_ids::CallIds;
use crate::provider::exchange::model_name;
use crate::provider::number::per_mille;

/// Sent where no limit was set, since the API demands one.
const MAX_TOKENS: u64 = 4096;

/// The whole body.
pub(super) fn body(request: &Request, opaque_kind: &str) -> Value {
    let forced = forced(request);
    let thinks = request.params.thinking != Some(false);
    let (mut system, mut messages) = Writer::conversation(&request.messages, opaque_kind, thinks);
    let mut tools: Vec<Value> =
        request.tools.iter().map(|t| tool(&t.name, &t.description, &t.schema)).collect();
    let max_tokens = request.params.max_output.unwrap_or(MAX_TOKENS);
    let mut body = Map::new();
    if let Some(schema) = &request.params.schema {
        match &forced {
            Some(name) => {
                tools.push(tool(name, "Gives the answer in the form that was asked for.", &schema.schema));
                body.insert("tool_choice".into(), json!({"type": "tool", "name": name}));
            }
            // Beside other tools none can be forced, and the session counts on being held to the schema.
            None if schema.via == Structured::ResponseFormat => system.push(in_words(schema)),
            None => {}
        }
    }
    if forced.is_some() || !thinks {
        // Models that think by themselves take no forced tool while they do.
        body.insert("thinking".into(), json!({"type": "disabled"}));
    }
    // The API takes none above 1.
    if let Some(temperature) = request.params.temperature_pm.and_then(|value| per_mille(value.min(1000))) {
        body.insert("temperature".into(), Value::Number(temperature));
    }
    if !tools.is_empty() {
        // A request with tools is one of many with the same beginning: it pays to have it cached.
        mark_for_cache(&mut system, &mut messages);
        body.insert("tools".into(), tools.into());
    }
    if !system.is_empty() {
        body.insert("system".into(), system.into());
    }
    body.insert("model".into(), model_name(request).into());
    body.insert("max_tokens".into(), max_tokens.into());
    body.insert("messages".into(), messages.into());
    body.insert("stream".into(), true.into());
    body.retain(|name, _| !is_left_out(request, name));
    Value::Object(body)
}

/// The name of the tool whose arguments are the answer: also for a response format, which this API has only for
/// some schemas and some models.
pub(super) fn forced(request: &Request) -> Option<String> {
    let schema = request.params.schema.as_ref()?;
    let is_forced = match schema.via {
        Structured::ForcedTool => true,
        Structured::ResponseFormat => request.tools.is_empty(),
        Structured::JsonObject | Structured::Words | Structured::Unknown(_) => false,
    };
    is_forced.then(|| schema.name.clone())
}

/// True for a refused parameter that this body has and can do without.
pub(super) fn can_drop(body: &Value, name: &str) -> bool {
    ["temperature", "thinking"].contains(&name) && body.get(name).is_some()
}

fn is_left_out(request: &Request, name: &str) -> bool {
    name != "max_tokens" && request.params.without.iter().any(|left_out| left_out == name)
}

fn tool(name: &str, description: &str, schema: &Value) -> Value {
    json!({"name": name, "description": description, "input_schema": schema})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn in_words(schema: &AnswerSchema) -> Value {
    text(&format!("Answer with JSON only, fitting this JSON Schema:\n{}", schema.schema))
}

/// Marks what the next request begins with as well: tools and system, the message before the last, the last.
fn mark_for_cache(system: &mut [Value], messages: &mut [Value]) {
    let users = messages.iter_mut().rev().filter(|message| message["role"] == "user").take(2);
    let last_blocks = users.filter_map(|message| message["content"].as_array_mut()?.last_mut());
    for block in system.last_mut().into_iter().chain(last_blocks) {
        block["cache_control"] = json!({"type": "ephemeral"});
    }
}

/// Puts messages together as the API wants them: users and assistants in turn, results first.
struct Writer<'a> {
    opaque_kind: &'a str,
    /// Thinking parts go back.
    thinks: bool,
    ids: CallIds,
    system: Vec<Value>,
    done: Vec<Value>,
    /// What came with results and may only follow the last of them.
    held: Vec<Value>,
}

impl<'a> Writer<'a> {
    fn conversation(messages: &[Message], opaque_kind: &'a str, thinks: bool) -> (Vec<Value>, Vec<Value>) {
        let ids = CallIds::default();
        let mut writer =
            Writer { opaque_kind, thinks, ids, system: Vec::new(), done: Vec::new(), held: Vec::new() };
        for message in messages {
            match message.role {
                Role::System if writer.done.is_empty() => writer.system.extend(said(&message.parts)),
                Role::System | Role::User | Role::Unknown(_) => {
                    let held = std::mem::take(&mut writer.held);
                    writer.push("user", held.into_iter().chain(said(&message.parts)).collect());
                }
                Role::Assistant => writer.assistant(&message.parts),
                Role::Tool => writer.results(&message.parts),
            }
        }
        let held = std::mem::take(&mut writer.held);
        writer.push("user", held);
        (writer.system, writer.done)
    }

    fn push(&mut self, role: &str, blocks: Vec<Value>) {
        if blocks.is_empty() {
            return;
        }
        match self.done.last_mut().filter(|last| last["role"] == role) {
            Some(last) => {
                if let Some(content) = last["content"].as_array_mut() {
                    content.extend(blocks);
                }
            }
            None => self.done.push(json!({"role": role, "content": blocks})),
        }
    }

    fn results(&mut self, parts: &[Part]) {
        let mut results = Vec::new();
        for part in parts {
            match part {
                Part::Result { id, name, content, is_error } => {
                    let id = self.ids.answered(id, name);
                    let mut result = json!({"type": "tool_result", "tool_use_id": id, "content": content});
                    if *is_error {
                        result["is_error"] = true.into();
                    }
                    results.push(result);
                }
                other => self.held.extend(block(other)),
            }
        }
        self.push("user", results);
    }

    fn assistant(&mut self, parts: &[Part]) {
        let held = std::mem::take(&mut self.held);
        self.push("user", held);
        self.ids.begin();
        let mut blocks = Vec::new();
        for part in parts {
            match part {
                Part::Call { id, name, args } => {
                    let id = self.ids.named(id, name);
                    blocks.push(json!({"type": "tool_use", "id": id, "name": name, "input": input(args)}));
                }
                Part::Reasoning { opaque: Some(opaque), .. } | Part::Opaque(opaque) => {
                    blocks.extend(self.own(opaque));
                }
                // What others thought has no signature, and the API takes no thinking without one.
                Part::Reasoning { opaque: None, .. } => {}
                other => blocks.extend(block(other)),
            }
        }
        self.push("assistant", blocks);
    }

    /// A block of this model's own earlier answer.
    fn own(&self, opaque: &Opaque) -> Option<Value> {
        let is_own = self.thinks && opaque.provider == self.opaque_kind && !opaque.dropped;
        is_own.then(|| opaque.json.clone())
    }
}

fn said(parts: &[Part]) -> Vec<Value> {
    parts.iter().filter_map(block).collect()
}

/// Texts and pictures; an empty text is refused.
fn block(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text: words } => (!words.trim().is_empty()).then(|| text(words)),
        Part::Image { media, data } => {
            Some(json!({"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}))
        }
        _ => None,
    }
}

/// Arguments must be an object, whatever the model wrote.
fn input(args: &Args) -> Value {
    match args {
        Args::Json(object @ Value::Object(_)) => object.clone(),
        other => json!({"arguments": other.text()}),
    }
}

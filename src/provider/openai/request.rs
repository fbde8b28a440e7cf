//! Writes a request in the chat completions format; knows no connection and no answer.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value, json};

use crate::protocol::message::{AnswerSchema, Message, Opaque, Part, Request, Role, Structured, ToolDecl};

/// What differs between servers of this format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    /// What the output limit is called.
    pub max_output: &'static str,
    /// Which opaque parts go back: those of the same host, for only it understands them.
    pub opaque_kind: String,
}

impl Dialect {
    pub fn of_host(host: &str) -> Self {
        let is_openai = ["openai.com", "openai.azure.com"]
            .iter()
            .any(|known| host.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
        let max_output = if is_openai { "max_completion_tokens" } else { "max_tokens" };
        Dialect { max_output, opaque_kind: format!("openai/{host}") }
    }
}

/// The model's name as the provider knows it: without the provider's own name.
pub(super) fn model_name(request: &Request) -> &str {
    request.model.split_once('/').map_or(request.model.as_str(), |(_, model)| model)
}

/// The whole body.
pub(super) fn body(request: &Request, dialect: &Dialect) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), model_name(request).into());
    body.insert("messages".into(), messages(&request.messages, dialect).into());
    let forced = request.params.schema.as_ref().filter(|schema| schema.via == Structured::ForcedTool);
    let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
    if let Some(schema) = forced {
        tools.push(forced_tool(schema));
        let choice = json!({"type": "function", "function": {"name": schema.name}});
        body.insert("tool_choice".into(), choice);
    }
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
    }
    if let Some(schema) = request.params.schema.as_ref().filter(|s| s.via == Structured::ResponseFormat) {
        body.insert("response_format".into(), response_format(schema));
    }
    if let Some(temperature) = request.params.temperature_pm.and_then(per_mille) {
        body.insert("temperature".into(), Value::Number(temperature));
    }
    if let Some(max) = request.params.max_output {
        body.insert(limit_name(request, dialect).into(), max.into());
    }
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    body.retain(|name, _| !is_left_out(request, name));
    Value::Object(body)
}

fn is_left_out(request: &Request, name: &str) -> bool {
    request.params.without.iter().any(|left_out| left_out == name)
}

/// What the output limit is called: as the host calls it, or by the other name where the model refuses that one.
fn limit_name(request: &Request, dialect: &Dialect) -> &'static str {
    if is_left_out(request, dialect.max_output) {
        other_limit(dialect.max_output)
    } else {
        dialect.max_output
    }
}

fn other_limit(name: &str) -> &'static str {
    if name == "max_tokens" { "max_completion_tokens" } else { "max_tokens" }
}

/// True for a refused parameter that this request had and can do without. An output limit that is refused by both its
/// names cannot: what the call may cost would have no bound.
pub(super) fn can_drop(request: &Request, dialect: &Dialect, name: &str) -> bool {
    let has = match name {
        "temperature" => request.params.temperature_pm.is_some(),
        "max_tokens" | "max_completion_tokens" => {
            request.params.max_output.is_some()
                && limit_name(request, dialect) == name
                && !is_left_out(request, other_limit(name))
        }
        _ => true,
    };
    has && !is_left_out(request, name)
}

/// 700 becomes `0.7`, without a detour over floats.
fn per_mille(value: u32) -> Option<Number> {
    let text = format!("{}.{:03}", value / 1000, value % 1000);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    serde_json::from_str(text).ok()
}

fn tool(tool: &ToolDecl) -> Value {
    function(&tool.name, &tool.description, &tool.schema)
}

fn forced_tool(schema: &AnswerSchema) -> Value {
    function(&schema.name, "Gives the answer in the form that was asked for.", &schema.schema)
}

fn function(name: &str, description: &str, parameters: &Value) -> Value {
    let function = json!({"name": name, "description": description, "parameters": parameters});
    json!({"type": "function", "function": function})
}

fn response_format(schema: &AnswerSchema) -> Value {
    let strict = is_strict(&schema.schema);
    let inner = json!({"name": schema.name, "schema": schema.schema, "strict": strict});
    json!({"type": "json_schema", "json_schema": inner})
}

/// True when every object forbids more properties and requires all it has: strict mode refuses any other.
fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            let closed = map.get("properties").is_none_or(|properties| {
                let required = map.get("required").and_then(Value::as_array);
                let all = properties.as_object().is_some_and(|properties| {
                    properties.keys().all(|key| {
                        required.is_some_and(|list| list.iter().any(|name| name.as_str() == Some(key)))
                    })
                });
                all && map.get("additionalProperties") == Some(&Value::Bool(false))
            });
            closed && map.values().all(is_strict)
        }
        Value::Array(list) => list.iter().all(is_strict),
        _ => true,
    }
}

fn messages(messages: &[Message], dialect: &Dialect) -> Vec<Value> {
    let mut writer = Writer { dialect, ids: CallIds::default(), done: Vec::new(), held: Vec::new() };
    for message in messages {
        match message.role {
            Role::Assistant => writer.assistant(&message.parts),
            Role::Tool => writer.results(&message.parts),
            Role::System => writer.said("system", &message.parts),
            Role::User | Role::Unknown(_) => writer.said("user", &message.parts),
        }
    }
    writer.release();
    writer.done
}

struct Writer<'a> {
    dialect: &'a Dialect,
    ids: CallIds,
    done: Vec<Value>,
    /// Pictures that came with results: they follow as a user's message, after the last result.
    held: Vec<Value>,
}

impl Writer<'_> {
    fn release(&mut self) {
        if !self.held.is_empty() {
            let content = std::mem::take(&mut self.held);
            self.done.push(json!({"role": "user", "content": content}));
        }
    }

    fn said(&mut self, role: &str, parts: &[Part]) {
        self.release();
        if let Some(content) = content(parts) {
            self.done.push(json!({"role": role, "content": content}));
        }
    }

    fn results(&mut self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Result { id, name, content, .. } => {
                    let id = self.ids.answered(id, name);
                    self.done.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
                }
                Part::Image { media, data } => self.held.push(image(media, data)),
                Part::Text { text } => self.held.push(json!({"type": "text", "text": text})),
                Part::Reasoning { .. } | Part::Call { .. } | Part::Opaque(_) | Part::Unknown(_) => {}
            }
        }
    }

    fn assistant(&mut self, parts: &[Part]) {
        self.release();
        let text: String = parts.iter().filter_map(text_of).collect();
        let mut calls = Vec::new();
        let mut message = Map::new();
        let mut next_call = Map::new();
        self.ids.open.clear();
        for part in parts {
            match part {
                Part::Call { id, name, args } => {
                    let id = self.ids.named(id, name);
                    let function = json!({"name": name, "arguments": args.text()});
                    let mut call = std::mem::take(&mut next_call);
                    call.insert("id".into(), id.into());
                    call.insert("type".into(), "function".into());
                    call.insert("function".into(), function);
                    calls.push(Value::Object(call));
                }
                Part::Reasoning { opaque: Some(opaque), .. } | Part::Opaque(opaque) => {
                    self.foreign(opaque, &mut message);
                    if let Some(Value::Object(fields)) = message.remove("next_call") {
                        next_call = fields;
                    }
                }
                Part::Text { .. }
                | Part::Reasoning { .. }
                | Part::Result { .. }
                | Part::Image { .. }
                | Part::Unknown(_) => {}
            }
        }
        let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { text.into() };
        message.insert("role".into(), "assistant".into());
        message.insert("content".into(), content);
        if !calls.is_empty() {
            message.insert("tool_calls".into(), calls.into());
        }
        self.done.push(Value::Object(message));
    }

    /// Fields of an earlier answer that this very host wants to see again.
    fn foreign(&self, opaque: &Opaque, message: &mut Map<String, Value>) {
        if opaque.provider == self.dialect.opaque_kind
            && !opaque.dropped
            && let Value::Object(fields) = &opaque.json
        {
            message.extend(fields.clone());
        }
    }
}

/// A plain string where only text is said, for some servers know nothing else.
fn content(parts: &[Part]) -> Option<Value> {
    let texts: Vec<&str> = parts.iter().filter_map(text_of).collect();
    if parts.iter().any(|part| matches!(part, Part::Image { .. })) {
        let pieces = parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(json!({"type": "text", "text": text})),
            Part::Image { media, data } => Some(image(media, data)),
            _ => None,
        });
        return Some(pieces.collect::<Vec<_>>().into());
    }
    (!texts.is_empty()).then(|| texts.join("\n\n").into())
}

fn image(media: &str, data: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": format!("data:{media};base64,{data}")}})
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } => Some(text),
        _ => None,
    }
}

/// Gives each call of a request an id of its own that every server takes.
///
/// In agon the provider's id is data: two calls may carry the same one, none, or one that another server
/// does not accept. The ids depend only on what stands before them, so that an earlier part of a
/// conversation keeps its bytes, and with them its place in the provider's cache.
#[derive(Debug, Default)]
struct CallIds {
    used: BTreeSet<String>,
    /// Calls of the last assistant message without a result yet: id as recorded, tool, id as sent.
    open: Vec<(String, String, String)>,
}

impl CallIds {
    const MAX: usize = 40;

    fn named(&mut self, id: &str, name: &str) -> String {
        let acceptable = (1..=Self::MAX).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        let base = if acceptable { id } else { "call" };
        let mut sent = base.to_owned();
        let mut n = 1;
        while !self.used.insert(sent.clone()) {
            n += 1;
            let suffix = format!("-{n}");
            let keep = base.len().min(Self::MAX - suffix.len());
            sent = format!("{}{suffix}", &base[..keep]);
        }
        self.open.push((id.to_owned(), name.to_owned(), sent.clone()));
        sent
    }

    /// The id of the call a result answers: the first open one with its id, by preference of its tool.
    fn answered(&mut self, id: &str, name: &str) -> String {
        let exact = self.open.iter().position(|(i, n, _)| i == id && n == name);
        match exact.or_else(|| self.open.iter().position(|(i, _, _)| i == id)) {
            Some(at) => self.open.remove(at).2,
            None => id.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperatures() {
        for (value, text) in [(0, "0"), (700, "0.7"), (1000, "1"), (1250, "1.25"), (5, "0.005")] {
            assert_eq!(per_mille(value).unwrap().to_string(), text);
        }
    }

    #[test]
    fn dialects() {
        for host in ["api.openai.com", "eu.api.openai.com", "x.openai.azure.com"] {
            assert_eq!(Dialect::of_host(host).max_output, "max_completion_tokens", "{host}");
        }
        for host in ["localhost", "notopenai.com", "openrouter.ai"] {
            assert_eq!(Dialect::of_host(host).max_output, "max_tokens", "{host}");
        }
    }

    #[test]
    fn strictness() {
        let object = |required: Value, more: bool| json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": required, "additionalProperties": more});
        assert!(is_strict(&object(json!(["a", "b"]), false)));
        assert!(!is_strict(&object(json!(["a"]), false)));
        assert!(!is_strict(&json!({"anyOf": [object(json!(["a", "b"]), true)]})));
    }

    #[test]
    fn ids_are_unique_and_follow_their_results() {
        let mut ids = CallIds::default();
        let long = "x".repeat(41);
        let sent: Vec<_> = [("a", "r"), ("a", "w"), ("a", "r"), ("a-2", "r"), ("", "r"), (&long, "r")]
            .map(|(id, tool)| ids.named(id, tool))
            .to_vec();
        assert_eq!(sent, ["a", "a-2", "a-3", "a-2-2", "call", "call-2"]);
        assert_eq!(ids.answered("a", "w"), "a-2");
        assert_eq!(ids.answered("a", "r"), "a");
        assert_eq!(ids.answered("a", "r"), "a-3");
        assert_eq!(ids.answered(&long, "r"), "call-2");
        assert_eq!(ids.answered("a", "r"), "a", "an orphan keeps its id");
    }
}

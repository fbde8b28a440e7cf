//! Writes a request in the chat completions format; knows no connection and no answer.

use serde_json::{Map, Value, json};

use crate::protocol::expand::digest_of;
use crate::protocol::message::{
    AnswerSchema, ImagePart, Message, Opaque, Part, Pictures, Request, Role, Structured, ToolDecl,
};
use crate::protocol::spec::TOOLS;
use crate::provider::call_ids::CallIds;
use crate::provider::exchange::model_name;
use crate::provider::number::per_mille;
use crate::provider::openai::dialect::{Dialect, Typed};
use crate::provider::written::{self, Pieces, Whole, Writing};

const EFFORT: &str = "reasoning_effort";

/// Letters of a digest that are enough to tell conversations apart.
const CACHE_KEY: usize = 32;

/// Who is asked, as far as it shapes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    /// What it takes.
    pub dialect: &'static Dialect,
    /// Which opaque parts go back: those of the same host, for only it understands them.
    pub opaque_kind: String,
}

/// The whole body; its messages are written.
pub(super) fn body(request: &Request, writer: &Writer) -> Vec<u8> {
    let dialect = writer.host.dialect;
    let mut body = Map::new();
    let mut messages = writer.whole();
    let mut tools: Vec<Value> = request.tools.iter().map(|declared| tool(declared)).collect();
    if let Some(schema) = &request.params.schema {
        match dialect.typed(schema.via) {
            Typed::Schema | Typed::Object { .. } if is_left_out(request, "response_format") => {
                // The session says it in words by itself where it expects no more of the host.
                if schema.via != Structured::JsonObject {
                    say_schema(&mut messages, schema);
                }
            }
            Typed::Schema => {
                body.insert("response_format".into(), response_format(schema));
            }
            Typed::Object { in_words } => {
                body.insert("response_format".into(), json!({"type": "json_object"}));
                if in_words {
                    say_schema(&mut messages, schema);
                }
            }
            Typed::Tool => {
                tools.push(forced_tool(schema));
                let choice = json!({"type": "function", "function": {"name": schema.name}});
                body.insert("tool_choice".into(), choice);
            }
            Typed::Words => {}
        }
    }
    body.insert("model".into(), model_name(request).into());
    body.insert("messages".into(), Value::Null);
    // Requests with the same beginning find the cache of the one before on the same machine.
    let cache_key = dialect.cache_key.then(|| digest_of(&(&tools, messages.first())));
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
    }
    if let Some(temperature) = request.params.temperature_pm.and_then(per_mille) {
        body.insert("temperature".into(), Value::Number(temperature));
    }
    if let Some(max) = request.params.max_output {
        body.insert(limit_name(request, dialect).into(), max.into());
    }
    if let Some(effort) = request.params.effort {
        body.insert(EFFORT.into(), effort.word().into());
        if dialect.template_effort {
            body.insert("chat_template_kwargs".into(), json!({EFFORT: effort.word()}));
        }
    }
    if let Some(key) = cache_key {
        body.insert("prompt_cache_key".into(), key.chars().take(CACHE_KEY).collect::<String>().into());
    }
    body.insert("stream".into(), true.into());
    if dialect.stream_options {
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    body.retain(|name, _| !is_left_out(request, name));
    written::body(&body, "messages", &messages)
}

fn is_left_out(request: &Request, name: &str) -> bool {
    request.params.without.iter().any(|left_out| left_out == name)
}

/// GitHub Copilot counts what a person asks for and not what follows a tool's result, and wants to know of pictures.
pub(super) fn copilot_headers(request: &Request, body: &[u8]) -> Vec<(&'static str, &'static str)> {
    let follows = request.messages.last().is_some_and(|last| last.role == Role::Tool);
    let mut headers = vec![("x-initiator", if follows { "agent" } else { "user" })];
    if memchr::memmem::find(body, b"\"type\":\"image_url\"").is_some() {
        headers.push(("copilot-vision-request", "true"));
    }
    headers
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
        "response_format" => {
            let typed = request.params.schema.as_ref().map(|schema| dialect.typed(schema.via));
            matches!(typed, Some(Typed::Schema | Typed::Object { .. }))
        }
        "stream_options" => dialect.stream_options,
        "prompt_cache_key" => dialect.cache_key,
        EFFORT => request.params.effort.is_some(),
        "chat_template_kwargs" => request.params.effort.is_some() && dialect.template_effort,
        "tool_choice" => forced(request, dialect).is_some(),
        TOOLS => !request.tools.is_empty(),
        _ => false,
    };
    has && !is_left_out(request, name)
}

/// The name of the tool whose arguments are the answer.
pub(super) fn forced(request: &Request, dialect: &Dialect) -> Option<String> {
    let schema = request.params.schema.as_ref()?;
    (dialect.typed(schema.via) == Typed::Tool).then(|| schema.name.clone())
}

/// For a host that is not held to the schema although the session counts on it.
fn say_schema(messages: &mut Whole<'_>, schema: &AnswerSchema) {
    let text = format!("Answer with JSON only, fitting this JSON Schema:\n{}", schema.schema);
    messages.change_first(|first| match first.filter(|first| first["role"] == "system") {
        Some(system) => {
            join(system, json!(text));
            None
        }
        None => Some(json!({"role": "system", "content": text})),
    });
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
pub(in crate::provider) fn is_strict(schema: &Value) -> bool {
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

/// Puts messages together as the host wants them.
pub(super) struct Writer {
    host: Host,
    ids: CallIds,
    done: Pieces,
    /// Pictures that came with results: they follow as a user's message, after the last result.
    held: Vec<Value>,
    pictures: Pictures,
}

impl Writing for Writer {
    fn write(&mut self, message: &Message) {
        match message.role {
            Role::Assistant => self.assistant(&message.parts),
            Role::Tool => self.results(&message.parts),
            Role::System => self.said("system", &message.parts),
            Role::User | Role::Unknown(_) => self.said("user", &message.parts),
        }
    }
}

impl Writer {
    pub fn new(host: &Host, pictures: &Pictures) -> Self {
        let ids = CallIds::new(host.dialect.nine_character_ids);
        // Only the last message may be joined with the next one.
        let pictures = pictures.clone();
        Writer { host: host.clone(), ids, done: Pieces::new(1), held: Vec::new(), pictures }
    }

    /// All messages, what is held released after the last one.
    fn whole(&self) -> Whole<'_> {
        let (host, held, pictures) = (self.host.clone(), self.held.clone(), self.pictures.clone());
        let mut tail = Writer { host, ids: CallIds::default(), done: self.done.tail(), held, pictures };
        tail.release();
        self.done.ending(tail.done)
    }

    fn release(&mut self) {
        if !self.held.is_empty() {
            let content = std::mem::take(&mut self.held);
            self.push(json!({"role": "user", "content": content}));
        }
    }

    fn said(&mut self, role: &str, parts: &[Part]) {
        self.release();
        if let Some(content) = content(parts, &self.pictures) {
            self.push(json!({"role": role, "content": content}));
        }
    }

    /// Appends a message in the order the host wants: one system message, at the beginning; where roles must
    /// alternate, no two of one role and no user's message right after a tool's.
    fn push(&mut self, mut message: Value) {
        let last = self.done.last_mut();
        if message["role"] == "system" {
            match last {
                None => return self.done.push(message),
                Some(last) if last["role"] == "system" => return join(last, message["content"].take()),
                Some(_) => message["role"] = "user".into(),
            }
        }
        match last {
            Some(last) if self.host.dialect.alternating => {
                let (before, role) = (last["role"].clone(), message["role"].clone());
                if before == role && role != "tool" && last.get("tool_calls").is_none() {
                    return merge(last, message);
                }
                if before == "tool" && role == "user" {
                    self.done.push(json!({"role": "assistant", "content": BRIDGE}));
                }
                self.done.push(message);
            }
            _ => self.done.push(message),
        }
    }

    fn results(&mut self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Result { id, name, content, .. } => {
                    let id = self.ids.answered(id, name);
                    self.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
                }
                Part::Image(image) => self.held.push(picture(image, &self.pictures)),
                Part::Text { text } => self.held.push(json!({"type": "text", "text": text})),
                Part::Reasoning { .. } | Part::Call { .. } | Part::Opaque(_) | Part::Unknown(_) => {}
            }
        }
    }

    fn assistant(&mut self, parts: &[Part]) {
        self.release();
        let text: String = parts.iter().filter_map(text_of).collect();
        let (mut calls, mut message, mut next_call) = (Vec::new(), Map::new(), Map::new());
        if let Some(field) = self.host.dialect.reasoning_field {
            // Asked for even where nothing was thought.
            message.insert(field.into(), parts.iter().filter_map(thought).collect::<String>().into());
        }
        self.ids.begin();
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
                | Part::Image(_)
                | Part::Unknown(_) => {}
            }
        }
        let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { text.into() };
        message.insert("role".into(), "assistant".into());
        message.insert("content".into(), content);
        if !calls.is_empty() {
            message.insert("tool_calls".into(), calls.into());
        }
        self.push(Value::Object(message));
    }

    /// Fields of an earlier answer that this very host wants to see again.
    fn foreign(&self, opaque: &Opaque, message: &mut Map<String, Value>) {
        if opaque.provider == self.host.opaque_kind
            && !opaque.dropped
            && let Value::Object(fields) = &opaque.json
        {
            message.extend(fields.clone());
        }
    }
}

/// Stands between a tool's result and a user's message where roles must alternate.
const BRIDGE: &str = "Noted.";

/// Puts a second message of the same role into the first: contents joined, the other fields taken over.
fn merge(first: &mut Value, second: Value) {
    let Value::Object(fields) = second else { return };
    for (key, value) in fields {
        match key.as_str() {
            "role" => {}
            "content" => join(first, value),
            _ => match (first.get_mut(&key), value) {
                (Some(Value::String(text)), Value::String(more)) => text.push_str(&more),
                (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
                (_, value) => first[&key] = value,
            },
        }
    }
}

/// Adds to the content of a message; texts stay one plain text.
fn join(message: &mut Value, more: Value) {
    let pieces = |content: Value| match content {
        Value::Array(pieces) => pieces,
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        _ => Vec::new(),
    };
    message["content"] = match (message["content"].take(), more) {
        (Value::String(text), Value::String(more)) if !text.is_empty() && !more.is_empty() => {
            format!("{text}\n\n{more}").into()
        }
        (Value::Null, more) => more,
        (content, Value::Null) => content,
        (Value::String(text), Value::String(more)) => (text + &more).into(),
        (content, more) => pieces(content).into_iter().chain(pieces(more)).collect::<Vec<_>>().into(),
    };
}

fn thought(part: &Part) -> Option<&str> {
    match part {
        Part::Reasoning { text, .. } => Some(text),
        _ => None,
    }
}

/// A plain string where only text is said, for some servers know nothing else.
fn content(parts: &[Part], pictures: &Pictures) -> Option<Value> {
    let texts: Vec<&str> = parts.iter().filter_map(text_of).collect();
    if parts.iter().any(|part| matches!(part, Part::Image(_))) {
        let pieces = parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(json!({"type": "text", "text": text})),
            Part::Image(image) => Some(picture(image, pictures)),
            _ => None,
        });
        return Some(pieces.collect::<Vec<_>>().into());
    }
    (!texts.is_empty()).then(|| texts.join("\n\n").into())
}

fn picture(image: &ImagePart, pictures: &Pictures) -> Value {
    match written::picture(image, pictures) {
        Ok(data) => {
            json!({"type": "image_url", "image_url": {"url": format!("data:{};base64,{data}", image.mime)}})
        }
        Err(words) => json!({"type": "text", "text": words}),
    }
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strictness() {
        let object = |required: Value, more: bool| json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": required, "additionalProperties": more});
        assert!(is_strict(&object(json!(["a", "b"]), false)));
        assert!(!is_strict(&object(json!(["a"]), false)));
        assert!(!is_strict(&json!({"anyOf": [object(json!(["a", "b"]), true)]})));
    }
}

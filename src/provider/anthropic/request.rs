//! Writes a request in the format of the Messages API; knows no connection and no answer.

use serde_json::{Map, Value, json};

use crate::protocol::expand::digest_of;
use crate::protocol::message::{AnswerSchema, Args, Message, Opaque, Part, Request, Role, Structured};
use crate::provider::anthropic::schema;
use crate::provider::call_ids::CallIds;
use crate::provider::exchange::model_name;
use crate::provider::number::per_mille;

/// Sent where no limit was set, since the API demands one.
const MAX_TOKENS: u64 = 4096;

/// How a typed answer is asked for.
enum Typed {
    /// By the format of the answer, with this schema.
    Format(Value),
    /// By a tool the model must call.
    Tool,
    /// By the system prompt: the session counts on more than its own words.
    InWords,
    /// By the session's own words.
    Not,
}

/// A request as it is sent.
pub(super) struct Sent {
    /// The whole body.
    pub body: Value,
    /// The tool whose arguments are the answer.
    pub forced: Option<String>,
    /// What thinking in the answer is bound to: a digest of all that was sent before it.
    pub prefix: String,
}

/// Writes the request; `opaque_kind` is what this model's own thinking is marked with.
pub(super) fn write(request: &Request, opaque_kind: &str) -> Sent {
    let typed = typed(request);
    let mut system: Vec<Value> = Vec::new();
    let mut tools: Vec<Value> =
        request.tools.iter().map(|t| tool(&t.name, &t.description, &t.schema)).collect();
    let (mut body, mut forced) = (Map::new(), None);
    let leading = request.messages.iter().take_while(|message| message.role == Role::System).count();
    let (first, rest) = request.messages.split_at(leading);
    system.extend(first.iter().flat_map(|message| said(&message.parts)));
    match (&typed, &request.params.schema) {
        (Typed::Format(schema), _) => {
            let format = json!({"type": "json_schema", "schema": schema});
            body.insert("output_config".into(), json!({"format": format}));
        }
        (Typed::Tool, Some(schema)) => {
            tools.push(tool(
                &schema.name,
                "Gives the answer in the form that was asked for.",
                &schema.schema,
            ));
            body.insert("tool_choice".into(), json!({"type": "tool", "name": schema.name}));
            forced = Some(schema.name.clone());
        }
        (Typed::InWords, Some(schema)) => system.push(in_words(schema)),
        _ => {}
    }
    // No model takes a forced tool or a temperature while it thinks. Thinking that is not asked for comes without
    // its words.
    let thinking = match forced {
        Some(_) => json!({"type": "disabled"}),
        None => json!({"type": "adaptive", "display": "summarized"}),
    };
    body.insert("thinking".into(), thinking);
    let is_still = forced.is_some() || is_left_out(request, "thinking");
    let prefix = digest_of(&(&system, &tools, body.get("output_config")));
    let (mut messages, prefix) = Writer::conversation(rest, prefix, Own::of(request, opaque_kind));
    // The API takes none above 1.
    if let Some(value) = request.params.temperature_pm.filter(|_| is_still)
        && let Some(temperature) = per_mille(value.min(1000))
    {
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
    body.insert("max_tokens".into(), request.params.max_output.unwrap_or(MAX_TOKENS).into());
    body.insert("messages".into(), messages.into());
    body.insert("stream".into(), true.into());
    for name in DROPPABLE.iter().filter(|name| is_left_out(request, name)) {
        body.remove(*name);
    }
    Sent { body: Value::Object(body), forced, prefix }
}

/// Parameters that a model may refuse and a request can do without.
const DROPPABLE: [&str; 4] = ["temperature", "thinking", "output_config", "tool_choice"];

/// Stands for all thinking that goes back: a server refuses it when it is bound to something else.
const SIGNATURE: &str = "signature";

/// True for a refused parameter that this body has and can do without.
pub(super) fn can_drop(body: &Value, name: &str) -> bool {
    let has_thinking = || body["messages"].to_string().contains("\"signature\"");
    (DROPPABLE.contains(&name) && body.get(name).is_some()) || (name == SIGNATURE && has_thinking())
}

fn is_left_out(request: &Request, name: &str) -> bool {
    request.params.without.iter().any(|left_out| left_out == name)
}

fn typed(request: &Request) -> Typed {
    let Some(wanted) = &request.params.schema else { return Typed::Not };
    match wanted.via {
        Structured::ForcedTool if is_left_out(request, "tool_choice") => Typed::InWords,
        Structured::ForcedTool => Typed::Tool,
        Structured::ResponseFormat if is_left_out(request, "output_config") => Typed::InWords,
        Structured::ResponseFormat => schema::within(&wanted.schema).map_or(Typed::InWords, Typed::Format),
        Structured::JsonObject | Structured::Words | Structured::Unknown(_) => Typed::Not,
    }
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

/// Which thinking goes back.
struct Own<'a> {
    kind: &'a str,
    /// False when none may go back: redaction changed some, or the server refuses what it is bound to.
    goes_back: bool,
}

impl<'a> Own<'a> {
    fn of(request: &Request, kind: &'a str) -> Self {
        let unwanted = ["thinking", SIGNATURE].iter().any(|name| is_left_out(request, name));
        Own { kind, goes_back: request.params.thinking != Some(false) && !unwanted }
    }

    /// A block of this model's own earlier answer, if all before it is as it was then: the API refuses any other.
    fn block(&self, opaque: &Opaque, prefix: &str) -> Option<Value> {
        let is_own = self.goes_back && opaque.provider == self.kind && !opaque.dropped;
        let is_bound = opaque.json["prefix"].as_str() == Some(prefix);
        (is_own && is_bound).then(|| opaque.json["block"].clone())
    }
}

/// Puts messages together as the API wants them: users and assistants in turn, results first.
struct Writer<'a> {
    own: Own<'a>,
    ids: CallIds,
    done: Vec<Value>,
    /// What came with results and may only follow the last of them.
    held: Vec<Value>,
    /// Digest of all that is written so far, system and tools included.
    prefix: String,
}

impl<'a> Writer<'a> {
    fn conversation(messages: &[Message], prefix: String, own: Own<'a>) -> (Vec<Value>, String) {
        let mut writer = Writer { own, ids: CallIds::default(), done: Vec::new(), held: Vec::new(), prefix };
        for message in messages {
            match message.role {
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
        (writer.done, writer.prefix)
    }

    fn push(&mut self, role: &str, blocks: Vec<Value>) {
        if blocks.is_empty() {
            return;
        }
        for block in &blocks {
            self.prefix = digest_of(&(&self.prefix, role, block));
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
        let (mut blocks, mut is_whole) = (Vec::new(), true);
        for part in parts {
            match part {
                Part::Call { id, name, args } => {
                    let id = self.ids.named(id, name);
                    blocks.push(json!({"type": "tool_use", "id": id, "name": name, "input": input(args)}));
                }
                Part::Reasoning { opaque: Some(opaque), .. } | Part::Opaque(opaque) => {
                    // What follows a block that is left out is bound to that block as well.
                    let own = self.own.block(opaque, &self.prefix).filter(|_| is_whole);
                    is_whole &= own.is_some();
                    blocks.extend(own);
                }
                // What others thought has no signature, and the API takes no thinking without one.
                Part::Reasoning { opaque: None, .. } => {}
                other => blocks.extend(block(other)),
            }
        }
        self.push("assistant", blocks);
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

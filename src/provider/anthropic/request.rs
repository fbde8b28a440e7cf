//! Writes a request in the format of the Messages API; knows no connection and no answer.

use serde_json::{Map, Value, json};

use crate::protocol::expand::digest_of;
use crate::protocol::message::{
    AnswerSchema, Args, Message, Opaque, Part, Pictures, Request, Role, Structured,
};
use crate::provider::anthropic::schema;
use crate::provider::call_ids::CallIds;
use crate::provider::exchange::model_name;
use crate::provider::number::per_mille;
use crate::provider::written::{self, Pieces, Whole, Writing, Written};

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

/// What is written of each conversation.
pub(super) type Conversations = Written<Writer>;

/// A request as it is sent.
pub(super) struct Sent {
    /// The whole body.
    pub body: Vec<u8>,
    /// Refused parameters that this body has and can do without.
    pub droppable: Vec<&'static str>,
    /// The tool whose arguments are the answer.
    pub forced: Option<String>,
    /// What thinking in the answer is bound to: a digest of all that was sent before it.
    pub prefix: String,
}

/// Writes the request; `opaque_kind` is what this model's own thinking is marked with.
pub(super) fn write(request: &Request, opaque_kind: &str, written: &Conversations) -> Sent {
    let mut system: Vec<Value> = Vec::new();
    let mut tools: Vec<Value> =
        request.tools.iter().map(|t| tool(&t.name, &t.description, &t.schema)).collect();
    let mut body = Map::new();
    let leading = request.messages.iter().take_while(|message| message.role == Role::System).count();
    let (first, rest) = request.messages.split_at(leading);
    system.extend(first.iter().flat_map(|message| said(&message.parts, &request.pictures)));
    let forced = ask_typed(request, &mut body, &mut tools, &mut system);
    if let Some(effort) = request.params.effort
        && !is_left_out(request, EFFORT)
    {
        let config = body.entry("output_config").or_insert_with(|| json!({}));
        config["effort"] = effort.word().into();
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
    // The API takes none above 1.
    if let Some(value) = request.params.temperature_pm.filter(|_| is_still)
        && let Some(temperature) = per_mille(value.min(1000))
    {
        body.insert("temperature".into(), Value::Number(temperature));
    }
    let has_tools = !tools.is_empty();
    if has_tools {
        mark_for_cache(system.last_mut());
        body.insert("tools".into(), tools.into());
    }
    if !system.is_empty() {
        body.insert("system".into(), system.into());
    }
    body.insert("model".into(), model_name(request).into());
    body.insert("max_tokens".into(), request.params.max_output.unwrap_or(MAX_TOKENS).into());
    body.insert("messages".into(), Value::Null);
    body.insert("stream".into(), true.into());
    for name in DROPPABLE.iter().filter(|name| is_left_out(request, name)) {
        body.remove(*name);
    }
    let mut droppable: Vec<&'static str> =
        DROPPABLE.into_iter().filter(|name| body.contains_key(*name)).collect();
    droppable.extend(body.get("output_config").and_then(|config| config.get("effort")).map(|_| EFFORT));
    let own = Own::of(request, opaque_kind);
    let key = format!("{} {} {prefix}", own.kind, own.goes_back);
    written.with(
        key,
        rest,
        &request.pictures,
        || Writer::new(prefix, own, request.pictures.clone()),
        |writer| {
            droppable.extend(writer.has_thinking.then_some(SIGNATURE));
            let (mut messages, prefix) = writer.whole();
            if has_tools {
                mark_users(&mut messages.open);
            }
            Sent { body: written::body(&body, "messages", &messages), droppable, forced, prefix }
        },
    )
}

/// Asks for an answer that fits a schema; gives the tool whose arguments are the answer.
fn ask_typed(
    request: &Request,
    body: &mut Map<String, Value>,
    tools: &mut Vec<Value>,
    system: &mut Vec<Value>,
) -> Option<String> {
    let schema = request.params.schema.as_ref()?;
    match typed(request) {
        Typed::Format(within) => {
            let format = json!({"type": "json_schema", "schema": within});
            body.insert("output_config".into(), json!({"format": format}));
        }
        Typed::Tool => {
            tools.push(tool(
                &schema.name,
                "Gives the answer in the form that was asked for.",
                &schema.schema,
            ));
            body.insert("tool_choice".into(), json!({"type": "tool", "name": schema.name}));
            return Some(schema.name.clone());
        }
        Typed::InWords => system.push(in_words(schema)),
        Typed::Not => {}
    }
    None
}

/// Parameters that a model may refuse and a request can do without.
const DROPPABLE: [&str; 4] = ["temperature", "thinking", "output_config", "tool_choice"];

/// A field of `output_config`, which models refuse by itself.
const EFFORT: &str = "output_config.effort";

/// Stands for all thinking that goes back: a server refuses it when it is bound to something else.
const SIGNATURE: &str = "signature";

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
        Structured::JsonObject | Structured::Words | Structured::Any | Structured::Unknown(_) => Typed::Not,
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

/// Marks a block up to which the next request begins alike. A request with tools is one of many with the same beginning:
/// it pays to have it cached.
fn mark_for_cache(block: Option<&mut Value>) {
    if let Some(block) = block {
        block["cache_control"] = json!({"type": "ephemeral"});
    }
}

/// Marks the message before the last, and the last.
fn mark_users(last: &mut [Value]) {
    for message in last.iter_mut().rev().filter(|message| message["role"] == "user").take(2) {
        mark_for_cache(message["content"].as_array_mut().and_then(|blocks| blocks.last_mut()));
    }
}

/// Which thinking goes back.
#[derive(Clone)]
struct Own {
    kind: String,
    /// False when none may go back: redaction changed some, or the server refuses what it is bound to.
    goes_back: bool,
}

impl Own {
    fn of(request: &Request, kind: &str) -> Self {
        let unwanted = ["thinking", SIGNATURE].iter().any(|name| is_left_out(request, name));
        Own { kind: kind.to_owned(), goes_back: request.params.thinking != Some(false) && !unwanted }
    }

    /// A block of this model's own earlier answer, if all before it is as it was then: the API refuses any other.
    fn block(&self, opaque: &Opaque, prefix: &str) -> Option<Value> {
        let is_own = self.goes_back && opaque.provider == self.kind && !opaque.dropped;
        let is_bound = opaque.json["prefix"].as_str() == Some(prefix);
        (is_own && is_bound).then(|| opaque.json["block"].clone())
    }
}

/// Puts messages together as the API wants them: users and assistants in turn, results first.
pub(super) struct Writer {
    own: Own,
    ids: CallIds,
    done: Pieces,
    /// What came with results and may only follow the last of them.
    held: Vec<Value>,
    /// Digest of all that is written so far, system and tools included.
    prefix: String,
    /// True once thinking with its signature is among it.
    has_thinking: bool,
    pictures: Pictures,
}

/// The last messages that a request may still change: the last two of a user, and those between and after them.
const OPEN: usize = 4;

impl Writing for Writer {
    fn write(&mut self, message: &Message) {
        match message.role {
            Role::System | Role::User | Role::Unknown(_) => {
                let held = std::mem::take(&mut self.held);
                self.push("user", held.into_iter().chain(said(&message.parts, &self.pictures)).collect());
            }
            Role::Assistant => self.assistant(&message.parts),
            Role::Tool => self.results(&message.parts),
        }
    }
}

impl Writer {
    fn new(prefix: String, own: Own, pictures: Pictures) -> Self {
        let (ids, done) = (CallIds::default(), Pieces::new(OPEN));
        Writer { own, ids, done, held: Vec::new(), prefix, has_thinking: false, pictures }
    }

    /// All messages, what is held after the last one, and the digest of it all.
    fn whole(&self) -> (Whole<'_>, String) {
        let mut tail = Writer {
            done: self.done.tail(),
            ..Writer::new(self.prefix.clone(), self.own.clone(), self.pictures.clone())
        };
        tail.push("user", self.held.clone());
        (self.done.ending(tail.done), tail.prefix)
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
                other => self.held.extend(block(other, &self.pictures)),
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
                    self.has_thinking |= own.as_ref().is_some_and(|own| own.get("signature").is_some());
                    blocks.extend(own);
                }
                // What others thought has no signature, and the API takes no thinking without one.
                Part::Reasoning { opaque: None, .. } => {}
                other => blocks.extend(block(other, &self.pictures)),
            }
        }
        self.push("assistant", blocks);
    }
}

fn said(parts: &[Part], pictures: &Pictures) -> Vec<Value> {
    parts.iter().filter_map(|part| block(part, pictures)).collect()
}

/// Texts and pictures; an empty text is refused.
fn block(part: &Part, pictures: &Pictures) -> Option<Value> {
    match part {
        Part::Text { text: words } => (!words.trim().is_empty()).then(|| text(words)),
        Part::Image(image) => Some(match written::picture(image, pictures) {
            Ok(data) => {
                let source = json!({"type": "base64", "media_type": image.mime, "data": data});
                json!({"type": "image", "source": source})
            }
            Err(words) => text(&words),
        }),
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

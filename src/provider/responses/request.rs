//! Writes a request in the format of the Responses API; knows no connection and no answer.

use serde_json::{Map, Value, json};

use crate::protocol::expand::digest_of;
use crate::protocol::message::{AnswerSchema, Message, Opaque, Part, Pictures, Request, Role, Structured};
use crate::provider::call_ids::CallIds;
use crate::provider::exchange::model_name;
use crate::provider::number::per_mille;
use crate::provider::openai::is_strict;
use crate::provider::written::{self, Pieces, Whole, Writing, Written};

/// Parameters that a model may refuse and a request can do without.
const DROPPABLE: [&str; 6] =
    ["temperature", "reasoning", "include", "text", "tool_choice", "prompt_cache_key"];

/// A field of `reasoning`, which models refuse by itself.
const EFFORT: &str = "reasoning.effort";

/// Stands for all reasoning that goes back: a server refuses what it cannot decrypt.
const SIGNATURE: &str = "signature";

/// Letters of a digest that are enough to tell conversations apart.
const CACHE_KEY: usize = 32;

/// What is written of each conversation.
pub(super) type Conversations = Written<Writer>;

/// A request as it is sent.
pub(super) struct Sent {
    /// The whole body.
    pub body: Vec<u8>,
    /// Refused parameters that this body has and can do without.
    pub droppable: Vec<&'static str>,
}

/// Writes the request; `opaque_kind` is what this model's own reasoning is marked with.
pub(super) fn write(request: &Request, opaque_kind: &str, written: &Conversations) -> Sent {
    let leading = request.messages.iter().take_while(|message| message.role == Role::System).count();
    let (first, rest) = request.messages.split_at(leading);
    let mut instructions: Vec<String> =
        first.iter().flat_map(|message| &message.parts).filter_map(text_of).map(str::to_owned).collect();
    let mut tools: Vec<Value> =
        request.tools.iter().map(|t| tool(&t.name, &t.description, &t.schema)).collect();
    let mut body = Map::new();
    if let Some(schema) = &request.params.schema {
        ask_typed(request, schema, &mut body, &mut tools, &mut instructions);
    }
    let goes_back = request.params.thinking != Some(false) && !is_left_out(request, SIGNATURE);
    let begins = digest_of(&(&instructions, &tools));
    body.insert("prompt_cache_key".into(), Value::Null);
    if !instructions.is_empty() {
        body.insert("instructions".into(), instructions.join("\n\n").into());
    }
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
    }
    if let Some(temperature) = request.params.temperature_pm.and_then(per_mille) {
        body.insert("temperature".into(), Value::Number(temperature));
    }
    if let Some(max) = request.params.max_output {
        body.insert("max_output_tokens".into(), max.into());
    }
    body.insert("model".into(), model_name(request).into());
    body.insert("input".into(), Value::Null);
    body.insert("store".into(), false.into());
    body.insert("stream".into(), true.into());
    body.insert("include".into(), json!(["reasoning.encrypted_content"]));
    let mut reasoning = json!({"summary": "auto"});
    let effort = request.params.effort.filter(|_| !is_left_out(request, EFFORT));
    if let Some(effort) = effort {
        reasoning["effort"] = effort.word().into();
    }
    body.insert("reasoning".into(), reasoning);
    for name in DROPPABLE.iter().filter(|name| is_left_out(request, name)) {
        body.remove(*name);
    }
    let begin = || Writer::new(opaque_kind, goes_back, &request.pictures);
    written.with(format!("{opaque_kind} {goes_back}"), rest, &request.pictures, begin, |writer| {
        let has =
            |name: &&str| if *name == SIGNATURE { writer.has_reasoning } else { body.contains_key(*name) };
        let mut droppable: Vec<_> = DROPPABLE.into_iter().chain([SIGNATURE]).filter(has).collect();
        droppable.extend(effort.filter(|_| body.contains_key("reasoning")).map(|_| EFFORT));
        let input = writer.whole();
        // Requests with the same beginning find the cache of the one before on the same machine.
        let key: String = digest_of(&(&begins, input.first())).chars().take(CACHE_KEY).collect();
        if let Some(kept) = body.get_mut("prompt_cache_key") {
            *kept = key.into();
        }
        Sent { body: written::body(&body, "input", &input), droppable }
    })
}

/// Asks for an answer that fits a schema.
fn ask_typed(
    request: &Request,
    schema: &AnswerSchema,
    body: &mut Map<String, Value>,
    tools: &mut Vec<Value>,
    instructions: &mut Vec<String>,
) {
    match schema.via {
        Structured::ResponseFormat if !is_left_out(request, "text") => {
            body.insert("text".into(), json!({"format": format(schema)}));
        }
        Structured::JsonObject if !is_left_out(request, "text") => {
            body.insert("text".into(), json!({"format": {"type": "json_object"}}));
        }
        Structured::ForcedTool if !is_left_out(request, "tool_choice") => {
            tools.push(tool(
                &schema.name,
                "Gives the answer in the form that was asked for.",
                &schema.schema,
            ));
            body.insert("tool_choice".into(), json!({"type": "function", "name": schema.name}));
        }
        // The session counts on more than its own words.
        Structured::ResponseFormat | Structured::ForcedTool => instructions.push(in_words(schema)),
        Structured::JsonObject | Structured::Words | Structured::Any | Structured::Unknown(_) => {}
    }
}

/// The name of the tool whose arguments are the answer.
pub(super) fn forced(request: &Request) -> Option<String> {
    let schema = request.params.schema.as_ref()?;
    let is_forced = schema.via == Structured::ForcedTool && !is_left_out(request, "tool_choice");
    is_forced.then(|| schema.name.clone())
}

fn is_left_out(request: &Request, name: &str) -> bool {
    request.params.without.iter().any(|left_out| left_out == name)
}

/// Strict schemas are the default of this API, and few tools fit them.
fn tool(name: &str, description: &str, schema: &Value) -> Value {
    json!({"type": "function", "name": name, "description": description, "parameters": schema, "strict": false})
}

fn format(schema: &AnswerSchema) -> Value {
    let strict = is_strict(&schema.schema);
    json!({"type": "json_schema", "name": schema.name, "schema": schema.schema, "strict": strict})
}

fn in_words(schema: &AnswerSchema) -> String {
    format!("Answer with JSON only, fitting this JSON Schema:\n{}", schema.schema)
}

/// Puts items together.
pub(super) struct Writer {
    opaque_kind: String,
    /// Reasoning goes back.
    goes_back: bool,
    ids: CallIds,
    done: Pieces,
    /// Pictures and texts that came with results and may only follow the last of them.
    held: Vec<Value>,
    /// Reasoning that waits for the item it led to: the API takes none without it.
    reasoning: Vec<Value>,
    /// What the next text of the assistant was, in the server's own words.
    phase: Option<Value>,
    /// True once reasoning is among the items.
    has_reasoning: bool,
    pictures: Pictures,
}

impl Writing for Writer {
    fn write(&mut self, message: &Message) {
        match message.role {
            Role::Assistant => self.assistant(&message.parts),
            Role::Tool => self.results(&message.parts),
            Role::System | Role::User | Role::Unknown(_) => {
                let held = std::mem::take(&mut self.held);
                let said = message.parts.iter().filter_map(|part| content(part, &self.pictures));
                let content = held.into_iter().chain(said).collect();
                self.user(content);
            }
        }
    }
}

impl Writer {
    fn new(opaque_kind: &str, goes_back: bool, pictures: &Pictures) -> Self {
        Writer {
            opaque_kind: opaque_kind.to_owned(),
            goes_back,
            ids: CallIds::default(),
            // No item changes once it is written.
            done: Pieces::new(0),
            held: Vec::new(),
            reasoning: Vec::new(),
            phase: None,
            has_reasoning: false,
            pictures: pictures.clone(),
        }
    }

    /// All items, what is held after the last one.
    fn whole(&self) -> Whole<'_> {
        let mut tail = Writer { done: self.done.tail(), ..Writer::new("", false, &self.pictures) };
        tail.user(self.held.clone());
        self.done.ending(tail.done)
    }

    fn release_reasoning(&mut self) {
        self.has_reasoning |= !self.reasoning.is_empty();
        std::mem::take(&mut self.reasoning).into_iter().for_each(|item| self.done.push(item));
    }

    fn user(&mut self, content: Vec<Value>) {
        if !content.is_empty() {
            self.done.push(json!({"type": "message", "role": "user", "content": content}));
        }
    }

    fn results(&mut self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Result { id, name, content, .. } => {
                    let id = self.ids.answered(id, name);
                    self.done.push(json!({"type": "function_call_output", "call_id": id, "output": content}));
                }
                other => self.held.extend(content(other, &self.pictures)),
            }
        }
    }

    fn assistant(&mut self, parts: &[Part]) {
        let held = std::mem::take(&mut self.held);
        self.user(held);
        self.ids.begin();
        for part in parts {
            match part {
                Part::Call { id, name, args } => {
                    let id = self.ids.named(id, name);
                    self.release_reasoning();
                    let arguments = args.text();
                    self.done.push(
                        json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments}),
                    );
                }
                Part::Text { text } if !text.is_empty() => {
                    self.release_reasoning();
                    let content = json!([{"type": "output_text", "text": text}]);
                    let mut message = json!({"type": "message", "role": "assistant", "content": content});
                    if let Some(phase) = self.phase.take() {
                        message["phase"] = phase;
                    }
                    self.done.push(message);
                }
                Part::Reasoning { opaque: Some(opaque), .. } | Part::Opaque(opaque) => self.own(opaque),
                _ => {}
            }
        }
        self.reasoning.clear();
        self.phase = None;
    }

    /// What this model's own earlier answer had beside its words.
    fn own(&mut self, opaque: &Opaque) {
        if opaque.provider != self.opaque_kind || opaque.dropped {
            return;
        }
        match opaque.json.get("phase") {
            Some(phase) => self.phase = Some(phase.clone()),
            None if self.goes_back => self.reasoning.push(opaque.json.clone()),
            None => {}
        }
    }
}

/// Texts and pictures of a user.
fn content(part: &Part, pictures: &Pictures) -> Option<Value> {
    match part {
        Part::Text { text } => (!text.is_empty()).then(|| json!({"type": "input_text", "text": text})),
        Part::Image(image) => Some(match written::picture(image, pictures) {
            Ok(data) => {
                json!({"type": "input_image", "image_url": format!("data:{};base64,{data}", image.mime)})
            }
            Err(words) => json!({"type": "input_text", "text": words}),
        }),
        _ => None,
    }
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } => Some(text),
        _ => None,
    }
}

//! Writes a request in the format of the Responses API; knows no connection and no answer.

use serde_json::{Map, Value, json};

use crate::protocol::expand::digest_of;
use crate::protocol::message::{AnswerSchema, Message, Opaque, Part, Request, Role, Structured};
use crate::provider::call_ids::CallIds;
use crate::provider::exchange::model_name;
use crate::provider::number::per_mille;
use crate::provider::openai::is_strict;

/// Parameters that a model may refuse and a request can do without.
const DROPPABLE: [&str; 5] = ["temperature", "reasoning", "include", "text", "tool_choice"];

/// Stands for all reasoning that goes back: a server refuses what it cannot decrypt.
const SIGNATURE: &str = "signature";

/// Letters of a digest that are enough to tell conversations apart.
const CACHE_KEY: usize = 32;

/// The whole body; `opaque_kind` is what this model's own reasoning is marked with.
pub(super) fn body(request: &Request, opaque_kind: &str) -> Value {
    let leading = request.messages.iter().take_while(|message| message.role == Role::System).count();
    let (first, rest) = request.messages.split_at(leading);
    let mut instructions: Vec<String> =
        first.iter().flat_map(|message| &message.parts).filter_map(text_of).map(str::to_owned).collect();
    let mut tools: Vec<Value> =
        request.tools.iter().map(|t| tool(&t.name, &t.description, &t.schema)).collect();
    let mut body = Map::new();
    if let Some(schema) = &request.params.schema {
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
            Structured::JsonObject | Structured::Words | Structured::Unknown(_) => {}
        }
    }
    let goes_back = request.params.thinking != Some(false) && !is_left_out(request, SIGNATURE);
    let input = Writer::conversation(rest, opaque_kind, goes_back);
    // Requests with the same beginning find the cache of the one before on the same machine.
    let key: String = digest_of(&(&instructions, &tools, input.first())).chars().take(CACHE_KEY).collect();
    body.insert("prompt_cache_key".into(), key.into());
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
    body.insert("input".into(), input.into());
    body.insert("store".into(), false.into());
    body.insert("stream".into(), true.into());
    body.insert("include".into(), json!(["reasoning.encrypted_content"]));
    body.insert("reasoning".into(), json!({"summary": "auto"}));
    for name in DROPPABLE.iter().filter(|name| is_left_out(request, name)) {
        body.remove(*name);
    }
    Value::Object(body)
}

/// The name of the tool whose arguments are the answer.
pub(super) fn forced(request: &Request) -> Option<String> {
    let schema = request.params.schema.as_ref()?;
    let is_forced = schema.via == Structured::ForcedTool && !is_left_out(request, "tool_choice");
    is_forced.then(|| schema.name.clone())
}

/// True for a refused parameter that this body has and can do without.
pub(super) fn can_drop(body: &Value, name: &str) -> bool {
    let has_reasoning =
        || body["input"].as_array().is_some_and(|input| input.iter().any(|item| item["type"] == "reasoning"));
    (DROPPABLE.contains(&name) && body.get(name).is_some()) || (name == SIGNATURE && has_reasoning())
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
struct Writer<'a> {
    opaque_kind: &'a str,
    /// Reasoning goes back.
    goes_back: bool,
    ids: CallIds,
    done: Vec<Value>,
    /// Pictures and texts that came with results and may only follow the last of them.
    held: Vec<Value>,
    /// Reasoning that waits for the item it led to: the API takes none without it.
    reasoning: Vec<Value>,
    /// What the next text of the assistant was, in the server's own words.
    phase: Option<Value>,
}

impl<'a> Writer<'a> {
    fn conversation(messages: &[Message], opaque_kind: &'a str, goes_back: bool) -> Vec<Value> {
        let mut writer = Writer {
            opaque_kind,
            goes_back,
            ids: CallIds::default(),
            done: Vec::new(),
            held: Vec::new(),
            reasoning: Vec::new(),
            phase: None,
        };
        for message in messages {
            match message.role {
                Role::Assistant => writer.assistant(&message.parts),
                Role::Tool => writer.results(&message.parts),
                Role::System | Role::User | Role::Unknown(_) => {
                    let held = std::mem::take(&mut writer.held);
                    let said = message.parts.iter().filter_map(content);
                    writer.user(held.into_iter().chain(said).collect());
                }
            }
        }
        let held = std::mem::take(&mut writer.held);
        writer.user(held);
        writer.done
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
                other => self.held.extend(content(other)),
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
                    self.done.append(&mut self.reasoning);
                    let arguments = args.text();
                    self.done.push(
                        json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments}),
                    );
                }
                Part::Text { text } if !text.is_empty() => {
                    self.done.append(&mut self.reasoning);
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
fn content(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text } => (!text.is_empty()).then(|| json!({"type": "input_text", "text": text})),
        Part::Image { media, data } => {
            Some(json!({"type": "input_image", "image_url": format!("data:{media};base64,{data}")}))
        }
        _ => None,
    }
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } => Some(text),
        _ => None,
    }
}

//! Puts an answer together from the events of a stream or from one JSON body; knows no connection.

use serde_json::{Value, json};

use crate::ports::Live;
use crate::protocol::Lane;
use crate::protocol::event::ModelReply;
use crate::protocol::message::{Args, Finish, Opaque, Part, Request, Usage};
use crate::provider::exchange::{Incoming, Progress, Trouble};
use crate::provider::failure::Report;
use crate::provider::number::counted;
use crate::provider::tokens;

/// A block as far as it has come.
#[derive(Debug)]
struct Block {
    index: u64,
    /// As it began; what it needs to be sent back as it was.
    json: Value,
    /// Text, thinking or arguments.
    text: String,
}

/// An answer as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The tool whose arguments are the answer.
    forced: Option<String>,
    opaque_kind: String,
    /// What thinking is bound to.
    prefix: String,
    model: String,
    blocks: Vec<Block>,
    /// Why the model refused, where the API says so.
    refusal: String,
    usage: Value,
    progress: Progress,
}

impl Answer {
    /// An empty answer; `forced` names the tool whose arguments are the answer, `prefix` what thinking is bound to.
    pub fn new(forced: Option<String>, opaque_kind: String, prefix: String) -> Self {
        Answer { forced, opaque_kind, prefix, ..Answer::default() }
    }

    fn take(&mut self, json: &str, live: &dyn Live) -> Result<(), Trouble> {
        let strange = |error: String| Trouble::Strange { data: json.to_owned(), error };
        let value: Value = serde_json::from_str(json).map_err(|error| strange(error.to_string()))?;
        match value["type"].as_str() {
            Some("ping") => return Ok(()),
            Some("message_start") => self.begin(&value["message"]),
            Some("message") => {
                self.begin(&value);
                for (index, block) in (0..).zip(value["content"].as_array().into_iter().flatten()) {
                    self.start(index, block, live);
                }
                self.stopped(&value);
            }
            Some("content_block_start") => {
                self.start(value["index"].as_u64().unwrap_or_default(), &value["content_block"], live);
            }
            Some("content_block_delta") => {
                self.delta(value["index"].as_u64().unwrap_or_default(), &value["delta"], live);
            }
            Some("message_delta") => {
                self.stopped(&value["delta"]);
                self.count(&value["usage"]);
            }
            Some("message_stop") => self.progress.is_closed = true,
            // New events may come at any time.
            Some(kind) if kind != "error" && !kind.ends_with("_error") => {}
            _ => {
                return Err(match Report::of_json(&value) {
                    Some(report) => self.progress.reported(report),
                    None => strange("no `type`".to_owned()),
                });
            }
        }
        self.progress.took_event()
    }

    fn begin(&mut self, message: &Value) {
        self.model = message["model"].as_str().unwrap_or_default().to_owned();
        self.count(&message["usage"]);
    }

    fn stopped(&mut self, delta: &Value) {
        let why = delta.pointer("/stop_details/explanation").and_then(Value::as_str);
        self.refusal = why.unwrap_or_default().to_owned();
        self.progress.end = delta["stop_reason"].as_str().map(str::to_owned).or(self.progress.end.take());
    }

    /// Later counts replace earlier ones, name by name.
    fn count(&mut self, usage: &Value) {
        if !self.usage.is_object() {
            self.usage = json!({});
        }
        for (name, value) in usage.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            self.usage[name] = value.clone();
        }
    }

    fn start(&mut self, index: u64, block: &Value, live: &dyn Live) {
        self.progress.bytes += block.to_string().len();
        self.blocks.push(Block { index, json: block.clone(), text: String::new() });
        // A block of a whole answer has everything already; one of a stream begins empty.
        match block["type"].as_str() {
            Some("text") => self.grow(index, block["text"].as_str(), live),
            Some("thinking") => self.grow(index, block["thinking"].as_str(), live),
            Some("tool_use") if block["input"].as_object().is_some_and(|input| !input.is_empty()) => {
                self.grow(index, Some(&block["input"].to_string()), live);
            }
            _ => {}
        }
    }

    fn delta(&mut self, index: u64, delta: &Value, live: &dyn Live) {
        match delta["type"].as_str() {
            Some("text_delta") => self.grow(index, delta["text"].as_str(), live),
            Some("thinking_delta") => self.grow(index, delta["thinking"].as_str(), live),
            Some("input_json_delta") => self.grow(index, delta["partial_json"].as_str(), live),
            Some("signature_delta") => {
                let more = delta["signature"].as_str().unwrap_or_default();
                self.progress.bytes += more.len();
                if let Some(block) = self.blocks.iter_mut().rev().find(|block| block.index == index) {
                    let signature = block.json["signature"].as_str().unwrap_or_default().to_owned() + more;
                    block.json["signature"] = signature.into();
                }
            }
            _ => {}
        }
    }

    fn grow(&mut self, index: u64, more: Option<&str>, live: &dyn Live) {
        let more = more.unwrap_or_default();
        let Some(at) = self.blocks.iter().rposition(|block| block.index == index) else { return };
        let calls = self.blocks.iter().take(at).filter(|block| block.json["type"] == "tool_use").count();
        let Some(block) = self.blocks.get_mut(at).filter(|_| !more.is_empty()) else { return };
        self.progress.bytes += more.len();
        block.text.push_str(more);
        let lane = match block.json["type"].as_str() {
            Some("thinking") => Lane::Reasoning,
            Some("tool_use") if self.forced.as_deref() != block.json["name"].as_str() => {
                Lane::Args(u16::try_from(calls).unwrap_or(u16::MAX))
            }
            _ => Lane::Text,
        };
        live.push(lane, more);
    }

    fn parts(self) -> Vec<Part> {
        let opaque = |block: Value| {
            let json = json!({"prefix": self.prefix, "block": block});
            Opaque { provider: self.opaque_kind.clone(), json, dropped: false }
        };
        let mut parts = Vec::new();
        for Block { mut json, text, .. } in self.blocks {
            match json["type"].as_str() {
                Some("text") if text.is_empty() => {}
                Some("text") => parts.push(Part::Text { text }),
                Some("thinking") => {
                    // Whole, so that redaction of a word in it takes the signature with it.
                    json["thinking"] = text.clone().into();
                    parts.push(Part::Reasoning { text, opaque: Some(opaque(json)) });
                }
                Some("tool_use") if self.forced.as_deref() == json["name"].as_str() => {
                    parts.push(Part::Text { text: if text.is_empty() { "{}".to_owned() } else { text } });
                }
                Some("tool_use") => {
                    let word = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
                    parts.push(Part::Call { id: word("id"), name: word("name"), args: args(&text) });
                }
                _ => parts.push(Part::Opaque(opaque(json))),
            }
        }
        if !self.refusal.is_empty() && !parts.iter().any(|part| matches!(part, Part::Text { .. })) {
            parts.push(Part::Text { text: self.refusal });
        }
        parts
    }
}

impl Incoming for Answer {
    const CALLED: &'static str = "message";
    const HINT: &'static str = "is this a server of Anthropic's Messages API?";

    fn event(&mut self, data: &str, live: &dyn Live) -> Result<(), Trouble> {
        let data = data.trim();
        if self.progress.is_closed || data.is_empty() {
            return Ok(());
        }
        self.take(data, live)
    }

    fn whole(&mut self, json: &str, live: &dyn Live) -> Result<(), Trouble> {
        self.take(json, live)?;
        self.progress.is_closed = true;
        Ok(())
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn usage(&self) -> Option<Usage> {
        let count = |name: &str| self.usage.get(name).and_then(counted);
        let (cached, written) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
        let input = count("input_tokens")?;
        Some(Usage {
            input: input + cached.unwrap_or_default() + written.unwrap_or_default(),
            cached: cached.unwrap_or_default(),
            written: written.unwrap_or_default(),
            // Counted from the first event on, where it is hardly anything.
            output: count("output_tokens").filter(|_| self.progress.end.is_some())?,
            reasoning: self
                .usage
                .pointer("/output_tokens_details/thinking_tokens")
                .and_then(counted)
                .unwrap_or_default(),
            estimated: false,
        })
    }

    fn usage_so_far(&self, request: &Request) -> Option<Usage> {
        if !self.progress.has_events || self.usage().is_some() {
            return self.usage();
        }
        let estimated = |kind: &str| -> u64 {
            let blocks = self.blocks.iter().filter(|block| block.json["type"] == kind);
            blocks.map(|block| tokens::estimate_text(&block.text)).sum()
        };
        let reasoning = estimated("thinking");
        let output = estimated("text") + reasoning + estimated("tool_use");
        let said = |name: &str| self.usage.get(name).and_then(counted);
        let input = said("input_tokens").unwrap_or_else(|| tokens::estimate(request));
        let output = output.max(said("output_tokens").unwrap_or_default());
        Some(Usage { input, output, reasoning, estimated: true, ..Usage::default() })
    }

    fn into_reply(self) -> ModelReply {
        let (model, stop) = (self.model.clone(), self.progress.end.clone());
        let message = self.parts();
        let asks = message.iter().any(|part| matches!(part, Part::Call { .. }));
        let finish = match stop.as_deref() {
            Some("tool_use") | None if asks => Finish::ToolCalls,
            None | Some("end_turn" | "stop_sequence" | "tool_use") => Finish::Stop,
            Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
            Some("refusal") => Finish::Refused,
            Some(other) => Finish::Other(other.to_owned()),
        };
        ModelReply { message, usage: Usage::default(), model, finish, waited_ms: 0 }
    }
}

/// The arguments: none are an empty object, and what is no JSON stays text.
fn args(text: &str) -> Args {
    match serde_json::from_str(if text.trim().is_empty() { "{}" } else { text }) {
        Ok(value) => Args::Json(value),
        Err(_) => Args::Broken(text.to_owned()),
    }
}

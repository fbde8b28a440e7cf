//! Puts an answer together from streamed chunks or from one JSON body; knows no connection.

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::ports::Live;
use crate::protocol::Lane;
use crate::protocol::event::ModelReply;
use crate::protocol::message::{Args, Finish, Opaque, Part, Request, Usage};
use crate::provider::exchange::{Incoming, Progress, Trouble};
use crate::provider::failure::Report;
use crate::provider::number::counted;
use crate::provider::openai::calls::{CallPiece, Calls};
use crate::provider::think::{self, Said, ThinkFilter};
use crate::provider::tokens;
use crate::provider::written_calls::{END, Splitter};

/// A chunk of a stream, or a whole answer: they differ in one name.
#[derive(Debug, Deserialize)]
struct Chunk {
    #[serde(default, deserialize_with = "or_default")]
    model: String,
    #[serde(default, deserialize_with = "or_default")]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default)]
    index: Option<Value>,
    #[serde(default, alias = "message")]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Delta {
    content: Option<Value>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    reasoning_details: Option<Vec<Value>>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallPiece>>,
}

/// Tokens as a server counted them. Read piece by piece: no bookkeeping fails an answer that is paid for.
#[derive(Clone, Copy, Debug, Default)]
struct WireUsage {
    input: Option<u64>,
    output: Option<u64>,
    cached: u64,
    written: u64,
    reasoning: u64,
}

impl WireUsage {
    /// None where nothing can be read of it.
    fn of(value: &Value) -> Option<Self> {
        let count = |pointer: &str| value.pointer(pointer).and_then(counted);
        // The second name of cached input is DeepSeek's.
        let cached = ["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens"];
        let usage = WireUsage {
            input: count("/prompt_tokens"),
            output: count("/completion_tokens"),
            cached: cached.into_iter().filter_map(count).max().unwrap_or_default(),
            written: count("/prompt_tokens_details/cache_write_tokens").unwrap_or_default(),
            reasoning: count("/completion_tokens_details/reasoning_tokens").unwrap_or_default(),
        };
        (usage.input.unwrap_or_default() > 0 || usage.output.unwrap_or_default() > 0).then_some(usage)
    }
}

/// Servers write `null` where others leave a field out.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// An answer as far as it has come.
#[derive(Debug, Default)]
pub(in crate::provider) struct Answer {
    /// The tool whose arguments are the answer.
    forced: Option<String>,
    /// The names of the tools it may call.
    offered: Vec<String>,
    /// What opaque parts are marked with.
    opaque_kind: String,
    model: String,
    reasoning: String,
    details: Vec<Value>,
    text: String,
    /// Takes thinking between tags out of the text.
    tags: ThinkFilter,
    refused: bool,
    calls: Calls,
    usage: Option<WireUsage>,
    progress: Progress,
}

impl Answer {
    /// An empty answer; `forced` names the tool whose arguments are the answer.
    pub fn new(forced: Option<String>, offered: Vec<String>, opaque_kind: String) -> Self {
        Answer { forced, offered, opaque_kind, ..Answer::default() }
    }

    fn take(&mut self, json: &str, live: &dyn Live) -> Result<(), Trouble> {
        // Errors and oddities are rare: what has choices is read as a chunk at once.
        let chunk = match serde_json::from_str::<Chunk>(json) {
            Ok(chunk) if !chunk.choices.is_empty() && !json.contains("\"error\"") => chunk,
            parsed => checked(json, parsed).map_err(|trouble| match trouble {
                Trouble::Reported(report) => self.progress.reported(report),
                other => other,
            })?,
        };
        self.absorb(chunk, live);
        self.progress.took_event()
    }

    fn absorb(&mut self, chunk: Chunk, live: &dyn Live) {
        if self.model.is_empty() {
            self.model = chunk.model;
        }
        self.usage = chunk.usage.as_ref().and_then(WireUsage::of).or(self.usage);
        // Only one answer is ever asked for; some servers send more.
        let first =
            |choice: &Choice| choice.index.as_ref().is_none_or(|at| counted(at).is_none_or(|at| at == 0));
        let Some(choice) = chunk.choices.into_iter().find(first) else {
            return;
        };
        if let Some(delta) = choice.delta {
            self.delta(delta, live);
        }
        let end = &mut self.progress.end;
        *end = choice.finish_reason.filter(|word| !word.is_empty()).or(end.take());
    }

    fn delta(&mut self, delta: Delta, live: &dyn Live) {
        let thought = delta.reasoning_content.filter(|text| !text.is_empty()).or(delta.reasoning);
        self.think(thought.as_deref().unwrap_or_default(), live);
        for detail in delta.reasoning_details.into_iter().flatten() {
            self.progress.bytes += detail.to_string().len();
            merge_detail(&mut self.details, detail);
        }
        match delta.content {
            Some(Value::String(text)) => self.say(&text, live),
            Some(Value::Array(pieces)) => pieces.iter().for_each(|piece| self.piece(piece, live)),
            _ => {}
        }
        if let Some(text) = delta.refusal.filter(|text| !text.is_empty()) {
            self.refused = true;
            self.say(&text, live);
        }
        let (bytes, forced) = (&mut self.progress.bytes, self.forced.as_deref());
        self.calls.absorb(delta.tool_calls.unwrap_or_default(), |at, call, text| {
            *bytes += text.len();
            let lane = match forced == Some(call.name.as_str()) {
                true => Lane::Text,
                false => Lane::Args(u16::try_from(at).unwrap_or(u16::MAX)),
            };
            live.push(lane, text);
        });
    }

    /// A part of content that is a list (Mistral): text, or thinking that holds texts.
    fn piece(&mut self, piece: &Value, live: &dyn Live) {
        if let Some(text) = piece.get("text").and_then(Value::as_str) {
            self.say(text, live);
        }
        for thought in piece.get("thinking").and_then(Value::as_array).into_iter().flatten() {
            self.think(thought.get("text").and_then(Value::as_str).unwrap_or_default(), live);
        }
    }

    fn say(&mut self, text: &str, live: &dyn Live) {
        if text.is_empty() {
            return;
        }
        self.progress.bytes += text.len();
        let (said, thought) = (&mut self.text, &mut self.reasoning);
        self.tags.feed(text, &mut |kind, text| {
            let (whole, lane) = match kind {
                Said::Answer => (&mut *said, Lane::Text),
                Said::Thought => (&mut *thought, Lane::Reasoning),
            };
            whole.push_str(text);
            live.push(lane, text);
        });
    }

    /// What was still held back, and thinking that began without a tag.
    fn settle_tags(&mut self) {
        let (said, thought) = (&mut self.text, &mut self.reasoning);
        self.tags.finish(&mut |kind, text| match kind {
            Said::Answer => said.push_str(text),
            Said::Thought => thought.push_str(text),
        });
        if let Some((before, answer)) = think::split_unopened(&self.text) {
            self.reasoning.push_str(before);
            self.text = answer.to_owned();
        }
    }

    /// Calls that the server passed on as text, since it has no parser for them: an answer that ends with
    /// `<tool_call>{…}</tool_call>` of tools it was offered.
    fn take_written_calls(&mut self) {
        if !self.calls.list.is_empty() || !self.text.trim_end().ends_with(END) {
            return;
        }
        let mut splitter = Splitter::new(true);
        let mut deltas = splitter.feed(&self.text);
        deltas.extend(splitter.finish());
        let (mut text, mut calls) = (String::new(), Calls::default());
        for mut delta in deltas {
            text.push_str(delta["content"].as_str().unwrap_or_default());
            calls
                .absorb(serde_json::from_value(delta["tool_calls"].take()).unwrap_or_default(), |_, _, _| {});
        }
        if !calls.list.is_empty() && calls.list.iter().all(|call| self.offered.contains(&call.name)) {
            (self.text, self.calls) = (text.trim_end().to_owned(), calls);
        }
    }

    fn think(&mut self, text: &str, live: &dyn Live) {
        if !text.is_empty() {
            self.progress.bytes += text.len();
            self.reasoning.push_str(text);
            live.push(Lane::Reasoning, text);
        }
    }
}

impl Incoming for Answer {
    const CALLED: &'static str = "chat completion";
    const HINT: &'static str = "is this an OpenAI-compatible endpoint?";

    fn event(&mut self, data: &str, live: &dyn Live) -> Result<(), Trouble> {
        let data = data.trim();
        if self.progress.is_closed || data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            self.progress.is_closed = true;
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
        let usage = self.usage?;
        Some(Usage {
            input: usage.input?,
            cached: usage.cached,
            written: usage.written,
            output: usage.output?,
            reasoning: usage.reasoning,
            estimated: false,
        })
    }

    fn usage_so_far(&self, request: &Request) -> Option<Usage> {
        if !self.progress.has_events || self.usage().is_some() {
            return self.usage();
        }
        let args: u64 = self.calls.list.iter().map(|call| tokens::estimate_text(&call.arguments)).sum();
        let reasoning = tokens::estimate_text(&self.reasoning);
        let output = tokens::estimate_text(&self.text) + reasoning + args;
        let input = tokens::estimate(request);
        Some(Usage { input, output, reasoning, estimated: true, ..Usage::default() })
    }

    /// The finished answer: thinking, text, calls, each with what the host wants to see again before it.
    ///
    /// The fields of an opaque part go back into the message, those of its `next_call` into the next call.
    /// The usage is still empty.
    fn into_reply(mut self) -> ModelReply {
        self.settle_tags();
        self.take_written_calls();
        let mut message = Vec::new();
        let opaque = |json: Value| Opaque { provider: self.opaque_kind.clone(), json, dropped: false };
        let details = (!self.details.is_empty()).then(|| opaque(json!({"reasoning_details": self.details})));
        if !self.reasoning.is_empty() || details.is_some() {
            message.push(Part::Reasoning { text: self.reasoning, opaque: details });
        }
        if !self.text.is_empty() {
            message.push(Part::Text { text: self.text });
        }
        let mut asks = false;
        for call in self.calls.list {
            if self.forced.as_ref() == Some(&call.name) {
                message.push(Part::Text { text: typed_answer(&call.args()) });
            } else {
                asks = true;
                let args = call.args();
                message.extend(
                    call.extra
                        .map(|extra| Part::Opaque(opaque(json!({"next_call": {"extra_content": extra}})))),
                );
                message.push(Part::Call { id: call.id, name: call.name, args });
            }
        }
        ModelReply {
            message,
            usage: Usage::default(),
            model: self.model,
            finish: finish(self.progress.end.as_deref(), asks, self.refused),
            waited_ms: 0,
        }
    }
}

fn typed_answer(args: &Args) -> String {
    args.text()
}

fn finish(word: Option<&str>, asks: bool, refused: bool) -> Finish {
    match word {
        _ if refused => Finish::Refused,
        // Servers that call everything `stop`, and forced tools that are no calls any more.
        None | Some("stop" | "tool_calls" | "function_call") if asks => Finish::ToolCalls,
        None | Some("stop" | "tool_calls" | "function_call") => Finish::Stop,
        Some("length" | "max_tokens") => Finish::Length,
        Some("content_filter") => Finish::Filtered,
        Some("refusal") => Finish::Refused,
        Some(other) => Finish::Other(other.to_owned()),
    }
}

/// The slow path: an error, a chunk without choices (usage, keep-alive), or no chunk at all.
fn checked(json: &str, parsed: serde_json::Result<Chunk>) -> Result<Chunk, Trouble> {
    let strange = |error: String| Trouble::Strange { data: json.to_owned(), error };
    let value: Value = serde_json::from_str(json).map_err(|error| strange(error.to_string()))?;
    if let Some(report) = Report::of_json(&value) {
        return Err(Trouble::Reported(report));
    }
    if value.get("choices").is_none() && value.get("usage").is_none() {
        return Err(strange("neither `choices` nor `error`".to_owned()));
    }
    parsed.map_err(|error| strange(error.to_string()))
}

/// Joins the pieces of one thinking detail: same index and type, texts appended, the rest replaced.
fn merge_detail(details: &mut Vec<Value>, piece: Value) {
    let same = |last: &Value| ["index", "type"].iter().all(|key| last.get(key) == piece.get(key));
    let Some(Value::Object(last)) =
        details.last_mut().filter(|last| piece.get("index").is_some() && same(last))
    else {
        details.push(piece);
        return;
    };
    let Value::Object(fields) = piece else { return };
    for (key, value) in fields {
        match (last.get_mut(&key), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more))
                if ["text", "summary", "data"].contains(&key.as_str()) =>
            {
                text.push_str(&more);
            }
            (_, value) => {
                last.insert(key, value);
            }
        }
    }
}

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

/// An item of the output as far as it has come.
#[derive(Debug)]
struct Item {
    index: u64,
    /// As it began, then as it is.
    json: Value,
    /// Text, summary or arguments as they streamed.
    text: String,
}

impl Item {
    fn is(&self, kind: &str) -> bool {
        self.json["type"] == kind
    }
}

/// An answer as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The tool whose arguments are the answer.
    forced: Option<String>,
    opaque_kind: String,
    model: String,
    items: Vec<Item>,
    is_refused: bool,
    usage: Value,
    /// Its end is `completed`, or why it is incomplete.
    progress: Progress,
}

impl Answer {
    /// An empty answer; `forced` names the tool whose arguments are the answer.
    pub fn new(forced: Option<String>, opaque_kind: String) -> Self {
        Answer { forced, opaque_kind, ..Answer::default() }
    }

    fn take(&mut self, json: &str, live: &dyn Live) -> Result<(), Trouble> {
        let strange = |error: String| Trouble::Strange { data: json.to_owned(), error };
        let value: Value = serde_json::from_str(json).map_err(|error| strange(error.to_string()))?;
        let kind = value["type"].as_str().unwrap_or_default();
        match kind {
            "response.created" | "response.in_progress" | "response.queued" => self.begin(&value["response"]),
            "response.output_item.added" => self.item(&value).json = value["item"].clone(),
            "response.output_item.done" => self.done(value["output_index"].as_u64(), &value["item"]),
            "response.output_text.delta" => self.grow(&value, Lane::Text, live),
            "response.refusal.delta" => {
                self.is_refused = true;
                self.grow(&value, Lane::Text, live);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.grow(&value, Lane::Reasoning, live);
            }
            "response.reasoning_summary_part.added" if !self.item(&value).text.is_empty() => {
                let between = json!({"output_index": value["output_index"], "delta": "\n\n"});
                self.grow(&between, Lane::Reasoning, live);
            }
            "response.function_call_arguments.delta" => {
                let lane = self.lane_of(&value);
                self.grow(&value, lane, live);
            }
            "response.completed" | "response.incomplete" => self.finish(&value["response"], live),
            "response.failed" => return Err(self.reported(&value["response"]["error"])),
            "error" => return Err(self.reported(value.get("error").unwrap_or(&value))),
            // New events may come at any time.
            _ if kind.starts_with("response.") => {}
            _ if value["object"] == "response" => match value["status"].as_str() {
                Some("failed") => return Err(self.reported(&value["error"])),
                _ => self.finish(&value, live),
            },
            _ => {
                return Err(match Report::of_json(&value) {
                    Some(report) => self.progress.reported(report),
                    None => strange("no event of a response".to_owned()),
                });
            }
        }
        self.progress.took_event()
    }

    fn reported(&self, error: &Value) -> Trouble {
        let report = Report::of_json(&json!({"error": error})).unwrap_or_default();
        self.progress.reported(report)
    }

    fn begin(&mut self, response: &Value) {
        if let Some(model) = response["model"].as_str() {
            model.clone_into(&mut self.model);
        }
    }

    /// The item that an event belongs to.
    fn item(&mut self, event: &Value) -> &mut Item {
        let index = event["output_index"].as_u64().unwrap_or_default();
        let at = self.items.iter().position(|item| item.index == index).unwrap_or(self.items.len());
        if at == self.items.len() {
            self.items.push(Item { index, json: Value::Null, text: String::new() });
        }
        &mut self.items[at]
    }

    fn grow(&mut self, event: &Value, lane: Lane, live: &dyn Live) {
        let more = event["delta"].as_str().unwrap_or_default();
        if !more.is_empty() {
            self.progress.bytes += more.len();
            self.item(event).text.push_str(more);
            live.push(lane, more);
        }
    }

    fn lane_of(&mut self, event: &Value) -> Lane {
        let name = self.item(event).json["name"].as_str().map(str::to_owned);
        if name.is_some() && name == self.forced {
            return Lane::Text;
        }
        let index = self.item(event).index;
        let before = self.items.iter().filter(|item| item.is("function_call") && item.index < index).count();
        Lane::Args(u16::try_from(before).unwrap_or(u16::MAX))
    }

    /// A finished item replaces what streamed of it.
    fn done(&mut self, index: Option<u64>, json: &Value) {
        let item = self.item(&json!({"output_index": index}));
        let before = std::mem::replace(&mut item.json, json.clone());
        let grown = json.to_string().len().saturating_sub(before.to_string().len() + item.text.len());
        self.progress.bytes += grown;
    }

    fn finish(&mut self, response: &Value, live: &dyn Live) {
        self.begin(response);
        self.usage = response["usage"].clone();
        for (index, item) in (0..).zip(response["output"].as_array().into_iter().flatten()) {
            // Some servers stream no items, and a whole answer has nothing else.
            if !self.items.iter().any(|known| known.index == index && known.json["status"] == item["status"])
            {
                let has_streamed =
                    self.items.iter().any(|known| known.index == index && !known.text.is_empty());
                self.done(Some(index), item);
                if !has_streamed {
                    self.show(item, live);
                }
            }
        }
        let why = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        let status = response["status"].as_str().unwrap_or("completed");
        self.progress.end = Some(why.unwrap_or(status).to_owned());
        self.progress.is_closed = true;
    }

    /// Shows an item that came in one piece.
    fn show(&mut self, item: &Value, live: &dyn Live) {
        for text in texts(&item["content"], "refusal") {
            self.is_refused = true;
            live.push(Lane::Text, text);
        }
        match item["type"].as_str() {
            Some("message") => texts(&item["content"], "text").for_each(|text| live.push(Lane::Text, text)),
            Some("reasoning") => thought(item).for_each(|text| live.push(Lane::Reasoning, text)),
            _ => {}
        }
    }

    fn parts(self) -> Vec<Part> {
        let opaque = |json: Value| Opaque { provider: self.opaque_kind.clone(), json, dropped: false };
        let mut parts = Vec::new();
        for Item { json, text, .. } in self.items {
            let word = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
            match json["type"].as_str() {
                Some("reasoning") => {
                    let whole: Vec<&str> = thought(&json).collect();
                    let text = if whole.is_empty() { text } else { whole.join("\n\n") };
                    let own = sent_back(&json).map(opaque);
                    if !text.is_empty() || own.is_some() {
                        parts.push(Part::Reasoning { text, opaque: own });
                    }
                }
                Some("function_call") => {
                    let arguments = Some(word("arguments")).filter(|args| !args.is_empty()).unwrap_or(text);
                    if self.forced.as_deref() == json["name"].as_str() {
                        parts.push(Part::Text { text: args(&arguments).text() });
                    } else {
                        let id = Some(word("call_id")).filter(|id| !id.is_empty()).unwrap_or(word("id"));
                        parts.push(Part::Call { id, name: word("name"), args: args(&arguments) });
                    }
                }
                // A message, or text of which no item was said.
                Some("message") | None => {
                    let whole: String =
                        texts(&json["content"], "text").chain(texts(&json["content"], "refusal")).collect();
                    let text = if whole.is_empty() { text } else { whole };
                    if let Some(phase) =
                        json.get("phase").filter(|phase| !phase.is_null() && !text.is_empty())
                    {
                        parts.push(Part::Opaque(opaque(json!({"phase": phase}))));
                    }
                    if !text.is_empty() {
                        parts.push(Part::Text { text });
                    }
                }
                Some(_) => {}
            }
        }
        parts
    }
}

impl Incoming for Answer {
    const CALLED: &'static str = "response";
    const HINT: &'static str =
        "is this a server of OpenAI's Responses API? Most others want `kind = \"openai\"`";

    fn event(&mut self, data: &str, live: &dyn Live) -> Result<(), Trouble> {
        let data = data.trim();
        if self.progress.is_closed || data.is_empty() || data == "[DONE]" {
            return Ok(());
        }
        self.take(data, live)
    }

    fn whole(&mut self, json: &str, live: &dyn Live) -> Result<(), Trouble> {
        self.take(json, live)
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn usage(&self) -> Option<Usage> {
        let count = |pointer: &str| self.usage.pointer(pointer).and_then(counted);
        Some(Usage {
            input: count("/input_tokens")?,
            cached: count("/input_tokens_details/cached_tokens").unwrap_or_default(),
            written: count("/input_tokens_details/cache_write_tokens").unwrap_or_default(),
            output: count("/output_tokens")?,
            reasoning: count("/output_tokens_details/reasoning_tokens").unwrap_or_default(),
            estimated: false,
        })
    }

    fn usage_so_far(&self, request: &Request) -> Option<Usage> {
        if !self.progress.has_events || self.usage().is_some() {
            return self.usage();
        }
        let estimated = |is_thought: bool| -> u64 {
            let items = self.items.iter().filter(|item| item.is("reasoning") == is_thought);
            items.map(|item| tokens::estimate_text(&item.text)).sum()
        };
        let reasoning = estimated(true);
        let output = estimated(false) + reasoning;
        let input = tokens::estimate(request);
        Some(Usage { input, output, reasoning, estimated: true, ..Usage::default() })
    }

    fn into_reply(self) -> ModelReply {
        let (model, end, is_refused) = (self.model.clone(), self.progress.end.clone(), self.is_refused);
        let message = self.parts();
        let asks = message.iter().any(|part| matches!(part, Part::Call { .. }));
        let finish = match end.as_deref() {
            _ if is_refused => Finish::Refused,
            None | Some("completed") if asks => Finish::ToolCalls,
            None | Some("completed") => Finish::Stop,
            Some("max_output_tokens") => Finish::Length,
            Some("content_filter") => Finish::Filtered,
            Some(other) => Finish::Other(other.to_owned()),
        };
        ModelReply { message, usage: Usage::default(), model, finish, waited_ms: 0 }
    }
}

/// The texts of a list of contents that are under this name.
fn texts<'a>(content: &'a Value, name: &'a str) -> impl Iterator<Item = &'a str> {
    content.as_array().into_iter().flatten().filter_map(move |piece| piece[name].as_str())
}

/// Readable thinking: a summary, or the thinking itself where a server gives it.
fn thought(item: &Value) -> impl Iterator<Item = &str> {
    texts(&item["summary"], "text").chain(texts(&item["content"], "text"))
}

/// Reasoning as it goes back: without its id, since nothing is kept under it. None where only the server could read it.
fn sent_back(item: &Value) -> Option<Value> {
    let is_whole =
        item["encrypted_content"].is_string() || item["content"].as_array().is_some_and(|c| !c.is_empty());
    let mut own = item.clone();
    let fields = own.as_object_mut().filter(|_| is_whole)?;
    fields.retain(|name, value| !["id", "status"].contains(&name.as_str()) && !value.is_null());
    fields.entry("summary").or_insert(json!([]));
    Some(own)
}

/// The arguments: none are an empty object, and what is no JSON stays text.
fn args(text: &str) -> Args {
    match serde_json::from_str(if text.trim().is_empty() { "{}" } else { text }) {
        Ok(value) => Args::Json(value),
        Err(_) => Args::Broken(text.to_owned()),
    }
}

//! What a model says, in every wire format and in the way of every host.

use std::sync::Arc;

use agon::ports::Provider;
use agon::provider::openai::DIALECTS;
use agon::provider::{FORMATS, ServerConfig};
use serde_json::{Value, json};

use super::server::{Reply, Server};

/// The key of every test: it must never be seen anywhere but in its header.
pub const KEY: &str = "sk-test-0123456789";

/// How an answer ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    #[default]
    Done,
    Length,
    Filtered,
    Refused,
}

/// An answer, before it is put into a format. Each counts 100 tokens of input, 60 of them read from a cache and 30
/// written to it, and 25 of output, 7 of them thinking.
#[derive(Clone, Debug, Default)]
pub struct Says {
    pub thought: &'static str,
    /// What proves the thought, and has to come back with it.
    pub proof: String,
    pub text: String,
    /// Id, tool, arguments.
    pub calls: Vec<(String, &'static str, Value)>,
    pub stop: Stop,
}

impl Says {
    pub fn text(text: &str) -> Says {
        Says { text: text.to_owned(), ..Says::default() }
    }
}

/// One format, in the way of one host.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    pub kind: &'static str,
    /// The row of a host among those of its format.
    pub dialect: Option<&'static str>,
}

/// Every format and every row.
pub fn wires() -> Vec<Wire> {
    let rows = DIALECTS.iter().map(|row| Wire { kind: "openai", dialect: Some(row.name) });
    let others = FORMATS.iter().filter(|format| format.kind != "openai");
    rows.chain(others.map(|format| Wire { kind: format.kind, dialect: None })).collect()
}

impl Wire {
    /// A server of this format that refuses what this host refuses.
    pub fn server(self, respond: impl Fn(&Value, usize) -> Reply + Send + Sync + 'static) -> Server {
        match self.dialect {
            Some(host) => Server::strict(host, respond),
            None => Server::start(respond),
        }
    }

    /// What the configuration makes of it.
    pub fn provider(self, url: &str) -> Arc<dyn Provider> {
        let format = FORMATS.iter().find(|format| format.kind == self.kind).unwrap();
        let config = ServerConfig::new("mock", url);
        let dialect = self.dialect.map(str::to_owned);
        Arc::new((format.connect)(ServerConfig { api_key: Some(KEY.into()), dialect, ..config }).unwrap())
    }

    /// A model with reasoning, whose thinking the tests' servers check.
    pub fn model(self) -> &'static str {
        if self.kind == "anthropic" { "claude-sonnet-5-5" } else { "gpt-5-mini" }
    }

    /// True where thinking goes back to the host.
    pub fn keeps_thinking(self) -> bool {
        self.dialect.is_none_or(|row| ["openrouter", "gemini", "deepseek"].contains(&row))
    }

    /// The answer as a stream.
    pub fn reply(self, says: &Says) -> Reply {
        Reply::raw_sse(self.body(says))
    }

    /// The bytes of the stream.
    pub fn body(self, says: &Says) -> Vec<u8> {
        match self.kind {
            "openai" => self.chunks(says).body("gpt-5-mini"),
            "anthropic" => events(&anthropic(says)),
            "openai-responses" => events(&responses(says)),
            other => panic!("no answers for `{other}`: a format needs its own here"),
        }
    }

    /// An error of this format.
    pub fn error(self, kind: &str, words: &str) -> Value {
        match self.kind {
            "anthropic" => json!({"type": "error", "error": {"type": kind, "message": words}}),
            _ => json!({"error": {"message": words, "type": kind, "code": kind, "param": null}}),
        }
    }

    /// An error inside a stream that has begun.
    pub fn broken(self, says: &Says, kind: &str, words: &str) -> Vec<u8> {
        let mut body = self.body(says);
        let text = String::from_utf8(body.clone()).unwrap();
        let first_word = text.find(says.text.split(' ').next().unwrap()).unwrap();
        body.truncate(first_word + text[first_word..].find("\n\n").unwrap() + 2);
        let error = match self.kind {
            "openai-responses" => json!({"type": "error", "code": kind, "message": words, "param": null}),
            _ => self.error(kind, words),
        };
        body.extend(events(&[error]));
        body
    }

    fn chunks(self, says: &Says) -> Reply {
        let mut deltas = Vec::new();
        if !says.thought.is_empty() {
            let details = json!([{"type": "reasoning.encrypted", "data": says.proof, "index": 0}]);
            deltas.push(match self.dialect {
                Some("openrouter") => json!({"reasoning": says.thought, "reasoning_details": details}),
                _ => json!({"reasoning_content": says.thought}),
            });
        }
        let word = |piece: &str| match says.stop {
            Stop::Refused => json!({"refusal": piece}),
            _ => json!({"content": piece}),
        };
        deltas.extend(says.text.split_inclusive(' ').map(word));
        for (i, (id, name, args)) in says.calls.iter().enumerate() {
            let (first, second) = halves(&args.to_string());
            let mut call = json!({"index": i, "id": id, "type": "function", "function": {"name": name, "arguments": first}});
            if self.dialect == Some("gemini") && i == 0 {
                call["extra_content"] = json!({"google": {"thought_signature": says.proof}});
            }
            deltas.push(json!({"tool_calls": [call]}));
            deltas.push(json!({"tool_calls": [{"index": i, "function": {"arguments": second}}]}));
        }
        let finish = match says.stop {
            Stop::Length => "length",
            Stop::Filtered => "content_filter",
            Stop::Done if !says.calls.is_empty() => "tool_calls",
            Stop::Done | Stop::Refused => "stop",
        };
        let usage = json!({"prompt_tokens": 100, "completion_tokens": 25, "total_tokens": 125,
            "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}, "completion_tokens_details": {"reasoning_tokens": 7}});
        Reply::deltas(deltas).finish(finish).with_usage_json(usage)
    }
}

fn halves(text: &str) -> (String, String) {
    let half = text.floor_char_boundary(text.len() / 2);
    (text[..half].to_owned(), text[half..].to_owned())
}

/// Events, each with its type on a line of its own, as both formats have it.
fn events(events: &[Value]) -> Vec<u8> {
    let event = |event: &Value| match event["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    };
    events.iter().map(event).collect::<String>().into_bytes()
}

/// The Messages API: blocks that begin empty and grow.
fn anthropic(says: &Says) -> Vec<Value> {
    let usage = json!({"input_tokens": 10, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 60, "output_tokens": 1});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": [], "stop_reason": null, "usage": usage});
    let mut events = vec![json!({"type": "message_start", "message": message}), json!({"type": "ping"})];
    let mut blocks: Vec<(Value, Vec<Value>)> = Vec::new();
    if !says.thought.is_empty() {
        let deltas = vec![
            json!({"type": "thinking_delta", "thinking": says.thought}),
            json!({"type": "signature_delta", "signature": says.proof}),
        ];
        blocks.push((json!({"type": "thinking", "thinking": "", "signature": ""}), deltas));
    }
    if !says.text.is_empty() {
        let words = says.text.split_inclusive(' ').map(|word| json!({"type": "text_delta", "text": word}));
        blocks.push((json!({"type": "text", "text": ""}), words.collect()));
    }
    for (id, name, args) in &says.calls {
        let (first, second) = halves(&args.to_string());
        let deltas = [first, second].map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
        blocks.push((json!({"type": "tool_use", "id": id, "name": name, "input": {}}), deltas.to_vec()));
    }
    for (index, (begun, deltas)) in blocks.into_iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": begun}));
        for delta in deltas {
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let stop = match says.stop {
        Stop::Length => "max_tokens",
        Stop::Filtered | Stop::Refused => "refusal",
        Stop::Done if !says.calls.is_empty() => "tool_use",
        Stop::Done => "end_turn",
    };
    let usage = json!({"output_tokens": 25, "output_tokens_details": {"thinking_tokens": 7}});
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": usage}));
    events.push(json!({"type": "message_stop"}));
    events
}

/// The Responses API: items that are added, grow and are done.
fn responses(says: &Says) -> Vec<Value> {
    let response = |status: &str| json!({"id": "resp_1", "object": "response", "status": status, "model": "gpt-5-mini", "output": [], "error": null, "incomplete_details": null, "usage": null});
    let mut events = vec![
        json!({"type": "response.created", "response": response("in_progress")}),
        json!({"type": "response.in_progress", "response": response("in_progress")}),
    ];
    let mut items: Vec<(Value, Vec<Value>)> = Vec::new();
    if !says.thought.is_empty() {
        let item = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": format!("gpt-5-mini-{}", says.proof),
            "summary": [{"type": "summary_text", "text": says.thought}]});
        let delta = json!({"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": says.thought});
        items.push((item, vec![delta]));
    }
    if !says.text.is_empty() {
        let (kind, field, event) = match says.stop {
            Stop::Refused => ("refusal", "refusal", "response.refusal.delta"),
            _ => ("output_text", "text", "response.output_text.delta"),
        };
        let content = json!([{"type": kind, field: says.text}]);
        let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "final_answer", "content": content});
        let words = says
            .text
            .split_inclusive(' ')
            .map(|word| json!({"type": event, "content_index": 0, "delta": word}));
        items.push((item, words.collect()));
    }
    for (id, name, args) in &says.calls {
        let args = args.to_string();
        let item = json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": args, "status": "completed"});
        let (first, second) = halves(&args);
        let deltas =
            [first, second].map(|d| json!({"type": "response.function_call_arguments.delta", "delta": d}));
        items.push((item, deltas.to_vec()));
    }
    let mut output = Vec::new();
    for (index, (item, deltas)) in items.into_iter().enumerate() {
        let mut begun = item.clone();
        for field in ["content", "summary"].iter().filter(|field| item.get(**field).is_some()) {
            begun[*field] = json!([]);
        }
        for field in ["arguments", "encrypted_content"].iter().filter(|field| item.get(**field).is_some()) {
            begun[*field] = "".into();
        }
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
        for mut delta in deltas {
            delta["output_index"] = index.into();
            events.push(delta);
        }
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
        output.push(item);
    }
    let (kind, why) = match says.stop {
        Stop::Length => ("incomplete", Some("max_output_tokens")),
        Stop::Filtered => ("incomplete", Some("content_filter")),
        Stop::Done | Stop::Refused => ("completed", None),
    };
    let mut ended = response(kind);
    ended["output"] = output.into();
    ended["incomplete_details"] = why.map_or(Value::Null, |why| json!({"reason": why}));
    ended["usage"] = json!({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "output_tokens": 25, "output_tokens_details": {"reasoning_tokens": 7}, "total_tokens": 125});
    events.push(json!({"type": format!("response.{kind}"), "response": ended}));
    let numbered = events.iter_mut().enumerate();
    numbered.for_each(|(n, event)| event["sequence_number"] = n.into());
    events
}

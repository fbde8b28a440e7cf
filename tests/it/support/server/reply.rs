//! What the server answers: a well-formed answer, then every way to break it.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Barrier;

/// How the body's length is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// In chunks, each piece one chunk.
    Chunked,
    /// By `content-length`.
    Length,
    /// There is no answer at all: the connection is closed.
    Nothing,
}

/// How the answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As HTTP wants it.
    Proper,
    /// The connection is closed.
    Cut,
    /// Nothing more comes, and the connection stays.
    Stall,
}

/// What exactly goes over the wire.
pub struct Script {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub framing: Framing,
    pub pieces: Vec<Vec<u8>>,
    pub delay_ms: u64,
    pub end: End,
    pub silent: bool,
    pub together: Option<Arc<Barrier>>,
}

impl Script {
    /// Bytes of the body.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum()
    }
}

#[derive(Clone, Debug)]
enum Body {
    /// Deltas of a streamed answer.
    Deltas(Vec<Value>),
    /// Bytes as they are.
    Raw(Vec<u8>),
}

/// One answer of the server.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
    usage: Option<Value>,
    finish: Option<String>,
    done: bool,
    split: Vec<usize>,
    every: usize,
    delay_ms: u64,
    end: End,
    keep: Option<usize>,
    framing: Framing,
    silent: bool,
    together: Option<Arc<Barrier>>,
}

impl Reply {
    fn of(body: Body) -> Reply {
        Reply {
            status: 200,
            headers: Vec::new(),
            body,
            usage: Some(json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})),
            finish: Some("stop".to_owned()),
            done: true,
            split: Vec::new(),
            every: 0,
            delay_ms: 0,
            end: End::Proper,
            keep: None,
            framing: Framing::Chunked,
            silent: false,
            together: None,
        }
    }

    /// Held back until as many answers are under way as the barrier wants; given up after a minute.
    pub fn together(mut self, barrier: &Arc<Barrier>) -> Reply {
        self.together = Some(Arc::clone(barrier));
        self
    }

    /// Streams a text word by word. The empty text is an empty answer.
    pub fn text(text: &str) -> Reply {
        Reply::deltas(text.split_inclusive(' ').map(|word| json!({"content": word})))
    }

    /// Streams tool calls, ids `call_1`, `call_2`, …, arguments in two pieces each.
    ///
    /// A conversation with several such answers needs ids of its own: see [`Reply::calls_with_ids`].
    pub fn calls<const N: usize>(calls: [(&str, Value); N]) -> Reply {
        let numbered = calls.into_iter().enumerate();
        let calls = numbered.map(|(i, (name, args))| (format!("call_{}", i + 1), name, args.to_string()));
        Reply::calls_with_ids(calls)
    }

    /// Streams tool calls with ids and argument texts of one's own.
    pub fn calls_with_ids<'a>(calls: impl IntoIterator<Item = (String, &'a str, String)>) -> Reply {
        let mut deltas = Vec::new();
        for (i, (id, name, args)) in calls.into_iter().enumerate() {
            let function = json!({"name": name, "arguments": ""});
            let call = json!({"index": i, "id": id, "type": "function", "function": function});
            deltas.push(json!({"tool_calls": [call]}));
            let half = args.floor_char_boundary(args.len() / 2);
            for piece in [&args[..half], &args[half..]] {
                let call = json!({"index": i, "function": {"arguments": piece}});
                deltas.push(json!({"tool_calls": [call]}));
            }
        }
        Reply::deltas(deltas).finish("tool_calls")
    }

    /// Streams deltas of one's own: the values of `choices[0].delta`.
    pub fn deltas(deltas: impl IntoIterator<Item = Value>) -> Reply {
        Reply::of(Body::Deltas(deltas.into_iter().collect())).header("content-type", "text/event-stream")
    }

    /// Thinking before the rest.
    pub fn reasoning(mut self, text: &str) -> Reply {
        if let Body::Deltas(deltas) = &mut self.body {
            deltas.insert(0, json!({"reasoning_content": text}));
        }
        self
    }

    /// A text after what is there, before the end.
    pub fn and_text(mut self, text: &str) -> Reply {
        if let Body::Deltas(deltas) = &mut self.body {
            deltas.push(json!({"content": text}));
        }
        self
    }

    /// The body as it is, as an event stream.
    pub fn raw_sse(body: impl Into<Vec<u8>>) -> Reply {
        Reply::of(Body::Raw(body.into())).header("content-type", "text/event-stream")
    }

    /// One JSON body although a stream was asked for.
    pub fn json(body: &Value) -> Reply {
        Reply::status(200, &body.to_string()).header("content-type", "application/json")
    }

    /// A status with a body.
    pub fn status(status: u16, body: &str) -> Reply {
        let mut reply = Reply::of(Body::Raw(body.as_bytes().to_vec()));
        reply.status = status;
        reply.framing = Framing::Length;
        reply
    }

    /// A page for people.
    pub fn html() -> Reply {
        let page = "<!doctype html><html><body>Welcome!</body></html>";
        Reply::status(200, page).header("content-type", "text/html")
    }

    /// Closes the connection without a byte.
    pub fn nothing() -> Reply {
        let mut reply = Reply::text("");
        reply.framing = Framing::Nothing;
        reply
    }

    /// Takes the request and never answers.
    pub fn silence() -> Reply {
        let mut reply = Reply::text("");
        reply.silent = true;
        reply
    }

    /// One more header.
    pub fn header(mut self, name: &str, value: &str) -> Reply {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Usage as input and output tokens.
    pub fn with_usage(self, input: u64, output: u64) -> Reply {
        self.with_usage_json(json!({"prompt_tokens": input, "completion_tokens": output}))
    }

    /// Usage in the provider's own JSON.
    pub fn with_usage_json(mut self, usage: Value) -> Reply {
        self.usage = Some(usage);
        self
    }

    /// No usage at all.
    pub fn without_usage(mut self) -> Reply {
        self.usage = None;
        self
    }

    /// Another reason to stop.
    pub fn finish(mut self, word: &str) -> Reply {
        self.finish = Some(word.to_owned());
        self
    }

    /// No reason to stop.
    pub fn without_finish(mut self) -> Reply {
        self.finish = None;
        self
    }

    /// No `[DONE]`.
    pub fn without_done(mut self) -> Reply {
        self.done = false;
        self
    }

    /// Sends the body in pieces of so many bytes.
    pub fn split_every(mut self, bytes: usize) -> Reply {
        self.every = bytes;
        self
    }

    /// Sends the body in pieces that end at these offsets.
    pub fn split_at(mut self, offsets: impl IntoIterator<Item = usize>) -> Reply {
        self.split = offsets.into_iter().collect();
        self
    }

    /// Waits before each piece.
    pub fn delay_ms(mut self, ms: u64) -> Reply {
        self.delay_ms = ms;
        self
    }

    /// Closes the connection after so many bytes of the body.
    pub fn cut_after(mut self, bytes: usize) -> Reply {
        self.keep = Some(bytes);
        self.end = End::Cut;
        self
    }

    /// Ends the answer as if it were whole, after so many bytes of the body.
    pub fn end_after(mut self, bytes: usize) -> Reply {
        self.keep = Some(bytes);
        self
    }

    /// Falls silent after so many bytes of the body.
    pub fn stall_after(mut self, bytes: usize) -> Reply {
        self.keep = Some(bytes);
        self.end = End::Stall;
        self
    }

    /// The body for a model of this name.
    pub fn body(&self, model: &str) -> Vec<u8> {
        let deltas = match &self.body {
            Body::Deltas(deltas) => deltas,
            Body::Raw(raw) => return raw.clone(),
        };
        let chunk = |delta: &Value, finish: Option<&str>| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
            json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": model, "choices": [choice]})
        };
        let mut events = vec![chunk(&json!({"role": "assistant", "content": ""}), None)];
        events.extend(deltas.iter().map(|delta| chunk(delta, None)));
        events.extend(self.finish.iter().map(|finish| chunk(&json!({}), Some(finish))));
        events.extend(self.usage.iter().map(|usage| json!({"model": model, "choices": [], "usage": usage})));
        let mut body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        if self.done {
            body.push_str("data: [DONE]\n\n");
        }
        body.into_bytes()
    }

    /// Offset just after the first occurrence of a text in the body.
    pub fn offset_after(&self, model: &str, text: &str) -> usize {
        let body = self.body(model);
        let at = body.windows(text.len()).position(|window| window == text.as_bytes());
        at.unwrap_or_else(|| panic!("`{text}` is not in: {}", String::from_utf8_lossy(&body))) + text.len()
    }

    pub(super) fn into_script(self, model: &str) -> Script {
        let mut body = self.body(model);
        body.truncate(self.keep.unwrap_or(body.len()));
        let pieces = match self.every {
            0 => pieces_at(&body, &self.split),
            bytes => body.chunks(bytes).map(<[u8]>::to_vec).collect(),
        };
        Script {
            status: self.status,
            headers: self.headers,
            framing: self.framing,
            pieces,
            delay_ms: self.delay_ms,
            end: self.end,
            silent: self.silent,
            together: self.together,
        }
    }
}

fn pieces_at(body: &[u8], offsets: &[usize]) -> Vec<Vec<u8>> {
    let mut bounds: Vec<usize> = offsets.iter().copied().filter(|at| *at > 0 && *at < body.len()).collect();
    bounds.extend([0, body.len()]);
    bounds.sort_unstable();
    bounds.dedup();
    bounds.windows(2).map(|pair| body[pair[0]..pair[1]].to_vec()).collect()
}

//! One call over HTTP, whatever its wire format: sends, reads a stream or a whole answer, says what broke it.

use std::borrow::Cow;

use tokio_util::sync::CancellationToken;

use crate::ports::Live;
use crate::protocol::event::{ErrorKind, ModelFailed, ModelReply};
use crate::protocol::message::{Part, Request, Usage};
use crate::provider::failure::{Report, shortened};
use crate::provider::http::{Body, Endpoint, Post};
use crate::provider::sse::{self, TooLong};
use crate::provider::tokens;

/// Bytes of text, thinking and arguments one answer may have: a log line has 768 KiB.
const MAX_ANSWER: usize = 700 << 10;

/// Bytes a JSON answer may have on the wire, where everything may be escaped.
const MAX_WHOLE: usize = sse::MAX_EVENT;

/// Why an answer cannot be taken.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// The provider says so itself.
    Reported(Report),
    /// It is too large to be recorded.
    TooLarge,
    /// It is something else.
    Strange { data: String, error: String },
}

impl From<TooLong> for Trouble {
    fn from(_: TooLong) -> Self {
        Trouble::TooLarge
    }
}

/// How far an answer has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Something that is part of an answer came.
    pub has_events: bool,
    /// Why the provider stopped, in its own word.
    pub end: Option<String>,
    /// Nothing more will come.
    pub is_closed: bool,
    /// Bytes of text, thinking and arguments so far.
    pub bytes: usize,
}

impl Progress {
    /// True once the provider said why it stopped, or that it is done.
    pub fn has_finished(&self) -> bool {
        self.is_closed || self.end.is_some()
    }

    /// Counts an event; one too many bytes end the answer.
    pub fn took_event(&mut self) -> Result<(), Trouble> {
        self.has_events = true;
        if self.bytes > MAX_ANSWER { Err(Trouble::TooLarge) } else { Ok(()) }
    }

    /// An error that the provider reports itself.
    pub fn reported(&self, report: Report) -> Trouble {
        Trouble::Reported(Report { in_stream: self.has_events, ..report })
    }
}

/// An answer of one wire format as far as it has come.
pub(super) trait Incoming: Send {
    /// What it is called, with its article left out.
    const CALLED: &'static str;
    /// What to check when something else came.
    const HINT: &'static str;

    /// Takes the data of one event.
    fn event(&mut self, data: &str, live: &dyn Live) -> Result<(), Trouble>;
    /// Takes a whole answer.
    fn whole(&mut self, json: &str, live: &dyn Live) -> Result<(), Trouble>;
    /// How far it has come.
    fn progress(&self) -> &Progress;
    /// What the provider counted; none when it did not, or only half of it.
    fn usage(&self) -> Option<Usage>;
    /// What a broken call has probably cost; none when no answer had begun.
    fn usage_so_far(&self, request: &Request) -> Option<Usage>;
    /// The finished answer; its usage is still empty, and so is its model where none was named.
    fn into_reply(self) -> ModelReply;
}

/// The model's name as the provider knows it: without the provider's own name.
pub(super) fn model_name(request: &Request) -> &str {
    request.model.split_once('/').map_or(request.model.as_str(), |(_, model)| model)
}

/// Keeps of the refused parameters those the request can do without; where a field of one was sent and is refused, the
/// field alone goes.
pub(super) fn droppable(mut failed: ModelFailed, can_drop: impl Fn(&str) -> bool) -> ModelFailed {
    failed.refused.retain(|name| can_drop(name));
    let fields = failed.refused.clone();
    failed.refused.retain(|name| fields.iter().all(|field| !field.starts_with(&format!("{name}."))));
    failed
}

/// Posts the body and puts the answer together; every way it can end is one outcome.
pub(super) async fn call<A: Incoming>(
    endpoint: &Endpoint,
    request: &Request,
    body: impl Into<Post>,
    answer: A,
    live: &dyn Live,
    cancel: &CancellationToken,
) -> Result<ModelReply, ModelFailed> {
    let mut exchange = Exchange { endpoint, answer, live };
    let ended = tokio::select! {
        biased;
        () = cancel.cancelled() => Err(endpoint.peer.failed(ErrorKind::Cancelled, "was stopped", "")),
        ended = exchange.run(body.into()) => ended,
    };
    let usage = exchange.answer.usage_so_far(request).filter(|usage| makes_sense(usage, request));
    let ended = match ended {
        Ok(()) => exchange.reply(request, cancel).await,
        Err(failed) => Err(failed),
    };
    ended.map_err(|failed| {
        // What was refused before its first word was not billed.
        let is_refused = matches!(
            failed.kind,
            ErrorKind::RateLimited
                | ErrorKind::Quota
                | ErrorKind::Auth
                | ErrorKind::BadRequest
                | ErrorKind::ContextOverflow
                | ErrorKind::OutputLimit
        );
        let usage = usage.filter(|usage| !(is_refused && usage.estimated && usage.output == 0));
        ModelFailed { usage, ..failed }
    })
}

struct Exchange<'a, A> {
    endpoint: &'a Endpoint,
    answer: A,
    live: &'a dyn Live,
}

impl<A: Incoming> Exchange<'_, A> {
    async fn run(&mut self, body: Post) -> Result<(), ModelFailed> {
        let mut body = self.endpoint.post(body).await?;
        let mut first = Vec::new();
        // Blank bytes keep a connection alive while a model loads; they say nothing yet.
        while first.is_empty()
            && let Some(piece) = body.piece().await?
        {
            first = piece.trim_ascii_start().to_vec();
        }
        // What the body says it is counts, not the header: proxies and small servers often get that wrong.
        match first.first() {
            Some(b'{' | b'[') => self.read_whole(body, first).await,
            Some(b'<') | None => Err(self.no_answer(&body, &first)),
            Some(_) => self.read_stream(body, first).await,
        }
    }

    /// The server streams, as it was asked to.
    async fn read_stream(&mut self, mut body: Body<'_>, first: Vec<u8>) -> Result<(), ModelFailed> {
        let mut decoder = sse::Decoder::new();
        self.absorb(&mut decoder, &first)?;
        while !self.answer.progress().is_closed {
            if self.answer.progress().has_events {
                body.begin();
            }
            if self.answer.progress().has_finished() {
                body.end_soon();
            }
            match body.piece().await {
                Ok(Some(piece)) => self.absorb(&mut decoder, &piece)?,
                Ok(None) => break,
                // The reason to stop was given; all that is missing is the usage.
                Err(_) if self.answer.progress().has_finished() => break,
                Err(failed) => return Err(failed),
            }
        }
        // llama-cpp-python gives up an answer like that when the next request comes.
        if self.answer.progress().is_closed && !body.drain().await && self.answer.progress().end.is_none() {
            let hint = "if another call ended it, set `concurrent_calls = 1` of the provider";
            let what = "broke off in the middle of the answer";
            return Err(self.endpoint.peer.failed(ErrorKind::Network, what, hint));
        }
        if !self.answer.progress().has_finished()
            && let Some(rest) = decoder.finish()
        {
            // An event without its blank line is taken if it is whole; a torn one is what the cut left.
            let _ = self.answer.event(&with_whole_characters(&rest), self.live);
        }
        let cut = |when: &str| {
            let what = format!("ended its stream {when}");
            Err(self.endpoint.peer.failed(ErrorKind::Network, &what, "try again"))
        };
        let is_event = first.starts_with(b"data:") || first.starts_with(b"event:");
        match (self.answer.progress().has_finished(), self.answer.progress().has_events) {
            (true, _) => Ok(()),
            (false, true) => cut("in the middle of the answer"),
            (false, false) if is_event => cut("in the middle of its first event"),
            (false, false) => Err(self.no_answer(&body, &first)),
        }
    }

    fn absorb(&mut self, decoder: &mut sse::Decoder, bytes: &[u8]) -> Result<(), ModelFailed> {
        let (answer, live) = (&mut self.answer, self.live);
        decoder
            .feed(bytes, |data| answer.event(&with_whole_characters(data), live))
            .map_err(|trouble| self.troubled(trouble))
    }

    /// The server answers in one piece although it was asked to stream.
    async fn read_whole(&mut self, mut body: Body<'_>, mut whole: Vec<u8>) -> Result<(), ModelFailed> {
        body.begin();
        while let Some(piece) = body.piece().await? {
            whole.extend_from_slice(&piece);
            if whole.len() > MAX_WHOLE {
                return Err(self.troubled(Trouble::TooLarge));
            }
        }
        let text = String::from_utf8_lossy(&whole);
        let taken = self.answer.whole(&with_whole_characters(&text), self.live);
        taken.map_err(|trouble| self.troubled(trouble))
    }

    fn troubled(&self, trouble: Trouble) -> ModelFailed {
        let peer = &self.endpoint.peer;
        match trouble {
            Trouble::Reported(report) => peer.reported(&report),
            Trouble::TooLarge => {
                let what =
                    format!("answered with more than {MAX_ANSWER} bytes, the most a log line can hold");
                peer.failed(ErrorKind::TooLarge, &what, "ask for less at once, or set a lower output limit")
            }
            Trouble::Strange { data, error } => {
                let what = format!("sent something that is no {} ({error}): {}", A::CALLED, shortened(&data));
                peer.failed(ErrorKind::BadResponse, &what, A::HINT)
            }
        }
    }

    fn no_answer(&self, body: &Body<'_>, first: &[u8]) -> ModelFailed {
        let what = match (body.content_type(), String::from_utf8_lossy(first)) {
            // llama-cpp-python does that where the input is larger than its window.
            (kind, text) if text.trim().is_empty() && kind.contains("event-stream") => {
                let hint =
                    "its own log says why: the input may not fit its window (set `context` of the model)";
                return self.endpoint.peer.failed(
                    ErrorKind::BadResponse,
                    "ended its stream before the first word",
                    hint,
                );
            }
            (_, text) if text.trim().is_empty() => "answered nothing at all".to_owned(),
            (kind, text) if text.trim_start().starts_with('<') => {
                format!("answered an HTML page (`{kind}`) instead of a {}", A::CALLED)
            }
            (kind, text) => format!("answered no {} (`{kind}`): {}", A::CALLED, shortened(&text)),
        };
        let hint = "check the base URL: it usually ends in `/v1`";
        self.endpoint.peer.failed(ErrorKind::BadResponse, &what, hint)
    }

    async fn reply(self, request: &Request, cancel: &CancellationToken) -> Result<ModelReply, ModelFailed> {
        let counted = self.answer.usage().filter(|usage| makes_sense(usage, request));
        let roughly = self.answer.usage_so_far(request).unwrap_or_default();
        let too_large = self.troubled(Trouble::TooLarge);
        let mut reply = self.answer.into_reply();
        if reply.model.is_empty() {
            reply.model = model_name(request).to_owned();
        }
        let bytes = serde_json::to_vec(&reply.message).map_or(usize::MAX, |json| json.len());
        if bytes > MAX_ANSWER {
            return Err(too_large);
        }
        reply.usage = match counted {
            Some(usage) => usage,
            // The answer is whole: a cancel now only ends the counting.
            None => tokio::select! {
                biased;
                () = cancel.cancelled() => roughly,
                usage = count(request.clone(), reply.message.clone()) => usage.unwrap_or(roughly),
            },
        };
        Ok(reply)
    }
}

/// JSON in which each escaped half of a character that comes without its other half is U+FFFD: some proxies cut a text
/// between the two.
fn with_whole_characters(json: &str) -> Cow<'_, str> {
    if !json.contains("\\ud") && !json.contains("\\uD") {
        return Cow::Borrowed(json);
    }
    let unit = |at: usize| u16::from_str_radix(json.get(at..at + 6)?.strip_prefix("\\u")?, 16).ok();
    let (mut whole, mut at) = (String::with_capacity(json.len()), 0);
    while let Some(next) = json[at..].find('\\') {
        whole.push_str(&json[at..at + next]);
        at += next;
        let (bytes, is_half) = match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, false),
            (Some(0xd800..=0xdfff), _) => (6, true),
            // A backslash and the character it escapes.
            _ => (json[at..].chars().take(2).map(char::len_utf8).sum(), false),
        };
        whole.push_str(if is_half { "\\ufffd" } else { &json[at..at + bytes] });
        at += bytes;
    }
    whole.push_str(&json[at..]);
    Cow::Owned(whole)
}

/// False for counts that cannot be: a hundred times the words that were sent, or many times the output that was allowed.
fn makes_sense(usage: &Usage, request: &Request) -> bool {
    let most_input = tokens::estimate(request).saturating_mul(100).saturating_add(100_000);
    let most_output = request.params.max_output.map_or(u64::MAX, |most| most.saturating_mul(16));
    usage.input <= most_input && usage.output <= most_output.max(1_000_000)
}

/// Counts what the provider did not; off the async threads, for the encoding may have to be loaded.
async fn count(request: Request, parts: Vec<Part>) -> Option<Usage> {
    let counting = tokio::task::spawn_blocking(move || {
        let model = request.model.as_str();
        let tokens_of = |text: &str| tokens::count_text(model, text);
        Usage {
            input: tokens::count(model, &request),
            output: tokens::measure_parts(&parts, &tokens_of),
            estimated: true,
            ..Usage::default()
        }
    });
    counting.await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_characters_become_replacements_and_all_else_stays() {
        let rows = [
            (r#"{"a":"x\ud83d"}"#, r#"{"a":"x\ufffd"}"#),
            (r#"{"a":"\uDE00b","b":"\ud83d\ud83d\ude00"}"#, r#"{"a":"\ufffdb","b":"\ufffd\ud83d\ude00"}"#),
            (r#"{"a":"\\ud83d \n\ud83d\\ude00"}"#, r#"{"a":"\\ud83d \n\ufffd\\ude00"}"#),
            (r#"{"a":"\ud7ff\ue000 ä"}"#, r#"{"a":"\ud7ff\ue000 ä"}"#),
            (r#"{"a":"\ud8"#, r#"{"a":"\ud8"#),
            (r#"\ud83d\ä"#, r#"\ufffd\ä"#),
        ];
        for (json, whole) in rows {
            assert_eq!(with_whole_characters(json), whole);
        }
    }
}

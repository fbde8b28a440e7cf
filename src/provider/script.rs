//! Answers models' calls from a written script or a recorded log, strictly; asks no network and reads no clock.

mod cite;
mod rows;
mod strict;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::ports::{Live, Provider};
use crate::protocol::event::{ErrorKind, ModelFailed, ModelReply};
use crate::protocol::message::{Message, Part, Request};
use crate::protocol::{Lane, Role};
use crate::provider::script::rows::{Row, Says};

pub use rows::ScriptError;

/// Characters of the last message an error shows.
const SHOWN: usize = 200;

/// A provider that says what was written down.
///
/// An answer is found by the asking spark's role label and by which model call of that role it is. Calls
/// are counted per `Script` value; [`Script::fresh`] starts over, [`Script::skip`] goes on where an earlier
/// process stopped. A script refuses what real APIs refuse and says so with kind `bad_request`; a script
/// that has no answer, or another one than the test expects, says so with kind `script`.
#[derive(Debug)]
pub struct Script {
    name: String,
    rows: Arc<Vec<Row>>,
    /// RecordedReply ids are the provider's own; only written scripts must keep them apart.
    recorded: bool,
    progress: Mutex<Progress>,
}

/// A recorded answer.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedReply {
    /// Role label of the spark that asked.
    pub spark: String,
    /// Which model call of that role it was, from 1.
    pub nth: u32,
    /// Digest of the request, when it is known.
    pub digest: Option<String>,
    /// The answer.
    pub reply: ModelReply,
}

#[derive(Debug, Default)]
struct Progress {
    calls: BTreeMap<String, u32>,
    /// Rows already given by digest: equal requests get their answers in order.
    given: BTreeSet<usize>,
}

impl Script {
    /// Reads a script. `name` is for messages.
    ///
    /// ```toml
    /// [[answer]]
    /// spark = "coder"                # role label; without one the row is for sparks that no row names
    /// nth = 1                        # without one: after the role's previous row
    /// expect = "fizz"                # or a list: texts the request must contain
    /// reasoning = "let me look"
    /// text = "I will read it."
    /// calls = [{ tool = "read_file", args = { path = "a.txt" } }]   # `raw = "…"` instead of args: broken ones
    /// usage = { input = 10, output = 5 }
    /// delay_ms = 300                 # over the whole answer
    /// # `{{cite:WORDS}}` in a text becomes the reference of the last result that holds the words
    ///
    /// [[answer]]
    /// spark = "coder"
    /// error = { kind = "rate_limited", message = "slow down", retry_after_ms = 10 }
    /// ```
    pub fn from_toml(name: &str, text: &str) -> Result<Self, ScriptError> {
        let rows = rows::read(name, text)?;
        Ok(Script {
            name: name.to_owned(),
            rows: Arc::new(rows),
            recorded: false,
            progress: Mutex::default(),
        })
    }

    /// A script of recorded answers, as a log holds them.
    ///
    /// A request with a recorded digest gets that answer, several in their order; any other request is
    /// answered by role and number.
    pub fn from_replies(name: &str, replies: impl IntoIterator<Item = RecordedReply>) -> Self {
        let rows = replies.into_iter().map(Row::from).collect();
        Script { name: name.to_owned(), rows: Arc::new(rows), recorded: true, progress: Mutex::default() }
    }

    /// The same script from its beginning: for another session.
    pub fn fresh(&self) -> Self {
        Script {
            name: self.name.clone(),
            rows: Arc::clone(&self.rows),
            recorded: self.recorded,
            progress: Mutex::default(),
        }
    }

    /// Counts calls of a role that an earlier process made.
    pub fn skip(&self, spark: &str, calls: u32) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        *progress.calls.entry(spark.to_owned()).or_default() += calls;
    }

    fn failed(&self, kind: ErrorKind, what: &str) -> ModelFailed {
        let message = format!("script `{}`: {what}", self.name);
        ModelFailed::new(kind, message)
    }

    /// Counts the call and finds its row.
    fn next(&self, request: &Request) -> Result<(&Row, u32), ModelFailed> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = progress.calls.entry(request.spark.clone()).or_default();
        *calls += 1;
        let nth = *calls;
        let found = self.by_digest(request, &progress).or_else(|| self.by_number(&request.spark, nth));
        let Some((at, row)) = found else {
            return Err(self.failed(ErrorKind::Script, &self.ended(request, nth)));
        };
        progress.given.insert(at);
        Ok((row, nth))
    }

    fn by_digest(&self, request: &Request, progress: &Progress) -> Option<(usize, &Row)> {
        if !self.recorded {
            return None;
        }
        let digest = request.digest();
        let same = |row: &Row| row.digest.as_ref() == Some(&digest);
        let mut rows = self.rows.iter().enumerate().filter(|(_, row)| same(row));
        rows.find(|(at, _)| !progress.given.contains(at))
    }

    fn by_number(&self, spark: &str, nth: u32) -> Option<(usize, &Row)> {
        let named = self.rows.iter().any(|row| row.spark == spark);
        let label = if named { spark } else { "" };
        self.rows.iter().enumerate().find(|(_, row)| row.spark == label && row.nth == nth)
    }

    fn fill_citations(&self, reply: &mut ModelReply, request: &Request) -> Result<(), ModelFailed> {
        for part in &mut reply.message {
            if let Part::Text { text } = part {
                let filled = cite::fill(text, &request.messages);
                *text = filled.map_err(|words| {
                    self.failed(ErrorKind::Script, &format!("nothing in the request to cite holds `{words}`"))
                })?;
            }
        }
        Ok(())
    }

    fn ended(&self, request: &Request, nth: u32) -> String {
        let named = self.rows.iter().any(|row| row.spark == request.spark);
        let label = if named { request.spark.as_str() } else { "" };
        let has = self.rows.iter().filter(|row| row.spark == label).count();
        format!(
            "it is at its end: there is no answer {nth} for spark `{}` (it has {has}); {}",
            request.spark,
            last_words(&request.messages)
        )
    }

    fn check_expected(&self, row: &Row, nth: u32, request: &Request) -> Result<(), ModelFailed> {
        for expected in &row.expect {
            if !request.messages.iter().any(|message| contains(message, expected)) {
                let what = format!(
                    "answer {nth} for spark `{}` expects the request to contain `{expected}`; {}",
                    request.spark,
                    last_words(&request.messages)
                );
                return Err(self.failed(ErrorKind::Script, &what));
            }
        }
        Ok(())
    }

    async fn answer(&self, request: &Request, live: &dyn Live) -> Result<ModelReply, ModelFailed> {
        strict::check(request, self.recorded).map_err(|what| self.failed(ErrorKind::BadRequest, &what))?;
        let (row, nth) = self.next(request)?;
        self.check_expected(row, nth, request)?;
        match &row.says {
            Says::Failure(failed) => {
                tokio::time::sleep(Duration::from_millis(row.delay_ms)).await;
                let mut failed = failed.clone();
                failed.message = format!("script `{}`: {}", self.name, failed.message);
                Err(failed)
            }
            Says::Reply(reply) => {
                let mut reply = reply.clone();
                if !self.recorded {
                    self.fill_citations(&mut reply, request)?;
                }
                rows::complete(&mut reply, row, request);
                stream(&reply.message, row.delay_ms, live).await;
                Ok(reply)
            }
        }
    }
}

#[async_trait]
impl Provider for Script {
    async fn call(
        &self,
        request: &Request,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelFailed> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(self.failed(ErrorKind::Cancelled, "was stopped")),
            answered = self.answer(request, live) => answered,
        }
    }
}

/// Word by word, the delay spread over the words.
async fn stream(parts: &[Part], delay_ms: u64, live: &dyn Live) {
    let mut pieces: Vec<(Lane, String)> = Vec::new();
    let mut calls = 0;
    for part in parts {
        let (lane, text) = match part {
            Part::Text { text } => (Lane::Text, text.clone()),
            Part::Reasoning { text, .. } => (Lane::Reasoning, text.clone()),
            Part::Call { args, .. } => {
                calls += 1;
                (Lane::Args(calls - 1), args.text())
            }
            Part::Result { .. } | Part::Image(_) | Part::Opaque(_) | Part::Unknown(_) => continue,
        };
        pieces.extend(text.split_inclusive(char::is_whitespace).map(|word| (lane, word.to_owned())));
    }
    let pause = delay_ms / u64::try_from(pieces.len().max(1)).unwrap_or(1);
    for (lane, text) in pieces {
        if delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        live.push(lane, &text);
    }
}

fn contains(message: &Message, expected: &str) -> bool {
    message.parts.iter().any(|part| match part {
        Part::Text { text } | Part::Reasoning { text, .. } => text.contains(expected),
        Part::Result { content, .. } => content.contains(expected),
        Part::Call { name, args, .. } => name.contains(expected) || args.text().contains(expected),
        Part::Image(image) => image.words.contains(expected),
        Part::Opaque(_) | Part::Unknown(_) => false,
    })
}

fn last_words(messages: &[Arc<Message>]) -> String {
    let Some(last) = messages.last() else {
        return "the request says nothing".to_owned();
    };
    let role = match last.role {
        Role::System => "system",
        Role::User | Role::Unknown(_) => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let words: Vec<&str> = last
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            Part::Result { content, .. } => Some(content.as_str()),
            _ => None,
        })
        .collect();
    let words: String = words.join("\n").chars().take(SHOWN).collect();
    format!("its last message ({role}) begins: {words}")
}

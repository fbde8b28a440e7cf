//! Reads the rows of a script from TOML and completes what they leave open; answers nothing.

use serde::Deserialize;
use serde_json::Value;

use crate::protocol::complaint;
use crate::protocol::event::{ErrorKind, ModelFailed, ModelReply};
use crate::protocol::message::{Args, Finish, Part, Request, Usage};
use crate::provider::script::RecordedReply;
use crate::provider::tokens;

/// A script that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// It is not the TOML of a script.
    #[error("script `{name}`: {error}")]
    Toml {
        /// The script.
        name: String,
        /// The parser's words, with line and column.
        error: String,
    },
    /// A row says too much, too little, or what another row says.
    #[error("script `{name}`: answer {row} (spark `{spark}`) {problem}")]
    Row {
        /// The script.
        name: String,
        /// The row, from 1.
        row: usize,
        /// Its spark.
        spark: String,
        /// What is wrong.
        problem: String,
    },
}

/// One answer.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub spark: String,
    pub nth: u32,
    pub digest: Option<String>,
    pub expect: Vec<String>,
    pub delay_ms: u64,
    /// Usage stands in the row; it is estimated otherwise.
    pub counted: bool,
    pub says: Says,
}

/// What a row says.
#[derive(Clone, Debug)]
pub(super) enum Says {
    Reply(ModelReply),
    Failure(ModelFailed),
}

impl From<RecordedReply> for Row {
    fn from(recorded: RecordedReply) -> Self {
        Row {
            spark: recorded.spark,
            nth: recorded.nth,
            digest: recorded.digest,
            expect: Vec::new(),
            delay_ms: 0,
            counted: true,
            says: Says::Reply(recorded.reply),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenScript {
    #[serde(default)]
    answer: Vec<WrittenRow>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenRow {
    spark: String,
    nth: Option<u32>,
    expect: Texts,
    reasoning: Option<String>,
    text: Option<String>,
    calls: Vec<WrittenCall>,
    usage: Option<WrittenUsage>,
    finish: Option<String>,
    delay_ms: u64,
    error: Option<WrittenError>,
}

/// One text or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Default for Texts {
    fn default() -> Self {
        Texts::Many(Vec::new())
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall {
    tool: String,
    args: Option<Value>,
    raw: Option<String>,
    id: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenUsage {
    input: u64,
    cached: u64,
    output: u64,
    reasoning: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenError {
    kind: ErrorKind,
    message: String,
    retry_after_ms: Option<u64>,
}

/// Reads and checks all rows.
pub(super) fn read(name: &str, text: &str) -> Result<Vec<Row>, ScriptError> {
    let written: WrittenScript = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        // What is in the line is the script's own, and may be a secret that it is to answer with.
        let message = error.message();
        let words = match message.split_once(", expected ").filter(|_| message.starts_with("invalid ")) {
            Some((_, wanted)) => format!("expected {wanted}"),
            None => complaint::plain(message),
        };
        ScriptError::Toml { name: name.to_owned(), error: format!("line {line}: {words}") }
    })?;
    let mut rows: Vec<Row> = Vec::new();
    for (at, row) in written.answer.into_iter().enumerate() {
        let spark = row.spark.clone();
        let wrong = |problem: String| ScriptError::Row { name: name.to_owned(), row: at + 1, spark, problem };
        let before = rows.iter().rev().find(|other| other.spark == row.spark).map_or(0, |other| other.nth);
        let nth = row.nth.unwrap_or(before + 1);
        if nth == 0 {
            return Err(wrong("has `nth = 0`; the first call is 1".to_owned()));
        }
        if rows.iter().any(|other| other.spark == row.spark && other.nth == nth) {
            return Err(wrong(format!("is the second one with `nth = {nth}`")));
        }
        rows.push(row.into_row(nth).map_err(wrong)?);
    }
    Ok(rows)
}

impl WrittenRow {
    fn into_row(self, nth: u32) -> Result<Row, String> {
        let expect = match self.expect {
            Texts::One(text) => vec![text],
            Texts::Many(texts) => texts,
        };
        let answers = self.text.is_some() || self.reasoning.is_some() || !self.calls.is_empty();
        let counted = self.usage.is_some();
        let says = match (self.error, answers) {
            (Some(_), true) => return Err("has both an `error` and an answer".to_owned()),
            (None, false) => return Err("has neither `text`, `calls`, `reasoning` nor `error`".to_owned()),
            (Some(error), false) => Says::Failure(ModelFailed {
                retry_after_ms: error.retry_after_ms,
                ..ModelFailed::new(error.kind, error.message)
            }),
            (None, true) => {
                let mut message = Vec::new();
                message.extend(self.reasoning.map(|text| Part::Reasoning { text, opaque: None }));
                message.extend(self.text.filter(|text| !text.is_empty()).map(|text| Part::Text { text }));
                let finish = if self.calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
                for (i, call) in self.calls.into_iter().enumerate() {
                    message.push(call.into_part(&self.spark, nth, i)?);
                }
                let finish = self.finish.map_or(finish, finish_word);
                Says::Reply(ModelReply {
                    message,
                    usage: self.usage.map_or_else(Usage::default, WrittenUsage::into_usage),
                    model: String::new(),
                    finish,
                    waited_ms: 0,
                })
            }
        };
        Ok(Row { spark: self.spark, nth, digest: None, expect, delay_ms: self.delay_ms, counted, says })
    }
}

impl WrittenCall {
    fn into_part(self, spark: &str, nth: u32, i: usize) -> Result<Part, String> {
        let args = match (self.args, self.raw) {
            (Some(_), Some(_)) => return Err(format!("calls `{}` with both `args` and `raw`", self.tool)),
            (None, Some(raw)) => Args::Broken(raw),
            (args, None) => Args::Json(args.unwrap_or_else(|| Value::Object(serde_json::Map::new()))),
        };
        let spark = if spark.is_empty() { "script" } else { spark };
        let id = self.id.unwrap_or_else(|| format!("{spark}-{nth}-{}", i + 1));
        Ok(Part::Call { id, name: self.tool, args })
    }
}

impl WrittenUsage {
    fn into_usage(self) -> Usage {
        Usage {
            input: self.input,
            cached: self.cached,
            output: self.output,
            reasoning: self.reasoning,
            estimated: false,
        }
    }
}

fn finish_word(word: String) -> Finish {
    match word.as_str() {
        "stop" => Finish::Stop,
        "tool_calls" => Finish::ToolCalls,
        "length" => Finish::Length,
        "filtered" => Finish::Filtered,
        "refused" => Finish::Refused,
        _ => Finish::Other(word),
    }
}

/// Fills in what depends on the request: the model's name, and the usage where the row names none.
pub(super) fn complete(reply: &mut ModelReply, row: &Row, request: &Request) {
    if reply.model.is_empty() {
        request
            .model
            .split_once('/')
            .map_or(request.model.as_str(), |(_, model)| model)
            .clone_into(&mut reply.model);
    }
    if !row.counted {
        reply.usage = Usage {
            input: tokens::estimate(request),
            output: tokens::measure_parts(&reply.message, &tokens::estimate_text),
            estimated: true,
            ..Usage::default()
        };
    }
}

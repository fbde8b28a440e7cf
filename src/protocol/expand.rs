//! Turns a request's references back into the whole request; the only place that does.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::protocol::EventRef;
use crate::protocol::ballot::digest::digest;
use crate::protocol::event::{
    ArenaEvent, CritiqueIssued, Judgement, ModelCalled, RequestPart, Selected, ToolStatus, ToolUse,
};
use crate::protocol::inside;
use crate::protocol::message::{Message, Part, Pictures, Request, Role, ToolDecl};
use crate::protocol::spec::ToolSpec;

/// Finds an event by its reference.
pub type Lookup<'a> = &'a dyn Fn(EventRef) -> Option<&'a ArenaEvent>;

/// A request that cannot be put together from its references.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// The event is not in the log.
    #[error("{0} is not in the log")]
    Missing(EventRef),
    /// The event holds no words of that kind.
    #[error("{0} ({1}) cannot be part of a request")]
    Wordless(EventRef, String),
    /// The pointer leads nowhere.
    #[error("`{1}` leads nowhere in {0}")]
    Pointer(EventRef, String),
}

/// Expands a recorded model call, following `base` as far as it goes.
pub fn expand(called: &ModelCalled, lookup: Lookup<'_>) -> Result<Request, ExpandError> {
    let parts = flat_parts(called, lookup)?;
    let messages = parts.iter().map(|part| message(part, lookup).map(Arc::new)).collect::<Result<_, _>>()?;
    let tools = called.tools.iter().map(|tool| declaration(tool, lookup).map(Arc::new));
    let (model, params, tools) =
        (called.model.clone(), called.params.clone(), tools.collect::<Result<_, _>>()?);
    Ok(Request { spark: String::new(), model, params, messages, tools, pictures: Pictures::default() })
}

/// The whole list of parts of a recorded call, bases resolved.
pub fn flat_parts(called: &ModelCalled, lookup: Lookup<'_>) -> Result<Vec<RequestPart>, ExpandError> {
    let mut chain = vec![called];
    let mut next = called.parts.base;
    while let Some(base) = next {
        let Some(ArenaEvent::ModelCalled(earlier)) = lookup(base) else {
            return Err(ExpandError::Missing(base));
        };
        chain.push(earlier);
        next = earlier.parts.base;
    }
    let mut parts: Vec<RequestPart> = Vec::new();
    for call in chain.into_iter().rev() {
        parts.truncate(call.parts.keep as usize);
        parts.extend(call.parts.add.iter().cloned());
    }
    Ok(parts)
}

/// SHA-256 of a value's JSON, in hex.
pub fn digest_of<T: Serialize>(value: &T) -> String {
    struct Hashing(Sha256);
    impl std::io::Write for Hashing {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut hashing = Hashing(Sha256::new());
    // Protocol values always serialise: no maps with keys that are not strings, no failing writer.
    let _ = serde_json::to_writer(&mut hashing, value);
    hex(&hashing.0.finalize())
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|b| [DIGITS[usize::from(b >> 4)] as char, DIGITS[usize::from(b & 15)] as char])
        .collect()
}

/// True for what [`hex`] makes of a SHA-256: 64 lower-case digits. Only that becomes the name of a file.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The reference a model sees before a result's text.
pub fn cited(from: EventRef, text: &str) -> String {
    format!("[{from}] {text}")
}

fn event<'a>(from: EventRef, lookup: Lookup<'a>) -> Result<&'a ArenaEvent, ExpandError> {
    lookup(from).ok_or(ExpandError::Missing(from))
}

fn select(from: EventRef, sel: &str, lookup: Lookup<'_>) -> Result<Value, ExpandError> {
    let data = event(from, lookup)?.data();
    data.pointer(sel).cloned().ok_or_else(|| ExpandError::Pointer(from, sel.to_owned()))
}

/// The message that a part stands for.
pub fn message(part: &RequestPart, lookup: Lookup<'_>) -> Result<Message, ExpandError> {
    let parts = match &part.sel {
        Some(sel) if let Some(text) = debate_digest(part.from, sel, lookup)? => vec![Part::Text { text }],
        Some(sel) => vec![Part::Text { text: selected_text(part.from, sel, lookup)? }],
        None => words(part, lookup)?,
    };
    Ok(Message { role: part.role, parts, from: part.from })
}

/// What a debater or the moderator is shown: selected by its place in the order of the round.
fn debate_digest(from: EventRef, sel: &str, lookup: Lookup<'_>) -> Result<Option<String>, ExpandError> {
    let ArenaEvent::RoundOpened(round) = event(from, lookup)? else { return Ok(None) };
    let place = sel.strip_prefix("/order/").and_then(|place| place.parse().ok());
    Ok(place.map(|place| digest(round, place, lookup)))
}

/// The tool that a model is offered. A tool of the opening is found without turning a large spec into JSON.
pub fn declaration(tool: &Selected, lookup: Lookup<'_>) -> Result<ToolDecl, ExpandError> {
    if let ArenaEvent::SessionOpened(opened) = event(tool.from, lookup)?
        && let Some(index) = tool.sel.strip_prefix("/spec/tools/")
        && let Some(spec) = index.parse::<usize>().ok().and_then(|i| opened.spec.tools.get(i))
    {
        return Ok(spec.into());
    }
    let value = select(tool.from, &tool.sel, lookup)?;
    let spec: ToolSpec =
        serde_json::from_value(value).map_err(|_| ExpandError::Pointer(tool.from, tool.sel.clone()))?;
    Ok((&spec).into())
}

/// The text of a persona or an instruction of the opening, without turning a large spec into JSON.
pub(crate) fn text_in_spec<'a>(event: &'a ArenaEvent, sel: &str) -> Option<&'a str> {
    let ArenaEvent::SessionOpened(opened) = event else { return None };
    let index =
        |prefix: &str| -> Option<usize> { sel.strip_prefix(prefix)?.strip_suffix("/text")?.parse().ok() };
    match (index("/spec/personas/"), index("/spec/instructions/")) {
        (Some(i), _) => opened.spec.personas.get(i).map(|persona| persona.text.as_str()),
        (_, Some(i)) => opened.spec.instructions.get(i).map(|one| one.text.as_str()),
        _ => None,
    }
}

fn selected_text(from: EventRef, sel: &str, lookup: Lookup<'_>) -> Result<String, ExpandError> {
    if let Some(text) = text_in_spec(event(from, lookup)?, sel) {
        return Ok(text.to_owned());
    }
    Ok(match select(from, sel, lookup)? {
        Value::String(text) => text,
        other => other.to_string(),
    })
}

fn words(part: &RequestPart, lookup: Lookup<'_>) -> Result<Vec<Part>, ExpandError> {
    use ArenaEvent as E;
    let from = part.from;
    let event = event(from, lookup)?;
    let text = |text: &str| vec![Part::Text { text: text.to_owned() }];
    Ok(match event {
        E::PromptGiven(data) => text(&data.text),
        E::SteeringGiven(data) => text(&data.text),
        E::NoticeGiven(data) => text(&data.text),
        E::AnswerRejected(data) => text(&rejection(&data.errors)),
        E::ModelAnswered(data) if part.role == Role::Assistant => data.body.message.clone(),
        E::ModelAnswered(data) => text(&data.body.text()),
        E::ContextCompacted(data) => text(&summary(data, lookup)?),
        E::ToolResolved(data) => {
            let is_error = data.body.status != ToolStatus::Ok;
            let mut said = result(from, data.body.tool_use, &data.body.text(), is_error, lookup)?;
            said.extend(data.body.images().map(|image| Part::Image(image.clone())));
            said
        }
        E::ToolRefused(data) => result(from, data.tool_use, &data.text, true, lookup)?,
        E::ToolAnswered(data) => {
            let said = inside::words(data, lookup).ok_or(ExpandError::Missing(data.from))?;
            result(from, data.tool_use, &said, false, lookup)?
        }
        E::CallLost(data) => match data.tool_use {
            Some(tool_use) => result(from, tool_use, &data.text, true, lookup)?,
            None => text(&data.text),
        },
        E::CacheHit(data) => text(&data.body.answer),
        // What arrived of an answer that was cut off.
        E::ModelFailed(data) => text(&data.body.said),
        E::CheckRan(data) => text(&cited(from, &check(&data.body))),
        E::DiffTaken(data) => text(&cited(from, &data.body.diff)),
        E::CritiqueIssued(data) => text(&cited(from, &critique(data))),
        E::MentionExpanded(data) => {
            let mut said = text(&cited(from, &format!("{}\n{}", data.body.mention, data.body.text)));
            said.extend(data.body.images().map(|image| Part::Image(image.clone())));
            said
        }
        // A mention that could not be read: whoever was to read it is told why.
        E::EffectFailed(data) => text(&data.body.error),
        other => return Err(ExpandError::Wordless(from, other.kind().to_owned())),
    })
}

fn rejection(errors: &[String]) -> String {
    format!(
        "Your answer does not fit the required JSON Schema:\n- {}\nAnswer again with JSON that fits, and nothing else.",
        errors.join("\n- ")
    )
}

fn check(ran: &crate::protocol::event::CheckRan) -> String {
    let exit = ran.exit.map_or("killed".to_owned(), |code| format!("exit code {code}"));
    format!("$ {}\n{exit}, {} ms\n{}", ran.command, ran.ms, ran.output)
}

/// A review as another spark reads it: the ids are the session's, so they are not in the reviewer's own words.
fn critique(data: &CritiqueIssued) -> String {
    let verdict = match data.verdict {
        Judgement::Approve => "the reviewer approves",
        Judgement::RequestChanges => "the reviewer requests changes",
        Judgement::Unknown(word) => word.text(),
    };
    let mut text = format!("{verdict}; {} open", data.findings.len());
    for finding in &data.findings {
        let (severity, place) = (finding.severity.word(), finding.place());
        text.push_str(&format!("\n{} ({severity}){place}: {}", finding.id, finding.problem));
        if let Some(fix) = &finding.fix {
            text.push_str(&format!("\n   suggested: {fix}"));
        }
    }
    text
}

fn summary(
    data: &crate::protocol::event::ContextCompacted,
    lookup: Lookup<'_>,
) -> Result<String, ExpandError> {
    let (what, said) = match event(data.summary, lookup)? {
        ArenaEvent::ModelAnswered(answer) => ("summary of ", answer.body.text()),
        ArenaEvent::NoticeGiven(notice) => ("", notice.text.clone()),
        _ => return Err(ExpandError::Missing(data.summary)),
    };
    let span = match (data.covers.first(), data.covers.last()) {
        (Some(first), Some(last)) => format!("{first} to {last}"),
        _ => "earlier entries".to_owned(),
    };
    Ok(format!("[{what}{span}, whose text is no longer shown]\n{said}"))
}

fn result(
    from: EventRef,
    tool_use: ToolUse,
    content: &str,
    is_error: bool,
    lookup: Lookup<'_>,
) -> Result<Vec<Part>, ExpandError> {
    let missing = ExpandError::Missing(tool_use.answer);
    let ArenaEvent::ModelAnswered(answer) = event(tool_use.answer, lookup)? else {
        return Err(missing);
    };
    match answer.body.message.get(usize::from(tool_use.part)) {
        Some(Part::Call { id, name, .. }) => Ok(vec![Part::Result {
            id: id.clone(),
            name: name.clone(),
            content: cited(from, content),
            is_error,
        }]),
        _ => Err(missing),
    }
}

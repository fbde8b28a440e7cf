//! What the events around model calls say: answers, failures, retries, money.

use super::{Body, Kind, Scene, Telling, Tone, Weight, asked};
use crate::projection::phrases;
use crate::protocol::CallId;
use crate::protocol::event::{
    AnswerRejected, ArenaEvent, BudgetReserved, BudgetSettled, ContextCompacted, ErrorKind, FallbackTaken,
    LimitReached, ModelCalled, ModelFailed, ModelReply, RetryScheduled,
};
use crate::protocol::message::{Finish, Part};

/// What stands in the place of words that nobody may see yet.
pub(super) const SEALED: &str = "sealed until every ballot is in";

pub(super) fn called(data: &ModelCalled) -> Telling<'_> {
    Telling::new(Kind::Call, &data.model).refs(format!("({}, attempt {})", data.call, data.attempt))
}

/// A model's thinking, then what it says, the tools it asks for, an odd end, and what that took.
pub(super) fn answered<'a>(call: CallId, reply: &'a ModelReply, scene: &Scene<'_>) -> Vec<Telling<'a>> {
    if scene.is_sealed() {
        return vec![Telling::new(Kind::Answer, SEALED).toned(Tone::Plain).weighing(Weight::Aside)];
    }
    let thoughts = reply.message.iter().filter_map(|part| match part {
        Part::Reasoning { text, .. } if !text.trim().is_empty() => Some(Telling::said(Kind::Thought, text)),
        _ => None,
    });
    let mut told: Vec<_> = thoughts.collect();
    let calls: Vec<_> = reply.message.iter().filter_map(|part| Some(asked(part)?.words())).collect();
    let text = reply.text();
    let kind = if calls.is_empty() { Kind::Answer } else { Kind::Says };
    // In a debate the event that it becomes says it.
    let weight = if calls.is_empty() && scene.debate.is_some() { Weight::Aside } else { Weight::News };
    if !text.trim().is_empty() {
        told.push(Telling::new(kind, "").with(Body::Answer(text.into())).weighing(weight));
    } else if calls.is_empty() {
        told.push(Telling::new(kind, "nothing at all").toned(Tone::Warn).weighing(weight));
    }
    if !calls.is_empty() {
        told.push(Telling::new(Kind::Wants, calls.join(", ")));
    }
    told.extend(unusual(&reply.finish).map(|why| Telling::new(Kind::Notice, why)));
    told.push(Telling::new(Kind::Usage, format!("{} by {}", phrases::tokens(&reply.usage), reply.model)));
    // That a conversation was summed up is one thing that happens; the words are for its model.
    if scene.calls.and_then(|calls| calls.get(call)).is_some_and(|open| open.is_summary) {
        told.iter_mut().for_each(|one| one.weight = Weight::Routine);
    }
    told
}

fn unusual(finish: &Finish) -> Option<String> {
    match finish {
        Finish::Stop | Finish::ToolCalls | Finish::Unknown(_) => None,
        Finish::Length => Some("the answer was cut at the output limit".to_owned()),
        Finish::Filtered => Some("the provider filtered the answer".to_owned()),
        Finish::Refused => Some("the model refused".to_owned()),
        Finish::Other(word) => Some(format!("the model stopped for `{word}`")),
    }
}

/// What had come of the answer, then why no more came.
pub(super) fn failed<'a>(data: &'a ModelFailed, scene: &Scene<'_>) -> Vec<Telling<'a>> {
    let said = Some(&data.said).filter(|said| !said.trim().is_empty() && !scene.is_sealed());
    let said = said.map(|said| Telling::new(Kind::CutOff, "").with(Body::Answer(said.into())));
    let why =
        Telling::new(Kind::Failed, phrases::error_kind(data.kind)).with(Body::Said((&data.message).into()));
    // That it was stopped is said where somebody stopped it.
    let why = if data.kind == ErrorKind::Cancelled { why.weighing(Weight::Routine) } else { why };
    said.into_iter().chain([why]).collect()
}

pub(super) fn retried(data: &RetryScheduled) -> Telling<'static> {
    let head = format!("attempt {} in {}", data.attempt, phrases::duration(data.delay_ms));
    Telling::new(Kind::Retry, head)
}

pub(super) fn fell_back(data: &FallbackTaken) -> Telling<'static> {
    Telling::new(Kind::Fallback, format!("{} instead of {}", data.to, data.from))
}

pub(super) fn limited(data: &LimitReached) -> Telling<'static> {
    Telling::new(Kind::Limit, phrases::limit(data.limit, data.used, data.max))
}

pub(super) fn rejected(data: &AnswerRejected) -> Telling<'static> {
    let next = if data.repair { "asked again" } else { "given up" };
    let head = format!("the answer does not fit its schema, {next}");
    Telling::new(Kind::Rejected, head).with(Body::Said(data.errors.join("\n").into()))
}

pub(super) fn reserved(data: &BudgetReserved) -> Telling<'static> {
    let head = format!("{}, {}", phrases::counted(data.tokens, "token"), phrases::money(data.micro_usd));
    Telling::new(Kind::Reserve, head).refs(format!("({})", data.call))
}

pub(super) fn settled(data: &BudgetSettled) -> Telling<'static> {
    let head = format!("{}, {}", phrases::tokens(&data.usage), phrases::money(data.micro_usd));
    Telling::new(Kind::Settle, head).refs(format!("({})", data.call))
}

pub(super) fn compacted(data: &ContextCompacted, scene: &Scene<'_>) -> Telling<'static> {
    let events = phrases::counted(data.covers.len() as u64, "event");
    let (head, said) = match (scene.lookup)(data.summary) {
        Some(ArenaEvent::NoticeGiven(_)) => ("dropped without a summary: no room in the window", None),
        said => ("earlier conversation summarised", said.and_then(|answer| answer.answer_text())),
    };
    let told = Telling::new(Kind::Compact, head);
    told.refs(format!("({events}, {})", data.summary)).over(Body::Answer(said.unwrap_or_default().into()))
}

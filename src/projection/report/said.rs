//! Reads what debaters and moderators said in their typed answers; leaves out what it cannot read, invents nothing.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::protocol::ballot as protocol;
use crate::protocol::message::{Args, Part};
use crate::protocol::text::unfenced;
use crate::protocol::typed::SquadAnswer;
use crate::protocol::{ArenaEvent, EventRef, fit};

use super::Log;

/// One piece of evidence a debater named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Evidence {
    /// What it cites; none for common knowledge.
    pub cites: Option<Citation>,
    /// What it is said to show.
    pub shows: String,
}

/// Something that was cited, and whether it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Citation {
    /// The event it names; none when it names none.
    pub at: Option<EventRef>,
    /// What it is: a citation bears something out only when it is a tool result.
    pub standing: Standing,
    /// The start of what was written.
    pub written: String,
}

/// What a citation leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// A result of a tool of this debate, as it has to be.
    ToolResult,
    /// An event of this log that is no such result.
    NoToolResult,
    /// An event this log does not have.
    NotInLog,
    /// Nothing: it names no event.
    NoReference,
}

impl Citation {
    /// The longest piece of what was written that is kept.
    const LONGEST: usize = 60;

    /// What was written as a reference, held against the log; none when nothing was. `results` are those of the
    /// debate so far.
    fn of(text: &str, log: &Log<'_>, results: &BTreeSet<EventRef>) -> Option<Self> {
        let written = words(text)?;
        let at = protocol::reference(&written);
        let standing = match at {
            Some(at) if results.contains(&at) => Standing::ToolResult,
            Some(at) if log.event(at).is_some() => Standing::NoToolResult,
            Some(_) => Standing::NotInLog,
            None => Standing::NoReference,
        };
        let written = written.chars().take(Self::LONGEST).collect();
        Some(Citation { at, standing, written })
    }
}

/// A ballot in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ballot {
    /// Where the debater stands.
    pub position: Option<String>,
    /// Why.
    pub claims: Vec<String>,
    /// What bears that out.
    pub evidence: Vec<Evidence>,
    /// What would change its mind.
    pub would_change: Option<String>,
    /// Why it changed sides, by proposition from 0.
    pub changes: Vec<(u32, String)>,
}

/// A verdict in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The answer to the question.
    pub answer: Option<String>,
    /// What decides each proposition.
    pub rulings: Vec<Ruling>,
    /// The best case of those who disagree.
    pub minority: Option<String>,
    /// What could still go wrong.
    pub risks: Vec<String>,
}

impl Ballot {
    /// The same with every text passed through `name`.
    pub(super) fn renamed(mut self, name: &dyn Fn(String) -> String) -> Self {
        let all = |texts: Vec<String>| texts.into_iter().map(name).collect();
        self.position = self.position.map(name);
        self.would_change = self.would_change.map(name);
        self.claims = all(self.claims);
        self.evidence.iter_mut().for_each(|one| one.shows = name(std::mem::take(&mut one.shows)));
        self.changes.iter_mut().for_each(|(_, because)| *because = name(std::mem::take(because)));
        self
    }
}

impl Verdict {
    /// The same with every text passed through `name`.
    pub(super) fn renamed(mut self, name: &dyn Fn(String) -> String) -> Self {
        self.answer = self.answer.map(name);
        self.minority = self.minority.map(name);
        self.risks = self.risks.into_iter().map(name).collect();
        self.rulings.iter_mut().for_each(|one| one.because = name(std::mem::take(&mut one.because)));
        self
    }
}

/// What decides one proposition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// The proposition, from 0.
    pub proposition: u32,
    /// The argument.
    pub because: String,
    /// What it cites.
    pub evidence: Vec<Citation>,
}

/// The answer an event holds or names: a `model_answered` itself, or what a ballot or ratings were read from.
pub(super) fn answer_of(log: &Log<'_>, at: EventRef) -> EventRef {
    match log.event(at) {
        Some(ArenaEvent::BallotCast(cast)) => cast.source,
        Some(ArenaEvent::RatingsCast(cast)) => cast.source,
        _ => at,
    }
}

/// The ballot behind an event, whether it was a first ballot or part of a statement.
pub(super) fn ballot(log: &Log<'_>, at: EventRef, results: &BTreeSet<EventRef>) -> Option<Ballot> {
    let lookup = |at| log.event(at);
    let said = protocol::ballot_of(at, &lookup)?;
    let evidence = said.evidence.iter().map(|one| Evidence {
        cites: Citation::of(&one.reference, log, results),
        shows: one.shows.trim().to_owned(),
    });
    Some(Ballot {
        position: words(&said.position),
        claims: said.claims.iter().filter_map(|claim| words(claim)).collect(),
        evidence: evidence.collect(),
        would_change: words(&said.would_change),
        changes: protocol::changes_of(at, &lookup),
    })
}

/// The propositions' texts with the answer each stands in.
pub(super) fn propositions(log: &Log<'_>, sources: &[EventRef]) -> Vec<(String, EventRef)> {
    let stated = |at: &EventRef| {
        let source = answer_of(log, *at);
        let texts = protocol::propositions(&[*at], &|at| log.event(at));
        texts.into_iter().map(move |text| (text.trim().to_owned(), source))
    };
    sources.iter().flat_map(stated).collect()
}

/// The verdict in an answer; none when the event is no answer, as when the sealed majority stands in for it.
pub(super) fn verdict(log: &Log<'_>, source: EventRef, results: &BTreeSet<EventRef>) -> Option<Verdict> {
    let said = protocol::verdict_of(source, &|at| log.event(at))?;
    let ruling = |one: protocol::Ruling| {
        let evidence = one.evidence.iter().filter_map(|text| Citation::of(text, log, results)).collect();
        Some(Ruling { proposition: one.proposition.checked_sub(1)?, because: words(&one.because)?, evidence })
    };
    Some(Verdict {
        answer: words(&said.answer),
        minority: words(&said.minority),
        risks: said.risks.iter().filter_map(|risk| words(risk)).collect(),
        rulings: said.rulings.into_iter().filter_map(ruling).collect(),
    })
}

/// The words of one claim of a squad's answer.
pub(super) fn claim(event: &ArenaEvent, claim: u32) -> Option<String> {
    let ArenaEvent::ModelAnswered(data) = event else { return None };
    let answer = fit::read::<SquadAnswer>(&data.body.text())?;
    words(&answer.claims.get(usize::try_from(claim).ok()?)?.text)
}

/// The `answer` of a typed answer, if there is one.
pub(super) fn answer(event: &ArenaEvent) -> Option<String> {
    words(typed(event)?.get("answer")?.as_str()?)
}

/// The JSON object a model answered: its text, fenced or not, else the arguments of a forced tool.
fn typed(event: &ArenaEvent) -> Option<Value> {
    let ArenaEvent::ModelAnswered(data) = event else { return None };
    object(&data.body.text()).or_else(|| {
        data.body.message.iter().find_map(|part| match part {
            Part::Call { args: Args::Json(value), .. } if value.is_object() => Some(value.clone()),
            _ => None,
        })
    })
}

fn object(text: &str) -> Option<Value> {
    serde_json::from_str::<Value>(unfenced(text)).ok().filter(Value::is_object)
}

/// A text without blanks around it; none when nothing is left.
fn words(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// A text in which each `[e99]` that this log does not have is marked as such.
pub(super) fn marked(log: &Log<'_>, text: String) -> String {
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("[e") {
        out.push_str(before);
        out.push_str("[e");
        rest = after;
        let Some((inner, left)) = after.split_once(']') else { continue };
        let at: Option<EventRef> = format!("e{inner}").parse().ok();
        if at.is_some_and(|at| log.event(at).is_none()) {
            out.push_str(inner);
            out.push_str(": not in this log]");
            rest = left;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_are_read_as_models_write_them() {
        let reference = protocol::reference;
        assert_eq!(reference(" [e42.1] "), Some(EventRef { seq: 42, i: 1 }));
        assert_eq!([reference(""), reference("42"), reference("e1 and e2")], [None, None, None]);
    }

    #[test]
    fn an_invented_reference_in_a_sentence_is_marked_where_it_stands() {
        let log = Log::of(&[]);
        let text = "See [e9], [e9.1] [ex] [e7 and e9 [eä] [e3".to_owned();
        let expected = "See [e9: not in this log], [e9.1: not in this log] [ex] [e7 and e9 [eä] [e3";
        assert_eq!(marked(&log, text), expected);
    }

    #[test]
    fn a_fence_is_looked_through() {
        assert_eq!(object("```json\n{\"a\": 1}\n```"), Some(json!({"a": 1})));
        assert_eq!(object("{\"a\": 1}"), Some(json!({"a": 1})));
        assert_eq!([object("[1]"), object("```"), object("words")], [None, None, None]);
    }
}

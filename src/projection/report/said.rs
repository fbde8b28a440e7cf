//! Reads what debaters and moderators said in their typed answers; leaves out what it cannot read, invents nothing.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::protocol::message::{Args, Part};
use crate::protocol::{ArenaEvent, EventRef};

use super::Log;

/// One piece of evidence a debater named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Evidence {
    /// The event it cites; none for common knowledge.
    pub at: Option<EventRef>,
    /// What it is said to show.
    pub shows: String,
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

/// What decides one proposition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// The proposition, from 0.
    pub proposition: u32,
    /// The argument.
    pub because: String,
    /// The events it cites.
    pub evidence: Vec<EventRef>,
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
pub(super) fn ballot(log: &Log<'_>, at: EventRef) -> Option<Ballot> {
    let whole = typed(log.event(answer_of(log, at))?)?;
    let ballot = whole.get("ballot").filter(|ballot| ballot.is_object()).unwrap_or(&whole);
    let evidence = items(ballot, "evidence").iter().filter_map(|item| {
        let shows = words(item, "shows")?;
        Some(Evidence { at: item.get("reference")?.as_str().and_then(reference), shows })
    });
    Some(Ballot {
        position: words(ballot, "position"),
        claims: texts(ballot, "claims"),
        evidence: evidence.collect(),
        would_change: words(ballot, "would_change"),
        changes: items(&whole, "changes").iter().filter_map(reason).collect(),
    })
}

/// The propositions' texts with the answer each stands in.
pub(super) fn propositions(log: &Log<'_>, sources: &[EventRef]) -> Vec<(String, EventRef)> {
    let stated = |at: &EventRef| -> Vec<(String, EventRef)> {
        let source = answer_of(log, *at);
        let listed = log.event(source).and_then(typed).map(|whole| texts(&whole, "propositions"));
        let listed = listed.filter(|listed| !listed.is_empty());
        let position = || ballot(log, *at).and_then(|ballot| ballot.position).into_iter().collect();
        listed.unwrap_or_else(position).into_iter().map(|text| (text, source)).collect()
    };
    sources.iter().flat_map(stated).collect()
}

/// The verdict in an answer; none when the event is no answer, as when the sealed majority stands in for it.
pub(super) fn verdict(log: &Log<'_>, source: EventRef) -> Option<Verdict> {
    let whole = typed(log.event(source)?)?;
    let ruling = |item: &Value| {
        let (proposition, because) = reason(item)?;
        let evidence = texts(item, "evidence").iter().filter_map(|text| reference(text)).collect();
        Some(Ruling { proposition, because, evidence })
    };
    Some(Verdict {
        answer: words(&whole, "answer"),
        rulings: items(&whole, "rulings").iter().filter_map(ruling).collect(),
        minority: words(&whole, "minority"),
        risks: texts(&whole, "risks"),
    })
}

/// The `answer` of a typed answer, if there is one.
pub(super) fn answer(event: &ArenaEvent) -> Option<String> {
    words(&typed(event)?, "answer")
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
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let body = inner.and_then(|inner| inner.split_once('\n')).map_or(text, |(_, body)| body);
    serde_json::from_str::<Value>(body.trim()).ok().filter(Value::is_object)
}

fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn words(value: &Value, field: &str) -> Option<String> {
    let words = value.get(field)?.as_str()?.trim();
    (!words.is_empty()).then(|| words.to_owned())
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    let texts = items(value, field).iter().filter_map(Value::as_str).map(str::trim);
    texts.filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

/// `{proposition, because}` with the proposition counted from 0.
fn reason(item: &Value) -> Option<(u32, String)> {
    let number = item.get("proposition")?.as_u64()?.checked_sub(1)?;
    Some((u32::try_from(number).ok()?, words(item, "because")?))
}

/// A reference as models write it: `e42`, `[e42.1]`.
fn reference(text: &str) -> Option<EventRef> {
    text.trim().trim_start_matches('[').trim_end_matches(']').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_are_read_as_models_write_them() {
        assert_eq!(reference(" [e42.1] "), Some(EventRef { seq: 42, i: 1 }));
        assert_eq!([reference(""), reference("42"), reference("e1 and e2")], [None, None, None]);
    }

    #[test]
    fn a_reason_needs_a_proposition_from_one_and_words() {
        assert_eq!(reason(&json!({"proposition": 3, "because": "x"})), Some((2, "x".to_owned())));
        for bad in
            [json!({"proposition": 0, "because": "x"}), json!({"proposition": 1, "because": " "}), json!(7)]
        {
            assert_eq!(reason(&bad), None, "{bad}");
        }
    }

    #[test]
    fn a_fence_is_looked_through() {
        assert_eq!(object("```json\n{\"a\": 1}\n```"), Some(json!({"a": 1})));
        assert_eq!(object("{\"a\": 1}"), Some(json!({"a": 1})));
        assert_eq!([object("[1]"), object("```"), object("words")], [None, None, None]);
    }
}

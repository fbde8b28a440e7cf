//! What debaters and the moderator answer, as types; decides nothing and knows no session.

pub mod digest;
pub mod names;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
#[cfg(test)]
use serde_json::Value;

use crate::protocol::EventRef;
use crate::protocol::event::{ArenaEvent, PropositionsStated};
use crate::protocol::expand::Lookup;
pub use crate::protocol::fit::read;

/// The most propositions a debate is held on.
pub const MOST_PROPOSITIONS: usize = 7;

/// Where a debater stands on the question, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ballot {
    /// Your answer to the question, in one to three sentences.
    #[schemars(length(min = 1))]
    pub position: String,
    /// How sure you are, from 0 to 100.
    #[schemars(range(min = 0, max = 100))]
    pub confidence: u32,
    /// The reasons that carry the position, strongest first, one sentence each.
    #[schemars(length(min = 1, max = 6))]
    pub claims: Vec<String>,
    /// What supports the claims.
    #[schemars(length(max = 8))]
    pub evidence: Vec<Evidence>,
    /// What you would have to learn to change your mind.
    #[schemars(length(min = 1))]
    pub would_change: String,
}

/// One piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The reference of a tool result you were shown, such as `e42`; empty for common knowledge.
    pub reference: String,
    /// What it shows.
    #[schemars(length(min = 1))]
    pub shows: String,
}

/// The propositions in dispute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Propositions {
    /// Statements one can be for or against, one sentence each, the weightiest first.
    #[schemars(length(min = 1, max = 7))]
    pub propositions: Vec<String>,
}

/// Ratings of every proposition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ratings {
    /// One rating for each proposition.
    pub ratings: Vec<GivenRating>,
}

/// One rating as a debater gives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GivenRating {
    /// Number of the proposition, from 1.
    #[schemars(range(min = 1))]
    pub proposition: u32,
    /// -2 strongly against, -1 against, 0 undecided, 1 for, 2 strongly for.
    #[schemars(range(min = -2, max = 2))]
    pub rating: i8,
    /// How sure you are, from 0 to 100.
    #[schemars(range(min = 0, max = 100))]
    pub confidence: u32,
}

/// A ballot and ratings after having read the peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Where you stand now.
    pub ballot: Ballot,
    /// One rating for each proposition.
    pub ratings: Vec<GivenRating>,
    /// One for each proposition on which you changed sides; empty when you did not.
    pub changes: Vec<Change>,
}

/// Why a debater changed sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Number of the proposition, from 1.
    #[schemars(range(min = 1))]
    pub proposition: u32,
    /// The argument or evidence that moved you, and how it meets what you had said would change your mind.
    #[schemars(length(min = 1))]
    pub because: String,
}

/// The moderator's verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The answer to the question, for the person who asked it: what to do, and on what grounds.
    #[schemars(length(min = 1))]
    pub answer: String,
    /// One ruling for each proposition.
    pub rulings: Vec<Ruling>,
    /// How sure you are, from 0 to 100.
    #[schemars(range(min = 0, max = 100))]
    pub confidence: u32,
    /// The best case of those who still disagree, stated fairly; empty when no one does.
    pub minority: String,
    /// What could still go wrong, and how one would notice.
    pub risks: Vec<String>,
}

/// What the moderator makes of one proposition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ruling {
    /// Number of the proposition, from 1.
    #[schemars(range(min = 1))]
    pub proposition: u32,
    /// Whether it stands.
    pub stance: Stance,
    /// The argument that decides it.
    #[schemars(length(min = 1))]
    pub because: String,
    /// References of cited tool results that support it, such as `e42`.
    pub evidence: Vec<String>,
}

/// Whether a proposition stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stance {
    /// It stands.
    Upheld,
    /// It does not.
    Rejected,
    /// The debate does not decide it.
    Open,
}

impl Stance {
    /// 1 upheld, -1 rejected, 0 open.
    pub fn sign(self) -> i8 {
        match self {
            Stance::Upheld => 1,
            Stance::Rejected => -1,
            Stance::Open => 0,
        }
    }
}

/// The JSON Schemas of the typed answers. Every word of them is part of a request's digest, so they are files.
pub const SCHEMAS: Schemas = Schemas {
    ballot: include_str!("schemas/ballot.json"),
    propositions: include_str!("schemas/propositions.json"),
    ratings: include_str!("schemas/ratings.json"),
    statement: include_str!("schemas/statement.json"),
    verdict: include_str!("schemas/verdict.json"),
};

/// One schema for each typed answer of a debate.
#[expect(missing_docs, reason = "each is the schema of the type of its name")]
pub struct Schemas {
    pub ballot: &'static str,
    pub propositions: &'static str,
    pub ratings: &'static str,
    pub statement: &'static str,
    pub verdict: &'static str,
}

/// The JSON Schema of a typed answer, references resolved, as providers want it.
#[cfg(test)]
pub(super) fn schema<T: JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    drop_formats(&mut schema);
    schema
}

/// Formats such as `uint32` are no words of JSON Schema, and strict providers refuse them.
#[cfg(test)]
fn drop_formats(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.shift_remove("format");
            map.values_mut().for_each(drop_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_formats),
        _ => {}
    }
}

/// A reference as models write it: `e42`, `[e42.1]`; none when it names no event.
pub fn reference(text: &str) -> Option<EventRef> {
    text.trim().trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// The text of the answer an event holds or names: a `model_answered` itself, or what a `ballot_cast` or
/// `ratings_cast` was read from.
pub fn answer_text(at: EventRef, lookup: Lookup<'_>) -> Option<String> {
    match lookup(at)? {
        ArenaEvent::ModelAnswered(answer) => Some(answer.body.text()),
        ArenaEvent::BallotCast(cast) => answer_text(cast.source, lookup),
        ArenaEvent::RatingsCast(cast) => answer_text(cast.source, lookup),
        _ => None,
    }
}

/// The ballot behind a `ballot_cast`, whether it was a first ballot or part of a statement.
pub fn ballot_of(cast: EventRef, lookup: Lookup<'_>) -> Option<Ballot> {
    let text = answer_text(cast, lookup)?;
    read::<Ballot>(&text).or_else(|| read::<Statement>(&text).map(|statement| statement.ballot))
}

/// Why a debater changed sides, by proposition from 0, as the answer behind a cast says.
pub fn changes_of(cast: EventRef, lookup: Lookup<'_>) -> Vec<(u32, String)> {
    let statement = answer_text(cast, lookup).and_then(|text| read::<Statement>(&text));
    let changes = statement.map(|statement| statement.changes).unwrap_or_default();
    changes.into_iter().map(|change| (change.proposition.saturating_sub(1), change.because)).collect()
}

/// The propositions' texts from where `propositions_stated` says they are.
pub fn propositions(sources: &[EventRef], lookup: Lookup<'_>) -> Vec<String> {
    let list = |at: &EventRef| -> Vec<String> {
        let Some(text) = answer_text(*at, lookup) else { return Vec::new() };
        match (read::<Propositions>(&text), ballot_of(*at, lookup)) {
            (Some(stated), _) => stated.propositions,
            (None, Some(ballot)) => vec![ballot.position],
            (None, None) => Vec::new(),
        }
    };
    sources.iter().flat_map(list).collect()
}

/// The propositions' texts of a debate.
pub fn propositions_of(stated: &PropositionsStated, lookup: Lookup<'_>) -> Vec<String> {
    propositions(&stated.source, lookup)
}

/// The verdict behind a `verdict_reached`; none when the sealed majority stands in for it.
pub fn verdict_of(source: EventRef, lookup: Lookup<'_>) -> Option<Verdict> {
    read(&answer_text(source, lookup)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_what_the_types_say() {
        let frozen = crate::protocol::typed::schema;
        assert_eq!(frozen(SCHEMAS.ballot), schema::<Ballot>());
        assert_eq!(frozen(SCHEMAS.propositions), schema::<Propositions>());
        assert_eq!(frozen(SCHEMAS.ratings), schema::<Ratings>());
        assert_eq!(frozen(SCHEMAS.statement), schema::<Statement>());
        assert_eq!(frozen(SCHEMAS.verdict), schema::<Verdict>());
    }

    #[test]
    fn schemas_are_closed_and_require_everything() {
        for schema in [
            schema::<Ballot>(),
            schema::<Propositions>(),
            schema::<Ratings>(),
            schema::<Statement>(),
            schema::<Verdict>(),
        ] {
            let text = schema.to_string();
            assert!(!text.contains("$ref") && !text.contains("\"format\""), "{text}");
            assert_eq!(schema["additionalProperties"], Value::Bool(false), "{text}");
            let properties = schema["properties"].as_object().unwrap().len();
            assert_eq!(schema["required"].as_array().unwrap().len(), properties, "{text}");
            assert!(jsonschema::validator_for(&schema).is_ok());
        }
    }

    #[test]
    fn a_rating_out_of_range_does_not_fit() {
        let validator = jsonschema::validator_for(&schema::<Ratings>()).unwrap();
        let rating =
            |n: i32| serde_json::json!({"ratings": [{"proposition": 1, "rating": n, "confidence": 5}]});
        assert!(validator.is_valid(&rating(-2)) && validator.is_valid(&rating(2)));
        assert!(!validator.is_valid(&rating(3)) && !validator.is_valid(&rating(-3)));
    }
}

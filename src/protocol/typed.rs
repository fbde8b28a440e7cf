//! Typed answers of a squad's roles, in the form models write them; knows no rule about what follows from one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::event::{Judgement, Severity};

/// A review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Critique {
    /// `approve` when the work can stand as it is; `request_changes` when it must be changed first.
    pub verdict: Judgement,
    /// What is wrong, the worst first. Only what is new, or what is said differently than before.
    pub findings: Vec<Found>,
    /// Ids of earlier findings, such as `F1`, that are settled now.
    #[serde(default)]
    pub closed: Vec<String>,
}

/// One thing a review found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The id of an open finding that is restated; absent for a new one.
    #[serde(default)]
    pub id: Option<String>,
    /// `blocker` and `major` must be fixed, `minor` could be, `note` is a remark.
    pub severity: Severity,
    /// File, relative to the workspace.
    #[serde(default)]
    pub file: Option<String>,
    /// Line, from 1.
    #[serde(default)]
    pub line: Option<u32>,
    /// What is wrong and why it matters.
    pub problem: String,
    /// What would fix it.
    #[serde(default)]
    pub fix: Option<String>,
}

/// A squad's last word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SquadAnswer {
    /// The answer for the person who asked, in Markdown.
    #[schemars(with = "String")]
    pub answer: Value,
    /// What the answer claims, each with the entries that support it.
    pub claims: Vec<Claim>,
    /// What is still open or missing; empty when nothing is.
    pub open: Vec<String>,
}

/// One claim of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What kind of claim it is.
    pub kind: ClaimKind,
    /// The claim in words.
    pub text: String,
    /// For `changed`: the files, relative to the workspace; else empty.
    #[serde(default)]
    pub files: Vec<String>,
    /// References of the entries that support it, such as `e42`.
    pub evidence: Vec<String>,
}

/// Kinds of claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// Tests or checks pass.
    ChecksPass,
    /// Files were changed; not for saying that none were.
    Changed,
    /// Anything else that was seen; the request itself shows nothing.
    Observed,
}

/// The JSON Schema of a review. Every word of it is part of a request's digest, so it is a file.
pub const CRITIQUE: &str = include_str!("schemas/critique.json");

/// The JSON Schema of a squad's last word.
pub const SQUAD_ANSWER: &str = include_str!("schemas/squad_answer.json");

/// A schema that is a file of the program.
pub fn schema(file: &str) -> Value {
    serde_json::from_str(file).unwrap_or_default()
}

/// The JSON Schema of a typed answer, without references and titles, as small as it can be.
#[cfg(test)]
fn schema_of<T: JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
    }
    simplify(&mut schema);
    schema
}

/// Says the same in the words that every provider's structured output understands: a choice of constants is
/// an `enum`; formats and defaults go.
#[cfg(test)]
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let constants: Option<Vec<Value>> = map
                .get("oneOf")
                .and_then(Value::as_array)
                .and_then(|choices| choices.iter().map(|choice| choice.get("const").cloned()).collect());
            if let Some(constants) = constants {
                map.remove("oneOf");
                map.insert("type".to_owned(), Value::from("string"));
                map.insert("enum".to_owned(), Value::Array(constants));
            }
            map.retain(|key, _| !matches!(key.as_str(), "format" | "default" | "minimum"));
            map.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_what_the_types_say() {
        assert_eq!(schema(CRITIQUE), schema_of::<Critique>());
        assert_eq!(schema(SQUAD_ANSWER), schema_of::<SquadAnswer>());
    }

    #[test]
    fn a_typed_answer_fits_its_own_schema() {
        let schema = schema_of::<Critique>();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let whole = serde_json::json!({"verdict": "request_changes", "closed": ["F1"], "findings": [
            {"id": null, "severity": "major", "file": "a.sh", "line": 3, "problem": "it fails", "fix": null}]});
        assert!(validator.is_valid(&whole), "{schema}");
        assert!(serde_json::from_value::<Critique>(whole).is_ok());
        assert!(!validator.is_valid(&serde_json::json!({"verdict": "maybe", "findings": []})));
        for word in ["$ref", "oneOf", "default", "format"] {
            assert!(!schema.to_string().contains(&format!("\"{word}\"")), "{schema}");
        }
        let answer = serde_json::json!({"answer": "done", "open": [], "claims": [
            {"kind": "checks_pass", "text": "the suite passes", "evidence": ["e4"]}]});
        assert!(jsonschema::validator_for(&schema_of::<SquadAnswer>()).unwrap().is_valid(&answer));
    }
}

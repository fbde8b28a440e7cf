//! Whether JSON fits what was asked for, said in plain words to models and people alike; decides nothing.

use jsonschema::error::{TypeKind, ValidationError, ValidationErrorKind};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::text::unfenced;

/// How misfits are told.
#[derive(Clone, Copy, Debug)]
pub struct Misfits<'a> {
    /// The schema it is held against.
    pub schema: &'a Value,
    /// What the whole is called: `the arguments`, `the answer`.
    pub whole: &'static str,
    /// What one of its parts is called: `field `, or nothing.
    pub part: &'static str,
    /// True when what stands there instead may be repeated: a sealed ballot must not be, a tool's argument may.
    pub quotes: bool,
}

impl Misfits<'_> {
    /// One misfit, with its place.
    pub fn words(&self, error: &ValidationError<'_>) -> String {
        use ValidationErrorKind as K;
        let place = self.place(&error.instance_path().to_string());
        let within = match error.instance_path().to_string() {
            path if path.is_empty() => String::new(),
            path => format!(" in `{}`", path.trim_start_matches('/')),
        };
        match error.kind() {
            K::Required { property } => {
                format!("missing field `{}`{within}", property.as_str().unwrap_or_default())
            }
            K::AdditionalProperties { unexpected } => {
                let known = self.known_fields(error);
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let one = |name: &String| format!("unknown field `{name}`{}", self.field_hint(name, &known));
                format!("{}{within}", unexpected.iter().map(one).collect::<Vec<_>>().join("; "))
            }
            K::Type { kind } => {
                format!("{place} must be {}, not {}", wanted(kind), self.found(error.instance()))
            }
            K::Minimum { limit } => format!("{place} must be at least {limit}{}", self.but(error)),
            K::Maximum { limit } => format!("{place} must be at most {limit}{}", self.but(error)),
            K::ExclusiveMinimum { limit } => format!("{place} must be more than {limit}{}", self.but(error)),
            K::ExclusiveMaximum { limit } => format!("{place} must be less than {limit}{}", self.but(error)),
            K::MinLength { limit: 1 } => format!("{place} must not be empty"),
            K::MinLength { limit } => format!("{place} must have at least {limit} characters"),
            K::MaxLength { limit } => format!("{place} must have at most {limit} characters"),
            K::MinItems { limit: 1 } => format!("{place} must not be an empty list"),
            K::MinItems { limit } => format!("{place} must have at least {limit} items"),
            K::MaxItems { limit } => format!("{place} must have at most {limit} items"),
            K::Enum { options } => {
                let options = options.as_array().into_iter().flatten().map(Value::to_string);
                format!("{place} must be one of {}", options.collect::<Vec<_>>().join(", "))
            }
            K::Constant { expected_value } => format!("{place} must be {expected_value}"),
            K::Pattern { pattern } => format!("{place} must match the pattern `{}`", cut(pattern)),
            K::Format { format } => format!("{place} must have the format `{format}`"),
            K::MultipleOf { multiple_of } => format!("{place} must be a multiple of {multiple_of}"),
            K::UniqueItems => format!("{place} must not hold the same item twice"),
            K::MinProperties { limit } => format!("{place} must have at least {limit} fields"),
            K::MaxProperties { limit } => format!("{place} must have at most {limit} fields"),
            K::AnyOf { .. } | K::OneOfNotValid { .. } => {
                format!("{place} has none of the shapes it may have")
            }
            K::OneOfMultipleValid { .. } => format!("{place} has more than one of the shapes it may have"),
            K::Contains => format!("{place} lacks an item that it must hold"),
            K::FalseSchema | K::Not { .. } => format!("{place} is not allowed"),
            K::UnevaluatedProperties { unexpected } => {
                let unexpected: Vec<String> = unexpected.iter().map(|name| format!("`{name}`")).collect();
                format!("unknown field {}{within}", unexpected.join(", "))
            }
            other => format!("{place} does not fit `{}` of its schema", other.keyword()),
        }
    }

    fn place(&self, path: &str) -> String {
        match path {
            "" => self.whole.to_owned(),
            path => format!("{}`{}`", self.part, path.trim_start_matches('/')),
        }
    }

    /// What stands there instead.
    fn found(&self, value: &Value) -> String {
        match value {
            Value::Null => "null".to_owned(),
            Value::Bool(value) if self.quotes => format!("the boolean {value}"),
            Value::Number(number) if self.quotes => format!("the number {number}"),
            Value::String(text) if self.quotes && text.len() <= 40 => format!("the text {text:?}"),
            Value::Bool(_) => "true or false".to_owned(),
            Value::Number(_) => "a number".to_owned(),
            Value::String(_) => "text".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
        }
    }

    fn but(&self, error: &ValidationError<'_>) -> String {
        if self.quotes { format!(", not {}", error.instance()) } else { String::new() }
    }

    /// The likely field, else all there are. Of an answer all are listed: what is close is no matter for a decision.
    fn field_hint(&self, name: &str, known: &[&str]) -> String {
        match did_you_mean(name, known) {
            hint if self.quotes && !hint.is_empty() => hint,
            _ => {
                let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                format!(" (known: {})", quoted.join(", "))
            }
        }
    }

    /// The fields that the object in question may have.
    fn known_fields(&self, error: &ValidationError<'_>) -> Vec<String> {
        let keyword = error.schema_path().to_string();
        let object = keyword.rsplit_once('/').map_or("", |(object, _)| object);
        let fields = self.schema.pointer(object).and_then(|object| object.get("properties"));
        fields.and_then(Value::as_object).map_or_else(Vec::new, |fields| fields.keys().cloned().collect())
    }
}

fn cut(words: &str) -> String {
    words.chars().take(500).collect()
}

/// A type as people call it.
fn wanted(kind: &TypeKind) -> String {
    let plain = |name: String| match name.as_str() {
        "integer" => "a whole number".to_owned(),
        "number" => "a number".to_owned(),
        "string" => "text".to_owned(),
        "array" => "a list".to_owned(),
        "object" => "an object".to_owned(),
        "boolean" => "true or false".to_owned(),
        _ => name,
    };
    match kind {
        TypeKind::Single(one) => plain(one.to_string()),
        TypeKind::Multiple(set) => {
            let names = set.iter().map(|one| one.to_string()).filter(|name| name != "null");
            names.map(plain).collect::<Vec<_>>().join(" or ")
        }
    }
}

/// `, did you mean …?` when one of the known names is close enough to be meant.
pub fn did_you_mean(name: &str, known: &[&str]) -> String {
    let distance = |known: &&str| strsim::damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase());
    let near = |known: &&&str| distance(known) <= 1.max(name.chars().count().max(known.chars().count()) / 3);
    match known.iter().filter(near).min_by_key(|known| (distance(known), known.len().abs_diff(name.len()))) {
        Some(best) => format!(", did you mean `{best}`?"),
        None => String::new(),
    }
}

/// What in an answer does not fit a schema, each with its place; empty when it fits.
pub fn misfits(schema: &Value, text: &str) -> Vec<String> {
    let parsed: Value = match serde_json::from_str(unfenced(text)) {
        Ok(parsed) => parsed,
        Err(error) => return vec![no_json(text, &error)],
    };
    let validator = match jsonschema::validator_for(schema) {
        Ok(validator) => validator,
        Err(_) => return vec!["the schema itself cannot be used".to_owned()],
    };
    let told = Misfits { schema, whole: "the answer", part: "", quotes: false };
    validator.iter_errors(&parsed).take(20).map(|error| told.words(&error)).collect()
}

/// Why something is no JSON Schema that answers can be held against, in agon's own words: they are part of a decision.
pub fn is_schema(schema: &Value) -> Result<(), String> {
    if !schema.is_object() {
        return Err("it must be a JSON object".to_owned());
    }
    let misfits = Misfits { schema: &Value::Null, whole: "it", part: "", quotes: true };
    jsonschema::validator_for(schema).map(drop).map_err(|error| misfits.words(&error))
}

/// True for JSON of any kind, in a code fence or without.
pub fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(unfenced(text)).is_ok()
}

fn no_json(text: &str, error: &serde_json::Error) -> String {
    let at = format!("line {}, column {}", error.line(), error.column());
    match text.trim() {
        "" => "the answer is empty".to_owned(),
        text if !unfenced(text).trim_start().starts_with(['{', '[']) => {
            "the answer is not JSON: it begins with words".to_owned()
        }
        _ if error.is_eof() => format!("the answer is not JSON: it breaks off at {at}"),
        _ => format!("the answer is not JSON from {at} on"),
    }
}

/// Reads a typed answer out of a model's text, fenced or not. `80.0` is read as the whole number that it is to a
/// schema.
pub fn read<T: DeserializeOwned>(text: &str) -> Option<T> {
    let text = unfenced(text);
    serde_json::from_str(text).ok().or_else(|| {
        let mut value: Value = serde_json::from_str(text).ok()?;
        whole_numbers(&mut value);
        serde_json::from_value(value).ok()
    })
}

/// Why an answer that fits its schema could still not be read: only its numbers are left.
pub const UNREAD: &str = "a number in it is too large";

fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let text = number.to_string();
            let whole = text.split_once('.').filter(|(_, rest)| rest.bytes().all(|byte| byte == b'0'));
            if let Some(whole) = whole.and_then(|(whole, _)| whole.parse::<i64>().ok()) {
                *number = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ballot::{Ballot, Ratings, schema};
    use serde_json::json;

    #[test]
    fn a_fenced_answer_is_read_and_a_misfit_is_placed() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        assert!(misfits(&schema, "```json\n{\"n\": 3}\n```").is_empty());
        assert_eq!(misfits(&schema, "{\"n\": \"x\"}"), ["`n` must be a whole number, not text"]);
        assert_eq!(misfits(&schema, "no"), ["the answer is not JSON: it begins with words"]);
        assert_eq!(
            misfits(&schema, "{\"n\": 3"),
            ["the answer is not JSON: it breaks off at line 1, column 7"]
        );
        assert_eq!(misfits(&schema, "{\"n\": x}"), ["the answer is not JSON from line 1, column 7 on"]);
        assert_eq!(misfits(&schema, " "), ["the answer is empty"]);
    }

    #[test]
    fn a_malformed_ballot_is_told_in_plain_words_and_nothing_of_it_is_repeated() {
        let ballot = json!({"position": "", "confidence": "very sure", "claims": [], "evidence": [{"shows": "x"}],
                            "would_change": 3, "mood": "grim"});
        let told = misfits(&schema::<Ballot>(), &ballot.to_string());
        for words in [
            "`position` must not be empty",
            "`confidence` must be a whole number, not text",
            "`claims` must not be an empty list",
            "missing field `reference` in `evidence/0`",
            "`would_change` must be text, not a number",
            "unknown field `mood` (known: `position`, `confidence`, `claims`, `evidence`, `would_change`)",
        ] {
            assert!(told.iter().any(|one| one == words), "{words}: {told:#?}");
        }
        let told = told.join(" ");
        assert!(!told.contains("very sure") && !told.contains("grim") && !told.contains("u32"), "{told}");
        let rating = json!({"ratings": [{"proposition": 0, "rating": 3, "confidence": 180}]});
        let told = misfits(&schema::<Ratings>(), &rating.to_string());
        for words in ["`ratings/0/rating` must be at most 2", "`ratings/0/confidence` must be at most 100"] {
            assert!(told.iter().any(|one| one == words), "{words}: {told:#?}");
        }
    }

    #[test]
    fn a_whole_number_written_with_a_point_is_read() {
        let text = r#"{"ratings": [{"proposition": 1.0, "rating": -2.00, "confidence": 80.0}]}"#;
        assert!(misfits(&schema::<Ratings>(), text).is_empty());
        let read = read::<Ratings>(text).unwrap();
        assert_eq!((read.ratings[0].rating, read.ratings[0].confidence), (-2, 80));
        assert_eq!(super::read::<Ratings>(&text.replace("80.0", "80.5")), None);
    }
}

//! Holds arguments against a tool's JSON Schema, and says in a model's terms what does not fit.

use jsonschema::Validator;
use jsonschema::error::{TypeKind, ValidationError, ValidationErrorKind};
use serde_json::Value;

/// Most complaints made at once.
const MOST: usize = 5;

/// A compiled schema, with the names it knows.
pub struct ArgumentCheck {
    validator: Validator,
    schema: Value,
}

impl ArgumentCheck {
    /// Compiles a schema, which must describe an object.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err("its `type` is not `object`".to_owned());
        }
        let validator = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
        Ok(ArgumentCheck { validator, schema: schema.clone() })
    }

    /// Accepts fitting arguments; else says which field is wrong and how.
    pub fn accept(&self, args: &Value) -> Result<(), String> {
        let complaints: Vec<String> =
            self.validator.iter_errors(args).take(MOST).map(|error| self.complaint(&error)).collect();
        match complaints.is_empty() {
            true => Ok(()),
            false => Err(format!("the arguments do not fit: {}", complaints.join("; "))),
        }
    }

    fn complaint(&self, error: &ValidationError<'_>) -> String {
        let place = error.instance_path().to_string();
        match error.kind() {
            ValidationErrorKind::Required { property } => {
                format!("missing field `{}`{}", property.as_str().unwrap_or_default(), within(&place))
            }
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let known = self.known_fields(error);
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let one = |name: &String| format!("unknown field `{name}`{}", field_hint(name, &known));
                let all: Vec<String> = unexpected.iter().map(one).collect();
                format!("{}{}", all.join("; "), within(&place))
            }
            ValidationErrorKind::Type { kind } => {
                format!("{} must be {}, not {}", field(&place), wanted(kind), described(error.instance()))
            }
            _ => format!("{}: {error}", field(&place)),
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

/// `, did you mean …?` when one of the known names is close enough to be meant.
pub fn did_you_mean(name: &str, known: &[&str]) -> String {
    let distance = |known: &&str| strsim::damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase());
    let near = |known: &&&str| distance(known) <= 1.max(name.chars().count().max(known.chars().count()) / 3);
    match known.iter().filter(near).min_by_key(|known| distance(known)) {
        Some(best) => format!(", did you mean `{best}`?"),
        None => String::new(),
    }
}

/// The likely field, else all there are.
fn field_hint(name: &str, known: &[&str]) -> String {
    match did_you_mean(name, known) {
        hint if hint.is_empty() => {
            let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            format!(" (known: {})", quoted.join(", "))
        }
        hint => hint,
    }
}

fn within(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(" in `{}`", place.trim_start_matches('/')) }
}

fn field(place: &str) -> String {
    if place.is_empty() {
        "the arguments".to_owned()
    } else {
        format!("field `{}`", place.trim_start_matches('/'))
    }
}

fn wanted(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => format!("{one}"),
        TypeKind::Multiple(set) => {
            let names: Vec<String> =
                set.iter().map(|one| one.to_string()).filter(|name| name != "null").collect();
            names.join(" or ")
        }
    }
}

fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) if text.len() <= 40 => format!("the string {text:?}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

//! Brings a JSON Schema into the part of JSON Schema that the Messages API takes.

use serde_json::{Map, Value};

/// Keywords that say something of a value's size or shape which the API does not take. The session checks the answer
/// against the whole schema anyway.
const LEFT_OUT: [&str; 16] = [
    "$schema",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "maxItems",
    "uniqueItems",
    "contains",
    "minProperties",
    "maxProperties",
    "default",
    "examples",
];

/// Formats of strings that it takes.
const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "uuid"];

/// The schema as the API takes it: looser where it must be; none where it allows any JSON at some place, or objects
/// with any names, which the API has no way to say.
pub(super) fn within(schema: &Value) -> Option<Value> {
    let Value::Object(fields) = schema else { return None };
    let says_nothing = !["type", "anyOf", "oneOf", "allOf", "enum", "const", "$ref"]
        .iter()
        .any(|key| fields.contains_key(*key));
    if says_nothing {
        return None;
    }
    let mut taken = Map::new();
    for (key, value) in fields {
        match (key.as_str(), value) {
            (key, _) if LEFT_OUT.contains(&key) => {}
            ("format", Value::String(format)) if FORMATS.contains(&format.as_str()) => {
                taken.insert(key.clone(), value.clone());
            }
            ("format" | "additionalProperties", _) => {}
            ("minItems", count) if count.as_u64().is_some_and(|count| count > 1) => {
                taken.insert(key.clone(), 1.into());
            }
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                let named: Option<Map<String, Value>> =
                    named.iter().map(|(name, inner)| Some((name.clone(), within(inner)?))).collect();
                taken.insert(key.clone(), named?.into());
            }
            ("items", inner) => {
                taken.insert(key.clone(), within(inner)?);
            }
            ("oneOf" | "anyOf" | "allOf", Value::Array(list)) => {
                let name = if key == "allOf" { "allOf" } else { "anyOf" };
                taken.insert(name.into(), list.iter().map(within).collect::<Option<Vec<_>>>()?.into());
            }
            _ => {
                taken.insert(key.clone(), value.clone());
            }
        }
    }
    if may_be(fields, "object") {
        if !fields.contains_key("properties") || !is_closed(fields) {
            return None;
        }
        taken.insert("additionalProperties".into(), false.into());
    }
    (!may_be(fields, "array") || fields.contains_key("items")).then_some(Value::Object(taken))
}

fn may_be(fields: &Map<String, Value>, kind: &str) -> bool {
    match fields.get("type") {
        Some(Value::String(only)) => only == kind,
        Some(Value::Array(list)) => list.iter().any(|one| one == kind),
        _ => false,
    }
}

/// Properties beyond the named ones are not asked for.
fn is_closed(fields: &Map<String, Value>) -> bool {
    !matches!(fields.get("additionalProperties"), Some(Value::Object(_)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_are_left_out_and_objects_are_closed() {
        let schema = json!({"$schema": "x", "type": "object", "required": ["n"], "properties": {
            "n": {"type": "integer", "format": "uint32", "minimum": 0, "maximum": 9},
            "maximum": {"type": ["string", "null"], "minLength": 1, "format": "date"},
            "list": {"type": "array", "minItems": 3, "maxItems": 5, "items": {"oneOf": [{"const": "a"}, {"$ref": "#/$defs/e"}]}}},
            "$defs": {"e": {"enum": ["b"], "description": "one"}}});
        let expected = json!({"type": "object", "required": ["n"], "properties": {
            "n": {"type": "integer"},
            "maximum": {"type": ["string", "null"], "format": "date"},
            "list": {"type": "array", "minItems": 1, "items": {"anyOf": [{"const": "a"}, {"$ref": "#/$defs/e"}]}}},
            "$defs": {"e": {"enum": ["b"], "description": "one"}}, "additionalProperties": false});
        assert_eq!(within(&schema), Some(expected));
    }

    #[test]
    fn what_allows_anything_cannot_be_said() {
        for open in [
            json!(true),
            json!({}),
            json!({"type": "object"}),
            json!({"type": "array"}),
            json!({"type": "object", "properties": {"any": {}}}),
            json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
        ] {
            assert_eq!(within(&open), None, "{open}");
        }
    }
}

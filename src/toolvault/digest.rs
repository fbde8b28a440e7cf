//! What an approval binds to; knows nothing of previews, which are for eyes only.

use serde::Serialize;
use serde_json::Value;

use crate::ports::Preparation;
use crate::protocol::effect::ToolCall;
use crate::protocol::expand::digest_of;
use crate::protocol::need::Need;
use crate::protocol::spec::SandboxSpec;

/// The shape of what is digested. Field order is part of it: changing anything here changes every digest.
#[derive(Serialize)]
struct Bound<'a> {
    shape: &'static str,
    tool: &'a str,
    source: &'a str,
    schema: &'a str,
    args: Value,
    needs: &'a [Need],
    cwd: &'a str,
    sandbox: &'a str,
    image: &'a Option<String>,
    /// Where it runs in a place of its own: what is asked about where nothing can be changed is no answer elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: &'a Option<String>,
}

/// SHA-256 in hex over the canonical JSON of tool, its source and schema, arguments as recorded, needs with bases, cwd and
/// sandbox.
pub fn of(
    call: &ToolCall,
    (source, schema): (&str, &str),
    preparation: &Preparation,
    sandbox: &SandboxSpec,
) -> String {
    digest_of(&Bound {
        shape: "agon-call-2",
        tool: &call.tool,
        source,
        schema,
        args: canonical(&call.args),
        needs: &preparation.needs,
        cwd: &preparation.cwd,
        sandbox: &sandbox.kind,
        image: &sandbox.image,
        place: &call.place,
    })
}

/// SHA-256 in hex of a schema, whatever the order of its keys.
pub fn of_schema(schema: &Value) -> String {
    digest_of(&canonical(schema))
}

/// The same value with the keys of every object sorted.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        Value::Object(fields) => {
            let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
            sorted.sort_by_key(|(key, _)| *key);
            Value::Object(sorted.into_iter().map(|(key, value)| (key.clone(), canonical(value))).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn key_order_does_not_matter_and_array_order_does() {
        let a = canonical(&json!({"b": {"d": 1, "c": 2}, "a": [1, 2]}));
        let b = canonical(&json!({"a": [1, 2], "b": {"c": 2, "d": 1}}));
        assert_eq!(a.to_string(), b.to_string());
        assert_ne!(a.to_string(), canonical(&json!({"b": {"d": 1, "c": 2}, "a": [2, 1]})).to_string());
    }
}

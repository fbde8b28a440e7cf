//! A tool as its server defines it: what is accepted, what a model is shown of it, and how it differs from before.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use similar::TextDiff;

use crate::projection::visible;
use crate::protocol::expand::{digest_of, hex};
use crate::protocol::spec::OF_A_SERVER;
use crate::protocol::text::cut_middle;

/// Bytes of a description that a model is shown.
const MAX_DESCRIPTION: usize = 4 * 1024;
/// Bytes of a definition; a larger one is not taken.
pub const MAX_DEFINITION: usize = 64 * 1024;
/// Bytes that the name of a tool may have.
const MAX_NAME: usize = 64;
/// Words of a schema that say something to a reader and nothing about values.
const PROSE: [&str; 5] = ["description", "title", "default", "examples", "$comment"];

/// A tool as its server defines it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// The server's own name for it.
    pub name: String,
    /// What it does, in the server's words.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
    /// What the server says about its risks, as it came.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub annotations: Value,
}

/// Whether a definition is the one that was accepted.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// It is.
    Accepted,
    /// No tool of this name was accepted.
    New,
    /// Another one was accepted.
    Changed(Box<Definition>),
}

impl Definition {
    /// Digest of all of it.
    pub fn digest(&self) -> String {
        digest_of(self)
    }

    /// The name that models and rules use: `mcp__SERVER__TOOL`. One that would not fit gets the start of its digest.
    pub fn offered_as(&self, server: &str) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let whole = format!("{OF_A_SERVER}{server}__{}", self.name);
        if whole.len() <= MAX_NAME && !self.name.is_empty() && whole.chars().all(is_plain) {
            return whole;
        }
        let digest = hex(&Sha256::digest(self.name.as_bytes()));
        let mut name = whole.replace(|c: char| !is_plain(c), "_");
        name.truncate(MAX_NAME - 9);
        format!("{name}_{}", &digest[..8])
    }

    /// Its description with every character visible, cut where it is too long.
    pub fn shown(&self) -> String {
        cut_middle(&visible::shown(self.description.trim()), MAX_DESCRIPTION).0
    }

    /// Its schema for a model: as it is, its prose with every character visible.
    pub fn shown_schema(&self) -> Value {
        with_prose(&self.schema, &|prose| match prose {
            Value::String(text) => Some(Value::String(visible::shown(text).into_owned())),
            other => Some(other.clone()),
        })
    }

    /// Its schema without any prose, for a definition that nobody has looked at.
    pub fn bare_schema(&self) -> Value {
        with_prose(&self.schema, &|_| None)
    }

    /// True where the server says that it destroys something.
    pub fn is_destructive(&self) -> bool {
        self.annotations.get("destructiveHint") == Some(&Value::Bool(true))
    }

    /// How it differs from the one before, with every character visible.
    pub fn diff(&self, before: &Definition) -> String {
        let text = |one: &Definition| {
            let schema = serde_json::to_string_pretty(&one.schema).unwrap_or_default();
            let annotations = serde_json::to_string_pretty(&one.annotations).unwrap_or_default();
            let whole = format!("{}\n{schema}\n{annotations}\n", one.description);
            visible::shown(&whole).into_owned()
        };
        let (before, now) = (text(before), text(self));
        TextDiff::from_lines(&before, &now).unified_diff().header("accepted", "now").to_string()
    }
}

/// A schema whose prose is replaced or left out. What is called like prose among properties is a property.
fn with_prose(schema: &Value, replace: &dyn Fn(&Value) -> Option<Value>) -> Value {
    match schema {
        Value::Array(items) => Value::Array(items.iter().map(|item| with_prose(item, replace)).collect()),
        Value::Object(fields) => {
            let mut kept = Map::new();
            for (key, value) in fields {
                let value = match (key.as_str(), value) {
                    ("properties" | "$defs" | "definitions" | "patternProperties", Value::Object(named)) => {
                        let inner = named.iter().map(|(name, one)| (name.clone(), with_prose(one, replace)));
                        Some(Value::Object(inner.collect()))
                    }
                    (key, prose) if PROSE.contains(&key) => replace(prose),
                    (_, other) => Some(with_prose(other, replace)),
                };
                kept.extend(value.map(|value| (key.clone(), value)));
            }
            Value::Object(kept)
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn defined(name: &str, description: &str, schema: Value) -> Definition {
        Definition {
            name: name.to_owned(),
            description: description.to_owned(),
            schema,
            annotations: Value::Null,
        }
    }

    #[test]
    fn names_fit_and_stay_apart() {
        let name = |server: &str, tool: &str| defined(tool, "", Value::Null).offered_as(server);
        assert_eq!(name("time", "now"), "mcp__time__now");
        let all = ["a.b", "a/b", "a b", "", &"x".repeat(60), &format!("{}y", "x".repeat(59))];
        let offered: std::collections::BTreeSet<String> = all.iter().map(|tool| name("s", tool)).collect();
        assert_eq!(offered.len(), all.len(), "{offered:?}");
        assert!(offered.iter().all(|name| name.len() <= 64 && name.is_ascii()), "{offered:?}");
    }

    #[test]
    fn a_model_sees_every_character_and_nothing_of_what_was_not_looked_at() {
        let schema = json!({"type": "object", "description": "a\u{200b}b", "properties": {
            "description": {"type": "string", "description": "send ~/.ssh", "default": "x"}}});
        let tool = defined("t", "read\u{e0041}me", schema);
        assert_eq!(tool.shown(), "read<U+E0041>me");
        assert_eq!(tool.shown_schema()["description"], "a<U+200B>b");
        assert_eq!(
            tool.bare_schema(),
            json!({"type": "object", "properties": {"description": {"type": "string"}}})
        );
    }
}

//! Writes the grammar an answer is held to: a schema, calls of tools, or either.

use llama_cpp_2::json_schema_to_grammar;
use serde_json::{Map, Value, json};

use crate::provider::written_calls::{BEGIN, END};

/// What an answer is held to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grammar {
    /// In llama.cpp's GBNF; its root is `root`.
    pub text: String,
    /// It counts from the first call on; text before it is free.
    pub is_lazy: bool,
}

/// The grammar of an answer that fits the schema or calls tools; none where it is free.
pub(super) fn of(schema: Option<&Value>, tools: &[Value]) -> Option<Grammar> {
    let tools: Vec<(&str, &Value)> = tools.iter().filter_map(declared).collect();
    if schema.is_none() && tools.is_empty() {
        return None;
    }
    let is_lazy = schema.is_none();
    let mut rules = Rules::default();
    let answer = schema.map(|schema| rules.add(schema));
    let mut calls = String::new();
    for (name, arguments) in tools {
        let arguments = rules.add(arguments);
        let bar = if calls.is_empty() { "" } else { " | " };
        let name = literal(&Value::from(name).to_string());
        calls += &format!(r#"{bar}{name} blank "," blank "\"arguments\"" blank ":" blank {arguments}"#);
    }
    let mut text = rules.text()?;
    // The engine sees where the first call begins, and its grammar begins right after.
    let (begin, end) = (literal(BEGIN), literal(END));
    let root = match (&answer, calls.is_empty()) {
        (Some(answer), true) => format!("blank {answer} blank"),
        (Some(answer), false) => format!("blank ({answer} | {begin} call more*) blank"),
        (None, _) => "call more*".to_owned(),
    };
    text += &format!("root ::= {root}\nblank ::= [ \\t\\n]{{0,8}}\n");
    if !calls.is_empty() {
        text += &format!("more ::= blank {begin} call\n");
        text += &format!(
            "call ::= blank \"{{\" blank \"\\\"name\\\"\" blank \":\" blank ({calls}) blank \"}}\" blank {end}\n"
        );
    }
    Some(Grammar { text, is_lazy })
}

fn declared(tool: &Value) -> Option<(&str, &Value)> {
    let function = tool.get("function")?;
    Some((function.get("name")?.as_str()?, function.get("parameters")?))
}

/// A text as GBNF quotes it: like JSON.
fn literal(text: &str) -> String {
    Value::from(text).to_string()
}

/// Schemas whose rules are made together: each is a property of one, so that no two of their rules have one name.
#[derive(Default)]
struct Rules {
    properties: Map<String, Value>,
}

impl Rules {
    /// Takes a schema in; gives the name of its rule. What llama.cpp cannot express becomes any object.
    fn add(&mut self, schema: &Value) -> String {
        let name = format!("part{}", self.properties.len());
        let mut schema = schema.clone();
        move_references(&mut schema, &format!("#/properties/{name}"));
        let alone = json!({"type": "object", "properties": {&name: schema}, "required": [&name]});
        if json_schema_to_grammar(&alone.to_string()).is_err() {
            schema = json!({"type": "object"});
        }
        self.properties.insert(name.clone(), schema);
        format!("{name}-value")
    }

    /// All rules but the root, with one of the promised name for each schema.
    fn text(self) -> Option<String> {
        let names: Vec<String> = self.properties.keys().cloned().collect();
        let all = json!({"type": "object", "properties": self.properties, "required": names, "additionalProperties": false});
        let grammar = json_schema_to_grammar(&all.to_string()).ok()?;
        let mut text = String::new();
        for line in grammar.lines().filter(|line| !line.starts_with("root ::=")) {
            text += line;
            text.push('\n');
            let pair =
                names.iter().find_map(|name| Some((name, line.strip_prefix(&format!("{name}-kv ::= "))?)));
            if let Some((name, rule)) = pair {
                // `"\"part0\"" space ":" space part0`: what follows the colon is the value.
                let (_, value) = rule.split_once("\":\" space ")?;
                text += &format!("{name}-value ::= {value}\n");
            }
        }
        Some(text)
    }
}

/// References point into the schema they came with.
fn move_references(schema: &mut Value, to: &str) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get_mut("$ref")
                && let Some(inner) = reference.strip_prefix('#')
            {
                *reference = format!("{to}{inner}");
            }
            map.values_mut().for_each(|inner| move_references(inner, to));
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| move_references(inner, to)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_schema_has_a_rule_and_the_root_names_it() {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"],
            "$defs": {"A": {"type": "string", "maxLength": 3}}});
        let tool = json!({"type": "function", "function": {"name": "read_file", "parameters":
            {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}});
        let typed = of(Some(&schema), &[]).unwrap();
        assert!(!typed.is_lazy && typed.text.contains("root ::= blank part0-value blank"), "{}", typed.text);
        let calls = of(None, std::slice::from_ref(&tool)).unwrap();
        assert!(calls.is_lazy && calls.text.contains("root ::= call more*"), "{}", calls.text);
        let both = of(Some(&schema), &[tool]).unwrap();
        assert!(!both.is_lazy && both.text.contains("part1-value ::= "), "{}", both.text);
        assert_eq!(of(None, &[]), None);
    }

    #[test]
    fn what_cannot_be_expressed_is_any_object() {
        let schema = json!({"$ref": "https://example.org/other.json"});
        assert!(of(Some(&schema), &[]).unwrap().text.contains("part0-value ::= "));
    }
}

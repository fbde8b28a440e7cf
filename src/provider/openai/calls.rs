//! Puts the tool calls of an answer together from their pieces; knows how servers number them, and how they fail to.

use serde::Deserialize;
use serde_json::Value;

use crate::protocol::message::Args;

/// A piece of a tool call.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct CallPiece {
    #[serde(default)]
    pub index: Option<u64>,
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub function: Option<FunctionPiece>,
    #[serde(default)]
    pub extra_content: Option<Value>,
}

/// The named part of a piece.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct FunctionPiece {
    #[serde(default)]
    pub name: Option<String>,
    /// Text; some servers send an object.
    #[serde(default)]
    pub arguments: Option<Value>,
}

/// A call as far as it has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Call {
    index: Option<u64>,
    pub id: String,
    pub name: String,
    pub arguments: String,
    /// What the server wants to see again with this call (Gemini's thought signatures).
    pub extra: Option<Value>,
}

impl Call {
    /// The arguments: none are an empty object, and what is no JSON stays text.
    pub fn args(&self) -> Args {
        if self.arguments.trim().is_empty() {
            return Args::Json(Value::Object(serde_json::Map::new()));
        }
        match serde_json::from_str(&self.arguments) {
            // Some servers encode them twice.
            Ok(Value::String(text)) => match serde_json::from_str(&text) {
                Ok(inner @ Value::Object(_)) => Args::Json(inner),
                _ => Args::Json(Value::String(text)),
            },
            Ok(value) => Args::Json(value),
            Err(_) => Args::Broken(self.arguments.clone()),
        }
    }

    fn is_whole(&self) -> bool {
        serde_json::from_str::<&serde_json::value::RawValue>(&self.arguments).is_ok()
    }
}

/// The calls of one answer, in the order they began.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    pub list: Vec<Call>,
}

impl Calls {
    /// Takes one chunk's pieces; `on_args` gets each piece of arguments with the call's place.
    pub fn absorb(&mut self, pieces: Vec<CallPiece>, mut on_args: impl FnMut(usize, &Call, &str)) {
        let mut touched: Vec<usize> = Vec::new();
        for piece in pieces {
            let function = piece.function.unwrap_or_default();
            let id = piece.id.filter(|id| !id.is_empty());
            let name = function.name.map(|name| bare(&name).to_owned()).filter(|name| !name.is_empty());
            let found = self.place(piece.index, id.as_deref(), name.as_deref(), &touched);
            let at = found.unwrap_or(self.list.len());
            if found.is_none() {
                self.list.push(Call { index: piece.index, ..Call::default() });
            }
            touched.push(at);
            let Some(call) = self.list.get_mut(at) else { continue };
            if let Some(id) = id.filter(|_| call.id.is_empty()) {
                call.id = id;
            }
            if let Some(name) = name.filter(|_| call.name.is_empty()) {
                call.name = name;
            }
            call.extra = piece.extra_content.or(call.extra.take());
            let text = match function.arguments {
                Some(Value::String(text)) => text,
                Some(Value::Null) | None => String::new(),
                Some(other) => other.to_string(),
            };
            if !text.is_empty() {
                call.arguments.push_str(&text);
                on_args(at, call, &text);
            }
        }
    }

    /// Where a piece belongs; none when it begins a call.
    ///
    /// By index where there is one, except that a named piece with another id begins a new call even then
    /// (some servers number every call 0), and so does one without any id that follows a whole call or has
    /// another name. Without an index each piece of one chunk is a call of its own;
    /// over several chunks an id, else the lack of a name, continues the last call.
    fn place(
        &self,
        index: Option<u64>,
        id: Option<&str>,
        name: Option<&str>,
        touched: &[usize],
    ) -> Option<usize> {
        let other_id = |call: &Call| id.is_some_and(|id| !call.id.is_empty() && call.id != id);
        if let Some(index) = index {
            let at = self.list.iter().rposition(|call| call.index == Some(index))?;
            let anew = |call: &Call| {
                let named_anew =
                    name.is_some_and(|name| !call.name.is_empty() && (call.is_whole() || call.name != name));
                other_id(call) || (id.is_none() && call.id.is_empty() && named_anew)
            };
            let begins = name.is_some() && self.list.get(at).is_some_and(anew);
            return (!begins).then_some(at);
        }
        let last = self.list.len().checked_sub(1).filter(|at| !touched.contains(at))?;
        let call = self.list.get(last)?;
        let begins = match (id, name) {
            (Some(_), _) if other_id(call) => true,
            (_, Some(_)) => !call.name.is_empty() && (call.is_whole() || id.is_none()),
            (_, None) => false,
        };
        (!begins).then_some(last)
    }
}

/// A tool's name without what gpt-oss writes around it where its server does not read the format:
/// `functions.read_file<|channel|>commentary`.
fn bare(name: &str) -> &str {
    let name = name.split_once("<|").map_or(name, |(name, _)| name);
    name.strip_prefix("functions.").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn assembled(chunks: &[Value]) -> Vec<(String, String, String)> {
        let mut calls = Calls::default();
        for chunk in chunks {
            calls.absorb(serde_json::from_value(chunk.clone()).unwrap(), |_, _, _| {});
        }
        calls.list.into_iter().map(|call| (call.id, call.name, call.arguments)).collect()
    }

    fn rows(rows: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
        rows.iter().map(|(a, b, c)| ((*a).into(), (*b).into(), (*c).into())).collect()
    }

    #[test]
    fn by_index() {
        let chunks = [
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}]),
            json!([{"index": 1, "id": "a", "function": {"name": "g", "arguments": "{\"x\""}}]),
            json!([{"index": 0, "function": {"arguments": "{}"}}, {"index": 1, "id": "", "function": {"arguments": ":1}"}}]),
        ];
        assert_eq!(assembled(&chunks), rows(&[("a", "f", "{}"), ("a", "g", "{\"x\":1}")]));
    }

    #[test]
    fn every_call_numbered_zero() {
        let chunks = [
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]),
            json!([{"index": 0, "id": "b", "function": {"name": "g", "arguments": "{"}}]),
            json!([{"index": 0, "id": "b", "function": {"arguments": "}"}}]),
        ];
        assert_eq!(assembled(&chunks), rows(&[("a", "f", "{}"), ("b", "g", "{}")]));
    }

    #[test]
    fn one_index_and_no_ids() {
        let chunks = [
            json!([{"index": 0, "function": {"name": "f", "arguments": "{}"}}]),
            json!([{"index": 0, "function": {"name": "f", "arguments": "{"}}]),
            json!([{"index": 0, "function": {"arguments": "}"}}]),
            json!([{"index": 0, "function": {"name": "g", "arguments": ""}}]),
            json!([{"index": 0, "function": {"name": "h", "arguments": "{}"}}]),
        ];
        assert_eq!(
            assembled(&chunks),
            rows(&[("", "f", "{}"), ("", "f", "{}"), ("", "g", ""), ("", "h", "{}")])
        );
        // The name repeated with every piece, as some servers do.
        let repeated = [
            json!([{"index": 0, "function": {"name": "f", "arguments": "{\"x\""}}]),
            json!([{"index": 0, "function": {"name": "f", "arguments": ":1}"}}]),
        ];
        assert_eq!(assembled(&repeated), rows(&[("", "f", "{\"x\":1}")]));
    }

    #[test]
    fn without_an_index() {
        let one_chunk = [
            json!([{"id": "a", "function": {"name": "f", "arguments": {"x": 1.5}}}, {"id": "a", "function": {"name": "f"}}]),
        ];
        assert_eq!(assembled(&one_chunk), rows(&[("a", "f", "{\"x\":1.5}"), ("a", "f", "")]));
        let repeated = [
            json!([{"id": "a", "function": {"name": "f", "arguments": "{\"x\""}}]),
            json!([{"id": "a", "function": {"name": "f", "arguments": ":1}"}}]),
            json!([{"id": "b", "function": {"name": "f", "arguments": "{"}}]),
            json!([{"function": {"arguments": "}"}}]),
            json!([{"function": {"name": "g", "arguments": "{}"}}]),
        ];
        assert_eq!(assembled(&repeated), rows(&[("a", "f", "{\"x\":1}"), ("b", "f", "{}"), ("", "g", "{}")]));
    }

    #[test]
    fn arguments() {
        let args = |text: &str| Call { arguments: text.into(), ..Call::default() }.args();
        assert_eq!(args(" "), Args::Json(json!({})));
        assert_eq!(args("{\"n\":1.10}"), Args::Json(serde_json::from_str("{\"n\":1.10}").unwrap()));
        assert_eq!(args("{\"n\":"), Args::Broken("{\"n\":".into()));
        assert_eq!(args("\"{\\\"n\\\": 1}\""), Args::Json(json!({"n": 1})), "encoded twice");
        assert_eq!(args("\"n\""), Args::Json(json!("n")));
    }

    #[test]
    fn names() {
        for name in ["f", "functions.f", "f<|channel|>commentary", "functions.f<|constrain|>json"] {
            let chunk = json!([{"index": 0, "id": "a", "function": {"name": name, "arguments": "{}"}}]);
            assert_eq!(assembled(&[chunk]), rows(&[("a", "f", "{}")]), "{name}");
        }
    }
}

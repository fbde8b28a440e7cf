//! Takes the tool calls out of what a model writes as text, as deltas of chat completions.

use serde_json::{Value, json};

use crate::provider::think::tail_that_begins;

/// How a call begins and ends: what Qwen, Hermes and their kin were taught, and what all others are asked for.
pub(super) const BEGIN: &str = "<tool_call>";
pub(super) const END: &str = "</tool_call>";

/// Tells text and calls apart, piece by piece.
pub(super) struct Splitter {
    has_tools: bool,
    is_inside: bool,
    held: String,
    calls: u64,
}

impl Splitter {
    pub fn new(has_tools: bool) -> Self {
        Splitter { has_tools, is_inside: false, held: String::new(), calls: 0 }
    }

    /// Takes the next piece of text; gives what is decided.
    pub fn feed(&mut self, text: &str) -> Vec<Value> {
        if !self.has_tools {
            return vec![json!({"content": text})];
        }
        self.held.push_str(text);
        let mut deltas = Vec::new();
        while let Some(delta) = self.step() {
            deltas.push(delta);
        }
        deltas
    }

    /// What was held back. Half a call is dropped.
    pub fn finish(self) -> Option<Value> {
        (!self.is_inside && !self.held.trim().is_empty()).then(|| json!({"content": self.held}))
    }

    fn step(&mut self) -> Option<Value> {
        if self.is_inside {
            let (call, rest) = self.held.split_once(END)?;
            let (call, rest) = (call.trim().to_owned(), rest.to_owned());
            (self.held, self.is_inside) = (rest, false);
            return Some(self.call(&call));
        }
        match self.held.find(BEGIN) {
            Some(at) => {
                let rest = self.held.split_off(at + BEGIN.len());
                let mut text = std::mem::replace(&mut self.held, rest);
                text.truncate(at);
                self.is_inside = true;
                match text.trim_end() {
                    "" => self.step(),
                    text => Some(json!({"content": text})),
                }
            }
            None => {
                // Blanks before a call are no text.
                let before = &self.held[..self.held.len() - tail_that_begins(&self.held, BEGIN)];
                let text: String = self.held.drain(..before.trim_end().len()).collect();
                (!text.is_empty()).then(|| json!({"content": text}))
            }
        }
    }

    fn call(&mut self, text: &str) -> Value {
        let index = self.calls;
        self.calls += 1;
        let read: Value = serde_json::from_str(text).unwrap_or_default();
        let name = read.get("name").and_then(Value::as_str).unwrap_or_default();
        let arguments = read.get("arguments").map_or_else(|| text.to_owned(), Value::to_string);
        let function = json!({"name": name, "arguments": arguments});
        json!({"tool_calls": [{"index": index, "id": format!("call_{index}"), "function": function}]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_calls_are_told_apart_however_they_are_cut() {
        let whole = "I look: <tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"é\"}}\n</tool_call>\n<tool_call>{\"name\":\"x\",\"arguments\":{}}</tool_call>\n";
        let read = |pieces: &[&str]| {
            let (mut text, mut calls, mut splitter) = (String::new(), Vec::new(), Splitter::new(true));
            let mut deltas: Vec<Value> = pieces.iter().flat_map(|piece| splitter.feed(piece)).collect();
            deltas.extend(splitter.finish());
            for delta in deltas {
                text += delta["content"].as_str().unwrap_or_default();
                calls.extend(
                    delta
                        .pointer("/tool_calls/0/function")
                        .map(|f| format!("{} {}", f["name"], f["arguments"])),
                );
            }
            (text, calls)
        };
        let expected = (
            "I look:".to_owned(),
            vec![r#""read_file" "{\"path\":\"é\"}""#.to_owned(), r#""x" "{}""#.to_owned()],
        );
        assert_eq!(read(&[whole]), expected);
        for at in (0..whole.len()).filter(|at| whole.is_char_boundary(*at)) {
            assert_eq!(read(&[&whole[..at], &whole[at..]]), expected, "cut at {at}");
        }
        assert_eq!(read(&["a <tool_ca", "b"]), ("a <tool_cab".to_owned(), Vec::new()));
        assert_eq!(read(&["a <tool_call>{\"na"]), ("a".to_owned(), Vec::new()), "half a call");
    }
}

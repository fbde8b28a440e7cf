//! Replaces known secrets in everything that is stamped or streamed; knows only the values it is given.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use serde_json::Value;

use crate::protocol::event::ArenaEvent;
use crate::protocol::message::{Opaque, Part};
use crate::protocol::text::cut_middle;
use crate::protocol::{Fact, expand};

/// Secrets shorter than this would turn ordinary words into placeholders.
const SHORTEST: usize = 8;

/// Finds secrets in their plain, Base64, hexadecimal and URL-encoded forms.
#[derive(Debug, Default)]
pub struct Redactor {
    /// None when there is no secret to look for.
    finder: Option<AhoCorasick>,
    /// What replaces each pattern.
    placeholders: Vec<String>,
    /// True when JSON may write a secret with escapes, so that a look at the JSON alone can miss it.
    may_be_escaped: bool,
    /// Bytes of the longest pattern.
    longest: usize,
}

/// Lines for people that are kept of one call, and bytes of each.
const MOST_TOLD: usize = 50;
const MOST_LINE: usize = 2000;

impl Redactor {
    /// Lines for people, which may name what a command named.
    pub fn lines(&self, told: Vec<String>) -> Vec<String> {
        let more = told.len().saturating_sub(MOST_TOLD);
        let short = |line: String| cut_middle(&self.text(&line), MOST_LINE).0;
        let mut lines: Vec<String> = told.into_iter().take(MOST_TOLD).map(short).collect();
        lines.extend((more > 0).then(|| format!("and {more} more, told in what the command wrote")));
        lines
    }

    /// Looks for these secrets: name and value.
    pub fn new(secrets: &[(String, String)]) -> Self {
        let mut patterns = Vec::new();
        let mut placeholders = Vec::new();
        for (name, value) in secrets.iter().filter(|(_, value)| is_worth_hiding(value)) {
            for form in forms(value) {
                if !patterns.contains(&form) {
                    patterns.push(form);
                    placeholders.push(format!("[secret:{name}]"));
                }
            }
        }
        let is_escaped = |c: char| c == '"' || c == '\\' || c.is_control();
        let may_be_escaped = patterns.iter().any(|pattern| pattern.contains(is_escaped));
        let longest = patterns.iter().map(String::len).max().unwrap_or_default();
        let finder = match patterns.is_empty() {
            true => None,
            false => AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&patterns).ok(),
        };
        Redactor { finder, placeholders, may_be_escaped, longest }
    }

    /// True when there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.finder.is_none()
    }

    /// True when bytes hold a secret. Content of files is never changed, only refused.
    pub fn finds(&self, bytes: &[u8]) -> bool {
        self.finder.as_ref().is_some_and(|finder| finder.is_match(bytes))
    }

    /// The text with every secret replaced.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.finder {
            Some(finder) if finder.is_match(text) => Cow::Owned(finder.replace_all(text, &self.placeholders)),
            _ => Cow::Borrowed(text),
        }
    }

    /// Takes from a growing text what can no longer become part of a secret.
    pub fn take_ready(&self, text: &mut String) -> String {
        let replaced = self.text(text).into_owned();
        let hold = self.longest.saturating_sub(1);
        let mut cut = replaced.len().saturating_sub(hold);
        while !replaced.is_char_boundary(cut) {
            cut -= 1;
        }
        let (ready, rest) = replaced.split_at(cut);
        let ready = ready.to_owned();
        *text = rest.to_owned();
        ready
    }

    /// The fact with every secret in its string values replaced. Foreign content that must go back to its
    /// provider unchanged cannot be mended: it is dropped and marked.
    pub fn fact(&self, fact: Fact) -> Fact {
        if self.finder.is_none() || !self.may_hold_secret(fact.event()) {
            return fact;
        }
        let mut event = fact.event().clone();
        if let ArenaEvent::ModelAnswered(answer) = &mut event {
            answer.body.message.iter_mut().for_each(|part| self.drop_opaque(part));
        }
        let redacted = serde_json::to_value(&event).ok().and_then(|mut value| {
            self.value(&mut value);
            // Typed words (references, closed lists) are no secrets by `is_worth_hiding`, so it still reads.
            serde_json::from_str::<ArenaEvent>(&value.to_string()).ok()
        });
        match redacted.map(Fact::new) {
            Some(Ok(redacted)) => redacted,
            _ => fact,
        }
    }

    fn may_hold_secret(&self, event: &ArenaEvent) -> bool {
        let Some(finder) = &self.finder else { return false };
        match serde_json::to_string(event) {
            Ok(json) => finder.is_match(&json) || (self.may_be_escaped && json.contains('\\')),
            Err(_) => true,
        }
    }

    fn drop_opaque(&self, part: &mut Part) {
        let opaque: &mut Opaque = match part {
            Part::Opaque(opaque) | Part::Reasoning { opaque: Some(opaque), .. } => opaque,
            _ => return,
        };
        let mut copy = opaque.json.clone();
        self.value(&mut copy);
        if copy != opaque.json {
            opaque.json = Value::Null;
            opaque.dropped = true;
        }
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(replaced) = self.text(text) {
                    *text = replaced;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => map.values_mut().for_each(|item| self.value(item)),
            Value::Number(_) | Value::Bool(_) | Value::Null => {}
        }
    }
}

/// Long enough, and not a plain word: `cancelled` as a password would make the log's own words unreadable.
fn is_worth_hiding(value: &str) -> bool {
    let is_word = value.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    value.len() >= SHORTEST && !(is_word && value.len() < 24)
}

fn forms(value: &str) -> Vec<String> {
    let bytes = value.as_bytes();
    let padded = base64::engine::general_purpose::STANDARD.encode(bytes);
    let url: String = bytes
        .iter()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(*byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect();
    vec![
        value.to_owned(),
        padded.trim_end_matches('=').to_owned(),
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes),
        expand::hex(bytes),
        url,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::event::PromptGiven;
    use crate::protocol::spec::Mode;

    fn redactor() -> Redactor {
        Redactor::new(&[("KEY".into(), "s3cret-value".into()), ("SHORT".into(), "abc".into())])
    }

    #[test]
    fn every_form_is_replaced_and_short_values_are_left() {
        let redactor = redactor();
        for form in ["s3cret-value", "czNjcmV0LXZhbHVl", "7333637265742d76616c7565"] {
            assert_eq!(redactor.text(&format!("a {form} b")), "a [secret:KEY] b", "{form}");
        }
        assert_eq!(redactor.text("abc"), "abc");
    }

    #[test]
    fn a_secret_split_over_pieces_is_never_streamed() {
        let redactor = redactor();
        for split in 1.."x s3cret-value y".len() {
            let (a, b) = "x s3cret-value y".split_at(split);
            let mut held = String::new();
            let mut sent = String::new();
            for piece in [a, b] {
                held.push_str(piece);
                sent.push_str(&redactor.take_ready(&mut held));
            }
            sent.push_str(&redactor.text(&held));
            assert_eq!(sent, "x [secret:KEY] y", "split at {split}");
        }
    }

    #[test]
    fn a_prompt_is_stamped_without_the_secret() {
        let redactor = Redactor::new(&[("KEY".into(), "quo\"ted\\value".into())]);
        let prompt = PromptGiven {
            text: "use quo\"ted\\value now".into(),
            mode: Mode::Solo,
            changed: vec![],
            schema: None,
            by: None,
        };
        let fact = Fact::new(ArenaEvent::PromptGiven(prompt)).unwrap();
        let ArenaEvent::PromptGiven(redacted) = redactor.fact(fact).into_event() else { panic!() };
        assert_eq!(redacted.text, "use [secret:KEY] now");
    }
}

//! Replaces known secrets in everything that is stamped or streamed; knows only the values it is given.

mod forms;

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::{Map, Value};

use crate::protocol::Fact;
use crate::protocol::event::ArenaEvent;
use crate::protocol::message::{Opaque, Part};
use crate::protocol::text::cut_middle;

/// Secrets shorter than this would turn ordinary words into placeholders.
const SHORTEST: usize = 8;

/// Finds secrets as they are and in the forms that `forms` lists, in texts and in names of objects.
#[derive(Debug, Default)]
pub struct Redactor {
    /// None when there is no secret to look for.
    finder: Option<AhoCorasick>,
    /// What replaces each pattern.
    placeholders: Vec<String>,
    /// What stands in JSON where a text may hold a pattern with escapes, which a look at the JSON alone can miss.
    escapes: Vec<&'static str>,
    /// The patterns, sorted, to see whether a text ends with the beginning of one.
    sorted: Vec<String>,
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
        lines.extend((more > 0).then(|| format!("and {more} more, listed in what the command wrote")));
        lines
    }

    /// Looks for these secrets: name and value. The error says why they cannot be looked for.
    pub fn new(secrets: &[(String, String)]) -> Result<Self, String> {
        let mut patterns = Vec::new();
        let mut placeholders = Vec::new();
        for (name, value) in secrets.iter().filter(|(_, value)| unfit(value).is_none()) {
            for form in forms::of(value) {
                patterns.push(form);
                placeholders.push(format!("[secret:{name}]"));
            }
        }
        let has = |is_one: fn(char) -> bool| patterns.iter().any(|pattern: &String| pattern.contains(is_one));
        let backslash = has(|c| c == '\\').then_some(r"\\");
        let quote = has(|c| c == '"').then_some(r#"\""#);
        let control = has(char::is_control).then_some(r"\");
        let escapes = [backslash, quote, control].into_iter().flatten().collect();
        let longest = patterns.iter().map(String::len).max().unwrap_or_default();
        let finder = match patterns.is_empty() {
            true => None,
            false => {
                let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&patterns);
                Some(finder.map_err(|error| error.to_string())?)
            }
        };
        patterns.sort_unstable();
        patterns.dedup();
        Ok(Redactor { finder, placeholders, escapes, sorted: patterns, longest })
    }

    /// True when there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.finder.is_none()
    }

    /// True for a value that is looked for.
    pub fn knows(&self, value: &str) -> bool {
        self.sorted.binary_search_by(|pattern| pattern.as_str().cmp(value)).is_ok()
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

    /// Takes from a growing text what can no longer become part of a secret: all of it but a tail that begins one.
    pub fn take_ready(&self, text: &mut String) -> String {
        let Some(finder) = &self.finder else { return std::mem::take(text) };
        let mut until = self.first_begun(text);
        let (mut ready, mut from) = (String::new(), 0);
        // What begins before a tail that is held back is whole, and no longer secret begins where it does.
        for found in finder.find_iter(text.as_str()).take_while(|found| found.start() < until) {
            ready.push_str(&text[from..found.start()]);
            ready.push_str(&self.placeholders[found.pattern().as_usize()]);
            from = found.end();
        }
        until = until.max(from);
        ready.push_str(&text[from..until]);
        text.drain(..until);
        ready
    }

    /// Where the longest tail begins that more text could make a secret; the end when there is none.
    fn first_begun(&self, text: &str) -> usize {
        let nearest = text.floor_char_boundary(text.len().saturating_sub(self.longest.saturating_sub(1)));
        let starts = text[nearest..].char_indices().map(|(at, _)| nearest + at);
        starts.into_iter().find(|at| self.begins(&text[*at..])).unwrap_or(text.len())
    }

    /// True when a secret begins with this tail and is longer.
    fn begins(&self, tail: &str) -> bool {
        let after = self.sorted.partition_point(|pattern| pattern.as_str() <= tail);
        self.sorted.get(after).is_some_and(|pattern| pattern.starts_with(tail))
    }

    /// The fact with every secret in its texts and in names of objects replaced. Foreign content that must go back to its
    /// provider unchanged cannot be fixed: it is dropped and marked. The error is the kind of a fact that is none any more
    /// without its secrets: recorded as it is, it would hold them.
    pub fn fact(&self, fact: Fact) -> Result<Fact, String> {
        if self.finder.is_none() || !self.may_hold_secret(fact.event()) {
            return Ok(fact);
        }
        let kind = fact.event().kind().to_owned();
        let mut event = fact.event().clone();
        if let ArenaEvent::ModelAnswered(answer) = &mut event {
            answer.body.message.iter_mut().for_each(|part| self.drop_opaque(part));
        }
        let redacted = serde_json::to_value(&event).ok().and_then(|mut value| {
            self.value(&mut value);
            ArenaEvent::read(value.to_string().as_bytes()).ok()
        });
        match redacted.map(Fact::new) {
            Some(Ok(redacted)) if redacted.event().kind() == kind => Ok(redacted),
            _ => Err(kind),
        }
    }

    fn may_hold_secret(&self, event: &ArenaEvent) -> bool {
        let Some(finder) = &self.finder else { return false };
        match serde_json::to_string(event) {
            Ok(json) => finder.is_match(&json) || self.escapes.iter().any(|escape| json.contains(escape)),
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
            Value::Object(map) => {
                if map.keys().any(|name| matches!(self.text(name), Cow::Owned(_))) {
                    self.names(map);
                }
                map.values_mut().for_each(|item| self.value(item));
            }
            Value::Number(_) | Value::Bool(_) | Value::Null => {}
        }
    }

    /// Names in the order in which they were; two that are alike afterwards stay two.
    fn names(&self, map: &mut Map<String, Value>) {
        for (name, value) in std::mem::take(map) {
            let mut name = self.text(&name).into_owned();
            while map.contains_key(&name) {
                name.push('\'');
            }
            map.insert(name, value);
        }
    }
}

/// Why a value is not looked for, if so: `cancelled` as a password would make the log's own words unreadable.
pub fn unfit(value: &str) -> Option<&'static str> {
    let is_word = value.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    match value.len() {
        ..SHORTEST => Some("shorter than 8 bytes"),
        ..24 if is_word => Some("only lower-case letters"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::event::PromptGiven;
    use crate::protocol::spec::Mode;

    fn redactor() -> Redactor {
        Redactor::new(&[("KEY".into(), "s3cret-value".into()), ("SHORT".into(), "abc".into())]).unwrap()
    }

    #[test]
    fn every_form_is_replaced_and_short_values_are_left() {
        let redactor = redactor();
        for form in
            ["s3cret-value", "czNjcmV0LXZhbHVl", "7333637265742d76616c7565", "7333637265742D76616C7565"]
        {
            assert_eq!(redactor.text(&format!("a {form} b")), "a [secret:KEY] b", "{form}");
        }
        assert_eq!(redactor.text("abc"), "abc");
        let bearer = "QmVhcmVyIHMzY3JldC12YWx1ZQ==";
        assert_eq!(redactor.text(bearer), "QmVhcmVyIH[secret:KEY]==", "Bearer s3cret-value");
        let slash = Redactor::new(&[("KEY".into(), "a/b+c=12".into())]).unwrap();
        assert_eq!(slash.text("k=a%2fb%2bc%3d12&k=a%2Fb%2Bc%3D12"), "k=[secret:KEY]&k=[secret:KEY]");
    }

    /// Two secrets of which one begins as the other does, and one that begins within it.
    fn nested() -> Redactor {
        let secrets = [("ONE", "s3cret-1"), ("TWO", "s3cret-1-and-more"), ("THREE", "more-or-less")];
        Redactor::new(&secrets.map(|(name, value)| (name.to_owned(), value.to_owned()))).unwrap()
    }

    #[test]
    fn what_is_streamed_is_what_is_recorded_wherever_it_is_split() {
        let text = "x s3cret-1 s3cret-1-and-mor s3cret-1-and-more-or-less s3 é s3cret-1-and";
        let whole = nested().text(text).into_owned();
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        for first in &ends {
            for second in ends.iter().filter(|second| *second >= first) {
                let (redactor, mut held, mut sent) = (nested(), String::new(), String::new());
                for piece in [&text[..*first], &text[*first..*second], &text[*second..]] {
                    held.push_str(piece);
                    sent.push_str(&redactor.take_ready(&mut held));
                }
                sent.push_str(&redactor.text(&held));
                assert_eq!(sent, whole, "split at {first} and {second}");
            }
        }
    }

    #[test]
    fn only_a_tail_that_begins_a_secret_is_held_back() {
        let redactor =
            Redactor::new(&[("KEY".into(), format!("Xyz-{}", "0123456789abcdef".repeat(10)))]).unwrap();
        for (text, sent) in [("hello", "hello"), ("see Xyz", "see "), ("Xyz-1", "Xyz-1"), ("é Xyz-012", "é ")]
        {
            let mut held = text.to_owned();
            assert_eq!((redactor.take_ready(&mut held).as_str(), held.as_str()), (sent, &text[sent.len()..]));
        }
    }

    #[test]
    fn names_in_objects_are_replaced_in_their_order_and_none_is_lost() {
        let mut value = serde_json::json!({"a": 1, "s3cret-value": [{"x s3cret-value": "s3cret-value"}], "[secret:KEY]": 2});
        redactor().value(&mut value);
        let expected = r#"{"a":1,"[secret:KEY]":[{"x [secret:KEY]":"[secret:KEY]"}],"[secret:KEY]'":2}"#;
        assert_eq!(value.to_string(), expected);
    }

    #[test]
    fn a_fact_that_is_none_without_its_secrets_is_not_passed_on() {
        let mut redactor = redactor();
        redactor.finder = Some(AhoCorasick::new(["prompt_given"]).unwrap());
        redactor.placeholders.truncate(1);
        assert_eq!(redactor.fact(prompt("x")).unwrap_err(), "prompt_given");
    }

    #[test]
    fn a_prompt_is_stamped_without_the_secret() {
        let redactor = Redactor::new(&[("KEY".into(), "quo\"ted\\value".into())]).unwrap();
        let fact = prompt("use quo\"ted\\value now");
        let ArenaEvent::PromptGiven(redacted) = redactor.fact(fact).unwrap().into_event() else { panic!() };
        assert_eq!(redacted.text, "use [secret:KEY] now");
    }

    #[test]
    fn a_secret_is_found_in_json_within_a_text_however_its_signs_are_escaped() {
        let redactor = Redactor::new(&[("KEY".into(), "a/B+c=12-x".into())]).unwrap();
        for form in [
            r"a\/B+c=12-x",
            r"a\u002fB\u002bc\u003d12\u002dx",
            r"a\u002FB\u002Bc\u003D12\u002Dx",
            "%61%2f%42%2b%63%3d%31%32%2d%78",
        ] {
            let form = form.replace("\\\\", "\\");
            let ArenaEvent::PromptGiven(redacted) =
                redactor.fact(prompt(&format!("k {form}."))).unwrap().into_event()
            else {
                panic!()
            };
            assert_eq!(redacted.text, "k [secret:KEY].", "{form}");
        }
    }

    #[test]
    fn a_secret_is_found_however_often_its_json_was_put_into_json() {
        let redactor = Redactor::new(&[("KEY".into(), "a/B+c=12-x".into())]).unwrap();
        for form in [r"a\/B+c=12-x", r"a\u002fB\u002bc\u003d12\u002dx"] {
            let quoted = |text: &str| serde_json::Value::from(text).to_string().trim_matches('"').to_owned();
            let ArenaEvent::PromptGiven(redacted) =
                redactor.fact(prompt(&quoted(&quoted(form)))).unwrap().into_event()
            else {
                panic!()
            };
            assert_eq!(redacted.text, "[secret:KEY]", "{form}");
        }
    }

    fn prompt(text: &str) -> Fact {
        let prompt =
            PromptGiven { text: text.to_owned(), mode: Mode::Solo, changed: vec![], schema: None, by: None };
        Fact::new(ArenaEvent::PromptGiven(prompt)).unwrap()
    }
}

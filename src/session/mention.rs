//! What a person's words mention: files and folders that are read before whoever is addressed goes on. Reads nothing.
//!
//! What the prompt mentions is read at once, and the turn begins after the last outcome; what it says has the order of the
//! prompt, whatever came first. A mention in words that are said to a spark at work is read beside it; the spark does not
//! end before it has seen it.

use crate::protocol::effect::{MentionOrder, MentionedPlace, Order};
use crate::protocol::event::{
    Answered, ArenaEvent, EffectFailed, FailStatus, MentionExpanded, PathBase, RequestPart,
};
use crate::protocol::message::Role;
use crate::protocol::{CallId, EventRef, SparkId};

use super::Session;
use super::state::Said;

/// The most mentions of one text that are read; what is beyond stays as it is written.
pub const MOST: usize = 32;

/// The mentions in a text, each once, in the order they are written: `@PATH`, `@PATH:FIRST`, `@PATH:FIRST-LAST`, and
/// `@"PATH"` for a path with spaces, each at the beginning of a word. Code between backticks mentions nothing.
pub fn mentioned(text: &str) -> Vec<MentionedPlace> {
    let mut places: Vec<MentionedPlace> = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced || places.len() >= MOST {
            continue;
        }
        for place in mentioned_in_line(line) {
            if places.len() < MOST && !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places
}

fn mentioned_in_line(line: &str) -> Vec<MentionedPlace> {
    let mut places = Vec::new();
    let (mut quoted, mut before) = (false, ' ');
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        quoted ^= c == '`';
        let begins = before.is_whitespace() || matches!(before, '(' | '[' | '{');
        rest = &rest[c.len_utf8()..];
        if c == '@'
            && begins
            && !quoted
            && let Some((place, after)) = place_at(rest)
        {
            places.push(place);
            rest = after;
        }
        before = c;
    }
    places
}

/// The place that is written behind an `@`, and what follows it.
fn place_at(text: &str) -> Option<(MentionedPlace, &str)> {
    let (path, lines, end) = match text.strip_prefix('"') {
        Some(inner) => {
            let (path, after) = inner.split_once('"')?;
            let (lines, used) = lines_at(after);
            (path, lines, path.len() + 2 + used)
        }
        None => {
            let word = &text[..text.find(char::is_whitespace).unwrap_or(text.len())];
            let word = word.trim_end_matches([',', '.', ';', ':', '!', '?', ')', ']', '}', '"', '\'', '`']);
            let path = &word[..word.find(':').unwrap_or(word.len())];
            let (lines, used) = lines_at(&word[path.len()..]);
            if path.len() + used != word.len() {
                return None;
            }
            (path, lines, word.len())
        }
    };
    let odd =
        |c: char| c.is_control() || matches!(c, '@' | '<' | '>' | '(' | ')' | '{' | '}' | '=' | '|' | '`');
    if path.trim().is_empty() || path.contains(odd) {
        return None;
    }
    let mention = format!("@{}", &text[..end]);
    let (first, last) = lines.unzip();
    Some((MentionedPlace { mention, path: path.to_owned(), first, last: last.flatten() }, &text[end..]))
}

/// `:FIRST` or `:FIRST-LAST` at the beginning of a text, and how many bytes it has.
fn lines_at(text: &str) -> (Option<(u64, Option<u64>)>, usize) {
    let none = (None, 0);
    let Some(rest) = text.strip_prefix(':') else { return none };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let n = digits(rest);
    let Ok(first) = rest[..n].parse::<u64>() else { return none };
    let after = rest[n..].strip_prefix('-').unwrap_or_default();
    let m = digits(after);
    let used = 1 + n + if m > 0 { 1 + m } else { 0 };
    // One number names one line.
    let last = if m > 0 { after[..m].parse().unwrap_or(u64::MAX) } else { first };
    let first = first.max(1);
    (Some((first, Some(last.max(first)))), used)
}

impl Session {
    /// Has everything read that the prompt mentions.
    pub(super) fn order_mentions(&mut self) {
        let Some(ArenaEvent::PromptGiven(given)) =
            self.turn.as_ref().and_then(|turn| self.event(turn.prompt))
        else {
            return;
        };
        for place in mentioned(&given.text) {
            self.order(None, Order::Mention(MentionOrder { place }));
        }
    }

    /// Lets the turn begin once nothing is waited for: what is mentioned without limit, lists of tools for a moment.
    pub(super) fn begin_when_read(&mut self) {
        if self.turn.as_ref().is_none_or(|turn| turn.begun) || self.is_reading() || self.waits_for_lists() {
            return;
        }
        self.stop_waiting();
        self.begin_turn();
    }

    /// What was said to a spark at work, or before the turn began, may mention places as well.
    pub(super) fn read_for_steering(&mut self, spark: Option<SparkId>, text: &str) {
        let Some(turn) = self.turn.as_ref() else { return };
        let to = match turn.begun {
            false => None,
            true if self.debate.is_some() => spark,
            true => spark.or_else(|| self.talking_spark()),
        };
        for place in mentioned(text) {
            self.order(to, Order::Mention(MentionOrder { place }));
        }
    }

    /// A place was read, or could not be: whoever waited for it goes on.
    pub(super) fn on_mentioned(&mut self, spark: Option<SparkId>) {
        self.wind_down();
        let Some(turn) = self.turn.as_ref() else { return };
        if !turn.begun {
            if self.turn_stop().is_none() {
                self.begin_when_read();
            }
            return;
        }
        if let Some(id) = spark.filter(|id| !self.is_reading_for(*id)) {
            let idle = self.sparks.get(&id).is_some_and(|one| one.completed.is_none() && one.uses.is_empty());
            if idle && !self.has_model_call(id) && self.is_at_work(id) {
                return self.think(id);
            }
        }
        self.advance();
    }

    /// A turn that is stopped before anybody began has nobody who could end it.
    pub(super) fn stop_reading(&mut self) {
        let Some(cause) = self.turn_stop() else { return };
        if self.turn.as_ref().is_none_or(|turn| turn.begun) {
            return;
        }
        match self.is_reading() {
            true => self.forget_reading(),
            false => {
                self.stop_waiting();
                self.close_turn(cause, None);
            }
        }
    }

    /// Nobody waits any more for what is being read.
    pub(super) fn forget_reading(&mut self) {
        let reading: Vec<CallId> =
            self.calls.iter().filter(|(_, call)| is_mention(&call.order)).map(|(id, _)| *id).collect();
        for call in reading {
            self.cancel(call, "no longer waited for");
        }
    }

    fn is_reading(&self) -> bool {
        self.calls.values().any(|call| is_mention(&call.order))
    }

    /// True while something is read that a spark was told to look at.
    pub(super) fn is_reading_for(&self, id: SparkId) -> bool {
        self.calls.values().any(|call| call.spark == Some(id) && is_mention(&call.order))
    }

    /// What is read for a turn that has not begun has its place among what is said, whenever its outcome comes.
    pub(super) fn fold_reading(&mut self, call: CallId) {
        if let Some(turn) = self.turn.as_mut().filter(|turn| !turn.begun)
            && !turn.said.contains(&Said::Awaited(call))
        {
            turn.said.push(Said::Awaited(call));
        }
    }

    pub(super) fn fold_mentioned(&mut self, at: EventRef, data: &Answered<MentionExpanded>) {
        self.fold_said(at, data.call, &data.body.seen);
    }

    /// Whoever was to see it is told why it could not be read. A bare word may never have been meant as a file.
    pub(super) fn fold_unread(&mut self, at: EventRef, data: &Answered<EffectFailed>) {
        let place = self.calls.get(&data.call).and_then(|call| match &call.order {
            Order::Mention(MentionOrder { place }) => Some(place.path.clone()),
            _ => None,
        });
        let meant = place.is_some_and(|path| path.contains(['/', '.']));
        match data.body.status == FailStatus::Failed && meant {
            true => self.fold_said(at, data.call, &[]),
            false => {
                self.close(data.call);
                if let Some(turn) = self.turn.as_mut() {
                    turn.said.retain(|said| *said != Said::Awaited(data.call));
                }
            }
        }
    }

    fn fold_said(&mut self, at: EventRef, id: CallId, seen: &[PathBase]) {
        let Some(call) = self.calls.remove(&id).filter(|call| !call.cancelled) else { return };
        if let Some(turn) = self.turn.as_mut().filter(|turn| !turn.begun) {
            let awaited = turn.said.iter_mut().find(|said| **said == Said::Awaited(id));
            awaited.into_iter().for_each(|said| *said = Said::At(at));
        } else if self.debate.is_some() {
            self.fold_debate_steering(at, call.spark);
        } else if let Some(id) = call.spark {
            self.learn(id, seen);
            self.enqueue(id, RequestPart { role: Role::User, from: at, sel: None });
        }
    }

    /// What an earlier event said to a spark that begins.
    pub(super) fn hear(&mut self, id: SparkId, from: EventRef) {
        let seen = match self.event(from) {
            Some(ArenaEvent::MentionExpanded(data)) => data.body.seen.clone(),
            _ => Vec::new(),
        };
        self.learn(id, &seen);
        self.enqueue(id, RequestPart { role: Role::User, from, sel: None });
    }

    /// A spark has seen the file that a mention showed it, and may change it.
    fn learn(&mut self, id: SparkId, seen: &[PathBase]) {
        if let Some(spark) = self.sparks.get_mut(&id) {
            spark.seen.extend(seen.iter().map(|file| (file.path.clone(), file.sha256.clone())));
        }
    }
}

fn is_mention(order: &Order) -> bool {
    matches!(order, Order::Mention(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, Option<u64>, Option<u64>)> {
        mentioned(text).into_iter().map(|place| (place.path, place.first, place.last)).collect()
    }

    #[test]
    fn files_folders_and_lines_are_found() {
        let text = "Compare @src/main.rs:10-20, @src/ and (@a.rs:3). Then @\"my notes.md\":2-4!";
        let path = |path: &str, first, last| (path.to_owned(), first, last);
        assert_eq!(
            found(text),
            [
                path("src/main.rs", Some(10), Some(20)),
                path("src/", None, None),
                path("a.rs", Some(3), Some(3)),
                path("my notes.md", Some(2), Some(4)),
            ]
        );
        assert_eq!(mentioned("see @\"my notes.md\":2-4!")[0].mention, "@\"my notes.md\":2-4");
        assert_eq!(
            found("@a.rs @a.rs:20-10 @a.rs"),
            [path("a.rs", None, None), path("a.rs", Some(20), Some(20))]
        );
    }

    #[test]
    fn what_only_looks_like_a_mention_is_none() {
        for text in [
            "write to ann@example.org",
            "@@ -1,3 +1,4 @@",
            "`@Override` stays",
            "```java\n@Override\n@Test\n```",
            "@Component({a: 1})",
            "@ alone, @... and @\"\"",
            "git log HEAD@{1}",
            "@host:port",
            "a<@b>",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
        let many: String = (0..100).map(|i| format!("@f{i} ")).collect();
        assert_eq!(mentioned(&many).len(), MOST);
    }
}

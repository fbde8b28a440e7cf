//! Takes the thinking that a model writes between tags out of its answer, piece by piece as it streams.
//!
//! Servers without a reasoning parser pass `<think>…</think>` on as content (Ollama, LM Studio, vLLM and llama-server
//! without a flag, many proxies). Only tags an answer begins with count: an answer may well speak of them.

/// How thinking begins and ends: Qwen, DeepSeek and most others; some tunes; Magistral.
const TAGS: [(&str, &str); 3] =
    [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]")];

/// What a piece of content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It is part of the answer.
    Answer,
    /// It is thinking.
    Thought,
}

/// Where in an answer the stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Nothing but blanks came yet, or thinking has just ended.
    #[default]
    Begin,
    /// Inside the tags of this row.
    Inside(usize),
    /// The answer has begun.
    Answer,
}

/// Tells answer and thinking apart.
#[derive(Debug, Default)]
pub(super) struct ThinkFilter {
    place: Place,
    /// True once there was thinking: blanks between it and the answer belong to neither.
    has_thought: bool,
    /// What may still become a tag.
    held: String,
}

impl ThinkFilter {
    /// Takes the next piece of content; `say` gets what is decided, in order.
    pub fn feed(&mut self, text: &str, say: &mut dyn FnMut(Said, &str)) {
        if self.place == Place::Answer && self.held.is_empty() {
            return say(Said::Answer, text);
        }
        self.held.push_str(text);
        while self.step(say) {}
    }

    /// Gives what is still held at the end.
    pub fn finish(&mut self, say: &mut dyn FnMut(Said, &str)) {
        let mut rest = std::mem::take(&mut self.held);
        if self.place == Place::Begin && self.has_thought {
            rest = rest.trim_start().to_owned();
        }
        let said = if matches!(self.place, Place::Inside(_)) { Said::Thought } else { Said::Answer };
        if !rest.is_empty() {
            say(said, &rest);
        }
    }

    /// Decides on what is held; true when there may be more to decide.
    fn step(&mut self, say: &mut dyn FnMut(Said, &str)) -> bool {
        match self.place {
            Place::Begin => self.begin(),
            Place::Inside(row) => {
                let Some((_, end)) = TAGS.get(row) else { return false };
                if let Some(at) = self.held.find(end) {
                    if at > 0 {
                        say(Said::Thought, &self.held[..at]);
                    }
                    self.held.drain(..at + end.len());
                    (self.place, self.has_thought) = (Place::Begin, true);
                    return true;
                }
                let keep = tail_that_begins(&self.held, end);
                let decided = self.held.len() - keep;
                if decided > 0 {
                    say(Said::Thought, &self.held[..decided]);
                    self.held.drain(..decided);
                }
                false
            }
            Place::Answer => {
                let text = std::mem::take(&mut self.held);
                if !text.is_empty() {
                    say(Said::Answer, &text);
                }
                false
            }
        }
    }

    fn begin(&mut self) -> bool {
        let text = self.held.trim_start();
        if let Some(row) = TAGS.iter().position(|(tag, _)| text.starts_with(tag)) {
            let blank = self.held.len() - text.len();
            self.held.drain(..blank + TAGS[row].0.len());
            self.place = Place::Inside(row);
            return true;
        }
        if TAGS.iter().any(|(tag, _)| tag.starts_with(text)) {
            return false;
        }
        if self.has_thought {
            self.held = text.to_owned();
        }
        self.place = Place::Answer;
        true
    }
}

/// Bytes at the end of a text with which a tag may begin.
pub(super) fn tail_that_begins(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|n| tag.is_char_boundary(*n) && text.ends_with(&tag[..*n])).unwrap_or(0)
}

/// Splits an answer whose thinking began without a tag, since the model's template writes it: thought, then answer. The
/// closing tag must stand on a line of its own.
pub(super) fn split_unopened(text: &str) -> Option<(&str, &str)> {
    TAGS.iter().find_map(|(begin, end)| {
        let (thought, answer) = text.split_once(end)?;
        let is_alone = (thought.is_empty() || thought.ends_with('\n'))
            && (answer.is_empty() || answer.starts_with(['\n', '\r']));
        (is_alone && !thought.contains(begin)).then(|| (thought.trim_end(), answer.trim_start()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&str]) -> (String, String) {
        let (mut thought, mut answer) = (String::new(), String::new());
        let mut filter = ThinkFilter::default();
        let mut take = |said, text: &str| match said {
            Said::Answer => answer.push_str(text),
            Said::Thought => thought.push_str(text),
        };
        pieces.iter().for_each(|piece| filter.feed(piece, &mut take));
        filter.finish(&mut take);
        (thought, answer)
    }

    #[test]
    fn thinking_is_taken_out_however_it_is_cut() {
        let rows = [
            ("<think>\nhm, 2 < 3\n</think>\n\nyes", "\nhm, 2 < 3\n", "yes"),
            ("\n <think>a</think><think>b</think> c", "ab", "c"),
            ("[THINK]a[/THINK]b", "a", "b"),
            ("<thinking>a</thinking>{\"x\": 1}", "a", "{\"x\": 1}"),
            ("<think>never closed </thin", "never closed </thin", ""),
            ("<thi", "", "<thi"),
            (
                "the tag <think> is written <think>so</think>",
                "",
                "the tag <think> is written <think>so</think>",
            ),
            ("<b>bold</b>", "", "<b>bold</b>"),
            ("  indented <think>", "", "  indented <think>"),
            ("<think>a</think> \n", "a", ""),
            ("", "", ""),
        ];
        for (whole, thought, answer) in rows {
            let expected = (thought.to_owned(), answer.to_owned());
            assert_eq!(split(&[whole]), expected, "{whole}");
            let letters: Vec<String> = whole.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(split(&letters), expected, "{whole} letter by letter");
            for at in (0..=whole.len()).filter(|at| whole.is_char_boundary(*at)) {
                assert_eq!(split(&[&whole[..at], &whole[at..]]), expected, "{whole} cut at {at}");
            }
        }
    }

    #[test]
    fn an_answer_is_not_held_back_once_it_has_begun() {
        let mut filter = ThinkFilter::default();
        let mut said = Vec::new();
        for piece in ["Hel", "lo <", "th"] {
            filter.feed(piece, &mut |_, text| said.push(text.to_owned()));
        }
        assert_eq!(said, ["Hel", "lo <", "th"]);
    }

    #[test]
    fn a_closing_tag_alone_ends_what_the_template_began() {
        assert_eq!(split_unopened("so and so\n</think>\n\nyes"), Some(("so and so", "yes")));
        assert_eq!(split_unopened("write `</think>` at the end"), None);
        assert_eq!(split_unopened("plain"), None);
    }
}

//! The text a person writes: lines, cursor, history, completion; knows no terminal and sends nothing.

mod pastes;

pub(super) use pastes::picture;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation;

use super::slash::{self, Slash, Values};
use super::text::width;
use pastes::{Pastes, is_mark};

/// Texts that can be recalled.
const HISTORY: usize = 200;

/// Completions that are offered at most.
const OFFERED: usize = 200;

/// Bytes before the cursor in which a word to be completed begins: a pasted line of ten megabytes is none.
const LONGEST: usize = 4 * 1024;

/// What is being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Composer {
    pub text: String,
    /// Byte position, always at the edge of a grapheme.
    pub cursor: usize,
    /// The first character was typed and not pasted: only then is a leading slash a command.
    is_typed: bool,
    /// Earlier texts, oldest first, each with whether it was a command.
    history: Vec<(String, bool)>,
    /// Where in the history somebody looks, and what was being written before.
    recalled: Option<(usize, (String, bool))>,
    pastes: Pastes,
    /// Files of the workspace.
    pub files: Vec<String>,
    /// Values of commands.
    pub values: Values,
    pub offer: Option<Offer>,
}

/// Completions of what stands before the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// Byte position where the completed word begins.
    pub from: usize,
    /// Word and explanation.
    pub choices: Vec<(String, String)>,
    pub chosen: usize,
}

impl Composer {
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The command that is being written, if it is one.
    pub fn is_command(&self) -> bool {
        self.is_typed && self.text.starts_with('/')
    }

    /// The person's own command that is being written, if it is one: what follows `!`.
    pub fn shell(&self) -> Option<&str> {
        let line = self.text.strip_prefix('!').filter(|_| self.is_typed)?.trim();
        (!line.is_empty()).then_some(line)
    }

    pub fn insert(&mut self, text: &str) {
        if self.text.is_empty() {
            self.is_typed = true;
        }
        self.put(text);
    }

    /// A pasted block is text, whatever it begins with. A long one is folded to a mark.
    pub fn paste(&mut self, text: &str) {
        if self.cursor == 0 {
            self.is_typed = false;
        }
        let text = self.pastes.fold(text);
        self.put(&text);
        self.offer = None;
    }

    /// What is shown for a mark of a paste.
    pub fn mark(&self, grapheme: &str) -> Option<String> {
        self.pastes.shown(grapheme)
    }

    /// Opens the paste whose mark is just before the cursor; false when there is none.
    pub fn unfold(&mut self) -> bool {
        let from = self.before();
        let Some(text) = self.text[from..self.cursor].chars().next().and_then(|mark| self.pastes.get(mark))
        else {
            return false;
        };
        let text = text.to_owned();
        self.text.replace_range(from..self.cursor, &text);
        self.cursor = from + text.len();
        true
    }

    /// The whole text, pastes included.
    pub fn whole(&self) -> String {
        self.pastes.whole(&self.text)
    }

    /// Turns a backslash just before the cursor into a new line; false when there is none.
    pub fn breaks_line(&mut self) -> bool {
        let breaks = self.text[..self.cursor].ends_with('\\') && !self.is_command();
        if breaks {
            self.remove(self.cursor - 1, self.cursor);
            self.insert("\n");
        }
        breaks
    }

    /// Texts that were written before, newest first, each once.
    pub fn earlier(&self) -> Vec<&str> {
        let mut seen = std::collections::BTreeSet::new();
        self.history.iter().rev().map(|(text, _)| text.as_str()).filter(|text| seen.insert(*text)).collect()
    }

    /// Texts of earlier starts, oldest first: they come before those of this one.
    pub fn recall_from(&mut self, mut texts: Vec<String>) {
        texts.retain(|text| self.history.iter().all(|(known, _)| known != text));
        let room = HISTORY.saturating_sub(self.history.len());
        let from = texts.len().saturating_sub(room);
        drop(self.history.splice(0..0, texts.drain(from..).map(|text| (text, false))));
        self.recalled = None;
    }

    fn put(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
        self.recalled = None;
        self.complete();
    }

    /// Takes a key that edits; false for one that means something else.
    pub fn edit(&mut self, key: KeyEvent) -> bool {
        use KeyCode::{Backspace, Char, Delete, End, Home, Left, Right};
        let control = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match (key.code, control) {
            (Char('a'), true) | (Home, _) => self.go(self.line_start()),
            (Char('e'), true) | (End, _) => self.go(self.line_end()),
            (Char('b'), true) | (Left, true) => self.go(self.word_before()),
            (Char('f'), true) | (Right, true) => self.go(self.word_after()),
            (Char('u'), true) => self.remove(self.line_start(), self.cursor),
            (Char('k'), true) => self.remove(self.cursor, self.line_end()),
            (Char('w'), true) | (Backspace, true) => self.remove(self.word_before(), self.cursor),
            (Char(c), false) => self.insert(c.encode_utf8(&mut [0; 4])),
            (Backspace, false) => self.remove(self.before(), self.cursor),
            (Delete, _) => self.delete(),
            (Left, false) => self.go(self.before()),
            (Right, false) => self.go(self.after()),
            _ => return false,
        }
        true
    }

    /// Removes what stands behind the cursor.
    pub fn delete(&mut self) {
        self.remove(self.cursor, self.after());
    }

    fn remove(&mut self, from: usize, to: usize) {
        self.recalled = None;
        self.text.replace_range(from..to, "");
        self.cursor = from;
        self.complete();
    }

    /// What was offered belongs where the cursor was.
    fn go(&mut self, to: usize) {
        self.cursor = to;
        self.offer = None;
    }

    /// One line up; in the first line, one text back in the history.
    pub fn up(&mut self) {
        let start = self.line_start();
        if start == 0 {
            return self.recall(true);
        }
        let column = width(&self.text[start..self.cursor]);
        let above = self.text[..start - 1].rfind('\n').map_or(0, |at| at + 1);
        self.cursor = self.at_column(above, start - 1, column);
    }

    /// One line down; in the last line, one text forward in the history.
    pub fn down(&mut self) {
        let end = self.line_end();
        if end == self.text.len() {
            return self.recall(false);
        }
        let column = width(&self.text[self.line_start()..self.cursor]);
        let below = end + 1;
        let below_end = self.text[below..].find('\n').map_or(self.text.len(), |at| below + at);
        self.cursor = self.at_column(below, below_end, column);
    }

    /// Takes the text out and remembers it.
    pub fn take(&mut self) -> String {
        let (is_command, text) = (self.is_command(), self.whole());
        self.keep(&text, is_command);
        self.clear();
        text
    }

    /// Puts a text back that was taken out by a key: a command is one again.
    pub fn restore(&mut self, text: &str) {
        self.insert(text);
        self.offer = None;
    }

    /// Another text in place of what is written.
    pub fn replace(&mut self, text: &str) {
        self.clear();
        self.paste(text);
    }

    pub fn clear(&mut self) {
        self.text.clear();
        self.pastes.clear();
        self.cursor = 0;
        self.is_typed = false;
        self.recalled = None;
        self.offer = None;
    }

    /// Puts a task at the end of the history.
    pub fn remember(&mut self, text: &str) {
        self.keep(text, false);
    }

    fn keep(&mut self, text: &str, is_command: bool) {
        if !text.trim().is_empty() && self.history.last().is_none_or(|(last, _)| last != text) {
            self.history.push((text.to_owned(), is_command));
            self.history.drain(..self.history.len().saturating_sub(HISTORY));
        }
    }

    fn recall(&mut self, back: bool) {
        let (at, draft) = match self.recalled.take() {
            Some((at, draft)) => (at, draft),
            None => (self.history.len(), (self.text.clone(), self.is_typed)),
        };
        let to = if back { at.saturating_sub(1) } else { at + 1 };
        let is_back = to >= self.history.len();
        if is_back && at >= self.history.len() {
            return;
        }
        (self.text, self.is_typed) = self.history.get(to).unwrap_or(&draft).clone();
        self.cursor = self.text.len();
        self.offer = None;
        self.recalled = (!is_back).then_some((to, draft));
    }

    /// Takes the chosen completion; false when nothing is offered.
    pub fn accept(&mut self) -> bool {
        let Some(offer) = self.offer.take() else { return false };
        let Some((word, _)) = offer.choices.get(offer.chosen) else { return false };
        // What can go on is left open: lines of a file, what is in a folder, the model of a provider.
        let goes_on = word.starts_with('@') || word.ends_with('/');
        let word = if goes_on { word.clone() } else { format!("{word} ") };
        self.text.replace_range(offer.from..self.cursor, &word);
        self.cursor = offer.from + word.len();
        if word.ends_with('/') {
            self.complete();
        }
        true
    }

    /// True when Tab means something here: what is offered is taken, or a paste is opened.
    pub fn takes_tab(&self) -> bool {
        self.offer.is_some() || self.text[self.before()..self.cursor].chars().any(is_mark)
    }

    pub fn choose(&mut self, down: bool) -> bool {
        let Some(offer) = &mut self.offer else { return false };
        let count = offer.choices.len();
        offer.chosen = if down { (offer.chosen + 1) % count } else { (offer.chosen + count - 1) % count };
        true
    }

    /// Looks for completions of what stands before the cursor.
    pub fn complete(&mut self) {
        let Some(from) = self.word_from() else {
            self.offer = None;
            return;
        };
        let before = &self.text[..self.cursor];
        let word = &before[from..];
        let choices: Vec<(String, String)> = if let Some(part) = word.strip_prefix('@') {
            self.named_files(part)
        } else if !self.is_command() {
            Vec::new()
        } else if from == 0 {
            let takes = slash::starting(word).map(|slash| slash.takes.len()).max().unwrap_or(0);
            let text = |slash: &Slash| {
                (
                    slash.name.to_owned(),
                    if takes == 0 {
                        slash.help.to_owned()
                    } else {
                        format!("{:<takes$}  {}", slash.takes, slash.help)
                    },
                )
            };
            slash::starting(word).map(text).collect()
        } else {
            slash::following(&before[..from], word, &self.values)
        };
        // A command that takes something goes on telling what.
        let takes = from == 0 && slash::parse(word).is_ok_and(|(slash, _)| !slash.takes.is_empty());
        let done = choices.len() == 1 && choices[0].0 == word && !takes;
        self.offer = (!choices.is_empty() && !done).then(|| Offer {
            from,
            choices: choices.into_iter().take(OFFERED).collect(),
            chosen: 0,
        });
    }

    /// Files and folders whose names contain a part; those that begin with it come first. A range of lines stays
    /// behind the name.
    fn named_files(&self, part: &str) -> Vec<(String, String)> {
        let (part, lines) = match part.split_once(':') {
            Some((part, lines)) => (part, format!(":{lines}")),
            None => (part, String::new()),
        };
        let begins = |file: &&String| file.starts_with(part);
        let contains = |file: &&String| !file.starts_with(part) && file.contains(part);
        // A folder that is written out stands for what is in it.
        let more = |file: &&String| !file.ends_with('/') || file.as_str() != part;
        let fits = self.files.iter().filter(begins).filter(more).chain(self.files.iter().filter(contains));
        let about = |file: &str| if file.ends_with('/') { "a folder" } else { "a file; :10-20 names lines" };
        // A name with spaces stands between quotes, so that its end is known.
        let named = |file: &str| match file.contains(char::is_whitespace) {
            true => format!("@\"{file}\"{lines}"),
            false => format!("@{file}{lines}"),
        };
        fits.take(OFFERED).map(|file| (named(file), about(file).to_owned())).collect()
    }

    /// True when the word before the cursor names a file: then the names are needed.
    pub fn wants_files(&self) -> bool {
        self.word_from().is_some_and(|from| self.text[from..self.cursor].starts_with('@'))
    }

    /// Where the word before the cursor begins; none for what is longer than any word.
    fn word_from(&self) -> Option<usize> {
        let start = self.text.floor_char_boundary(self.cursor.saturating_sub(LONGEST));
        let mut near = self.text[start..self.cursor].char_indices();
        let space = near.rfind(|(_, c)| c.is_whitespace()).map(|(at, c)| start + at + c.len_utf8());
        space.or((start == 0).then_some(0))
    }

    fn before(&self) -> usize {
        self.text[..self.cursor].grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        self.text[self.cursor..].graphemes(true).next().map_or(self.cursor, |first| self.cursor + first.len())
    }

    fn word_before(&self) -> usize {
        self.text[..self.cursor].unicode_word_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn word_after(&self) -> usize {
        let rest = &self.text[self.cursor..];
        let end = rest.unicode_word_indices().next().map_or(rest.len(), |(at, word)| at + word.len());
        self.cursor + end
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    /// The byte position of a column of a line.
    fn at_column(&self, start: usize, end: usize, column: usize) -> usize {
        let mut used = 0;
        for (at, grapheme) in self.text[start..end].grapheme_indices(true) {
            if used >= column {
                return start + at;
            }
            used += width(grapheme);
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pasted_block_is_never_a_command() {
        let mut composer = Composer::default();
        composer.paste("/quit\nnow");
        assert!(!composer.is_command());
        composer.take();
        composer.up();
        assert_eq!(
            (composer.text.as_str(), composer.is_command()),
            ("/quit\nnow", false),
            "nor when recalled"
        );
        composer.clear();
        composer.insert("/");
        composer.paste("quit");
        assert!(composer.is_command(), "the slash was typed");
        composer.clear();
        composer.insert("x");
        let _ = composer.edit(KeyCode::Home.into());
        composer.paste("/quit ");
        assert!(!composer.is_command());
    }

    #[test]
    fn a_long_paste_is_one_mark_that_opens_and_is_sent_whole() {
        let mut composer = Composer::default();
        let log = "line\n".repeat(300);
        composer.insert("why? ");
        composer.paste(&log);
        composer.insert(" thanks");
        assert_eq!(composer.text.chars().count(), "why? ".len() + 1 + " thanks".len());
        assert_eq!(composer.whole(), format!("why? {log} thanks"));
        composer.cursor = "why? ".len() + '\u{100000}'.len_utf8();
        assert_eq!(composer.mark("\u{100000}").unwrap(), "[pasted 300 lines; Tab opens]");
        assert!(composer.unfold() && !composer.unfold());
        assert_eq!(composer.take(), format!("why? {log} thanks"));
        composer.paste("\u{100000}");
        assert_eq!(composer.take(), "\u{FFFD}", "a mark is never pasted");
    }

    #[test]
    fn the_cursor_goes_by_graphemes_lines_and_words() {
        let mut composer = Composer::default();
        composer.insert("e\u{301}日");
        let _ = composer.edit(KeyCode::Left.into());
        let _ = composer.edit(KeyCode::Backspace.into());
        assert_eq!((composer.text.as_str(), composer.cursor), ("日", 0));
        composer.clear();
        composer.insert("one two\nthree");
        composer.up();
        assert_eq!(composer.cursor, 5);
        let _ = composer.edit(KeyEvent::new(KeyCode::Char('w'), KeyModifiers::CONTROL));
        assert_eq!(composer.text, "one wo\nthree");
    }

    #[test]
    fn what_is_longer_than_a_word_is_not_completed() {
        let mut composer = Composer { files: vec!["é.md".into()], ..Composer::default() };
        composer.insert(&format!("@{}", "é".repeat(LONGEST)));
        assert!(composer.offer.is_none() && !composer.wants_files());
        composer.insert(" @é");
        assert!(composer.offer.is_some() && composer.wants_files());
    }

    #[test]
    fn history_gives_back_the_draft() {
        let mut composer = Composer::default();
        for text in ["one", "two"] {
            composer.insert(text);
            composer.take();
        }
        composer.insert("/draft");
        composer.up();
        composer.up();
        assert_eq!(composer.text, "one");
        composer.down();
        composer.down();
        composer.down();
        assert_eq!((composer.text.as_str(), composer.is_command()), ("/draft", true));
    }

    #[test]
    fn files_and_commands_are_completed() {
        let mut composer =
            Composer { files: vec!["src/main.rs".into(), "my notes.md".into()], ..Composer::default() };
        composer.insert("look at @main");
        assert!(composer.accept());
        assert_eq!(composer.text, "look at @src/main.rs");
        composer.insert(" and @note");
        assert!(composer.accept());
        assert_eq!(composer.text, "look at @src/main.rs and @\"my notes.md\"");
        composer.clear();
        composer.insert("/he");
        assert!(composer.accept());
        assert_eq!(composer.text, "/help ");
    }
}

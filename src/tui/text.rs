//! Lines of styled text: made safe, measured in cells, cut and wrapped; knows nothing of what they say.

use std::borrow::Cow;

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::projection::safe_text;
use crate::projection::visible::{self, CELL_CHARS};

/// Width of a tab.
const TAB: &str = "    ";

/// Text of others, ready for cells: nothing that steers a terminal, tabs as spaces.
pub(super) fn clean(text: &str) -> String {
    tame(safe_text::safe(&unjoined(text)).replace('\t', TAB))
}

/// The same on one line.
pub(super) fn clean_line(text: &str) -> String {
    tame(safe_text::safe_line(&unjoined(text)).into_owned())
}

/// What a call does, on one line: nothing hidden, as where it is approved.
pub(super) fn bare_line(text: &str) -> String {
    visible::shown(text).split(['\n', '\t']).filter(|piece| !piece.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Text with everything visible that a terminal would act on, hide or move.
pub(super) fn bare(text: &str) -> String {
    visible::shown(text).replace('\t', "→   ")
}

/// Text in which no cell holds more than [`CELL_CHARS`] characters: more are only there to climb over the lines above.
pub(super) fn tame(text: String) -> String {
    if text.is_ascii() {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for grapheme in text.graphemes(true) {
        let mut before = None;
        for c in grapheme.chars().take(CELL_CHARS) {
            certain(c, before.replace(c), &mut out);
        }
    }
    out
}

/// A character whose width every terminal agrees on: flags become letters. What changes the look of an emoji goes with
/// the emoji before it, and is shown by its number after anything else, where it would only hide.
fn certain(c: char, before: Option<char>, out: &mut String) {
    match c {
        '\u{1F1E6}'..='\u{1F1FF}' => {
            out.extend(char::from_u32(u32::from(c) - 0x1_F1E6 + u32::from('A')));
        }
        '\u{FE0F}' | '\u{1F3FB}'..='\u{1F3FF}' if before.is_some_and(is_emoji) => {}
        '\u{FE0F}' | '\u{1F3FB}'..='\u{1F3FF}' => visible::escape(c, out),
        _ => out.push(c),
    }
}

fn is_emoji(c: char) -> bool {
    matches!(c, '\u{203C}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{2BFF}' | '\u{3030}' | '\u{303D}' | '\u{1F000}'..='\u{1FAFF}' | '\u{FE0F}')
}

/// Emoji that are joined stand side by side: how wide they are as one, terminals do not agree.
fn unjoined(text: &str) -> Cow<'_, str> {
    const JOINER: char = '\u{200D}';
    if !text.contains(JOINER) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let joins =
            c == JOINER && out.ends_with(is_emoji) && chars.peek().is_some_and(|next| is_emoji(*next));
        if !joins {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Cells a text takes.
pub(super) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The text, at most `room` cells wide; what is cut is marked.
pub(super) fn cut(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    if room == 0 {
        return String::new();
    }
    let mut out = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        let cells = width(grapheme);
        if used + cells >= room {
            break;
        }
        out.push_str(grapheme);
        used += cells;
    }
    out.push('…');
    out
}

/// Where lines break and what stands before them.
#[derive(Clone, Debug, Default)]
pub(super) struct Wrap {
    /// Cells of a whole line, prefixes included.
    pub width: usize,
    /// Before the first line.
    pub first: Vec<Span<'static>>,
    /// Before the others.
    pub rest: Vec<Span<'static>>,
    /// Breaks anywhere, and keeps spaces: for code and commands.
    pub anywhere: bool,
}

impl Wrap {
    /// Lines without prefixes.
    pub fn to(width: usize) -> Self {
        Wrap { width, ..Wrap::default() }
    }

    /// The same with a prefix before the first line and one before the others.
    pub fn with(mut self, first: Vec<Span<'static>>, rest: Vec<Span<'static>>) -> Self {
        (self.first, self.rest) = (first, rest);
        self
    }

    /// The same with one prefix before every line.
    pub fn barred(self, bar: Vec<Span<'static>>) -> Self {
        self.with(bar.clone(), bar)
    }

    /// The same, breaking anywhere.
    pub fn anywhere(mut self) -> Self {
        self.anywhere = true;
        self
    }

    /// Breaks one line.
    pub fn line(&self, pieces: &[(Style, &str)], out: &mut Vec<Line<'static>>) {
        let mut writer = Writer::new(self);
        for (style, text) in pieces {
            for token in tokens(text, self.anywhere) {
                // A mark that colours part from its letter has no cell, and would be dropped unseen.
                match self.anywhere && width(token) == 0 {
                    true => writer.token(*style, &visible::numbers(token)),
                    false => writer.token(*style, token),
                }
            }
        }
        out.append(&mut writer.end());
    }

    /// Breaks a text of many lines.
    pub fn text(&self, style: Style, text: &str, out: &mut Vec<Line<'static>>) {
        let mut lines = text.lines();
        let Some(first) = lines.next() else { return };
        self.line(&[(style, first)], out);
        let rest = Wrap { first: self.rest.clone(), ..self.clone() };
        lines.for_each(|line| rest.line(&[(style, line)], out));
    }
}

/// Words and the spaces between them; single cells where a line may break anywhere.
fn tokens(text: &str, anywhere: bool) -> Vec<&str> {
    if anywhere {
        return text.graphemes(true).collect();
    }
    let mut tokens = Vec::new();
    let (mut from, mut before) = (0, None);
    for (at, grapheme) in text.grapheme_indices(true) {
        let class = (grapheme == " ", width(grapheme) > 1);
        // Scripts of wide characters have no spaces: a line may break before and after each of them.
        if before.is_some_and(|before| before != class || class.1) {
            tokens.push(&text[from..at]);
            from = at;
        }
        before = Some(class);
    }
    tokens.push(&text[from..]);
    tokens
}

struct Writer<'a> {
    wrap: &'a Wrap,
    lines: Vec<Line<'static>>,
    spans: Vec<Span<'static>>,
    /// Cells of the line so far, and of its prefix.
    used: usize,
    prefix: usize,
    /// Spaces that are written only if a word follows.
    gap: Option<(Style, String)>,
}

impl<'a> Writer<'a> {
    fn new(wrap: &'a Wrap) -> Self {
        let mut writer = Writer { wrap, lines: Vec::new(), spans: Vec::new(), used: 0, prefix: 0, gap: None };
        writer.begin(&wrap.first);
        writer
    }

    fn begin(&mut self, prefix: &[Span<'static>]) {
        self.spans = prefix.to_vec();
        self.prefix = prefix.iter().map(Span::width).sum();
        self.used = self.prefix;
    }

    fn break_line(&mut self) {
        self.lines.push(Line::from(std::mem::take(&mut self.spans)));
        self.begin(&self.wrap.rest);
    }

    fn token(&mut self, style: Style, token: &str) {
        if !self.wrap.anywhere && token.chars().all(|c| c == ' ') {
            self.gap = Some((style, token.to_owned()));
            return;
        }
        let gap = self.gap.take();
        let gap_cells = gap.as_ref().map_or(0, |(_, text)| text.len());
        let cells = width(token);
        let fits = self.used + gap_cells + cells <= self.wrap.width;
        let whole_elsewhere = cells <= self.wrap.width.saturating_sub(self.prefix);
        let no_room_for_gap = self.used + gap_cells >= self.wrap.width;
        if !fits && self.used > self.prefix && (whole_elsewhere || no_room_for_gap) {
            self.break_line();
        } else if let Some((style, text)) = gap {
            self.push(style, &text);
        }
        match self.used + cells <= self.wrap.width {
            true => self.push(style, token),
            false => token.graphemes(true).for_each(|grapheme| self.grapheme(style, grapheme)),
        }
    }

    fn grapheme(&mut self, style: Style, grapheme: &str) {
        if self.used + width(grapheme) > self.wrap.width && self.used > self.prefix {
            self.break_line();
        }
        self.push(style, grapheme);
    }

    fn push(&mut self, style: Style, text: &str) {
        self.used += width(text);
        match self.spans.last_mut() {
            Some(last) if last.style == style => last.content.to_mut().push_str(text),
            _ => self.spans.push(Span::styled(text.to_owned(), style)),
        }
    }

    fn end(mut self) -> Vec<Line<'static>> {
        self.lines.push(Line::from(std::mem::take(&mut self.spans)));
        self.lines
    }
}

/// Marks every place of a line that has a phrase, whatever its case.
pub(super) fn mark(line: &mut Line<'static>, phrase: &str, style: Style) {
    let (text, phrase) = (line.to_string(), phrase.to_lowercase());
    // Letters that change their length with their case are left as they are.
    let lower = text.to_lowercase();
    if phrase.is_empty() || lower.len() != text.len() || !lower.contains(&phrase) {
        return;
    }
    let places: Vec<_> = lower.match_indices(&phrase).map(|(at, _)| at..at + phrase.len()).collect();
    let mut spans = Vec::with_capacity(line.spans.len() + 2 * places.len());
    let mut from = 0;
    for span in line.spans.drain(..) {
        let (mut rest, end) = (span.content.as_ref(), from + span.content.len());
        while !rest.is_empty() {
            let at = end - rest.len();
            let is_in = places.iter().any(|place| place.contains(&at));
            let edges = places.iter().flat_map(|place| [place.start, place.end]);
            let next = edges.filter(|edge| *edge > at).min().unwrap_or(end).min(end);
            let Some((piece, after)) = rest.split_at_checked(next - at) else { break };
            let look = if is_in { span.style.patch(style) } else { span.style };
            spans.push(Span::styled(piece.to_owned(), look));
            rest = after;
        }
        if !rest.is_empty() {
            spans.push(Span::styled(rest.to_owned(), span.style));
        }
        from = end;
    }
    line.spans = spans;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, width: usize) -> Vec<String> {
        let mut out = Vec::new();
        Wrap::to(width).text(Style::new(), text, &mut out);
        out.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn words_stay_whole_where_they_can() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("unbreakable", 4), ["unbr", "eaka", "ble"]);
        assert_eq!(wrapped("a\n\nb", 4), ["a", "", "b"]);
    }

    #[test]
    fn wide_characters_count_two_cells() {
        assert_eq!(wrapped("日本語日本語", 5), ["日本", "語日", "本語"]);
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 6), "日本語");
    }

    #[test]
    fn what_terminals_measure_differently_is_written_so_that_they_do_not() {
        assert_eq!(clean("🇩🇪 and 🇪"), "DE and E");
        assert_eq!(clean("👩\u{200D}👩\u{200D}👧 ❤\u{FE0F}\u{200D}🔥"), "👩👩👧 ❤🔥");
        assert_eq!(clean_line("👍🏽!"), "👍!");
        assert_eq!(clean("a\u{200D}b"), "a<U+200D>b");
        assert_eq!(
            clean("sh bu\u{FE0F}ild\u{1F3FB}"),
            "sh bu<U+FE0F>ild<U+1F3FB>",
            "only after an emoji they are looks"
        );
    }

    #[test]
    fn no_line_is_wider_than_its_room() {
        for room in 1..40 {
            for line in wrapped("a 日本 b👩‍👩‍👧‍👦c e\u{301}\u{301} unbreakable-word  x", room)
            {
                assert!(width(&line) <= room.max(2), "{line:?} in {room}");
            }
        }
    }
}

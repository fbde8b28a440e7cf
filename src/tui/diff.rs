//! Unified diffs and code, line by line: the sign of each line says what it is, colours only help.

mod words;

use std::ops::Range;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::projection::changes::is_diff;

use super::highlight::Painter;
use super::text::Wrap;
use super::theme::{Side, Theme, Tone};

/// A line of the new side: file and number, from 1.
pub(super) type Spot<'a> = (&'a str, u32);

/// A unified diff, every line told apart by its sign and its colour.
pub(super) fn diff(theme: Theme, text: &str, wrap: &Wrap, out: &mut Vec<Line<'static>>) {
    diff_beside(theme, text, wrap, out, |_, _| {});
}

/// The same; after each line of the new side, what stands beside it can be added.
pub(super) fn diff_beside<'t>(
    theme: Theme,
    text: &'t str,
    wrap: &Wrap,
    out: &mut Vec<Line<'static>>,
    mut beside: impl FnMut(Spot<'t>, &mut Vec<Line<'static>>),
) {
    let mut sides: Option<(Painter, Painter)> = None;
    let (mut file, mut hunk) = ("", Hunk::default());
    let marks = words::marks(text);
    // What one line has no room for must not pass for a line with a sign of its own.
    let mut wrap = wrap.clone();
    wrap.rest.push(Span::styled("↳", theme.style(Tone::Quiet)));
    for (nth, line) in text.lines().enumerate() {
        let is_counted = hunk.takes(line);
        if !is_counted && (line.starts_with("--- ") || line.starts_with("+++ ")) {
            sides = Some(painters(theme, line));
            file = path(line);
            wrap.line(&[(theme.style(Tone::Strong), line)], out);
            continue;
        }
        let (sign, rest) = line.split_at(line.chars().next().map_or(0, char::len_utf8));
        let side = match sign {
            "+" => Some(Side::Added),
            "-" => Some(Side::Removed),
            "@" => {
                wrap.line(&[(theme.style(Tone::Code), line)], out);
                continue;
            }
            _ => None,
        };
        let pieces = match &mut sides {
            Some((_, new)) if sign == "+" => new.line(Tone::Text, rest),
            Some((old, _)) if sign == "-" => old.line(Tone::Text, rest),
            // What is on both sides moves both on.
            Some((old, new)) => {
                let _ = old.line(Tone::Text, rest);
                new.line(Tone::Text, rest)
            }
            None => vec![(theme.style(Tone::Text), rest)],
        };
        match side {
            Some(side) => {
                let marks = marks.get(&nth).map(Vec::as_slice).unwrap_or_default();
                changed(theme, side, (sign, rest), pieces, marks, &wrap, out);
            }
            None => {
                let mut whole = vec![(theme.style(Tone::Text), sign)];
                whole.extend(pieces);
                wrap.line(&whole, out);
            }
        }
        if is_counted && sign != "-" {
            beside((file, hunk.line - 1), out);
        }
    }
}

/// A line that was added or removed, its background to the edge.
fn changed<'a>(
    theme: Theme,
    side: Side,
    (sign, rest): (&'a str, &'a str),
    pieces: Vec<(Style, &'a str)>,
    marks: &[Range<usize>],
    wrap: &Wrap,
    out: &mut Vec<Line<'static>>,
) {
    let plain = theme.on_side(Style::new(), side, false);
    let mut whole = vec![(theme.on_side(theme.style(Tone::Strong), side, false), sign)];
    let mut at = 0;
    for (style, text) in pieces {
        let end = at + text.len();
        // A piece is cut where a mark begins or ends.
        while at < end {
            let mark = marks.iter().find(|mark| mark.end > at);
            let is_marked = mark.is_some_and(|mark| mark.contains(&at));
            let to = mark.map_or(end, |mark| if is_marked { mark.end } else { mark.start }).min(end);
            whole.push((theme.on_side(style, side, is_marked), &rest[at..to]));
            at = to;
        }
    }
    let from = out.len();
    wrap.line(&whole, out);
    if plain.bg.is_some() {
        for line in &mut out[from..] {
            let room = wrap.width.saturating_sub(line.width());
            line.spans.push(Span::styled(" ".repeat(room), plain));
        }
    }
}

/// What is still to come of a hunk that says how long it is: within it nothing is a heading, whatever it looks like.
#[derive(Default)]
struct Hunk {
    old: u32,
    new: u32,
    /// The number of the line to come on the new side.
    line: u32,
}

impl Hunk {
    /// True when a line is one of the hunk's; else it may begin one.
    fn takes(&mut self, line: &str) -> bool {
        let (old, new) = match line.as_bytes().first() {
            Some(b'+') => (0, 1),
            Some(b'-') => (1, 0),
            Some(b' ') | None => (1, 1),
            Some(b'\\') => return false,
            _ => (u32::MAX, u32::MAX),
        };
        let (Some(old_left), Some(new_left)) = (self.old.checked_sub(old), self.new.checked_sub(new)) else {
            *self = Hunk::begun(line).unwrap_or_default();
            return false;
        };
        *self = Hunk { old: old_left, new: new_left, line: self.line.saturating_add(new) };
        true
    }

    /// What `@@ -2,5 +2,6 @@` announces.
    fn begun(line: &str) -> Option<Hunk> {
        let (old, new) = line.strip_prefix("@@ -")?.split_once(" @@")?.0.split_once(" +")?;
        let range = |text: &str| -> Option<(u32, u32)> {
            let (from, count) = text.split_once(',').unwrap_or((text, "1"));
            Some((from.parse().ok()?, count.parse().ok()?))
        };
        let ((_, old), (line, new)) = (range(old)?, range(new)?);
        Some(Hunk { old, new, line })
    }
}

/// The file that `--- a/src/x.rs` and `+++ b/src/x.rs` name.
fn path(line: &str) -> &str {
    let path = line.get(4..).unwrap_or_default().split('\t').next().unwrap_or_default();
    path.strip_prefix("a/").or(path.strip_prefix("b/")).unwrap_or(path).trim_end()
}

/// Painters of the old and the new side, by the ending of the file's name.
fn painters(theme: Theme, line: &str) -> (Painter, Painter) {
    let ending = path(line).rsplit('/').next().and_then(|name| name.rsplit_once('.'));
    let painter = Painter::of(theme, ending.map_or("", |(_, end)| end));
    (painter.clone(), painter)
}

/// Code of a language.
pub(super) fn code(painter: Painter, is_a_diff: bool, text: &str, wrap: &Wrap, out: &mut Vec<Line<'static>>) {
    if is_a_diff || is_diff(text) {
        return diff(painter.theme(), text, wrap, out);
    }
    let mut painter = painter;
    for line in text.lines() {
        wrap.line(&painter.line(Tone::Text, line), out);
    }
}

/// A prefix of one span.
pub(super) fn prefix(theme: Theme, tone: Tone, text: &str) -> Vec<Span<'static>> {
    vec![Span::styled(text.to_owned(), theme.style(tone))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_line_that_looks_like_a_heading_is_removed_and_lines_are_counted() {
        let text =
            "--- a/q.sql\n+++ b/q.sql\n@@ -7,3 +7,2 @@\n a\n--- old\n b\n@@ -20 +19,2 @@\n c\n+++ new\n";
        let (mut out, mut spots) = (Vec::new(), Vec::new());
        diff_beside(Theme::Dark, text, &Wrap::to(40), &mut out, |spot, _| spots.push(spot));
        assert_eq!(spots, [("q.sql", 7), ("q.sql", 8), ("q.sql", 19), ("q.sql", 20)]);
        let removed = Theme::Dark.on_side(Theme::Dark.style(Tone::Strong), Side::Removed, false);
        assert_eq!(out[4].spans[0].style, removed, "{:?}", out[4]);
        assert_eq!(out.len(), text.lines().count());
    }
    #[test]
    fn a_changed_line_has_its_ground_to_the_edge_and_what_differs_stands_out() {
        let text = "--- a/q.sh\n+++ b/q.sh\n@@ -1,1 +1,1 @@\n-echo \"one\" # said\n+echo \"two\" # said\n";
        for theme in [Theme::Dark, Theme::Light, Theme::DarkFew, Theme::LightFew, Theme::Plain] {
            let mut out = Vec::new();
            diff(theme, text, &Wrap::to(30), &mut out);
            for (line, side, word) in [(&out[3], Side::Removed, "one"), (&out[4], Side::Added, "two")] {
                let marked: String = line
                    .spans
                    .iter()
                    .filter(|span| {
                        let marked = theme.on_side(Style::new(), side, true);
                        (span.style.bg, span.style.add_modifier) == (marked.bg, marked.add_modifier)
                    })
                    .map(|span| span.content.as_ref())
                    .collect();
                assert_eq!(marked, word, "{theme:?} {line:?}");
                let ground = theme.on_side(Style::new(), side, false).bg;
                assert_eq!(line.width(), if ground.is_some() { 30 } else { 18 }, "{theme:?}");
            }
        }
    }
}

//! Unified diffs and code, line by line: the sign of each line says what it is, colours only help.

use ratatui::text::{Line, Span};

use super::highlight::Painter;
use super::text::Wrap;
use super::theme::{Theme, Tone};

/// A unified diff, every line told apart by its sign and its colour.
pub(super) fn diff(theme: Theme, text: &str, wrap: &Wrap, out: &mut Vec<Line<'static>>) {
    let mut sides: Option<(Painter, Painter)> = None;
    for line in text.lines() {
        if line.starts_with("--- ") || line.starts_with("+++ ") {
            sides = Some(painters(theme, line));
            wrap.line(&[(theme.style(Tone::Strong), line)], out);
            continue;
        }
        let (sign, rest) = line.split_at(line.chars().next().map_or(0, char::len_utf8));
        let (tone, plain) = match sign {
            "+" => (Tone::Good, Tone::Good),
            "-" => (Tone::Bad, Tone::Bad),
            "@" => {
                wrap.line(&[(theme.style(Tone::Code), line)], out);
                continue;
            }
            _ => (Tone::Text, Tone::Text),
        };
        let mut pieces = vec![(theme.style(tone), sign)];
        match &mut sides {
            Some((_, new)) if sign == "+" => pieces.extend(new.line(plain, rest)),
            Some((old, _)) if sign == "-" => pieces.extend(old.line(plain, rest)),
            // What is on both sides moves both on.
            Some((old, new)) => {
                let _ = old.line(plain, rest);
                pieces.extend(new.line(plain, rest));
            }
            None => pieces.push((theme.style(plain), rest)),
        }
        wrap.line(&pieces, out);
    }
}

/// Painters of the old and the new side, by the ending of the file's name.
fn painters(theme: Theme, line: &str) -> (Painter, Painter) {
    let path = line.get(4..).unwrap_or_default().split('\t').next().unwrap_or_default();
    let ending = path.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map_or("", |(_, end)| end);
    let painter = Painter::of(theme, ending.trim_end());
    (painter.clone(), painter)
}

/// True for a text that is a unified diff.
pub(super) fn is_diff(text: &str) -> bool {
    let mut lines = text.lines();
    lines.next().is_some_and(|line| line.starts_with("--- "))
        && lines.next().is_some_and(|line| line.starts_with("+++ "))
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

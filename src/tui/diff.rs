//! Unified diffs and code with a little colour: added, removed, place, comments and literals; parses no language.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::text::Wrap;
use super::theme::{Theme, Tone};

/// A unified diff, every line told apart by its sign and its colour.
pub(super) fn diff(theme: Theme, text: &str, wrap: &Wrap, out: &mut Vec<Line<'static>>) {
    for line in text.lines() {
        let tone = match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => Tone::Strong,
            Some(b'+') => Tone::Good,
            Some(b'-') => Tone::Bad,
            Some(b'@') => Tone::Code,
            _ => Tone::Text,
        };
        wrap.line(&[(theme.style(tone), line)], out);
    }
}

/// True for a text that is a unified diff.
pub(super) fn is_diff(text: &str) -> bool {
    let mut lines = text.lines();
    lines.next().is_some_and(|line| line.starts_with("--- "))
        && lines.next().is_some_and(|line| line.starts_with("+++ "))
}

/// Code of any language: comments and string literals stand out, nothing else does.
pub(super) fn code(theme: Theme, language: &str, text: &str, wrap: &Wrap, out: &mut Vec<Line<'static>>) {
    if language == "diff" || is_diff(text) {
        return diff(theme, text, wrap, out);
    }
    for line in text.lines() {
        wrap.line(&pieces(theme, language, line), out);
    }
}

/// How a language begins a comment that runs to the end of the line.
fn comment_of(language: &str) -> &'static [&'static str] {
    match language {
        "sh" | "bash" | "python" | "py" | "toml" | "yaml" | "ruby" | "make" | "dockerfile" => &["#"],
        "sql" | "lua" | "haskell" => &["--"],
        "json" | "text" | "txt" | "markdown" | "md" | "" => &[],
        _ => &["//"],
    }
}

fn pieces<'a>(theme: Theme, language: &str, line: &'a str) -> Vec<(Style, &'a str)> {
    let plain = theme.style(Tone::Text);
    let mut pieces = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(c) = line[at..].chars().next() {
        let at_word = line[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric());
        if at_word && comment_of(language).iter().any(|mark| line[at..].starts_with(mark)) {
            pieces.push((plain, &line[from..at]));
            pieces.push((theme.style(Tone::Comment), &line[at..]));
            return pieces;
        }
        if (c == '"' || c == '\'' && at_word)
            && let Some(end) = literal_end(&line[at..], c)
        {
            pieces.push((plain, &line[from..at]));
            pieces.push((theme.style(Tone::Literal), &line[at..at + end]));
            (from, at) = (at + end, at + end);
            continue;
        }
        at += c.len_utf8();
    }
    pieces.push((plain, &line[from..]));
    pieces
}

/// Bytes of the literal a text begins with, quotes included; none when it does not end on this line.
fn literal_end(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return Some(at + c.len_utf8()),
            _ => {}
        }
    }
    None
}

/// A prefix of one span.
pub(super) fn prefix(theme: Theme, tone: Tone, text: &str) -> Vec<Span<'static>> {
    vec![Span::styled(text.to_owned(), theme.style(tone))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toned(language: &str, line: &str) -> Vec<(String, bool)> {
        let plain = Theme::Dark.style(Tone::Text);
        let pieces = pieces(Theme::Dark, language, line);
        pieces.into_iter().filter(|p| !p.1.is_empty()).map(|(s, t)| (t.to_owned(), s != plain)).collect()
    }

    #[test]
    fn comments_and_literals_stand_out() {
        let of = |text: &str, marked| (text.to_owned(), marked);
        assert_eq!(
            toned("sh", "echo \"a # b\" # c"),
            [of("echo ", false), of("\"a # b\"", true), of(" ", false), of("# c", true)]
        );
        assert_eq!(toned("rust", "it's // so"), [of("it's ", false), of("// so", true)]);
        assert_eq!(toned("text", "an \"open end"), [of("an \"open end", false)]);
    }
}

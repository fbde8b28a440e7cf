//! Breaks words into lines of a width as a terminal counts it; knows no event and no terminal.

use std::borrow::Cow;

use textwrap::{Options, WordSplitter};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns that plain text for people keeps to.
pub const WIDTH: usize = 80;

/// The text in lines of at most `width` columns, broken at blanks; the text's own line breaks stay. A word that is
/// longer stands on a line of its own, whole.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let options = whole_words(width);
    text.lines().flat_map(|line| textwrap::wrap(line, &options)).map(Cow::into_owned).collect()
}

/// The same after an indent; `first` stands before the first line and is filled up with blanks before the others.
pub fn hanging(first: &str, text: &str, width: usize) -> String {
    let rest = " ".repeat(first.width());
    let options = whole_words(width.max(rest.len() + 20)).initial_indent(first).subsequent_indent(&rest);
    textwrap::wrap(text.trim_end(), options).iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn whole_words<'a>(width: usize) -> Options<'a> {
    Options::new(width).break_words(false).word_splitter(WordSplitter::NoHyphenation)
}

/// One line in rows of at most `columns`, the first after `at` columns that are taken, the others after an indent,
/// broken at blanks where there are any: where a terminal would break the line by itself, what others wrote would
/// begin a row.
pub fn broken(line: &str, at: usize, indent: usize, columns: usize) -> String {
    let indent = indent.min(columns / 2);
    let mut out = String::with_capacity(line.len());
    let (mut rest, mut taken) = (line.trim_end_matches(' '), at);
    while let Some(end) = row_end(rest, taken, columns) {
        out.push_str(&rest[..end]);
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent));
        (rest, taken) = (&rest[end..], indent);
        rest = rest.strip_prefix(' ').unwrap_or(rest);
    }
    out + rest
}

/// Where a row ends that is too long: before its last blank between words, or where there is no more room. At least
/// one character is taken.
fn row_end(text: &str, taken: usize, columns: usize) -> Option<usize> {
    let (mut at, mut has_word, mut blank) = (taken, false, None);
    for (place, c) in text.char_indices() {
        at += match c {
            '\t' => (8 - at % 8).min(columns.saturating_sub(at + 1)),
            // It may widen what stands before it.
            '\u{FE0F}' => 1,
            c => c.width().unwrap_or(0),
        };
        if c == ' ' && has_word {
            blank = Some(place);
        }
        if at > columns && place > 0 {
            return Some(blank.unwrap_or(place));
        }
        has_word |= !matches!(c, ' ' | '\t');
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_blanks_and_wide_characters_count_twice() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a b\n\nc", 9), ["a b", "", "c"]);
        assert_eq!(wrapped("日本語 日本語", 8), ["日本語", "日本語"]);
        assert_eq!(wrapped("a unbreakableword b", 5), ["a", "unbreakableword", "b"]);
        assert_eq!(wrapped("", 5), Vec::<String>::new());
    }

    #[test]
    fn a_line_is_broken_before_the_terminal_does_it_and_no_row_begins_with_what_others_wrote() {
        assert_eq!(broken("abcdef", 2, 1, 6), "abcd\n ef");
        assert_eq!(broken("日本語", 0, 2, 5), "日本\n  語");
        assert_eq!(broken("a\tb", 0, 2, 8), "a\tb");
        assert_eq!(broken("a\tbc", 0, 2, 8), "a\tb\n  c");
        assert_eq!(broken("☀\u{FE0F}x", 0, 1, 2), "☀\u{FE0F}\n x");
        assert_eq!(broken("one two three ", 2, 1, 9), "one two\n three");
        assert_eq!(broken("    note: x", 0, 2, 6), "    no\n  te:\n  x");
        assert_eq!(broken("", 9, 2, 3), "");
    }

    #[test]
    fn later_lines_hang_below_the_first_word() {
        assert_eq!(
            hanging("  - ", "one two three four five six seven", 24),
            "  - one two three four\n    five six seven\n"
        );
    }
}

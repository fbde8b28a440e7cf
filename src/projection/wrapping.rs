//! Breaks words into lines of a width as a terminal counts it; knows no event and no terminal.

use std::borrow::Cow;

use textwrap::{Options, WordSplitter};
use unicode_width::UnicodeWidthStr;

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

/// One line in rows of at most `columns`, the first after `at` columns that are taken, the others after an indent:
/// where a terminal would break the line by itself, what others wrote would begin a row.
pub fn broken(line: &str, at: usize, indent: usize, columns: usize) -> String {
    // Terminals differ in how wide these are.
    let columns = columns.saturating_sub(line.matches('\u{FE0F}').count()).max(2);
    let (taken, indent) = (" ".repeat(at), " ".repeat(indent.min(columns / 2)));
    let options = Options::new(columns).word_splitter(WordSplitter::NoHyphenation);
    let options = options.initial_indent(&taken).subsequent_indent(&indent);
    let rows = textwrap::wrap(&line.replace('\t', "    "), options).join("\n");
    rows.get(at..).unwrap_or_default().to_owned()
}

fn whole_words<'a>(width: usize) -> Options<'a> {
    Options::new(width).break_words(false).word_splitter(WordSplitter::NoHyphenation)
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
        assert_eq!(broken("abcdef", 1, 1, 5), "abcd\n ef");
        assert_eq!(broken("日本語", 0, 2, 5), "日本\n  語");
        assert_eq!(broken("a\tb", 0, 2, 8), "a    b");
        assert!(broken(&"☀\u{FE0F}".repeat(15), 0, 1, 20).lines().all(|row| row.chars().count() <= 20));
        assert_eq!(broken("one two three ", 2, 1, 9), "one two\n three");
        assert_eq!(broken("  a note: x", 0, 2, 6), "  a\n  note\n  : x");
        assert_eq!(broken("  a  b", 0, 2, 8), "  a  b");
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

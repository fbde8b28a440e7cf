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
    fn later_lines_hang_below_the_first_word() {
        assert_eq!(
            hanging("  - ", "one two three four five six seven", 24),
            "  - one two three four\n    five six seven\n"
        );
    }
}

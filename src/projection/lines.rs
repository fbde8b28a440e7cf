//! Breaks words into lines of a width as a terminal counts it; knows no event and no terminal.

use unicode_width::UnicodeWidthStr;

/// Columns that plain text for people keeps to.
pub const WIDTH: usize = 80;

/// The text in lines of at most `width` columns, broken at blanks; the text's own line breaks stay. A word that is
/// longer stands on a line of its own, whole.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    text.lines().flat_map(|line| one(line, width)).collect()
}

/// The same after an indent; `first` stands before the first line and is filled up with blanks before the others.
pub fn hanging(first: &str, text: &str, width: usize) -> String {
    let indent = first.width();
    let lines = wrapped(text, width.saturating_sub(indent).max(20));
    let mut out = String::new();
    for (n, line) in lines.iter().enumerate() {
        let before = if n == 0 { first.to_owned() } else { " ".repeat(indent) };
        out.push_str(format!("{before}{line}").trim_end());
        out.push('\n');
    }
    out
}

fn one(line: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = String::new();
    for word in line.split(' ').filter(|word| !word.is_empty()) {
        if !open.is_empty() && open.width() + 1 + word.width() > width {
            lines.push(std::mem::take(&mut open));
        }
        if !open.is_empty() {
            open.push(' ');
        }
        open.push_str(word);
    }
    lines.push(open);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_blanks_and_wide_characters_count_twice() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a  b\n\nc", 9), ["a b", "", "c"]);
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

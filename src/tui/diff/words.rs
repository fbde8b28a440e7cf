//! What differs within the lines of a diff: each removed line against the added one in its place, word by word.

use std::collections::BTreeMap;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// The most lines of one change that are compared, and the most bytes of a line.
const LINES: usize = 100;
const BYTES: usize = 500;

/// Pieces of a line, in bytes.
type Pieces = Vec<Range<usize>>;

/// By number of the line from 0, the bytes after its sign that are not on the other side. Lines that have less than half
/// in common are not marked: all of them is new.
pub(super) fn marks(text: &str) -> BTreeMap<usize, Pieces> {
    let lines: Vec<&str> = text.lines().collect();
    let run = |from: usize, sign: char| {
        let len = lines[from..].iter().take_while(|line| line.starts_with(sign)).count();
        from..from + len
    };
    let (mut marks, mut at) = (BTreeMap::new(), 0);
    while at < lines.len() {
        let old = run(at, '-');
        let new = run(old.end, '+');
        at = new.end.max(at + 1);
        if old.len() > LINES || new.len() > LINES {
            continue;
        }
        for (old, new) in old.zip(new) {
            if let Some((gone, come)) = differing(&lines[old][1..], &lines[new][1..]) {
                marks.insert(old, gone);
                marks.insert(new, come);
            }
        }
    }
    marks
}

/// The pieces of two lines that are on one side only; none where the lines have little in common.
fn differing(old: &str, new: &str) -> Option<(Pieces, Pieces)> {
    if old.len().max(new.len()) > BYTES {
        return None;
    }
    let (words, others) = (words(old), words(new));
    let text = |line: &'_ str, words: &[Range<usize>]| -> Vec<String> {
        words.iter().map(|word| line[word.clone()].to_owned()).collect()
    };
    let ops = capture_diff_slices(Algorithm::Myers, &text(old, &words), &text(new, &others));
    let span = |words: &[Range<usize>], at: Range<usize>| {
        let (first, last) = (words.get(at.start)?, words.get(at.end.checked_sub(1)?)?);
        (!at.is_empty()).then_some(first.start..last.end)
    };
    let (mut gone, mut come, mut common) = (Vec::new(), Vec::new(), 0);
    for op in ops {
        match op {
            DiffOp::Equal { old_index, len, .. } => {
                let same = words[old_index..old_index + len].iter();
                common += same.map(|word| old[word.clone()].trim().len()).sum::<usize>();
            }
            _ => {
                gone.extend(span(&words, op.old_range()));
                come.extend(span(&others, op.new_range()));
            }
        }
    }
    let bytes = |line: &str| line.bytes().filter(|byte| !byte.is_ascii_whitespace()).count();
    (2 * common >= bytes(old).max(bytes(new))).then_some((gone, come))
}

/// Names, numbers, runs of blanks, and every other character by itself.
fn words(line: &str) -> Vec<Range<usize>> {
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 1,
        c if c.is_whitespace() => 2,
        _ => 0,
    };
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut before = 0;
    for (at, c) in line.char_indices() {
        let end = at + c.len_utf8();
        match words.last_mut().filter(|_| kind(c) != 0 && kind(c) == before) {
            Some(word) => word.end = end,
            None => words.push(at..end),
        }
        before = kind(c);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str) -> Vec<(usize, Vec<&str>)> {
        let lines: Vec<&str> = text.lines().collect();
        let words = |(nth, ranges): (usize, Vec<Range<usize>>)| {
            (nth, ranges.into_iter().map(|range| &lines[nth][1..][range]).collect())
        };
        marks(text).into_iter().map(words).collect()
    }

    #[test]
    fn words_that_differ_are_marked_in_lines_that_are_alike() {
        let text = " a\n-let total = rows.len();\n-other words\n+let count = rows.len() + 1;\n+nothing of that kind\n b\n+new\n";
        assert_eq!(marked(text), [(1, vec!["total"]), (3, vec!["count", " + 1"])]);
        assert_eq!(marked("-é日本x = 1\n+é日本x = 2\n"), [(0, vec!["1"]), (1, vec!["2"])]);
        assert_eq!(marked("-\n+\n"), [(0, vec![]), (1, vec![])]);
    }

    #[test]
    fn what_is_long_is_not_compared() {
        let long = format!("-{}\n+{}b\n", "a ".repeat(400), "a ".repeat(400));
        assert!(marks(&long).is_empty());
        let many = "-a b\n".repeat(101) + &"+a c\n".repeat(101);
        assert!(marks(&many).is_empty());
    }
}

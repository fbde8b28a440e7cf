//! Replacements in a text, each unambiguous; knows no file.

use schemars::JsonSchema;
use serde::Deserialize;

/// Most places an error lists.
const LISTED: usize = 10;
/// Lines longer than this are not compared when the closest one is looked for.
const COMPARED: usize = 400;

/// One replacement.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The text to replace, exactly as it stands in the file, without line numbers.
    pub old: String,
    /// The text that takes its place.
    pub new: String,
    /// Replace every occurrence instead of exactly one; default false.
    #[serde(default)]
    pub replace_all: Option<bool>,
}

/// Applies all edits in order, or says which one does not fit and why.
pub fn apply(text: &str, edits: &[Edit]) -> Result<String, String> {
    let mut text = text.to_owned();
    for (number, edit) in (1..).zip(edits) {
        text = apply_one(&text, edit).map_err(|error| match edits.len() {
            1 => error,
            count => format!("edit {number} of {count}: {error}; nothing was written"),
        })?;
    }
    Ok(text)
}

fn apply_one(text: &str, edit: &Edit) -> Result<String, String> {
    if edit.old.is_empty() {
        return Err("`old` is empty; use write_file for a whole file".to_owned());
    }
    if edit.old == edit.new {
        return Err("`old` and `new` are the same".to_owned());
    }
    let (old, new) = with_line_ends_of(text, edit);
    let places = places(text, &old);
    match places.as_slice() {
        [] => Err(format!("`old` does not occur; {}", closest(text, &old))),
        [_] => Ok(text.replacen(&old, &new, 1)),
        _ if edit.replace_all == Some(true) => Ok(text.replace(&old, &new)),
        many => Err(ambiguous(text, many)),
    }
}

/// A file with `\r\n` is edited with `\r\n`, though a model writes `\n`.
fn with_line_ends_of(text: &str, edit: &Edit) -> (String, String) {
    if text.contains(&edit.old) || !text.contains("\r\n") || edit.old.contains('\r') {
        return (edit.old.clone(), edit.new.clone());
    }
    (edit.old.replace('\n', "\r\n"), edit.new.replace("\r\n", "\n").replace('\n', "\r\n"))
}

/// Byte offsets of every occurrence, overlapping ones included: they too make an edit ambiguous.
fn places(text: &str, old: &str) -> Vec<usize> {
    let step = old.chars().next().map_or(1, char::len_utf8);
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(old)) {
        places.push(from + at);
        from += at + step;
    }
    places
}

fn ambiguous(text: &str, places: &[usize]) -> String {
    let lines: Vec<String> = places.iter().take(LISTED).map(|at| (line_of(text, *at)).to_string()).collect();
    let more = if places.len() > LISTED { ", …" } else { "" };
    format!(
        "`old` occurs {} times, at lines {}{more}; add lines around it until it is unique, or set replace_all",
        places.len(),
        lines.join(", ")
    )
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The line most like the first telling line of `old`, so that a model sees what it got wrong.
fn closest(text: &str, old: &str) -> String {
    let wanted = old.lines().find(|line| !line.trim().is_empty()).unwrap_or(old);
    let likeness = |line: &str| match line.len() <= COMPARED && wanted.len() <= COMPARED {
        true => (strsim::normalized_levenshtein(line.trim(), wanted.trim()) * 1000.0) as u32,
        false => 0,
    };
    let best = (1..)
        .zip(text.lines())
        .map(|(number, line)| (likeness(line), number, line))
        .reduce(|best: (u32, u32, &str), next| if next.0 > best.0 { next } else { best });
    match best {
        Some((1000, number, line)) if line != wanted => {
            format!("line {number} differs from its first line in whitespace only: {line:?}")
        }
        Some((1000, number, _)) => {
            format!("its first line is line {number}, but what follows there is different; read it again")
        }
        Some((likeness, number, line)) if likeness >= 500 => {
            format!("the closest line is {number}: {line:?}")
        }
        _ => "no line comes close; read the file again".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(old: &str, new: &str) -> Edit {
        Edit { old: old.into(), new: new.into(), replace_all: None }
    }

    #[test]
    fn edits_build_on_each_other() {
        let edits = [edit("one", "two three"), edit("three", "four")];
        assert_eq!(apply("one\n", &edits).unwrap(), "two four\n");
    }

    #[test]
    fn ambiguity_names_the_lines() {
        let error = apply("a\nb\na\naa\n", &[edit("a", "c")]).unwrap_err();
        assert!(error.contains("4 times, at lines 1, 3, 4, 4"), "{error}");
        assert!(apply("aaa", &[edit("aa", "b")]).unwrap_err().contains("2 times"));
        let all = Edit { replace_all: Some(true), ..edit("a", "c") };
        assert_eq!(apply("a\nb\na\n", &[all]).unwrap(), "c\nb\nc\n");
    }

    #[test]
    fn a_miss_names_the_closest_line() {
        let text = "fn main() {\n    let total = 1;\n}\n";
        let error = apply(text, &[edit("let totals = 1;", "x")]).unwrap_err();
        assert!(error.contains("closest line is 2"), "{error}");
        let error = apply(text, &[edit("  let total = 1;\n  }", "x")]).unwrap_err();
        assert!(error.contains("line 2 differs from its first line in whitespace only"), "{error}");
        assert!(
            apply(text, &[edit("completely other words", "x")]).unwrap_err().contains("no line comes close")
        );
        assert!(apply("", &[edit("x", "y")]).unwrap_err().contains("no line comes close"));
    }

    #[test]
    fn line_ends_of_the_file_win() {
        assert_eq!(apply("a\r\nb\r\nc\r\n", &[edit("a\nb", "x\ny")]).unwrap(), "x\r\ny\r\nc\r\n");
    }

    #[test]
    fn an_edit_that_does_nothing_is_an_error() {
        assert!(apply("a", &[edit("", "b")]).unwrap_err().contains("empty"));
        assert!(apply("a", &[edit("a", "a")]).unwrap_err().contains("the same"));
    }
}

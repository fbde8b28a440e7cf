//! Indented blocks of foreign text, made safe and cut where they are long; knows no event.

use crate::projection::phrases::{counted, grouped};
use crate::projection::safe_text::safe;
use crate::projection::wrapping::broken;

/// What stands before each line of a block.
const INDENT: &str = "        ";

/// Lines shown of the beginning and of the end of a cut block.
const HEAD: usize = 8;
const TAIL: usize = 8;

/// Characters shown of one line of a cut block.
const LINE_CHARS: usize = 400;

/// Appends the text as indented lines, broken at `columns` if there are any; nothing for an empty text.
pub fn indent(out: &mut String, text: &str, cut: bool, columns: Option<usize>) {
    let push = |out: &mut String, line: &str| push(out, line, columns);
    let text = safe(text.trim_end());
    let text = text.trim_end().trim_start_matches('\n');
    if text.is_empty() {
        return;
    }
    let lines = text.lines().count();
    let left_out = if cut && lines > HEAD + TAIL + 1 { lines - HEAD - TAIL } else { 0 };
    for (n, line) in text.lines().enumerate() {
        if left_out > 0 && n == HEAD {
            push(out, &format!("… {} left out (--full shows all)", counted(left_out as u64, "line")));
        }
        if left_out == 0 || n < HEAD || n >= HEAD + left_out {
            push(out, &if cut { shortened(line) } else { line.to_owned() });
        }
    }
}

fn push(out: &mut String, line: &str, columns: Option<usize>) {
    if !line.is_empty() {
        out.push_str(INDENT);
        begun(out, line, INDENT.len(), columns);
    }
    out.push('\n');
}

/// Appends the rest of a line of which `at` columns are taken.
pub fn begun(out: &mut String, text: &str, at: usize, columns: Option<usize>) {
    match columns {
        Some(columns) => out.push_str(&broken(text, at, INDENT.len(), columns)),
        None => out.push_str(text),
    }
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS) {
        None => line.to_owned(),
        Some((end, _)) => {
            let more = line[end..].chars().count() as u64;
            format!("{} … {} more characters", &line[..end], grouped(more))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str, cut: bool) -> String {
        let mut out = String::new();
        indent(&mut out, text, cut, None);
        out
    }

    #[test]
    fn long_blocks_keep_both_ends() {
        let text: String = (1..=100).map(|n| format!("line {n}\n")).collect();
        let shown = block(&text, true);
        assert_eq!(shown.lines().count(), HEAD + TAIL + 1);
        assert!(shown.starts_with("        line 1\n") && shown.ends_with("line 100\n"), "{shown}");
        assert!(shown.contains("… 84 lines left out (--full shows all)"), "{shown}");
        assert_eq!(block(&text, false).lines().count(), 100);
    }

    #[test]
    fn long_lines_are_counted_and_blank_ends_dropped() {
        assert!(block(&"x".repeat(1_500), true).ends_with("x … 1,100 more characters\n"));
        assert_eq!(block("\n\na\n\nb\n\n", true), "        a\n\n        b\n");
        assert_eq!(block(" \n", true), "");
    }
}

//! The commands of a line as rules that forbid try them: a convenience for plain lines, no boundary and no shell.

/// Words that stand before a command and are none.
const BEFORE: [&str; 9] = ["!", "if", "then", "elif", "else", "while", "until", "do", "time"];

/// The line itself, and each command of it: as it is written, and with one blank where there are several and without
/// what may stand before a command (redirections, assignments, `!`, `then`).
pub fn of(line: &str) -> impl Iterator<Item = String> {
    // A line that ends in a backslash goes on in the next.
    let whole = line.replace("\\\n", "");
    let parts = split(&whole).into_iter().flat_map(|part| [part.trim().to_owned(), plain(part)]);
    std::iter::once(line.to_owned()).chain(parts.collect::<Vec<_>>())
}

/// The parts between what ends a command. The `&` of `2>&1` and of `&>file`, and the `|` of `>|`, end none.
fn split(line: &str) -> Vec<&str> {
    let (mut parts, mut from, mut before) = (Vec::new(), 0, ' ');
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let after = chars.peek().map(|(_, next)| *next);
        let ends = match c {
            '&' => !matches!(before, '>' | '<') && after != Some('>'),
            '|' => before != '>',
            _ => matches!(c, ';' | '(' | ')' | '{' | '}' | '`' | '\n' | '\r'),
        };
        if ends {
            parts.push(&line[from..at]);
            from = at + c.len_utf8();
        }
        before = c;
    }
    parts.push(&line[from..]);
    parts
}

/// A command without what stands before it.
fn plain(part: &str) -> String {
    let words: Vec<&str> = part.split_whitespace().collect();
    let mut words = words.as_slice();
    while let [first, rest @ ..] = words {
        words = match redirection(first) {
            Some(needs_target) => rest.get(usize::from(needs_target)..).unwrap_or_default(),
            None if BEFORE.contains(first) => rest,
            None if is_assignment(first) => after_value(first, rest),
            None => break,
        };
    }
    words.join(" ")
}

/// What follows an assignment whose first word is given: a value in quotes may have blanks.
fn after_value<'a>(first: &str, rest: &'a [&'a str]) -> &'a [&'a str] {
    let Some(quote) = first.chars().find(|c| matches!(c, '"' | '\'')) else { return rest };
    if first.matches(quote).count() % 2 == 0 {
        return rest;
    }
    let end = rest.iter().position(|word| word.contains(quote)).map_or(rest.len(), |at| at + 1);
    rest.get(end..).unwrap_or_default()
}

/// Whether a word is a redirection, and if so whether the next word is what it leads to.
fn redirection(word: &str) -> Option<bool> {
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
    let target = rest.trim_start_matches(['<', '>', '&', '|']);
    (rest.starts_with(['<', '>']) || rest.starts_with("&>")).then_some(target.is_empty())
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split_once('[').filter(|(_, index)| index.ends_with(']')).map_or(name, |(name, _)| name);
    let is_letter = |c: char| c == '_' || c.is_ascii_alphanumeric();
    name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic()) && name.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_a_command_hides_it_from_no_rule() {
        for line in [
            "rm x",
            "rm\tx",
            "  rm   x ",
            "! rm x",
            "if true; then rm x; fi",
            "2>&1 rm x",
            ">out rm x",
            "> out rm x",
            "&>out rm x",
            ">| out rm x",
            "FOO=1 rm x",
            "A=1 B+=2 </dev/null rm x",
            "true && FOO=1 rm x",
            "A=\"a b\" rm x",
            "A='a b c' B=2 rm x",
            "A[0]=1 rm x",
            "rm\\\n x",
            "FOO=1 \\\n  rm x",
            "(rm x)",
            "sleep 1 & rm x",
        ] {
            assert!(of(line).any(|one| one == "rm x"), "{line}: {:?}", of(line).collect::<Vec<_>>());
        }
        assert_eq!(of("a=b").last().as_deref(), Some(""));
        assert!(of("cargo test 2>&1 | tail").any(|one| one == "cargo test 2>&1"));
        assert!(!of("echo FOO=1 rm x").any(|one| one == "rm x"), "an argument is no command");
    }
}

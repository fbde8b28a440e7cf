//! Reads Rust sources as text: blanks comments, literals and test modules, and lists the paths that are left.

/// A path such as `crate::protocol::Entry` and the line, from 1, where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathUse {
    pub line: usize,
    pub segments: Vec<String>,
}

impl PathUse {
    /// True when the path is `prefix` or lies beneath it.
    pub fn starts_with(&self, prefix: &str) -> bool {
        let wanted: Vec<&str> = prefix.split("::").collect();
        self.segments.len() >= wanted.len()
            && self.segments.iter().zip(wanted).all(|(have, want)| have == want)
    }

    pub fn text(&self) -> String {
        self.segments.join("::")
    }
}

/// The text with comments and literals turned into blanks; every line keeps its number and length.
pub fn blanked(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at).unwrap_or(at);
        if end == at {
            out.push(chars[at]);
            at += 1;
            continue;
        }
        out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    out
}

/// Every string literal with its line, from 1; a line that is continued is joined.
pub fn strings(source: &str) -> Vec<(usize, String)> {
    let chars: Vec<char> = source.chars().collect();
    let (mut at, mut line, mut out) = (0, 1, Vec::new());
    while at < chars.len() {
        let end = literal_end(&chars, at).unwrap_or(at + 1);
        let text: String = chars[at..end].iter().collect();
        if text.contains('"') && !text.starts_with('/') {
            out.push((line, text.replace("\\\n", " ")));
        }
        line += text.matches('\n').count();
        at = end;
    }
    out
}

/// Where the comment or literal that starts at `at` ends, or nothing when code stands there.
fn literal_end(chars: &[char], at: usize) -> Option<usize> {
    let next = chars.get(at + 1).copied();
    let in_word = at > 0 && is_word(chars[at - 1]);
    match (chars[at], next) {
        ('/', Some('/')) => Some(find(chars, at, &['\n']).unwrap_or(chars.len())),
        ('/', Some('*')) => Some(block_comment_end(chars, at)),
        ('"', _) => Some(string_end(chars, at + 1)),
        ('b' | 'c', Some('"')) if !in_word => Some(string_end(chars, at + 2)),
        ('r', Some('"' | '#')) if !in_word => raw_string_end(chars, at + 1),
        ('b' | 'c', Some('r')) if !in_word => raw_string_end(chars, at + 2),
        ('\'', Some('\\')) => find(chars, at + 3, &['\'']).map(|end| end + 1),
        ('\'', Some(_)) if chars.get(at + 2) == Some(&'\'') => Some(at + 3),
        _ => None,
    }
}

fn find(chars: &[char], from: usize, wanted: &[char]) -> Option<usize> {
    (from..chars.len()).find(|&i| chars[i..].starts_with(wanted))
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], mut i: usize) -> usize {
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

/// `hashes` is where the `#`s or the quote of a raw string may begin; `r#ident` is no string.
fn raw_string_end(chars: &[char], hashes: usize) -> Option<usize> {
    let count = chars[hashes..].iter().take_while(|c| **c == '#').count();
    if chars.get(hashes + count) != Some(&'"') {
        return None;
    }
    let mut closing = vec!['"'];
    closing.extend(std::iter::repeat_n('#', count));
    Some(find(chars, hashes + count + 1, &closing).map_or(chars.len(), |end| end + closing.len()))
}

/// Blanked code without the items that stand behind `#[cfg(test)]`.
pub fn production(source: &str) -> String {
    let mut code = blanked(source);
    while let Some(start) = code.find("#[cfg(test)]") {
        let end = item_end(&code, start);
        let gone: String = code[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(start..end, &gone);
    }
    code
}

/// Where the item that starts at `start` ends: its closing brace, or its semicolon if that comes first.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0;
    for (i, c) in code[start..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return start + i + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return start + i + 1,
            _ => {}
        }
    }
    code.len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Every path in blanked code, `use` groups spread out; single words count as paths of one segment.
pub fn paths(code: &str) -> Vec<PathUse> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if is_word(first(&tokens[at].1)) {
            at = tree(&tokens, at, &[], &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// Words and `::` stay whole, anything else is one character.
fn tokens(code: &str) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    for (i, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while !rest.is_empty() {
            let word: usize = rest.chars().take_while(|c| is_word(*c)).map(char::len_utf8).sum();
            let len = match word {
                0 if rest.starts_with("::") => 2,
                0 => first(rest).len_utf8(),
                n => n,
            };
            out.push((i + 1, rest[..len].to_owned()));
            rest = rest[len..].trim_start();
        }
    }
    out
}

fn first(text: &str) -> char {
    text.chars().next().unwrap_or(' ')
}

/// Reads the path (or group of paths) at `at` and gives the place behind it.
fn tree(tokens: &[(usize, String)], mut at: usize, prefix: &[String], found: &mut Vec<PathUse>) -> usize {
    let line = tokens[at].0;
    let text = |i: usize| tokens.get(i).map_or("", |t| t.1.as_str());
    let mut segments = prefix.to_vec();
    while is_word(first(text(at))) {
        segments.push(text(at).to_owned());
        at += 1;
        if text(at) != "::" {
            break;
        }
        at += 1;
        if text(at) == "{" {
            return group(tokens, at + 1, &segments, found);
        }
        if text(at) == "*" {
            at += 1;
            break;
        }
    }
    found.push(PathUse { line, segments });
    at
}

fn group(tokens: &[(usize, String)], mut at: usize, prefix: &[String], found: &mut Vec<PathUse>) -> usize {
    while let Some((line, token)) = tokens.get(at) {
        match token.as_str() {
            "}" => return at + 1,
            "as" => at += 2,
            "*" => {
                found.push(PathUse { line: *line, segments: prefix.to_vec() });
                at += 1;
            }
            word if is_word(first(word)) => at = tree(tokens, at, prefix, found),
            _ => at += 1,
        }
    }
    at
}

/// Turns `crate::`, `super::`, `self::` and `agon::` at the head of a path into a path from the crate's root.
/// `module` is the path of the file's own module. Gives nothing for paths into other crates.
pub fn from_root(path: &PathUse, module: &[&str]) -> Option<Vec<String>> {
    let head = path.segments.first()?;
    let mut base: Vec<String> = module.iter().map(|s| (*s).to_owned()).collect();
    let skip = match head.as_str() {
        "crate" | "agon" => {
            base.clear();
            1
        }
        "self" => 1,
        "super" => {
            let ups = path.segments.iter().take_while(|s| *s == "super").count();
            base.truncate(base.len().saturating_sub(ups));
            ups
        }
        _ => return None,
    };
    base.extend(path.segments[skip..].iter().cloned());
    (!base.is_empty()).then_some(base)
}

#[test]
fn comments_and_literals_are_no_code() {
    let code = blanked("a /* b /* c */ d */ \"e\\\"f\" 'g' '\\'' r#\"h\"i\"# b\"j\" &'k l // m\nn");
    assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "&'k", "l", "n"]);
}

#[test]
fn groups_are_spread_out() {
    let found: Vec<String> =
        paths("use crate::{a::{B, C as D}, e::*};\nf(g::h)").iter().map(PathUse::text).collect();
    assert_eq!(found, ["use", "crate::a::B", "crate::a::C", "crate::e", "f", "g::h"].map(String::from));
}

#[test]
fn test_modules_are_left_out() {
    let code = production("fn a() {}\n#[cfg(test)]\nmod tests { fn b() { c() } }\nfn d() {}");
    let words: Vec<String> = paths(&code).iter().map(PathUse::text).collect();
    assert_eq!(words, ["fn", "a", "fn", "d"]);
}

#[test]
fn paths_are_read_from_the_root() {
    let at = |text: &str| from_root(&paths(text)[0], &["a", "b"]).map(|p| p.join("::"));
    assert_eq!(at("crate::c::D").unwrap(), "c::D");
    assert_eq!(at("super::c").unwrap(), "a::c");
    assert_eq!(at("super::super::c").unwrap(), "c");
    assert_eq!(at("std::fs"), None);
}

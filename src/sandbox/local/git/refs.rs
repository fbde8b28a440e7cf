//! What git's small files say, as far as they are taken over: names of references, and their contents.

use super::place::HashKind;

/// Whether git would make a reference of this name, given with `refs/`.
pub fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let odd = |c: char| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && !part.ends_with('.')
            && !part.ends_with(".lock")
            && !part.contains("..")
            && !part.contains("@{")
            && !part.contains(odd)
    };
    name.starts_with("refs/") && name.split('/').all(is_part)
}

/// The object that a line names first.
fn object(line: &str, hash: HashKind) -> Option<&str> {
    let name = line.get(..hash.bytes() * 2)?;
    name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(name)
}

/// The objects that lines name, where each is nothing else.
pub fn objects(text: &str, hash: HashKind) -> Option<Vec<String>> {
    text.lines().map(|line| object(line, hash).filter(|name| *name == line).map(str::to_owned)).collect()
}

/// The reference that a symbolic one stands for.
pub fn symbolic(text: &str) -> Option<&str> {
    let name = text.strip_suffix('\n').unwrap_or(text).strip_prefix("ref: ")?;
    is_name(name).then_some(name)
}

/// Packed references with the objects that they name, where all of them are well formed.
pub fn packed(text: &str, hash: HashKind) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let peeled = line.strip_prefix('^');
        let name = object(peeled.unwrap_or(line), hash)?;
        let rest = &peeled.unwrap_or(line)[name.len()..];
        match (peeled, rest.strip_prefix(' ')) {
            (Some(_), None) if rest.is_empty() => {}
            (None, Some(reference)) if is_name(reference) => {
                found.push((reference.to_owned(), name.to_owned()));
            }
            _ => return None,
        }
    }
    Some(found)
}

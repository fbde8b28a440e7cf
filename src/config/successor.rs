//! Finds which model took the place of one that its provider lists no more; knows names alone.

use std::cmp::Reverse;

/// The listed model with the same words in its name and the highest numbers: `gpt-5.1` for `gpt-5`, never `gpt-5-mini`.
/// Names with a date come last.
pub(super) fn successor<'a>(gone: &str, listed: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (words, _) = taken_apart(gone);
    let alike = listed.filter_map(|name| {
        let (same, numbers) = taken_apart(name);
        (same == words).then_some((name, numbers))
    });
    let is_dated = |numbers: &[u64]| numbers.iter().any(|number| *number >= 1000);
    alike.max_by_key(|(_, numbers)| (!is_dated(numbers), numbers.clone())).map(|(name, _)| name)
}

/// Where none has the same words: the listed model of the same family with the fewest other words, then the highest
/// numbers.
pub(super) fn nearest<'a>(gone: &str, listed: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (words, _) = taken_apart(gone);
    let family = listed
        .map(|name| (name, taken_apart(name)))
        .filter(|(_, (theirs, _))| theirs.first() == words.first());
    let other = |theirs: &[String]| {
        let missing = words.iter().filter(|word| !theirs.contains(word)).count();
        missing + theirs.iter().filter(|word| !words.contains(word)).count()
    };
    let is_dated = |numbers: &[u64]| numbers.iter().any(|number| *number >= 1000);
    family
        .max_by_key(|(_, (theirs, numbers))| (Reverse(other(theirs)), !is_dated(numbers), numbers.clone()))
        .map(|(name, _)| name)
}

/// The words and the numbers of a name. A number with a zero before it is part of a date.
fn taken_apart(name: &str) -> (Vec<String>, Vec<u64>) {
    let (mut words, mut numbers) = (Vec::new(), Vec::new());
    let lower = name.to_lowercase();
    for piece in lower.split(|c: char| !c.is_alphanumeric()) {
        let mut rest = piece;
        while let Some(first) = rest.chars().next() {
            let is_digit = first.is_ascii_digit();
            let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
            let (run, after) = rest.split_at(end);
            match run.parse::<u64>() {
                Ok(number) if run.starts_with('0') && run.len() > 1 => numbers.push(number.max(1000)),
                Ok(number) => numbers.push(number),
                Err(_) => words.push(run.to_owned()),
            }
            rest = after;
        }
    }
    (words, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_other_names_the_nearest_of_the_family() {
        let listed = ["gpt-3.5-turbo", "gpt-4o", "gpt-5.5", "gpt-6.4-sol-preview", "gpt-6-sol-mini", "o9"];
        assert_eq!(nearest("gpt-6.2-sol", listed.into_iter()), Some("gpt-6.4-sol-preview"));
        assert_eq!(nearest("grok-4", listed.into_iter()), None);
    }

    #[test]
    fn the_same_words_and_the_highest_numbers() {
        let openai =
            ["gpt-4o", "gpt-5-mini", "gpt-5.1-2025-11-13", "gpt-5.1", "gpt-5.1-codex", "gpt-4", "o9"];
        let claude = ["anthropic/claude-haiku-9", "anthropic/claude-sonnet-5", "anthropic/claude-sonnet-4.6"];
        let gemini = ["gemini-3-pro-preview", "gemini-3.5-flash", "gemini-3-pro"];
        let rows: [(&str, &[&str], Option<&str>); 6] = [
            ("gpt-5", &openai, Some("gpt-5.1")),
            ("anthropic/claude-sonnet-4.5", &claude, Some("anthropic/claude-sonnet-5")),
            ("gemini-2.5-pro", &gemini, Some("gemini-3-pro")),
            ("grok-4", &["grok-4-0709", "grok-code-fast-1"], Some("grok-4-0709")),
            ("grok-4", &["grok-code-fast-1"], None),
            ("gpt-5", &[], None),
        ];
        for (gone, listed, expected) in rows {
            assert_eq!(successor(gone, listed.iter().copied()), expected, "{gone}");
        }
    }
}

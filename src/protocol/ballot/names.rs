//! Names and letters in texts: takes names out for readers who must not know them, puts them in for people.

use crate::protocol::SparkId;
use crate::protocol::event::RoundOpened;

/// What one reader calls somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    words: Vec<String>,
    /// Letters count as written; persona names are found in any case.
    exact: bool,
    with: String,
}

impl Alias {
    /// A persona's id, found with hyphens, underscores or blanks between its words, in any case.
    pub fn of_name(name: &str, with: impl Into<String>) -> Self {
        let words = name.split(['-', '_', ' ']).filter(|word| !word.is_empty()).map(str::to_lowercase);
        Alias { words: words.collect(), exact: false, with: with.into() }
    }

    /// A lettered name such as `Peer A`, found as it is written.
    pub fn of_letter(title: &str, with: impl Into<String>) -> Self {
        let words = title.split(' ').map(str::to_owned).collect();
        Alias { words, exact: true, with: with.into() }
    }

    /// How many bytes of `text` are this name, at its start; none when it starts with something else.
    fn length_in(&self, text: &str) -> Option<usize> {
        let mut rest = text;
        for (i, word) in self.words.iter().enumerate() {
            if i > 0 {
                rest = rest.strip_prefix(['-', '_', ' ', '\u{a0}', '\u{2010}', '\u{2011}'])?;
            }
            rest = self.strip_word(rest, word)?;
        }
        let ends = !rest.chars().next().is_some_and(char::is_alphanumeric);
        (ends && !self.words.is_empty()).then_some(text.len() - rest.len())
    }

    /// One word off the front; an apostrophe inside is as good as none ("devil's").
    fn strip_word<'a>(&self, text: &'a str, word: &str) -> Option<&'a str> {
        let mut chars = text.char_indices();
        for wanted in word.chars() {
            let found = loop {
                let (_, found) = chars.next()?;
                if self.exact || !matches!(found, '\'' | '\u{2019}') {
                    break found;
                }
            };
            let same = if self.exact { found == wanted } else { found.to_lowercase().eq([wanted]) };
            if !same {
                return None;
            }
        }
        Some(chars.as_str())
    }
}

/// Replaces every name by its alias in one pass, longest names first, whole words only.
pub fn rename(text: &str, aliases: &[Alias]) -> String {
    let mut aliases: Vec<&Alias> = aliases.iter().collect();
    aliases.sort_by_key(|alias| std::cmp::Reverse(alias.words.len()));
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = None;
    while let Some(next) = rest.chars().next() {
        let starts = !before.is_some_and(char::is_alphanumeric);
        let found = aliases.iter().find_map(|alias| Some((alias, alias.length_in(rest)?)));
        match found.filter(|_| starts) {
            Some((alias, length)) => {
                out.push_str(&alias.with);
                before = rest[..length].chars().next_back();
                rest = &rest[length..];
            }
            None => {
                out.push(next);
                before = Some(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    out
}

/// The letter of the n-th, from 0: A to Z, then AA, AB, …
pub fn letter(n: usize) -> String {
    let last = char::from(b'A' + u8::try_from(n % 26).unwrap_or_default());
    match n / 26 {
        0 => last.to_string(),
        more => format!("{}{last}", letter(more - 1)),
    }
}

/// What a reader calls its n-th peer: debaters have peers, the moderator has debaters.
pub fn title(round: &RoundOpened, reader: SparkId, n: usize) -> String {
    let debates = round.debaters.iter().any(|one| one.spark == reader);
    format!("{} {}", if debates { "Peer" } else { "Debater" }, letter(n))
}

/// A text that was written in answer to a round, for people: letters become names.
pub fn named(text: &str, round: &RoundOpened, writer: SparkId) -> String {
    let Some(order) = round.order.iter().find(|order| order.spark == writer) else { return text.to_owned() };
    let name = |spark: &SparkId| round.debaters.iter().find(|one| one.spark == *spark);
    let aliases: Vec<Alias> = order
        .peers
        .iter()
        .enumerate()
        .filter_map(|(n, peer)| Some(Alias::of_letter(&title(round, writer, n), name(peer)?.name.clone())))
        .collect();
    rename(text, &aliases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_however_they_are_written_but_not_inside_words() {
        let aliases = [
            Alias::of_name("devils-advocate", "Peer A"),
            Alias::of_name("pragmatist", "Peer B"),
            Alias::of_letter("Peer A", "Peer C"),
        ];
        for (text, expected) in [
            ("The Devil's Advocate's point", "The Peer A's point"),
            ("devils_advocate, PRAGMATIST!", "Peer A, Peer B!"),
            ("pragmatists are unpragmatist", "pragmatists are unpragmatist"),
            ("as Peer A said, peer a little", "as Peer C said, peer a little"),
            ("dévils advocate – pragmatist", "dévils advocate – Peer B"),
            ("", ""),
        ] {
            assert_eq!(rename(text, &aliases), expected);
        }
    }

    #[test]
    fn letters_go_on_after_z() {
        assert_eq!([letter(0), letter(25), letter(26), letter(51)], ["A", "Z", "AA", "AZ"]);
    }
}

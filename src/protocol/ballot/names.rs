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
            // `peer A` is `Peer A`; the letter itself counts as written.
            let same = same || self.exact && word.len() > 2 && found.eq_ignore_ascii_case(&wanted);
            if !same {
                return None;
            }
        }
        Some(chars.as_str())
    }
}

/// Replaces every name by its alias in one pass, longest names first, whole words only.
pub fn rename(text: &str, aliases: &[Alias]) -> String {
    let single;
    let text = match aliases.iter().any(|alias| alias.exact) {
        true => {
            single = one_by_one(text);
            &single
        }
        false => text,
    };
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

/// `Peers A, B and C` as `Peer A, Peer B and Peer C`, so that each is found.
fn one_by_one(text: &str) -> String {
    const PLURALS: [(&str, &str); 2] = [("eers ", "Peer "), ("ebaters ", "Debater ")];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let begins = !out.chars().next_back().is_some_and(char::is_alphanumeric);
        let list = PLURALS.iter().filter(|_| begins).find_map(|(plural, one)| {
            let after = rest.strip_prefix(['P', 'p', 'D', 'd'])?.strip_prefix(plural)?;
            listed(after, one)
        });
        match list {
            Some((words, left)) => {
                out.push_str(&words);
                rest = left;
            }
            None => {
                out.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    out
}

/// The letters a text begins with, each with `title` before it, and what follows; none when there are none.
fn listed<'t>(text: &'t str, title: &str) -> Option<(String, &'t str)> {
    const BETWEEN: [&str; 6] = [", and ", " and ", ", ", " or ", " & ", "/"];
    let (first, mut rest) = a_letter(text)?;
    let mut out = format!("{title}{first}");
    while let Some((between, (next, left))) =
        BETWEEN.iter().find_map(|between| Some((between, a_letter(rest.strip_prefix(*between)?)?)))
    {
        out.push_str(between);
        out.push_str(title);
        out.push_str(next);
        rest = left;
    }
    Some((out, rest))
}

/// One or two capital letters that are a word, and what follows.
fn a_letter(text: &str) -> Option<(&str, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_uppercase).count();
    let (letters, rest) = text.split_at(length);
    let ends = !rest.chars().next().is_some_and(char::is_alphanumeric);
    ((1..=2).contains(&length) && ends).then_some((letters, rest))
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

/// Who is meant by the letters a text holds that was written in answer to a round: `Peer A: pragmatist, …`;
/// empty when it holds none.
pub fn legend(text: &str, round: &RoundOpened, writer: SparkId) -> String {
    let Some(order) = round.order.iter().find(|order| order.spark == writer) else { return String::new() };
    let single = one_by_one(text);
    let told = order.peers.iter().enumerate().filter_map(|(n, peer)| {
        let title = title(round, writer, n);
        let alias = Alias::of_letter(&title, "");
        let is_meant = rename(&single, &[alias]) != single;
        let name = &round.debaters.iter().find(|one| one.spark == *peer)?.name;
        is_meant.then(|| format!("{title}: {name}"))
    });
    told.collect::<Vec<_>>().join(", ")
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
    fn letters_are_found_in_lists_and_after_a_small_p() {
        let aliases = [Alias::of_letter("Peer A", "ann"), Alias::of_letter("Peer C", "carl")];
        for (text, expected) in [
            ("Peers A and C agree", "ann and carl agree"),
            ("peers A, B and C", "ann, Peer B and carl"),
            ("as peer C's point", "as carl's point"),
            ("Peers A/C", "ann/carl"),
            ("my peers Are many, peers and A", "my peers Are many, peers and A"),
            ("compeers A", "compeers A"),
            ("Peers ABC", "Peers ABC"),
        ] {
            assert_eq!(rename(text, &aliases), expected);
        }
    }

    #[test]
    fn letters_go_on_after_z() {
        assert_eq!([letter(0), letter(25), letter(26), letter(51)], ["A", "Z", "AA", "AZ"]);
    }
}

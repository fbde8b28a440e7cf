//! What a search has found so far, file by file: the first matches in the order of paths, whatever order they come in.

use std::collections::BTreeMap;

/// What a search of one file came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its lines.
    Searched(Lines),
    /// The policy denies it.
    Denied,
    /// It cannot be read.
    Unread,
}

/// The lines that were found in a file, as they are shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The text.
    pub text: String,
    /// Where in the text each match ends.
    pub ends: Vec<usize>,
    /// Whether it could not be read to its end.
    pub is_broken: bool,
}

impl Lines {
    /// True where there is nothing to say of them.
    pub fn is_nothing(&self) -> bool {
        self.text.is_empty() && !self.is_broken
    }
}

impl Outcome {
    fn matches(&self) -> usize {
        match self {
            Outcome::Searched(lines) => lines.ends.len(),
            _ => 0,
        }
    }
}

/// Outcomes by path, as many as hold the first `max` matches.
#[derive(Debug)]
pub struct Results {
    max: usize,
    matches: usize,
    by_path: BTreeMap<String, Outcome>,
}

impl Results {
    /// None yet.
    pub fn new(max: usize) -> Self {
        Results { max, matches: 0, by_path: BTreeMap::new() }
    }

    /// False for a path after which the first matches are found already, as is everything under it.
    pub fn needs(&self, path: &str) -> bool {
        self.matches < self.max || self.by_path.last_key_value().is_some_and(|(last, _)| path < last.as_str())
    }

    /// Takes what a file came to.
    pub fn add(&mut self, path: &str, outcome: Outcome) {
        if !self.needs(path) {
            return;
        }
        self.matches += outcome.matches();
        self.by_path.insert(path.to_owned(), outcome);
        // What comes after the last match that is wanted is not.
        while let Some(last) = self.by_path.last_entry()
            && self.matches - last.get().matches() >= self.max
        {
            self.matches -= last.remove().matches();
        }
    }

    /// True where nothing was found.
    pub fn is_empty(&self) -> bool {
        self.matches == 0
    }

    /// The lines, whether there may be more, and how many files were denied and could not be read on the way.
    pub fn finish(self) -> (String, bool, [usize; 2]) {
        let (mut text, mut left, mut passed) = (String::new(), self.max, [0, 0]);
        for outcome in self.by_path.into_values() {
            match outcome {
                Outcome::Denied => passed[0] += 1,
                Outcome::Unread => passed[1] += 1,
                Outcome::Searched(Lines { text: found, ends, is_broken }) => {
                    passed[1] += usize::from(is_broken);
                    let end = left.checked_sub(1).and_then(|last| ends.get(last)).copied();
                    text.push_str(found.get(..end.unwrap_or(found.len())).unwrap_or_default());
                    left = left.saturating_sub(ends.len());
                }
            }
        }
        (text, left == 0, passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, count: usize) -> Outcome {
        let mut lines = Lines::default();
        for i in 0..count {
            lines.text += &format!("{path}:{i}\n");
            lines.ends.push(lines.text.len());
            lines.text += &format!("{path}-{i}\n");
        }
        Outcome::Searched(lines)
    }

    #[test]
    fn the_first_matches_by_path_are_the_same_in_every_order() {
        let files = [("a", 1), ("b", 0), ("b/c", 2), ("d", 2), ("e", 9)];
        let wanted = "a:0\na-0\nb/c:0\nb/c-0\nb/c:1\nb/c-1\nd:0\n";
        for turn in 0..files.len() {
            let mut results = Results::new(4);
            for (path, count) in files.iter().cycle().skip(turn).take(files.len()) {
                results.add(path, lines(path, *count));
            }
            results.add("0", Outcome::Denied);
            results.add("d/x", Outcome::Unread);
            assert!(!results.needs("d") && results.needs("c") && !results.needs("f"));
            assert_eq!(results.finish(), (wanted.to_owned(), true, [1, 0]));
        }
    }

    #[test]
    fn fewer_matches_are_shown_whole() {
        let mut results = Results::new(4);
        results.add("x", Outcome::Unread);
        assert!(results.is_empty() && results.needs("y"));
        results.add("a", lines("a", 3));
        assert_eq!(results.finish(), ("a:0\na-0\na:1\na-1\na:2\na-2\n".to_owned(), false, [0, 1]));
    }
}

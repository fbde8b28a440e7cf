//! Holds the free text of an answer against the log: entries it cites that are not there, and checks that it says pass.
//!
//! Two rules, for words prove little: a text that says nothing of checks and cites nothing is left alone.

use crate::protocol::EventRef;
use crate::protocol::event::{ArenaEvent, CheckRan, ClaimFlagged, ToolResolved, ToolStatus};
use crate::protocol::spec::Risk;

use super::Session;

/// The most flags of one text.
const MOST: usize = 4;

/// Bytes of a sentence that are repeated.
const QUOTED: usize = 160;

/// What the log holds that could show that checks pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LastProof {
    /// The last command or check that ended with exit code 0; none once a check has failed since.
    passed: Option<u64>,
    /// The last call of a tool that writes files.
    pub changed: Option<u64>,
}

impl LastProof {
    /// A tool with this risk has ended.
    pub fn fold_tool(&mut self, seq: u64, risk: Option<Risk>, end: &ToolResolved) {
        match risk {
            Some(Risk::Execute) if end.exit == Some(0) => self.passed = Some(seq),
            Some(Risk::Write) if end.status == ToolStatus::Ok => self.changed = Some(seq),
            _ => {}
        }
    }

    /// A check of the blueprint has ended.
    pub fn fold_check(&mut self, seq: u64, end: &CheckRan) {
        self.passed = (end.exit == Some(0)).then_some(seq);
    }

    fn holds(self) -> bool {
        self.passed.is_some() && self.passed > self.changed
    }
}

impl Session {
    /// Flags what an answer's own text says and the log does not bear out. `after` claims of a list, which have been
    /// looked at; `with_checks` where none of them was on checks.
    pub(super) fn flag_text(&mut self, source: EventRef, text: &str, after: u32, with_checks: bool) {
        let invented = references(text).filter(|(_, at)| !self.is_in_log(*at));
        let mut flags: Vec<(String, String)> =
            invented.map(|(word, at)| (word.to_owned(), format!("`{at}` is no entry of this log"))).collect();
        flags.dedup();
        if with_checks
            && !self.last_proof.holds()
            && let Some(said) = sentences(text).find(|said| says_checks_pass(said))
        {
            let words = "no command or check passed after the last change of a file";
            flags.push((said.to_owned(), words.to_owned()));
        }
        for (said, reason) in flags.into_iter().take(MOST) {
            let said = Some(said[..said.floor_char_boundary(QUOTED)].to_owned());
            let flag = ClaimFlagged { source, claim: after, reason, contradicted: false, said };
            self.emit(ArenaEvent::ClaimFlagged(flag));
        }
    }

    pub(super) fn is_in_log(&self, at: EventRef) -> bool {
        let known = at.seq < self.next_seq;
        known && self.kept.get(&at.seq).is_none_or(|entry| usize::from(at.i) < entry.events.len())
    }
}

/// The references in a text, as `[e12]`, with their brackets.
fn references(text: &str) -> impl Iterator<Item = (&str, EventRef)> {
    text.match_indices("[e").filter_map(move |(at, _)| {
        let end = text[at..].find(']')?;
        let word = &text[at..=at + end];
        Some((word, word.trim_matches(['[', ']']).parse().ok()?))
    })
}

/// The sentences of a text; a full stop inside a name or a number ends none.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(['\n', '?', '!']).flat_map(|line| line.split(". ")).map(str::trim)
}

/// True for a sentence that states that tests or checks pass: none that denies, asks, plans or conditions it.
pub(super) fn says_checks_pass(sentence: &str) -> bool {
    const NOT: [&str; 16] = [
        "not ", "n't ", "no ", "fail", "should", "would", "could", "will ", "might", "may ", "if ", "once ",
        "until ", "to pass", "make ", "whether",
    ];
    let words = sentence.to_lowercase();
    let is_on_checks = ["test", "check"].iter().any(|subject| words.contains(subject));
    let passes = words
        .split(|c: char| !c.is_alphabetic())
        .any(|word| ["pass", "passes", "passed", "passing"].contains(&word));
    is_on_checks && passes && !sentence.ends_with('?') && !NOT.iter().any(|word| words.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_statements_that_checks_pass_are_found() {
        for said in
            ["All 57 tests pass [e99], I ran cargo test", "The checks passed.", "Tests are passing now"]
        {
            assert!(sentences(said).any(says_checks_pass), "{said}");
        }
        for other in [
            "Two tests do not pass yet.",
            "The tests should pass now.",
            "Run `make test` to see whether it passes",
            "I have no test that passes",
            "Do the tests pass?",
            "Pass the token to the function",
            "If the tests pass, merge it",
        ] {
            assert!(!sentences(other).any(says_checks_pass), "{other}");
        }
    }

    #[test]
    fn references_are_found_with_and_without_a_place() {
        let found: Vec<String> =
            references("see [e3], [e12.1] and [else] or [e4").map(|(_, at)| at.to_string()).collect();
        assert_eq!(found, ["e3", "e12.1"]);
    }
}

//! Ids of tool calls as they are sent; knows no wire format.

use std::collections::BTreeSet;

use crate::protocol::expand::digest_of;

/// Gives each call of a request an id of its own that every server takes.
///
/// In agon the provider's id is data: two calls may carry the same one, none, or one that another server
/// does not accept. The ids depend only on what stands before them, so that an earlier part of a
/// conversation keeps its bytes, and with them its place in the provider's cache.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    /// Exactly nine letters and digits are taken.
    nine: bool,
    used: BTreeSet<String>,
    /// Calls of the last assistant message without a result yet: id as recorded, tool, id as sent.
    open: Vec<(String, String, String)>,
}

impl CallIds {
    const MAX: usize = 40;

    /// Ids of nine letters and digits, or of any shape all others take.
    pub fn new(nine: bool) -> Self {
        CallIds { nine, ..CallIds::default() }
    }

    /// A message of the assistant begins: calls before it have their results or never will.
    pub fn begin(&mut self) {
        self.open.clear();
    }

    /// The id a call is sent with.
    pub fn named(&mut self, id: &str, name: &str) -> String {
        let mut sent = self.shaped(id, 1);
        let mut n = 1;
        while !self.used.insert(sent.clone()) {
            n += 1;
            sent = self.shaped(id, n);
        }
        self.open.push((id.to_owned(), name.to_owned(), sent.clone()));
        sent
    }

    /// The nth form of an id, a function of both alone.
    fn shaped(&self, id: &str, n: u32) -> String {
        let plain = |extra: &[u8]| id.bytes().all(|b| b.is_ascii_alphanumeric() || extra.contains(&b));
        if self.nine {
            return match id.len() == 9 && plain(b"") && n == 1 {
                true => id.to_owned(),
                false => digest_of(&(id, n)).chars().take(9).collect(),
            };
        }
        let base = if (1..=Self::MAX).contains(&id.len()) && plain(b"_-") { id } else { "call" };
        if n == 1 {
            return base.to_owned();
        }
        let suffix = format!("-{n}");
        format!("{}{suffix}", &base[..base.len().min(Self::MAX - suffix.len())])
    }

    /// The id of the call a result answers: the first open one with its id, by preference of its tool.
    pub fn answered(&mut self, id: &str, name: &str) -> String {
        let exact = self.open.iter().position(|(i, n, _)| i == id && n == name);
        match exact.or_else(|| self.open.iter().position(|(i, _, _)| i == id)) {
            Some(at) => self.open.remove(at).2,
            None if self.nine => self.shaped(id, 1),
            None => id.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_follow_their_results() {
        let mut ids = CallIds::default();
        let long = "x".repeat(41);
        let sent: Vec<_> = [("a", "r"), ("a", "w"), ("a", "r"), ("a-2", "r"), ("", "r"), (&long, "r")]
            .map(|(id, tool)| ids.named(id, tool))
            .to_vec();
        assert_eq!(sent, ["a", "a-2", "a-3", "a-2-2", "call", "call-2"]);
        assert_eq!(ids.answered("a", "w"), "a-2");
        assert_eq!(ids.answered("a", "r"), "a");
        assert_eq!(ids.answered("a", "r"), "a-3");
        assert_eq!(ids.answered(&long, "r"), "call-2");
        assert_eq!(ids.answered("a", "r"), "a", "an orphan keeps its id");
    }
}

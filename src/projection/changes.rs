//! What a session changed in its workspace, as far as its log has the changes: file edits and recorded runs that were
//! applied. What commands changed is not among them; how many ran is counted.

use std::collections::BTreeMap;

use crate::protocol::event::{ToolStatus, ToolUse};
use crate::protocol::{ArenaEvent, Entry, EventRef};

/// The changes so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Each changed file with its diffs, in the order they were made; files in the order they were first changed.
    pub files: Vec<(String, Vec<String>)>,
    /// Commands that ran.
    pub commands: u64,
    /// Diffs of calls that have not ended.
    open: BTreeMap<ToolUse, String>,
    /// The recorded run that may be applied.
    hit: Option<ToolUse>,
}

impl Changes {
    /// Folds one entry.
    pub fn apply(&mut self, entry: &Entry) {
        for (at, event) in entry.effective() {
            self.event(at, event);
        }
    }

    fn event(&mut self, at: EventRef, event: &ArenaEvent) {
        use ArenaEvent as E;
        match event {
            E::ToolPrepared(data) => {
                let diff = event.plan().map(|plan| &plan.preview).filter(|text| is_diff(text));
                match diff {
                    Some(diff) => drop(self.open.insert(data.body.tool_use, diff.clone())),
                    None => drop(self.open.remove(&data.body.tool_use)),
                }
            }
            E::CacheHit(data) => {
                let tool_use = ToolUse { answer: at, part: 0 };
                self.open.insert(tool_use, data.body.plan.preview.clone());
                self.hit = Some(tool_use);
            }
            E::ToolResolved(data) => {
                self.commands += u64::from(data.body.exit.is_some());
                let diff = self.open.remove(&data.body.tool_use);
                diff.filter(|_| data.body.status == ToolStatus::Ok).iter().for_each(|diff| self.take(diff));
            }
            E::PatchApplied(_) => {
                let diff = self.hit.take().and_then(|hit| self.open.remove(&hit));
                diff.iter().for_each(|diff| self.take(diff));
            }
            E::ToolRefused(data) => drop(self.open.remove(&data.tool_use)),
            _ => {}
        }
    }

    /// A diff of one or more files.
    fn take(&mut self, diff: &str) {
        for (file, diff) in by_file(diff) {
            match self.files.iter_mut().find(|(known, _)| *known == file) {
                Some((_, diffs)) => diffs.push(diff),
                None => self.files.push((file, vec![diff])),
            }
        }
    }

    /// Lines that were added and removed.
    pub fn counts(&self) -> (usize, usize) {
        let all = self.files.iter().flat_map(|(_, diffs)| diffs).map(|diff| counts(diff));
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

/// True for a text that is a unified diff.
pub fn is_diff(text: &str) -> bool {
    let mut lines = text.lines();
    lines.next().is_some_and(|line| line.starts_with("--- "))
        && lines.next().is_some_and(|line| line.starts_with("+++ "))
}

/// Lines that a diff adds and removes.
pub fn counts(diff: &str) -> (usize, usize) {
    let count = |sign: char, heading: &str| {
        diff.lines().filter(|line| line.starts_with(sign) && !line.starts_with(heading)).count()
    };
    (count('+', "+++ "), count('-', "--- "))
}

/// A diff of several files, a piece for each, with the file's name.
pub fn by_file(diff: &str) -> Vec<(String, String)> {
    let mut pieces: Vec<(String, String)> = Vec::new();
    let mut lines = diff.lines().peekable();
    while let Some(line) = lines.next() {
        let new = lines.peek().and_then(|next| next.strip_prefix("+++ "));
        if let (Some(old), Some(new)) = (line.strip_prefix("--- "), new) {
            let name = if new == "/dev/null" { old } else { new };
            let name = name.strip_prefix("a/").or(name.strip_prefix("b/")).unwrap_or(name);
            pieces.push((name.to_owned(), String::new()));
        }
        if let Some((_, piece)) = pieces.last_mut() {
            piece.push_str(line);
            piece.push('\n');
        }
    }
    pieces
}

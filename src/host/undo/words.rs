//! An undo in words, a line each, for every front end.

use super::Undo;
use crate::assembly::in_shell;
use crate::projection::phrases::start;
use crate::projection::turns::TurnRow;
use crate::protocol::text::name_shown;

/// Names in one list.
const MOST: usize = 20;

impl Undo {
    /// What it does, or did when `done`.
    pub fn lines(&self, done: bool) -> Vec<String> {
        let mut lines = vec![self.heading(done)];
        let diff = &self.plan.diff;
        let verb = |path: &String| match (diff.added.contains(path), diff.removed.contains(path)) {
            (true, _) => "restored",
            (_, true) => "removed",
            _ => "changed",
        };
        let failed = |path: &String| self.failed.iter().any(|(failed, _)| failed == path);
        let changed = diff.files.iter().filter(|path| !failed(path));
        list(&mut lines, changed.map(|path| format!("{:<9} {}", verb(path), name_shown(path))));
        if self.files && diff.files.is_empty() {
            lines.push("  no file changes".to_owned());
        }
        let stopped = self.stopped.iter().map(|command| start(command, 100));
        section(&mut lines, "ended first, because they ran in the background", stopped);
        section(
            &mut lines,
            "not done",
            self.failed.iter().map(|(path, why)| format!("{}: {why}", name_shown(path))),
        );
        section(&mut lines, "left as they are, because they were changed since", names(&self.plan.left));
        section(&mut lines, "taken back although they were changed since", names(&self.plan.forced));
        section(
            &mut lines,
            "not recorded, so not taken back (ignored or large files that changed)",
            names(&self.ignored),
        );
        if !self.is_redo {
            let commands = self.turns.iter().flat_map(|row| &row.commands).map(|command| start(command, 100));
            section(&mut lines, "commands ran; agon cannot take back what they did elsewhere", commands);
            let commits = self
                .commits
                .iter()
                .map(|commit| format!("{} {}", short(&commit.id), start(&commit.subject, 80)));
            section(&mut lines, "commits were made and stay", commits);
            lines.extend(self.drop_commits().map(|command| format!("  to drop them: {command}")));
        }
        lines
    }

    /// What the person may do next, a line each.
    pub fn hints(&self) -> Vec<String> {
        let mut hints = Vec::new();
        if !self.failed.is_empty() {
            hints.push(format!("do the rest once that is fixed: agon undo {}", self.session));
        }
        if let (false, Some(first)) = (self.plan.left.is_empty() || self.is_redo, self.turns.first()) {
            hints.push(format!(
                "take those back as well: agon undo {} --turn {} --only files --force",
                self.session, first.number
            ));
        }
        if !self.is_redo {
            hints.push(format!("take the undo back: agon undo {} --redo", self.session));
        }
        hints
    }

    fn heading(&self, done: bool) -> String {
        let word = match (self.is_redo, self.completes, done) {
            (true, _, true) => "redone",
            (true, _, false) => "would redo",
            (_, true, true) => "undo completed",
            (_, true, false) => "would complete the undo of",
            (_, _, true) => "undone",
            (_, _, false) => "would undo",
        };
        let what = match (self.files, self.talk) {
            (true, false) => ", files only",
            (false, true) => ", words only",
            _ => "",
        };
        let turns = match self.turns.as_slice() {
            [] => "nothing".to_owned(),
            [row] => named(row),
            [first, .., last] => format!("turns {} to {}", first.number, last.number),
        };
        format!("{word}: {turns}{what}")
    }

    fn drop_commits(&self) -> Option<String> {
        let to = self.reset_to.as_ref()?;
        Some(format!("git -C {} reset {}", in_shell(&self.root), short(to)))
    }
}

fn named(row: &TurnRow) -> String {
    format!("turn {} ({})", row.number, start(&row.text, 60))
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

fn names(paths: &[String]) -> impl Iterator<Item = String> {
    paths.iter().map(|path| name_shown(path).into_owned())
}

fn section(lines: &mut Vec<String>, title: &str, rows: impl Iterator<Item = String>) {
    let mut rows = rows.peekable();
    if rows.peek().is_some() {
        lines.push(format!("{title}:"));
        list(lines, rows);
    }
}

fn list(lines: &mut Vec<String>, mut rows: impl Iterator<Item = String>) {
    lines.extend(rows.by_ref().take(MOST).map(|row| format!("  {row}")));
    match rows.count() as u64 {
        0 => {}
        more => lines.push(format!("  and {more} more")),
    }
}

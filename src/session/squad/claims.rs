//! Holds the claims of a squad's answer against the log; what is not borne out is flagged.

use crate::protocol::EventRef;
use crate::protocol::event::{ArenaEvent, ClaimFlagged};
use crate::protocol::fit;
use crate::protocol::typed::{Claim, ClaimKind, SquadAnswer};
use crate::session::Session;

use super::state::{RoleKind, Run};

/// What is wrong with a claim.
enum Doubt {
    /// The log says the contrary.
    Contradicted(String),
    /// Nothing bears it out.
    Unproven(String),
}

impl Session {
    /// Flags every claim of the lead's answer that cites nothing that is there, or that the log contradicts.
    pub(super) fn flag_claims(&mut self, source: EventRef) {
        let Some(ArenaEvent::ModelAnswered(answer)) = self.event(source) else { return };
        let Some(answer) = fit::read::<SquadAnswer>(&answer.body.text()) else { return };
        for (claim, said) in (0u32..).zip(&answer.claims) {
            let (reason, contradicted) = match self.doubt(said) {
                None => continue,
                Some(Doubt::Contradicted(reason)) => (reason, true),
                Some(Doubt::Unproven(reason)) => (reason, false),
            };
            self.emit(ArenaEvent::ClaimFlagged(ClaimFlagged { source, claim, reason, contradicted }));
        }
    }

    /// Why a claim is not borne out, if it is not. What the log says stands before how it is cited.
    fn doubt(&self, claim: &Claim) -> Option<Doubt> {
        let read = |word: &String| {
            let at = word.trim_matches(['[', ']']).parse::<EventRef>().ok();
            at.filter(|at| self.is_in_log(*at)).ok_or_else(|| format!("`{word}` is no entry of this log"))
        };
        let (cited, invented): (Vec<_>, Vec<_>) = claim.evidence.iter().map(read).partition(Result::is_ok);
        let cited: Vec<EventRef> = cited.into_iter().flatten().collect();
        let contradiction = match claim.kind {
            ClaimKind::ChecksPass => self.failed_check(&cited),
            ClaimKind::Observed if says_checks_pass(&claim.text) => self.failed_check(&cited),
            ClaimKind::Changed => self.no_change(&claim.text),
            ClaimKind::Observed => None,
        };
        if let Some(reason) = contradiction {
            return Some(Doubt::Contradicted(reason));
        }
        let unproven = match (claim.kind, cited.is_empty()) {
            _ if !invented.is_empty() => invented.into_iter().find_map(Result::err),
            (_, true) => Some("it cites nothing".to_owned()),
            (ClaimKind::ChecksPass, _) => self.doubt_checks(&cited),
            (ClaimKind::Observed, _) => self.doubt_seen(&cited),
            (ClaimKind::Changed, _) => None,
        };
        unproven.map(Doubt::Unproven)
    }

    fn is_in_log(&self, at: EventRef) -> bool {
        let known = at.seq < self.next_seq;
        known && self.kept.get(&at.seq).is_none_or(|entry| usize::from(at.i) < entry.events.len())
    }

    /// Checks do not pass when the last run of one did not, when what is cited failed and has not passed since, or
    /// failed when it ran again.
    fn failed_check(&self, cited: &[EventRef]) -> Option<String> {
        let squad = self.squad.as_ref()?;
        let mut ran = squad.roles.iter().flat_map(|role| role.proof.ran());
        if let Some((at, _)) = ran.find(|(_, passed)| !passed) {
            return Some(format!("the check of {at} did not pass"));
        }
        let runs = || squad.runs.iter().filter(|run| cited.contains(&run.at));
        let again =
            |run: &Run| squad.last_run_like(run).filter(|last| !last.passed && last.at != run.at).cloned();
        if let Some(last) = runs().filter(|run| run.passed).find_map(again) {
            return Some(format!("`{}` did not pass when it ran again in {}", last.command, last.at));
        }
        let stands = |run: &Run| squad.last_run_like(run).is_some_and(|last| last.passed);
        if let Some(failed) = runs().find(|_| !runs().any(stands)) {
            return Some(format!("`{}` did not pass in {}", failed.command, failed.at));
        }
        // With checks of its own the squad has said which commands count; without, every command does.
        let failed = squad.runs.iter().rev().find(|run| !stands(run)).filter(|_| squad.checks.is_empty())?;
        Some(format!("`{}` did not pass in {} and was not run again", failed.command, failed.at))
    }

    /// What is cited must be a command that passed after the last change of a file.
    fn doubt_checks(&self, cited: &[EventRef]) -> Option<String> {
        let squad = self.squad.as_ref()?;
        if squad.roles.iter().any(|role| role.proof.fails()) {
            return Some("a check could not be run after the last change".to_owned());
        }
        let changed = squad.last_change.unwrap_or(0);
        let mut passed = squad.runs.iter().filter(|run| run.passed && run.at.seq > changed);
        if passed.any(|run| cited.contains(&run.at)) {
            return None;
        }
        let none = squad.roles.iter().all(|role| role.proof.ran().next().is_none());
        let words = if none { "no check ran" } else { "what it cites is not a check that passed" };
        Some(format!("{words} after the last change"))
    }

    /// What was asked for shows nothing of what came of it.
    fn doubt_seen(&self, cited: &[EventRef]) -> Option<String> {
        let is_asked = |at: &EventRef| {
            matches!(self.event(*at), Some(ArenaEvent::PromptGiven(_) | ArenaEvent::SessionOpened(_)))
        };
        cited.iter().all(is_asked).then(|| "it cites nothing but the request".to_owned())
    }

    /// Nothing was changed, or not what the claim names.
    fn no_change(&self, text: &str) -> Option<String> {
        let squad = self.squad.as_ref()?;
        let works = || squad.roles.iter().filter_map(|role| role.proof.work.as_ref());
        let changed = |path: &str| works().any(|work| work.files.iter().any(|file| is_named(path, file)));
        let compared = works().next().is_some() && squad.roles.iter().all(|role| !role.proof.incomparable);
        let other = paths_in(text).find(|path| compared && !changed(path)).map(str::to_owned);
        if works().any(|work| !work.files.is_empty())
            && let Some(path) = other
        {
            return Some(format!("`{path}` is not among the changed files"));
        }
        let mut writers = squad.roles.iter().filter(|role| role.kind == RoleKind::Writer);
        let changed = writers.any(|role| role.proof.diff.flatten().is_some());
        let unknown = squad.base.is_none() || squad.last_change.is_some();
        (!changed && !unknown).then(|| "no file was changed in this turn".to_owned())
    }
}

/// True for words that say of tests or checks that they pass, whatever the claim is called.
fn says_checks_pass(text: &str) -> bool {
    let text = text.to_lowercase();
    let is_denied = ["not pass", "n't pass", "no test", "fail"].iter().any(|word| text.contains(word));
    let words = ["tests pass", "checks pass", "test pass", "check pass", "passes", "all tests", "all checks"];
    !is_denied && words.iter().any(|word| text.contains(word))
}

/// Endings by which a word in a claim is taken for the name of a file.
const ENDINGS: &[&str] = &[
    "c", "cc", "cfg", "conf", "cpp", "cs", "css", "csv", "go", "h", "hpp", "html", "ini", "java", "js",
    "json", "jsx", "kt", "lock", "lua", "md", "php", "py", "rb", "rs", "scss", "sh", "sql", "svg", "swift",
    "toml", "ts", "tsx", "txt", "vue", "xml", "yaml", "yml",
];

/// What in a claim is written like the path of a file; nothing where it also tells what was left alone.
fn paths_in(text: &str) -> impl Iterator<Item = &str> {
    let lower = text.to_lowercase();
    let leaves =
        ["not ", "n't ", "unchanged", "untouched", "left ", "no other", "without", "like ", " as in "];
    let is_plain = !leaves.iter().any(|word| lower.contains(word));
    let edges = |c: char| !c.is_alphanumeric() && !matches!(c, '/' | '_' | '.');
    let words = text.split_whitespace().filter(move |word| is_plain && !word.contains(['(', '*', ':']));
    let bare = words.map(move |word| word.trim_matches(edges).trim_end_matches('.').trim_end_matches(edges));
    bare.filter(|word| {
        let name = word.rsplit('/').next().unwrap_or_default();
        let ending = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty());
        ending.is_some_and(|(_, end)| ENDINGS.contains(&end.to_lowercase().as_str()))
    })
}

/// True when a path as it is written in words means a file: the whole path, or its last parts.
fn is_named(written: &str, file: &str) -> bool {
    let written = written.trim_start_matches("./");
    file == written || file.ends_with(&format!("/{written}")) || written.ends_with(&format!("/{file}"))
}

//! Holds the claims of a squad's answer against the log; what the log does not support is flagged.
//!
//! Only what a claim is by its kind, what it cites and what the log holds can contradict it. What its words seem to say
//! is doubted at most: words are not decided by looking for others in them.

use crate::protocol::EventRef;
use crate::protocol::event::{ArenaEvent, ClaimFlagged};
use crate::protocol::fit;
use crate::protocol::typed::{Claim, ClaimKind, SquadAnswer};
use crate::session::Session;

use super::state::{Changes, Run, Squad};

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
            let flag = ClaimFlagged { source, claim, reason, contradicted, said: None };
            self.emit(ArenaEvent::ClaimFlagged(flag));
        }
        if let Some(text) = answer.answer.as_str() {
            let listed = u32::try_from(answer.claims.len()).unwrap_or(u32::MAX);
            let on_checks = answer.claims.iter().any(|claim| claim.kind == ClaimKind::ChecksPass);
            self.flag_text(source, text, listed, !on_checks);
        }
    }

    /// Why a claim is not supported, if it is not. What the log says comes before how it is cited.
    fn doubt(&self, claim: &Claim) -> Option<Doubt> {
        let read = |word: &String| {
            let at = word.trim_matches(['[', ']']).parse::<EventRef>().ok();
            at.filter(|at| self.is_in_log(*at)).ok_or_else(|| format!("`{word}` is no entry of this log"))
        };
        let (cited, invented): (Vec<_>, Vec<_>) = claim.evidence.iter().map(read).partition(Result::is_ok);
        let cited: Vec<EventRef> = cited.into_iter().flatten().collect();
        let contradiction = match claim.kind {
            ClaimKind::ChecksPass => self.failed_check(&cited),
            ClaimKind::Changed => self.no_change().or_else(|| self.not_changed(&claim.files)),
            ClaimKind::Observed => None,
        };
        if let Some(reason) = contradiction {
            return Some(Doubt::Contradicted(reason));
        }
        let unproven = match (claim.kind, cited.is_empty()) {
            _ if !invented.is_empty() => invented.into_iter().find_map(Result::err),
            (_, true) => Some("it cites nothing".to_owned()),
            (ClaimKind::ChecksPass, _) => self.left_failed().or_else(|| self.doubt_checks(&cited)),
            (ClaimKind::Observed, _) => self.doubt_seen(&cited).or_else(|| {
                let failed = || self.failed_check(&cited).or_else(|| self.left_failed());
                says_checks_pass(&claim.text).then(failed).flatten()
            }),
            (ClaimKind::Changed, _) => self.doubt_change(claim),
        };
        unproven.map(Doubt::Unproven)
    }

    /// Checks do not pass when the last run of one did not. Where none ran, no command may count for one that passed:
    /// what is cited failed when it ran last, or every command did.
    fn failed_check(&self, cited: &[EventRef]) -> Option<String> {
        let squad = self.squad.as_ref()?;
        let mut ran = squad.roles.iter().flat_map(|role| role.proof.ran()).peekable();
        if ran.peek().is_some() {
            let failed = ran.find(|(_, passed)| !passed);
            return failed.map(|(at, _)| format!("the check of {at} did not pass"));
        }
        let mut counted: Vec<&Run> = squad.runs.iter().filter(|run| cited.contains(&run.at)).collect();
        let again = |run: &&Run| squad.last_run_like(run).filter(|last| run.passed && !last.passed);
        if let Some(last) = counted.iter().find_map(again) {
            return Some(format!("`{}` did not pass when it ran again in {}", last.command, last.at));
        }
        if counted.is_empty() {
            counted.extend(&squad.runs);
        }
        let failed = counted.last().filter(|_| !counted.iter().any(|run| squad.stands(run)))?;
        Some(format!("`{}` did not pass in {}", failed.command, failed.at))
    }

    /// A command that failed and has not passed since, where the squad has no checks that say what counts.
    fn left_failed(&self) -> Option<String> {
        let squad = self.squad.as_ref().filter(|squad| squad.checks.is_empty())?;
        let failed = squad.runs.iter().rev().find(|run| !squad.stands(run))?;
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

    /// The trees before and after the work are alike but for what somebody else did, nothing that a tool wrote is left
    /// and no command ran: one may change what no tree shows.
    fn no_change(&self) -> Option<String> {
        let squad = self.squad.as_ref()?;
        let changed = squad.works().any(|work| work.own().next().is_some());
        let is_written = squad.written.keys().any(|path| !squad.undone.contains(path));
        (!changed && !is_written && knows_all(squad)).then(|| "no file was changed in this turn".to_owned())
    }

    /// A file that a claim lists and that the log knows not to be changed.
    fn not_changed(&self, files: &[String]) -> Option<String> {
        let squad = self.squad.as_ref()?;
        let own = |path: &String| squad.works().any(|work| work.own().any(|own| own == path));
        let fault = |path: &String| match path {
            path if own(path) => None,
            path if squad.undone.contains(path) => Some(format!("`{path}` is again as it was before")),
            path if squad.written.contains_key(path) || !knows_all(squad) => None,
            path if squad.foreign().any(|other| other == path) => {
                Some(format!("`{path}` was changed by another process"))
            }
            path => Some(format!("`{path}` was not changed")),
        };
        files.iter().filter_map(|path| self.beneath(path)).find_map(|path| fault(&path))
    }

    /// None of the files it lists, or else seems to name, was changed.
    fn doubt_change(&self, claim: &Claim) -> Option<String> {
        let squad = self.squad.as_ref()?;
        let listed = claim.files.join(" ");
        let text = if claim.files.is_empty() { &claim.text } else { &listed };
        let written = || squad.written.keys().filter(|path| !squad.undone.contains(path));
        let own = || squad.works().flat_map(Changes::own).chain(written());
        let changed = |path: &str| own().any(|file| is_named(path, file));
        if squad.works().next().is_none() || words_of(text).any(changed) {
            return None;
        }
        let mut foreign = squad.foreign();
        if let Some(path) = foreign.find(|path| words_of(text).any(|word| is_named(word, path))) {
            return Some(format!("`{path}` was changed by another process"));
        }
        if own().next().is_none() {
            return Some("no file that git looks at was changed".to_owned());
        }
        let other = words_of(text).find(|word| is_path(word))?;
        Some(format!("`{other}` is not among the changed files"))
    }
}

/// True when the log tells of every change of the workspace: it was compared, and no command ran.
fn knows_all(squad: &Squad) -> bool {
    let compared = squad.base.is_some() && !squad.roles.iter().any(|role| role.proof.incomparable);
    compared && !squad.ran_command
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

/// The words of a claim without what stands around them.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    let edges = |c: char| !c.is_alphanumeric() && !matches!(c, '/' | '_' | '.');
    let words = text.split_whitespace().filter(|word| !word.contains(['(', '*', ':']));
    words.map(move |word| word.trim_matches(edges).trim_end_matches('.').trim_end_matches(edges))
}

/// True for a word that is written like the path of a file.
fn is_path(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty());
    ending.is_some_and(|(_, end)| ENDINGS.contains(&end.to_lowercase().as_str()))
}

/// True when a path as it is written in words means a file: the whole path, or its last parts.
fn is_named(written: &str, file: &str) -> bool {
    let written = written.trim_start_matches("./");
    file == written || file.ends_with(&format!("/{written}")) || written.ends_with(&format!("/{file}"))
}

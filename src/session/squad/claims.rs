//! Holds the claims of a squad's answer against the log; what the log does not support is flagged.
//!
//! Only what a claim is by its kind, what it cites and what the log holds can contradict it; its words at most raise a
//! doubt.

use crate::protocol::EventRef;
use crate::protocol::event::{ArenaEvent, ClaimFlagged};
use crate::protocol::fit;
use crate::protocol::typed::{Claim, ClaimKind, SquadAnswer};
use crate::session::Session;
use crate::session::free_text::says_checks_pass;

use super::state::Run;

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
            ClaimKind::Changed => self.not_changed(&claim.files),
            ClaimKind::Observed => None,
        };
        if let Some(reason) = contradiction {
            return Some(Doubt::Contradicted(reason));
        }
        let unproven = match (claim.kind, cited.is_empty()) {
            _ if !invented.is_empty() => invented.into_iter().find_map(Result::err),
            (_, true) => Some("it cites nothing".to_owned()),
            (ClaimKind::ChecksPass, _) => self.no_passed_check(&cited),
            (ClaimKind::Observed, _) => self
                .doubt_seen(&cited)
                .or_else(|| says_checks_pass(&claim.text).then(|| self.failed_check(&cited)).flatten()),
            (ClaimKind::Changed, _) => {
                let changed =
                    self.squad.as_ref()?.work.as_ref().is_none_or(|work| work.changed().next().is_some());
                (!changed).then(|| "no file that git looks at was changed".to_owned())
            }
        };
        unproven.map(Doubt::Unproven)
    }

    /// Checks do not pass when the last run of one did not. Where none ran, what is cited, or else every command, must
    /// have failed when it ran last.
    fn failed_check(&self, cited: &[EventRef]) -> Option<String> {
        let squad = self.squad.as_ref()?;
        let mut ran = squad.roles.iter().flat_map(|role| role.proof.ran()).peekable();
        if ran.peek().is_some() {
            let failed = ran.find(|(_, passed)| !passed);
            return failed.map(|(at, _)| format!("the check of {at} did not pass"));
        }
        let mut runs: Vec<&Run> = squad.runs.iter().filter(|run| cited.contains(&run.at)).collect();
        if runs.is_empty() {
            runs.extend(&squad.runs);
        }
        let failed =
            squad.last_run_like(runs.last()?).filter(|_| !runs.iter().any(|run| squad.stands(run)))?;
        Some(format!("`{}` did not pass in {}", failed.command, failed.at))
    }

    /// What is cited must be a command that passed after the last change of a file.
    fn no_passed_check(&self, cited: &[EventRef]) -> Option<String> {
        let squad = self.squad.as_ref()?;
        let changed = self.last_proof.changed.unwrap_or(0);
        let mut passed = squad.runs.iter().filter(|run| run.passed && run.at.seq > changed);
        let is_proven = passed.any(|run| cited.contains(&run.at));
        (!is_proven).then(|| "it cites no check that passed after the last change".to_owned())
    }

    /// What was asked for shows nothing of what came of it.
    fn doubt_seen(&self, cited: &[EventRef]) -> Option<String> {
        let is_asked = |at: &EventRef| {
            matches!(self.event(*at), Some(ArenaEvent::PromptGiven(_) | ArenaEvent::SessionOpened(_)))
        };
        cited.iter().all(is_asked).then(|| "it cites nothing but the request".to_owned())
    }

    /// A file that a claim lists and that the log knows not to be changed, or that no file was. A command may change
    /// what no comparison shows.
    fn not_changed(&self, files: &[String]) -> Option<String> {
        let squad = self.squad.as_ref()?;
        let work = squad.work.as_ref()?;
        let may_be = |path: &String| squad.ran_command || squad.written.contains_key(path);
        let fault = |path: &String| match path {
            path if work.changed().any(|own| own == path) => None,
            path if work.restored.contains(path) => Some(format!("`{path}` is again as it was before")),
            path if may_be(path) => None,
            path if work.foreign.contains(path) => Some(format!("`{path}` was changed by another process")),
            path => Some(format!("`{path}` was not changed")),
        };
        let is_left = || squad.written.keys().any(|path| !work.restored.contains(path));
        let none = || {
            let changed = squad.ran_command || work.changed().next().is_some() || is_left();
            (!changed).then(|| "no file was changed in this turn".to_owned())
        };
        files.iter().filter_map(|path| self.in_workspace(path)).find_map(|path| fault(&path)).or_else(none)
    }

    /// A path as a model wrote it, relative to the workspace.
    fn in_workspace(&self, path: &str) -> Option<String> {
        let root = &self.spec.as_ref()?.workspace.root;
        let path = path.strip_prefix(root.as_str()).map_or(path, |rest| rest.trim_start_matches('/'));
        let parts: Vec<&str> = path.split('/').filter(|part| *part != ".").collect();
        (!path.starts_with('/') && !parts.contains(&"..")).then(|| parts.join("/"))
    }
}

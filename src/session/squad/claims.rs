//! Holds the claims of a squad's answer against the log; what is not borne out is flagged.

use crate::protocol::EventRef;
use crate::protocol::event::{ArenaEvent, ClaimFlagged};
use crate::protocol::fit;
use crate::protocol::typed::{Claim, ClaimKind, SquadAnswer};
use crate::session::Session;

use super::state::RoleKind;

impl Session {
    /// Flags every claim of the lead's answer that cites nothing that is there, or that the log contradicts.
    pub(super) fn flag_claims(&mut self, source: EventRef) {
        let Some(ArenaEvent::ModelAnswered(answer)) = self.event(source) else { return };
        let Some(answer) = fit::read::<SquadAnswer>(&answer.body.text()) else { return };
        for (claim, said) in (0u32..).zip(&answer.claims) {
            if let Some(reason) = self.doubt(said) {
                self.emit(ArenaEvent::ClaimFlagged(ClaimFlagged { source, claim, reason }));
            }
        }
    }

    /// Why a claim is not borne out, if it is not.
    fn doubt(&self, claim: &Claim) -> Option<String> {
        let mut cited = Vec::new();
        for word in &claim.evidence {
            match word.trim_matches(['[', ']']).parse::<EventRef>() {
                Ok(at) if self.is_in_log(at) => cited.push(at),
                _ => return Some(format!("`{word}` is no entry of this log")),
            }
        }
        if cited.is_empty() {
            return Some("it cites nothing".to_owned());
        }
        match claim.kind {
            ClaimKind::ChecksPass => self.doubt_checks(&cited),
            ClaimKind::Changed => self.doubt_change(),
            ClaimKind::Observed => None,
        }
    }

    fn is_in_log(&self, at: EventRef) -> bool {
        let known = at.seq < self.next_seq;
        known && self.kept.get(&at.seq).is_none_or(|entry| usize::from(at.i) < entry.events.len())
    }

    /// Checks pass when the last run of each passed, and what is cited is a command that passed after the last
    /// change of a file and has not failed since.
    fn doubt_checks(&self, cited: &[EventRef]) -> Option<String> {
        let squad = self.squad.as_ref()?;
        let ran = || squad.roles.iter().flat_map(|role| role.proof.ran());
        if let Some((at, _)) = ran().find(|(_, passed)| !passed) {
            return Some(format!("the check of {at} did not pass"));
        }
        if squad.roles.iter().any(|role| role.proof.fails()) {
            return Some("a check could not be run after the last change".to_owned());
        }
        let changed = squad.last_change.unwrap_or(0);
        let passed = squad.runs.iter().filter(|run| run.passed && run.at.seq > changed);
        let mut cited = passed.filter(|run| cited.contains(&run.at)).peekable();
        if cited.peek().is_none() {
            let none = ran().next().is_none();
            let words = if none { "no check ran" } else { "what it cites is not a check that passed" };
            return Some(format!("{words} after the last change"));
        }
        let failed = cited.filter_map(|run| squad.last_run_like(run)).find(|last| !last.passed)?;
        Some(format!("`{}` did not pass when it ran again in {}", failed.command, failed.at))
    }

    fn doubt_change(&self) -> Option<String> {
        let squad = self.squad.as_ref()?;
        let mut writers = squad.roles.iter().filter(|role| role.kind == RoleKind::Writer);
        let changed = writers.any(|role| role.proof.diff.flatten().is_some());
        let unknown = squad.base.is_none() || squad.last_change.is_some();
        (!changed && !unknown).then(|| "no file was changed in this turn".to_owned())
    }
}

//! Holds the claims of a squad's answer against the log; what is not borne out is flagged.

use crate::protocol::event::{ArenaEvent, ClaimFlagged, ToolStatus};
use crate::protocol::text::unfenced;
use crate::protocol::typed::{Claim, ClaimKind, SquadAnswer};
use crate::protocol::{EventRef, SparkId};
use crate::session::Session;

use super::state::RoleKind;

impl Session {
    /// Flags every claim of the lead's answer that cites nothing that is there, or that the log contradicts.
    pub(super) fn flag_claims(&mut self, _lead: SparkId, source: EventRef) {
        let Some(ArenaEvent::ModelAnswered(answer)) = self.event(source) else { return };
        let Ok(answer) = serde_json::from_str::<SquadAnswer>(unfenced(&answer.body.text())) else { return };
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

    /// Checks pass when the last run of each passed; without checks, when a cited command did after the last
    /// change of a file.
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
        let passed = |at: &EventRef| match self.event(*at) {
            Some(ArenaEvent::CheckRan(ran)) => ran.body.exit == Some(0),
            Some(ArenaEvent::ToolResolved(end)) => {
                end.body.exit == Some(0) && end.body.status == ToolStatus::Ok
            }
            _ => false,
        };
        match cited.iter().any(|at| at.seq > changed && passed(at)) {
            true => None,
            false if ran().next().is_none() => Some("no check ran after the last change".to_owned()),
            false => Some("what it cites is not a check that passed after the last change".to_owned()),
        }
    }

    fn doubt_change(&self) -> Option<String> {
        let squad = self.squad.as_ref()?;
        let mut writers = squad.roles.iter().filter(|role| role.kind == RoleKind::Writer);
        let changed = writers.any(|role| role.proof.diff.flatten().is_some());
        let unknown = squad.base.is_none() || squad.last_change.is_some();
        (!changed && !unknown).then(|| "no file was changed in this turn".to_owned())
    }
}

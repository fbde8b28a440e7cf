//! Whether a squad's run says what the next run of its key would come to, and if not, why; decides nothing.

use crate::protocol::event::ArenaEvent;
use crate::protocol::fit;
use crate::protocol::typed::{ClaimKind, SquadAnswer};
use crate::session::Session;
use crate::session::squad::state::Squad;

/// Kept for a run whose last diff does not show what it leaves.
pub(super) const AFTER_DIFF: &str =
    "the workspace changed after the last diff: by a check or by somebody else";

impl Session {
    /// Why no run of this squad can ever be stored, so that looking for one is idle: known before it begins.
    pub(super) fn never_fit(&self) -> Option<String> {
        let squad = self.squad.as_ref()?;
        let confined = self.spec.as_ref().is_some_and(|spec| spec.workspace.sandbox.confines());
        let checks = !squad.checks.is_empty() && squad.roles.iter().any(|role| role.writes);
        (checks && !confined).then(|| "its checks run outside a confining sandbox".to_owned())
    }

    /// Why the run that has just ended is not stored, if so.
    pub(super) fn unfit_now(&self, squad: &Squad) -> Option<String> {
        let unfit = self.squad_lacks().or_else(|| squad.cache.unfit.clone());
        let unfit = unfit.or_else(|| foreign_change(squad)).or_else(|| left_behind(squad));
        unfit.or_else(|| self.flagged_pass(squad))
    }

    /// Nothing shows that checks pass, which the answer claims, or its text cites what is not there: it would be said
    /// again without a word against it.
    fn flagged_pass(&self, squad: &Squad) -> Option<String> {
        if let Some(said) = squad.flags.iter().find_map(|flag| flag.said.as_ref()) {
            return Some(format!("its answer says \"{said}\", and nothing shows it"));
        }
        let flagged = squad.flags.iter().any(|flag| {
            let Some(ArenaEvent::ModelAnswered(said)) = self.event(flag.source) else { return false };
            let claims = fit::read::<SquadAnswer>(&said.body.text()).map(|answer| answer.claims);
            let claim = claims.as_ref().and_then(|claims| claims.get(usize::try_from(flag.claim).ok()?));
            claim.is_some_and(|claim| claim.kind == ClaimKind::ChecksPass)
        });
        flagged.then(|| "its answer claims that checks pass, and nothing shows it".to_owned())
    }
}

/// A changed file that no tool of the squad wrote.
fn foreign_change(squad: &Squad) -> Option<String> {
    let foreign = squad.foreign().next()?;
    Some(format!("`{foreign}` was changed by somebody else meanwhile"))
}

/// Why what the squad leaves is not what its last diff shows. What a run stores is what it leaves, so that anything
/// else in it would be done again, in somebody else's name, wherever the run is applied.
fn left_behind(squad: &Squad) -> Option<String> {
    let shown = squad.tree.as_ref().or(squad.base.as_ref());
    let differs = squad.last_look().is_some_and(|left| Some(&left.to) != shown);
    differs.then(|| AFTER_DIFF.to_owned())
}

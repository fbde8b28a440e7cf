//! Whether a squad's run says what the next run of its key would come to, and if not, why; decides nothing.

use crate::protocol::event::ArenaEvent;
use crate::protocol::fit;
use crate::protocol::typed::{ClaimKind, SquadAnswer};
use crate::session::Session;
use crate::session::squad::state::Squad;

use super::key::{tools_in_use, unidentified};

impl Session {
    /// Why no run of this squad can ever be stored, so that looking for one is idle: known before it begins.
    pub(super) fn never_fit(&self) -> Option<String> {
        let (squad, spec) = (self.squad.as_ref()?, self.spec.as_ref()?);
        let checks = !squad.checks.is_empty() && squad.roles.iter().any(|role| role.writes);
        if checks && !spec.workspace.sandbox.confines() {
            return Some("its checks run outside a confining sandbox".to_owned());
        }
        if !spec.gates.is_empty() {
            return Some("a gate may judge its calls otherwise next time".to_owned());
        }
        let roles = spec.blueprint.iter().flat_map(|blueprint| &blueprint.roles);
        if let Some(tool) = tools_in_use(spec, roles).find(|tool| tool.source.is_some()) {
            return Some(format!(
                "the tool `{}` is not agon's own and may answer otherwise next time",
                tool.name
            ));
        }
        unidentified(spec).map(|model| format!("it is not known what answers as `{model}`"))
    }

    /// Why the run that has just ended is not stored, if so. What a run stores is what it leaves, so that a change of
    /// somebody else would be made again, in the squad's name, wherever the run is applied.
    pub(super) fn unfit_now(&self, squad: &Squad) -> Option<String> {
        let others = || {
            let work = squad.work.as_ref()?;
            let path = work.foreign.first().or(work.unknown.first())?;
            Some(format!("`{path}` may have been changed by another process"))
        };
        let unfit = self.squad_lacks().or_else(|| squad.cache.unfit.clone()).or_else(others);
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

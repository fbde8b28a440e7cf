//! Whether a debate can be held as planned.

use crate::protocol::spec::{DebatePlan, Spec};
use crate::session::Session;

use super::ROUNDS;

impl Session {
    /// A debate that could not be held as planned is refused before it costs anything.
    pub(in crate::session) fn admit_debate(&self, plan: &DebatePlan, spec: &Spec) -> Result<(), String> {
        let persona = |id: &str| spec.personas.iter().any(|one| one.id == id);
        let model = |name: &str| spec.models.iter().any(|one| one.name == name);
        let repeated = |id: &&String| plan.personas.iter().filter(|other| other == id).count() > 1;
        if plan.personas.len() < 2 {
            return Err("a debate needs at least two personas".to_owned());
        }
        if let Some(id) = plan.personas.iter().find(repeated) {
            return Err(format!("the persona `{id}` is named twice"));
        }
        if plan.personas.contains(&plan.moderator) {
            return Err(format!("`{}` cannot debate and moderate", plan.moderator));
        }
        if let Some(id) = plan.personas.iter().chain([&plan.moderator]).find(|id| !persona(id)) {
            return Err(format!("no persona is called `{id}`"));
        }
        if let Some((_, name)) = plan.models.iter().find(|(_, name)| !model(name)) {
            return Err(format!("the model `{name}` is not one of this session's"));
        }
        if !ROUNDS.contains(&plan.rounds) {
            return Err(format!("a debate has 2 to 12 rounds, not {}", plan.rounds));
        }
        match self.scorers.get(&plan.scorer) {
            Some(_) => Ok(()),
            None => Err(format!("no scorer is called `{}`", plan.scorer)),
        }
    }
}

//! The demonstration of a debate: a question about the demo's project, six debaters of three model families.

use crate::library::persona::{DEBATERS, MODERATOR};
use crate::protocol::spec::DebatePlan;

/// Models of the demo, a family each; each speaks for two debaters.
pub const MODELS: [&str; 3] = ["demo/north", "demo/south", "demo/east"];

/// All six in four phases.
pub fn plan() -> DebatePlan {
    let models = DEBATERS.iter().zip(MODELS.iter().cycle());
    DebatePlan {
        personas: DEBATERS.iter().map(|id| (*id).to_owned()).collect(),
        moderator: MODERATOR.to_owned(),
        rounds: 4,
        scorer: "ballots".to_owned(),
        models: models.map(|(id, model)| ((*id).to_owned(), (*model).to_owned())).collect(),
    }
}

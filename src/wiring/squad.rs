//! What a squad brings into a session: its blueprint, the personas of its roles and their models.

use std::path::PathBuf;

use crate::config::{Config, Trust, places};
use crate::library::blueprint::{self, Known};
use crate::protocol::spec::{Blueprint, PersonaSpec, ToolSpec};
use crate::wiring::{WireError, spec};

/// The squad that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SquadWish {
    /// A blueprint's name, or the path of its file.
    pub blueprint: String,
    /// Checks beside those of the blueprint.
    pub checks: Vec<String>,
}

/// A blueprint that can be followed here, with the personas it names.
pub(super) struct Crew {
    pub blueprint: Blueprint,
    pub personas: Vec<PersonaSpec>,
}

impl Crew {
    /// Reads the blueprint. `model_is_wanted`: the model named for this run counts more than the personas' own.
    pub fn of(
        config: &Config,
        wish: &SquadWish,
        tools: &[ToolSpec],
        model_is_wanted: bool,
    ) -> Result<Self, WireError> {
        let library = spec::personas(config);
        let known = Known { tools, persona: &|id| library.get(id).is_some() };
        let mut blueprint = blueprint::find(&wish.blueprint, &folders(config), &known)?;
        blueprint.checks.extend(wish.checks.iter().cloned());
        let mut personas: Vec<PersonaSpec> = Vec::new();
        for role in &blueprint.roles {
            if personas.iter().all(|known| known.id != role.persona) {
                let mut persona = spec::named_persona(config, &role.persona)?;
                persona.model = persona.model.filter(|_| !model_is_wanted);
                personas.push(persona);
            }
        }
        Ok(Crew { blueprint, personas })
    }

    /// The models that roles and personas name.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        let roles = self.blueprint.roles.iter().filter_map(|role| role.model.as_deref());
        roles.chain(self.personas.iter().filter_map(|persona| persona.model.as_deref()))
    }
}

/// Where blueprints are looked up by name: the user's, then, where it is trusted, the project's. A
/// blueprint's checks are commands, so a project that nobody trusts brings none.
fn folders(config: &Config) -> Vec<PathBuf> {
    let mut folders = vec![config.places().blueprints()];
    if *config.trust() == Trust::Trusted {
        folders.push(places::project_blueprints(config.workspace()));
    }
    folders
}

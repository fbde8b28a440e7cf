//! What a squad brings into a session: its blueprint, the personas of its roles and their models.

use std::slice;

use crate::assembly::{WireError, spec};
use crate::config::{Config, ConfigError, Trust};
use crate::library::blueprint::{self, BlueprintError};
use crate::protocol::blueprint::Known;
use crate::protocol::spec::{Blueprint, PersonaSpec, RoleSpec, Spec, ToolSpec};

/// The squad that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SquadWish {
    /// A blueprint's name, or the path of its file; none for the one the session has, or the built-in one.
    pub blueprint: Option<String>,
    /// Checks beside those of the blueprint.
    pub checks: Vec<String>,
}

/// A blueprint that can be followed here, with the personas it names.
pub(super) struct Crew {
    pub blueprint: Blueprint,
    pub personas: Vec<PersonaSpec>,
}

impl Crew {
    /// Reads the blueprint, or takes the recorded one where none is named. `model_is_wanted`: the model named for this
    /// run counts more than the personas' own.
    pub fn of(
        config: &Config,
        wish: &SquadWish,
        recorded: Option<&Spec>,
        tools: &[ToolSpec],
        model_is_wanted: bool,
    ) -> Result<Self, WireError> {
        if wish.checks.iter().any(|check| check.trim().is_empty()) {
            return Err(WireError::EmptyCheck);
        }
        let recorded = recorded.filter(|_| wish.blueprint.is_none());
        if let Some((spec, blueprint)) = recorded.and_then(|spec| Some((spec, spec.blueprint.as_ref()?))) {
            return Ok(Crew::recorded(spec, blueprint, wish, model_is_wanted));
        }
        let library = spec::personas(config);
        let unknown = |name: &str| {
            let error = match name.parse().map_err(ConfigError::from) {
                Ok(name) => spec::model(config, &name).err()?,
                Err(error) => WireError::from(error),
            };
            Some((error.to_string(), error.hint()))
        };
        let known = Known { tools, persona: &|id| library.get(id).is_some(), model: &unknown };
        let wanted = wish.blueprint.as_deref().unwrap_or(blueprint::DEFAULT);
        let found = blueprint::find(wanted, &config.blueprints(), &known);
        let mut blueprint = found.map_err(|error| not_found(config, wanted, error))?;
        blueprint.checks.extend(wish.checks.iter().cloned());
        let mut personas: Vec<PersonaSpec> = Vec::new();
        for role in &blueprint.roles {
            if personas.iter().all(|known| known.id != role.persona) {
                let mut persona = spec::persona(config, &role.persona, tools)?;
                persona.model = persona.model.filter(|_| !model_is_wanted);
                personas.push(persona);
            }
        }
        Ok(Crew { blueprint, personas })
    }

    /// The squad a session already has, with more checks.
    fn recorded(spec: &Spec, blueprint: &Blueprint, wish: &SquadWish, model_is_wanted: bool) -> Self {
        let mut blueprint = blueprint.clone();
        let new = wish.checks.iter().filter(|check| !blueprint.checks.contains(check));
        let new: Vec<String> = new.cloned().collect();
        blueprint.checks.extend(new);
        let named = |persona: &&PersonaSpec| blueprint.roles.iter().any(|role| role.persona == persona.id);
        let mut personas: Vec<PersonaSpec> = spec.personas.iter().filter(named).cloned().collect();
        if model_is_wanted {
            personas.iter_mut().for_each(|persona| persona.model = None);
        }
        Crew { blueprint, personas }
    }

    /// The models that roles and personas name.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        let roles = self.blueprint.roles.iter().flat_map(RoleSpec::models);
        roles.chain(self.personas.iter().flat_map(PersonaSpec::models))
    }
}

/// The blueprints that can be named here.
pub fn blueprints(config: &Config) -> Vec<String> {
    blueprint::names(&config.blueprints())
}

/// Why there is no such blueprint: the project that has it is not trusted, or nobody has it.
fn not_found(config: &Config, wanted: &str, error: BlueprintError) -> WireError {
    let theirs = config.project_if(Trust::Untrusted).map(|project| slice::from_ref(&project.blueprints));
    let is_theirs = theirs.is_some_and(|theirs| blueprint::names(theirs).iter().any(|name| name == wanted));
    if is_theirs && matches!(error, BlueprintError::Unknown { .. }) {
        let (id, root) = (wanted.to_owned(), config.workspace().to_owned());
        return WireError::Untrusted { what: "blueprint", id, root };
    }
    error.into()
}

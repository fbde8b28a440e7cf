//! The places of a squad's roles that are confined otherwise than their session; decides nothing about calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::WireError;
use super::confine::{Wanted, confined, kind_of, plain};
use crate::config::{Config, SandboxKind};
use crate::ports::Sandbox;
use crate::protocol::spec::{PermissionLevel, RolePlace, RoleSpec, Rule, Setting, Spec, WorkspaceSpec};

/// What a place is started with.
#[derive(Clone, Copy)]
pub(super) enum Means<'a> {
    /// A configuration, and the session.
    Configured(&'a Config, &'a str),
    /// No configuration: the state folder.
    Plain(&'a Path),
}

impl Means<'_> {
    /// What stands in for `local` where namespaces are refused will do only where the session has no more itself.
    async fn start(
        self,
        (root, rules): (&Path, &[Rule]),
        (kind, read_only): (SandboxKind, bool),
        main: &Arc<dyn Sandbox>,
    ) -> Result<Arc<dyn Sandbox>, WireError> {
        let (config, session) = match self {
            Means::Plain(state) => return plain(kind, root, (read_only, rules), state).await,
            Means::Configured(config, session) => (config, session),
        };
        let wanted =
            Wanted { kind, root, session, rules, read_only, has_consent: false, is_looked_at: false };
        let has_less = main.spec().kind == "landlock-only";
        match kind {
            SandboxKind::Local if has_less => {
                confined(config, Wanted { kind: SandboxKind::LandlockOnly, ..wanted }).await
            }
            _ => confined(config, wanted).await,
        }
    }
}

/// Places of roles: what the log says of them, and the sandboxes.
#[derive(Default)]
pub(super) struct OpenedRoleSandboxes {
    pub specs: Vec<RolePlace>,
    pub sandboxes: BTreeMap<String, Arc<dyn Sandbox>>,
}

impl OpenedRoleSandboxes {
    /// Starts the places that a session's blueprint gives its roles. Roles that want the same share one.
    pub async fn open(
        means: Means<'_>,
        root: &Path,
        spec: &Spec,
        main: &Arc<dyn Sandbox>,
    ) -> Result<Self, WireError> {
        let mut places = OpenedRoleSandboxes::default();
        let mut started: Vec<((SandboxKind, bool), Arc<dyn Sandbox>)> =
            vec![((kind_of(&main.spec())?, false), Arc::clone(main))];
        places.plan(means, (root, spec), main).await?;
        let roles = spec.blueprint.iter().flat_map(|blueprint| &blueprint.roles);
        for role in roles.filter(|role| role.has_place()) {
            let kind = kind_for(role, main)?;
            let shape = (kind, role.read_only);
            let sandbox = match started.iter().find(|(known, _)| *known == shape) {
                Some((_, sandbox)) => Arc::clone(sandbox),
                None => {
                    let opened = means.start((root, &spec.policy.rules), shape, main).await;
                    let sandbox = opened.map_err(|error| for_role(role, error))?;
                    started.push((shape, Arc::clone(&sandbox)));
                    sandbox
                }
            };
            let name = role.name.clone();
            let place = RolePlace { role: name.clone(), read_only: role.read_only, sandbox: sandbox.spec() };
            places.specs.push(place);
            places.sandboxes.insert(name, sandbox);
        }
        Ok(places)
    }

    /// Starts the place in which commands run at the level `plan`, where something can hold them.
    async fn plan(
        &mut self,
        means: Means<'_>,
        (root, spec): (&Path, &Spec),
        main: &Arc<dyn Sandbox>,
    ) -> Result<(), WireError> {
        let kind = kind_of(&main.spec())?;
        if spec.permission != PermissionLevel::Plan || kind == SandboxKind::None {
            return Ok(());
        }
        let sandbox = means.start((root, &spec.policy.rules), (kind, true), main).await?;
        let role = WorkspaceSpec::PLANNING.to_owned();
        self.specs.push(RolePlace { role: role.clone(), read_only: true, sandbox: sandbox.spec() });
        self.sandboxes.insert(role, sandbox);
        Ok(())
    }

    /// Makes a spec and the settings that lead to it say where the roles work.
    pub fn tell(&self, changed: &mut Vec<Setting>, spec: &mut Spec) {
        if self.specs != spec.workspace.places {
            spec.workspace.places.clone_from(&self.specs);
            changed.retain(|setting| !matches!(setting, Setting::Workspace(_)));
            changed.push(Setting::Workspace(spec.workspace.clone()));
        }
    }
}

/// The kind a role names, else the session's. What is to change nothing has to be held by something.
fn kind_for(role: &RoleSpec, main: &Arc<dyn Sandbox>) -> Result<SandboxKind, WireError> {
    match role.sandbox.as_deref() {
        Some("docker") => Ok(SandboxKind::Docker),
        Some("local") => Ok(SandboxKind::Local),
        Some(other) => Err(WireError::UnknownSandbox(other.to_owned())),
        None => match kind_of(&main.spec())? {
            SandboxKind::None => Err(WireError::NothingHolds(role.name.clone())),
            kind => Ok(kind),
        },
    }
}

fn for_role(role: &RoleSpec, error: WireError) -> WireError {
    WireError::Role { role: role.name.clone(), error: Box::new(error) }
}

//! What mission control works with: configuration, flags, policy. A change makes it anew; it does nothing by itself.

use std::path::{Path, PathBuf};

use crate::cli::args::{HeldArgs, PermissionArgs};
use crate::cli::debate::MAX_STEPS;
use crate::cli::error::Failure;
use crate::cli::plan::{self, RunPlan, ShowPlan};
use crate::config::{Config, Environment, ModelName, Override, SandboxKind};
use crate::host::{self, Changes, Host, LimitChanges, Sessions};
use crate::protocol::message::Effort;
use crate::protocol::spec::{Mode, PermissionLevel};

use super::mode_request::Company;

/// Shared by the work that is under way.
pub(super) struct SessionOptions {
    pub config: Config,
    pub environment: Environment,
    /// The values set by flags and, later, on the screen.
    pub overrides: Vec<Override>,
    /// What is different from the recorded settings of a session that is taken up.
    pub changes: Changes,
}

impl SessionOptions {
    /// The same with other overrides.
    fn with(&self, more: Vec<Override>) -> Result<SessionOptions, Failure> {
        let mut overrides = self.overrides.clone();
        overrides.retain(|old| more.iter().all(|new| new.key != old.key));
        overrides.extend(more);
        let config = Config::load(self.environment.clone(), self.config.workspace(), &overrides)?;
        Ok(SessionOptions {
            config,
            environment: self.environment.clone(),
            overrides,
            changes: self.changes.clone(),
        })
    }

    /// The same with another model, which must be one that can be called.
    pub fn with_model(&self, name: &ModelName) -> Result<SessionOptions, Failure> {
        if host::is_demo(&self.config, &name.to_string()) {
            let words = format!("`{name}` is the script of the demo and knows no other task");
            return Err(Failure::usage(words).hint("/demo shows it"));
        }
        host::check_model(&self.config, name)?;
        let mut kit = self.with(plan::named((Some(&name.to_string()), None)))?;
        kit.changes.model = Some(name.clone());
        Ok(kit)
    }

    /// The same with another effort.
    pub fn with_effort(&self, word: &str) -> Result<SessionOptions, Failure> {
        let effort = Effort::named(word)
            .ok_or_else(|| Failure::usage(format!("`{word}` is no effort: low, medium or high")))?;
        let typed = HeldArgs { effort: Some(effort), ..HeldArgs::default() };
        let mut kit = self.with(plan::overrides(&typed))?;
        kit.changes.effort = Some(effort);
        Ok(kit)
    }

    /// The same with another persona.
    pub fn with_persona(&self, id: &str) -> Result<SessionOptions, Failure> {
        let mut kit = self.with(plan::named((None, Some(id))))?;
        host::persona_of(&kit.config, &host::personas(&kit.config), id)?;
        kit.changes.persona = Some(id.to_owned());
        Ok(kit)
    }

    /// The same with the rules of a file as well.
    pub fn with_policy(&self, file: &str) -> Result<SessionOptions, Failure> {
        let mut kit = self.with(Vec::new())?;
        let path = self.config.workspace().join(file);
        kit.changes.rules.extend(plan::rules_in(&path)?);
        Ok(kit)
    }

    /// The same with other limits.
    pub fn with_limits(&self, typed: &HeldArgs) -> Result<SessionOptions, Failure> {
        let mut kit = self.with(plan::overrides(typed))?;
        let (new, old) = (plan::limit_changes(typed, &kit.config), kit.changes.limits);
        kit.changes.limits = LimitChanges {
            max_steps: new.max_steps.or(old.max_steps),
            max_tokens: new.max_tokens.or(old.max_tokens),
            max_micro_usd: new.max_micro_usd.or(old.max_micro_usd),
            max_seconds: new.max_seconds.or(old.max_seconds),
        };
        Ok(kit)
    }

    /// The same with the limits, the sandbox and the permission level of another kit.
    pub fn with_bounds_of(&self, other: &SessionOptions) -> Result<SessionOptions, Failure> {
        let is_bound =
            |set: &&Override| matches!(set.key.first(), Some(&("limits" | "sandbox" | "permission")));
        let mut overrides: Vec<Override> =
            self.overrides.iter().filter(|set| !is_bound(set)).cloned().collect();
        overrides.extend(other.overrides.iter().filter(is_bound).cloned());
        let config = Config::load(self.environment.clone(), self.config.workspace(), &overrides)?;
        let Changes { limits, sandbox, permission, .. } = other.changes;
        let changes = Changes { limits, sandbox, permission, ..self.changes.clone() };
        Ok(SessionOptions { config, environment: self.environment.clone(), overrides, changes })
    }

    /// The same with another permission level.
    pub fn with_permission(&self, level: PermissionLevel) -> Result<SessionOptions, Failure> {
        let permission = PermissionArgs { level: Some(level), allow: Vec::new() };
        let mut kit = self.with(plan::overrides(&HeldArgs { permission, ..HeldArgs::default() }))?;
        kit.changes.permission = Some(level);
        Ok(kit)
    }

    /// The same with another sandbox.
    pub fn with_sandbox(&self, kind: SandboxKind) -> Result<SessionOptions, Failure> {
        let typed = HeldArgs { sandbox: Some(kind), ..HeldArgs::default() };
        let mut kit = self.with(plan::overrides(&typed))?;
        kit.changes.sandbox = Some(kind);
        Ok(kit)
    }

    /// What is to be different for a task of this company: a debate needs more steps than one spark.
    pub fn changes_for(&self, company: &Company) -> Changes {
        let mut changes = self.changes.clone();
        let steps = self.config.limits().max_steps;
        changes.squad.clone_from(&company.squad);
        changes.debate = company.debate();
        let typed = changes.limits.max_steps.is_some();
        if matches!(company.mode, Mode::Debate(_)) && !typed {
            changes.limits.max_steps = Some(steps.max(MAX_STEPS));
        }
        changes
    }

    /// The configuration of a new session for a task of this company.
    pub fn config_for(&self, company: &Company) -> Result<Config, Failure> {
        let steps = self.changes_for(company).limits.max_steps;
        let steps = steps.map(|steps| plan::set("debate", &["limits", "max_steps"], i64::from(steps).into()));
        Ok(self.with(steps.into_iter().collect())?.config)
    }

    /// What a task without a screen is run by: in an earlier session, or in a new one.
    pub fn plan(
        &self,
        prompt: String,
        company: &Company,
        (resume, root): (Option<String>, Option<PathBuf>),
        show: ShowPlan,
    ) -> Result<RunPlan, Failure> {
        let config = match &resume {
            Some(session) => self.config_of(session, root.as_deref())?,
            None => self.config_for(company)?,
        };
        let changes = Changes { reads_only: company.debate().is_some(), root, ..self.changes_for(company) };
        Ok(RunPlan { config, prompt, schema: None, resume, changes, show })
    }

    /// The configuration for the workspace of a recorded session, flags included; `root` is a folder that was named.
    pub fn config_of(&self, session: &str, root: Option<&Path>) -> Result<Config, Failure> {
        Ok(self.host().config_for((session, root), self.environment.clone(), &self.overrides)?)
    }

    /// The configuration of the folder that an open session works in.
    pub fn config_at(&self, root: &Path) -> Result<Config, Failure> {
        match root == self.config.workspace() {
            true => Ok(self.config.clone()),
            false => Ok(Config::load(self.environment.clone(), root, &self.overrides)?),
        }
    }

    /// What a copy is made with: the configuration, and what is different in the copy.
    pub fn for_copy(&self, session: &str) -> Result<(Config, Changes), Failure> {
        let (host, here) = (self.host(), self.config.workspace());
        let root = host.known_folder(session, here)?;
        let folders = (session, root.as_deref(), here);
        let config = host.config_for_copy(folders, self.environment.clone(), &self.overrides)?;
        Ok((config, Changes { root, ..self.changes.clone() }))
    }

    fn host(&self) -> Host {
        Host::at(self.config.places())
    }

    pub fn sessions(&self) -> Sessions {
        Sessions::of(&self.config)
    }

    /// The model of a new session, as far as nothing has to be looked for.
    pub fn named_model(&self) -> Option<&ModelName> {
        self.changes.model.as_ref()
    }
}

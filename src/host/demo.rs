//! The built-in demonstrations: a project of their own, a task, and who works on it.

use std::path::{Path, PathBuf};

use super::{Changes, SquadWish};
use crate::assembly::{self, WireError};
use crate::config::{Config, ConfigError, ModelName};
use crate::library::blueprint::DEFAULT;
use crate::library::demo::{self, Story};
use crate::protocol::Command;
use crate::protocol::spec::Mode;

/// The folder with a demo's project. One that was made for it goes when this is dropped.
#[derive(Debug)]
pub struct DemoFolder {
    /// Where it is.
    pub root: PathBuf,
    made: Option<tempfile::TempDir>,
}

impl DemoFolder {
    /// True for one that goes with this.
    pub fn is_temporary(&self) -> bool {
        self.made.is_some()
    }

    /// Leaves it there: the demo is not over.
    pub fn keep(&mut self) {
        drop(self.made.take().map(tempfile::TempDir::keep));
    }
}

/// A demonstration.
pub struct Demo {
    story: &'static Story,
    mode: Mode,
    squad: Option<SquadWish>,
}

impl Demo {
    /// One agent on one task.
    pub fn solo() -> Self {
        Demo { story: &demo::RUN, mode: Mode::Solo, squad: None }
    }

    /// A squad on one task.
    pub fn squad() -> Self {
        let checks = demo::SQUAD.checks.iter().map(|check| (*check).to_owned()).collect();
        let squad = Some(SquadWish { blueprint: Some(DEFAULT.to_owned()), checks });
        Demo { story: &demo::SQUAD, mode: Mode::Squad, squad }
    }

    /// Personas on a question.
    pub fn debate() -> Self {
        Demo { story: &demo::DEBATE, mode: Mode::Debate(demo::debate::plan()), squad: None }
    }

    /// What its session is opened with, on its own model.
    pub fn changes(&self) -> Result<(ModelName, Changes), WireError> {
        let model: ModelName = demo::MODEL.parse().map_err(ConfigError::from)?;
        let debate = match &self.mode {
            Mode::Debate(plan) => Some(plan.clone()),
            _ => None,
        };
        let squad = self.squad.clone();
        Ok((model.clone(), Changes { model: Some(model), squad, debate, ..Changes::default() }))
    }

    /// Its task.
    pub fn task(&self) -> Command {
        let text = self.story.prompt.trim_end().to_owned();
        Command::Prompt { text, mode: self.mode.clone(), schema: None }
    }

    /// A folder with its project: the one that was named, which must be empty, or a new temporary one.
    pub fn folder(&self, wanted: Option<&Path>) -> Result<DemoFolder, WireError> {
        let failed = |what: &str, error: std::io::Error| WireError::Workspace(format!("{what}: {error}"));
        let no_folder = |error| failed("cannot make a folder for the demo", error);
        let made = match wanted {
            Some(folder) => std::fs::create_dir_all(folder).map(|()| None),
            None => tempfile::Builder::new().prefix("agon-demo-").tempdir().map(Some),
        };
        let made = made.map_err(no_folder)?;
        let root = made.as_ref().map(tempfile::TempDir::path).or(wanted).unwrap_or(Path::new("."));
        let root = root.canonicalize().map_err(no_folder)?;
        if std::fs::read_dir(&root).is_ok_and(|mut entries| entries.next().is_some()) {
            let words = format!("`{}` is not empty; the demo needs a folder of its own", root.display());
            return Err(WireError::Workspace(words));
        }
        let written = self.story.write_project(&root);
        written.map_err(|error| failed("cannot write the demo's project", error))?;
        Ok(DemoFolder { root, made })
    }
}

/// The model for a task after a demo, whose script answers no other one: the one that was named or found, else one that
/// is looked for.
pub async fn model_after_demo(config: &Config, known: Option<ModelName>) -> Result<ModelName, WireError> {
    let model = match known {
        Some(model) => Some(model),
        None => config.choose_model().await.ok().map(|(model, _)| model),
    };
    model.filter(|model| !assembly::is_demo(config, &model.to_string())).ok_or(WireError::OnlyDemo)
}

//! The folder a recorded session works in when it is resumed or copied, and what a workspace holds.

use std::path::{Path, PathBuf};

use super::{Consented, Host, Person, Question};
use crate::assembly::{Changes, WireError};
use crate::config::{Config, Environment, Override};
use crate::host_files::walk;
use crate::projection::Board;

/// Files of a workspace that completion knows at most.
const MOST_FILES: usize = 20_000;

impl Host {
    /// The folder that a session of another machine or user may work in; none for a session of this user, which works
    /// where it was begun. `here` is the present folder. The person is asked where only the log names a folder.
    pub async fn folder_of<P: Person>(
        &self,
        session: &str,
        here: &Path,
        person: &P,
    ) -> Result<Option<PathBuf>, P::Failure> {
        if let Some(folder) = self.known_folder(session, here)? {
            return Ok(Some(folder));
        }
        match self.sessions().home(session) {
            Ok(_) => Ok(None),
            Err(error) => {
                if let Some(question) = Question::of(&error, &Changes::default())
                    && let Question::Folder { root, .. } = question.clone()
                    && person.agrees(question).await? == Consented::Yes
                {
                    return Ok(Some(root));
                }
                Err(error.into())
            }
        }
    }

    /// The present folder where the log of a session from elsewhere names it: that needs no question.
    pub fn known_folder(&self, session: &str, here: &Path) -> Result<Option<PathBuf>, WireError> {
        match self.sessions().home(session) {
            Err(WireError::ForeignRoot { root, .. }) if existing(&root).is_some_and(|root| root == here) => {
                Ok(Some(here.to_owned()))
            }
            Ok(_) | Err(WireError::ForeignRoot { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The configuration for the folder a session works in: the one that was named, else the one it was begun in, gone
    /// or not.
    pub fn config_for(
        &self,
        (session, root): (&str, Option<&Path>),
        environment: Environment,
        overrides: &[Override],
    ) -> Result<Config, WireError> {
        let root = match root {
            Some(root) => root.to_owned(),
            None => Some(self.sessions().home(session)?).filter(|root| root.is_dir()).unwrap_or("/".into()),
        };
        Ok(Config::load(environment, &root, overrides)?)
    }

    /// The same for a copy. Of a session from elsewhere it is that of the present folder.
    pub fn config_for_copy(
        &self,
        (session, root, here): (&str, Option<&Path>, &Path),
        environment: Environment,
        overrides: &[Override],
    ) -> Result<Config, WireError> {
        let own = self.sessions().home(session).is_ok();
        self.config_for((session, root.or((!own).then_some(here))), environment, overrides)
    }

    /// Refuses a session that takes no task now: its last one is not over, or another process has it. Damage is left to
    /// opening the log.
    pub fn check_idle(&self, session: &str) -> Result<(), WireError> {
        self.sessions().check_free(session)?;
        let mut board = Board::default();
        let fault = self.sessions().scan(session, &mut |entry| {
            board.apply(&entry);
            true
        })?;
        if fault.is_some() || !board.has_open_turn() {
            return Ok(());
        }
        let asks = board.approvals.iter().map(|ask| format!("{}: {}", ask.tool, ask.target));
        Err(WireError::OpenTurn { asks: asks.collect::<Vec<_>>().join(", "), id: board.id })
    }
}

/// The folder that a path leads to.
pub(super) fn existing(root: &Path) -> Option<PathBuf> {
    root.canonicalize().ok().filter(|root| root.is_dir())
}

/// Files and folders of a workspace, without what is ignored there; folders end with a slash.
pub fn workspace_files(root: &Path) -> Vec<String> {
    let walk = walk::builder(root, |_| true).hidden(true).build().filter_map(Result::ok);
    let name = |entry: ignore::DirEntry| {
        let path = entry.path().strip_prefix(root).ok()?.to_str()?.to_owned();
        let is_folder = entry.file_type()?.is_dir();
        (!path.is_empty()).then(|| if is_folder { format!("{path}/") } else { path })
    };
    let mut files: Vec<String> = walk.filter_map(name).take(MOST_FILES).collect();
    files.sort();
    files
}

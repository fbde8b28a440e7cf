//! Brings what a fork changed home into the workspace of its parent, as a three-way patch.

use std::path::{Path, PathBuf};

use super::Host;
use crate::assembly::rewind::{self, MergePlan};
use crate::assembly::{WireError, WorkspaceLock};
use crate::protocol::ArenaEvent;
use crate::protocol::event::SessionForked;

/// What bringing a fork home does, or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The fork.
    pub fork: String,
    /// The folder its changes go to.
    pub root: PathBuf,
    /// What becomes of the files there.
    pub plan: MergePlan,
    /// Paths that could not be changed, and why.
    pub failed: Vec<(String, String)>,
}

impl Applied {
    /// True when every change is there as the fork has it.
    pub fn is_whole(&self) -> bool {
        self.plan.conflicts.is_empty() && self.failed.is_empty()
    }
}

impl Host {
    /// Brings the changes of a fork into the workspace of its parent, or into `root`; with `is_preview` only says what that
    /// would do. Index, references and stash are never touched.
    pub async fn apply(
        &self,
        fork: &str,
        root: Option<&Path>,
        is_preview: bool,
    ) -> Result<Applied, WireError> {
        let id = self.sessions().find(fork)?;
        let refused =
            |why: &str, hint: Option<String>| WireError::Undo { why: format!("session {id}: {why}"), hint };
        let forked = self.forked(&id)?.ok_or_else(|| refused("it is no fork", None))?;
        let base = forked.tree.ok_or_else(|| refused("the files it began with were not recorded", None))?;
        let root = match root {
            Some(root) => root.to_owned(),
            None => self.sessions().home(&forked.parent).map_err(|_| {
                let hint = format!("name the folder: agon apply {id} --workspace DIR");
                refused("its parent is gone", Some(hint))
            })?,
        };
        let (folder, state) = (self.sessions().home(&id)?, self.sessions().state());
        if folder == root {
            return Err(refused("its changes are in that folder already", None));
        }
        let _locks = match is_preview {
            true => None,
            false => Some((WorkspaceLock::take(state, &folder)?, WorkspaceLock::take(state, &root)?)),
        };
        let (copy, home) = (rewind::workspace(state, &folder)?, rewind::workspace(state, &root)?);
        let theirs = rewind::record(&copy).await?;
        let plan = home.plan_merge(&base, &theirs).await.map_err(WireError::Workspace)?;
        let failed = match is_preview {
            true => Vec::new(),
            false => rewind::put_back(&home, &root, plan.changes.clone()).await?,
        };
        Ok(Applied { fork: id, root, plan, failed })
    }

    /// How a session was made a copy last.
    fn forked(&self, id: &str) -> Result<Option<SessionForked>, WireError> {
        let mut found = None;
        let fault = self.sessions().scan(id, &mut |entry| {
            if let Some(ArenaEvent::SessionForked(forked)) = entry.fact() {
                found = Some(forked.clone());
            }
            true
        })?;
        fault.map_or(Ok(found), |fault| Err(fault.into()))
    }
}

//! A call that may change the repository: its layer, the end of what it left unfinished, and what is taken over.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::super::mounts::NO_LAYER;
use super::super::plan::{Mount, MountKind};
use super::super::{LocalSandbox, tmp};
use super::place::GitPlace;
use super::scan::{self, Change, Layer, Mark};
use super::{keep, settings};
use crate::ports::{Exec, ExecEnd, Live, Opens};
use crate::protocol::Lane;
use crate::protocol::text::names_shown;
use crate::sandbox::protected_snapshot::noted;

/// Milliseconds that a command of agon's own may take.
const OWN_MS: u64 = 60_000;
/// Ends what no later call could continue.
const ABORT: &str = "git rebase --abort || git am --abort || git cherry-pick --abort || git revert --abort";

/// A repository with the layer that one call writes to.
struct GitCall {
    place: GitPlace,
    before: BTreeMap<PathBuf, Mark>,
    layer: TempDir,
}

impl GitCall {
    fn begin(place: GitPlace, scratch: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("the repository's layer cannot be made: {error}");
        let layer = tempfile::Builder::new().prefix("git-").tempdir_in(scratch).map_err(failed)?;
        for name in ["upper", "work"] {
            std::fs::create_dir(layer.path().join(name)).map_err(failed)?;
        }
        Ok(GitCall { before: scan::marks(&place), place, layer })
    }

    fn upper(&self) -> PathBuf {
        self.layer.path().join("upper")
    }

    fn mount(&self) -> Mount {
        let upper = self.upper().into_os_string();
        let kind = MountKind::Overlay { upper, work: self.layer.path().join("work").into_os_string() };
        Mount { target: self.place.common.clone().into_os_string(), kind }
    }

    fn sorted(&self) -> Result<Layer, String> {
        scan::layer(&self.place, &self.upper(), &self.before)
    }
}

impl Drop for GitCall {
    fn drop(&mut self) {
        // Its inner folder is closed to everybody.
        tmp::remove(self.layer.path());
    }
}

impl LocalSandbox {
    /// The repository that a call can change; else why there is none.
    pub(in super::super) fn git_place(&self) -> Result<GitPlace, String> {
        if !self.has_namespaces {
            return Err("commands can change `.git` here anyway".to_owned());
        }
        if let Some(why) = self.no_layers.get() {
            return Err(why.clone());
        }
        let home = std::env::var_os("HOME").map(PathBuf::from);
        GitPlace::of(self.files.root(), &self.options.own, home.as_deref())
    }

    /// Runs a command that sees the repository as a layer of its own, and takes over what git commands write.
    pub(in super::super) async fn run_with_git(
        &self,
        exec: Exec,
        sockets: Vec<Mount>,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ExecEnd, String> {
        let (place, scratch) = (self.git_place()?, self.scratch.path().to_owned());
        let git = blocking(move || GitCall::begin(place, &scratch)).await?;
        let git = Arc::new(git);
        let mounts = [vec![git.mount()], sockets].concat();
        let mut end = self.run(exec, (mounts.clone(), None), live, cancel).await.inspect_err(|why| {
            if let Some((_, layer)) = why.split_once(NO_LAYER) {
                let _ = self.no_layers.set(format!("{NO_LAYER}{layer}"));
            }
        })?;
        let mut lines = self.abort(&git, &mounts).await;
        match self.take_over(&git).await {
            Ok(dropped) => lines.extend(dropped),
            Err(why) => {
                lines.push(format!("nothing of this command was taken over into `.git`: {why}"));
                // Whatever it said itself, its commits are not there.
                end.exit = end.exit.map(|code| code.max(1));
            }
        }
        for line in lines {
            let words = noted(&line);
            live.push(Lane::Stderr, &words);
            end.stderr.push_str(&words);
            end.notes.push(line);
        }
        Ok(end)
    }

    /// Aborts what stopped before its end, in the same layer.
    async fn abort(&self, git: &GitCall, mounts: &[Mount]) -> Vec<String> {
        let Some(name) = scan::unfinished(&git.place, &git.upper()) else { return Vec::new() };
        let what = match name {
            "sequencer" => "the cherry-pick or revert",
            "BISECT_LOG" => return Vec::new(),
            _ => "the rebase",
        };
        let ended =
            self.run(own(ABORT.to_owned()), (mounts.to_vec(), None), &(), &CancellationToken::new()).await;
        let is_over = ended.is_ok_and(|end| end.exit == Some(0));
        let how = if is_over { "was aborted" } else { "could not be aborted" };
        vec![format!("{what} stopped before its end and {how}: it cannot be continued in a later call")]
    }

    async fn take_over(&self, git: &Arc<GitCall>) -> Result<Vec<String>, String> {
        let (call, checks) = (Arc::clone(git), self.scratch.path().join("tmp"));
        let (layer, index) = blocking(move || {
            let layer = call.sorted()?;
            keep::objects(&call.place, &call.upper(), &layer)?;
            let index = match layer.files.get(&call.place.own.join("index")) {
                Some(Change::Write(bytes)) => {
                    let file = tempfile::NamedTempFile::new_in(checks).map_err(|error| error.to_string())?;
                    std::fs::write(file.path(), bytes).map_err(|error| error.to_string())?;
                    Some(file)
                }
                _ => None,
            };
            Ok((layer, index))
        })
        .await?;
        if index.is_some() || !layer.named.is_empty() {
            let index = index.as_ref().and_then(|file| file.path().file_name());
            let command = self.connected(&layer, index)?;
            let exec = own(command);
            let end = self.run(exec, (Vec::new(), None), &(), &CancellationToken::new()).await?;
            if end.exit != Some(0) {
                return Err(format!(
                    "objects are missing: {}",
                    end.stderr.lines().next().unwrap_or_default()
                ));
            }
        }
        let call = Arc::clone(git);
        blocking(move || {
            keep::names(&call.place, &call.upper(), &layer, &call.before)?;
            let dropped = names_shown(layer.dropped.iter().map(|name| format!(".git/{name}")).take(8));
            let line = format!("no command writes this, so it was dropped: {dropped}");
            Ok(if layer.dropped.is_empty() { Vec::new() } else { vec![line] })
        })
        .await
    }

    /// The command that looks whether everything that is named is there, with git's own test of what it receives.
    fn connected(&self, layer: &Layer, index: Option<&std::ffi::OsStr>) -> Result<String, String> {
        let path = self.view.layout.environment.get("PATH").cloned().unwrap_or_else(OsString::new);
        let git = settings::program(Some(&path), self.files.root()).ok_or("there is no git to look at it")?;
        let quoted = format!("'{}'", git.display().to_string().replace('\'', "'\\''"));
        let named: String = layer.named.iter().map(|name| format!("{name}\n")).collect();
        let staged = index.map(|name| format!("GIT_INDEX_FILE=/tmp/{} ", name.to_string_lossy()));
        let indexed = if staged.is_some() { " --indexed-objects" } else { "" };
        Ok(format!(
            "GIT_NO_LAZY_FETCH=1 {}{quoted} rev-list --objects --stdin --exclude-promisor-objects --quiet{indexed} \
             --not --all --alternate-refs <<'END'\n{named}END\n",
            staged.unwrap_or_default()
        ))
    }
}

fn own(command: String) -> Exec {
    Exec { command, cwd: String::new(), timeout_ms: OWN_MS, capture_cap: 16 * 1024, opens: Opens::default() }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
}

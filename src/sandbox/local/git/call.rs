//! A call that may change the repository: its layer, the end of what it left unfinished, and what is taken over.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::{NamedTempFile, TempDir};
use tokio_util::sync::CancellationToken;

use super::super::mounts::NO_LAYER;
use super::super::plan::{Mount, MountKind};
use super::super::{LocalSandbox, tmp};
use super::place::GitPlace;
use super::scan::{self, Change, Layer, Mark};
use super::{gone, keep, settings};
use crate::ports::{Exec, ExecEnd, Live, Opens};
use crate::protocol::text::names_shown;

/// Milliseconds that a command of agon's own may take.
const OWN_MS: u64 = 60_000;
/// Milliseconds of a call that are kept for taking over what it wrote.
const TAKING_OVER_MS: u64 = 15_000;
/// Ends what no later call could continue.
const ABORT: &str = "git rebase --abort || git am --abort || git cherry-pick --abort || git revert --abort";

/// Why a pack that git made is an error where something in it is needed.
const PACKED: &str = "git wrote a pack, which agon does not take over; leave out `git gc`, `git repack` and files above \
                      `core.bigFileThreshold` (512 MiB)";

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

    fn is_untouched(&self) -> bool {
        std::fs::read_dir(self.upper()).is_ok_and(|mut entries| entries.next().is_none())
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
        // What it wrote is looked at and taken over within the call's own time.
        let exec = Exec { timeout_ms: exec.timeout_ms - (exec.timeout_ms / 4).min(TAKING_OVER_MS), ..exec };
        let mut end = self.run(exec, (mounts.clone(), None), live, cancel).await.inspect_err(|why| {
            if let Some((_, layer)) = why.split_once(NO_LAYER) {
                let _ = self.no_layers.set(format!("{NO_LAYER}{layer}"));
            }
        })?;
        let mut lines = Vec::new();
        // Nobody waits long for a call that was stopped, and what it was in the middle of is no work of git's to keep.
        let taken_over = match end.cancelled || end.timed_out {
            true => Err("it was stopped".to_owned()),
            false => {
                lines = self.abort(&git, &mounts).await;
                self.take_over(&git, &end.stdout).await
            }
        };
        match taken_over {
            Ok(dropped) => lines.extend(dropped),
            Err(_) if git.is_untouched() => {}
            Err(why) => {
                lines.push(format!("nothing of this command was taken over into `.git`: {why}"));
                // Whatever it said itself, its commits are not there.
                end.exit = end.exit.map(|code| code.max(1));
            }
        }
        end.notes.extend(lines);
        Ok(end)
    }

    /// Aborts what stopped before its end, in the same layer.
    async fn abort(&self, git: &GitCall, mounts: &[Mount]) -> Vec<String> {
        let Some(name) = scan::unfinished(&git.place, &git.upper()) else { return Vec::new() };
        let what = match name {
            "sequencer" => "the cherry-pick or revert",
            "BISECT_LOG" => {
                return vec!["a bisect is not taken over: it cannot be continued in a later call".to_owned()];
            }
            _ => "the rebase",
        };
        let ended =
            self.run(own(ABORT.to_owned()), (mounts.to_vec(), None), &(), &CancellationToken::new()).await;
        let is_over = ended.is_ok_and(|end| end.exit == Some(0));
        let how = if is_over { "was aborted" } else { "could not be aborted" };
        vec![format!("{what} stopped before its end and {how}: it cannot be continued in a later call")]
    }

    async fn take_over(&self, git: &Arc<GitCall>, said: &str) -> Result<Vec<String>, String> {
        let call = Arc::clone(git);
        let (layer, removed) = blocking(move || {
            let layer = call.sorted()?;
            let removed = gone::removed(&call.place, &layer)?;
            keep::objects(&call.place, &call.upper(), &layer)?;
            Ok((layer, removed))
        })
        .await?;
        // Git says which branch it has deleted.
        let is_said = |(name, object): &(&String, &String)| {
            let (name, object) = (name.splitn(3, '/').last(), object.get(..7));
            let names =
                |line: &str| name.zip(object).is_some_and(|(a, b)| line.contains(a) && line.contains(b));
            name == Some("stash") || said.lines().any(names)
        };
        let removed = removed.iter().filter(|one| !is_said(one)).take(8);
        let removed: Vec<String> = removed.map(|(name, object)| format!("{name} (was {object})")).collect();
        let index = match layer.files.get(&git.place.own.join("index")) {
            Some(Change::Write(bytes)) => Some(self.shared(bytes)?),
            _ => None,
        };
        if index.is_some() || !layer.named.is_empty() {
            let named: String = layer.named.iter().map(|name| format!("{name}\n")).collect();
            let named = self.shared(named.as_bytes())?;
            let index = index.as_ref().and_then(|file| file.path().file_name());
            let command = self.connected(named.path().file_name(), index)?;
            let exec = own(command);
            let end = self.run(exec, (Vec::new(), None), &(), &CancellationToken::new()).await?;
            if end.exit != Some(0) {
                return Err(match layer.dropped.iter().any(|name| name.starts_with("objects/pack")) {
                    true => PACKED.to_owned(),
                    false => {
                        format!("objects are missing: {}", end.stderr.lines().next().unwrap_or_default())
                    }
                });
            }
        }
        let call = Arc::clone(git);
        blocking(move || {
            keep::names(&call.place, &call.upper(), &layer, &call.before)?;
            let dropped = names_shown(layer.dropped.iter().map(|name| format!(".git/{name}")).take(8));
            let dropped = (!layer.dropped.is_empty()).then(|| format!("agon does not take over: {dropped}"));
            let removed =
                (!removed.is_empty()).then(|| format!("removed in the repository: {}", removed.join(", ")));
            Ok(dropped.into_iter().chain(removed).collect())
        })
        .await
    }

    /// A file that agon's own commands find in `/tmp` by its name.
    fn shared(&self, bytes: &[u8]) -> Result<NamedTempFile, String> {
        let made = || {
            let file = NamedTempFile::new_in(self.scratch.path().join("tmp"))?;
            std::fs::write(file.path(), bytes)?;
            Ok(file)
        };
        made().map_err(|error: std::io::Error| error.to_string())
    }

    /// The command that looks whether everything that is named is there, with git's own test of what it receives. Settings
    /// and replacements, which commands can write, are not heard.
    fn connected(&self, named: Option<&OsStr>, index: Option<&OsStr>) -> Result<String, String> {
        let path = self.view.layout.environment.get("PATH").cloned().unwrap_or_else(OsString::new);
        let git = settings::program(Some(&path), self.files.root()).ok_or("there is no git to look at it")?;
        let quoted = format!("'{}'", git.display().to_string().replace('\'', "'\\''"));
        let named = named.unwrap_or_default().to_string_lossy();
        let staged = index.map(|name| format!("GIT_INDEX_FILE=/tmp/{} ", name.to_string_lossy()));
        let indexed = if staged.is_some() { " --indexed-objects" } else { "" };
        Ok(format!(
            "GIT_NO_LAZY_FETCH=1 GIT_NO_REPLACE_OBJECTS=1 GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 {}{quoted} \
             rev-list --objects --stdin --exclude-promisor-objects --quiet{indexed} --not --all --alternate-refs \
             <'/tmp/{named}'",
            staged.unwrap_or_default()
        ))
    }
}

fn own(command: String) -> Exec {
    let (cwd, opens) = (String::new(), Opens::default());
    Exec { command, cwd, timeout_ms: OWN_MS, capture_cap: 16 * 1024, opens, background: false }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
}

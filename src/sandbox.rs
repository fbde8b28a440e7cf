//! Where tools touch files and run commands; knows no tool, no policy and no session.
//!
//! `files` and what stands beneath it serve every kind of sandbox; the kind decides how commands run.

mod beneath;
mod capture;
mod checks;
mod chmod_guard;
pub mod crash_journal;
pub mod docker;
pub mod files;
mod git_index;
mod link_targets;
mod listening;
#[cfg(target_os = "linux")]
pub mod local;
mod local_options;
mod masks;
mod mount_stubs;
mod patch;
mod process;
pub mod proof;
mod protected;
mod protected_snapshot;
pub mod proxy;
mod put_back;
mod repository;
mod walk;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::ports::{Exec, ExecEnd, FileError, Files, Live, Opens, Sandbox, Wires};
use crate::protocol::need::Need;
use crate::protocol::spec::SandboxSpec;
pub use checks::SandboxChecks;
use files::WorkspaceFiles;
#[cfg(target_os = "linux")]
pub use local::LocalSandbox;
pub use local_options::{Limits, LocalOptions};
pub use protected::ProtectedNames;
pub use put_back::put_back;

/// The variables a command may see. No name that carries a key or a token is among them, and none is added.
const PASSED_ON: [&str; 5] = ["PATH", "HOME", "LANG", "USER", "TMPDIR"];

/// What commands outside of every sandbox see besides: the user's agent for keys, and the way to the network.
const OUTSIDE: [&str; 11] = [
    "SSH_AUTH_SOCK",
    "XDG_RUNTIME_DIR",
    "GPG_TTY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];

/// The variables of this process that any kind of sandbox on this machine passes on to commands, as they are now.
pub fn passed_on() -> BTreeMap<String, String> {
    #[cfg(target_os = "linux")]
    let more = local::tools::variables();
    #[cfg(not(target_os = "linux"))]
    let more = std::iter::empty();
    let names = PASSED_ON.into_iter().chain(more);
    let value = |name: &str| Some(std::env::var_os(name)?.to_string_lossy().into_owned());
    names.filter_map(|name| Some((name.to_owned(), value(name)?))).collect()
}

/// The folder for temporary files: what `TMPDIR` names, where it names anything.
pub fn temporary() -> PathBuf {
    let named = std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty());
    named.map_or_else(|| "/tmp".into(), PathBuf::from)
}

/// Why a local sandbox is not to be had.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocalError {
    /// The machine does not give what is needed.
    #[error("{0}")]
    Machine(String),
    /// The workspace or the folder for temporary files has to be mended: what else confines would not do either.
    #[error("{0}")]
    Unfit(String),
}

/// The kind `none`: file tools are held beneath the workspace, commands are not confined at all.
#[derive(Debug)]
pub struct Unconfined {
    files: Arc<WorkspaceFiles>,
    environment: BTreeMap<String, String>,
}

impl Unconfined {
    /// What it leaves open: everything a command can do that the user can do.
    pub const GAPS: [&str; 4] = [
        "commands can read and change files outside the workspace",
        "commands can use the network",
        "commands can see and signal other processes",
        "a command that starts a session of its own outlives its call",
    ];

    /// Opens the workspace. Commands will see `PATH`, `HOME`, `LANG`, `USER`, `TMPDIR`, the folders of tools, the user's agent
    /// for keys and a proxy without a password as they are now.
    pub fn open(root: &Path) -> Result<Self, FileError> {
        Unconfined::protecting(root, ProtectedNames::default())
    }

    /// The same, with the names that no file tool changes.
    pub fn protecting(root: &Path, protected: ProtectedNames) -> Result<Self, FileError> {
        Ok(Unconfined::of(Arc::new(WorkspaceFiles::open(root)?.protecting(protected))))
    }

    /// The same for files that are open already.
    fn of(files: Arc<WorkspaceFiles>) -> Self {
        let mut environment = passed_on();
        environment
            .extend(OUTSIDE.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))));
        // A proxy's password is no command's to see.
        let is_left_out = |name: &str, value: &str| {
            (name == "TMPDIR" && value.is_empty())
                || (name.to_ascii_lowercase().ends_with("_proxy") && value.contains('@'))
        };
        environment.retain(|name, value| !is_left_out(name, value));
        environment.entry("PATH".to_owned()).or_insert_with(|| "/usr/local/bin:/usr/bin:/bin".to_owned());
        environment.insert("TERM".to_owned(), "dumb".to_owned());
        Unconfined { files, environment }
    }
}

#[async_trait]
impl Sandbox for Unconfined {
    fn spec(&self) -> SandboxSpec {
        SandboxSpec {
            kind: "none".to_owned(),
            gaps: Unconfined::GAPS.map(str::to_owned).to_vec(),
            ..SandboxSpec::default()
        }
    }

    fn files(&self) -> Arc<dyn Files> {
        self.files.clone()
    }

    /// Nothing is closed.
    fn cannot_open(&self, _: &[Need]) -> Option<String> {
        None
    }

    fn keeps_background(&self) -> bool {
        true
    }

    async fn listening(&self, opens: &Opens) -> BTreeSet<u16> {
        listening::listening(self, opens).await
    }

    async fn exec(&self, exec: Exec, live: &dyn Live, cancel: &CancellationToken) -> Result<ExecEnd, String> {
        let directory = self.files.directory(&exec.cwd).map_err(|error| error.to_string())?;
        process::run(&exec, &directory, (&self.environment, None), live, cancel).await
    }

    async fn converse(
        &self,
        exec: Exec,
        wires: Wires,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ExecEnd, String> {
        let directory = self.files.directory(&exec.cwd).map_err(|error| error.to_string())?;
        process::run(&exec, &directory, (&self.environment, Some(wires)), live, cancel).await
    }
}

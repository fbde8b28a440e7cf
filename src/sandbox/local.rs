//! The kind `local`: namespaces, Landlock and seccomp of this machine's kernel; knows no tool and no policy.
//!
//! A call starts this program again, twice: the first process makes the namespaces and waits, the second is the
//! first process in them, builds the view, gives up its rights and starts the command. Everything they do is
//! decided here, before. agon's own threads are never restricted.

mod child_stage;
mod confine;
mod fs_layout;
mod home_layout;
mod kept_back;
mod launch;
mod loopback;
mod masks;
mod mounts;
mod plan;
mod proven;
mod tmp;
pub(super) mod tools;
mod watcher;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use async_trait::async_trait;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::LocalError;
use super::crash_journal;
use super::files::WorkspaceFiles;
use super::masks::FoundPaths;
use super::process;
use super::protected::ProtectedNames;
use super::protected_snapshot;
use crate::ports::{Exec, ExecEnd, Files, Live, Sandbox};
use crate::protocol::Lane;
use crate::protocol::spec::SandboxSpec;
pub use child_stage::enter;
use fs_layout::FsLayout;
pub(super) use fs_layout::tool_folders_of;
pub use plan::Limits;
use plan::{Cover, CoverKind, StagePlan};
use tmp::TmpFolders;
use watcher::Watcher;

/// What a local sandbox is opened with.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// The program that becomes the sandbox: one whose `main` begins with [`enter`].
    pub program: PathBuf,
    /// Globs of the files that cannot be read inside, relative to the workspace.
    pub secrets: Vec<String>,
    /// The names that no command changes.
    pub protected: ProtectedNames,
    /// True for a workspace that commands cannot change.
    pub read_only: bool,
    /// Limits of each call.
    pub limits: Limits,
    /// Where calls are noted that run ([`super::crash_journal::notes_of`]); none where nobody settles them.
    pub notes: Option<PathBuf>,
    /// Folders that are never shown: agon's own.
    pub own: Vec<PathBuf>,
}

impl Default for LocalOptions {
    /// This very program, no secrets, a workspace that can be changed.
    fn default() -> Self {
        // Unlike its path, this stays right when the program is replaced while it runs.
        let program = PathBuf::from("/proc/self/exe");
        LocalOptions {
            program,
            secrets: Vec::new(),
            protected: ProtectedNames::default(),
            read_only: false,
            limits: Limits::default(),
            notes: None,
            own: Vec::new(),
        }
    }
}

/// Commands in namespaces of their own, one set a call; `/tmp` is kept between calls.
pub struct LocalSandbox {
    files: Arc<WorkspaceFiles>,
    options: LocalOptions,
    view: FsLayout,
    readable: Vec<OsString>,
    stage: &'static str,
    filters: Result<Vec<Vec<[u32; 4]>>, String>,
    found: FoundPaths,
    keeper: Watcher,
    proven: OnceLock<Vec<String>>,
    sockets: OnceCell<Vec<plan::Mount>>,
    scratch: TmpFolders,
}

impl LocalSandbox {
    /// Opens the workspace. Whether this machine allows what is needed shows [`LocalSandbox::start`].
    pub fn open(root: &Path, options: LocalOptions) -> Result<Self, LocalError> {
        let secrets = protected_snapshot::globs(&options.secrets);
        let mut sandbox = LocalSandbox::bare(root, options)?;
        sandbox.found = FoundPaths::of(sandbox.files.root(), &secrets, &sandbox.options.protected)
            .map_err(LocalError::Unfit)?;
        Ok(sandbox)
    }

    /// Without anything covered.
    fn bare(root: &Path, options: LocalOptions) -> Result<Self, LocalError> {
        let files = WorkspaceFiles::open(root).map_err(|error| LocalError::Unfit(error.to_string()))?;
        if !options.read_only && fs_layout::is_of_the_system(files.root()) {
            // No fault of the machine's, so that nobody is told of weaker sandboxes.
            let root = files.root().display();
            let why = format!(
                "`{root}` belongs to the system, which no sandboxed command can change; work in another folder"
            );
            return Err(LocalError::Unfit(why));
        }
        let files = Arc::new(files.protecting(options.protected.clone()));
        options.notes.as_deref().map_or(Ok(()), crash_journal::make).map_err(LocalError::Unfit)?;
        let scratch = TmpFolders::make(files.root()).map_err(LocalError::Unfit)?;
        let variable = |name: &str| std::env::var_os(name);
        let view = FsLayout::of(files.root(), scratch.path(), (options.read_only, &options.own), &variable);
        let keeper = Watcher::of(files.root(), scratch.path(), options.notes.clone());
        let (filters, found, proven) = (confine::filters(), FoundPaths::default(), OnceLock::new());
        let (readable, stage, sockets) = (vec!["/".into()], "namespaces", OnceCell::new());
        Ok(LocalSandbox {
            files,
            options,
            view,
            readable,
            stage,
            filters,
            found,
            keeper,
            proven,
            sockets,
            scratch,
        })
    }

    /// The same where namespaces are refused: only what Landlock and seccomp hold, which is named *landlock-only*.
    pub fn open_without_namespaces(root: &Path, options: LocalOptions) -> Result<Self, LocalError> {
        if !confine::landlock_works() {
            return Err(LocalError::Machine("this kernel has no Landlock".to_owned()));
        }
        let mut sandbox = LocalSandbox::bare(root, options)?;
        let read_only = sandbox.options.read_only;
        let (readable, view) = sandbox.view.of_rules(sandbox.files.root(), sandbox.scratch.path(), read_only);
        (sandbox.readable, sandbox.view, sandbox.stage) = (readable, view, "guard");
        let filters = sandbox.filters.as_mut().map_err(|error| LocalError::Machine(error.clone()))?;
        filters.push(confine::no_sockets().map_err(LocalError::Machine)?);
        Ok(sandbox)
    }

    fn has_namespaces(&self) -> bool {
        self.stage == "namespaces"
    }

    /// Runs a command that looks around, to see that the sandbox can be had here and holds what it claims.
    pub async fn start(&self) -> Result<(), LocalError> {
        let outside = self.scratch.path().join("root");
        let command = proven::command(&outside, std::process::id());
        let exec = Exec { command, cwd: String::new(), timeout_ms: 20_000, capture_cap: 4096 };
        // agon's own command: it connects to nothing, so the large folders need not be searched for it.
        let end = self.run(exec, self.mounts(), &Deaf, &CancellationToken::new()).await;
        let end = end.map_err(|why| match why.contains(mounts::UNCOVERED) {
            // Whoever asked says that it cannot be had.
            true => LocalError::Unfit(without_refused(&why)),
            false => LocalError::Machine(without_refused(&why)),
        })?;
        let held = match end.exit {
            Some(0) => proven::read(&end.stdout, self.has_namespaces(), self.options.read_only),
            _ => Err(format!(
                "a command in it ended with {:?}: {}",
                end.exit.or(end.signal),
                end.stderr.trim()
            )),
        };
        // Started twice it has shown the same.
        let _ = self.proven.set(held.map_err(LocalError::Machine)?);
        Ok(())
    }

    fn mounts(&self) -> Vec<plan::Mount> {
        let mut mounts = self.view.mounts.clone();
        mounts.extend(kept_back::listening(&mounts));
        mounts
    }

    /// The same, with sockets in folders of packages, which are too large to be searched before a session opens: that
    /// is done before its first command.
    async fn searched_mounts(&self) -> Result<Vec<plan::Mount>, String> {
        let mut mounts = self.mounts();
        if self.has_namespaces() && !confine::landlock_refuses_sockets() {
            let (packages, shown) = (self.view.packages.clone(), mounts.clone());
            let search = || async {
                let found = tokio::task::spawn_blocking(move || kept_back::sockets(&packages, &shown)).await;
                found.map_err(|error| format!("{}folders cannot be searched: {error}", launch::REFUSED))
            };
            mounts.extend(self.sockets.get_or_try_init(search).await?.iter().cloned());
        }
        Ok(mounts)
    }

    fn plan(&self, exec: &Exec, directory: &Path, mounts: Vec<plan::Mount>) -> StagePlan {
        let mut covers = masks::of(&self.found);
        if self.options.read_only {
            // Nothing can be written or moved, so only secrets need a cover; others may work here meanwhile, and
            // what they make and remove is no ground to mount on.
            covers.retain(|_, kind| *kind != CoverKind::ReadOnly);
        } else {
            self.keeper.cover(&mut covers, &self.options.protected);
        }
        let parts = |path: &Path| path.iter().map(OsString::from).collect();
        let covers = covers.into_iter().map(|(path, kind)| Cover { path: parts(&path), kind });
        StagePlan {
            base: self.scratch.path().join("root").into_os_string(),
            mounts,
            workspace: self.files.root().as_os_str().to_owned(),
            covers: covers.collect(),
            readable: self.readable.clone(),
            writable: self.view.writable.clone(),
            cwd: directory.as_os_str().to_owned(),
            command: exec.command.clone(),
            environment: self.view.environment.clone(),
            filters: self.filters.clone().unwrap_or_default(),
            limits: self.options.limits.clone(),
        }
    }

    async fn run(
        &self,
        exec: Exec,
        mounts: Vec<plan::Mount>,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ExecEnd, String> {
        let started = Instant::now();
        let directory = self.files.directory(&exec.cwd).map_err(|error| error.to_string())?;
        // Names can only be kept where they can be covered, and need it only where they can be made.
        let keeps = self.has_namespaces() && !self.options.read_only;
        let call = keeps.then(|| self.keeper.begin(&self.found)).transpose()?;
        let plan = self.plan(&exec, &directory, mounts);
        let ended = match launch::launch(&self.options.program, self.stage, &plan).await {
            Ok((child, reach)) => process::watch(&exec, child, reach, started, live, cancel).await,
            Err(why) => Err(format!("{}{why}", launch::REFUSED)),
        };
        let mut end = match ended {
            Ok(end) => end,
            // No command began, so there is nothing to be settled after it.
            Err(why) if why.starts_with(launch::REFUSED) => {
                let told = call.map(watcher::Call::end).unwrap_or_default();
                return Err([vec![why], told].concat().join("; "));
            }
            Err(why) => return Err(why),
        };
        end.notes = call.map(watcher::Call::end).unwrap_or_default();
        let lines = end.notes.iter().map(|line| protected_snapshot::noted(line));
        for line in
            lines.chain(protected_snapshot::told_of_closed(&end, self.options.read_only)).collect::<Vec<_>>()
        {
            live.push(Lane::Stderr, &line);
            end.stderr.push_str(&line);
        }
        Ok(end)
    }
}

#[async_trait]
impl Sandbox for LocalSandbox {
    fn spec(&self) -> SandboxSpec {
        let proven = self.proven.get().cloned().unwrap_or_default();
        if !self.has_namespaces() {
            let mut gaps = LANDLOCK_ONLY.map(str::to_owned).to_vec();
            gaps.push(SandboxSpec::SHARED_MEMORY.to_owned());
            if rustix::process::geteuid().is_root() {
                gaps.push("for root the number of processes is not limited".to_owned());
            }
            return SandboxSpec { kind: "landlock-only".to_owned(), gaps, proven, ..SandboxSpec::default() };
        }
        let mut gaps = vec![SandboxSpec::NEW_INSTRUCTIONS.to_owned(), SandboxSpec::SHARED_MEMORY.to_owned()];
        if self.options.read_only {
            gaps.remove(0);
        }
        if self.filters.is_err() {
            gaps.push("no system call is refused on this processor".to_owned());
        }
        if !confine::landlock_works() {
            gaps.push("this kernel has no Landlock; only the mounts hold".to_owned());
        }
        if !confine::landlock_refuses_sockets() {
            gaps.push(SandboxSpec::MOVED_SOCKETS.to_owned());
        }
        if rustix::process::geteuid().is_root() && !limits_root(&kernel()) {
            gaps.push("for root this kernel does not limit the number of processes".to_owned());
        }
        SandboxSpec { kind: "local".to_owned(), gaps, proven, ..SandboxSpec::default() }
    }

    fn files(&self) -> Arc<dyn Files> {
        self.files.clone()
    }

    async fn exec(&self, exec: Exec, live: &dyn Live, cancel: &CancellationToken) -> Result<ExecEnd, String> {
        self.run(exec, self.searched_mounts().await?, live, cancel).await
    }

    async fn close(&self) {
        self.keeper.close();
        self.scratch.remove();
    }
}

/// What Landlock and seccomp alone leave open.
const LANDLOCK_ONLY: [&str; 4] = [
    "commands can change `.git`, settings and instructions in the workspace",
    "commands can read the workspace's secrets",
    "commands can see that files and processes outside exist, and change mode and times of their user's files and of \
     devices",
    "the network is refused altogether, so servers cannot be tested",
];

fn without_refused(why: &str) -> String {
    why.strip_prefix(launch::REFUSED).unwrap_or(why).to_owned()
}

fn kernel() -> OsString {
    use std::os::unix::ffi::OsStringExt;
    OsString::from_vec(rustix::system::uname().release().to_bytes().to_vec())
}

/// Since 6.14 each process namespace has a largest process number of its own.
fn limits_root(release: &std::ffi::OsStr) -> bool {
    let release = release.to_string_lossy();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(14))
}

struct Deaf;

impl Live for Deaf {
    fn push(&self, _: Lane, _: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_apart_by_their_release() {
        for (release, limits) in
            [("6.18.44-x", true), ("6.14.0", true), ("6.9.1", false), ("7.0", true), ("?", false)]
        {
            assert_eq!(limits_root(release.as_ref()), limits, "{release}");
        }
    }
}

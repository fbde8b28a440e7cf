//! The kind `docker`: commands run in a container that shows the workspace and little else; knows no configuration.
//!
//! One container serves a session, one command at a time; commands that run at once each get one of their own. A
//! container lives by its standard input, which this process holds: when the process ends, however it ends, the
//! container ends with it and is removed by the engine. What was made and never started is reaped at the next start.

mod call;
mod claim;
mod container;
mod engine;
mod error;
mod image;
mod masks;
mod plan;
mod proven;
mod strays;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use engine::{Engine, Traits};
pub use error::DockerError;
pub use image::{DOCKERFILE, ImageFacts, Progress, build, pull};
pub use plan::{DockerSettings, MountSettings};
pub use strays::{FoundContainers, Owner, list, reap};

use crate::ports::{Exec, ExecEnd, Files, Live, Sandbox};
use crate::protocol::need::Need;
use crate::protocol::spec::{DeniedPath, SandboxSpec};
use crate::sandbox::crash_journal::{Note, notes_of};
use crate::sandbox::files::WorkspaceFiles;
use crate::sandbox::masks::FoundPaths as Covered;
use crate::sandbox::protected::ProtectedNames;
use crate::sandbox::protected_snapshot::{self, Maker, ProtectedSnapshot};
use crate::sandbox::repository;
use claim::Claim;
use container::Container;
use masks::Covers;
use plan::ContainerPlan;

/// The image that is used when none is named; `agon sandbox build` makes it.
pub const DEFAULT_IMAGE: &str = "agon-sandbox";

/// Where a mount comes from that cannot be had.
pub const MOUNTS_KEY: &str = "the setting is `[sandbox.docker] mounts`";

/// Commands that may run at once; more wait.
const AT_ONCE: usize = 8;

/// The kind `docker`.
#[derive(Debug)]
pub struct DockerSandbox {
    engine: Engine,
    plan: ContainerPlan,
    image: ImageFacts,
    /// What its first container showed of itself, in words.
    proven: Vec<String>,
    /// None once it is closed.
    claim: Mutex<Option<Claim>>,
    files: Arc<WorkspaceFiles>,
    /// What is covered, as it was when it was opened.
    found: Covered,
    /// Where calls are noted that run.
    notes: PathBuf,
    places: Semaphore,
    /// Containers in which nothing runs.
    idle: Mutex<Vec<Container>>,
}

/// What a sandbox is opened with.
#[derive(Clone, Debug)]
pub struct DockerPlace {
    /// The workspace.
    pub root: PathBuf,
    /// The session it is for.
    pub session: String,
    /// The folder of claims, see [`claims_of`].
    pub claims: PathBuf,
    /// What of the workspace commands see empty.
    pub secrets: Vec<DeniedPath>,
    /// The names that no command changes.
    pub protected: ProtectedNames,
    /// True for a workspace that commands cannot change.
    pub read_only: bool,
    /// Folders that are never shown: agon's own.
    pub own: Vec<PathBuf>,
}

/// The folder of a state folder's claims.
pub fn claims_of(state: &Path) -> PathBuf {
    state.join("containers")
}

/// The name of this machine, for telling its containers from another's on a shared engine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

impl DockerSandbox {
    /// Opens a workspace on an engine, with an image that is there, and starts the first container, so that what
    /// cannot work is known now. Reaps what dead sessions left.
    pub async fn open(
        engine: Engine,
        settings: DockerSettings,
        place: &DockerPlace,
    ) -> Result<Self, DockerError> {
        let bad_mount =
            |path: &Path, reason: String| DockerError::BadMount { path: path.display().to_string(), reason };
        let files =
            WorkspaceFiles::open(&place.root).map_err(|error| bad_mount(&place.root, error.to_string()))?;
        let files = files.protecting(place.protected.clone());
        let root = files.root().to_owned();
        if root == Path::new("/") {
            return Err(bad_mount(&root, "it would hide the whole container".to_owned()));
        }
        for mount in &settings.mounts {
            if let Err(error) = std::fs::metadata(&mount.source) {
                return Err(bad_mount(&mount.source, format!("{error}; {MOUNTS_KEY}")));
            }
        }
        let image = ImageFacts::look(&engine, &settings.image).await?;
        // Strays that cannot be reaped now are reaped another time; they hold nothing up.
        let _ = reap(&engine, &place.claims, &host_name()).await;
        let Covers { mut guarded, masked, closed, missing, pinned, found } =
            Covers::find(&root, &place.secrets, &place.protected).map_err(DockerError::Unfit)?;
        let claim = Claim::take(&place.claims, if place.read_only { &[] } else { &missing })?;
        // Where we cannot make one, commands cannot either.
        guarded.retain(|guarded| !missing.contains(guarded) || (!place.read_only && guarded.is_dir()));
        let caller = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let traits = engine.traits.clone();
        let session = place.session.clone();
        let (host, writable) = (host_name(), !place.read_only);
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let repository = repository::outside(&root, &place.own, home.as_deref());
        let plan = ContainerPlan {
            settings,
            root,
            session,
            host,
            pinned,
            repository,
            guarded,
            masked,
            closed,
            writable,
            caller,
            traits,
        };
        let notes = notes_of(place.claims.parent().unwrap_or(&place.claims));
        let first = Container::start(&engine, &plan, claim.path()).await?;
        let looked = [&proven::script(&plan), plan::text(claim.path())?, plan::text(&plan.root)?];
        let said = first.ask(&looked).await?;
        let proven = proven::read(&plan, &said).map_err(|error| unproven(&plan.root, error))?;
        Ok(DockerSandbox {
            engine,
            plan,
            image,
            proven,
            claim: Mutex::new(Some(claim)),
            files: Arc::new(files),
            found,
            notes,
            places: Semaphore::new(AT_ONCE),
            idle: Mutex::new(vec![first]),
        })
    }

    /// The image it runs.
    pub fn image(&self) -> &ImageFacts {
        &self.image
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Container>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn start(&self) -> Result<Container, DockerError> {
        let claim = self
            .claim
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .map(|claim| claim.path().to_owned());
        let closed = || DockerError::Failed {
            doing: "starting a container",
            error: "the sandbox is closed".to_owned(),
        };
        Container::start(&self.engine, &self.plan, &claim.ok_or_else(closed)?).await
    }

    /// Runs a command and sets aside what it made of protected names, however it ended.
    async fn run(
        &self,
        exec: &Exec,
        directory: &str,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ExecEnd, String> {
        let before = ProtectedSnapshot::now(&self.plan.root, &self.found);
        let note = match self.plan.writable {
            true => Some(Note::write(&self.notes, &self.plan.root, &before)?),
            false => None,
        };
        let done = self.run_once(exec, directory, live, cancel).await;
        let moved = protected_snapshot::set_aside(&self.plan.root, &before, Maker::ThisCommand);
        if let Some(note) = note {
            note.done(&moved);
        }
        match done {
            Ok(mut end) => {
                end.notes.extend(moved.lines);
                let git = || self.cannot_open(&[Need::Git]);
                end.hints.extend(protected_snapshot::told_of_closed(&end, git, !self.plan.writable));
                Ok(end)
            }
            Err(error) => Err([vec![told(&error)], moved.lines].concat().join("; ")),
        }
    }

    /// Runs a command in an idle container or a new one. A container that was taken away while it was idle is
    /// replaced; one that is taken away once the command was started is an error, since nobody knows what was done:
    /// nothing is ever run twice.
    async fn run_once(
        &self,
        exec: &Exec,
        directory: &str,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ExecEnd, DockerError> {
        let environment = self.plan.environment(self.image.path.as_deref());
        loop {
            let taken = self.idle().pop();
            let is_fresh = taken.is_none();
            let container = match taken {
                Some(container) => container,
                None => self.start().await?,
            };
            let ordered = call::order(&container, exec, (directory, environment.clone())).await;
            let done = match ordered {
                Err(DockerError::Gone { .. }) if !is_fresh => {
                    container.remove().await;
                    continue;
                }
                Err(error) => Err(error),
                Ok(order) => {
                    call::run(&container, order, exec, live, cancel).await.map_err(DockerError::while_it_ran)
                }
            };
            match done {
                Ok(_) => self.idle().push(container),
                // Nobody answers; it ends with its standard input.
                Err(DockerError::Silent { .. }) => drop(container),
                Err(_) => container.remove().await,
            }
            return done;
        }
    }
}

/// Why a container does not hold: a linked `.git` or `.agon` is likelier than a weakened engine.
fn unproven(root: &Path, error: String) -> DockerError {
    let is_link =
        |name: &&str| std::fs::symlink_metadata(root.join(name)).is_ok_and(|data| data.is_symlink());
    match [".git", ".agon"].into_iter().find(is_link) {
        Some(link) if error.contains(link) => DockerError::Linked { link, error },
        _ => DockerError::Unproven(error),
    }
}

/// An error with what may be tried.
fn told(error: &DockerError) -> String {
    match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

#[async_trait]
impl Sandbox for DockerSandbox {
    fn spec(&self) -> SandboxSpec {
        SandboxSpec {
            kind: "docker".to_owned(),
            gaps: self.plan.gaps(),
            image: Some(self.image.label()),
            proven: self.proven.clone(),
            consent: None,
        }
    }

    fn files(&self) -> Arc<dyn Files> {
        self.files.clone()
    }

    /// Hosts as far as the network of its containers leads, and nothing else.
    fn cannot_open(&self, needs: &[Need]) -> Option<String> {
        let is_host = |need: &Need| matches!(need, Need::Host(_));
        let is_open = |need: &Need| is_host(need) && self.plan.settings.network != "none";
        let closed = needs.iter().filter(|need| need.is_opened()).find(|need| !is_open(need))?;
        let hint = match is_host(closed) {
            true => "; its containers have no network: `[sandbox.docker] network` names one",
            false => "",
        };
        Some(format!("`{}` is not available in the sandbox `docker`{hint}", closed.name()))
    }

    async fn exec(&self, exec: Exec, live: &dyn Live, cancel: &CancellationToken) -> Result<ExecEnd, String> {
        let place = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(never_started()),
            place = self.places.acquire() => place,
        };
        let _place = place.map_err(|error| error.to_string())?;
        let directory = self.files.directory(&exec.cwd).map_err(|error| error.to_string())?;
        let directory = plan::text(&directory).map_err(|error| told(&error))?;
        self.run(&exec, directory, live, cancel).await
    }

    async fn close(&self) {
        let idle = std::mem::take(&mut *self.idle());
        for container in idle {
            container.remove().await;
        }
        // Last, because it takes the mount points away that containers stood on.
        drop(self.claim.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// The end of a command that was cancelled while it waited for its turn.
fn never_started() -> ExecEnd {
    ExecEnd {
        exit: None,
        signal: None,
        timed_out: false,
        cancelled: true,
        stdout: String::new(),
        stderr: String::new(),
        ms: 0,
        notes: Vec::new(),
        hints: Vec::new(),
    }
}

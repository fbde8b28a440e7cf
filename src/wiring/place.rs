//! Chooses the sandbox and puts a workspace together with everything that works in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{SystemClock, WireError, cache, docker, head, providers};
use crate::arena::ArenaPorts;
use crate::bus::Bus;
use crate::config::{Config, SandboxKind};
use crate::eventlog::SessionLog;
use crate::ports::{EventLog, Sandbox, TeamCache};
use crate::protocol::spec::{SandboxSpec, WorkspaceSpec};
use crate::sandbox::proof::{self, Stage};
pub use crate::sandbox::proof::{Proof, Verdict};
use crate::sandbox::{SandboxChecks, Unconfined};
use crate::session::convergence::Scorers;
use crate::session::policy;
use crate::toolvault::ToolVault;
use crate::workspace::WorkspaceStore;

/// What would confine the tools of a new session here, after it was started.
pub async fn sandbox(config: &Config) -> Result<SandboxSpec, WireError> {
    let sandbox = confined(config, config.sandbox(), config.workspace(), "doctor").await?;
    let spec = sandbox.spec();
    sandbox.close().await;
    Ok(spec)
}

/// Starts a sandbox on a workspace made for that and tries every forbidden act in it.
pub async fn prove(config: &Config, kind: SandboxKind) -> Result<(SandboxSpec, Vec<Proof>), WireError> {
    let failed = |error: std::io::Error| WireError::Workspace(format!("the proof cannot be set up: {error}"));
    let stage = Stage::set(&std::env::temp_dir()).map_err(failed)?;
    let sandbox = confined(config, kind, &stage.workspace(), "doctor").await?;
    let spec = sandbox.spec();
    // Nothing is tried where nothing is refused: it would be done.
    let proofs = match spec.kind.as_str() {
        "none" => Vec::new(),
        _ => proof::prove(&stage, &*sandbox).await,
    };
    sandbox.close().await;
    Ok((spec, proofs))
}

/// The sandbox a session was run in, as configuration names it.
pub fn kind_of(sandbox: &SandboxSpec) -> SandboxKind {
    match sandbox.kind.as_str() {
        "local" | "landlock-only" => SandboxKind::Local,
        "docker" => SandboxKind::Docker,
        _ => SandboxKind::None,
    }
}

/// A sandbox of this kind for a session, started. `auto` takes the strongest that holds what it claims: `local`,
/// else `docker` if somebody has named an image, and never none.
async fn confined(
    config: &Config,
    kind: SandboxKind,
    root: &Path,
    session: &str,
) -> Result<Arc<dyn Sandbox>, WireError> {
    if !root.is_dir() {
        return Err(WireError::WorkspaceGone(root.to_owned()));
    }
    let local = async || local(root, &policy::denied_to_all(&config.policy())).await;
    match kind {
        SandboxKind::None => unconfined(root),
        SandboxKind::Local => match local().await {
            Ok(sandbox) => Ok(sandbox),
            // Asked for by name, it is better than none, and called what it is.
            Err(why) => {
                landlock_only(root).await.map_err(|_| WireError::NoSandbox { kind: kind.word(), why })
            }
        },
        SandboxKind::Docker => docker::open(config, root, session).await,
        SandboxKind::Auto => match local().await {
            Ok(sandbox) => Ok(sandbox),
            Err(_) if docker::names_an_image(config) => docker::open(config, root, session).await,
            Err(why) => Err(WireError::NothingConfines(why)),
        },
    }
}

fn unconfined(root: &Path) -> Result<Arc<dyn Sandbox>, WireError> {
    let sandbox = Unconfined::open(root).map_err(|error| WireError::Workspace(error.to_string()))?;
    Ok(Arc::new(sandbox))
}

/// The kinds that need no configuration, for programs that have none.
pub(super) async fn plain(kind: SandboxKind, root: &Path) -> Result<Arc<dyn Sandbox>, WireError> {
    if !root.is_dir() {
        return Err(WireError::WorkspaceGone(root.to_owned()));
    }
    match kind {
        SandboxKind::None => unconfined(root),
        SandboxKind::Local | SandboxKind::Auto => {
            let secrets = policy::denied_to_all(&policy::standard());
            local(root, &secrets).await.map_err(|why| WireError::NoSandbox { kind: kind.word(), why })
        }
        SandboxKind::Docker => {
            let why = "it needs the settings of a configuration".to_owned();
            Err(WireError::NoSandbox { kind: kind.word(), why })
        }
    }
}

#[cfg(target_os = "linux")]
async fn local(root: &Path, secrets: &[String]) -> Result<Arc<dyn Sandbox>, String> {
    use crate::sandbox::{LocalOptions, LocalSandbox};
    let options = LocalOptions { secrets: secrets.to_vec(), ..LocalOptions::default() };
    let sandbox = LocalSandbox::open(root, options)?;
    sandbox.start().await?;
    Ok(Arc::new(sandbox))
}

#[cfg(target_os = "linux")]
async fn landlock_only(root: &Path) -> Result<Arc<dyn Sandbox>, String> {
    use crate::sandbox::{LocalOptions, LocalSandbox};
    let sandbox = LocalSandbox::open_without_namespaces(root, LocalOptions::default())?;
    sandbox.start().await?;
    Ok(Arc::new(sandbox))
}

#[cfg(not(target_os = "linux"))]
async fn landlock_only(_: &Path) -> Result<Arc<dyn Sandbox>, String> {
    Err("it needs Linux".to_owned())
}

#[cfg(not(target_os = "linux"))]
async fn local(_: &Path, _: &[String]) -> Result<Arc<dyn Sandbox>, String> {
    Err("`local` needs Linux".to_owned())
}

/// Refuses a workspace that holds agon's own files: a tool could rewrite the record of what it did, or the policy.
fn keeps_apart(config: &Config, root: &Path) -> Result<(), WireError> {
    let whole = |path: &Path| {
        path.ancestors().find_map(|above| above.canonicalize().ok().map(|real| (real, above.to_owned())))
    };
    let real = |path: &Path| {
        let (real, above) = whole(path)?;
        Some(real.join(path.strip_prefix(above).ok()?))
    };
    let (Some(root), places) = (real(root), config.places()) else { return Ok(()) };
    let own = [&places.state, &places.config].into_iter().filter_map(|own| real(own));
    match own.into_iter().find(|own| own.starts_with(&root)) {
        Some(own) => Err(WireError::HoldsOwn { workspace: root, own }),
        None => Ok(()),
    }
}

/// A workspace with everything that works in it.
pub(super) struct Place {
    pub(super) root: PathBuf,
    pub(super) sandbox: Arc<dyn Sandbox>,
    workspace: WorkspaceStore,
    cache: Option<Arc<dyn TeamCache>>,
    pub(super) vault: ToolVault,
}

impl Place {
    /// A workspace with its sandbox.
    pub(super) fn open(state: &Path, root: &Path, sandbox: Arc<dyn Sandbox>) -> Result<Self, WireError> {
        let workspace = WorkspaceStore::open(root, state).map_err(WireError::Workspace)?;
        let vault = ToolVault::builtin().map_err(|error| WireError::Internal(error.to_string()))?;
        Ok(Place { root: root.to_owned(), sandbox, workspace, cache: None, vault })
    }

    /// A place with what the configuration gives: the sandbox of a session, and the team cache.
    pub(super) async fn configured(
        config: &Config,
        kind: SandboxKind,
        root: &Path,
        session: &str,
    ) -> Result<Self, WireError> {
        keeps_apart(config, root)?;
        let sandbox = confined(config, kind, root, session).await?;
        let place = Place::open(&config.places().state, root, sandbox)?;
        Ok(Place { cache: cache::port(config), ..place })
    }

    pub(super) fn workspace_spec(&self) -> WorkspaceSpec {
        WorkspaceSpec {
            root: self.root.display().to_string(),
            git_head: head::git_head(&self.root),
            sandbox: self.sandbox.spec(),
        }
    }

    pub(super) fn ports(
        self,
        log: SessionLog,
        connected: providers::Connected,
        attended: bool,
    ) -> ArenaPorts {
        let log: Arc<dyn EventLog> = Arc::new(log);
        ArenaPorts {
            log,
            bus: Arc::new(Bus::new()),
            vault: Arc::new(self.vault),
            checks: Arc::new(SandboxChecks::new(self.sandbox.clone())),
            sandbox: self.sandbox,
            workspace: Arc::new(self.workspace),
            cache: self.cache,
            providers: connected.providers,
            provider_limits: connected.limits,
            scorers: Scorers::default(),
            clock: Arc::new(SystemClock),
            secrets: connected.secrets,
            attended,
        }
    }
}

//! Chooses and starts the sandbox that is wanted, never a weaker one; knows no tool and no session's record.

use std::path::Path;
use std::sync::Arc;

use super::{WireError, docker};
use crate::config::{Config, SandboxKind};
use crate::ports::Sandbox;
use crate::protocol::spec::SandboxSpec;
use crate::sandbox::Unconfined;
use crate::session::policy;

/// What is wanted of a sandbox.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub kind: SandboxKind,
    pub root: &'a Path,
    /// The session it is for.
    pub session: &'a str,
    /// Commands shall not be able to change the workspace.
    pub read_only: bool,
    /// Somebody was told that nothing can confine the tools here, and let them work all the same.
    pub has_consent: bool,
}

/// The sandbox a session was run in, as configuration names it.
pub(super) fn kind_of(sandbox: &SandboxSpec) -> SandboxKind {
    match sandbox.kind.as_str() {
        "local" | "landlock-only" => SandboxKind::Local,
        "docker" => SandboxKind::Docker,
        _ => SandboxKind::None,
    }
}

/// Starts a sandbox. `auto` takes the strongest that holds what it claims: `local`, else `docker` if somebody has
/// named an image, else none only where somebody has said so.
pub(super) async fn confined(config: &Config, wanted: Wanted<'_>) -> Result<Arc<dyn Sandbox>, WireError> {
    if !wanted.root.is_dir() {
        return Err(WireError::WorkspaceGone(wanted.root.to_owned()));
    }
    match wanted.kind {
        SandboxKind::None => unconfined(wanted.root),
        SandboxKind::Local => match local_of(config, wanted).await {
            Ok(sandbox) => Ok(sandbox),
            // Asked for by name, it is better than none, and called what it is.
            Err(why) => {
                let weaker = landlock_only(wanted.root, wanted.read_only).await;
                weaker.map_err(|_| WireError::NoSandbox { kind: wanted.kind.word(), why })
            }
        },
        SandboxKind::Docker => docker::open(config, wanted).await,
        SandboxKind::Auto => match local_of(config, wanted).await {
            Ok(sandbox) => Ok(sandbox),
            Err(_) if docker::names_an_image(config) => docker::open(config, wanted).await,
            Err(_) if wanted.has_consent => unconfined(wanted.root),
            Err(why) => Err(WireError::NothingConfines { why, gaps: Unconfined::GAPS.to_vec() }),
        },
    }
}

/// The sandbox `local` and nothing else, or why it is not to be had.
pub(super) async fn local_of(config: &Config, wanted: Wanted<'_>) -> Result<Arc<dyn Sandbox>, String> {
    local(wanted.root, &policy::denied_to_all(&config.policy()), wanted.read_only).await
}

fn unconfined(root: &Path) -> Result<Arc<dyn Sandbox>, WireError> {
    let sandbox = Unconfined::open(root).map_err(|error| WireError::Workspace(error.to_string()))?;
    Ok(Arc::new(sandbox))
}

/// The kinds that need no configuration, for programs that have none.
pub(super) async fn plain(
    kind: SandboxKind,
    root: &Path,
    read_only: bool,
) -> Result<Arc<dyn Sandbox>, WireError> {
    if !root.is_dir() {
        return Err(WireError::WorkspaceGone(root.to_owned()));
    }
    match kind {
        SandboxKind::None => unconfined(root),
        SandboxKind::Local | SandboxKind::Auto => {
            let secrets = policy::denied_to_all(&policy::standard());
            let opened = local(root, &secrets, read_only).await;
            opened.map_err(|why| WireError::NoSandbox { kind: kind.word(), why })
        }
        SandboxKind::Docker => {
            let why = "it needs the settings of a configuration".to_owned();
            Err(WireError::NoSandbox { kind: kind.word(), why })
        }
    }
}

#[cfg(target_os = "linux")]
async fn local(root: &Path, secrets: &[String], read_only: bool) -> Result<Arc<dyn Sandbox>, String> {
    use crate::sandbox::{LocalOptions, LocalSandbox};
    let options = LocalOptions { secrets: secrets.to_vec(), read_only, ..LocalOptions::default() };
    let sandbox = LocalSandbox::open(root, options)?;
    sandbox.start().await?;
    Ok(Arc::new(sandbox))
}

#[cfg(target_os = "linux")]
async fn landlock_only(root: &Path, read_only: bool) -> Result<Arc<dyn Sandbox>, String> {
    use crate::sandbox::{LocalOptions, LocalSandbox};
    let options = LocalOptions { read_only, ..LocalOptions::default() };
    let sandbox = LocalSandbox::open_without_namespaces(root, options)?;
    sandbox.start().await?;
    Ok(Arc::new(sandbox))
}

#[cfg(not(target_os = "linux"))]
async fn landlock_only(_: &Path, _: bool) -> Result<Arc<dyn Sandbox>, String> {
    Err("it needs Linux".to_owned())
}

#[cfg(not(target_os = "linux"))]
async fn local(_: &Path, _: &[String], _: bool) -> Result<Arc<dyn Sandbox>, String> {
    Err("`local` needs Linux".to_owned())
}

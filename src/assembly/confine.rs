//! Chooses and starts the sandbox that is wanted, never a weaker one; knows no tool and no session's record.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{WireError, docker};
use crate::config::{Config, SandboxKind};
use crate::ports::Sandbox;
use crate::protocol::spec::{DeniedPath, Policy, Rule, SandboxSpec};
use crate::sandbox::docker::DockerError;
use crate::sandbox::{LocalError, ProtectedNames, Unconfined, crash_journal};
use crate::session::policy;

/// What is wanted of a sandbox.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub kind: SandboxKind,
    pub root: &'a Path,
    /// The session it is for.
    pub session: &'a str,
    /// Rules of the session beside those of the configuration: what they deny to every tool no command reads either.
    pub rules: &'a [Rule],
    /// Commands shall not be able to change the workspace.
    pub read_only: bool,
    /// Somebody was told that nothing can confine the tools here, and let them work all the same.
    pub has_consent: bool,
    /// It is started to be looked at, so no earlier proof counts.
    pub is_looked_at: bool,
}

/// The kind of a sandbox that was started; one that is not known is refused, whatever it holds.
pub(super) fn kind_of(sandbox: &SandboxSpec) -> Result<SandboxKind, WireError> {
    SandboxKind::recorded(&sandbox.kind).ok_or_else(|| WireError::UnknownSandbox(sandbox.kind.clone()))
}

/// Starts a sandbox. `auto` takes the strongest that holds what it claims: `local`, else `docker` if somebody has
/// named an image, else none only where somebody has said so.
pub(super) async fn confined(config: &Config, wanted: Wanted<'_>) -> Result<Arc<dyn Sandbox>, WireError> {
    chosen(config, wanted).await.map(|(sandbox, _)| sandbox)
}

/// The same, with a line where it is not the strongest that was wanted.
pub(super) async fn chosen(
    config: &Config,
    wanted: Wanted<'_>,
) -> Result<(Arc<dyn Sandbox>, Option<String>), WireError> {
    if !wanted.root.is_dir() {
        return Err(WireError::WorkspaceGone(wanted.root.to_owned()));
    }
    let opened = match wanted.kind {
        SandboxKind::Auto => return automatic(config, wanted).await,
        SandboxKind::None => unconfined(wanted.root, protected(config)),
        SandboxKind::Local => {
            local(wanted.root, &options(config, wanted)).await.map_err(no_sandbox(wanted.kind))
        }
        SandboxKind::LandlockOnly => {
            let opened = landlock_only(&options(config, wanted), wanted.root).await;
            opened.map_err(no_sandbox(wanted.kind))
        }
        SandboxKind::Docker => docker::open(config, wanted).await,
    };
    Ok((opened?, None))
}

async fn automatic(
    config: &Config,
    wanted: Wanted<'_>,
) -> Result<(Arc<dyn Sandbox>, Option<String>), WireError> {
    let why = match local(wanted.root, &options(config, wanted)).await {
        Ok(sandbox) => return Ok((sandbox, None)),
        // Nobody is asked to work without a sandbox because of what a command may have done to the workspace.
        Err(LocalError::Unfit(why)) => return Err(WireError::Uncovered(why)),
        Err(LocalError::Machine(why)) => why,
    };
    let line = |taken: &str, why: &str| {
        Some(format!("the sandbox `auto` took `{taken}`, because `local` is not available: {why}"))
    };
    let why = match docker::names_an_image(config) {
        false => why,
        true => match docker::open(config, wanted).await {
            Ok(sandbox) => return Ok((sandbox, line("docker", &why))),
            Err(error @ WireError::Docker(DockerError::Unfit(_))) => return Err(error),
            Err(error) => {
                let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
                format!("`local`: {why}; `docker`: {error}{hint}")
            }
        },
    };
    match wanted.has_consent {
        true => Ok((unconfined(wanted.root, protected(config))?, line("none", &why))),
        false => Err(WireError::NothingConfines { why, gaps: Unconfined::GAPS.to_vec() }),
    }
}

/// Why a kind that was asked for by name is not to be had.
fn no_sandbox(kind: SandboxKind) -> impl FnOnce(LocalError) -> WireError {
    move |error| match error {
        LocalError::Unfit(why) => WireError::Uncovered(why),
        LocalError::Machine(why) => WireError::NoSandbox { kind: kind.word(), why },
    }
}

/// Why `local` is not available, with what in the workspace is the cause: then no weaker sandbox is advised.
fn with_cause(root: &Path, error: LocalError) -> LocalError {
    let cause = |name: &str| {
        let kind = std::fs::symlink_metadata(root.join(name)).ok()?.file_type();
        match kind.is_symlink() {
            true => Some(format!("`{name}` is a symbolic link: let it lead to a folder that is there")),
            false if kind.is_dir() || kind.is_file() => None,
            false => Some(format!("`{name}` is neither a folder nor a file: remove it")),
        }
    };
    match ([".git", ".agon"].into_iter().find_map(cause), error) {
        (Some(cause), LocalError::Unfit(why) | LocalError::Machine(why)) if why.contains("`.git`") => {
            LocalError::Unfit(format!("{why}; {cause}"))
        }
        (_, error) => error,
    }
}

/// What a sandbox of this machine's kernel is opened with.
struct Options {
    secrets: Vec<DeniedPath>,
    protected: ProtectedNames,
    read_only: bool,
    notes: PathBuf,
    own: Vec<PathBuf>,
    proofs: Option<PathBuf>,
}

fn options(config: &Config, wanted: Wanted<'_>) -> Options {
    Options {
        secrets: secrets(config.policy(), wanted.rules),
        protected: protected(config),
        read_only: wanted.read_only,
        notes: crash_journal::notes_of(&config.places().state),
        own: own_folders(config),
        proofs: (!wanted.is_looked_at).then(|| proofs(&config.places().state)),
    }
}

/// Where it is kept what sandboxes were seen to hold.
fn proofs(state: &Path) -> PathBuf {
    state.join("sandbox-proofs.json")
}

/// The names that no tool changes.
pub(super) fn protected(config: &Config) -> ProtectedNames {
    ProtectedNames::with(&config.protected())
}

/// The paths that no command may read.
pub(super) fn secrets(mut policy: Policy, rules: &[Rule]) -> Vec<DeniedPath> {
    policy.add(rules);
    policy::denied_to_all(&policy)
}

/// The folders with agon's own files, which no command is to see.
pub(super) fn own_folders(config: &Config) -> Vec<PathBuf> {
    let places = config.places();
    vec![places.state.clone(), places.config.clone(), places.cache.clone()]
}

fn unconfined(root: &Path, protected: ProtectedNames) -> Result<Arc<dyn Sandbox>, WireError> {
    let sandbox =
        Unconfined::protecting(root, protected).map_err(|error| WireError::Workspace(error.to_string()))?;
    Ok(Arc::new(sandbox))
}

/// The kinds that need no configuration, for programs that have none.
pub(super) async fn plain(
    kind: SandboxKind,
    root: &Path,
    (read_only, rules): (bool, &[Rule]),
    state: &Path,
) -> Result<Arc<dyn Sandbox>, WireError> {
    if !root.is_dir() {
        return Err(WireError::WorkspaceGone(root.to_owned()));
    }
    match kind {
        SandboxKind::None => unconfined(root, ProtectedNames::default()),
        SandboxKind::Local | SandboxKind::Auto => {
            local(root, &plain_options(read_only, rules, state)).await.map_err(no_sandbox(kind))
        }
        SandboxKind::LandlockOnly => {
            landlock_only(&plain_options(read_only, rules, state), root).await.map_err(no_sandbox(kind))
        }
        SandboxKind::Docker => {
            let why = "it needs the settings of a configuration".to_owned();
            Err(WireError::NoSandbox { kind: kind.word(), why })
        }
    }
}

fn plain_options(read_only: bool, rules: &[Rule], state: &Path) -> Options {
    Options {
        secrets: secrets(policy::standard(), rules),
        protected: ProtectedNames::default(),
        read_only,
        notes: crash_journal::notes_of(state),
        own: vec![state.to_owned()],
        proofs: Some(proofs(state)),
    }
}

#[cfg(target_os = "linux")]
fn local_options(options: &Options) -> crate::sandbox::LocalOptions {
    crate::sandbox::LocalOptions {
        secrets: options.secrets.clone(),
        protected: options.protected.clone(),
        read_only: options.read_only,
        notes: Some(options.notes.clone()),
        own: options.own.clone(),
        proofs: options.proofs.clone(),
        ..crate::sandbox::LocalOptions::default()
    }
}

#[cfg(target_os = "linux")]
async fn local(root: &Path, options: &Options) -> Result<Arc<dyn Sandbox>, LocalError> {
    let sandbox = crate::sandbox::LocalSandbox::open(root, local_options(options))?;
    sandbox.start().await.map_err(|error| with_cause(root, error))?;
    Ok(Arc::new(sandbox))
}

#[cfg(target_os = "linux")]
async fn landlock_only(options: &Options, root: &Path) -> Result<Arc<dyn Sandbox>, LocalError> {
    let sandbox = crate::sandbox::LocalSandbox::open_without_namespaces(root, local_options(options))?;
    sandbox.start().await?;
    Ok(Arc::new(sandbox))
}

#[cfg(not(target_os = "linux"))]
async fn landlock_only(_: &Options, _: &Path) -> Result<Arc<dyn Sandbox>, LocalError> {
    Err(LocalError::Machine("it needs Linux; use docker".to_owned()))
}

#[cfg(not(target_os = "linux"))]
async fn local(_: &Path, options: &Options) -> Result<Arc<dyn Sandbox>, LocalError> {
    landlock_only(options, Path::new("")).await
}

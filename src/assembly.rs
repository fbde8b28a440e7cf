//! The only file that names concrete adapters: puts an arena together.

mod builder;
mod cache;
mod change;
pub mod clock;
mod confine;
pub mod docker;
pub mod error;
mod fork;
mod git_head;
pub mod lock;
mod ownership;
mod place;
mod providers;
mod role_sandboxes;
pub mod sessions;

mod spec;
mod squad;
mod taken_up;
mod windows;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::eventlog::LogError;
pub use crate::eventlog::random_access::RandomAccessLog;
pub use crate::eventlog::session_status;
pub use builder::ArenaBuilder;
pub use cache::Runs;
pub use change::{Changes, LimitChanges, change};
pub use clock::SystemClock;
pub use error::WireError;
pub(crate) use error::in_shell;
pub use fork::{Fork, ForkPlan, Instead};
pub use lock::WorkspaceLock;
pub use place::{Proof, Verdict, prove, sandbox};
pub use providers::is_demo;
pub use sessions::{Read, Sessions};
pub use spec::{Request, check_model, persona_of, personas};
pub use squad::SquadWish;
pub use taken_up::Origin;

use place::Place;
use providers::AnsweredCounts;
use role_sandboxes::Means;

use crate::arena::{Arena, Recorded, Resumption};
use crate::config::Config;
use crate::eventlog::SessionStore;
use crate::protocol::ArenaEvent;
use crate::protocol::spec::{Risk, SandboxSpec, Spec, ToolSpec};
pub use crate::teamcache::{Age as RunAge, Removed as RemovedRuns};

/// Becomes the sandbox if this process was started for that, and then never returns. Otherwise closes to every later
/// child whatever descriptors this process was started with, but for the standard three: an open file or connection
/// of the person's shell would be a way out of any sandbox.
///
/// A program that embeds agon and wants the sandbox `local` calls this first in its `main`, before any thread is
/// started: each confined command begins with starting the program itself again.
pub fn sandbox_entry() {
    close_fds::set_fds_cloexec(3, &[]);
    #[cfg(target_os = "linux")]
    crate::sandbox::local::enter();
}

/// A running session and what its view needs to begin with.
pub struct Running {
    /// The arena.
    pub arena: Arena,
    /// The session's id.
    pub id: String,
    /// Entries that were recorded before this process took it up; none of a new session.
    pub recorded: u64,
    /// True when a turn is open and goes on by itself.
    pub has_open_turn: bool,
    /// What confines the tools.
    pub sandbox: SandboxSpec,
    /// Keeps other processes that write out of the workspace; none when nothing here can write.
    pub lock: Option<WorkspaceLock>,
    /// The folder it works in.
    pub workspace: PathBuf,
    /// What people have to know of how it was opened.
    pub notes: Vec<String>,
}

/// Opens a new session in the configured workspace. `attended`: somebody can answer approvals.
pub async fn open(config: &Config, request: &Request, attended: bool) -> Result<Running, WireError> {
    let id = uuid::Uuid::now_v7().to_string();
    let at = (config.workspace(), id.as_str());
    let mut place =
        Place::configured(config, config.sandbox(), at, (&request.rules, request.consent.clone())).await?;
    let mut spec = spec::make(config, request, place.vault.specs(), place.workspace_spec())?;
    place.furnish(Means::Configured(config, &id), &mut Vec::new(), &mut spec).await?;
    place.notes.extend(windows::complete(config, spec.models.iter_mut()).await);
    let connected = providers::connect(config, &spec.models, &AnsweredCounts::default())?;
    let lock = if request.reads_only { None } else { lock_for(config, &spec, &spec.tools)? };
    let log = store(config).create(&id)?;
    ownership::mark(&config.places().state, &id, config.workspace())?;
    let sandbox = spec.workspace.sandbox.clone();
    let notes = std::mem::take(&mut place.notes);
    let ports = place.ports(log, connected, attended);
    let arena = Arena::open(id.clone(), spec, ports).await?;
    let workspace = config.workspace().to_owned();
    Ok(Running { arena, id, recorded: 0, has_open_turn: false, sandbox, workspace, lock, notes })
}

/// Takes a session up again. What lets it do something comes from `config` and `wanted` and never from its log;
/// `config` must have been loaded for the workspace: [`Sessions::home`], or the one `wanted` names.
pub async fn resume(
    config: &Config,
    name: &str,
    wanted: &Changes,
    attended: bool,
) -> Result<Running, WireError> {
    let store = store(config);
    let path = store.find(name)?;
    let (mut recorded, mut answered) = (Recorded::default(), AnsweredCounts::default());
    let opened = store.open(&path, &mut |entry| {
        answered.apply(&entry);
        recorded.apply(&Arc::new(entry));
    })?;
    let session = recorded.session();
    let (count, has_open_turn) = (session.next_seq(), session.has_open_turn());
    let spec = session.spec().cloned().ok_or_else(|| LogError::NeverOpened(path.id.clone()))?;
    let (origin, began_in) = taken_up::origin(&config.places().state, &path);
    let root = wanted.root.clone().or(began_in).ok_or_else(|| WireError::ForeignRoot {
        id: path.id.clone(),
        root: PathBuf::from(&spec.workspace.root),
    })?;
    let kind = taken_up::kind(config, wanted, &spec.workspace.sandbox)?;
    let held = (wanted.rules.as_slice(), wanted.consent.clone());
    let mut place = Place::configured(config, kind, (&root, &path.id), held).await?;
    let (changed, spec) = place.take_over(config, (&path.id, session), &spec, (wanted, origin)).await?;
    let connected = providers::connect(config, &spec.models, &answered)?;
    let lock = if wanted.reads_only { None } else { lock_for(config, &spec, &place.vault.specs())? };
    let before = opened.recovered.map(ArenaEvent::FaultRecovered).into_iter().collect();
    let notes = std::mem::take(&mut place.notes);
    let ports = place.ports(opened.log, connected, attended);
    let resumption = Resumption { before, changed, foreign: origin == Origin::Foreign };
    let arena = Arena::resume(recorded, resumption, ports).await?;
    Ok(Running {
        arena,
        id: path.id,
        recorded: count,
        has_open_turn,
        sandbox: spec.workspace.sandbox,
        workspace: PathBuf::from(spec.workspace.root),
        lock,
        notes,
    })
}

/// Two writers in one workspace would overwrite each other's work.
fn lock_for(config: &Config, spec: &Spec, tools: &[ToolSpec]) -> Result<Option<WorkspaceLock>, WireError> {
    let writes = tools.iter().any(|tool| tool.risk != Risk::Read);
    let root = Path::new(&spec.workspace.root);
    writes.then(|| WorkspaceLock::take(&config.places().state, root)).transpose()
}

/// Copies a session up to an entry into a new one with a workspace of its own.
pub async fn fork(config: &Config, plan: &ForkPlan, attended: bool) -> Result<Running, WireError> {
    Fork::prepare(config, plan, attended).await?.start().await
}

/// The session store of a configuration.
fn store(config: &Config) -> SessionStore {
    SessionStore::new(config.places().state.clone())
}

//! The only file that names concrete adapters: puts an arena together.

mod builder;
mod cache;
mod change;
pub mod clock;
mod confine;
pub mod docker;
pub mod error;
mod fork;
pub mod git_head;
pub mod lock;
pub mod mcp;
pub mod offers;
mod ownership;
mod place;
mod prepared;
mod providers;
pub mod rewind;
mod role_sandboxes;
pub mod sessions;

mod spec;
mod squad;
mod taken_up;
mod windows;

use std::path::{Path, PathBuf};

pub use crate::eventlog::LogError;
pub use crate::eventlog::random_access::RandomAccessLog;
pub use crate::eventlog::session_status;
pub use crate::provider::pull::Pull;
pub use builder::ArenaBuilder;
pub use cache::Runs;
pub use change::{Changes, LimitChanges, change};
pub use clock::SystemClock;
pub use error::WireError;
pub(crate) use error::in_shell;
pub use fork::{ForkPlan, Instead, fork, open_copy};
pub use lock::WorkspaceLock;
pub use place::{Proof, Verdict, builtin_tools, holds_no_own_files, planned, prove, run_command, sandbox};
pub use prepared::Prepared;
pub use providers::is_demo;
pub use sessions::{Read, Sessions};
pub use spec::{check_model, persona_of, personas};
pub use squad::{SquadWish, blueprints};
pub use taken_up::Origin;

use place::Place;
use prepared::Loaded;
use role_sandboxes::Means;

use crate::arena::{Arena, Attendance, PROGRAM};
use crate::config::{Config, ModelName};
use crate::eventlog::{SessionPath, SessionStore};
use crate::protocol::event::{FaultRecovered, SessionOpened, SessionResumed};
use crate::protocol::spec::{PermissionLevel, Risk, SandboxSpec, Setting, Spec, ToolSpec};
use crate::protocol::{ArenaEvent, Entry, RULES};
pub use crate::teamcache::Removed as RemovedRuns;

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

/// Prepares a new session in the configured workspace on this model; its sandbox, limits and persona are those of
/// `config`. `attended`: who can answer approvals and questions.
pub async fn open(
    config: &Config,
    model: &ModelName,
    wanted: &Changes,
    attended: Attendance,
) -> Result<Prepared, WireError> {
    let new = Loaded::new();
    let at = (config.workspace(), new.id.as_str());
    let held = (wanted.rules.as_slice(), wanted.consent.clone());
    let mut place = Place::configured(config, config.sandbox(), at, held).await?;
    let mut spec = spec::make(config, (model, wanted), place.vault.specs(), place.workspace_spec().await)?;
    let limited = spec.limits.has_money();
    place.notes.extend(windows::complete(config, limited, spec.models.iter_mut()).await);
    spec::check_prices(&spec)?;
    place.furnish(Means::Configured(config, &new.id), &mut Vec::new(), &mut spec).await?;
    if wanted.debate.is_some() {
        place.notes.extend(windows::too_small_for_a_debate(&spec.models));
    }
    let connected = providers::connect(config, &spec.models, &new.answered)?;
    let lock = if wanted.reads_only { None } else { lock_for(config, &spec, &spec.tools)? };
    let facts = vec![opened(&new.id, spec.clone())];
    new.prepare(&config.places().state, (place, lock), (connected, attended), (&spec, facts))
}

/// Prepares a recorded session. What lets it do something comes from `config` and `wanted` and never from its log;
/// `config` must have been loaded for the workspace: [`Sessions::home`], or the one `wanted` names.
pub async fn resume(
    config: &Config,
    name: &str,
    wanted: &Changes,
    attended: Attendance,
) -> Result<Prepared, WireError> {
    let (path, recovered, loaded) = load(store(config), name, &mut |_| {})?;
    let spec = loaded.spec()?;
    let state = &config.places().state;
    let (origin, began_in) = taken_up::origin(state, &path);
    let root = wanted.root.clone().or(began_in).ok_or_else(|| WireError::ForeignRoot {
        id: path.id.clone(),
        root: PathBuf::from(&spec.workspace.root),
    })?;
    let kind = taken_up::kind(config, wanted, &spec.workspace.sandbox)?;
    let held = (wanted.rules.as_slice(), wanted.consent.clone());
    let mut place = Place::configured(config, kind, (&root, &path.id), held).await?;
    let session = (path.id.as_str(), loaded.recorded.session());
    let (changed, spec) = place.take_over(config, session, &spec, (wanted, origin)).await?;
    let connected = providers::connect(config, &spec.models, &loaded.answered)?;
    let lock = if wanted.reads_only { None } else { lock_for(config, &spec, &place.vault.specs())? };
    let mut facts = resumed(&loaded, recovered, (changed, origin));
    facts.extend(wanted.answer.clone().and_then(|answer| loaded.answered_with(answer)));
    loaded.prepare(state, (place, lock), (connected, attended), (&spec, facts))
}

/// Opens a log for writing and folds it; with what had to be cut off its end.
fn load(
    store: SessionStore,
    name: &str,
    take: &mut dyn FnMut(&Entry),
) -> Result<(SessionPath, Option<FaultRecovered>, Loaded), WireError> {
    let path = store.find(name)?;
    let mut loaded = Loaded::named(path.id.clone());
    let opened = store.open(&path, &mut |entry| {
        take(&entry);
        loaded.apply(entry);
    })?;
    loaded.log = Some(opened.log);
    Ok((path, opened.recovered, loaded))
}

/// The fact a session begins with.
fn opened(id: &str, spec: Spec) -> ArenaEvent {
    ArenaEvent::SessionOpened(Box::new(SessionOpened { id: id.to_owned(), rules: RULES, spec }))
}

/// The facts a session is resumed with.
fn resumed(
    loaded: &Loaded,
    recovered: Option<FaultRecovered>,
    (changed, origin): (Vec<Setting>, Origin),
) -> Vec<ArenaEvent> {
    let resumed = SessionResumed {
        rules: RULES,
        program: PROGRAM.to_owned(),
        changed,
        active_ms: loaded.recorded.active_ms(),
        foreign: origin == Origin::Foreign,
    };
    let recovered = recovered.map(ArenaEvent::FaultRecovered);
    recovered.into_iter().chain([ArenaEvent::SessionResumed(resumed)]).collect()
}

/// Two writers in one workspace would overwrite each other's work.
fn lock_for(config: &Config, spec: &Spec, tools: &[ToolSpec]) -> Result<Option<WorkspaceLock>, WireError> {
    let writes = tools.iter().any(|tool| tool.risk != Risk::Read);
    let root = Path::new(&spec.workspace.root);
    // At the level `plan` nothing is written, so another session may.
    if writes && spec.permission == PermissionLevel::Plan {
        return Ok(Some(WorkspaceLock::not_yet()));
    }
    writes.then(|| WorkspaceLock::take(&config.places().state, root)).transpose()
}

/// The session store of a configuration.
fn store(config: &Config) -> SessionStore {
    SessionStore::new(config.places().state.clone())
}

//! Puts a workspace together with everything that works in it, its sandbox among it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::change::{Changes, changes};
use super::confine::{Wanted, chosen, confined};
use super::role_sandboxes::{Means, OpenedRoleSandboxes};
use super::taken_up::{self, Origin};
use super::{SystemClock, WireError, cache, fork, git_head, mcp, providers, windows};
use crate::arena::{ArenaPorts, Attendance, RoleSandboxes};
use crate::bus::Bus;
use crate::config::{Config, SandboxKind};
use crate::eventlog::SessionLog;
use crate::host_files;
use crate::ports::{Checks as _, EventLog, Sandbox, TeamCache};
use crate::protocol::effect::ToolCall;
use crate::protocol::event::{CheckRan, PathBase, Plan, PrepareResult, ToolUse};
use crate::protocol::need::Need;
use crate::protocol::spec::{
    Consent, PermissionLevel, Risk, Rule, SandboxSpec, Setting, Spec, ToolSpec, WorkspaceSpec,
};
use crate::protocol::{EventRef, SparkId};
use crate::sandbox::proof::{self, Stage};
pub use crate::sandbox::proof::{Proof, Verdict};
use crate::sandbox::{SandboxChecks, crash_journal};
use crate::session::Session;
use crate::session::convergence::Scorers;
use crate::toolvault::{Plans, ToolVault};
use crate::workspace::WorkspaceStore;

/// What would confine the tools of a new session here, after it was started; how commands get what they see, and what it
/// opens for a single call.
pub async fn sandbox(config: &Config) -> Result<(SandboxSpec, Vec<String>), WireError> {
    keeps_apart(config, config.workspace())?;
    let sandbox = confined(config, looked_at(config.sandbox(), config.workspace())).await?;
    let spec = sandbox.spec();
    let mut seen: Vec<String> = sandbox.way().into_iter().collect();
    if spec.is_confining() {
        seen.extend(doors(&*sandbox).await);
    }
    sandbox.close().await;
    Ok((spec, seen))
}

/// What a sandbox opens for a call that was allowed it, each with the reason where it does not.
async fn doors(sandbox: &dyn Sandbox) -> Vec<String> {
    let needs = [Need::Git, Need::Host("NAME".to_owned()), Need::Port(80), Need::Unconfined];
    let mut seen = Vec::new();
    for need in needs {
        let closed = match sandbox.cannot_open(std::slice::from_ref(&need)) {
            // Only a call shows whether this machine does it.
            None if need == Need::Git => proof::opens_git(sandbox).await.err(),
            closed => closed,
        };
        let line = match closed {
            None => format!("door: `{}` opens for a call that is allowed it", need.name()),
            Some(why) => format!("closed door: {why}"),
        };
        // Each port is as good as the other.
        seen.push(line.replace("port:80", "port:N"));
    }
    seen
}

/// How long a person's own command may take, in milliseconds.
const SHELL_MS: u64 = 120_000;

/// Runs a person's own command where the tools of a new session would be confined; where nothing confines, it is refused
/// unless `none` was chosen.
pub async fn run_command(config: &Config, line: &str) -> Result<CheckRan, WireError> {
    keeps_apart(config, config.workspace())?;
    let wanted = looked_at(config.sandbox(), config.workspace());
    let sandbox = confined(config, Wanted { session: "shell", is_looked_at: false, ..wanted }).await?;
    let checks = SandboxChecks::new(Arc::clone(&sandbox));
    let ran = checks.run(line, SHELL_MS, &(), &CancellationToken::new()).await;
    sandbox.close().await;
    Ok(ran)
}

/// Starts a sandbox on a workspace made for that and tries every forbidden act in it.
pub async fn prove(config: &Config, kind: SandboxKind) -> Result<(SandboxSpec, Vec<Proof>), WireError> {
    let failed = |error: std::io::Error| WireError::Workspace(format!("the proof cannot be set up: {error}"));
    let stage = Stage::set(&crate::sandbox::temporary()).map_err(failed)?;
    let root = stage.workspace();
    let sandbox = confined(config, looked_at(kind, &root)).await?;
    let spec = sandbox.spec();
    // Nothing is tried where nothing is refused: it would be done.
    let proofs = match spec.is_confining() {
        false => Vec::new(),
        true => proof::prove(&stage, &*sandbox).await,
    };
    sandbox.close().await;
    Ok((spec, proofs))
}

/// The tools that every session has.
pub fn builtin_tools() -> Result<Vec<ToolSpec>, WireError> {
    Ok(ToolVault::builtin().map_err(|error| WireError::Internal(error.to_string()))?.specs())
}

/// A call in words as a new session here would judge it: what would confine it, and what it needs, or why its tool
/// refuses it whatever the rules say.
pub async fn planned(
    config: &Config,
    (tool, object): (&str, &str),
    needs: &[Need],
) -> Result<(SandboxSpec, Result<Plan, String>), WireError> {
    let risk = builtin_tools()?.iter().find(|spec| spec.name == tool).map(|spec| spec.risk);
    if risk.is_none() && config.file().mcp.is_empty() {
        return Err(WireError::Tool(format!("there is no tool `{tool}`")));
    }
    keeps_apart(config, config.workspace())?;
    let kind = config.sandbox();
    let read_only = config.permission() == PermissionLevel::Plan && kind != SandboxKind::None;
    let sandbox = confined(config, Wanted { read_only, ..looked_at(kind, config.workspace()) }).await?;
    let files = sandbox.files();
    let plan = |need: Need| {
        let needs = std::iter::once(need).chain(needs.iter().cloned()).collect();
        let ((cwd, preview, digest), risk) = (Default::default(), risk.unwrap_or(Risk::Execute));
        Plan { needs, cwd, preview, risk, digest }
    };
    let file = || files.canonical(object).map(|path| PathBase { path, sha256: None });
    let planned = match risk {
        Some(Risk::Read) => file().map(|file| plan(Need::Read(file))).map_err(|error| error.to_string()),
        Some(Risk::Write) => {
            let file = files.check_write(object).and_then(|()| file());
            file.map(|file| plan(Need::Write(file))).map_err(|error| error.to_string())
        }
        Some(_) => command_planned(&*sandbox, (tool, object), needs).await?,
        None => Ok(plan(Need::Tool(object.to_owned()))),
    };
    sandbox.close().await;
    Ok((sandbox.spec(), planned))
}

/// The same for a command line, which its tool reads.
async fn command_planned(
    sandbox: &dyn Sandbox,
    (tool, line): (&str, &str),
    needs: &[Need],
) -> Result<Result<Plan, String>, WireError> {
    let names: Vec<_> = needs.iter().map(Need::name).collect();
    let call = ToolCall {
        tool_use: ToolUse { answer: EventRef::fact(0), part: 0 },
        spark: SparkId(0),
        tool: tool.to_owned(),
        args: serde_json::json!({ "command": line, "needs": names, "why": "it is explained" }),
        bases: Vec::new(),
        place: None,
        denied: Vec::new(),
        hosts: Vec::new(),
        timeout_ms: 1,
        output_cap: 0,
    };
    let vault = ToolVault::builtin().map_err(|error| WireError::Internal(error.to_string()))?;
    Ok(match vault.prepare(&call, sandbox, &Plans::default()).await.result {
        PrepareResult::Ready(plan) => Ok(plan),
        PrepareResult::Unfit(why) => Err(why),
        PrepareResult::Unknown(_) => Err("it cannot be prepared".to_owned()),
    })
}

/// A sandbox that is only looked at.
fn looked_at(kind: SandboxKind, root: &Path) -> Wanted<'_> {
    Wanted {
        kind,
        root,
        session: "doctor",
        rules: &[],
        read_only: false,
        has_consent: false,
        is_looked_at: true,
    }
}

/// Refuses a workspace that holds agon's own files: a tool could rewrite the record of what it did, or the policy. And
/// one that is a home or the system's, unless a person said so.
fn keeps_apart(config: &Config, root: &Path) -> Result<(), WireError> {
    if let Some(why) = config.wide(root) {
        return Err(WireError::Wide { workspace: root.to_owned(), why });
    }
    holds_no_own_files(config, root)
}

/// Refuses a workspace that holds agon's own files, which no consent allows.
pub fn holds_no_own_files(config: &Config, root: &Path) -> Result<(), WireError> {
    match config.own_within(root) {
        Some(own) => Err(WireError::HoldsOwn { workspace: host_files::real(root), own }),
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
    /// Who let the tools work where nothing confines them.
    consent: Option<Consent>,
    roles: OpenedRoleSandboxes,
    /// What people have to know of how it was opened.
    pub(super) notes: Vec<String>,
}

impl Place {
    /// A workspace with its sandbox.
    pub(super) fn open(state: &Path, root: &Path, sandbox: Arc<dyn Sandbox>) -> Result<Self, WireError> {
        let workspace = WorkspaceStore::open(root, state).map_err(WireError::Workspace)?;
        let vault = ToolVault::builtin().map_err(|error| WireError::Internal(error.to_string()))?;
        let (root, roles) = (root.to_owned(), OpenedRoleSandboxes::default());
        Ok(Place { root, sandbox, workspace, cache: None, vault, consent: None, roles, notes: Vec::new() })
    }

    /// A place with what the configuration gives: the sandbox of a session, and the team cache.
    pub(super) async fn configured(
        config: &Config,
        kind: SandboxKind,
        (root, session): (&Path, &str),
        (rules, consent): (&[Rule], Option<Consent>),
    ) -> Result<Self, WireError> {
        keeps_apart(config, root)?;
        let has_consent = consent.is_some();
        let wanted =
            Wanted { kind, root, session, rules, read_only: false, has_consent, is_looked_at: false };
        let (sandbox, weaker) = chosen(config, wanted).await?;
        // After the sandbox was started, which ends what a dead one left, and before instructions are read.
        let notes = crash_journal::notes_of(&config.places().state);
        let mut notes = crash_journal::settle(&notes, root).map_err(WireError::Workspace)?;
        notes.extend(weaker);
        let consent = consent.filter(|_| !sandbox.spec().is_confining());
        let place = Place::open(&config.places().state, root, sandbox)?;
        mcp::sources(config, root)
            .into_iter()
            .for_each(|(name, source)| place.vault.add_source(name, source));
        Ok(Place { cache: cache::port(config), consent, notes, ..place })
    }

    /// Starts the places of roles, and makes the spec and the settings that lead to it say so.
    pub(super) async fn furnish(
        &mut self,
        means: Means<'_>,
        changed: &mut Vec<Setting>,
        spec: &mut Spec,
    ) -> Result<(), WireError> {
        self.roles = OpenedRoleSandboxes::open(means, &self.root, spec, &self.sandbox).await?;
        self.roles.tell(changed, spec);
        Ok(())
    }

    /// What is different here from what a recorded session was last held to, and its spec with that applied. The
    /// places of its roles are started when they will be worked in.
    pub(super) async fn take_over(
        &mut self,
        config: &Config,
        (id, session): (&str, &Session),
        before: &Spec,
        (wanted, origin): (&Changes, Origin),
    ) -> Result<(Vec<Setting>, Spec), WireError> {
        let mut here = taken_up::settings(config, (before, self.workspace_spec().await), wanted, origin)?;
        let servers = Setting::Sources(mcp::names(config));
        here.extend(Some(servers).filter(|it| taken_up::changes_anything(before, it)));
        let (mut changed, mut spec) = changes(config, before.clone(), here, wanted)?;
        self.notes.extend(windows::complete_settings(config, &mut changed, &mut spec).await?);
        if !session.has_open_turn() {
            changed.extend(windows::known_by_now(config, &mut spec).await);
        }
        let plans = spec.permission == PermissionLevel::Plan;
        if wanted.squad.is_some() || session.has_open_turn() || plans {
            self.furnish(Means::Configured(config, id), &mut changed, &mut spec).await?;
        }
        let is_copy = self.root == fork::folder(&config.places().state, id);
        self.notes.extend(taken_up::differences(before, &spec, origin, is_copy));
        Ok((changed, spec))
    }

    pub(super) async fn workspace_spec(&self) -> WorkspaceSpec {
        WorkspaceSpec {
            root: self.root.display().to_string(),
            git_head: git_head::git_head(&self.root).await,
            sandbox: SandboxSpec { consent: self.consent.clone(), ..self.sandbox.spec() },
            places: self.roles.specs.clone(),
        }
    }

    pub(super) fn ports(
        self,
        log: SessionLog,
        connected: providers::Connected,
        attended: Attendance,
    ) -> ArenaPorts {
        let log: Arc<dyn EventLog> = Arc::new(log);
        let places = RoleSandboxes::default();
        places.set(self.roles.sandboxes);
        ArenaPorts {
            log,
            bus: Arc::new(Bus::new()),
            vault: Arc::new(self.vault),
            checks: Arc::new(SandboxChecks::new(self.sandbox.clone())),
            sandbox: self.sandbox,
            places: Arc::new(places),
            workspace: Arc::new(self.workspace),
            cache: self.cache,
            providers: connected.providers,
            provider_limits: connected.limits,
            scorers: Scorers::default(),
            learnings: connected.learnings,
            workers: BTreeMap::new(),
            clock: Arc::new(SystemClock),
            secrets: connected.secrets,
            attended,
        }
    }
}

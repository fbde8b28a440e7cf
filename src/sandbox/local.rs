//! The kind `local`: namespaces, Landlock and seccomp of this machine's kernel; knows no tool and no policy.
//!
//! With the first call this program is started again, as the holder of what stays the same for a session. It forks for
//! each call: a process takes a private copy of the holder's mounts, adds the call's own, gives up its rights and
//! starts the command. Everything they do is decided here, before. agon's own threads are never restricted.

mod child_stage;
mod confine;
mod door;
mod fs_layout;
mod gaps;
mod git;
mod held;
mod hints;
mod home_layout;
mod kept_back;
mod kept_proof;
mod launch;
mod loopback;
mod masks;
mod mounts;
mod network;
mod npm;
mod options;
mod plan;
mod proven;
mod session_holder;
mod shared_network;
mod tmp;
pub(super) mod tools;
mod view;
mod watcher;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::crash_journal;
use super::files::WorkspaceFiles;
use super::masks::FoundPaths;
use super::process;
use super::protected_snapshot;
use super::{LocalError, Unconfined};
use crate::ports::{Exec, ExecEnd, Files, Live, Opens, Sandbox, Wires};
use crate::protocol::Lane;
use crate::protocol::spec::{DeniedPaths, SandboxSpec};
pub use child_stage::enter;
pub(super) use fs_layout::tool_folders_of;
use kept_proof::KeptProof;
use network::{CallNetwork, MaskedLive};
pub use options::LocalOptions;
pub use plan::Limits;
use plan::{Cover, CoverKind, StagePlan};
use session_holder::SessionHolder;
use shared_network::{PORTS, SharedNetwork};
use tmp::TmpFolders;
use view::{LazyView, View};
use watcher::Watcher;

/// Commands in namespaces of their own, one set a call; `/tmp` is kept between calls.
pub struct LocalSandbox {
    files: Arc<WorkspaceFiles>,
    options: LocalOptions,
    has_namespaces: bool,
    view: Arc<LazyView>,
    holder: SessionHolder,
    shared: SharedNetwork,
    /// Why this machine lays no layer over a repository, once it has refused one.
    no_layers: OnceLock<String>,
    filters: Result<Vec<Vec<[u32; 4]>>, String>,
    found: FoundPaths,
    keeper: Watcher,
    /// Where a call runs that was allowed to leave the sandbox.
    outside: Unconfined,
    proven: OnceLock<Vec<String>>,
    scratch: TmpFolders,
}

impl LocalSandbox {
    /// Opens the workspace. Whether this machine allows what is needed shows [`LocalSandbox::start`].
    pub fn open(root: &Path, options: LocalOptions) -> Result<Self, LocalError> {
        let secrets = DeniedPaths::new(&options.secrets);
        let mut sandbox = LocalSandbox::bare(root, options, true)?;
        sandbox.found = FoundPaths::of(sandbox.files.root(), &secrets, &sandbox.options.protected)
            .map_err(LocalError::Unfit)?;
        Ok(sandbox)
    }

    /// Without anything covered.
    fn bare(root: &Path, options: LocalOptions, has_namespaces: bool) -> Result<Self, LocalError> {
        let files = WorkspaceFiles::open(root).map_err(|error| LocalError::Unfit(error.to_string()))?;
        if !options.read_only && fs_layout::is_of_the_system(files.root()) {
            // The machine is not at fault, so no weaker sandbox is advised.
            let root = files.root().display();
            let why = format!(
                "`{root}` belongs to the system, which no sandboxed command can change; work in another folder"
            );
            return Err(LocalError::Unfit(why));
        }
        let files = Arc::new(files.protecting(options.protected.clone()));
        let outside = Unconfined::of(files.clone());
        options.notes.as_deref().map_or(Ok(()), crash_journal::make).map_err(LocalError::Unfit)?;
        let scratch = TmpFolders::make(files.root()).map_err(LocalError::Unfit)?;
        let keeper = Watcher::of(files.root(), scratch.path(), options.notes.clone());
        let (mut filters, found, proven) = (confine::filters(), FoundPaths::default(), OnceLock::new());
        if !has_namespaces {
            let filters = filters.as_mut().map_err(|error| LocalError::Machine(error.clone()))?;
            filters.push(confine::no_sockets().map_err(LocalError::Machine)?);
        }
        let holder = SessionHolder::new(options.program.clone());
        let programs = filters.clone().unwrap_or_default();
        let view = View::lazy((files.root(), scratch.path()), &options, has_namespaces, programs);
        Ok(LocalSandbox {
            files,
            options,
            has_namespaces,
            view: Arc::new(view),
            holder,
            shared: SharedNetwork::default(),
            no_layers: OnceLock::new(),
            filters,
            found,
            keeper,
            outside,
            proven,
            scratch,
        })
    }

    /// The same where namespaces are refused: only what Landlock and seccomp hold, which is named *landlock-only*.
    pub fn open_without_namespaces(root: &Path, options: LocalOptions) -> Result<Self, LocalError> {
        if !confine::landlock_works() {
            return Err(LocalError::Machine("this kernel has no Landlock".to_owned()));
        }
        LocalSandbox::bare(root, options, false)
    }

    /// Runs a command that looks around, to see that the sandbox is available here and holds what it claims, unless an
    /// earlier one has seen the very same.
    pub async fn start(&self) -> Result<(), LocalError> {
        let kept = self.proof().filter(|_| self.covers_can_be_reached());
        let facts = match kept.as_ref().and_then(KeptProof::facts) {
            Some(facts) => facts,
            None => {
                let facts = self.prove().await?;
                if let Some(kept) = self.proof() {
                    kept.keep(&facts);
                }
                facts
            }
        };
        let _ = self.proven.set(facts);
        self.look_ahead();
        Ok(())
    }

    /// Decides what commands see while the model is asked, so that the first of them finds it done.
    fn look_ahead(&self) {
        let (view, needs_search) = (Arc::clone(&self.view), self.needs_search());
        let look = move || {
            let packages = Arc::clone(&view.packages);
            needs_search.then(|| packages.search().len())
        };
        // Without a thread the first command decides.
        let _ = std::thread::Builder::new().spawn(look);
    }

    /// Why it does not open this for a call, if so.
    fn why_closed(&self, opens: &Opens) -> Option<String> {
        let is_closed = |name: &String| match name.split(':').next() {
            Some("host" | "port") => !self.has_namespaces,
            _ => !matches!(name.as_str(), "git" | "unconfined"),
        };
        if let Some(port) = opens.ports.iter().find(|port| PORTS.contains(port)) {
            return Some(format!("`port:{port}` is not available: agon's proxies have it inside"));
        }
        if let Some(name) = opens.names().find(is_closed) {
            return Some(format!("`{name}` is not available in the sandbox `{}`", self.spec().kind));
        }
        if let Some(name) = opens.names().next().filter(|_| self.options.read_only) {
            return Some(format!("`{name}` is not available: the workspace is read-only here"));
        }
        let why = self.git_place().err().filter(|_| opens.git && self.has_namespaces)?;
        Some(format!("`git` is not available: {why}"))
    }

    /// The place for what is seen of it.
    fn proof(&self) -> Option<KeptProof> {
        let options = (&self.options, self.files.root(), &self.found.names, self.has_namespaces);
        let around = (super::passed_on(), super::temporary(), self.filters.is_ok());
        let all = format!("{options:?} {around:?}");
        KeptProof::of(self.options.proofs.as_ref()?, &self.options.program, &all)
    }

    /// What a call covers of the sockets that are there now, besides what is covered for the session.
    fn covers_of_sockets(&self) -> Vec<plan::Mount> {
        kept_back::listening(&self.view.layout.mounts)
    }

    /// The same, with sockets in folders of packages.
    async fn searched_covers_of_sockets(&self) -> Result<Vec<plan::Mount>, String> {
        let mut covers = self.covers_of_sockets();
        if self.needs_search() {
            if !self.view.packages.is_searched() {
                let packages = Arc::clone(&self.view.packages);
                let searched = tokio::task::spawn_blocking(move || packages.search().len()).await;
                searched
                    .map_err(|error| format!("{}folders cannot be searched: {error}", launch::REFUSED))?;
            }
            let shown = [&self.view.layout.mounts[..], &covers].concat();
            covers.extend(self.view.packages.covers(&shown));
        }
        Ok(covers)
    }

    /// Where Landlock cannot refuse sockets, they have to be found.
    fn needs_search(&self) -> bool {
        self.has_namespaces && !confine::landlock_refuses_sockets()
    }

    /// `more` is what this call mounts besides: covers of sockets, and the layer of a repository.
    fn plan(
        &self,
        exec: &Exec,
        directory: &Path,
        more: Vec<plan::Mount>,
        network: Option<&CallNetwork>,
    ) -> StagePlan {
        let mut mounts = self.view.split.own.clone();
        mounts.extend(more);
        let mut covers = masks::of(&self.found);
        for path in self.found.no_more_as_tracked(self.files.root()) {
            masks::add(&mut covers, path.clone(), CoverKind::Masked);
        }
        if self.options.read_only {
            // Nothing can be written or moved, so only secrets need a cover; others may work here meanwhile, and
            // what they make and remove is no ground to mount on.
            covers.retain(|_, kind| *kind != CoverKind::ReadOnly);
        } else {
            self.keeper.cover(&mut covers, &self.options.protected);
        }
        let mut plan = StagePlan {
            mounts,
            workspace: self.files.root().as_os_str().to_owned(),
            covers: Vec::new(),
            cwd: directory.as_os_str().to_owned(),
            command: npm::guarded(&exec.command),
            environment: network.map(CallNetwork::environment).unwrap_or_default(),
            listened: network.map(CallNetwork::listened).unwrap_or_default(),
        };
        let layers: Vec<PathBuf> = plan.layers().map(PathBuf::from).collect();
        let is_under_a_layer = |path: &Path| {
            let path = self.files.root().join(path);
            layers.iter().any(|layer| path.starts_with(layer))
        };
        // What is written there changes nothing outside; what is secret stays so.
        covers.retain(|path, kind| *kind == CoverKind::Masked || !is_under_a_layer(path));
        let parts = |path: &Path| path.iter().map(OsString::from).collect();
        plan.covers = covers.into_iter().map(|(path, kind)| Cover { path: parts(&path), kind }).collect();
        plan
    }

    /// Runs a command in a copy of what the holder holds. A holder that was ended is replaced, and where copies are
    /// refused each call gets one of its own.
    async fn run_in_a_copy(
        &self,
        exec: &Exec,
        (plan, network, wires): (&StagePlan, Option<&CallNetwork>, Option<&Wires>),
        started: Instant,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ExecEnd, String> {
        let (view, mut lost) = (&self.view, 0);
        let refused = |why: String| format!("{}{why}", launch::REFUSED);
        loop {
            let is_single = self.holder.why_single().is_some();
            let holder = self.holder.get(&view.split, &view.held).await.map_err(refused)?;
            let shares = network.is_some_and(|network| network.is_shared);
            let ended = match holder.call(plan, wires, shares).await {
                Ok((hold, door)) => {
                    network::beside(network, door, process::watch(exec, hold, started, live, cancel)).await
                }
                Err(why) => Err(why),
            };
            match ended {
                Err(why) if why == launch::LOST => {
                    self.holder.lose(&holder).await;
                    lost += 1;
                    if lost > MOST_LOST {
                        return Err(refused(why));
                    }
                }
                Err(why) if why.starts_with(launch::NO_COPY) && is_single => return Err(refused(why)),
                Err(why) if why.starts_with(launch::NO_COPY) => {
                    drop(holder);
                    self.holder.make_single(&why).await;
                }
                mut ended => {
                    let note = format!("{}; agon started another", launch::LOST);
                    ended.iter_mut().for_each(|end| end.notes.extend(vec![note.clone(); lost]));
                    return ended;
                }
            }
        }
    }

    async fn run(
        &self,
        exec: Exec,
        (more, wires): (Vec<plan::Mount>, Option<Wires>),
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ExecEnd, String> {
        let started = Instant::now();
        let directory = self.files.directory(&exec.cwd).map_err(|error| error.to_string())?;
        // Names can only be kept where they can be covered, and need it only where they can be made.
        let read_only = self.options.read_only;
        let call = (self.has_namespaces && !read_only).then(|| self.keeper.begin(&self.found)).transpose()?;
        // Where the workspace is read-only no need is opened, so no person is asked.
        let asks = live.asks().filter(|_| !read_only);
        let joined = self.shared.join(exec.background)?;
        let (wire, origins, joined) = (&self.options.wire, &self.view.origins, joined.as_ref());
        let network = || CallNetwork::of(&exec, wire, origins, asks, (read_only, joined));
        let network = self.has_namespaces.then(network).transpose()?;
        let (network, live) = (network.as_ref(), &MaskedLive(live, network.as_ref()));
        let mut plan = self.plan(&exec, &directory, more, network);
        let own = wires.iter().flat_map(|wires| &wires.environment);
        plan.environment.extend(own.map(|(name, value)| (name.clone(), value.into())));
        let planned = (&plan, network, wires.as_ref());
        let mut end = match self.run_in_a_copy(&exec, planned, started, live, cancel).await {
            Ok(end) => match network {
                Some(network) => network.told(end),
                None => end,
            },
            // No command began, so there is nothing to be settled after it.
            Err(why) if why.starts_with(launch::REFUSED) => {
                let told = call.map(watcher::Call::end).unwrap_or_default();
                return Err([vec![why], told].concat().join("; "));
            }
            Err(why) => return Err(why),
        };
        end.notes.extend(call.map(watcher::Call::end).unwrap_or_default());
        let lines = end.notes.iter().map(|line| protected_snapshot::noted(line));
        let git = || self.why_closed(&Opens { git: true, ..Opens::default() });
        let lines = lines.chain(protected_snapshot::told_of_closed(&end, git, read_only));
        let lines = lines.chain(protected_snapshot::told_of_hidden(&end, &self.found));
        for line in lines.chain(hints::of_limits(&end, &exec.command, self.files.root())).collect::<Vec<_>>()
        {
            live.push(Lane::Stderr, &line);
            end.stderr.push_str(&line);
        }
        Ok(end)
    }
}

/// How many holders may be gone before a command has begun.
const MOST_LOST: usize = 2;

#[async_trait]
impl Sandbox for LocalSandbox {
    fn spec(&self) -> SandboxSpec {
        let kind = if self.has_namespaces { "local" } else { "landlock-only" };
        let proven = self.proven.get().cloned().unwrap_or_default();
        let has_filters = self.filters.is_ok();
        let gaps = gaps::of(self.has_namespaces, self.options.read_only, has_filters);
        SandboxSpec { kind: kind.to_owned(), gaps, proven, ..SandboxSpec::default() }
    }

    fn way(&self) -> Option<String> {
        let own =
            |why| format!("each command builds its own sandbox, which is slower: a copy is refused ({why})");
        let way = self.holder.why_single().map(own);
        let way = way.unwrap_or("each command starts from a prepared copy of the sandbox".to_owned());
        self.has_namespaces.then_some(way)
    }

    fn files(&self) -> Arc<dyn Files> {
        self.files.clone()
    }

    fn cannot_open(&self, opens: &Opens) -> Option<String> {
        self.why_closed(opens)
    }

    fn keeps_git(&self) -> bool {
        self.has_namespaces
    }

    /// Without namespaces no command can listen.
    fn keeps_background(&self) -> bool {
        self.has_namespaces
    }

    async fn listening(&self, opens: &Opens) -> BTreeSet<u16> {
        let mut ports = super::listening::listening(self, opens).await;
        let relayed: Vec<u16> = network::relayed(opens).collect();
        ports.retain(|port| opens.unconfined || !(PORTS.contains(port) || relayed.contains(port)));
        ports
    }

    async fn exec(&self, exec: Exec, live: &dyn Live, cancel: &CancellationToken) -> Result<ExecEnd, String> {
        if let Some(why) = self.why_closed(&exec.opens) {
            return Err(why);
        }
        if exec.opens.unconfined {
            return self.outside.exec(exec, live, cancel).await;
        }
        let call = async {
            let sockets = self.searched_covers_of_sockets().await?;
            match exec.opens.git && self.has_namespaces {
                true => self.run_with_git(exec, sockets, live, cancel).await,
                false => self.run(exec, (sockets, None), live, cancel).await,
            }
        };
        self.as_proven(call.await, cancel)
    }

    async fn converse(
        &self,
        exec: Exec,
        wires: Wires,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ExecEnd, String> {
        let call = async {
            let sockets = self.searched_covers_of_sockets().await?;
            self.run(exec, (sockets, Some(wires)), live, cancel).await
        };
        self.as_proven(call.await, cancel)
    }

    async fn close(&self) {
        self.holder.close().await;
        self.keeper.close();
        self.scratch.remove();
    }
}

//! The longer pieces of work on sessions: opened, taken up, copied, read, left. Each in a thread of its own, so that
//! the screen goes on meanwhile.

use std::path::PathBuf;
use std::sync::Arc;

use crate::arena::Arena;
use crate::assembly::sessions::SessionSummary;
use crate::assembly::{self, Changes, Fork, ForkPlan, Request, Running, WorkspaceLock};
use crate::cli::args::DemoKind;
use crate::cli::error::Failure;
use crate::cli::plan;
use crate::cli::run::{demo_folder, demo_request, prompt, story};
use crate::cli::session_folder::known_folder;
use crate::config::{Config, ModelName};
use crate::host_files::walk;
use crate::ports::Subscription;
use crate::protocol::{Command, Entry, StopCause};
use crate::tui::{SessionRow, SessionView};

use super::consent_prompt::Asker;
use super::mode_request::Company;
use super::record::{self, Seen};
use super::session_options::SessionOptions;

/// How long a session that is left may take to end what it runs.
const PARTING: std::time::Duration = std::time::Duration::from_secs(8);

/// Files of the workspace that completion knows at most.
const MOST_FILES: usize = 20_000;

/// A session that runs here.
pub(super) struct Live {
    pub arena: Arc<Arena>,
    pub news: Subscription,
    /// Position of the entry to come.
    pub next: u64,
    /// True while a turn is open.
    pub is_open: bool,
    /// Keeps others who write out of the workspace while a turn is open.
    lock: Option<WorkspaceLock>,
    /// True for a session whose turns may write.
    writes: bool,
    workspace: PathBuf,
}

impl Live {
    /// Listens to a session that was opened, and takes its log into a record.
    fn of(running: Running, record: &mut SessionView) -> Result<Live, Failure> {
        let Running { arena, lock, has_open_turn: is_open, workspace, .. } = running;
        let (news, writes) = (arena.subscribe(), lock.is_some());
        let mut bad = None;
        arena.log().visit(0, &mut |line| {
            let entry = serde_json::from_slice::<Entry>(line);
            bad = entry.map(|entry| record.apply(Arc::new(entry))).err();
            bad.is_none()
        })?;
        bad.map_or(Ok(()), Err)?;
        Ok(Live { arena: Arc::new(arena), news, next: record.next(), is_open, lock, writes, workspace })
    }

    /// Keeps others who write out of the workspace, for the turn to come.
    pub fn hold(&mut self, kit: &SessionOptions) -> Result<(), Failure> {
        if self.writes && self.lock.is_none() {
            self.lock = Some(WorkspaceLock::take(&kit.config.places().state, &self.workspace)?);
        }
        Ok(())
    }

    /// Takes in whether a turn is open now. Between turns others may write in the workspace.
    pub fn turned(&mut self, is_open: bool, kit: &SessionOptions) -> Result<(), Failure> {
        self.is_open = is_open;
        if is_open {
            return self.hold(kit);
        }
        self.let_go();
        Ok(())
    }

    /// Lets others write in the workspace.
    pub fn let_go(&mut self) {
        self.lock = None;
    }

    /// The entries that are new in the log.
    pub fn read_on(&mut self) -> Result<Vec<Arc<Entry>>, Failure> {
        let lines = self.arena.log().lines(self.next)?;
        let read = lines.iter().map(|line| serde_json::from_slice(line).map(Arc::new));
        let entries = read.collect::<Result<Vec<_>, _>>()?;
        self.next += entries.len() as u64;
        Ok(entries)
    }

    /// Ends what runs here: finished when nothing does, else stopped. Gives what was recorded meanwhile.
    pub async fn leave(mut self) -> Vec<Arc<Entry>> {
        let cause = if self.is_open { StopCause::Quit } else { StopCause::Finished };
        // A session that ended meanwhile needs no stop.
        let _ = self.arena.submit(Command::Stop { cause }).await;
        if tokio::time::timeout(PARTING, self.arena.ended()).await.is_err() {
            self.arena.stop_hard().await;
        }
        self.read_on().unwrap_or_default()
    }
}

/// Does something that may take long away from the screen.
pub(super) async fn apart<T, F, W>(work: W) -> Result<T, Failure>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Failure>>,
    W: FnOnce() -> F + Send + 'static,
{
    let runtime = tokio::runtime::Handle::current();
    let done = tokio::task::spawn_blocking(move || runtime.block_on(work())).await;
    done.map_err(|error| Failure::usage(format!("it was cut off: {error}")))?
}

/// A session that was opened, taken up or copied, and what it begins with.
pub(super) struct Opened {
    pub id: String,
    pub live: Live,
    pub record: SessionView,
    pub first: Option<Command>,
    pub note: Option<String>,
}

impl Opened {
    fn of(
        kit: &SessionOptions,
        running: Running,
        first: Option<Command>,
        note: Option<String>,
    ) -> Result<Self, Failure> {
        let id = running.id.clone();
        let words: Vec<String> = running.notes.iter().cloned().chain(note).collect();
        let note = (!words.is_empty()).then(|| words.join("; "));
        let mut record = record::live(kit, &id)?;
        let live = Live::of(running, &mut record)?;
        Ok(Opened { id, live, record, first, note })
    }
}

/// Opens a new session, asking where nothing confines its tools.
async fn open(config: &Config, request: &Request, asker: &Asker) -> Result<Running, Failure> {
    match assembly::open(config, request, true).await {
        Ok(running) => Ok(running),
        Err(error) => {
            let consent = Some(asker.consent(error).await?);
            Ok(assembly::open(config, &Request { consent, ..request.clone() }, true).await?)
        }
    }
}

/// Opens a new session for a task.
pub(super) async fn begin(
    kit: &SessionOptions,
    model: Option<ModelName>,
    company: &Company,
    (asker, first): (&Asker, Command),
) -> Result<Opened, Failure> {
    let model = match kit.named_model().cloned().or(model) {
        Some(model) => model,
        None => kit.config.choose_model().await?.0,
    };
    let (config, request) = kit.request(model, company)?;
    let running = open(&config, &request, asker).await?;
    Opened::of(kit, running, Some(first), None)
}

/// The folder for a session that was not begun here: the present one where its log names that, else one the person
/// agrees to.
async fn folder_of(kit: &SessionOptions, id: &str, asker: &Asker) -> Result<Option<PathBuf>, Failure> {
    let here = kit.config.workspace();
    match (known_folder(id, (None, here), &kit.environment)?, kit.sessions().home(id)) {
        (Some(folder), _) => Ok(Some(folder)),
        (None, Ok(_)) => Ok(None),
        (None, Err(error)) => Ok(Some(plan::folder(&asker.folder(error, here).await?)?)),
    }
}

/// Takes a session up: for a task, which one with an open turn is told instead; or only to go on.
pub(super) async fn resume(
    kit: &SessionOptions,
    id: &str,
    (company, found): (&Company, Option<ModelName>),
    (asker, first): (&Asker, Option<Command>),
) -> Result<Opened, Failure> {
    let root = folder_of(kit, id, asker).await?;
    let mut config = kit.config_of(id, root.as_deref())?;
    let mut changes = Changes { root, ..kit.changes_for(company) };
    if first.is_some() && kit.sessions().is_over_demo(id)? {
        changes.model = Some(after_demo(kit, changes.model.take(), found).await?);
    }
    let running = loop {
        match assembly::resume(&config, id, &changes, true).await {
            Ok(running) => break running,
            Err(error) => asker.settle(error, (&mut config, &mut changes)).await?,
        }
    };
    let first = match first {
        Some(Command::Prompt { text, .. }) if running.has_open_turn => {
            Some(Command::Steer { spark: None, text })
        }
        first => first,
    };
    Opened::of(kit, running, first, None)
}

/// Gives a task to a session that runs here and has no open turn.
pub(super) async fn give(
    kit: &SessionOptions,
    arena: &Arena,
    (company, found): (&Company, Option<ModelName>),
    task: Command,
) -> Result<(), Failure> {
    let mut changes = kit.changes_for(company);
    let models = arena.spec().await.map(|spec| spec.models).unwrap_or_default();
    if models.first().is_some_and(|model| assembly::is_demo(&kit.config, &model.name)) {
        changes.model = Some(after_demo(kit, changes.model.take(), found).await?);
    }
    assembly::change(&kit.config, arena, &changes, true).await?;
    arena.submit(task).await.map_err(Failure::usage)?;
    Ok(())
}

/// Who works on what is asked after the demo: its script knows its own task and no other.
async fn after_demo(
    kit: &SessionOptions,
    named: Option<ModelName>,
    found: Option<ModelName>,
) -> Result<ModelName, Failure> {
    let model = match named.or(found) {
        Some(model) => Some(model),
        None => kit.config.choose_model().await.ok().map(|(model, _)| model),
    };
    model.filter(|model| !assembly::is_demo(&kit.config, &model.to_string())).ok_or_else(|| {
        Failure::usage("the demo's script answers no other task than its own")
            .hint("/model PROVIDER/MODEL names a model that does; /demo plays it again")
    })
}

/// Copies a session with its files; runs nothing in the copy. Gives it with what to tell.
pub(super) async fn fork(
    kit: &SessionOptions,
    session: String,
    at: Option<u64>,
    asker: &Asker,
) -> Result<(Seen, String), Failure> {
    let (mut config, changes) = kit.for_copy(&session)?;
    let mut plan = ForkPlan { session, at, changes, instead: None, goes_on: false };
    let fork = loop {
        match Fork::prepare(&config, &plan, true).await {
            Ok(fork) => break fork,
            Err(error) => asker.settle(error, (&mut config, &mut plan.changes)).await?,
        }
    };
    let (id, lacks, told) = (fork.id.clone(), fork.lacks.clone(), fork.notes.clone());
    fork.record().await?;
    let place = at.map_or(String::new(), |seq| format!(" at e{seq}"));
    let note = format!("forked{place}; the workspace is a copy of its own");
    let words: Vec<String> = told.into_iter().chain([note]).chain(lacks).collect();
    Ok((record::look(kit, &id)?, words.join("; ")))
}

/// Opens a demo and gives its task.
pub(super) async fn demo(
    kit: &SessionOptions,
    show: DemoKind,
    folder: Option<PathBuf>,
    asker: &Asker,
) -> Result<Opened, Failure> {
    let (story, mode, squad, debate) = story(show);
    let root = demo_folder(story, folder.as_deref())?;
    let mut overrides = kit.overrides.clone();
    overrides.retain(|set| set.key != ["model"] && set.key != ["persona"]);
    let config = Config::load(kit.environment.clone(), &root, &overrides)?;
    let request = demo_request(kit.changes.rules.clone(), squad, debate)?;
    let running = open(&config, &request, asker).await?;
    let first = prompt(story.prompt.trim_end().to_owned(), mode, None)?;
    let note = Some(format!("the demo works in {}", root.display()));
    Opened::of(kit, running, Some(first), note)
}

/// The rows of the list of sessions.
pub(super) fn list(kit: &SessionOptions) -> Result<Vec<SessionRow>, Failure> {
    let sessions = kit.sessions();
    let row = |summary: SessionSummary| SessionRow {
        state: sessions.standing(&summary.id).words(),
        name: sessions.name_of(&summary.id),
        id: summary.id,
        prompt: summary.prompt.unwrap_or_default(),
        workspace: summary.workspace.unwrap_or_default(),
        entries: summary.entries,
        newest_at: summary.newest_at,
        fault: summary.fault,
    };
    Ok(sessions.list()?.into_iter().map(row).collect())
}

/// Files and folders of a workspace, without what is ignored there; folders end with a slash.
pub(super) fn files(kit: &SessionOptions) -> Vec<String> {
    let root = kit.config.workspace();
    let walk = walk::builder(root, |_| true).hidden(true).build().filter_map(Result::ok);
    let name = |entry: ignore::DirEntry| {
        let path = entry.path().strip_prefix(root).ok()?.to_str()?.to_owned();
        let is_folder = entry.file_type()?.is_dir();
        (!path.is_empty()).then(|| if is_folder { format!("{path}/") } else { path })
    };
    let mut files: Vec<String> = walk.filter_map(name).take(MOST_FILES).collect();
    files.sort();
    files
}

/// A command that gives a task.
pub(super) fn task(text: String, company: &Company) -> Result<Command, Failure> {
    plan::prompt("run", &text, None)?;
    prompt(text, company.mode.clone(), None)
}

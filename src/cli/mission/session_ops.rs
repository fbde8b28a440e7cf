//! The longer pieces of work on sessions: opened, taken up, copied, read, left. Each in a thread of its own, so that
//! the screen goes on meanwhile.

use std::path::Path;
use std::sync::Arc;

use crate::cli::desk::PERSON;
use crate::cli::error::Failure;
use crate::cli::plan;
use crate::config::{Config, ModelName};
use crate::host::{self, Answers, Demo, ForkPlan, Handle, Host, SessionSummary, Updates, model_after_demo};
use crate::protocol::Command;
use crate::tui::{SessionRow, SessionView};

use super::consent_prompt::Asker;
use super::mode_request::Company;
use super::record::{self, Seen};
use super::session_options::SessionOptions;

/// Where sessions are opened from the screen, who is asked, and who answers their approvals.
#[derive(Clone)]
pub(super) struct Front {
    pub host: Host,
    pub asker: Asker,
    pub answers: Answers,
}

impl Front {
    fn who(&self) -> (Answers, &Asker) {
        (self.answers.clone(), &self.asker)
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

/// A session that was opened or resumed, and what it begins with.
pub(super) struct Opened {
    pub updates: Updates,
    pub record: SessionView,
    pub first: Option<Command>,
    pub note: Option<String>,
}

impl Opened {
    /// Takes its log into a record and listens from there on.
    fn of(
        kit: &SessionOptions,
        handle: &Handle,
        first: Option<Command>,
        note: Option<String>,
    ) -> Result<Self, Failure> {
        let words: Vec<String> = handle.notes().iter().cloned().chain(note).collect();
        let note = (!words.is_empty()).then(|| words.join("; "));
        let mut record = record::live(kit, handle.id())?;
        handle.visit(0..u64::MAX, &mut |entry| {
            record.apply(Arc::new(entry));
            true
        })?;
        Ok(Opened { updates: handle.subscribe(record.next()), record, first, note })
    }
}

/// Opens a new session for a task.
pub(super) async fn begin(
    kit: &SessionOptions,
    model: Option<ModelName>,
    company: &Company,
    (front, first): (&Front, Command),
) -> Result<Opened, Failure> {
    let model = match kit.named_model().cloned().or(model) {
        Some(model) => model,
        None => kit.config.choose_model().await?.0,
    };
    let (config, changes) = (kit.config_for(company)?, kit.changes_for(company));
    let handle = front.host.open((&config, &model), &changes, front.who()).await?;
    Opened::of(kit, &handle, Some(first), None)
}

/// Takes a session up: for a task, which one with an open turn is told instead; or only to go on.
pub(super) async fn resume(
    kit: &SessionOptions,
    id: &str,
    (company, found): (&Company, Option<ModelName>),
    (front, first): (&Front, Option<Command>),
) -> Result<Opened, Failure> {
    let root = front.host.folder_of(id, kit.config.workspace(), &front.asker).await?;
    let config = kit.config_of(id, root.as_deref())?;
    let mut changes = host::Changes { root, ..kit.changes_for(company) };
    if first.is_some() && kit.sessions().is_over_demo(id)? {
        changes.model = Some(model_after_demo(&kit.config, changes.model.take().or(found)).await?);
    }
    let handle = front.host.resume((&config, id), &changes, front.who()).await?;
    let first = match first {
        Some(Command::Prompt { text, .. }) if handle.has_open_turn() => Some(handle.said(text, None, PERSON)),
        first => first,
    };
    Opened::of(kit, &handle, first, None)
}

/// Gives a task to a session that runs here and has no open turn.
pub(super) async fn give(
    kit: &SessionOptions,
    handle: &Handle,
    (company, found): (&Company, Option<ModelName>),
    task: Command,
) -> Result<(), Failure> {
    let mut changes = kit.changes_for(company);
    let models = handle.spec().await.map(|spec| spec.models).unwrap_or_default();
    if models.first().is_some_and(|model| host::is_demo(&kit.config, &model.name)) {
        changes.model = Some(model_after_demo(&kit.config, changes.model.take().or(found)).await?);
    }
    handle.prompt(&kit.config_at(handle.workspace())?, &changes, task).await?;
    Ok(())
}

/// Copies a session with its files; runs nothing in the copy. Gives it with what to tell.
pub(super) async fn fork(
    kit: &SessionOptions,
    session: String,
    at: Option<u64>,
    front: &Front,
) -> Result<(Seen, String), Failure> {
    let (config, changes) = kit.for_copy(&session)?;
    let plan = ForkPlan { session, at, changes, instead: None, goes_on: false };
    let copy = front.host.fork(&config, &plan, front.who()).await?;
    let (id, lacks, told) = (copy.id.clone(), copy.lacks.clone(), copy.notes.clone());
    copy.record().await?;
    let place = at.map_or(String::new(), |seq| format!(" at e{seq}"));
    let note = format!("forked{place}; the workspace is a copy of its own");
    let words: Vec<String> = told.into_iter().chain([note]).chain(lacks).collect();
    Ok((record::look(kit, &id)?, words.join("; ")))
}

/// Opens a demo and gives its task.
pub(super) async fn demo(
    kit: &SessionOptions,
    demo: &Demo,
    (root, is_going): (&Path, bool),
    front: &Front,
) -> Result<Opened, Failure> {
    let mut overrides = kit.overrides.clone();
    overrides.retain(|set| set.key != ["model"] && set.key != ["persona"]);
    let config = Config::load(kit.environment.clone(), root, &overrides)?;
    let (model, changes) = demo.changes()?;
    let changes = host::Changes { rules: kit.changes.rules.clone(), ..changes };
    let handle = front.host.open((&config, &model), &changes, front.who()).await?;
    let until = if is_going { ", which goes when you leave" } else { "" };
    let note = Some(format!("the demo works in {}{until}", root.display()));
    Opened::of(kit, &handle, Some(demo.task()), note)
}

/// The rows of the list of sessions.
pub(super) fn list(kit: &SessionOptions) -> Result<Vec<SessionRow>, Failure> {
    let sessions = kit.sessions();
    let row = |summary: SessionSummary| SessionRow {
        state: summary.standing.words(),
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

/// A command that gives a task.
pub(super) fn task(text: String, company: &Company) -> Result<Command, Failure> {
    plan::prompt("run", &text, None)?;
    Ok(host::task(text, company.mode.clone(), None)?)
}

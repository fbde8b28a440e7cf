//! The desk behind the screen: one session at a time, live or only looked at, and the work the screen asks for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::{FutureExt, LocalBoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::arena::{Arena, Ending};
use crate::cli::args::DemoKind;
use crate::cli::error::Failure;
use crate::cli::plain;
use crate::cli::run::{config_for, demo_folder, demo_of_debate, prompt};
use crate::config::{Config, ConfigError, Environment, ModelName};
use crate::library::demo;
use crate::ports::Subscription;
use crate::projection::{Board, Costs};
use crate::protocol::spec::{Mode, Policy};
use crate::protocol::{ArenaEvent, Choice, Command, Entry, StopCause};
use crate::tui::screen::Desk;
use crate::tui::{Act, Msg, Profile, SessionRow, Theme, Trouble};
use crate::wiring::sessions::Read;
use crate::wiring::{self, Changes, ForkPlan, Request, Running, Sessions};

/// Files of the workspace that completion knows at most.
const MOST_FILES: usize = 20_000;

/// Pieces of news that are taken at once.
const AT_ONCE: usize = 512;

/// How long a session that is left may take to end what it runs.
const PARTING: std::time::Duration = std::time::Duration::from_secs(8);

/// A session that runs here.
struct Live {
    arena: Arc<Arena>,
    news: Subscription,
    /// Position of the entry to come.
    next: u64,
}

/// The desk.
pub(super) struct Mission {
    config: Config,
    environment: Environment,
    policy: Policy,
    by: String,
    theme: Theme,
    pub is_calm: bool,
    pub is_record: bool,
    pub says_yes: bool,
    pub model_is_wanted: bool,
    pub changes: Changes,
    found: Option<Result<(ModelName, Option<String>), ConfigError>>,
    live: Option<Live>,
    /// The session that is shown; it runs here or not.
    id: Option<String>,
    /// What was shown of it, for the summary at the end.
    board: Board,
    costs: Costs,
    pending: FuturesUnordered<LocalBoxFuture<'static, Vec<Msg>>>,
}

impl Mission {
    pub fn new(config: Config, environment: Environment, policy: Policy, by: String, theme: Theme) -> Self {
        Mission {
            config,
            environment,
            policy,
            by,
            theme,
            is_calm: false,
            is_record: false,
            says_yes: false,
            model_is_wanted: false,
            changes: Changes::default(),
            found: None,
            live: None,
            id: None,
            board: Board::default(),
            costs: Costs::default(),
            pending: FuturesUnordered::new(),
        }
    }

    /// What the screen should know. A model that has to be looked for comes with the news.
    pub fn profile(&self) -> Profile {
        let mut profile = Profile {
            program: crate::arena::PROGRAM.to_owned(),
            workspace: homely(&self.environment, self.config.workspace()),
            by: self.by.clone(),
            is_record: self.is_record,
            theme: self.theme,
            is_calm: self.is_calm,
            ..Profile::default()
        };
        match &self.found {
            None => profile.model = Some("looking for one…".to_owned()),
            Some(Ok((name, why))) => {
                (profile.model, profile.why) = (Some(name.to_string()), why.clone());
            }
            Some(Err(error)) => profile.trouble = Some(trouble(error)),
        }
        profile
    }

    /// The newest session of this workspace.
    pub fn newest_here(&self) -> Result<String, Failure> {
        newest(&Sessions::of(&self.config), self.config.workspace())
    }

    /// Looks at a recorded session.
    pub fn open(&mut self, name: &str) -> Result<Vec<Msg>, Failure> {
        let read = Sessions::of(&self.config).read(name)?;
        Ok(self.show(read))
    }

    /// Shows what was read of a session.
    pub fn show(&mut self, read: Read) -> Vec<Msg> {
        self.live = None;
        self.id = Some(read.id);
        self.forget();
        read.entries.iter().for_each(|entry| self.fold(entry));
        let mut news = vec![Msg::Session { entries: read.entries, is_live: false }];
        news.extend(read.fault.map(|fault| Msg::Log(fault.to_string())));
        news
    }

    /// Opens the demo and gives its task.
    pub async fn demo(&mut self, show: DemoKind, folder: Option<&Path>) -> Result<Vec<Msg>, Failure> {
        let (story, mode, debate) = match show {
            DemoKind::Debate => demo_of_debate(),
            DemoKind::Run | DemoKind::Squad => (&demo::RUN, Mode::Solo, None),
        };
        let root = demo_folder(story, folder)?;
        let config = Config::load(self.environment.clone(), &root, &[])?;
        let model: ModelName = demo::MODEL.parse().map_err(ConfigError::from)?;
        let request = Request { model, model_is_wanted: true, policy: config.policy(), squad: None, debate };
        let running = wiring::open(&config, &request, true).await?;
        let mut news = self.take(running)?;
        news.push(Msg::Log(format!("the demo works in {}", root.display())));
        self.submit(prompt(story.prompt.trim_end().to_owned(), mode, None)?);
        Ok(news)
    }

    /// Leaves what runs, and tells how it stands.
    pub async fn close(&mut self) -> String {
        self.leave().await;
        if self.board.seq.is_none() {
            return String::new();
        }
        let mut text = plain::ending(&self.board, &self.costs, None, None);
        if let Some(id) = &self.id
            && !self.is_record
        {
            text.push_str(&format!("go on    agon --continue, or agon run --resume {id} \"...\"\n"));
        }
        text
    }

    /// Takes a session that was opened; what was recorded before is shown first.
    fn take(&mut self, running: Running) -> Result<Vec<Msg>, Failure> {
        let Running { arena, id, .. } = running;
        self.forget();
        self.id = Some(id);
        let news = arena.subscribe();
        let mut live = Live { arena: Arc::new(arena), news, next: 0 };
        let entries = read_on(&mut live)?;
        entries.iter().for_each(|entry| self.fold(entry));
        self.live = Some(live);
        self.answer(&entries);
        Ok(vec![Msg::Session { entries, is_live: true }])
    }

    fn forget(&mut self) {
        (self.board, self.costs) = (Board::default(), Costs::default());
    }

    fn fold(&mut self, entry: &Entry) {
        self.board.apply(entry);
        self.costs.apply(entry);
    }

    /// Ends what runs here: finished when nothing does, else stopped.
    async fn leave(&mut self) {
        let Some(live) = self.live.take() else { return };
        let is_open = self.board.turn > 0 && self.board.cause.is_none();
        let cause = if is_open { StopCause::Quit } else { StopCause::Finished };
        // A session that ended meanwhile needs no stop.
        let _ = live.arena.submit(Command::Stop { cause }).await;
        if tokio::time::timeout(PARTING, live.arena.ended()).await.is_err() {
            live.arena.stop_hard().await;
        }
        let mut live = live;
        for entry in read_on(&mut live).unwrap_or_default() {
            self.fold(&entry);
        }
    }

    /// Hands a command over; a refusal comes with the news.
    fn submit(&mut self, command: Command) {
        let Some(live) = &self.live else { return };
        let arena = Arc::clone(&live.arena);
        self.pending.push(Box::pin(async move {
            match arena.submit(command).await {
                Ok(_) => Vec::new(),
                Err(error) => vec![Msg::Log(error.to_string())],
            }
        }));
    }

    /// With `--yes`, answers what was asked.
    fn answer(&mut self, entries: &[Arc<Entry>]) {
        if !self.says_yes {
            return;
        }
        let asks: Vec<(crate::protocol::CallId, String)> = entries
            .iter()
            .flat_map(|entry| entry.effective())
            .filter_map(|(_, event)| match event {
                ArenaEvent::ApprovalRequested(ask) => Some((ask.call, ask.digest.clone())),
                _ => None,
            })
            .filter(|(call, _)| self.board.approvals.iter().any(|open| open.call == *call))
            .collect();
        for (call, digest) in asks {
            self.submit(Command::Answer { call, digest, choice: Choice::Once, by: "--yes".to_owned() });
        }
    }

    /// Gives a task: to what runs, to what is shown, or to a new session.
    async fn prompt(&mut self, text: String) -> Result<Vec<Msg>, Failure> {
        let mut news = Vec::new();
        if self.live.is_none() {
            let running = match self.id.clone() {
                Some(id) => self.resume(&id).await?,
                None => self.begin().await?,
            };
            let has_open_turn = running.has_open_turn;
            news = self.take(running)?;
            if has_open_turn {
                self.submit(Command::Steer { spark: None, text });
                return Ok(news);
            }
        }
        self.submit(prompt(text, Mode::Solo, None)?);
        Ok(news)
    }

    async fn begin(&mut self) -> Result<Running, Failure> {
        let model = match (&self.changes.model, &self.found) {
            (Some(model), _) | (None, Some(Ok((model, _)))) => model.clone(),
            (None, _) => self.config.choose_model().await?.0,
        };
        let (model_is_wanted, policy) = (self.model_is_wanted, self.policy.clone());
        let request = Request { model, model_is_wanted, policy, squad: None, debate: None };
        Ok(wiring::open(&self.config, &request, true).await?)
    }

    async fn resume(&mut self, id: &str) -> Result<Running, Failure> {
        let config = config_for(id, self.environment.clone(), &[])?;
        Ok(wiring::resume(&config, id, &self.changes, true).await?)
    }

    async fn fork(&mut self, seq: u64) -> Result<Vec<Msg>, Failure> {
        let Some(session) = self.id.clone() else { return Ok(Vec::new()) };
        let config = config_for(&session, self.environment.clone(), &[])?;
        let plan = ForkPlan { session, at: Some(seq), changes: self.changes.clone() };
        let running = wiring::fork(&config, &plan, true).await?;
        self.leave().await;
        self.is_record = false;
        let mut news = self.take(running)?;
        news.insert(0, Msg::Profile(self.profile()));
        news.push(Msg::Log(format!("forked at e{seq}; the workspace is a copy of its own")));
        Ok(news)
    }

    /// Uses another model from the next task on: what runs is put down and taken up with it.
    async fn model(&mut self, name: &str) -> Result<Vec<Msg>, Failure> {
        if self.live.is_some() && self.board.turn > 0 && self.board.cause.is_none() {
            return Ok(vec![Msg::Log("the model can be changed once this turn is over".to_owned())]);
        }
        let name: ModelName = name.parse().map_err(ConfigError::from)?;
        self.config.model_spec(&name)?;
        self.leave().await;
        self.changes.model = Some(name.clone());
        self.model_is_wanted = true;
        self.found = Some(Ok((name.clone(), None)));
        Ok(vec![Msg::Ended, Msg::Profile(self.profile()), Msg::Log(format!("the next task goes to {name}"))])
    }

    fn list(&self) -> Result<Vec<Msg>, Failure> {
        let rows = Sessions::of(&self.config).list()?;
        let row = |summary: crate::wiring::sessions::SessionSummary| SessionRow {
            id: summary.id,
            prompt: summary.prompt.unwrap_or_default(),
            workspace: summary.workspace.unwrap_or_default(),
            entries: summary.entries,
            newest_at: summary.newest_at,
            fault: summary.fault,
        };
        Ok(vec![Msg::Sessions(rows.into_iter().map(row).collect())])
    }

    fn remove(&mut self, id: &str) -> Result<Vec<Msg>, Failure> {
        if self.id.as_deref() == Some(id) {
            return Ok(vec![Msg::Log("this session is on the screen; /new leaves it".to_owned())]);
        }
        Sessions::of(&self.config).remove(id)?;
        self.list()
    }

    fn files(&mut self) {
        let root: PathBuf = self.config.workspace().to_owned();
        let read = tokio::task::spawn_blocking(move || files(&root));
        self.pending.push(Box::pin(async move { vec![Msg::Files(read.await.unwrap_or_default())] }));
    }

    async fn try_perform(&mut self, act: Act) -> Result<Vec<Msg>, Failure> {
        match act {
            Act::Prompt(text) => self.prompt(text).await,
            Act::Submit(command) => {
                self.submit(command);
                Ok(Vec::new())
            }
            Act::New => {
                self.leave().await;
                self.id = None;
                self.forget();
                Ok(vec![Msg::Session { entries: Vec::new(), is_live: false }])
            }
            Act::Open(name) => {
                let read = Sessions::of(&self.config).read(&name)?;
                self.leave().await;
                Ok(self.show(read))
            }
            Act::Remove(id) => self.remove(&id),
            Act::List => self.list(),
            Act::Files => {
                self.files();
                Ok(Vec::new())
            }
            Act::Fork(seq) => self.fork(seq).await,
            Act::Model(name) => self.model(&name).await,
            Act::Demo => {
                self.leave().await;
                self.demo(DemoKind::Run, None).await
            }
            // These are the screen's own.
            Act::Copy(_) | Act::Bell | Act::Redraw | Act::Suspend | Act::Quit => Ok(Vec::new()),
        }
    }

    /// What the bus told of is read from the log, so nothing is missed.
    fn catch_up(&mut self) -> Vec<Msg> {
        let Some(live) = &mut self.live else { return Vec::new() };
        match read_on(live) {
            Ok(entries) => {
                entries.iter().for_each(|entry| self.fold(entry));
                self.answer(&entries);
                entries.into_iter().map(Msg::Entry).collect()
            }
            Err(failure) => vec![Msg::Log(failure.text())],
        }
    }

    fn ended(&mut self, ending: &Ending) -> Vec<Msg> {
        let mut news = self.catch_up();
        self.live = None;
        news.push(Msg::Ended);
        if let Ending::Failed(error) = ending {
            news.push(Msg::Log(format!("the log cannot be written any more: {error}")));
        }
        news
    }
}

impl Desk for Mission {
    async fn news(&mut self) -> Vec<Msg> {
        if self.found.is_none() && !self.is_record {
            self.found = Some(self.config.choose_model().await);
            return vec![Msg::Profile(self.profile())];
        }
        let Some(live) = &mut self.live else {
            return match self.pending.next().await {
                Some(news) => news,
                None => std::future::pending().await,
            };
        };
        enum Woke {
            Entry,
            News(Vec<Msg>),
            End(Ending),
        }
        let arena = Arc::clone(&live.arena);
        let woke = tokio::select! {
            biased;
            Some(news) = self.pending.next() => Woke::News(news),
            Some(_) = live.news.entries.next() => Woke::Entry,
            Some(signal) = live.news.signals.next() => {
                let mut news = vec![Msg::Signal(signal)];
                while news.len() < AT_ONCE
                    && let Some(Some(signal)) = live.news.signals.next().now_or_never()
                {
                    news.push(Msg::Signal(signal));
                }
                Woke::News(news)
            }
            ending = arena.ended() => Woke::End(ending),
        };
        match woke {
            Woke::News(news) => news,
            Woke::Entry => {
                while let Some(Some(_)) = live.news.entries.next().now_or_never() {}
                self.catch_up()
            }
            Woke::End(ending) => self.ended(&ending),
        }
    }

    async fn perform(&mut self, act: Act) -> Vec<Msg> {
        match self.try_perform(act).await {
            Ok(news) => news,
            Err(failure) => {
                let hint = failure.hints.first().map(|hint| format!(" ({hint})")).unwrap_or_default();
                vec![Msg::Log(format!("{}{hint}", failure.error))]
            }
        }
    }
}

/// The entries that are new in the log.
fn read_on(live: &mut Live) -> Result<Vec<Arc<Entry>>, Failure> {
    let mut entries = Vec::new();
    for line in live.arena.log().lines(live.next)? {
        entries.push(Arc::new(serde_json::from_slice::<Entry>(&line)?));
        live.next += 1;
    }
    Ok(entries)
}

/// The newest session of a workspace.
pub(super) fn newest(sessions: &Sessions, workspace: &Path) -> Result<String, Failure> {
    let here = |root: &Option<String>| root.as_deref().is_some_and(|root| Path::new(root) == workspace);
    let found = sessions.list()?.into_iter().find(|summary| here(&summary.workspace));
    found.map(|summary| summary.id).ok_or_else(|| {
        Failure::usage(format!("there is no session of `{}` to go on with", workspace.display())).hint("agon")
    })
}

fn trouble(error: &ConfigError) -> Trouble {
    let hints = error.hint().into_iter().collect();
    Trouble { what: error.to_string(), hints }
}

/// A path with the home folder as `~`.
fn homely(environment: &Environment, path: &Path) -> String {
    let home = environment.get("HOME").filter(|home| !home.is_empty());
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

/// Files of a workspace, without what is ignored there.
fn files(root: &Path) -> Vec<String> {
    let walk = ignore::WalkBuilder::new(root).build().filter_map(Result::ok);
    let is_file = |entry: &ignore::DirEntry| entry.file_type().is_some_and(|kind| kind.is_file());
    let name =
        |entry: ignore::DirEntry| entry.path().strip_prefix(root).ok().map(|path| path.display().to_string());
    let mut files: Vec<String> = walk.filter(is_file).filter_map(name).take(MOST_FILES).collect();
    files.sort();
    files
}

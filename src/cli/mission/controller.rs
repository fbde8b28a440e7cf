//! The desk behind the screen: one session at a time, live or only looked at, and the work the screen asks for.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{FutureExt, LocalBoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cli::args::DemoKind;
use crate::cli::error::Failure;
use crate::cli::run::demo_of;
use crate::cli::sessions;
use crate::config::{ConfigError, ModelName, SandboxKind};
use crate::host::{Answers, Consented, DemoFolder, Ending, Follow, Host, Update, Updates};
use crate::protocol::{Command, Entry};
use crate::tui::screen::Desk;
use crate::tui::{Act, Msg, Profile, Theme};

use super::consent_prompt::{Asked, Asker};
use super::editor;
use super::record::{self, PACE, Seen};
use super::session_ops::{self, Front, Opened};
use super::session_options::SessionOptions;
use super::text::{homely, in_words, trouble};

/// Pieces of news that are taken at once.
const AT_ONCE: usize = 512;

/// How long leaving the screen waits for what it cut off.
const PATIENCE: Duration = Duration::from_secs(10);

/// What came of work that was begun.
pub(super) enum Done {
    News(Vec<Msg>),
    Found(Found),
    Opened(Box<Opened>),
    Seen(Box<Seen>),
    /// A copy was made; it is shown, and nothing runs in it.
    Copied(Box<Seen>, String),
    Counted(Box<Seen>),
    /// It failed; what was written for it goes back.
    Failed(Failure, Option<String>),
}

type Found = Result<(ModelName, Option<String>), ConfigError>;

/// The desk.
pub(super) struct Mission {
    pub(super) kit: Arc<SessionOptions>,
    /// What this program was started with.
    pub(super) first: Arc<SessionOptions>,
    by: String,
    theme: Theme,
    pub is_calm: bool,
    pub is_record: bool,
    pub(super) found: Option<Found>,
    is_looking: bool,
    pub(super) live: Option<Updates>,
    /// The session that is shown; it runs here or not.
    pub(super) id: Option<String>,
    /// Small things under way: commands, lists.
    pub(super) pending: FuturesUnordered<LocalBoxFuture<'static, Done>>,
    /// A session that is being opened, copied or read.
    opening: Option<LocalBoxFuture<'static, Done>>,
    /// Tells the counting of a long session that nobody wants it any more.
    counting: Option<Arc<AtomicBool>>,
    /// The session on the screen, while another process writes it.
    following: Option<Follow>,
    /// Opens sessions, and takes questions of what is being opened to the screen.
    pub(super) front: Front,
    asked: mpsc::UnboundedReceiver<Asked>,
    /// Where the answer goes to the question that is on the screen.
    pub(super) question: Option<oneshot::Sender<Consented>>,
    /// Ends what is being opened, copied or read, once the screen is left.
    stop: CancellationToken,
    /// Sessions that are being left.
    leaving: Vec<JoinHandle<Vec<Arc<Entry>>>>,
    /// The projects of demos.
    demos: Vec<DemoFolder>,
}

impl Mission {
    pub fn new(kit: Arc<SessionOptions>, by: String, theme: Theme, answers: Answers) -> Self {
        let (asker, asked) = Asker::of(&by, kit.config.workspace());
        let host = Host::at(kit.config.places());
        Mission {
            front: Front { host, asker, answers },
            asked,
            question: None,
            first: Arc::clone(&kit),
            kit,
            by,
            theme,
            is_calm: false,
            is_record: false,
            found: None,
            is_looking: false,
            live: None,
            id: None,
            pending: FuturesUnordered::new(),
            opening: None,
            counting: None,
            following: None,
            stop: CancellationToken::new(),
            leaving: Vec::new(),
            demos: Vec::new(),
        }
    }

    /// What the screen should know. A model that has to be looked for comes with the news.
    pub fn profile(&self) -> Profile {
        let named = self.kit.named_model();
        let mut profile = Profile {
            program: crate::host::PROGRAM.to_owned(),
            workspace: homely(&self.kit.environment, self.kit.config.workspace()),
            root: self.kit.config.workspace().display().to_string(),
            by: self.by.clone(),
            is_record: self.is_record,
            theme: self.theme,
            is_calm: self.is_calm,
            wanted: named.map(ToString::to_string),
            wanted_sandbox: self.kit.changes.sandbox.and_then(kind),
            wanted_persona: self.kit.changes.persona.clone(),
            wanted_level: self.kit.changes.permission,
            level: self.kit.config.permission(),
            models: self.models(),
            ..Profile::default()
        };
        match (named, &self.found) {
            (Some(name), _) => profile.model = Some(name.to_string()),
            (None, None) => profile.model = Some("looking for one…".to_owned()),
            (None, Some(Ok((name, why)))) => {
                (profile.model, profile.why) = (Some(name.to_string()), why.clone());
            }
            (None, Some(Err(error))) => profile.trouble = Some(trouble(error)),
        }
        profile
    }

    /// Models that can be named: those found and written down, and the beginning of every other of a provider.
    fn models(&self) -> Vec<String> {
        let file = self.kit.config.file();
        let found =
            self.found.as_ref().and_then(|found| found.as_ref().ok()).map(|(name, _)| name.to_string());
        let mut all: Vec<String> = file.model.iter().cloned().chain(found).collect();
        all.extend(file.models.keys().cloned());
        all.extend(file.providers.keys().map(|provider| format!("{provider}/")));
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|name| seen.insert(name.clone()));
        all
    }

    /// The folder that is worked in.
    pub fn folder(&self) -> PathBuf {
        self.kit.config.workspace().to_owned()
    }

    /// The newest session of this workspace.
    pub fn newest_here(&self) -> Result<String, Failure> {
        sessions::newest(&self.front.host, self.kit.config.workspace())
    }

    /// Begins with a recorded session.
    pub fn open(&mut self, name: String) -> Vec<Msg> {
        let kit = Arc::clone(&self.kit);
        self.begin(
            "opening…",
            None,
            move || async move { Ok(Done::Seen(Box::new(record::look(&kit, &name)?))) },
        )
    }

    /// Begins with a demo.
    pub fn demo(&mut self, show: DemoKind, folder: Option<PathBuf>) -> Vec<Msg> {
        let (kit, front, demo) = (Arc::clone(&self.kit), self.front.clone(), demo_of(show));
        let folder = match demo.folder(folder.as_deref()) {
            Ok(folder) => folder,
            Err(error) => return vec![Msg::Log(error.to_string())],
        };
        let (root, is_going) = (folder.root.clone(), folder.is_temporary());
        self.demos.push(folder);
        self.begin("opening…", None, move || async move {
            Ok(Done::Opened(Box::new(session_ops::demo(&kit, &demo, (&root, is_going), &front).await?)))
        })
    }

    /// True for the folder of a demo that goes with this screen; it stays where the demo is not over.
    pub fn is_going(&mut self, workspace: &str, is_open: bool) -> bool {
        let mut of = self.demos.iter_mut().filter(|demo| demo.root == std::path::Path::new(workspace));
        if is_open {
            of.by_ref().for_each(DemoFolder::keep);
        }
        of.any(|demo| demo.is_temporary())
    }

    /// Leaves what runs; gives what was recorded meanwhile of the session that is shown, and its id.
    pub async fn close(&mut self) -> (Vec<Arc<Entry>>, Option<String>) {
        self.stop.cancel();
        if let Some(opening) = self.opening.take()
            && let Ok(Done::Opened(opened)) = tokio::time::timeout(PATIENCE, opening).await
        {
            opened.updates.leave().await;
        }
        let last = match self.live.take() {
            Some(live) => live.leave().await,
            None => Vec::new(),
        };
        for left in std::mem::take(&mut self.leaving) {
            // A session that could not be left in peace is taken up like one that was cut off.
            let _ = left.await;
        }
        (last, self.id.clone())
    }

    /// Begins a longer piece of work apart from the screen; one at a time.
    pub(super) fn begin<F, W>(&mut self, busy: &str, written: Option<String>, work: W) -> Vec<Msg>
    where
        F: Future<Output = Result<Done, Failure>>,
        W: FnOnce() -> F + Send + 'static,
    {
        if self.opening.is_some() {
            let why = "another session is being opened".to_owned();
            return vec![written.map_or(Msg::Log(why.clone()), |text| Msg::Refused { text, why })];
        }
        let leaving = std::mem::take(&mut self.leaving);
        let stop = self.stop.clone();
        let work = move || async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => Err(Failure::usage("agon was left")),
                done = work() => done,
            }
        };
        self.opening = Some(Box::pin(async move {
            for left in leaving {
                // What it left is read from its log.
                let _ = left.await;
            }
            session_ops::apart(work).await.unwrap_or_else(|failure| Done::Failed(failure, written))
        }));
        vec![Msg::Busy(Some(busy.to_owned()))]
    }

    /// Leaves what runs without waiting for it.
    pub(super) fn leave(&mut self) {
        self.following = None;
        if let Some(stop) = self.counting.take() {
            stop.store(true, Ordering::Relaxed);
        }
        if let Some(live) = self.live.take() {
            let runtime = tokio::runtime::Handle::current();
            self.leaving.push(tokio::task::spawn_blocking(move || runtime.block_on(live.leave())));
        }
    }

    fn take(&mut self, opened: Opened) -> Vec<Msg> {
        let Opened { updates, record, first, note } = opened;
        self.leave();
        self.is_record = false;
        self.id = Some(updates.handle().id().to_owned());
        self.live = Some(updates);
        let mut news = vec![Msg::Profile(Box::new(self.profile()))];
        news.push(Msg::SessionView { record: Box::new(record), is_live: true, is_elsewhere: false });
        news.extend(note.map(Msg::Log));
        if let Some(first) = first {
            self.submit(first, None);
        }
        news
    }

    /// Shows what was read; of a long session the rest is counted meanwhile.
    fn show(&mut self, seen: Seen) -> Vec<Msg> {
        self.leave();
        self.id = Some(seen.id.clone());
        if seen.record.is_counting() {
            let (kit, id, stop) = (Arc::clone(&self.kit), seen.id.clone(), Arc::new(AtomicBool::new(false)));
            self.counting = Some(Arc::clone(&stop));
            self.pending.push(Box::pin(async move {
                let counted =
                    session_ops::apart(move || async move { record::whole(&kit, &id, &stop) }).await;
                counted
                    .map_or_else(|failure| Done::Failed(failure, None), |seen| Done::Counted(Box::new(seen)))
            }));
        }
        self.show_record(seen)
    }

    fn show_record(&mut self, seen: Seen) -> Vec<Msg> {
        if seen.is_elsewhere {
            self.following = self.front.host.follow(&seen.id, seen.record.next()).ok();
        }
        let is_elsewhere = seen.is_elsewhere;
        let mut news = vec![Msg::SessionView { record: Box::new(seen.record), is_live: false, is_elsewhere }];
        if is_elsewhere {
            news.push(Msg::Log("another agon has this session open; what it does is shown".to_owned()));
        }
        news.extend(seen.fault.map(Msg::Fault));
        news
    }

    /// Hands a command over; a refusal comes with the news, and what was written goes back.
    pub(super) fn submit(&mut self, command: Command, written: Option<String>) {
        let Some(live) = &self.live else { return };
        let handle = live.handle().clone();
        self.pending.push(Box::pin(async move {
            match (handle.command(command).await, written) {
                (Ok(_), _) => Done::News(Vec::new()),
                (Err(error), Some(text)) => Done::News(vec![Msg::Refused { text, why: error.to_string() }]),
                (Err(error), None) => Done::News(vec![Msg::Log(error.to_string())]),
            }
        }));
    }

    fn done(&mut self, done: Done) -> Vec<Msg> {
        let failed = |failure: &Failure, written| match written {
            Some(text) => Msg::Refused { text, why: in_words(failure) },
            None => Msg::Log(in_words(failure)),
        };
        match done {
            Done::News(news) => news,
            Done::Found(found) => {
                self.found = Some(found);
                vec![Msg::Profile(Box::new(self.profile()))]
            }
            Done::Seen(seen) => self.show(*seen),
            Done::Copied(seen, note) => {
                self.is_record = false;
                let mut news = vec![Msg::Profile(Box::new(self.profile()))];
                news.extend(self.show(*seen));
                news.push(Msg::Log(note));
                news
            }
            Done::Counted(seen) if self.id.as_ref() == Some(&seen.id) && self.live.is_none() => {
                self.show_record(*seen)
            }
            Done::Counted(_) => Vec::new(),
            Done::Opened(opened) => self.take(*opened),
            Done::Failed(failure, written) => vec![failed(&failure, written)],
        }
    }

    /// What another process has added.
    fn follow(&mut self) -> Vec<Msg> {
        let Some(following) = &mut self.following else { return Vec::new() };
        let (entries, goes_on) = following.read_on();
        let mut news: Vec<Msg> = entries.into_iter().map(Msg::Entry).collect();
        if !goes_on {
            self.following = None;
            news.push(Msg::Ended);
        }
        news
    }

    /// News of the session that runs here.
    fn heard(&mut self, update: io::Result<Update>) -> Vec<Msg> {
        match update {
            Ok(Update::Entries(entries)) => entries.into_iter().map(Msg::Entry).collect(),
            Ok(Update::Signal(signal)) => vec![Msg::Signal(signal)],
            Ok(Update::NotTaken(words)) => vec![Msg::Log(words)],
            Ok(Update::Ended(ending)) => {
                self.live = None;
                let told = match ending {
                    Ending::Failed(error) => Some(format!("the log cannot be written any more: {error}")),
                    _ => None,
                };
                [Msg::Ended].into_iter().chain(told.map(Msg::Log)).collect()
            }
            Err(error) => vec![Msg::Log(Failure::from(error).text())],
        }
    }
}

/// The sandbox that is wanted by name; which one `auto` comes to is found when it is opened.
fn kind(wanted: SandboxKind) -> Option<String> {
    (wanted != SandboxKind::Auto).then(|| wanted.word().to_owned())
}

/// What woke the desk.
enum Woke {
    Done(Done),
    Opened(Done),
    Update(io::Result<Update>),
    Elsewhere,
    Question(Asked),
}

impl Mission {
    /// Looks for a model once, when none is named.
    fn look(&mut self) {
        if !self.is_looking && !self.is_record && self.kit.named_model().is_none() {
            self.is_looking = true;
            let kit = Arc::clone(&self.kit);
            self.pending.push(Box::pin(async move { Done::Found(kit.config.choose_model().await) }));
        }
    }

    async fn wait(&mut self) -> Woke {
        self.look();
        let Mission { live, pending, opening, following, asked, .. } = self;
        let update = async {
            match live {
                Some(live) => live.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(done) = pending.next() => Woke::Done(done),
            Some(question) = asked.recv() => Woke::Question(question),
            done = waited(opening.as_mut()) => Woke::Opened(done),
            update = update => Woke::Update(update),
            () = tokio::time::sleep(PACE), if following.is_some() => Woke::Elsewhere,
        }
    }
}

/// Waits for something that may not be there: then for ever.
async fn waited<F: Future + Unpin>(what: Option<F>) -> F::Output {
    match what {
        Some(what) => what.await,
        None => std::future::pending().await,
    }
}

impl Desk for Mission {
    async fn news(&mut self) -> Vec<Msg> {
        match self.wait().await {
            Woke::Done(done) => self.done(done),
            Woke::Opened(done) => {
                self.opening = None;
                let mut news = vec![Msg::Busy(None)];
                news.extend(self.done(done));
                news
            }
            Woke::Update(update) => {
                let mut news = self.heard(update);
                while news.len() < AT_ONCE
                    && let Some(update) = self.live.as_mut().and_then(|live| live.next().now_or_never())
                {
                    news.extend(self.heard(update));
                }
                news
            }
            Woke::Elsewhere => self.follow(),
            Woke::Question(Asked { question, answer }) => {
                self.question = Some(answer);
                vec![Msg::Asked(question)]
            }
        }
    }

    fn edit(&mut self, text: &str) -> Msg {
        match editor::edited(&self.kit.environment, text) {
            Ok(text) => Msg::Edited(text),
            Err(failure) => Msg::Log(in_words(&failure)),
        }
    }

    fn perform(&mut self, act: Act) -> Vec<Msg> {
        self.try_perform(act).unwrap_or_else(|failure| vec![Msg::Log(in_words(&failure))])
    }
}

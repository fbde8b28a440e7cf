//! The desk behind the screen: one session at a time, live or only looked at, and the work the screen asks for.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{FutureExt, LocalBoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::arena::Ending;
use crate::cli::args::DemoKind;
use crate::cli::error::Failure;
use crate::config::{ConfigError, ModelName, SandboxKind};
use crate::projection::Board;
use crate::projection::board::OpenApproval;
use crate::protocol::{ArenaEvent, Choice, Command, Entry};
use crate::tui::screen::Desk;
use crate::tui::{Act, Msg, Profile, Theme};

use super::consent_prompt::{Asked, Asker};
use super::record::{self, Following, PACE, Seen};
use super::session_ops::{self, Live, Opened};
use super::session_options::SessionOptions;
use super::text::{homely, in_words, newest, trouble};

/// Pieces of news that are taken at once.
const AT_ONCE: usize = 512;

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
    pub says_yes: bool,
    pub(super) found: Option<Found>,
    is_looking: bool,
    pub(super) live: Option<Live>,
    /// The session that is shown; it runs here or not.
    pub(super) id: Option<String>,
    /// Small things under way: commands, lists.
    pub(super) pending: FuturesUnordered<LocalBoxFuture<'static, Done>>,
    /// A session that is being opened, copied or read.
    opening: Option<LocalBoxFuture<'static, Done>>,
    /// Tells the counting of a long session that nobody wants it any more.
    counting: Option<Arc<AtomicBool>>,
    /// The session on the screen, while another process writes it.
    following: Option<Following>,
    /// Takes questions of what is being opened to the screen.
    pub(super) asker: Asker,
    asked: mpsc::UnboundedReceiver<Asked>,
    /// Where the answer goes to the question that is on the screen.
    pub(super) question: Option<oneshot::Sender<bool>>,
    /// Sessions that are being left.
    leaving: Vec<JoinHandle<Vec<Arc<Entry>>>>,
}

impl Mission {
    pub fn new(kit: Arc<SessionOptions>, by: String, theme: Theme) -> Self {
        let (asker, asked) = Asker::of(&by);
        Mission {
            asker,
            asked,
            question: None,
            first: Arc::clone(&kit),
            kit,
            by,
            theme,
            is_calm: false,
            is_record: false,
            says_yes: false,
            found: None,
            is_looking: false,
            live: None,
            id: None,
            pending: FuturesUnordered::new(),
            opening: None,
            counting: None,
            following: None,
            leaving: Vec::new(),
        }
    }

    /// What the screen should know. A model that has to be looked for comes with the news.
    pub fn profile(&self) -> Profile {
        let named = self.kit.named_model();
        let mut profile = Profile {
            program: crate::arena::PROGRAM.to_owned(),
            workspace: homely(&self.kit.environment, self.kit.config.workspace()),
            by: self.by.clone(),
            is_record: self.is_record,
            theme: self.theme,
            is_calm: self.is_calm,
            wanted: named.map(ToString::to_string),
            wanted_sandbox: self.kit.changes.sandbox.and_then(kind),
            wanted_persona: self.kit.changes.persona.clone(),
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
        newest(&self.kit.sessions(), self.kit.config.workspace())
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
        let (kit, asker) = (Arc::clone(&self.kit), self.asker.clone());
        self.begin("opening…", None, move || async move {
            Ok(Done::Opened(Box::new(session_ops::demo(&kit, show, folder, &asker).await?)))
        })
    }

    /// Leaves what runs; gives what was recorded meanwhile of the session that is shown, and its id.
    pub async fn close(&mut self) -> (Vec<Arc<Entry>>, Option<String>) {
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
        let Opened { id, live, record, first, note } = opened;
        let asks = record.approvals().to_vec();
        self.leave();
        self.is_record = false;
        self.id = Some(id);
        self.live = Some(live);
        let mut news = vec![Msg::Profile(Box::new(self.profile()))];
        news.push(Msg::SessionView { record: Box::new(record), is_live: true, is_elsewhere: false });
        news.extend(note.map(Msg::Log));
        if let Some(first) = first {
            self.submit(first, None);
        }
        self.answer(asks);
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
            self.following = Following::of(&self.kit, &seen.id, seen.record.next());
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
        let arena = Arc::clone(&live.arena);
        self.pending.push(Box::pin(async move {
            match (arena.submit(command).await, written) {
                (Ok(_), _) => Done::News(Vec::new()),
                (Err(error), Some(text)) => Done::News(vec![Msg::Refused { text, why: error.to_string() }]),
                (Err(error), None) => Done::News(vec![Msg::Log(error.to_string())]),
            }
        }));
    }

    /// With `--yes`, answers what is asked.
    fn answer(&mut self, asks: Vec<OpenApproval>) {
        if !self.says_yes {
            return;
        }
        for OpenApproval { call, digest, .. } in asks {
            let by = "--yes".to_owned();
            self.submit(Command::Answer { call, digest, choice: Choice::Once, by }, None);
        }
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
            Done::Failed(failure, written) => {
                if let Some(live) = self.live.as_mut().filter(|live| !live.is_open) {
                    live.let_go();
                }
                vec![failed(&failure, written)]
            }
        }
    }

    /// What the bus told of is read from the log, so nothing is missed.
    fn catch_up(&mut self) -> Vec<Msg> {
        let Some(live) = &mut self.live else { return Vec::new() };
        match live.read_on() {
            Ok(entries) => {
                let mut is_open = None;
                for (_, event) in entries.iter().flat_map(|entry| entry.effective()) {
                    match event {
                        ArenaEvent::TurnOpened(_) => is_open = Some(true),
                        ArenaEvent::TurnClosed(_) => is_open = Some(false),
                        _ => {}
                    }
                }
                // A short turn opens and closes between two looks, and lets go of the workspace all the same.
                let taken = is_open.map_or(Ok(()), |is_open| live.turned(is_open, &self.kit));
                let mut asked = Board::default();
                entries.iter().for_each(|entry| asked.apply(entry));
                self.answer(asked.approvals);
                let told = taken.err().map(|failure| Msg::Log(in_words(&failure)));
                entries.into_iter().map(Msg::Entry).chain(told).collect()
            }
            Err(failure) => vec![Msg::Log(failure.text())],
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

/// The sandbox that is wanted by name; which one `auto` comes to is found when it is opened.
fn kind(wanted: SandboxKind) -> Option<String> {
    (wanted != SandboxKind::Auto).then(|| wanted.word().to_owned())
}

/// What woke the desk.
enum Woke {
    Done(Done),
    Opened(Done),
    Entry,
    Elsewhere,
    Question(Asked),
    Signals(Vec<Msg>),
    End(Ending),
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
        let arena = live.as_ref().map(|live| Arc::clone(&live.arena));
        let (mut entries, mut signals) = match live {
            Some(live) => (Some(&mut live.news.entries), Some(&mut live.news.signals)),
            None => (None, None),
        };
        tokio::select! {
            biased;
            Some(done) = pending.next() => Woke::Done(done),
            Some(question) = asked.recv() => Woke::Question(question),
            done = waited(opening.as_mut()) => Woke::Opened(done),
            Some(_) = waited(entries.as_mut().map(|entries| entries.next())) => {
                while let Some(Some(_)) = entries.as_mut().and_then(|entries| entries.next().now_or_never()) {}
                Woke::Entry
            }
            Some(signal) = waited(signals.as_mut().map(|signals| signals.next())) => {
                let mut news = vec![Msg::Signal(signal)];
                while news.len() < AT_ONCE
                    && let Some(Some(Some(signal))) = signals.as_mut().map(|all| all.next().now_or_never())
                {
                    news.push(Msg::Signal(signal));
                }
                Woke::Signals(news)
            }
            () = tokio::time::sleep(PACE), if following.is_some() => Woke::Elsewhere,
            ending = waited(arena.as_ref().map(|arena| Box::pin(arena.ended()))) => Woke::End(ending),
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
            Woke::Entry => self.catch_up(),
            Woke::Elsewhere => self.follow(),
            Woke::Question(Asked { question, answer }) => {
                self.question = Some(answer);
                vec![Msg::Asked(question)]
            }
            Woke::Signals(news) => news,
            Woke::End(ending) => self.ended(&ending),
        }
    }

    fn perform(&mut self, act: Act) -> Vec<Msg> {
        self.try_perform(act).unwrap_or_else(|failure| vec![Msg::Log(in_words(&failure))])
    }
}

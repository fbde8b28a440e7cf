//! Recorded sessions as the command line sees them: found by name, listed, read, copied, removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::arena::replay::{Verification, Verifier};
use crate::assembly::{WireError, fork, taken_up};
use crate::config::{Config, Places};
pub use crate::eventlog::SessionSummary;
use crate::eventlog::random_access::RandomAccessLog;
use crate::eventlog::session_status::{self, SessionStatus};
use crate::eventlog::{EntryReader, LogError, SessionPath, SessionStore};
use crate::library::demo;
use crate::ports::Head;
use crate::projection::Board;
use crate::protocol::event::SessionOpened;
use crate::protocol::spec::{Setting, Spec};
use crate::protocol::{ArenaEvent, Entry, EventRef};
use crate::session::Session;
use crate::session::convergence::Scorers;

/// A log that was read to its end, or to where it is damaged.
#[derive(Debug)]
pub struct Read {
    /// The session.
    pub id: String,
    /// Every entry that can be trusted.
    pub entries: Vec<Arc<Entry>>,
    /// Where the chain ends.
    pub head: Head,
    /// Bytes of an entry that was never finished.
    pub unfinished: u64,
    /// What stopped the reading.
    pub fault: Option<LogError>,
}

impl Read {
    /// An event of it.
    pub fn event(&self, at: EventRef) -> Option<&ArenaEvent> {
        self.entries.get(usize::try_from(at.seq).ok()?)?.events.get(usize::from(at.i))
    }

    /// What could be read has been told; what could not be read is an error.
    pub fn whole(self) -> Result<(), WireError> {
        self.fault.map_or(Ok(()), |fault| Err(fault.into()))
    }
}

/// Sessions whose tasks can be recalled: the newest.
const RECALLED: usize = 30;

/// The recorded sessions of a state folder.
pub struct Sessions {
    store: SessionStore,
    state: PathBuf,
}

impl Sessions {
    /// Those of a configuration.
    pub fn of(config: &Config) -> Self {
        Sessions::at(config.places())
    }

    /// Those of a state folder.
    pub fn at(places: &Places) -> Self {
        Sessions { store: SessionStore::new(places.state.clone()), state: places.state.clone() }
    }

    /// The state folder.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Every session, newest entry first. Only the ends of each log are looked at, and nothing is written.
    pub fn list(&self) -> Result<Vec<SessionSummary>, WireError> {
        Ok(self.store.list()?)
    }

    /// The same with the chain of every log checked, so that damage in its middle shows.
    pub fn list_checked(&self) -> Result<Vec<SessionSummary>, WireError> {
        Ok(self.store.list_checked()?)
    }

    /// Those whose log has this text somewhere, newest entry first.
    pub fn list_with(&self, text: &[u8]) -> Result<Vec<SessionSummary>, WireError> {
        Ok(self.store.list_with(text)?)
    }

    /// The newest session that began in a workspace, or works in it as a copy.
    pub fn newest_in(&self, workspace: &Path) -> Result<Option<String>, WireError> {
        let here =
            |row: &SessionSummary| row.workspace.as_ref().is_some_and(|root| Path::new(root) == workspace);
        Ok(self.store.newest(&here)?.map(|found| found.id))
    }

    /// The same, or a fork of one that works there.
    pub fn newest_for(&self, workspace: &Path) -> Result<Option<String>, WireError> {
        let works_here = |row: &SessionSummary| {
            let is_parent =
                |(parent, _): &(String, u64)| self.home(parent).is_ok_and(|root| root == workspace);
            let here = row.workspace.as_ref().is_some_and(|root| Path::new(root) == workspace);
            here || row.parent.as_ref().is_some_and(is_parent)
        };
        Ok(self.store.newest(&works_here)?.map(|found| found.id))
    }

    /// Finds a session by id, unique prefix, `latest` or path; gives its id.
    pub fn find(&self, name: &str) -> Result<String, WireError> {
        Ok(self.store.find(name)?.id)
    }

    /// Reads a whole log. Damage ends the reading and is told beside what could be read.
    pub fn read(&self, name: &str) -> Result<Read, WireError> {
        let mut entries = Vec::new();
        let read = self.read_by(name, &mut |entry| entries.push(entry))?;
        Ok(Read { entries, ..read })
    }

    /// The same, but each entry is handed to `take` and none is kept.
    pub fn read_by(&self, name: &str, take: &mut dyn FnMut(Arc<Entry>)) -> Result<Read, WireError> {
        let (path, reader, fault) = self.walk(name, &mut |entry| {
            take(Arc::new(entry));
            true
        })?;
        let ending = reader.ending();
        if ending.count == 0 && fault.is_none() {
            return Err(LogError::NeverOpened(path.id).into());
        }
        let head = Head { count: ending.count, hash: ending.link.text() };
        Ok(Read { id: path.id, entries: Vec::new(), head, unfinished: ending.unfinished, fault })
    }

    /// Reads a log and decides again on its facts: what of it differs, and its last entry. Only the built-in scorers of
    /// debates are known here.
    pub fn verify(&self, name: &str) -> Result<(Read, Verification, Option<Arc<Entry>>), WireError> {
        let (mut verifier, mut last) = (Verifier::new(&Scorers::default()), None);
        let read = self.read_by(name, &mut |entry| {
            verifier.apply(&entry);
            last = Some(entry);
        })?;
        Ok((read, verifier.found(), last))
    }

    /// The log file of a session, to be read by position.
    pub fn log_entries(&self, name: &str) -> Result<RandomAccessLog, WireError> {
        let path = self.store.find(name)?.log;
        RandomAccessLog::open(&path)
            .map_err(|error| WireError::Workspace(format!("`{}` cannot be read: {error}", path.display())))
    }

    /// Hands every entry of a log to `take`, its chain checked, until that says false. Damage ends the reading and
    /// is given back.
    pub fn scan(
        &self,
        name: &str,
        take: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<Option<LogError>, WireError> {
        Ok(self.walk(name, take)?.2)
    }

    /// Hands entries on until `take` says false, the end or damage, which is given back. A file without any is no log.
    fn walk(
        &self,
        name: &str,
        take: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<(SessionPath, EntryReader, Option<LogError>), WireError> {
        let path = self.store.find(name)?;
        let mut reader = self.store.read(&path)?;
        let fault = loop {
            match reader.next_entry() {
                Ok(Some(entry)) => {
                    if !take(entry) {
                        break None;
                    }
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        if reader.ending().count == 0 && fault.is_none() && !path.stored {
            return Err(LogError::NotALog(path.log).into());
        }
        Ok((path, reader, fault))
    }

    /// Hands every line of a log up to entry `last` to `take`, byte for byte, until that says false.
    pub fn lines(
        &self,
        name: &str,
        last: Option<u64>,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), WireError> {
        let mut reader = self.store.read(&self.store.find(name)?)?;
        while let Some(line) = reader.next_line()? {
            if last.is_some_and(|last| line.header.seq > last) || !take(line.bytes) {
                break;
            }
        }
        Ok(())
    }

    /// The newest tasks that were given in the newest sessions, oldest first.
    pub fn tasks(&self, most: usize) -> Result<Vec<String>, WireError> {
        let mut tasks = Vec::new();
        for row in self.store.list()?.iter().take(RECALLED) {
            let mut own = Vec::new();
            // What cannot be read has no task.
            let _ = self.lines(&row.id, None, &mut |line| {
                if memchr::memmem::find(line, b"\"prompt_given\"").is_some()
                    && let Ok(entry) = Entry::read(line)
                    && let Some(ArenaEvent::PromptGiven(given)) = entry.fact()
                {
                    own.push(given.text.clone());
                }
                true
            });
            tasks.extend(own.into_iter().rev());
            if tasks.len() >= most {
                break;
            }
        }
        tasks.truncate(most);
        tasks.reverse();
        Ok(tasks)
    }

    /// The id of a session that a resume has nothing to do for: no turn is open, and it was sealed or never had
    /// one. Damage is left to whoever opens it.
    pub fn nothing_to_go_on_with(&self, name: &str) -> Result<Option<String>, WireError> {
        let id = self.find(name)?;
        let (mut session, mut is_copy) = (Session::new(), false);
        let mut follows = true;
        let fault = self.scan(name, &mut |entry| {
            // A copy of a session whose turn had ended has nothing to be sealed for.
            if !matches!(entry.fact(), Some(ArenaEvent::SessionPaused(_))) {
                is_copy = matches!(entry.fact(), Some(ArenaEvent::SessionForked(_)));
            }
            follows = session.apply(&Arc::new(entry)).is_ok();
            follows
        })?;
        let is_over = session.sealed().is_some() || session.last_turn().is_none() || is_copy;
        let is_whole = fault.is_none() && follows && session.spec().is_some();
        Ok((is_whole && is_over && !session.has_open_turn()).then_some(id))
    }

    /// True where a session waits for the answer to a question.
    pub fn asks(&self, name: &str) -> Result<bool, WireError> {
        let mut board = Board::default();
        self.scan(name, &mut |entry| {
            board.apply(&entry);
            true
        })?;
        Ok(board.questions().next().is_some())
    }

    /// The entries since the newest task was given, that one among them; all where there was none.
    pub fn last_turn(&self, name: &str) -> Result<Vec<Arc<Entry>>, WireError> {
        let mut turn = Vec::new();
        self.scan(name, &mut |entry| {
            if !entry.is_void() && matches!(entry.fact(), Some(ArenaEvent::PromptGiven(_))) {
                turn.clear();
            }
            turn.push(Arc::new(entry));
            true
        })?;
        Ok(turn)
    }

    /// Refuses a session that another process writes, or that can only be read.
    pub fn check_free(&self, name: &str) -> Result<(), WireError> {
        Ok(self.store.check_free(&self.store.find(name)?)?)
    }

    /// How a session stands.
    pub fn standing(&self, id: &str) -> SessionStatus {
        let Ok(path) = self.store.find(id) else { return SessionStatus::Unknown };
        match self.store.is_held(&path) {
            Ok(false) => session_status::of(&path.log),
            Ok(true) if session_status::is_idle(&path.log) => SessionStatus::Open,
            Ok(true) => SessionStatus::Running,
            Err(_) => SessionStatus::Unknown,
        }
    }

    /// True for a session that the demo's script answered and that waits for a task.
    pub fn is_over_demo(&self, name: &str) -> Result<bool, WireError> {
        let is_demo = |spec: &Spec| spec.models.first().is_some_and(|model| model.name == demo::MODEL);
        let mut session = Session::new();
        let mut is_one = true;
        self.scan(name, &mut |entry| {
            let begins = |data: &SessionOpened| is_demo(&data.spec);
            let other = matches!(entry.fact(), Some(ArenaEvent::SessionOpened(data)) if !begins(data));
            is_one = !other && session.apply(&Arc::new(entry)).is_ok();
            is_one
        })?;
        Ok(is_one && !session.has_open_turn() && session.spec().is_some_and(is_demo))
    }

    /// The name a session was given by a person.
    pub fn name_of(&self, id: &str) -> Option<String> {
        session_status::name(&self.folder(id))
    }

    /// Gives a session a name; an empty one takes it away. Its log is not touched.
    pub fn rename(&self, name: &str, new: &str) -> Result<String, WireError> {
        let path = self.store.find(name)?;
        if !path.stored {
            return Err(LogError::Outside(path.log).into());
        }
        let folder = self.folder(&path.id);
        let failed =
            |error| WireError::Workspace(format!("cannot name it in `{}`: {error}", folder.display()));
        session_status::rename(&folder, new).map_err(failed)?;
        Ok(path.id)
    }

    fn folder(&self, id: &str) -> PathBuf {
        self.state.join("sessions").join(id)
    }

    /// The folder a session works in: where this user began it, or its own as a copy. An error is the folder that only
    /// its log names.
    pub fn home(&self, name: &str) -> Result<PathBuf, WireError> {
        let path = self.store.find(name)?;
        match taken_up::origin(&self.state, &path).1 {
            Some(root) => Ok(root),
            None => Err(WireError::ForeignRoot { root: self.workspace(name)?, id: path.id }),
        }
    }

    /// The root of a session's workspace as its log last said, before its damage if there is any.
    fn workspace(&self, name: &str) -> Result<PathBuf, WireError> {
        let mut root = None;
        let fault = self.scan(name, &mut |entry| {
            match entry.fact() {
                Some(ArenaEvent::SessionOpened(opened)) => root = Some(opened.spec.workspace.root.clone()),
                Some(ArenaEvent::SessionForked(forked)) => root = Some(forked.workspace.clone()),
                Some(fact) => {
                    for setting in fact.changed() {
                        if let Setting::Workspace(workspace) = setting {
                            root = Some(workspace.root.clone());
                        }
                    }
                }
                None => {}
            }
            true
        })?;
        match (root, fault) {
            (Some(root), _) => Ok(PathBuf::from(root)),
            (None, Some(fault)) => Err(fault.into()),
            (None, None) => Err(LogError::NeverOpened(self.find(name)?).into()),
        }
    }

    /// Removes a session, and the files of one that is a fork; gives its whole id.
    pub fn remove(&self, name: &str) -> Result<String, WireError> {
        let path = self.store.find(name)?;
        self.store.remove(&path)?;
        let files = fork::folder(&self.state, &path.id);
        match std::fs::remove_dir_all(&files) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let words = format!("its files in `{}` cannot be removed: {error}", files.display());
                Err(WireError::Workspace(words))
            }
            _ => Ok(path.id),
        }
    }

    /// Copies a log to a new file; gives the number of its entries and the blobs that were missing.
    pub fn export(&self, name: &str, target: &Path) -> Result<(u64, Vec<String>), WireError> {
        let copied = self.store.export(&self.store.find(name)?, target)?;
        Ok((copied.entries, copied.missing))
    }

    /// Takes an exported log in; gives its id, the number of its entries and the blobs that were missing.
    pub fn import(&self, file: &Path) -> Result<(String, u64, Vec<String>), WireError> {
        let copied = self.store.import(file)?;
        Ok((copied.session.id, copied.entries, copied.missing))
    }
}

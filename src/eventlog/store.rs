//! The state folder: finds, creates, opens, lists and removes sessions; knows their files, not their meaning.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::fs::{Access, LogFs, RealFs, create_durable_dir, read_full_at};
use super::open::{self, Opened, Site};
use super::reader::{Ending, EntryReader};
use super::summary::{self, SessionSummary};
use super::writer::{Marks, SessionLog, Start};
use super::{LOCK_NAME, LOG_NAME, LogError, blobs, chain::Link, session_status};
use crate::protocol::Entry;
use crate::protocol::expand::is_sha256;

/// The fewest characters of an id's end that find it.
const SHORTEST: usize = 4;

/// A log that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPath {
    /// The session's id; for a file outside the state folder, its name.
    pub id: String,
    /// The log file.
    pub log: PathBuf,
    /// True for a session of the state folder; others are only read.
    pub stored: bool,
}

/// All sessions of one state folder: `sessions/<uuid>/` for each, `blobs/` shared. Cheap to clone.
#[derive(Clone)]
pub struct SessionStore {
    state: PathBuf,
    fs: Arc<dyn LogFs>,
}

impl SessionStore {
    /// The store in folder `state`. Nothing is read or created before it is needed.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        SessionStore::with_fs(state, Arc::new(RealFs))
    }

    /// A store on another file system.
    pub fn with_fs(state: impl Into<PathBuf>, fs: Arc<dyn LogFs>) -> Self {
        SessionStore { state: state.into(), fs }
    }

    /// Begins a session with an empty log. `id` is a UUID and must be the one in its `session_opened`.
    pub fn create(&self, id: &str) -> Result<SessionLog, LogError> {
        let id = checked_id(id)?;
        let site = self.site(id);
        if self.fs.exists(&site.folder) {
            return Err(LogError::Exists(id.to_owned()));
        }
        self.create_folder(&site.folder)?;
        let lock = site.lock()?;
        let path = site.log();
        let file = self.fs.open(&path, Access::CreateNew).map_err(LogError::io(&path))?;
        // The folder's own name is durable since it was made.
        self.fs.sync_dir(&site.folder).map_err(LogError::io(&site.folder))?;
        let ending = Ending { count: 0, link: Link::root(id), len: 0, unfinished: 0 };
        SessionLog::start(Start { site, file, lock, ending, marks: Marks::default() })
    }

    /// Opens a session for writing, handing each of its entries to `fold` on the way.
    ///
    /// Refused while another writer has it ([`LogError::Held`]), when the log is damaged, and when it was
    /// written by a newer program; all of these can still be [read](SessionStore::read). After an error
    /// `fold` has seen the entries before the bad place and is to be thrown away.
    pub fn open(&self, session: &SessionPath, fold: &mut dyn FnMut(Entry)) -> Result<Opened, LogError> {
        if !session.stored {
            return Err(LogError::Outside(session.log.clone()));
        }
        open::open(self.site(&session.id), fold)
    }

    /// Reads a log from its first entry on; needs no lock and no right to write.
    pub fn read(&self, session: &SessionPath) -> Result<EntryReader, LogError> {
        let path = session.log.clone();
        let file = self.fs.open(&path, Access::Read);
        let file = file.map_err(|error| LogError::opening(&session.id, &path, error))?;
        let name = if session.stored { session.id.clone() } else { path.display().to_string() };
        Ok(EntryReader::new(path, file, &session.id, name))
    }

    /// Refuses a session that another writer has, or that can only be read.
    pub fn check_free(&self, session: &SessionPath) -> Result<(), LogError> {
        match session.stored {
            true => self.site(&session.id).lock().map(drop),
            false => Err(LogError::Outside(session.log.clone())),
        }
    }

    /// Checks the chain of a session's log to its end. An unfinished tail is no fault here.
    pub fn check(&self, id: &str) -> Result<(), LogError> {
        let mut reader = self.read(&self.stored(id))?;
        while reader.next_line()?.is_some() {}
        Ok(())
    }

    /// Finds a log by session id, its unique beginning or end, the name a person gave it, `latest` (the newest entry of
    /// all), or path of a log file.
    pub fn find(&self, name: &str) -> Result<SessionPath, LogError> {
        if name == "latest" {
            return summary::latest(self)?.ok_or_else(|| LogError::NotFound(name.to_owned()));
        }
        if self.fs.exists(&self.sessions().join(name)) && is_id(name) {
            return Ok(self.stored(name));
        }
        let path = Path::new(name);
        if name.contains('/') || path.extension().is_some_and(|extension| extension == "jsonl") {
            return self.find_file(path);
        }
        let fits = |id: &&String| id.starts_with(name) || name.len() >= SHORTEST && id.ends_with(name);
        let ids = if name.trim().is_empty() { Vec::new() } else { self.ids()? };
        let mut fitting: Vec<String> = ids.iter().filter(fits).cloned().collect();
        match fitting.len() {
            0 => match self.named(name)? {
                Some(id) => Ok(self.stored(&id)),
                None => Err(LogError::NotFound(name.to_owned())),
            },
            1 => Ok(self.stored(&fitting.remove(0))),
            _ => {
                // Ids begin with the time, so the last ten are the newest.
                fitting.sort_by(|a, b| b.cmp(a));
                fitting.truncate(10);
                let matches = fitting.iter().map(|id| summary::of(self, &self.stored(id))).collect();
                Err(LogError::Ambiguous { prefix: name.to_owned(), matches })
            }
        }
    }

    /// The only session a person gave this name.
    fn named(&self, name: &str) -> Result<Option<String>, LogError> {
        let is_named =
            |id: &String| session_status::name(&self.sessions().join(id)).is_some_and(|it| it == name);
        let mut found = self.ids()?.into_iter().filter(is_named);
        Ok(found.next().filter(|_| found.next().is_none()))
    }

    fn find_file(&self, path: &Path) -> Result<SessionPath, LogError> {
        // The folder of a session stands for its log.
        let inner = path.join(LOG_NAME);
        if self.fs.exists(&inner) {
            return self.find_file(&inner);
        }
        if !self.fs.exists(path) {
            return Err(LogError::NotFound(path.display().to_string()));
        }
        if self.fs.list(path).is_ok() {
            return Err(LogError::NotALog(path.to_owned()));
        }
        let folder = path.parent();
        let id = folder.and_then(Path::file_name).and_then(|name| name.to_str()).filter(|name| is_id(name));
        if let Some(id) = id
            && folder.and_then(Path::parent) == Some(&self.sessions())
            && path.file_name().is_some_and(|name| name == LOG_NAME)
        {
            return Ok(self.stored(id));
        }
        let id = id.map_or_else(
            || path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            str::to_owned,
        );
        Ok(SessionPath { id, log: path.to_owned(), stored: false })
    }

    /// Every session, newest entry first. One that cannot be read stands there with its fault.
    ///
    /// Only the ends of each log are looked at, and nothing is written; damage in its middle shows when it is checked.
    pub fn list(&self) -> Result<Vec<SessionSummary>, LogError> {
        let all = on_all_cores(&self.ids()?, |id| summary::of(self, &self.stored(id)));
        Ok(newest_first(all))
    }

    /// The same with the chain of every log checked, so that damage in its middle shows.
    pub fn list_checked(&self) -> Result<Vec<SessionSummary>, LogError> {
        let all = on_all_cores(&self.ids()?, |id| {
            let mut row = summary::of(self, &self.stored(id));
            row.fault = row.fault.or_else(|| self.check(&row.id).err().map(|error| error.to_string()));
            row
        });
        Ok(newest_first(all))
    }

    /// Those whose log has this text somewhere, newest entry first.
    pub fn list_with(&self, text: &[u8]) -> Result<Vec<SessionSummary>, LogError> {
        let finder = memchr::memmem::Finder::new(text);
        let found = on_all_cores(&self.ids()?, |id| {
            let session = self.stored(id);
            // What cannot be searched may have it.
            let has_it = holds(&*self.fs, &session.log, &finder).unwrap_or(true);
            has_it.then(|| summary::of(self, &session))
        });
        Ok(newest_first(found.into_iter().flatten().collect()))
    }

    /// The newest session that fits. Sessions whose files are older are not looked at.
    pub fn newest(&self, fits: &dyn Fn(&SessionSummary) -> bool) -> Result<Option<SessionSummary>, LogError> {
        summary::newest_of(self, fits)
    }

    /// True while a process has a session open for writing. Nothing is written to find out.
    pub fn is_held(&self, session: &SessionPath) -> Result<bool, LogError> {
        if !session.stored {
            return Err(LogError::Outside(session.log.clone()));
        }
        let lock = self.sessions().join(&session.id).join(LOCK_NAME);
        self.fs.is_locked(&lock).map_err(LogError::io(&lock))
    }

    /// Removes a session that nobody has open for writing. Its blobs stay, other sessions may name them.
    pub fn remove(&self, session: &SessionPath) -> Result<(), LogError> {
        if !session.stored {
            return Err(LogError::Outside(session.log.clone()));
        }
        let site = self.site(&session.id);
        if !self.fs.exists(&site.folder) {
            return Err(LogError::NotFound(session.id.clone()));
        }
        let _lock = site.lock()?;
        // Under another name first, so that half a session is never taken for a whole one.
        let gone = self.sessions().join(format!(".removed-{}", session.id));
        self.fs.rename(&site.folder, &gone).map_err(LogError::io(&site.folder))?;
        self.fs.sync_dir(&self.sessions()).map_err(LogError::io(&self.sessions()))?;
        self.fs.remove_dir(&gone).map_err(LogError::io(&gone))
    }

    /// Reads a blob by its SHA-256 in hex.
    pub fn blob(&self, sha256: &str) -> Result<Vec<u8>, LogError> {
        if !is_sha256(sha256) {
            return Err(LogError::BadBlob(sha256.to_owned()));
        }
        let path = blobs::place(&self.blobs(), sha256);
        let bytes = blobs::get(&*self.fs, &path, sha256).map_err(LogError::io(&path))?;
        bytes.ok_or_else(|| LogError::BadBlob(sha256.to_owned()))
    }

    /// The ids of all sessions, in no order; none when there is no state folder yet.
    pub(super) fn ids(&self) -> Result<Vec<String>, LogError> {
        let sessions = self.sessions();
        match self.fs.list(&sessions) {
            Ok(names) => Ok(names.into_iter().filter(|name| is_id(name)).collect()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(LogError::Io { path: sessions, error }),
        }
    }

    pub(super) fn fs(&self) -> &Arc<dyn LogFs> {
        &self.fs
    }

    pub(super) fn sessions(&self) -> PathBuf {
        self.state.join("sessions")
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.state.join("blobs")
    }

    pub(super) fn stored(&self, id: &str) -> SessionPath {
        SessionPath { id: id.to_owned(), log: self.sessions().join(id).join(LOG_NAME), stored: true }
    }

    pub(super) fn site(&self, id: &str) -> Site {
        let folder = self.sessions().join(id);
        Site { fs: Arc::clone(&self.fs), id: id.to_owned(), folder, blobs: self.blobs() }
    }

    pub(super) fn create_folder(&self, folder: &Path) -> Result<(), LogError> {
        create_durable_dir(&*self.fs, folder).map_err(LogError::io(folder))
    }

    /// Makes a session's folder, what is in it and its own name durable.
    pub(super) fn sync_folder(&self, folder: &Path) -> Result<(), LogError> {
        for path in [folder, &self.sessions()] {
            self.fs.sync_dir(path).map_err(LogError::io(path))?;
        }
        Ok(())
    }
}

fn newest_first(mut all: Vec<SessionSummary>) -> Vec<SessionSummary> {
    all.sort_by(|a, b| (b.newest_at, &b.id).cmp(&(a.newest_at, &a.id)));
    all
}

/// Does the same for each, in no order.
fn on_all_cores<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let some = || {
        let mine = std::iter::from_fn(|| all.get(next.fetch_add(1, Ordering::Relaxed)));
        mine.map(&work).collect::<Vec<R>>()
    };
    // A few are done before a thread has begun.
    if cores == 1 || all.len() < 64 {
        return some();
    }
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..cores).map(|_| scope.spawn(some)).collect();
        let mut done = some();
        for other in others {
            match other.join() {
                Ok(theirs) => done.extend(theirs),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    })
}

/// Whether a file has a text anywhere.
fn holds(fs: &dyn LogFs, path: &Path, text: &memchr::memmem::Finder<'_>) -> std::io::Result<bool> {
    let file = fs.open(path, Access::Read)?;
    let size = usize::try_from(file.size()?).unwrap_or(usize::MAX);
    let overlap = text.needle().len().saturating_sub(1);
    let mut block = vec![0; size.min(256 * 1024).max(2 * overlap)];
    let (mut at, mut kept) = (0, 0);
    loop {
        let Some(room) = block.get_mut(kept..) else { return Ok(false) };
        let read = read_full_at(&*file, room, at)?;
        let filled = kept + read;
        if text.find(block.get(..filled).unwrap_or_default()).is_some() {
            return Ok(true);
        }
        at += read as u64;
        if filled < block.len() {
            return Ok(false);
        }
        kept = overlap;
        block.copy_within(filled - overlap..filled, 0);
    }
}

pub(super) fn checked_id(id: &str) -> Result<&str, LogError> {
    if is_id(id) { Ok(id) } else { Err(LogError::BadId(id.to_owned())) }
}

/// A UUID in lower case with its dashes: the only names the store makes and believes.
fn is_id(name: &str) -> bool {
    uuid::Uuid::try_parse(name).is_ok_and(|uuid| uuid.hyphenated().to_string() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_across_the_border_of_two_blocks_and_not_where_it_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let finder = memchr::memmem::Finder::new(b"needle");
        for (before, text, found) in [
            (256 * 1024 - 3, "needle", true),
            (256 * 1024 - 6, "needle", true),
            (512 * 1024 - 8, "needle and more", true),
            (512 * 1024 - 3, "needl", false),
            (0, "needle", true),
            (0, "", false),
        ] {
            std::fs::write(&path, "x".repeat(before) + text).unwrap();
            assert_eq!(holds(&RealFs, &path, &finder).unwrap(), found, "{before} {text}");
        }
    }

    #[test]
    fn each_of_many_is_done_once() {
        let all: Vec<usize> = (0..1000).collect();
        let mut done = on_all_cores(&all, |number| *number);
        done.sort_unstable();
        assert_eq!(done, all);
    }
}

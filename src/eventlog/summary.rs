//! What a list of sessions shows, from the two ends of each log; a broken log is a row, never an error.

use std::io;
use std::sync::Arc;

use super::chain::Header;
use super::fs::{Access, LogFile, read_full_at};
use super::lines::{Lines, Piece};
use super::store::{SessionPath, SessionStore};
use super::{LogError, MAX_LINE};
use crate::protocol::{ArenaEvent, Entry, FORMAT};

/// Entries looked at from the start of a log for its first prompt.
const FIRST_ENTRIES: u64 = 4;

/// How a line begins whose fact is a fork, and the bytes within which that must stand.
const FORKED: &[u8] = b"\"events\":[{\"kind\":\"session_forked\"";
const FORK_WITHIN: usize = 160;

/// Bytes first read from the end of a log.
const TAIL_READ: u64 = 4 * 1024;

/// One row of the list of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionSummary {
    /// The session's id.
    pub id: String,
    /// Whole entries, by the last one's number.
    pub entries: u64,
    /// Bytes of the log.
    pub bytes: u64,
    /// When it was opened, microseconds since the Unix epoch; 0 when unknown.
    pub opened_at: u64,
    /// When its newest entry was made; 0 when unknown.
    pub newest_at: u64,
    /// Root of its workspace.
    pub workspace: Option<String>,
    /// Session and last copied entry it was forked from.
    pub parent: Option<(String, u64)>,
    /// Its first prompt, whole.
    pub prompt: Option<String>,
    /// What is wrong with it.
    pub fault: Option<String>,
    /// The id it was opened with: another than its own when it is a copy.
    root: Option<String>,
}

/// Looks at one session.
pub(super) fn of(store: &SessionStore, session: &SessionPath) -> SessionSummary {
    let mut summary = SessionSummary { id: session.id.clone(), ..SessionSummary::default() };
    summary.fault = match read_ends(store, session, &mut summary) {
        Ok(()) => summary.fault,
        // The row names the session already.
        Err(LogError::Older { .. }) => Some("made by an older agon".to_owned()),
        Err(LogError::NeverOpened(_)) => Some("no entry: never opened, or emptied".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    summary
}

fn read_ends(
    store: &SessionStore,
    session: &SessionPath,
    summary: &mut SessionSummary,
) -> Result<(), LogError> {
    let path = &session.log;
    let mut reader = store.read(session)?;
    let file = store.fs().open(path, Access::Read).map_err(LogError::io(path))?;
    summary.bytes = file.size().map_err(LogError::io(path))?;
    if let Some(last) = last_header(&file, summary.bytes).map_err(LogError::io(path))? {
        summary.entries = last.seq.saturating_add(1);
        summary.newest_at = last.at;
    }
    while reader.ending().count < FIRST_ENTRIES
        && let Some(entry) = reader.next_entry()?
    {
        note(&entry, summary);
    }
    if summary.root.as_ref().is_some_and(|root| *root != session.id) {
        note_forks(store, session, summary)?;
    }
    if reader.ending().count == 0 {
        return Err(LogError::NeverOpened(session.id.clone()));
    }
    if reader.ending().unfinished > 0 || !ends_whole(&file, summary.bytes).map_err(LogError::io(path))? {
        summary.fault = Some("the last entry is unfinished".to_owned());
    }
    Ok(())
}

fn note(entry: &Entry, summary: &mut SessionSummary) {
    match entry.fact() {
        Some(ArenaEvent::SessionOpened(opened)) => {
            summary.opened_at = entry.at;
            summary.workspace = Some(opened.spec.workspace.root.clone());
            summary.root = Some(opened.id.clone());
        }
        Some(ArenaEvent::PromptGiven(given)) if summary.prompt.is_none() => {
            summary.prompt = Some(given.text.clone());
        }
        _ => {}
    }
}

/// Where a copy was made stands at the fork, anywhere in its log. Only copies are read for it.
fn note_forks(
    store: &SessionStore,
    session: &SessionPath,
    summary: &mut SessionSummary,
) -> Result<(), LogError> {
    let mut reader = store.read(session)?;
    while let Some(line) = reader.next_line()? {
        let start = line.bytes.get(..FORK_WITHIN.min(line.bytes.len())).unwrap_or_default();
        if !start.windows(FORKED.len()).any(|window| window == FORKED) {
            continue;
        }
        if let Some(ArenaEvent::SessionForked(forked)) = line.entry()?.fact() {
            summary.workspace = Some(forked.workspace.clone());
            summary.parent = Some((forked.parent.clone(), forked.seq));
        }
    }
    Ok(())
}

fn ends_whole(file: &Arc<dyn LogFile>, size: u64) -> io::Result<bool> {
    let mut last = [b'\n'];
    read_full_at(&**file, &mut last, size.saturating_sub(1))?;
    Ok(last == *b"\n")
}

/// The header of the last whole line, found from the end.
fn last_header(file: &Arc<dyn LogFile>, size: u64) -> io::Result<Option<Header>> {
    let mut span = TAIL_READ;
    loop {
        let from = size.saturating_sub(span);
        let mut lines = Lines::new(Arc::clone(file), from, size);
        let mut last = None;
        loop {
            match lines.next_piece()? {
                Piece::Line(line) => last = Header::read(line).or(last),
                Piece::TooLong => {}
                Piece::Rest(_) | Piece::End => break,
            }
        }
        if last.is_some() || from == 0 || span > 2 * MAX_LINE as u64 {
            return Ok(last);
        }
        span *= 8;
    }
}

/// The session with the newest entry; those that cannot be read, and those of an older agon, do not count.
pub(super) fn latest(store: &SessionStore) -> Result<Option<SessionPath>, LogError> {
    let newest = |session: &SessionPath| {
        let file = store.fs().open(&session.log, Access::Read).ok()?;
        last_header(&file, file.size().ok()?)
            .ok()?
            .filter(|last| last.v >= u64::from(FORMAT))
            .map(|last| last.at)
    };
    let all = store.ids()?.into_iter().map(|id| store.stored(&id));
    let dated = all.filter_map(|session| newest(&session).map(|at| (at, session)));
    Ok(dated.max_by(|(a, x), (b, y)| (a, &x.id).cmp(&(b, &y.id))).map(|(_, session)| session))
}

//! What a list of sessions shows, from the two ends of each log; a broken log is a row, never an error.

use std::io;
use std::sync::Arc;

use super::chain::Header;
use super::fs::{Access, LogFile, read_full_at};
use super::lines::{Lines, Piece};
use super::session_status::{self, SessionStatus};
use super::store::{SessionPath, SessionStore};
use super::{LogError, MAX_LINE};
use crate::protocol::{ArenaEvent, Entry, FORMAT};

/// Entries looked at from the start of a log for its first prompt.
const FIRST_ENTRIES: u64 = 4;

/// How a line begins with a fact of a kind, and the bytes within which that must stand.
const FORKED: &[u8] = b"\"events\":[{\"kind\":\"session_forked\"";
const PROMPTED: &[u8] = b"\"events\":[{\"kind\":\"prompt_given\"";
const OPENED: &[u8] = b"\"events\":[{\"kind\":\"session_opened\",\"data\":{\"id\":\"";
const FACT_WITHIN: usize = 160;

/// What stands before the path of a session's workspace.
const ROOT: &[u8] = b"\"workspace\":{\"root\":";

/// Bytes first read from the end of a log.
const TAIL_READ: u64 = 4 * 1024;

/// Bytes read from the start of a log, and again where its first entries are longer.
const HEAD_READS: [usize; 2] = [20 * 1024, 256 * 1024];

/// How far a file's time may lag behind the newest entry in it, in microseconds: some file systems count in seconds.
const LAG: u64 = 3_000_000;

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
    /// How it stands.
    pub standing: SessionStatus,
    /// The id it was opened with: another than its own when it is a copy.
    root: Option<String>,
}

/// Looks at one session.
pub(super) fn of(store: &SessionStore, session: &SessionPath) -> SessionSummary {
    let mut summary = quick(store, session).unwrap_or_else(|| checked(store, session));
    summary.standing = match store.is_held(session) {
        Ok(false) if summary.standing == SessionStatus::Unknown => session_status::of(&session.log),
        Ok(false) => summary.standing,
        Ok(true) if session_status::is_idle(&session.log) => SessionStatus::Open,
        Ok(true) => SessionStatus::Running,
        Err(_) => SessionStatus::Unknown,
    };
    summary
}

/// The same by few looks and without the chain, where the log is one of this program's that is no copy. None where
/// something is out of the ordinary.
fn quick(store: &SessionStore, session: &SessionPath) -> Option<SessionSummary> {
    let file = store.fs().open(&session.log, Access::Read).ok()?;
    let bytes = file.size().ok()?;
    let mut summary = SessionSummary { id: session.id.clone(), bytes, ..SessionSummary::default() };
    let mut head = Vec::new();
    HEAD_READS.into_iter().find_map(|most| {
        head.resize(usize::try_from(bytes).ok()?.min(most), 0);
        let read = read_full_at(&*file, &mut head, 0).ok()?;
        begins(head.get(..read)?, read as u64 == bytes, &mut summary)
    })?;
    let from = bytes.saturating_sub(2 * TAIL_READ);
    let all = head.len() as u64 == bytes;
    let tail = match all {
        true => head,
        false => {
            let mut tail = vec![0; usize::try_from(bytes - from).ok()?];
            let read = read_full_at(&*file, &mut tail, from).ok()?;
            (read == tail.len()).then_some(())?;
            // The first line is most likely not whole.
            tail.drain(..=memchr::memchr(b'\n', &tail)?);
            tail
        }
    };
    let last = tail.strip_suffix(b"\n")?;
    let last = last.get(memchr::memrchr(b'\n', last).map_or(0, |at| at + 1)..)?;
    let last = Header::read(last).filter(|last| last.v == u64::from(FORMAT))?;
    (summary.entries, summary.newest_at) = (last.seq.saturating_add(1), last.at);
    summary.standing = session_status::of_lines(&tail, all).unwrap_or_default();
    Some(summary)
}

/// Notes what the first entries say. None where they are not all in `head`, unless that is `all` there is, and where
/// they are not what this program writes.
fn begins(head: &[u8], all: bool, summary: &mut SessionSummary) -> Option<()> {
    let mut lines = head.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let first = lines.next()?;
    let header = Header::read(first).filter(|first| (first.v, first.seq) == (u64::from(FORMAT), 0))?;
    let opened = after(first.get(..FACT_WITHIN.min(first.len()))?, OPENED)?;
    let id = first.get(opened..opened + summary.id.len())?;
    // A copy is called otherwise.
    (id == summary.id.as_bytes()).then_some(())?;
    summary.root = Some(summary.id.clone());
    let root = after(first, ROOT)?;
    let mut text = serde_json::Deserializer::from_slice(first.get(root..)?);
    summary.workspace = Some(serde::Deserialize::deserialize(&mut text).ok()?);
    summary.opened_at = header.at;
    for line in lines.by_ref().take(usize::try_from(FIRST_ENTRIES - 1).unwrap_or(0)) {
        if after(line.get(..FACT_WITHIN.min(line.len()))?, PROMPTED).is_some() {
            note(&Entry::read(line).ok()?, summary);
            return Some(());
        }
    }
    // Either there is no more, or everything that could be one was looked at.
    (all || lines.next().is_some()).then_some(())
}

/// Where a text ends in a line for the first time. Within a string the quotes of these texts are escaped.
fn after(line: &[u8], text: &[u8]) -> Option<usize> {
    memchr::memmem::find(line, text).map(|at| at + text.len())
}

/// Looks at one session with the chain of its first entries checked.
fn checked(store: &SessionStore, session: &SessionPath) -> SessionSummary {
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
        note_forks(&file, summary).map_err(LogError::io(path))?;
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

/// Where a copy was made stands at the fork, anywhere in its log. Only copies are read for it, without the chain.
fn note_forks(file: &Arc<dyn LogFile>, summary: &mut SessionSummary) -> io::Result<()> {
    let mut lines = Lines::new(Arc::clone(file), 0, summary.bytes);
    loop {
        let line = match lines.next_piece()? {
            Piece::Line(line) => line,
            Piece::TooLong => continue,
            Piece::Rest(_) | Piece::End => return Ok(()),
        };
        if after(line.get(..FACT_WITHIN.min(line.len())).unwrap_or_default(), FORKED).is_none() {
            continue;
        }
        let entry = Entry::read(line).ok();
        if let Some(ArenaEvent::SessionForked(forked)) = entry.as_ref().and_then(Entry::fact) {
            summary.workspace = Some(forked.workspace.clone());
            summary.parent = Some((forked.parent.clone(), forked.seq));
        }
    }
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
    let look = |session: SessionPath| {
        let file = store.fs().open(&session.log, Access::Read).ok()?;
        let last = last_header(&file, file.size().ok()?).ok()??;
        (last.v >= u64::from(FORMAT)).then_some((last.at, session))
    };
    newest(store, look)
}

/// The newest session that fits, by when its newest entry was made.
pub(super) fn newest_of(
    store: &SessionStore,
    fits: &dyn Fn(&SessionSummary) -> bool,
) -> Result<Option<SessionSummary>, LogError> {
    newest(store, |session| Some(of(store, &session)).filter(fits).map(|found| (found.newest_at, found)))
}

/// What `look` finds with the newest time. No entry is newer than its file, so those of older files are not looked at.
fn newest<T>(
    store: &SessionStore,
    look: impl Fn(SessionPath) -> Option<(u64, T)>,
) -> Result<Option<T>, LogError> {
    let dated = |id: String| {
        let session = store.stored(&id);
        (store.fs().written_at(&session.log).unwrap_or(u64::MAX), id, session)
    };
    let mut all: Vec<_> = store.ids()?.into_iter().map(dated).collect();
    all.sort_unstable_by(|(a, x, _), (b, y, _)| (b, y).cmp(&(a, x)));
    let mut best: Option<(u64, String, T)> = None;
    for (written, id, session) in all {
        if best.as_ref().is_some_and(|(at, ..)| written.saturating_add(LAG) < *at) {
            break;
        }
        if let Some((at, found)) = look(session)
            && best.as_ref().is_none_or(|(newest, of, _)| (at, &id) > (*newest, of))
        {
            best = Some((at, id, found));
        }
    }
    Ok(best.map(|(.., found)| found))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::eventlog::chain::root_session;

    /// The golden logs, each stored as the session it is.
    fn golden(folder: &Path) -> (SessionStore, Vec<SessionPath>) {
        let store = SessionStore::new(folder);
        let logs = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(format!("rules-{}", crate::protocol::RULES));
        let put = |log: std::fs::DirEntry| {
            let text = std::fs::read(log.path()).unwrap();
            let id = root_session(text.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
            let session = store.stored(&id);
            std::fs::create_dir_all(session.log.parent().unwrap()).unwrap();
            std::fs::write(&session.log, text).unwrap();
            session
        };
        let sessions = std::fs::read_dir(logs).unwrap().map(|log| put(log.unwrap())).collect();
        (store, sessions)
    }

    #[test]
    fn a_quick_look_says_what_a_checked_one_says() {
        let folder = tempfile::tempdir().unwrap();
        let (store, sessions) = golden(folder.path());
        assert!(sessions.len() >= 3);
        for session in &sessions {
            let quick = quick(&store, session).expect("nothing about it is out of the ordinary");
            let standing = session_status::of(&session.log);
            assert_eq!(quick, SessionSummary { standing, ..checked(&store, session) });
        }
    }

    #[test]
    fn a_quick_look_leaves_what_is_out_of_the_ordinary_to_a_checked_one() {
        let folder = tempfile::tempdir().unwrap();
        let (store, sessions) = golden(folder.path());
        let session = &sessions[0];
        let text = std::fs::read(&session.log).unwrap();
        let other = [text.as_slice(), b"{\"v\":2"].concat();
        let older = String::from_utf8_lossy(&text).replace("{\"v\":2,", "{\"v\":1,").into_bytes();
        let zeros = [&text[..text.len() - 40], &[0; 40]].concat();
        for broken in [Vec::new(), other, older, zeros, text[1..].to_vec(), text[..text.len() / 2].to_vec()] {
            std::fs::write(&session.log, &broken).unwrap();
            assert_eq!(quick(&store, session), None, "{} bytes", broken.len());
            assert!(of(&store, session).fault.is_some());
        }
        let copy = store.stored("00000000-0000-7000-8000-000000000001");
        std::fs::create_dir_all(copy.log.parent().unwrap()).unwrap();
        std::fs::write(&copy.log, &text).unwrap();
        assert_eq!(quick(&store, &copy), None, "it is called otherwise than its log says");
    }
}

//! How recorded sessions stand, from the end of each log, and the names people gave them; changes no log.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::eventlog::chain::Header;
use crate::eventlog::fs::not_ordinary;
use crate::eventlog::random_access::last_lines;
use crate::host_files;
use crate::protocol::command::StopCause;
use crate::protocol::event::{LimitKind, PauseCause, TurnCause};
use crate::protocol::spec::Mode;
use crate::protocol::{ArenaEvent, Entry, FORMAT};

/// Bytes of a log's end that are looked at; an entry longer than this leaves it open how the session stands.
const END: u64 = 64 * 1024;

/// Most bytes of a name.
const MAX_NAME: usize = 200;

/// How a session stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionStatus {
    /// A process works on it.
    Running,
    /// A process has it open and waits for a task.
    Open,
    /// It was ended.
    Sealed(StopCause),
    /// It was left with its turn open.
    Paused(PauseCause),
    /// Its last turn is over; nobody ended it.
    Ready,
    /// Its last turn ended otherwise than done, whether somebody ended the session or not.
    Failed(TurnCause),
    /// Its end is of a newer program.
    Newer,
    /// It was made by an older program.
    Older,
    /// Its process is gone in the middle of a turn.
    CutOff,
    /// Its end cannot be read.
    #[default]
    Unknown,
}

impl SessionStatus {
    /// True while a process has it open.
    pub fn is_held(self) -> bool {
        matches!(self, SessionStatus::Running | SessionStatus::Open)
    }

    /// For people; empty when it is not known.
    pub fn words(self) -> &'static str {
        match self {
            SessionStatus::Running => "running",
            SessionStatus::Open => "open",
            SessionStatus::Sealed(StopCause::Finished) => "done",
            SessionStatus::Sealed(_) => "stopped",
            SessionStatus::Paused(PauseCause::Approval) => "asks",
            SessionStatus::Paused(_) => "paused",
            SessionStatus::Ready => "ready",
            SessionStatus::Failed(TurnCause::Interrupted | TurnCause::Stopped) => "stopped",
            SessionStatus::Failed(TurnCause::Limit) => "limit",
            SessionStatus::Failed(TurnCause::Incomplete) => "not done",
            SessionStatus::Failed(_) => "failed",
            SessionStatus::Newer => "newer",
            SessionStatus::Older => "older",
            SessionStatus::CutOff => "cut off",
            SessionStatus::Unknown => "",
        }
    }
}

/// How far the debate of a session's newest task came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its turn is open: it goes on where it was.
    Open,
    /// Somebody stopped it: its turn is over, but a copy up to this entry goes on.
    Stopped(u64),
    /// A limit ended it: a copy with more of it goes on.
    Limited(AtLimit),
    /// It ended by itself.
    Over,
}

/// Where a limit ended a debate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtLimit {
    /// The entry after which it would go on.
    pub at: u64,
    /// True when entry `at` is the answer of a model: it is paid for, and what follows from it is decided again.
    pub is_answer: bool,
    /// The question, when it ended before anything was asked: a copy is asked it again, in place of entry `at`.
    pub question: Option<String>,
    /// Which limit.
    pub limit: LimitKind,
    /// What was used, or would have been.
    pub used: u64,
    /// The limit's value.
    pub max: u64,
}

/// How far the debate of the newest task came; none when that was no debate.
pub fn stage_of_debate(entries: &[Arc<Entry>]) -> Option<Stage> {
    let asked = entries
        .iter()
        .rposition(|entry| !entry.is_void() && matches!(entry.fact(), Some(ArenaEvent::PromptGiven(_))))?;
    let question = match entries[asked].fact() {
        Some(ArenaEvent::PromptGiven(data)) if matches!(data.mode, Mode::Debate(_)) => &data.text,
        _ => return None,
    };
    let turn = &entries[asked..];
    let cause = turn.iter().flat_map(|entry| &entry.events).find_map(|event| match event {
        ArenaEvent::TurnClosed(data) => Some(data.cause),
        _ => None,
    });
    let stop = || {
        turn.iter().find(|entry| {
            let fact = entry.fact().filter(|_| !entry.is_void());
            matches!(fact, Some(ArenaEvent::StopRequested(_) | ArenaEvent::InterruptRequested(_)))
        })
    };
    Some(match cause {
        None => Stage::Open,
        Some(TurnCause::Stopped | TurnCause::Interrupted) => {
            stop().and_then(|entry| entry.seq.checked_sub(1)).map_or(Stage::Over, Stage::Stopped)
        }
        Some(TurnCause::Limit) => at_limit(turn, question).map_or(Stage::Over, Stage::Limited),
        Some(_) => Stage::Over,
    })
}

/// Where in the entries of a turn a limit was reached. Of the fact that led to it an answer is kept; any other is asked
/// for again.
fn at_limit(turn: &[Arc<Entry>], question: &str) -> Option<AtLimit> {
    turn.iter().enumerate().find_map(|(place, entry)| {
        let (limit, used, max) = entry.events.iter().find_map(|event| match event {
            ArenaEvent::LimitReached(data) if data.spark.is_none() => Some((data.limit, data.used, data.max)),
            // Only what was still planned was given up; the verdict that follows is not asked for again.
            ArenaEvent::DebateShortened(data) => data.limit.as_ref().map(|it| (it.limit, it.used, it.max)),
            _ => None,
        })?;
        let question = (place == 0).then(|| question.to_owned());
        let is_answer = matches!(entry.fact(), Some(ArenaEvent::ModelAnswered(_)));
        let at = if place == 0 || is_answer { entry.seq } else { entry.seq.checked_sub(1)? };
        Some(AtLimit { at, is_answer, question, limit, used, max })
    })
}

/// How the session of a log that nobody has open stands.
pub fn of(log: &Path) -> SessionStatus {
    let lines = end(log).ok();
    lines.and_then(|lines| of_lines(&lines, true)).unwrap_or_default()
}

/// The same from the last lines of a log. None when more of it must be looked at, unless these are `all` there are.
pub(super) fn of_lines(lines: &[u8], all: bool) -> Option<SessionStatus> {
    let mut entries = lines.rsplit(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let read = |line| Entry::read(line).ok();
    let header = entries.clone().next().and_then(Header::read);
    if header.is_some_and(|last| last.v < u64::from(FORMAT)) {
        return Some(SessionStatus::Older);
    }
    let Some(last) = entries.next().and_then(read) else { return all.then_some(SessionStatus::Unknown) };
    if last.newer().is_some() {
        return Some(SessionStatus::Newer);
    }
    let stands = match last.events.iter().rev().find_map(told) {
        // A copy of a session whose turn was over.
        Some(SessionStatus::Paused(PauseCause::Quit)) => match is_idle_at(lines).or(all.then_some(false))? {
            true => SessionStatus::Ready,
            false => SessionStatus::Paused(PauseCause::Quit),
        },
        told => told.unwrap_or(SessionStatus::CutOff),
    };
    if !matches!(stands, SessionStatus::Ready | SessionStatus::Sealed(StopCause::Finished)) {
        return Some(stands);
    }
    // That it was ended says nothing of how its last turn went.
    let closed = |entry: &Entry| {
        entry.events.iter().rev().find_map(|event| match event {
            ArenaEvent::TurnClosed(data) => Some(data.cause),
            ArenaEvent::SessionSealed(data) => data.last,
            _ => None,
        })
    };
    let cause = closed(&last).or_else(|| entries.map_while(read).find_map(|entry| closed(&entry)));
    match cause {
        None if !all => None,
        cause => Some(cause.filter(|cause| *cause != TurnCause::Done).map_or(stands, SessionStatus::Failed)),
    }
}

/// True when no turn is open at a log's end, as far as that can be seen there.
pub fn is_idle(log: &Path) -> bool {
    end(log).ok().and_then(|lines| is_idle_at(&lines)).unwrap_or(false)
}

fn is_idle_at(lines: &[u8]) -> Option<bool> {
    let read = |line| Entry::read(line).ok();
    let entries = lines.rsplit(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map_while(read);
    let mut last = entries.flat_map(|entry| entry.events.into_iter().rev());
    last.find_map(|event| match event {
        ArenaEvent::TurnOpened(_) => Some(false),
        ArenaEvent::TurnClosed(_) | ArenaEvent::SessionSealed(_) | ArenaEvent::SessionOpened(_) => Some(true),
        _ => None,
    })
}

fn told(event: &ArenaEvent) -> Option<SessionStatus> {
    match event {
        ArenaEvent::SessionSealed(data) => Some(SessionStatus::Sealed(data.cause)),
        ArenaEvent::SessionPaused(data) => Some(SessionStatus::Paused(data.cause)),
        ArenaEvent::TurnClosed(_) | ArenaEvent::SessionOpened(_) | ArenaEvent::TurnRewound(_) => {
            Some(SessionStatus::Ready)
        }
        _ => None,
    }
}

/// The last whole lines of a log, its chain unchecked.
fn end(log: &Path) -> std::io::Result<Vec<u8>> {
    last_lines(&host_files::open(log)?.ok_or_else(not_ordinary)?, END)
}

fn place(folder: &Path) -> PathBuf {
    folder.join("name")
}

/// The name a session was given.
pub fn name(folder: &Path) -> Option<String> {
    let text = std::fs::read_to_string(place(folder)).ok()?;
    let name = text.lines().next().unwrap_or_default().trim();
    (!name.is_empty() && name.len() <= MAX_NAME).then(|| name.to_owned())
}

/// Gives a session a name, or takes it away.
pub fn rename(folder: &Path, name: &str) -> std::io::Result<()> {
    let line = name.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return match std::fs::remove_file(place(folder)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let end = line.floor_char_boundary(MAX_NAME);
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(file, "{}", &line[..end])?;
    file.persist(place(folder)).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn standing(entries: &[Value]) -> SessionStatus {
        let file = tempfile::NamedTempFile::new().unwrap();
        let line = |(seq, event): (usize, &Value)| {
            let entry = json!({ "v": 2, "seq": seq, "at": 1, "events": [event] });
            format!("{entry}\n")
        };
        std::fs::write(file.path(), entries.iter().enumerate().map(line).collect::<String>()).unwrap();
        of(file.path())
    }

    #[test]
    fn a_session_that_was_ended_stands_as_its_last_turn_went() {
        let closed = |cause| json!({ "kind": "turn_closed", "data": { "turn": 1, "cause": cause } });
        let sealed = json!({ "kind": "session_sealed", "data": {
            "cause": "finished", "turns": 1, "tokens": 0, "micro_usd": 0
        } });
        let newer = json!({ "kind": "made_up_later", "data": {} });
        for (cause, word) in
            [("done", "done"), ("model_failed", "failed"), ("interrupted", "stopped"), ("limit", "limit")]
        {
            assert_eq!(standing(&[closed(cause), sealed.clone()]).words(), word, "{cause}");
        }
        assert_eq!(standing(&[closed("loop")]).words(), "failed");
        assert_eq!(standing(&[closed("done"), newer]).words(), "newer");
        assert_eq!(standing(&[]).words(), "");
    }
}

//! Takes turns back: their files by the trees that were recorded, their words by a fact, and such a step back as well.

mod words;

use std::path::PathBuf;

use super::{Handle, Host};
use crate::assembly::git_head::{MadeCommit, commits_within, git_head};
use crate::assembly::rewind::{self, ClosedSession, UndoPlan, WorkspaceStore};
use crate::assembly::{WireError, WorkspaceLock};
use crate::projection::turns::{Rewind, TurnRow};
use crate::projection::{Turns, phrases};
use crate::protocol::event::{FilesRewound, TurnRewound};
use crate::protocol::text::name_shown;
use crate::protocol::{ArenaEvent, Command, EventRef};

/// Paths that the log names at most.
const LOGGED: usize = 500;

/// Turns whose diffs are listed.
const LISTED: usize = 50;

/// What is to be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoWish {
    /// The first turn that is taken back, with all after it; the last one that is not taken back yet when absent.
    pub turn: Option<u32>,
    /// Take the last undo itself back.
    pub redo: bool,
    /// Take back what the turns changed in files.
    pub files: bool,
    /// Take back what was said.
    pub talk: bool,
    /// Take back files that were changed since as well.
    pub force: bool,
}

impl Default for UndoWish {
    /// Files and words of the last turn.
    fn default() -> Self {
        UndoWish { turn: None, redo: false, files: true, talk: true, force: false }
    }
}

/// What an undo does, or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undo {
    /// The session.
    pub session: String,
    /// The workspace.
    pub root: PathBuf,
    /// The turns, the oldest first.
    pub turns: Vec<TurnRow>,
    /// True when an undo is taken back.
    pub is_redo: bool,
    /// True when it does what an earlier undo could not do.
    pub completes: bool,
    /// What becomes of the files.
    pub plan: UndoPlan,
    /// True when the words are taken back.
    pub talk: bool,
    /// Files that changed since and that no tree has, which stay as they are: ignored ones, large ones.
    pub ignored: Vec<String>,
    /// Commits of the turns. References are never moved.
    pub commits: Vec<MadeCommit>,
    /// The commit to reset to, so that the commits are dropped; none where the head has moved on.
    pub reset_to: Option<String>,
    /// Commands that ran in the background and were ended first.
    pub stopped: Vec<String>,
    /// Paths that could not be changed, and why. The same undo again does what is missing.
    pub failed: Vec<(String, String)>,
    to: EventRef,
    /// True when files go back, if none as well.
    files: bool,
}

impl Undo {
    /// True when every path is as it was.
    pub fn is_whole(&self) -> bool {
        self.plan.left.is_empty() && self.failed.is_empty()
    }

    fn fact(&self) -> TurnRewound {
        let first = |paths: &[String]| paths.iter().take(LOGGED).cloned().collect();
        let diff = &self.plan.diff;
        let files = self.files.then(|| FilesRewound {
            from: diff.from.clone(),
            to: diff.to.clone(),
            count: diff.files.len() as u64,
            paths: first(&diff.files),
            left: first(&self.plan.left),
        });
        TurnRewound { to: self.to, talk: self.talk, files }
    }
}

/// What is taken back, before the workspace was looked at.
struct Target {
    turns: Vec<TurnRow>,
    to: EventRef,
    /// Trees before and after, the newest step first.
    steps: Vec<(String, String)>,
    talk: bool,
    files: bool,
    is_redo: bool,
    completes: bool,
}

impl Host {
    /// The turns of a recorded session and what was taken back of them.
    pub fn turns(&self, session: &str) -> Result<Turns, WireError> {
        let mut turns = Turns::default();
        let fault = self.sessions().scan(session, &mut |entry| {
            turns.apply(&entry);
            true
        })?;
        fault.map_or(Ok(turns), |fault| Err(fault.into()))
    }

    /// The turns, each with what it changed as a unified diff, the newest first, at most 50.
    pub async fn turns_with_diffs(&self, session: &str) -> Result<Vec<(TurnRow, String)>, WireError> {
        let store = rewind::workspace(self.sessions().state(), &self.sessions().home(session)?)?;
        let mut all = Vec::new();
        for row in self.turns(session)?.rows.into_iter().rev().take(LISTED) {
            let diff = match &row.trees {
                Some((before, after)) => {
                    let taken = store.diff_between(before, after).await;
                    taken.map_or_else(|why| why, |taken| taken.diff)
                }
                None => String::new(),
            };
            all.push((row, diff));
        }
        Ok(all)
    }

    /// What an undo would do. Nothing is changed.
    pub async fn plan_undo(&self, session: &str, wish: UndoWish) -> Result<Undo, WireError> {
        let id = self.sessions().find(session)?;
        let root = self.sessions().home(&id)?;
        let store = rewind::workspace(self.sessions().state(), &root)?;
        plan((id.clone(), root), &self.turns(&id)?, wish, &store).await
    }

    /// Takes turns back. It is written down before the first file is changed; what a full disk broke off, the same undo
    /// again completes. Refused while a turn is open here, and while another process has a session open in the workspace.
    pub async fn undo(&self, session: &str, wish: UndoWish) -> Result<Undo, WireError> {
        let id = self.sessions().find(session)?;
        let root = self.sessions().home(&id)?;
        self.check_alone(&id, &root)?;
        let store = rewind::workspace(self.sessions().state(), &root)?;
        if let Some(handle) = self.handle(&id) {
            return self.undo_open(&handle, (root, wish), &store).await;
        }
        let _lock = WorkspaceLock::take(self.sessions().state(), &root)?;
        let mut turns = Turns::default();
        let mut closed = ClosedSession::open(self.sessions().state(), &id, &mut |entry| turns.apply(entry))?;
        let undo = plan((id, root), &turns, wish, &store).await?;
        closed.end_turn(&store).await?;
        closed.record(vec![ArenaEvent::TurnRewound(undo.fact())]).await?;
        put(undo, &store).await
    }

    async fn undo_open(
        &self,
        handle: &Handle,
        (root, wish): (PathBuf, UndoWish),
        store: &WorkspaceStore,
    ) -> Result<Undo, WireError> {
        let refused = |why: String| WireError::Undo { why, hint: None };
        if handle.has_open_turn() {
            return Err(refused("a turn is open; interrupt it first".to_owned()));
        }
        let _held = handle.hold()?;
        let stopped = handle.stop_background().await.map_err(|error| refused(error.to_string()))?;
        let undo = plan((handle.id().to_owned(), root), &self.turns(handle.id())?, wish, store).await?;
        let taken = handle.command(Command::Rewind(undo.fact())).await;
        taken.map_err(|error| refused(error.to_string()))?;
        put(Undo { stopped, ..undo }, store).await
    }

    /// Refuses while another process has a session open in the workspace: it works on what it saw there.
    fn check_alone(&self, id: &str, root: &PathBuf) -> Result<(), WireError> {
        let here = |home: &Option<String>| home.as_ref().is_some_and(|home| root == home);
        let all = self.sessions().list()?;
        let Some(other) =
            all.iter().find(|row| row.id != id && here(&row.workspace) && row.standing.is_held())
        else {
            return Ok(());
        };
        let name = self.sessions().name_of(&other.id).map(|name| format!(" ({})", name_shown(&name)));
        Err(WireError::Undo {
            why: format!(
                "session {}{} is {} in `{}`",
                other.id,
                name.unwrap_or_default(),
                other.standing.words(),
                root.display()
            ),
            hint: Some("end it first, or undo there: /undo".to_owned()),
        })
    }
}

async fn plan(
    (session, root): (String, PathBuf),
    turns: &Turns,
    wish: UndoWish,
    store: &WorkspaceStore,
) -> Result<Undo, WireError> {
    let none = |why: &str| WireError::Undo { why: format!("session {session}: {why}"), hint: None };
    let target = target(turns, wish, store).await?.map_err(none)?;
    let plan = store.plan_undo(&target.steps, wish.force).await.map_err(WireError::Workspace)?;
    let commits = made(&target, &root);
    let reset_to = commits.first().and_then(|first| first.parent.clone());
    // Where another commit lies between them, going back would drop it too.
    let is_chain = commits.windows(2).all(|pair| pair[1].parent.as_ref() == Some(&pair[0].id));
    let is_last =
        git_head(&root).await.is_some_and(|head| commits.last().is_some_and(|last| last.id == head));
    let mut undo = Undo {
        session,
        root,
        is_redo: target.is_redo,
        completes: target.completes,
        plan,
        talk: target.talk,
        ignored: Vec::new(),
        reset_to: reset_to.filter(|_| is_last && is_chain),
        commits,
        stopped: Vec::new(),
        failed: Vec::new(),
        to: target.to,
        files: target.files,
        turns: target.turns,
    };
    undo.ignored = ignored(&undo, store).await?;
    Ok(undo)
}

fn made(target: &Target, root: &std::path::Path) -> Vec<MadeCommit> {
    let turns = target.turns.iter().filter(|_| !target.is_redo);
    let spans = |row: &TurnRow| -> Vec<(u64, u64)> {
        row.ran_at.values().map(|(from, to)| (*from, (*to).min(row.ended_at))).collect()
    };
    turns.flat_map(|row| commits_within(root, row.head.as_deref(), &spans(row))).collect()
}

async fn ignored(undo: &Undo, store: &WorkspaceStore) -> Result<Vec<String>, WireError> {
    let Some(since) = undo.turns.iter().filter(|row| row.touched).map(|row| row.began_at).min() else {
        return Ok(Vec::new());
    };
    let changed = store.changed_ignored(since).await.map_err(WireError::Workspace)?;
    let told = |path: &String| !undo.plan.diff.files.contains(path) && !undo.plan.left.contains(path);
    Ok(changed.into_iter().filter(told).collect())
}

async fn put(mut undo: Undo, store: &WorkspaceStore) -> Result<Undo, WireError> {
    undo.failed = rewind::put_back(store, &undo.root, undo.plan.changes.clone()).await?;
    Ok(undo)
}

/// Chooses what is taken back; an error says why there is nothing.
async fn target(
    turns: &Turns,
    wish: UndoWish,
    store: &WorkspaceStore,
) -> Result<Result<Target, &'static str>, WireError> {
    let last = turns.last_rewind();
    if wish.redo {
        let Some(rewind) = last else {
            return Ok(Err("no undo since the last task, so there is nothing to redo"));
        };
        return Ok(Ok(redone(turns, rewind)));
    }
    if let (None, Some(rewind), true) = (wish.turn, last, wish.files)
        && let Some(target) = unfinished(turns, rewind, store).await?
    {
        return Ok(Ok(target));
    }
    let is_back = |row: &&TurnRow| {
        let files = !wish.files || row.files_back.is_some();
        files && (!wish.talk || row.talk_back.is_some())
    };
    let first = match wish.turn {
        Some(number) => turns.rows.iter().position(|row| row.number == number),
        None => turns.rows.iter().rposition(|row| !is_back(&row)),
    };
    let Some((place, row)) = first.and_then(|place| Some((place, turns.rows.get(place)?))) else {
        return Ok(Err(match wish.turn {
            Some(_) => "it has no such turn",
            None => "nothing is left to undo",
        }));
    };
    let rows = turns.rows.get(place..).unwrap_or_default().iter();
    let rows: Vec<&TurnRow> = rows.filter(|row| wish.turn.is_some() || !is_back(row)).collect();
    let steps = rows.iter().rev().filter_map(|row| row.trees.clone()).filter(|_| wish.files);
    Ok(Ok(Target {
        to: row.prompt,
        steps: steps.collect(),
        talk: wish.talk && rows.iter().any(|row| row.talk_back.is_none()),
        files: wish.files,
        turns: rows.into_iter().cloned().collect(),
        is_redo: false,
        completes: false,
    }))
}

fn redone(turns: &Turns, rewind: &Rewind) -> Target {
    let rows = turns.rows.iter().filter(|row| row.prompt >= rewind.to);
    let steps = rewind.files.iter().map(|files| (files.from.clone(), files.to.clone()));
    Target {
        turns: rows.cloned().collect(),
        to: rewind.at,
        steps: steps.collect(),
        talk: rewind.talk,
        files: rewind.files.is_some(),
        is_redo: true,
        completes: false,
    }
}

/// The rest of the last undo, where some of its paths are still as they were before it.
async fn unfinished(
    turns: &Turns,
    rewind: &Rewind,
    store: &WorkspaceStore,
) -> Result<Option<Target>, WireError> {
    let Some(files) = &rewind.files else { return Ok(None) };
    let steps = vec![(files.to.clone(), files.from.clone())];
    let rest = store.plan_undo(&steps, false).await.map_err(WireError::Workspace)?;
    let rows = turns.rows.iter().filter(|row| row.prompt >= rewind.to);
    Ok((!rest.changes.is_empty()).then(|| Target {
        turns: rows.cloned().collect(),
        to: rewind.to,
        steps,
        talk: false,
        files: true,
        is_redo: false,
        completes: true,
    }))
}

/// A turn in one line: its number, its words, how many files it changed.
pub fn turn_line(row: &TurnRow) -> String {
    let back = match (row.files_back.is_some(), row.talk_back.is_some()) {
        (true, true) => " · undone",
        (true, false) => " · files undone",
        (false, true) => " · words undone",
        (false, false) => "",
    };
    format!("turn {}: {}{back}", row.number, phrases::start(&row.text, 60))
}

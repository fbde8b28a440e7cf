//! The turns of a session as an undo sees them: the trees each began and ended with, what ran, what was taken back.

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::effect::{Bare, Order};
use crate::protocol::event::{FilesRewound, TurnCause, TurnRewound};
use crate::protocol::spec::{Mode, Risk, Setting};
use crate::protocol::{ArenaEvent, CallId, Entry, EventRef};

/// Every turn, and the rewinds that can still be taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// The oldest first.
    pub rows: Vec<TurnRow>,
    /// Rewinds since the last prompt that were not taken back themselves, the oldest first.
    rewinds: Vec<Rewind>,
    /// The commit of the workspace as the settings name it.
    head: Option<String>,
    /// What prepared calls would do, until they run.
    prepared: BTreeMap<EventRef, Prepared>,
    /// The turn in which each open checkpoint was ordered.
    checkpoints: BTreeMap<CallId, usize>,
}

/// A call that may change files: its command line, or the files it would write.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Prepared {
    command: Option<String>,
    files: Vec<String>,
}

/// One turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnRow {
    /// Its number, from 1.
    pub number: u32,
    /// Its `prompt_given`.
    pub prompt: EventRef,
    /// What was asked.
    pub text: String,
    /// Who worked on it.
    pub mode: Mode,
    /// The commit the workspace was on when the session was opened or resumed last.
    pub head: Option<String>,
    /// When it was given, in microseconds since the Unix epoch.
    pub began_at: u64,
    /// The time of its newest entry.
    pub ended_at: u64,
    /// Why it ended; none while it is open.
    pub cause: Option<TurnCause>,
    /// The trees it began and ended with; none where nothing could change the workspace, or nothing was recorded.
    pub trees: Option<(String, String)>,
    /// The command lines that ran.
    pub commands: Vec<String>,
    /// When each call that may change files ran, in microseconds since the Unix epoch; one without an end until now.
    pub ran_at: BTreeMap<CallId, (u64, u64)>,
    /// The files that tools wrote.
    pub written: BTreeSet<String>,
    /// True when something changed or ran that may have changed files.
    pub touched: bool,
    /// The rewind that took its files back.
    pub files_back: Option<EventRef>,
    /// The rewind that took its words back.
    pub talk_back: Option<EventRef>,
}

/// One step back that can itself be taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewind {
    /// Its `turn_rewound`.
    pub at: EventRef,
    /// The prompt it went back to.
    pub to: EventRef,
    /// True when the conversations went back.
    pub talk: bool,
    /// How the files went back.
    pub files: Option<FilesRewound>,
}

impl Turns {
    /// Folds one entry.
    pub fn apply(&mut self, entry: &Entry) {
        for (at, event) in entry.effective() {
            self.apply_event((entry.at, at), event);
        }
        if let Some(row) = self.rows.last_mut().filter(|row| row.cause.is_none()) {
            row.ended_at = entry.at;
        }
    }

    /// True while a turn is open.
    pub fn has_open_turn(&self) -> bool {
        self.rows.last().is_some_and(|row| row.cause.is_none())
    }

    /// The newest rewind that can be taken back: no task was given since.
    pub fn last_rewind(&self) -> Option<&Rewind> {
        self.rewinds.last()
    }

    fn apply_event(&mut self, (time, at): (u64, EventRef), event: &ArenaEvent) {
        use ArenaEvent as E;
        for setting in event.changed() {
            if let Setting::Workspace(workspace) = setting {
                self.head.clone_from(&workspace.git_head);
            }
        }
        match event {
            E::SessionOpened(data) => self.head.clone_from(&data.spec.workspace.git_head),
            E::PromptGiven(data) => {
                self.rewinds.clear();
                self.rows.push(TurnRow {
                    number: self.rows.last().map_or(1, |row| row.number + 1),
                    prompt: at,
                    text: data.text.clone(),
                    mode: data.mode.clone(),
                    head: self.head.clone(),
                    began_at: time,
                    ended_at: time,
                    cause: None,
                    trees: None,
                    commands: Vec::new(),
                    ran_at: BTreeMap::new(),
                    written: BTreeSet::new(),
                    touched: false,
                    files_back: None,
                    talk_back: None,
                });
            }
            E::TurnOpened(data) => self.with_last(|row| row.number = data.turn),
            E::TurnClosed(data) => {
                self.prepared.clear();
                self.with_last(|row| row.cause = Some(data.cause));
            }
            E::EffectOrdered(data) if matches!(data.effect, Order::Checkpoint(Bare)) => {
                if let Some(last) = self.rows.len().checked_sub(1) {
                    self.checkpoints.insert(data.call, last);
                }
            }
            E::WorkspaceCheckpointed(data) => self.recorded(data.call, &data.body.tree),
            E::DiffTaken(data) => self.with_last(|row| row.recorded(&data.body.to)),
            E::ToolPrepared(_) => self.prepared(at, event),
            E::ToolInvoked(data) => {
                let ran = self.prepared.remove(&data.prepared);
                self.with_last(|row| {
                    row.ran_at.extend(ran.as_ref().map(|_| (data.call, (time, u64::MAX))));
                    row.ran(ran);
                });
            }
            E::ToolResolved(data) => self.with_last(|row| {
                row.ran_at.entry(data.call).and_modify(|(_, ended)| *ended = time);
            }),
            E::CheckRan(data) => self.with_last(|row| {
                row.ran(Some(Prepared { command: Some(data.body.command.clone()), files: Vec::new() }));
            }),
            E::PatchApplied(data) => self.with_last(|row| {
                row.touched = true;
                row.written.extend(data.body.paths.iter().cloned());
            }),
            E::TurnRewound(data) => self.rewound(at, data),
            _ => {}
        }
    }

    fn with_last(&mut self, change: impl FnOnce(&mut TurnRow)) {
        if let Some(row) = self.rows.last_mut() {
            change(row);
        }
    }

    /// A checkpoint that outlasts its turn is the end of that one and the beginning of the next.
    fn recorded(&mut self, call: CallId, tree: &str) {
        let ordered = self.checkpoints.remove(&call).unwrap_or(self.rows.len().saturating_sub(1));
        for row in self.rows.iter_mut().skip(ordered) {
            row.recorded(tree);
        }
    }

    fn prepared(&mut self, at: EventRef, event: &ArenaEvent) {
        let Some(plan) = event.plan().filter(|plan| plan.risk != Risk::Read) else { return };
        let command = plan.command().map(str::to_owned);
        let files = plan.paths().map(|base| base.path.clone());
        let files = if command.is_some() { Vec::new() } else { files.collect() };
        self.prepared.insert(at, Prepared { command, files });
    }

    fn rewound(&mut self, at: EventRef, data: &TurnRewound) {
        if let Some(place) = self.rewinds.iter().rposition(|rewind| rewind.at == data.to) {
            self.rewinds.truncate(place);
            for row in &mut self.rows {
                row.files_back = row.files_back.filter(|back| *back < data.to || data.files.is_none());
                row.talk_back = row.talk_back.filter(|back| *back < data.to || !data.talk);
            }
            return;
        }
        for row in self.rows.iter_mut().filter(|row| row.prompt >= data.to) {
            if data.files.is_some() {
                row.files_back.get_or_insert(at);
            }
            if data.talk {
                row.talk_back.get_or_insert(at);
            }
        }
        match (self.rewinds.last_mut(), &data.files) {
            // One that a full disk broke off, completed.
            (Some(last), Some(files)) if last.to == data.to && !data.talk && last.files.is_some() => {
                let known = last.files.get_or_insert_default();
                (known.to, known.count) = (files.to.clone(), known.count.max(files.count));
            }
            _ => {
                let (to, talk, files) = (data.to, data.talk, data.files.clone());
                self.rewinds.push(Rewind { at, to, talk, files });
            }
        }
    }
}

/// The entries whose words are taken back, for views that show them struck out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Struck(Vec<(u64, u64)>);

impl Struck {
    /// Folds one entry.
    pub fn apply(&mut self, entry: &Entry) {
        for (at, event) in entry.effective() {
            if let ArenaEvent::TurnRewound(TurnRewound { to, talk: true, .. }) = event {
                match self.0.iter().position(|(_, by)| *by == to.seq) {
                    Some(redone) => drop(self.0.remove(redone)),
                    None => self.0.push((to.seq, at.seq)),
                }
            }
        }
    }

    /// True for an entry between a prompt and the rewind to before it.
    pub fn covers(&self, seq: u64) -> bool {
        self.0.iter().any(|(from, by)| (*from..*by).contains(&seq))
    }

    /// Changes with every rewind.
    pub fn version(&self) -> u64 {
        self.0.iter().map(|(from, by)| from ^ (by << 32)).fold(self.0.len() as u64, u64::wrapping_add)
    }
}

impl TurnRow {
    /// What was taken back of it, and in which entry; none when nothing was.
    pub fn undone(&self) -> Option<String> {
        let back = |what: &str, at: EventRef| Some(format!("{what} taken back in {at}"));
        match (self.files_back, self.talk_back) {
            (Some(files), Some(talk)) if files == talk => back("files and words", talk),
            (Some(files), Some(talk)) => Some(format!("files taken back in {files}, words in {talk}")),
            (Some(files), None) => back("files", files),
            (None, Some(talk)) => back("words", talk),
            (None, None) => None,
        }
    }

    fn recorded(&mut self, tree: &str) {
        match &mut self.trees {
            Some((_, after)) => tree.clone_into(after),
            None => self.trees = Some((tree.to_owned(), tree.to_owned())),
        }
    }

    fn ran(&mut self, call: Option<Prepared>) {
        let Some(Prepared { command, files }) = call else { return };
        self.touched = true;
        self.commands.extend(command);
        self.written.extend(files);
    }
}

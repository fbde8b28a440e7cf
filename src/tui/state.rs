//! Everything the screen knows: the record, where somebody looks, what is written; does no I/O.

use std::time::Duration;

use crate::projection::board::OpenApproval;
use crate::projection::{Board, Costs};
use crate::protocol::spec::PermissionLevel;
use crate::protocol::{CallId, EventRef};

use super::composer::Composer;
use super::mode_request::ModeRequest;
use super::review::{Review, Sheet};
use super::session_view::{SessionView, Snapshot};
use super::theme::Theme;
use super::timeline::Timeline;
use super::view_model::ViewModel;
use super::{Question, TurnChoice};

/// What the screen is told of its surroundings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Name and version of the program.
    pub program: String,
    /// The workspace, as people write it.
    pub workspace: String,
    /// The same as programs write it.
    pub root: String,
    /// The model of a new session, when one was found.
    pub model: Option<String>,
    /// How that model was found.
    pub why: Option<String>,
    /// Why no work can begin here, and what helps.
    pub trouble: Option<Trouble>,
    /// Who answers approvals, for the audit.
    pub by: String,
    /// True for a view on a record: nothing can be asked of it.
    pub is_record: bool,
    /// The colours.
    pub theme: Theme,
    /// Nothing moves by itself.
    pub is_calm: bool,
    /// The model that was asked for by name: what is taken up goes on with it.
    pub wanted: Option<String>,
    /// The same of the sandbox: its kind.
    pub wanted_sandbox: Option<String>,
    /// The same of the persona.
    pub wanted_persona: Option<String>,
    /// The same of the permission level.
    pub wanted_level: Option<PermissionLevel>,
    /// The permission level of a new session.
    pub level: PermissionLevel,
    /// Models that can be named, for completion; a provider whose models are not known ends with a slash.
    pub models: Vec<String>,
}

/// Why no work can begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// What is missing.
    pub what: String,
    /// What helps, a line each.
    pub hints: Vec<String>,
}

/// A recorded session, as the list shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionRow {
    /// Its id.
    pub id: String,
    /// Its first task.
    pub prompt: String,
    /// The name a person gave it.
    pub name: Option<String>,
    /// How it stands, in a word or two; empty when that is not known.
    pub state: &'static str,
    /// Root of its workspace.
    pub workspace: String,
    /// Entries.
    pub entries: u64,
    /// Time of its newest entry, microseconds since the Unix epoch.
    pub newest_at: u64,
    /// What is wrong with it.
    pub fault: Option<String>,
}

/// A model, as the list shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelRow {
    /// `PROVIDER/MODEL`.
    pub name: String,
    /// Window, price and abilities in a few words.
    pub about: String,
}

/// Which part of the screen the keys go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pane {
    #[default]
    Composer,
    Timeline,
    Approval,
}

/// An earlier moment that is looked at.
#[derive(Debug)]
pub(super) struct Past {
    pub cut: u64,
    pub moment: Snapshot,
    pub play: Option<Play>,
}

/// A record that is played.
#[derive(Clone, Copy, Debug)]
pub(super) struct Play {
    /// How fast, in quarters of how it went.
    pub speed: u32,
    /// When the entry that is seen came up, by the clock of the person.
    pub since: u64,
}

impl Play {
    /// The speed at which it went.
    pub const AS_IT_WENT: u32 = 4;

    /// The speed as it is shown: `½`, `16`.
    pub fn words(self) -> String {
        match self.speed {
            0 | 1 => "¼".to_owned(),
            2 | 3 => "½".to_owned(),
            quarters => (quarters / Play::AS_IT_WENT).to_string(),
        }
    }
}

/// How an open approval is being answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Asking {
    /// The ask that is looked at.
    pub call: Option<CallId>,
    /// When it came up.
    pub since: u64,
    pub scroll: usize,
    /// The answer that Enter would give.
    pub armed: Option<Armed>,
    /// The answer is on its way; it is not asked for twice.
    pub is_sent: bool,
    /// Why not, while it is being written.
    pub reason: String,
    /// The rule, while it is being written.
    pub rule: Composer,
    /// How long the rule is to hold.
    pub lasts: crate::tui::rule::Lasts,
    /// Why the rule was not taken.
    pub fault: Option<String>,
    /// Lines of the preview and lines of its window, as drawn last.
    pub drawn: std::cell::Cell<(usize, usize)>,
    /// The end of the preview has been on the screen.
    pub is_seen: std::cell::Cell<bool>,
}

/// An answer that waits for Enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Armed {
    Once,
    Session,
    Rule,
    Deny,
}

/// What lies over the screen.
#[derive(Debug)]
pub(super) enum Overlay {
    Help {
        scroll: usize,
    },
    Events(Events),
    Inspect {
        at: EventRef,
        scroll: usize,
    },
    Sessions(Sessions),
    Pick(Picker),
    /// The turns that can be gone back to before.
    Turns(TurnList),
    Jump(String),
    Cost {
        scroll: usize,
    },
    Context {
        scroll: usize,
    },
    /// With how many phases it is moved back from the newest.
    Matrix {
        scroll: usize,
        back: usize,
    },
    /// What a squad proposed: the keys go to its pane, or it takes the whole screen.
    Review {
        is_whole: bool,
    },
    /// What the whole session changed.
    Changes(Box<Sheet>),
    /// The question whether to fork after this entry.
    Fork {
        seq: u64,
    },
    Consent(Asked),
    Find(Find),
    Quit,
}

/// Words that are looked for in the story.
#[derive(Debug, Default)]
pub(super) struct Find {
    pub words: String,
    /// Where it began: only what is before is looked through first.
    pub from: usize,
    /// The item that was found last.
    pub at: Option<usize>,
    /// Nothing more was found in that direction.
    pub is_missed: bool,
}

/// A question before a session is opened.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub question: Question,
    /// The answer as far as it is written.
    pub word: String,
    /// Whether all of the question is on the screen: no other is answered with yes.
    pub is_whole: std::cell::Cell<bool>,
}

/// The list of events.
#[derive(Debug)]
pub(super) struct Events {
    pub chosen: EventRef,
    /// What was chosen before the filter was changed: the nearest that fits is chosen.
    pub origin: EventRef,
    /// Only rows that contain these words.
    pub filter: String,
    pub is_typing: bool,
}

/// The list of sessions.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    pub search: String,
    pub chosen: usize,
    /// The session that Enter would remove.
    pub doomed: Option<String>,
    /// The session that gets another name, and the name so far.
    pub naming: Option<(String, String)>,
}

/// What a list offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PickerKind {
    #[default]
    Models,
    /// What was written before.
    History,
}

/// A list from which one is picked.
#[derive(Debug, Default)]
pub(super) struct Picker {
    pub kind: PickerKind,
    pub search: String,
    pub chosen: usize,
}

/// The list of turns.
#[derive(Debug, Default)]
pub(super) struct TurnList {
    pub chosen: usize,
    /// How far the diff of the chosen one is scrolled.
    pub scroll: usize,
}

/// Everything the screen knows. Only [`update`](super::update) changes it.
#[derive(Debug, Default)]
pub struct State {
    pub(super) profile: Profile,
    pub(super) size: (u16, u16),
    pub(super) now: u64,
    pub(super) record: SessionView,
    pub(super) is_live: bool,
    /// Another process runs the session.
    pub(super) is_elsewhere: bool,
    pub(super) past: Option<Past>,
    pub(super) story: Timeline,
    pub(super) review: Review,
    pub(super) pane: Pane,
    pub(super) composer: Composer,
    pub(super) asking: Asking,
    pub(super) overlays: Vec<Overlay>,
    /// What is wrong with the record: it stands on the screen.
    pub(super) fault: Option<String>,
    pub(super) sessions: Option<Vec<SessionRow>>,
    /// What the providers list; none until they were asked.
    pub(super) models: Option<Vec<ModelRow>>,
    /// The turns of the session; none until they were asked for.
    pub(super) turns: Option<Vec<TurnChoice>>,
    pub(super) note: Option<Note>,
    /// Who works on the tasks to come.
    pub(super) wish: ModeRequest,
    /// What is being done with sessions just now, in words.
    pub(super) busy: Option<String>,
    /// The moment that is looked at once the session is there.
    pub begin_at: Option<u64>,
    /// What the screen begins with, once nothing is being opened.
    pub(super) beginning: Option<Beginning>,
    /// The person looks at another window.
    pub(super) is_unseen: bool,
    /// Ctrl-C was pressed with nothing left to clear.
    pub(super) is_leaving: bool,
    pub(super) theme: Theme,
    pub(super) is_dirty: bool,
    /// How far what lies over the screen can be scrolled, as drawn last.
    pub(super) most: std::cell::Cell<usize>,
    /// How many phases of a debate lie before those that have room, as drawn last.
    pub(super) farthest: std::cell::Cell<usize>,
    /// What was proposed was drawn beside the story last.
    pub(super) has_review: std::cell::Cell<bool>,
}

/// What a screen begins with by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// What is written is sent.
    Send,
    /// A session is chosen from the list.
    Choose,
}

/// Something that was told.
#[derive(Debug)]
pub(super) struct Note {
    pub text: String,
    /// Until when it stays.
    pub until: u64,
    /// It is about the open turn, and goes with it.
    pub is_of_turn: bool,
}

/// How long a note stays, in microseconds.
pub(super) const NOTE: u64 = 6_000_000;

/// How long it stays at least, whatever is pressed.
pub(super) const NOTE_READ: u64 = 1_500_000;

impl State {
    /// A screen of a size that has seen nothing yet.
    pub fn new(profile: Profile, columns: u16, rows: u16) -> Self {
        let pane = if profile.is_record { Pane::Timeline } else { Pane::Composer };
        let theme = profile.theme;
        let mut state = State::default();
        state.composer.values.models =
            profile.models.iter().map(|model| (model.clone(), String::new())).collect();
        State { profile, size: (columns, rows), pane, theme, is_dirty: true, ..state }
    }

    /// Begins with a task, which is text whatever it begins with, or with the list of sessions.
    pub fn begin(&mut self, task: Option<&str>, chooses: bool) {
        self.composer.paste(task.unwrap_or_default());
        self.beginning = match task {
            Some(_) => Some(Beginning::Send),
            None => chooses.then_some(Beginning::Choose),
        };
    }

    /// True when the screen looks different from what was drawn last; asking makes it false.
    pub fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.is_dirty)
    }

    /// How soon time has to come by again; none while nothing moves.
    pub fn wants_tick(&self) -> Option<Duration> {
        let board = &self.record.now.board;
        let works = self.is_live && board.sparks.iter().any(|row| board.is_busy(row.spark));
        if self.past.as_ref().is_some_and(|past| past.play.is_some()) {
            return Some(Duration::from_millis(33));
        }
        match (works, self.note.is_some()) {
            (true, _) if !self.profile.is_calm => Some(Duration::from_millis(125)),
            (true, _) | (_, true) => Some(Duration::from_secs(1)),
            _ => None,
        }
    }

    /// True while a turn runs in this process.
    pub fn is_working(&self) -> bool {
        self.is_live && self.record.now.board.has_open_turn()
    }

    /// True for a turn that nobody works on: its process is gone, or it was forked and not gone on with.
    pub(super) fn is_left_open(&self) -> bool {
        !self.is_live && !self.is_elsewhere && self.record.now.board.has_open_turn()
    }

    /// True when the log holds kinds of events that a newer program wrote: it can be read only.
    pub(super) fn is_newer(&self) -> bool {
        self.record.now.board.counts.unknown > 0
    }

    /// The approval that is being looked at.
    pub(super) fn asked(&self) -> Option<&OpenApproval> {
        self.record.now.board.approvals.iter().find(|open| Some(open.call) == self.asking.call)
    }

    /// True while something waits for the answer of this person.
    pub(super) fn is_asked(&self) -> bool {
        self.is_live && !self.record.now.board.approvals.is_empty() && !self.asking.is_sent
    }

    /// The position of the entry to come.
    pub fn next_seq(&self) -> u64 {
        self.record.next()
    }

    /// What the session is at.
    pub fn board(&self) -> &Board {
        &self.record.now.board
    }

    /// What it has cost.
    pub fn costs(&self) -> &Costs {
        &self.record.now.costs
    }

    pub(super) fn scene(&self) -> ViewModel<'_> {
        let (moment, cut) = match &self.past {
            Some(past) => (&past.moment, Some(past.cut)),
            None => (&self.record.now, None),
        };
        let is_now = self.past.is_none() && self.is_live;
        let now = if is_now { self.now.max(moment.board.at) } else { moment.board.at };
        let beat = if is_now && !self.profile.is_calm { self.now / 125_000 } else { 0 };
        let is_left = self.past.is_none() && self.is_left_open();
        ViewModel { record: &self.record, moment, cut, theme: self.theme, now, beat, is_left }
    }

    pub(super) fn set_mode(&mut self, wish: ModeRequest) {
        let flags = wish.flags.iter().map(|flag| format!(" {flag}")).collect::<String>();
        self.tell(format!("{}{flags} works on what you write from now on", wish.worker.word()));
        self.wish = wish;
    }

    pub(super) fn tell(&mut self, text: impl Into<String>) {
        self.note = Some(Note { text: text.into(), until: self.now + NOTE, is_of_turn: false });
    }

    /// Tells something that is over with the turn.
    pub(super) fn tell_of_turn(&mut self, text: impl Into<String>) {
        self.note = Some(Note { text: text.into(), until: self.now + NOTE, is_of_turn: true });
    }

    /// What is told just now: what is being done goes before what was done.
    pub(super) fn told(&self) -> Option<&str> {
        self.busy.as_deref().or(self.note.as_ref().map(|note| note.text.as_str()))
    }

    /// Looks at the moment after an entry; the newest one is the present.
    pub(super) fn travel(&mut self, seq: u64) {
        let Some(last) = self.record.last() else { return };
        let play = self.past.as_ref().and_then(|past| past.play);
        if seq >= last && (self.is_live || play.is_none()) {
            self.past = None;
            self.story.anchor = None;
            return;
        }
        let seq = seq.min(last);
        let next = self.past.take().filter(|past| past.cut + 1 == seq);
        let moment = match next {
            Some(mut past) => {
                if let Some(entry) = self.record.entry(seq) {
                    past.moment.apply(entry);
                }
                past.moment
            }
            None => self.record.moment(seq),
        };
        self.past = Some(Past { cut: seq, moment, play });
        self.story.anchor = None;
    }

    /// The entry that is seen last.
    pub(super) fn seen(&self) -> Option<u64> {
        self.past.as_ref().map(|past| past.cut).or_else(|| self.record.last())
    }
}

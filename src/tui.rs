//! Mission control: a screen on one session. Reads projections, emits commands; never sees `session` or an adapter.
//!
//! [`update`] turns a [`Msg`] into changes of the [`State`] and into [`Act`]s for whoever runs the screen, without
//! any I/O; [`draw`] lays the state out. A live session and a recorded one are the same view.

mod composer;
mod diff;
mod draw;
mod highlight;
mod keys;
mod level;
mod markdown;
mod mode_request;
mod review;
mod rule;
pub mod screen;
mod session_view;
mod slash;
mod state;
mod text;
mod theme;
mod timeline;
mod update;
mod view_model;

use std::sync::Arc;

use ratatui::crossterm::event::KeyEvent;

use crate::host::UndoWish;
use crate::protocol::spec::PermissionLevel;
use crate::protocol::{Command, Entry, Signal, SparkId};

pub use draw::draw;
pub use keys::{KEYS, KeyRow};
pub use level::{accepted, named as parse_level};
pub use mode_request::{ModeRequest, Worker, limits as parse_limits};
pub use rule::{read as read_rule, text as rule_text};
pub use session_view::{EntrySource, SessionView};
pub use slash::{INIT_TASK, Order, SLASHES, Slash, parse as parse_slash};
pub use state::{ModelRow, Profile, SessionRow, State, Trouble};
pub use theme::Theme;
pub use update::{undo_wish, update};

/// Everything that can reach the screen.
#[derive(Debug)]
pub enum Msg {
    /// A key was pressed.
    Key(KeyEvent),
    /// The mouse wheel turned by a line: an arrow key to whatever chooses by arrows, else the story moves.
    Wheel(KeyEvent),
    /// A block was pasted: text, never keys.
    Paste(String),
    /// The terminal has another size: columns, rows.
    Resize(u16, u16),
    /// The next entry of the session.
    Entry(Arc<Entry>),
    /// A live piece of a running call.
    Signal(Signal),
    /// The terminal has the person's attention, or no longer.
    Focus(bool),
    /// Time, in microseconds since the Unix epoch.
    Tick(u64),
    /// Another session is looked at, folded already: whole, or its end while the rest is being counted.
    SessionView {
        /// What was read.
        record: Box<SessionView>,
        /// True while this process runs it.
        is_live: bool,
        /// True while another process runs it.
        is_elsewhere: bool,
    },
    /// The running session came to its end; the record stays.
    Ended,
    /// The recorded sessions, newest first.
    Sessions(Vec<SessionRow>),
    /// The models that the providers within reach list.
    Models(Vec<ModelRow>),
    /// The turns of the session on the screen, the newest first.
    Turns(Vec<TurnChoice>),
    /// Files of the workspace, for completion.
    Files(Vec<String>),
    /// Tasks of earlier sessions, oldest first.
    History(Vec<String>),
    /// A person's own command ran.
    Ran {
        /// The command.
        command: String,
        /// What it printed.
        output: String,
        /// Its exit code; none when something else ended it.
        exit: Option<i32>,
    },
    /// The text as it was left in the editor.
    Edited(String),
    /// The personas, for completion: id and what it is.
    Personas(Vec<(String, String)>),
    /// What the screen should know of its surroundings.
    Profile(Box<Profile>),
    /// Who works on the tasks to come.
    Mode(ModeRequest),
    /// A longer piece of work on sessions began, in words, or ended.
    Busy(Option<String>),
    /// What was written could not be done, and why: it goes back to where it was written.
    Refused {
        /// The text as it was written.
        text: String,
        /// Why not.
        why: String,
    },
    /// Before a session is opened the person decides something ([`Act::Consent`]).
    Asked(Question),
    /// What is wrong with the record that is shown; it stands on the screen.
    Fault(String),
    /// Something to tell the person.
    Log(String),
}

/// A turn that can be gone back to before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnChoice {
    /// Its number.
    pub number: u32,
    /// What it was, on one line.
    pub title: String,
    /// What it changed, as a unified diff.
    pub diff: String,
}

/// A question that only a whole `yes` answers with yes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// What it is about.
    pub title: String,
    /// What the points are.
    pub intro: String,
    /// What there is to know.
    pub points: Vec<String>,
    /// The question itself.
    pub question: String,
}

/// What the screen wants done by whoever runs it.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Gives the next task: to the running session, or to one that is opened or taken up for it.
    Prompt {
        /// The task.
        text: String,
        /// Who works on it.
        wish: ModeRequest,
        /// What was written, to be given back when it is refused.
        written: String,
        /// True when it is meant for the turn under way, and a task only if that has ended.
        steers: bool,
        /// The subagent it is said to; none for the agent the person talks with.
        to: Option<SparkId>,
    },
    /// Lets others work on the tasks to come, once the flags are found good.
    Mode(ModeRequest),
    /// Hands a command to the running session.
    Submit(Command),
    /// Hands in an answer that grants a rule, and keeps the rule once it was taken.
    Keep {
        /// The answer.
        answer: Command,
        /// True for every workspace, false for this one.
        everywhere: bool,
    },
    /// Answers [`Msg::Asked`].
    Consent(bool),
    /// Leaves this session for a new one.
    New,
    /// Looks at another session.
    Open(String),
    /// Removes a session with its log.
    Remove(String),
    /// Reads the list of sessions.
    List,
    /// Reads the names of the workspace's files.
    Files,
    /// Reads the personas there are.
    Personas,
    /// Goes on with the turn that the session on the screen was left with.
    GoOn,
    /// Copies a session up to an entry, its last when absent, and shows the copy; nothing runs in it yet.
    Fork {
        /// The session; the one on the screen when absent.
        id: Option<String>,
        /// The entry.
        seq: Option<u64>,
    },
    /// Takes turns of the session on the screen back.
    Undo(UndoWish),
    /// Reads the turns of the session on the screen and what each changed.
    Turns,
    /// Asks the providers which models there are.
    Models,
    /// Uses another model from the next call on.
    Model(String),
    /// Works as another persona from the next call on.
    Persona(String),
    /// Adds the rules of a policy file from the next call on.
    Policy(String),
    /// Confines the tools otherwise from the next task on.
    Sandbox(String),
    /// Sets the permission level from the next call on.
    Permission(PermissionLevel),
    /// Raises the level, then gives the task that carries out a plan.
    Accept {
        /// The level.
        level: PermissionLevel,
        /// An [`Act::Prompt`].
        task: Box<Act>,
    },
    /// Lets models think this much.
    Effort(String),
    /// Sets limits from the next call on; flags as they were typed.
    Limits(Vec<String>),
    /// Gives a recorded session a name of its own.
    Rename {
        /// The session.
        id: String,
        /// The name; empty takes it away.
        name: String,
    },
    /// Puts a text on the clipboard of the terminal.
    Copy(String),
    /// Runs a demo: `run`, `squad` or `debate`.
    Demo(String),
    /// Runs a person's own command in the sandbox; what comes of it is [`Msg::Ran`].
    Shell(String),
    /// Opens the person's editor on a text; what comes of it is [`Msg::Edited`].
    Edit(String),
    /// Rings the bell.
    Bell,
    /// Tells of something on the desktop, for a person who looks elsewhere.
    Notify(String),
    /// Draws everything again.
    Redraw,
    /// Hands the terminal back to the shell until the program is continued.
    Suspend,
    /// Leaves the screen for the question of `agon init`, and comes back.
    SetUp,
    /// Leaves.
    Quit,
}

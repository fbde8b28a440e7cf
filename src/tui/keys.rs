//! The keys, once: what help shows and what `update` obeys.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Where a key means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyContext {
    Anywhere,
    Composer,
    Timeline,
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Do {
    Send,
    NewLine,
    Interrupt,
    Leave,
    LeaveIfEmpty,
    History,
    Edit,
    NextPane,
    Help,
    Find,
    Events,
    Sessions,
    Redraw,
    Suspend,
    PageUp,
    PageDown,
    LineUp,
    LineDown,
    Start,
    End,
    PromptBack,
    PromptForward,
    StepBack,
    StepForward,
    Jump,
    Play,
    Slower,
    Faster,
    Fork,
    Live,
    Open,
    Unfold,
    Copy,
    NextSpark,
    Matrix,
    Level,
    Review,
    Write,
}

/// A key with its modifiers.
#[derive(Clone, Copy, Debug)]
struct Chord(KeyCode, KeyModifiers);

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct KeyRow {
    /// As it is written in help.
    pub keys: &'static str,
    /// What it does; empty for another key of the row above.
    pub help: &'static str,
    pub(super) place: KeyContext,
    chord: Chord,
    what: Do,
}

const fn row(place: KeyContext, keys: &'static str, code: KeyCode, what: Do, help: &'static str) -> KeyRow {
    KeyRow { keys, help, place, chord: Chord(code, KeyModifiers::NONE), what }
}

const fn ctrl(place: KeyContext, keys: &'static str, c: char, what: Do, help: &'static str) -> KeyRow {
    KeyRow { keys, help, place, chord: Chord(KeyCode::Char(c), KeyModifiers::CONTROL), what }
}

const fn alt(place: KeyContext, keys: &'static str, code: KeyCode, what: Do, help: &'static str) -> KeyRow {
    KeyRow { keys, help, place, chord: Chord(code, KeyModifiers::ALT), what }
}

use KeyCode as K;
use KeyContext::{Anywhere, Composer, Timeline};

/// Every key, in the order of the help.
pub const KEYS: &[KeyRow] = &[
    row(Composer, "Enter", K::Enter, Do::Send, "Send; while agents work, message them"),
    alt(
        Composer,
        "Alt-Enter",
        K::Enter,
        Do::NewLine,
        "New line, also Shift-Enter, Ctrl-J, or \\ before Enter",
    ),
    ctrl(Composer, "Ctrl-J", 'j', Do::NewLine, ""),
    row(Composer, "Esc", K::Esc, Do::Interrupt, "Clear what is written, then interrupt what runs"),
    ctrl(Composer, "Ctrl-R", 'r', Do::History, "Search what was written before"),
    ctrl(Composer, "Ctrl-G", 'g', Do::Edit, "Write in your editor"),
    ctrl(Composer, "Ctrl-D", 'd', Do::LeaveIfEmpty, "Leave, when nothing is written"),
    row(Anywhere, "Tab", K::Tab, Do::NextPane, "Go between writing, the story and what waits for an answer"),
    row(Anywhere, "Shift-Tab", K::BackTab, Do::Level, "Next permission level: plan, ask, edits, auto"),
    row(Anywhere, "PgUp PgDn", K::PageUp, Do::PageUp, "Scroll"),
    row(Anywhere, "PgDn", K::PageDown, Do::PageDown, ""),
    ctrl(Anywhere, "Ctrl-F", 'f', Do::Find, "Find words in the story"),
    ctrl(Anywhere, "Ctrl-T", 't', Do::Events, "Every event"),
    ctrl(Anywhere, "Ctrl-O", 'o', Do::Sessions, "Sessions"),
    ctrl(Anywhere, "Ctrl-C", 'c', Do::Leave, "Clear or interrupt; twice, leave"),
    ctrl(Anywhere, "Ctrl-L", 'l', Do::Redraw, "Draw everything again"),
    ctrl(Anywhere, "Ctrl-Z", 'z', Do::Suspend, "Back to the shell for a while"),
    row(Anywhere, "F1", K::F(1), Do::Help, "This help, also ? in the story"),
    row(Timeline, "?", K::Char('?'), Do::Help, ""),
    row(Timeline, "↑ ↓", K::Up, Do::LineUp, "One line, also k and j"),
    row(Timeline, "k", K::Char('k'), Do::LineUp, ""),
    row(Timeline, "↓", K::Down, Do::LineDown, ""),
    row(Timeline, "j", K::Char('j'), Do::LineDown, ""),
    row(Timeline, "Home End", K::Home, Do::Start, "Beginning and end"),
    row(Timeline, "End", K::End, Do::End, ""),
    row(Timeline, "G", K::Char('G'), Do::End, ""),
    row(Timeline, "{ }", K::Char('{'), Do::PromptBack, "Task before, task after"),
    row(Timeline, "}", K::Char('}'), Do::PromptForward, ""),
    row(Timeline, "o", K::Char('o'), Do::Unfold, "Unfold everything, fold it again"),
    row(Timeline, "s", K::Char('s'), Do::NextSpark, "Follow the next spark, then all"),
    row(Timeline, "m", K::Char('m'), Do::Matrix, "The matrix of a debate"),
    row(
        Timeline,
        "d",
        K::Char('d'),
        Do::Review,
        "What a squad proposed, or this session changed; again: whole screen",
    ),
    row(Timeline, "Enter", K::Enter, Do::Open, "Open what is on top, exactly as agon made it"),
    row(Timeline, "y", K::Char('y'), Do::Copy, "Copy the last answer"),
    row(Timeline, "[ ]", K::Char('['), Do::StepBack, "One entry back in time, one forward"),
    row(Timeline, "]", K::Char(']'), Do::StepForward, ""),
    row(Timeline, "g", K::Char('g'), Do::Jump, "Jump to an entry by its number"),
    row(Timeline, "r", K::Char('r'), Do::Play, "Play, pause"),
    row(Timeline, "- +", K::Char('-'), Do::Slower, "Slower, faster"),
    row(Timeline, "+", K::Char('+'), Do::Faster, ""),
    row(Timeline, "f", K::Char('f'), Do::Fork, "Fork here; Enter does it"),
    row(Timeline, "Esc", K::Esc, Do::Live, "Back to now, then to writing"),
    row(Timeline, "i", K::Char('i'), Do::Write, ""),
];

/// What a key does in a place.
pub(super) fn find(place: KeyContext, key: KeyEvent) -> Option<Do> {
    let held = key.modifiers.difference(KeyModifiers::SHIFT);
    let fits = |row: &&KeyRow| row.chord.0 == key.code && row.chord.1 == held;
    let here = KEYS.iter().filter(|row| row.place == place).find(fits);
    here.or_else(|| KEYS.iter().filter(|row| row.place == KeyContext::Anywhere).find(fits))
        .map(|row| row.what)
}

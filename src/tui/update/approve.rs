//! Answers approvals: two deliberate keys, never one; the answer binds to what was on screen.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::protocol::{Choice, Command};

use crate::projection::board::OpenApproval;
use crate::tui::Act;
use crate::tui::state::{Armed, Asking, Pane, State};

/// Microseconds in which a key that was meant for elsewhere may still arrive.
const GRACE: u64 = 400_000;

/// True when an approval can be answered here and now.
pub(super) fn is_open(state: &State) -> bool {
    let waits = !state.record.now.board.approvals.is_empty();
    state.is_live && state.past.is_none() && waits && !state.asking.is_sent
}

/// Brings the oldest open approval up, and the keys to it when nothing is being written.
pub(super) fn look(state: &mut State) {
    let open = &state.record.now.board.approvals;
    let known = open.iter().any(|approval| Some(approval.call) == state.asking.call);
    if !known {
        let next = open.first().map(|approval| approval.call);
        state.asking = Asking { call: next, since: state.now, ..Asking::default() };
        let is_free = state.composer.is_empty() && state.overlays.is_empty() && state.past.is_none();
        if next.is_some() && is_free && state.is_live {
            state.pane = Pane::Approval;
        }
    }
    if !is_open(state) && state.pane == Pane::Approval {
        state.pane = Pane::Composer;
    }
}

/// The approval that is shown.
pub(super) fn current(state: &State) -> Option<&OpenApproval> {
    state.record.now.board.approvals.iter().find(|open| Some(open.call) == state.asking.call)
}

/// Takes a key; false when it belongs to somebody else.
pub(super) fn press(state: &mut State, key: KeyEvent, acts: &mut Vec<Act>) -> bool {
    if !is_open(state) {
        state.pane = Pane::Composer;
        return false;
    }
    let held = key.modifiers.difference(KeyModifiers::SHIFT);
    if state.asking.armed == Some(Armed::Deny) && deny_text(state, key, held) {
        return true;
    }
    match key.code {
        KeyCode::Up | KeyCode::Char('k') => scroll(state, -1),
        KeyCode::Down | KeyCode::Char('j') => scroll(state, 1),
        KeyCode::PageUp => scroll(state, -(state.asking.drawn.get().1 as isize)),
        KeyCode::PageDown => scroll(state, state.asking.drawn.get().1 as isize),
        KeyCode::Char('h') if held.is_empty() => next(state),
        KeyCode::Esc if state.asking.armed.take().is_none() => state.pane = Pane::Story,
        KeyCode::Esc => {}
        KeyCode::Enter => confirm(state, acts),
        KeyCode::Char(c @ ('y' | 's' | 'n')) if held.is_empty() && is_first(state) => arm(state, c),
        KeyCode::Char(c) if held.is_empty() => hand_over(state, c),
        _ => return false,
    }
    true
}

/// A second letter is the second letter of a word, not another answer; one that comes too soon was meant for elsewhere.
fn is_first(state: &State) -> bool {
    state.asking.armed.is_none() && state.now >= state.asking.since + GRACE
}

fn arm(state: &mut State, c: char) {
    state.asking.reason.clear();
    state.asking.armed = Some(match c {
        'y' => Armed::Once,
        's' => Armed::Session,
        _ => Armed::Deny,
    });
}

/// A letter that means nothing here begins a text: it goes to the composer, with the one that seemed to be an answer.
fn hand_over(state: &mut State, c: char) {
    let armed = match state.asking.armed.take() {
        Some(Armed::Once) => "y",
        Some(Armed::Session) => "s",
        _ => "",
    };
    state.pane = Pane::Composer;
    state.composer.insert(&format!("{armed}{c}"));
}

/// While denying, letters are the reason.
fn deny_text(state: &mut State, key: KeyEvent, held: KeyModifiers) -> bool {
    match key.code {
        KeyCode::Char(c) if held.is_empty() => state.asking.reason.push(c),
        KeyCode::Backspace => drop(state.asking.reason.pop()),
        _ => return false,
    }
    true
}

fn scroll(state: &mut State, by: isize) {
    let (lines, height) = state.asking.drawn.get();
    let most = lines.saturating_sub(height);
    state.asking.scroll = state.asking.scroll.saturating_add_signed(by).min(most);
}

/// Looks at the next approval of the queue.
fn next(state: &mut State) {
    let open = &state.record.now.board.approvals;
    let at = open.iter().position(|approval| Some(approval.call) == state.asking.call).unwrap_or(0);
    if let Some(next) = open.get((at + 1) % open.len().max(1)) {
        state.asking = Asking { call: Some(next.call), ..Asking::default() };
    }
}

fn confirm(state: &mut State, acts: &mut Vec<Act>) {
    let choice = match state.asking.armed {
        Some(Armed::Once) => Choice::Once,
        Some(Armed::Session) => Choice::Session,
        Some(Armed::Deny) => Choice::Deny(state.asking.reason.trim().to_owned()),
        None => return,
    };
    let Some(open) = current(state) else { return };
    let (call, digest, by) = (open.call, open.digest.clone(), state.profile.by.clone());
    acts.push(Act::Submit(Command::Answer { call, digest, choice, by }));
    state.asking.armed = None;
    state.asking.is_sent = true;
    state.pane = Pane::Composer;
}

/// An answer that was not taken can be given again.
pub(super) fn refused(state: &mut State) {
    state.asking.is_sent = false;
}

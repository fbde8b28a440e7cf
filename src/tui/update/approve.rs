//! Answers approvals: two deliberate keys, never one; the answer binds to what was on screen.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::protocol::event::Plan;
use crate::protocol::spec::Rule;
use crate::protocol::{Choice, Command};

use crate::projection::board::OpenApproval;
use crate::tui::composer::Composer;
use crate::tui::draw::approval::page;
use crate::tui::rule::Lasts;
use crate::tui::state::{Armed, Asking, Pane, State};
use crate::tui::text::clean_line;
use crate::tui::{Act, rule};

use super::compose;

/// Microseconds in which a key that was meant for elsewhere may still arrive.
const GRACE: u64 = 400_000;

/// True when an approval can be answered here and now.
pub(super) fn is_open(state: &State) -> bool {
    state.is_asked() && state.past.is_none()
}

/// True for a text that was hardly meant for a model while something waits: the letters of an answer.
fn looks_like_an_answer(text: &str) -> bool {
    let text = text.trim().to_lowercase();
    let is_letters = (1..=3).contains(&text.len()) && text.chars().all(|c| "ysrn".contains(c));
    is_letters || ["yes", "no", "session", "rule", "ok"].contains(&text.as_str())
}

/// Keeps an answer that was written where messages are written from being sent to the model, and brings the keys to what
/// waits; it answers nothing by itself. True when it did.
pub(super) fn catch(state: &mut State) -> bool {
    let is_caught = is_open(state) && looks_like_an_answer(&state.composer.text);
    if is_caught {
        state.composer.clear();
        state.pane = Pane::Approval;
        state.tell("not sent to the model and not answered yet: y, s, r or n, then Enter");
    }
    is_caught
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

/// Brings the keys to what waits, for somebody who comes back to it.
pub(super) fn come_back(state: &mut State) {
    if is_open(state) && state.composer.is_empty() {
        state.pane = Pane::Approval;
        state.asking.since = state.now;
    }
}

/// Takes back an answer that Enter would have given; false when there is none.
pub(super) fn disarm(state: &mut State) -> bool {
    state.pane == Pane::Approval && state.asking.armed.take().is_some()
}

/// Takes a key; false when it belongs to somebody else.
pub(super) fn press(state: &mut State, key: KeyEvent, acts: &mut Vec<Act>) -> bool {
    if !is_open(state) {
        state.pane = Pane::Composer;
        return false;
    }
    let held = key.modifiers.difference(KeyModifiers::SHIFT);
    let was_left = std::mem::take(&mut state.asking.is_left);
    let is_text = match state.asking.armed {
        Some(Armed::Deny) => deny_text(state, key, held),
        Some(Armed::Rule) => rule_text(state, key),
        _ => false,
    };
    if is_text {
        return true;
    }
    match key.code {
        KeyCode::Up | KeyCode::Char('k') => scroll(state, -1),
        KeyCode::Down | KeyCode::Char('j') => scroll(state, 1),
        KeyCode::PageUp => scroll(state, -(page(state.asking.drawn.get().1) as isize)),
        KeyCode::PageDown => scroll(state, page(state.asking.drawn.get().1) as isize),
        KeyCode::Home => state.asking.scroll = 0,
        KeyCode::End => scroll(state, state.asking.drawn.get().0 as isize),
        KeyCode::Char('h') if held.is_empty() => go_to(state, None),
        KeyCode::Char(digit @ '1'..='9') if held.is_empty() && state.asking.armed.is_none() => {
            go_to(state, Some(usize::from(digit as u8 - b'1')));
        }
        // Esc once too often neither answers nor goes where letters are commands.
        KeyCode::Esc if state.asking.armed.take().is_some() => {}
        KeyCode::Esc if was_left => compose::stop(state, acts),
        KeyCode::Esc => {
            state.asking.is_left = true;
            state.tell("n denies it, Tab goes to the story, Esc again interrupts");
        }
        KeyCode::Enter => confirm(state, acts),
        KeyCode::Char('y' | 's' | 'r')
            if held.is_empty() && is_first(state) && !state.asking.is_seen.get() =>
        {
            state.tell("press End to see the rest before you allow it")
        }
        KeyCode::Char(c @ ('y' | 's' | 'r' | 'n')) if held.is_empty() && is_first(state) => arm(state, c),
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
    if c == 'r' {
        state.asking.fault = None;
        state.asking.lasts = Lasts::Session;
        state.asking.rule = Composer::default();
        let text = state.asked().and_then(|open| Some(rule::text(&open.tool, plan(state, open)?)));
        state.asking.rule.insert(&text.unwrap_or_default());
    }
    state.asking.armed = Some(match c {
        'y' => Armed::Once,
        's' => Armed::Session,
        'r' => Armed::Rule,
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

/// While a rule is written, keys edit it.
fn rule_text(state: &mut State, key: KeyEvent) -> bool {
    if key.code == KeyCode::Tab {
        state.asking.lasts = state.asking.lasts.next();
        return true;
    }
    let is_edited = state.asking.rule.edit(key);
    if is_edited {
        state.asking.fault = None;
    }
    is_edited
}

/// A pasted text belongs to the reason or the rule that is being written; false when neither is.
pub(super) fn paste(state: &mut State, text: &str) -> bool {
    match state.asking.armed.filter(|_| state.pane == Pane::Approval) {
        Some(Armed::Deny) => state.asking.reason.push_str(&clean_line(text)),
        Some(Armed::Rule) => {
            state.asking.rule.paste(text);
            state.asking.fault = None;
        }
        _ => return false,
    }
    true
}

fn plan<'a>(state: &'a State, open: &OpenApproval) -> Option<&'a Plan> {
    state.record.event(open.prepared)?.plan()
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

/// Looks at an approval of the queue, else at the next one.
fn go_to(state: &mut State, nth: Option<usize>) {
    let open = &state.record.now.board.approvals;
    let at = open.iter().position(|approval| Some(approval.call) == state.asking.call).unwrap_or(0);
    if let Some(next) = open.get(nth.unwrap_or((at + 1) % open.len().max(1))) {
        state.asking = Asking { call: Some(next.call), ..Asking::default() };
    }
}

fn confirm(state: &mut State, acts: &mut Vec<Act>) {
    let choice = match state.asking.armed {
        Some(Armed::Rule) => match granted(state) {
            Ok(rule) => Choice::Rule(Box::new(rule)),
            Err(why) => return state.asking.fault = Some(why),
        },
        Some(Armed::Once) => Choice::Once,
        Some(Armed::Session) => Choice::Session,
        Some(Armed::Deny) => Choice::Deny(state.asking.reason.trim().to_owned()),
        None => return,
    };
    let Some(open) = state.asked() else { return };
    let (call, digest, by) = (open.call, open.digest.clone(), state.profile.by.clone());
    let answer = Command::Answer { call, digest, choice, by };
    let lasts = state.asking.lasts;
    let is_kept = state.asking.armed == Some(Armed::Rule) && lasts != Lasts::Session;
    acts.push(match is_kept {
        true => Act::Keep { answer, everywhere: lasts == Lasts::Everywhere },
        false => Act::Submit(answer),
    });
    // A rule that is not taken is there to be corrected.
    state.asking.armed = state.asking.armed.filter(|armed| *armed == Armed::Rule);
    state.asking.is_sent = true;
    state.pane = Pane::Composer;
}

/// The rule as it is written.
fn granted(state: &State) -> Result<Rule, String> {
    let open = state.asked().ok_or("nothing waits for an answer")?;
    let plan = plan(state, open).ok_or("nothing is known of what would be done")?;
    rule::read(&state.asking.rule.text, &state.profile.by, plan)
}

/// An answer that was not taken can be given again; a rule is shown with what is wrong with it.
pub(super) fn refused(state: &mut State, why: &str) {
    let was_sent = std::mem::take(&mut state.asking.is_sent);
    if was_sent && state.asking.armed == Some(Armed::Rule) && is_open(state) {
        state.asking.fault = Some(why.to_owned());
        state.pane = Pane::Approval;
    }
}

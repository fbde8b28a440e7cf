//! Keys of what lies over the screen: help, events, one event, sessions, a jump.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::host::Consented;
use crate::projection::changes::Changes;
use crate::protocol::EventRef;

use crate::tui::Act;
use crate::tui::draw::{event_rows, matching};
use crate::tui::review::Sheet;
use crate::tui::state::{Asked, Events, Overlay, Pane, Sessions, State};
use crate::tui::text::clean_line;

use super::{browse, find, pick, rewind};

/// Opens the list of events at what is seen last.
pub(super) fn events(state: &mut State) {
    let chosen = EventRef::fact(state.seen().unwrap_or(0));
    state.overlays.push(Overlay::Events(Events {
        chosen,
        origin: chosen,
        filter: String::new(),
        is_typing: false,
    }));
}

/// Opens the list of sessions.
pub(super) fn sessions(state: &mut State, acts: &mut Vec<Act>) {
    if state.profile.is_record {
        return;
    }
    state.overlays.push(Overlay::Sessions(Sessions::default()));
    acts.push(Act::List);
}

/// Opens what the session changed so far, or had changed by the moment that is looked at.
pub(super) fn changes(state: &mut State) {
    let mut changes = Changes::default();
    let end = state.seen().map_or(0, |seq| seq + 1);
    state.record.each(0..end, |entry| changes.apply(entry));
    state.overlays.push(Overlay::Changes(Box::new(Sheet::of(changes))));
}

pub(super) fn press(state: &mut State, key: KeyEvent, acts: &mut Vec<Act>) {
    let Some(mut overlay) = state.overlays.pop() else { return };
    let beneath = state.overlays.len();
    let stays = match &mut overlay {
        Overlay::Help { scroll } | Overlay::Cost { scroll } | Overlay::Context { scroll } => {
            scrolled(scroll, key, state.most.get())
        }
        Overlay::Changes(sheet) => scrolled(&mut sheet.scroll, key, state.most.get()),
        Overlay::Matrix { scroll, back } => match key.code {
            KeyCode::Left => {
                *back = (*back + 1).min(state.farthest.get());
                true
            }
            KeyCode::Right => {
                *back = back.saturating_sub(1);
                true
            }
            // Help asks for nothing here: the sheet says what its keys do.
            KeyCode::Char('?') => true,
            _ => scrolled(scroll, key, state.most.get()),
        },
        Overlay::Review { is_whole } => match key.code {
            // What fills the screen is closed by the key that opened it.
            KeyCode::Char('d') if *is_whole || !state.has_review.get() => false,
            KeyCode::Char('d') => {
                *is_whole = true;
                true
            }
            KeyCode::Char(side @ ('[' | ']')) => {
                browse::step(state, side == ']');
                // Where nothing was proposed yet, the keys are the story's again.
                state.scene().moment.board.proposed.is_some()
            }
            _ => {
                let proposed = state.scene().moment.board.proposed;
                let most = state.most.get();
                scrolled(state.review.scroll_of(proposed), key, most)
            }
        },
        Overlay::Inspect { at, scroll } => inspect(state, *at, scroll, key),
        Overlay::Events(list) => list_events(state, list, key),
        Overlay::Sessions(list) => list_sessions(state, list, key, acts),
        Overlay::Pick(list) => pick::press(state, list, key, acts),
        Overlay::Turns(list) => rewind::press(state, list, key, acts),
        Overlay::Jump(digits) => jump(state, digits, key),
        Overlay::Find(find) => find::press(state, find, key),
        Overlay::Consent(asked) => consent(asked, key, acts),
        Overlay::Fork { seq } => {
            if key.code == KeyCode::Enter {
                acts.push(Act::Fork { id: None, seq: Some(*seq) });
            }
            false
        }
        Overlay::Quit => {
            if matches!(key.code, KeyCode::Enter | KeyCode::Char('y' | 'q')) {
                acts.push(Act::Quit);
            }
            false
        }
    };
    if stays {
        // What was opened from here lies above it.
        state.overlays.insert(beneath, overlay);
    }
}

/// A pasted text goes where one is being written.
pub(super) fn paste(state: &mut State, text: &str) {
    let Some(mut overlay) = state.overlays.pop() else { return };
    let text = clean_line(text);
    match &mut overlay {
        Overlay::Sessions(Sessions { naming: Some((_, name)), .. }) => name.push_str(&text),
        Overlay::Sessions(list) => {
            list.search.push_str(&text);
            list.chosen = 0;
        }
        Overlay::Pick(list) => {
            list.search.push_str(&text);
            list.chosen = 0;
        }
        Overlay::Events(list) if list.is_typing => {
            list.filter.push_str(&text);
            refit(state, list);
        }
        _ => {}
    }
    state.overlays.push(overlay);
}

/// Whole words answer, or the keys of the question; leaving it is a no.
fn consent(asked: &mut Asked, key: KeyEvent, acts: &mut Vec<Act>) -> bool {
    let (keys, is_whole) = (asked.question.keys, asked.is_whole.get());
    let answer = match (key.code, asked.word.trim().to_ascii_lowercase().as_str()) {
        (KeyCode::Esc, _) | (KeyCode::Enter, "no") => Some(Consented::No),
        (KeyCode::Enter, "yes") if is_whole && keys.is_empty() => Some(Consented::Yes),
        (KeyCode::Char(c), _) if is_whole => {
            keys.iter().find(|(key, _)| *key == c).map(|(_, answer)| *answer)
        }
        _ => None,
    };
    match key.code {
        // Anything else is no answer, and is begun anew.
        KeyCode::Enter => asked.word.clear(),
        KeyCode::Backspace => drop(asked.word.pop()),
        KeyCode::Char(c) if asked.word.len() < 16 && keys.is_empty() => asked.word.push(c),
        _ => {}
    }
    acts.extend(answer.map(Act::Consent));
    answer.is_none()
}

/// Scrolling by the usual keys; false for a key that closes.
fn scrolled(scroll: &mut usize, key: KeyEvent, most: usize) -> bool {
    match key.code {
        KeyCode::Up | KeyCode::Char('k') => *scroll = scroll.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => *scroll += 1,
        KeyCode::PageUp => *scroll = scroll.saturating_sub(10),
        KeyCode::PageDown | KeyCode::Char(' ') => *scroll += 10,
        KeyCode::Home => *scroll = 0,
        KeyCode::End => *scroll = most,
        _ => return false,
    }
    *scroll = (*scroll).min(most);
    true
}

/// `[` and `]` go to the event before and after, a digit to a cause; `t` travels there.
fn inspect(state: &mut State, at: EventRef, scroll: &mut usize, key: KeyEvent) -> bool {
    let go = |state: &mut State, to: Option<EventRef>| {
        let at = to.unwrap_or(at);
        state.overlays.push(Overlay::Inspect { at, scroll: 0 });
        false
    };
    match key.code {
        KeyCode::Char('[') => {
            let before = match at.i.checked_sub(1) {
                Some(i) => Some(EventRef { seq: at.seq, i }),
                None => at.seq.checked_sub(1).map(|seq| EventRef { seq, i: last_event(state, seq) }),
            };
            go(state, before)
        }
        KeyCode::Char(']') => {
            let beside = EventRef { seq: at.seq, i: at.i + 1 };
            let after = EventRef::fact(at.seq + 1);
            let next = [beside, after].into_iter().find(|to| state.record.event(*to).is_some());
            go(state, next)
        }
        KeyCode::Char(digit @ '1'..='9') => {
            let nth = usize::from(digit as u8 - b'1');
            let cause = state.record.reasons(at.seq).direct(at).into_iter().nth(nth).map(|cause| cause.from);
            if let Some(at) = cause {
                state.overlays.push(Overlay::Inspect { at, scroll: 0 });
            }
            true
        }
        KeyCode::Char('t') => {
            state.overlays.clear();
            look_back(state, at.seq);
            false
        }
        _ => scrolled(scroll, key, state.most.get()),
    }
}

/// Whoever looks back has the keys of the story: what they write is no task.
fn look_back(state: &mut State, seq: u64) {
    browse::pause(state);
    state.travel(seq);
    state.pane = Pane::Timeline;
}

fn last_event(state: &State, seq: u64) -> u16 {
    let entry = state.record.entry(seq);
    entry.map_or(0, |entry| u16::try_from(entry.events.len().saturating_sub(1)).unwrap_or(u16::MAX))
}

fn list_events(state: &mut State, list: &mut Events, key: KeyEvent) -> bool {
    let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
    let page = usize::from(state.size.1.saturating_sub(8)).max(1);
    match key.code {
        KeyCode::Char(c) if list.is_typing && plain => {
            list.filter.push(c);
            refit(state, list);
        }
        KeyCode::Char('u') if !plain => {
            list.filter.clear();
            refit(state, list);
        }
        KeyCode::Backspace if list.is_typing => {
            list.filter.pop();
            refit(state, list);
        }
        KeyCode::Enter | KeyCode::Esc if list.is_typing => list.is_typing = false,
        KeyCode::Char('/') => list.is_typing = true,
        KeyCode::Esc if !list.filter.is_empty() => {
            // Whoever found a row stays there without the filter.
            list.filter.clear();
            list.origin = list.chosen;
        }
        KeyCode::Up | KeyCode::Char('k') => go(state, list, false, 1),
        KeyCode::Down | KeyCode::Char('j') => go(state, list, true, 1),
        KeyCode::PageUp => go(state, list, false, page),
        KeyCode::PageDown => go(state, list, true, page),
        KeyCode::Home => {
            list.chosen = EventRef::fact(0);
            settle(state, list, true);
            list.origin = list.chosen;
        }
        KeyCode::End => {
            let seq = state.record.last().unwrap_or(0);
            list.chosen = EventRef { seq, i: last_event(state, seq) };
            settle(state, list, false);
            list.origin = list.chosen;
        }
        KeyCode::Enter if fits(state, list) => {
            state.overlays.push(Overlay::Inspect { at: list.chosen, scroll: 0 });
        }
        KeyCode::Enter => {}
        KeyCode::Char('t') => {
            look_back(state, list.chosen.seq);
            return false;
        }
        _ => return false,
    }
    true
}

fn go(state: &State, list: &mut Events, down: bool, by: usize) {
    settle(state, list, down);
    let rows = event_rows(&state.scene(), list.chosen, &list.filter, down, by + 1);
    if let Some(row) = rows.last() {
        list.chosen = row.at;
        list.origin = row.at;
    }
}

/// Only a row that fits is chosen: the nearest one, looked for in this direction first.
fn settle(state: &State, list: &mut Events, down: bool) {
    let scene = state.scene();
    let nearest = |down: bool| event_rows(&scene, list.chosen, &list.filter, down, 1).pop();
    let found = nearest(down).or_else(|| nearest(!down)).map(|row| row.at);
    if let Some(at) = found {
        list.chosen = at;
    }
}

/// Another filter: the nearest that fits from where somebody was.
fn refit(state: &State, list: &mut Events) {
    list.chosen = list.origin;
    settle(state, list, false);
}

fn fits(state: &State, list: &Events) -> bool {
    let row = event_rows(&state.scene(), list.chosen, &list.filter, true, 1).pop();
    row.is_some_and(|row| row.at == list.chosen)
}

fn list_sessions(state: &mut State, list: &mut Sessions, key: KeyEvent, acts: &mut Vec<Act>) -> bool {
    if let Some((id, name)) = list.naming.take() {
        list.naming = naming(id, name, key, acts);
        return true;
    }
    let rows = matching(state.sessions.as_deref().unwrap_or_default(), &list.search);
    list.chosen = list.chosen.min(rows.len().saturating_sub(1));
    let row = rows.get(list.chosen);
    let chosen = row.map(|row| row.id.clone());
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let doomed = list.doomed.take();
    match key.code {
        KeyCode::Up => list.chosen = list.chosen.saturating_sub(1),
        KeyCode::Down => list.chosen = (list.chosen + 1).min(rows.len().saturating_sub(1)),
        KeyCode::PageUp => list.chosen = list.chosen.saturating_sub(10),
        KeyCode::PageDown => list.chosen = (list.chosen + 10).min(rows.len().saturating_sub(1)),
        KeyCode::Char('u') if control => list.search.clear(),
        KeyCode::Char('x') if control => list.doomed = chosen,
        KeyCode::Char('r') if control => {
            list.naming = row.map(|row| (row.id.clone(), row.name.clone().unwrap_or_default()));
        }
        KeyCode::Char('f') if control => {
            acts.extend(chosen.map(|id| Act::Fork { id: Some(id), seq: None }));
            return false;
        }
        KeyCode::Enter if doomed.is_some() => acts.extend(doomed.map(Act::Remove)),
        KeyCode::Enter => {
            acts.extend(chosen.map(Act::Open));
            return false;
        }
        KeyCode::Char(c) if !control && doomed.is_none() => {
            list.search.push(c);
            list.chosen = 0;
        }
        KeyCode::Backspace => drop(list.search.pop()),
        KeyCode::Esc if doomed.is_some() => {}
        KeyCode::Esc if list.search.is_empty() => return false,
        KeyCode::Esc => list.search.clear(),
        _ => {}
    }
    true
}

/// A name while it is written.
fn naming(id: String, mut name: String, key: KeyEvent, acts: &mut Vec<Act>) -> Option<(String, String)> {
    match key.code {
        KeyCode::Enter => {
            acts.push(Act::Rename { id, name });
            return None;
        }
        KeyCode::Esc => return None,
        KeyCode::Backspace => drop(name.pop()),
        KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => name.clear(),
        KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => name.push(c),
        _ => {}
    }
    Some((id, name))
}

fn jump(state: &mut State, digits: &mut String, key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char(c) if c.is_ascii_digit() && digits.len() < 12 => digits.push(c),
        KeyCode::Char('e') if digits.is_empty() => {}
        KeyCode::Char('g') if digits.is_empty() => {
            state.story.go_to_start();
            return false;
        }
        KeyCode::Backspace => drop(digits.pop()),
        KeyCode::Enter => {
            if let Ok(seq) = digits.parse() {
                look_back(state, seq);
            }
            return false;
        }
        _ => return false,
    }
    true
}

//! Keys of the lists from which one is picked: models, and what was written before.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::tui::state::{Overlay, Picker, PickerKind, State};
use crate::tui::{Act, draw::fitting};

/// Opens the list of models; the providers are asked each time.
pub(super) fn open(state: &mut State, acts: &mut Vec<Act>) {
    state.overlays.push(Overlay::Pick(Picker::default()));
    acts.push(Act::Models);
}

/// Opens the list of what was written before, with what is written now as the search.
pub(super) fn open_history(state: &mut State) {
    let search = state.composer.text.clone();
    state.overlays.push(Overlay::Pick(Picker { kind: PickerKind::History, search, chosen: 0 }));
}

/// Takes a key; false for one that closes the list.
pub(super) fn press(state: &mut State, list: &mut Picker, key: KeyEvent, acts: &mut Vec<Act>) -> bool {
    let rows = fitting(state, list).unwrap_or_default();
    let last = rows.len().saturating_sub(1);
    list.chosen = list.chosen.min(last);
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Up => list.chosen = list.chosen.saturating_sub(1),
        KeyCode::Down => list.chosen = (list.chosen + 1).min(last),
        KeyCode::Char('r') if control => list.chosen = (list.chosen + 1).min(last),
        KeyCode::PageUp => list.chosen = list.chosen.saturating_sub(10),
        KeyCode::PageDown => list.chosen = (list.chosen + 10).min(last),
        KeyCode::Home => list.chosen = 0,
        KeyCode::End => list.chosen = last,
        KeyCode::Enter => {
            let Some(text) = rows.get(list.chosen).map(|(text, _)| (*text).to_owned()) else { return true };
            match list.kind {
                PickerKind::Models => acts.push(Act::Model(text)),
                PickerKind::History => {
                    state.composer.clear();
                    state.composer.restore(&text);
                }
            }
            return false;
        }
        KeyCode::Char('u') if control => list.search.clear(),
        KeyCode::Char(c) if !control => {
            list.search.push(c);
            list.chosen = 0;
        }
        KeyCode::Backspace => drop(list.search.pop()),
        KeyCode::Esc if list.search.is_empty() => return false,
        KeyCode::Esc => list.search.clear(),
        _ => {}
    }
    true
}

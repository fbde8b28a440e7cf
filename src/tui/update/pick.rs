//! Keys of the list of models, from which one is picked.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::tui::state::{ModelRow, Overlay, Picker, State};
use crate::tui::{Act, draw::fitting};

/// Opens the list; the providers are asked anew each time.
pub(super) fn open(state: &mut State, acts: &mut Vec<Act>) {
    state.overlays.push(Overlay::Models(Picker::default()));
    acts.push(Act::Models);
}

/// Takes a key; false for one that closes the list.
pub(super) fn press(state: &State, list: &mut Picker, key: KeyEvent, acts: &mut Vec<Act>) -> bool {
    let rows: Vec<&ModelRow> = fitting(state.models.as_deref().unwrap_or_default(), &list.search).collect();
    let last = rows.len().saturating_sub(1);
    list.chosen = list.chosen.min(last);
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Up => list.chosen = list.chosen.saturating_sub(1),
        KeyCode::Down => list.chosen = (list.chosen + 1).min(last),
        KeyCode::PageUp => list.chosen = list.chosen.saturating_sub(10),
        KeyCode::PageDown => list.chosen = (list.chosen + 10).min(last),
        KeyCode::Home => list.chosen = 0,
        KeyCode::End => list.chosen = last,
        KeyCode::Enter => {
            let Some(row) = rows.get(list.chosen) else { return true };
            acts.push(Act::Model(row.name.clone()));
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

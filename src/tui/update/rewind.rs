//! Keys and commands that take turns back.

use ratatui::crossterm::event::{KeyCode, KeyEvent};

use crate::host::UndoWish;
use crate::tui::Act;
use crate::tui::slash::Order;
use crate::tui::state::{Overlay, State, TurnList};

/// What `/undo`, `/redo` and `/rewind` ask for.
pub(super) fn order(state: &mut State, order: Order, rest: &str, acts: &mut Vec<Act>) -> Result<(), String> {
    if state.record.now.board.id.is_empty() {
        return Err("there is no session yet, so there is nothing to undo".to_owned());
    }
    if state.is_elsewhere || state.profile.is_record {
        return Err("this session is only shown here; undo it with: agon undo".to_owned());
    }
    if state.is_working() {
        return Err("a turn is open; Esc interrupts it".to_owned());
    }
    if (order, rest) == (Order::Rewind, "") {
        state.turns = None;
        state.overlays.push(Overlay::Turns(TurnList::default()));
        acts.push(Act::Turns);
        return Ok(());
    }
    acts.push(Act::Undo(undo_wish(order, rest)?));
    Ok(())
}

/// What is to be taken back, by what follows `/undo`, `/redo` or `/rewind`.
pub fn undo_wish(order: Order, rest: &str) -> Result<UndoWish, String> {
    let wish = UndoWish::default();
    match (order, rest) {
        (Order::Redo, "") => Ok(UndoWish { redo: true, ..wish }),
        (Order::Undo, "" | "--force") => Ok(UndoWish { force: !rest.is_empty(), ..wish }),
        (Order::Rewind, rest) => {
            let (turn, part) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let number =
                turn.parse().map_err(|_| format!("`{turn}` is no turn: /rewind expects its number"))?;
            let (files, talk) = match part.trim() {
                "" => (true, true),
                "files" => (true, false),
                "words" => (false, true),
                other => return Err(format!("`{other}` is neither files nor words")),
            };
            Ok(UndoWish { turn: Some(number), files, talk, ..wish })
        }
        (_, other) => Err(format!("`{other}` cannot follow it")),
    }
}

/// Takes a key of the list of turns; false for one that closes it.
pub(super) fn press(state: &State, list: &mut TurnList, key: KeyEvent, acts: &mut Vec<Act>) -> bool {
    let rows = state.turns.as_deref().unwrap_or_default();
    let last = rows.len().saturating_sub(1);
    let before = list.chosen;
    match key.code {
        KeyCode::Up => list.chosen = list.chosen.saturating_sub(1),
        KeyCode::Down => list.chosen = (list.chosen + 1).min(last),
        KeyCode::Home => list.chosen = 0,
        KeyCode::End => list.chosen = last,
        KeyCode::PageUp => list.scroll = list.scroll.saturating_sub(10),
        KeyCode::PageDown => list.scroll = (list.scroll + 10).min(state.most.get()),
        KeyCode::Enter | KeyCode::Char('f' | 'w') => {
            let Some(row) = rows.get(list.chosen) else { return true };
            let (files, talk) = (key.code != KeyCode::Char('w'), key.code != KeyCode::Char('f'));
            acts.push(Act::Undo(UndoWish { turn: Some(row.number), files, talk, ..UndoWish::default() }));
            return false;
        }
        KeyCode::Esc | KeyCode::Char('q') => return false,
        _ => {}
    }
    if list.chosen != before {
        list.scroll = 0;
    }
    true
}

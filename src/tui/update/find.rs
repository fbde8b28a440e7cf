//! Finds words in the story: while they are written the window goes to the newest place that has them, then to older ones.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::projection::transcript::{Item, ItemKind};
use crate::protocol::ArenaEvent;
use crate::tui::state::{Find, Overlay, State};
use crate::tui::view_model::ViewModel;

/// Items that are looked through at once.
const FARTHEST: usize = 20_000;

/// Begins at what is seen; folded text is opened, so that what is found can be seen.
pub(super) fn open(state: &mut State) {
    if state.record.last().is_some() {
        state.story.is_open = true;
        state.overlays.push(Overlay::Find(Find { from: state.scene().count(), ..Find::default() }));
    }
}

/// Takes a key; false for one that closes. The window stays where it is then.
pub(super) fn press(state: &mut State, find: &mut Find, key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Esc => return false,
        KeyCode::Enter | KeyCode::Up => go(state, find, true),
        KeyCode::Char('f') if control => go(state, find, true),
        KeyCode::Down => go(state, find, false),
        KeyCode::Char('u') if control => find.words.clear(),
        KeyCode::Char(c) if !control => {
            find.words.push(c);
            begin(state, find);
        }
        KeyCode::Backspace => {
            find.words.pop();
            begin(state, find);
        }
        _ => {}
    }
    true
}

/// The newest place from where the reader was.
fn begin(state: &mut State, find: &mut Find) {
    find.at = None;
    go(state, find, true);
}

fn go(state: &mut State, find: &mut Find, older: bool) {
    let phrase = find.words.trim().to_lowercase();
    if phrase.is_empty() {
        return;
    }
    let scene = state.scene();
    let has_it = |at: &usize| scene.item(*at).is_some_and(|item| holds(&scene, item, &phrase));
    let from = find.at.unwrap_or(find.from);
    let found = match older {
        true => (0..from).rev().take(FARTHEST).find(has_it),
        false => (from + 1..scene.count()).take(FARTHEST).find(has_it),
    };
    find.is_missed = found.is_none();
    let Some(at) = found else { return };
    find.at = Some(at);
    let mut story = std::mem::take(&mut state.story);
    story.go_to_text(&state.scene(), at, &phrase);
    state.story = story;
}

/// True when what an item shows has a phrase; of a tool call that is what came of it as well.
fn holds(scene: &ViewModel<'_>, item: &Item, phrase: &str) -> bool {
    if scene.is_sealed(item) {
        return false;
    }
    let has = |text: &str| text.to_lowercase().contains(phrase);
    let came = match item.kind {
        ItemKind::ToolCall { end, .. } => scene.known(end).and_then(|end| scene.event(end)),
        _ => None,
    };
    let output = matches!(came, Some(ArenaEvent::ToolResolved(data)) if has(&data.body.content));
    output || item.body(&|at| scene.event(at)).is_some_and(|text| has(&text))
}

//! Keys of the composer: editing, sending, steering, slash commands.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::projection::transcript::ItemKind;
use crate::protocol::Command;

use super::{browse, overlay};
use crate::tui::Act;
use crate::tui::keys::Do;
use crate::tui::slash::{self, Order};
use crate::tui::state::{Overlay, Pane, Play, State};
use crate::tui::theme::Theme;

pub(super) fn press(state: &mut State, key: KeyEvent, what: Option<Do>, acts: &mut Vec<Act>) {
    let control = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    match what {
        Some(Do::Send) => send(state, acts),
        Some(Do::NewLine) => state.composer.insert("\n"),
        Some(Do::NextPane) => drop(state.composer.accept()),
        Some(Do::Interrupt) => interrupt(state, acts),
        Some(Do::LeaveIfEmpty) if state.composer.is_empty() => acts.push(Act::Quit),
        Some(Do::LeaveIfEmpty) => state.composer.delete(),
        _ => edit(state, key, control),
    }
    if state.composer.files.is_empty() && state.composer.wants_files() {
        acts.push(Act::Files);
    }
}

fn edit(state: &mut State, key: KeyEvent, control: bool) {
    let composer = &mut state.composer;
    match key.code {
        KeyCode::Char('a') if control => composer.home(),
        KeyCode::Char('e') if control => composer.end(),
        KeyCode::Char('u') if control => composer.delete_line(),
        KeyCode::Char('k') if control => composer.delete_rest(),
        KeyCode::Char('w') if control => composer.delete_word(),
        KeyCode::Char('b') if control => composer.word_left(),
        KeyCode::Char('f') if control => composer.word_right(),
        KeyCode::Backspace if control => composer.delete_word(),
        KeyCode::Left if control => composer.word_left(),
        KeyCode::Right if control => composer.word_right(),
        KeyCode::Char('?') if composer.is_empty() => state.overlays.push(Overlay::Help { scroll: 0 }),
        KeyCode::Char(c) if !control => composer.insert(c.encode_utf8(&mut [0; 4])),
        KeyCode::Backspace => composer.backspace(),
        KeyCode::Delete => composer.delete(),
        KeyCode::Left => composer.left(),
        KeyCode::Right => composer.right(),
        KeyCode::Home => composer.home(),
        KeyCode::End => composer.end(),
        KeyCode::Up if !composer.choose(false) => composer.up(),
        KeyCode::Down if !composer.choose(true) => composer.down(),
        _ => {}
    }
}

/// Esc closes what is offered, then interrupts what runs.
fn interrupt(state: &mut State, acts: &mut Vec<Act>) {
    if state.composer.offer.take().is_some() {
        return;
    }
    if state.past.is_some() {
        return browse::live(state);
    }
    if state.is_working() {
        acts.push(Act::Submit(Command::Interrupt { spark: None }));
        state.tell("interrupting");
    }
}

fn send(state: &mut State, acts: &mut Vec<Act>) {
    if state.composer.is_command() {
        let whole = slash::parse(&state.composer.text).is_some();
        if !whole && state.composer.accept() {
            return;
        }
        return command(state, acts);
    }
    if state.composer.text.trim().is_empty() {
        return state.composer.clear();
    }
    if state.profile.trouble.is_some() && !state.is_live {
        return state.tell("no model is set up yet; /demo works without one");
    }
    let text = state.composer.take();
    browse::live(state);
    state.pane = Pane::Composer;
    acts.push(match state.is_working() {
        true => Act::Submit(Command::Steer { spark: None, text }),
        false => Act::Prompt(text),
    });
}

fn command(state: &mut State, acts: &mut Vec<Act>) {
    let text = state.composer.take();
    let Some((slash, rest)) = slash::parse(&text) else {
        let word = text.split_whitespace().next().unwrap_or_default().to_owned();
        state.composer.insert(&text);
        return state.tell(format!("there is no {word}; /help lists what there is"));
    };
    let rest = rest.to_owned();
    match slash.order {
        Order::Help => state.overlays.push(Overlay::Help { scroll: 0 }),
        Order::New => acts.push(Act::New),
        Order::Sessions => overlay::sessions(state, acts),
        Order::Resume if rest.is_empty() => overlay::sessions(state, acts),
        Order::Resume => acts.push(Act::Open(rest)),
        Order::Fork => fork(state, &rest, acts),
        Order::Replay => replay(state),
        Order::Events => overlay::events(state),
        Order::Cost => state.overlays.push(Overlay::Cost { scroll: 0 }),
        Order::Model if rest.is_empty() => state.tell("/model wants PROVIDER/MODEL"),
        Order::Model => acts.push(Act::Model(rest)),
        Order::Theme => theme(state, &rest),
        Order::Copy => copy(state, acts),
        Order::Demo => acts.push(Act::Demo),
        Order::Quit => acts.push(Act::Quit),
    }
}

fn fork(state: &mut State, rest: &str, acts: &mut Vec<Act>) {
    let seq = if rest.is_empty() { state.seen() } else { rest.trim_start_matches('e').parse().ok() };
    match seq {
        Some(seq) if state.record.last().is_some_and(|last| seq <= last) => acts.push(Act::Fork(seq)),
        _ => state.tell("/fork wants the number of an entry of this session"),
    }
}

fn replay(state: &mut State) {
    if state.record.last().is_none() {
        return state.tell("there is nothing to play yet");
    }
    state.travel(0);
    state.pane = Pane::Story;
    if let Some(past) = &mut state.past {
        past.play = Some(Play { speed: 1, since: state.now });
    }
}

fn theme(state: &mut State, name: &str) {
    match Theme::named(name) {
        Some(theme) => state.theme = theme,
        None => state.tell("/theme wants dark, light or plain"),
    }
}

/// Copies the last answer that is seen.
pub(super) fn copy(state: &mut State, acts: &mut Vec<Act>) {
    let scene = state.scene();
    let answers = scene.items().iter().rev().filter(|item| matches!(item.kind, ItemKind::Answer { .. }));
    let found = answers
        .filter(|item| !scene.is_sealed(item))
        .find_map(|item| item.body(&|at| scene.event(at)).map(|text| text.into_owned()));
    match found {
        Some(text) => {
            state.tell("copied the last answer");
            acts.push(Act::Copy(text));
        }
        None => state.tell("there is no answer to copy yet"),
    }
}

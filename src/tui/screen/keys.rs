//! Reads keys, and tells what was pasted from what was typed where the terminal does not; obeys no key.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use ratatui::crossterm::event::{
    self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEvent, MouseEventKind,
};
use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::mpsc;

/// How long more is waited for once several keys came at once: a pasted text arrives in pieces.
const PIECES: Duration = Duration::from_millis(5);

/// Keys that came at once from which on they may be a paste: nobody types so many in one moment.
const PASTED: usize = 6;

/// How long the thread has to let go of the terminal.
const LET_GO: Duration = Duration::from_secs(3);

/// The keys as they come.
pub(super) struct Keys {
    events: mpsc::Receiver<Event>,
    gate: Arc<Gate>,
}

/// Where the thread waits while another program reads the terminal.
#[derive(Default)]
struct Gate {
    /// The terminal is lent, and the thread has let go of it.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.0 {
            state.1 = true;
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.1 = false;
    }

    /// The thread reads no more.
    fn end(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.changed.notify_all();
    }

    /// Has the thread let go of the terminal. A signal of a changed size wakes it, which waits for keys otherwise.
    fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = true;
        // Where the thread is not woken, the first key is lost to it and nothing else.
        let _ = kill_process(getpid(), Signal::WINCH);
        drop(self.changed.wait_timeout_while(state, LET_GO, |state| !state.1));
    }

    fn open(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0 = false;
        self.changed.notify_all();
    }
}

/// What is typed once the screen is left belongs to the shell.
impl Drop for Keys {
    fn drop(&mut self) {
        self.events.close();
        self.gate.close();
    }
}

/// Reads keys in a thread of its own: a terminal can only be read by waiting.
pub(super) fn listen(room: usize) -> Keys {
    let (sender, events) = mpsc::channel(room);
    let gate = Arc::new(Gate::default());
    let theirs = Arc::clone(&gate);
    std::thread::spawn(move || {
        while let Ok(first) = event::read() {
            let mut events = wheeled(gathered(at_once(first))).into_iter();
            if events.any(|event| sender.blocking_send(event).is_err()) {
                break;
            }
            theirs.pass();
        }
        theirs.end();
    });
    Keys { events, gate }
}

impl Keys {
    pub async fn recv(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    pub fn try_recv(&mut self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// Reads nothing while another program has the terminal.
    pub fn lent<T>(&self, work: impl FnOnce() -> T) -> T {
        self.gate.close();
        let done = work();
        self.gate.open();
        done
    }
}

/// What came together with an event.
fn at_once(first: Event) -> Vec<Event> {
    let mut all = vec![first];
    loop {
        // The arrows of a wheel come in pieces too.
        let may_go_on = all.len() > 1 || turned(&all[0]).is_some();
        let wait = if may_go_on { PIECES } else { Duration::ZERO };
        match event::poll(wait).and_then(|more| if more { event::read().map(Some) } else { Ok(None) }) {
            Ok(Some(event)) => all.push(event),
            // What is wrong with the terminal shows with the next event that is waited for.
            Ok(None) | Err(_) => return all,
        }
    }
}

/// The direction of a bare arrow up or down.
fn turned(event: &Event) -> Option<MouseEventKind> {
    match event {
        Event::Key(KeyEvent { code, modifiers: KeyModifiers::NONE, kind: KeyEventKind::Press, .. }) => {
            match code {
                KeyCode::Up => Some(MouseEventKind::ScrollUp),
                KeyCode::Down => Some(MouseEventKind::ScrollDown),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The arrow that a turn of the wheel is where arrows choose.
pub(super) fn arrow(wheel: MouseEventKind) -> KeyEvent {
    KeyEvent::from(if wheel == MouseEventKind::ScrollUp { KeyCode::Up } else { KeyCode::Down })
}

/// Several arrows at once are the mouse wheel: in the alternate screen terminals send it as arrows, some lines a notch,
/// and keep the mouse for selecting. A held key repeats slower.
fn wheeled(events: Vec<Event>) -> Vec<Event> {
    let all: Option<Vec<MouseEventKind>> = events.iter().map(turned).collect();
    match all.filter(|all| all.len() > 1) {
        Some(all) => {
            let turn =
                |kind| Event::Mouse(MouseEvent { kind, column: 0, row: 0, modifiers: KeyModifiers::NONE });
            all.into_iter().map(turn).collect()
        }
        None => events,
    }
}

/// Lines that came at once are a pasted text: Enter within them sends nothing and obeys nothing. Where Enter comes last,
/// somebody typed faster than the program read, or a program types, and it is pressed.
fn gathered(events: Vec<Event>) -> Vec<Event> {
    let text: Option<String> = events.iter().map(letter).collect();
    match text {
        Some(text) if events.len() >= PASTED && text.trim_end_matches('\n').contains('\n') => {
            vec![Event::Paste(text)]
        }
        _ => events,
    }
}

/// What a key adds to a text; none for one that does something else.
fn letter(event: &Event) -> Option<char> {
    match event {
        Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) => match (code, *modifiers) {
            (KeyCode::Char('j'), KeyModifiers::CONTROL) | (KeyCode::Enter, KeyModifiers::NONE) => Some('\n'),
            (KeyCode::Tab, KeyModifiers::NONE) => Some('\t'),
            (KeyCode::Char(letter), KeyModifiers::NONE | KeyModifiers::SHIFT) => Some(*letter),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<Event> {
        let key = |letter| match letter {
            '\n' => Event::Key(KeyEvent::from(KeyCode::Enter)),
            letter => Event::Key(KeyEvent::from(KeyCode::Char(letter))),
        };
        text.chars().map(key).collect()
    }

    #[test]
    fn lines_that_came_at_once_are_pasted_and_a_line_with_its_enter_is_typed() {
        for pasted in ["first\n/quit\n", "a\n/quit", "one\n\ntwo\n\n"] {
            assert_eq!(gathered(keys(pasted)), [Event::Paste(pasted.to_owned())]);
        }
        for typed in ["/quit\n", "jjjj", "y\n", "a\nb\n", "hello\n\n"] {
            assert_eq!(gathered(keys(typed)), keys(typed), "{typed:?}");
        }
    }

    #[test]
    fn arrows_that_came_at_once_are_the_wheel_and_one_is_a_key() {
        let key = |code| Event::Key(KeyEvent::from(code));
        let one = vec![key(KeyCode::Up)];
        assert_eq!(wheeled(one.clone()), one);
        let other = vec![key(KeyCode::Up), key(KeyCode::Enter)];
        assert_eq!(wheeled(other.clone()), other);
        let turned = wheeled(vec![key(KeyCode::Down); 3]);
        let is_down =
            |event: &Event| matches!(event, Event::Mouse(wheel) if arrow(wheel.kind).code == KeyCode::Down);
        assert!(turned.len() == 3 && turned.iter().all(is_down), "{turned:?}");
    }

    #[test]
    fn a_key_that_is_no_letter_makes_them_keys() {
        let mut all = keys("first\nsecond\n");
        all.push(Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        assert_eq!(gathered(all.clone()), all);
    }
}

//! What no single key may do, what has to stay visible, and what is put on the clipboard.

use agon::protocol::Command;
use agon::tui::{Act, Msg, update};
use ratatui::crossterm::event::KeyCode::{Char, Enter, Esc, Tab};
use serde_json::json;

use super::made::{begun, ctrl, demo, first, key, said, shown, state, typed};

fn asked() -> agon::tui::State {
    let entries = demo();
    let asked = first(&entries, "approval_requested");
    state(&entries[..=asked], true)
}

fn last_line(state: &agon::tui::State, columns: u16, rows: u16) -> String {
    shown(state, columns, rows).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn what_is_copied_is_what_is_seen() {
    let mut entries = begun(&json!("solo"), "go", &["solo"]);
    entries.extend(said(2, 10, 0, "one\r\n\ttwo\u{1b}[31m red\u{7}\u{202e}three\u{1b}]52;c;eA==\u{7}", &[]));
    let mut state = state(&entries, true);
    let _ = update(&mut state, key(Tab));
    let acts = update(&mut state, key(Char('y')));
    assert_eq!(acts, [Act::Copy("one\n\ttwo red<U+202E>three".to_owned())]);
}

#[test]
fn what_waits_for_an_answer_is_told_wherever_somebody_looks() {
    for (columns, rows) in [(120, 40), (60, 16), (40, 10)] {
        let mut state = asked();
        let _ = update(&mut state, key(Tab));
        let _ = typed(&mut state, "[[");
        let line = last_line(&state, columns, rows);
        assert!(line.contains("waiting for you: Esc goes there") || line.contains("asks: Esc"), "{line}");
        let _ = update(&mut state, ctrl('t'));
        let line = last_line(&state, columns, rows);
        assert!(line.contains("Esc closes this"), "{line}");
        let _ = update(&mut state, key(Esc));
        let _ = update(&mut state, key(Esc));
        assert!(last_line(&state, columns, rows).contains("y once"), "{}", shown(&state, columns, rows));
    }
}

#[test]
fn nothing_that_is_told_hides_how_to_answer() {
    let mut state = asked();
    let _ = update(&mut state, Msg::Log("policy of p.toml, from the next call on".to_owned()));
    let line = last_line(&state, 100, 30);
    assert!(line.contains("y once") && line.contains("policy of p.toml"), "{line}");
}

#[test]
fn what_was_told_goes_with_a_key_or_with_time() {
    let entries = demo();
    let now = entries.last().unwrap().at + 2_000_000;
    let told = || {
        let mut state = state(&entries, false);
        let _ = update(&mut state, Msg::Log("renamed".to_owned()));
        state
    };
    let mut keyed = told();
    let _ = typed(&mut keyed, "a");
    assert!(last_line(&keyed, 80, 24).contains("renamed"), "too soon to have been read");
    let _ = update(&mut keyed, Msg::Tick(now + 2_000_000));
    let _ = typed(&mut keyed, "b");
    assert!(!last_line(&keyed, 80, 24).contains("renamed"));
    let mut timed = told();
    let _ = update(&mut timed, Msg::Tick(now + 7_000_000));
    assert!(!last_line(&timed, 80, 24).contains("renamed"));
}

#[test]
fn leaving_takes_an_answer_back_before_it_interrupts() {
    for letters in ["nbecause", "r", "y"] {
        let mut state = asked();
        let _ = typed(&mut state, letters);
        assert_eq!(update(&mut state, ctrl('c')), [], "{letters}");
        assert!(last_line(&state, 80, 24).contains("y once"));
        assert_eq!(update(&mut state, ctrl('c')), [Act::Submit(Command::Interrupt { spark: None })]);
    }
}

#[test]
fn a_turn_that_was_left_open_says_so_and_is_gone_on_with_by_enter() {
    let entries = demo();
    let called = first(&entries, "model_called");
    let mut state = state(&entries[..=called], false);
    let text = shown(&state, 100, 30);
    assert!(text.contains("left open while thinking") && !text.contains('⠋'), "{text}");
    assert!(last_line(&state, 100, 30).contains("Enter goes on where it was left"));
    assert_eq!(update(&mut state, key(Enter)), [Act::GoOn]);
}

#[test]
fn what_another_process_works_on_is_not_called_left_open() {
    let entries = demo();
    let called = first(&entries, "model_called");
    let mut record = agon::tui::Record::default();
    for entry in &entries[..=called] {
        record.apply(std::sync::Arc::clone(entry));
    }
    let mut state = state(&[], false);
    let _ = update(&mut state, Msg::Record { record: Box::new(record), is_live: false, is_elsewhere: true });
    let text = shown(&state, 100, 30);
    assert!(!text.contains("left open") && text.contains("runs elsewhere"), "{text}");
    assert_eq!(update(&mut state, key(Enter)), []);
}

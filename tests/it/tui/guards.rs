//! What no single key may do, what has to stay visible, and what is put on the clipboard.

use agon::protocol::Command;
use agon::tui::{Act, Msg, update};
use ratatui::crossterm::event::KeyCode::{Char, Down, Enter, Esc, Tab};
use serde_json::json;

use super::made::{begun, ctrl, debate, demo, first, key, looked_at, said, shown, state, typed};

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
    let text = shown(&state, 100, 30);
    assert!(last_line(&state, 100, 30).contains("y once") && text.contains("policy of p.toml"), "{text}");
    // What is longer than a line covers neither how to answer nor what the keys do.
    let _ = update(&mut state, Msg::Log("the demo works in /tmp/a-folder-with-a-long-name/".repeat(3)));
    for (columns, rows) in [(80, 24), (60, 16)] {
        let text = shown(&state, columns, rows);
        assert!(last_line(&state, columns, rows).contains("y once"), "{text}");
        assert!(text.contains("  y once") && text.contains("then Enter"), "{columns}x{rows}\n{text}");
        assert_eq!(text.matches("the demo works in").count().min(1), 1, "{columns}x{rows}\n{text}");
    }
}

#[test]
fn what_was_told_of_a_turn_or_of_a_session_goes_with_it() {
    let entries = demo();
    let called = first(&entries, "model_called");
    let mut state = state(&entries[..=called], true);
    let _ = update(&mut state, key(Esc));
    assert!(shown(&state, 80, 24).contains("interrupting"));
    for entry in &entries[called + 1..] {
        let _ = update(&mut state, Msg::Entry(std::sync::Arc::clone(entry)));
    }
    assert!(!shown(&state, 80, 24).contains("interrupting"));
    let _ = update(&mut state, Msg::Log("forked at e7; the workspace is a copy".to_owned()));
    let _ = update(&mut state, looked_at(&debate(), false));
    assert!(!shown(&state, 80, 24).contains("forked at"), "that was told of another session");
}

#[test]
fn a_record_of_a_newer_agon_says_so_before_anything_is_asked_of_it() {
    let mut entries = demo();
    let mut newer = (**entries.last().unwrap()).clone();
    newer.seq += 1;
    newer.events = vec![serde_json::from_value(json!({ "kind": "made_up_later", "data": {} })).unwrap()];
    entries.push(std::sync::Arc::new(newer));
    let text = shown(&state(&entries, false), 80, 24);
    assert!(text.lines().next().unwrap().contains("newer: read only"), "{text}");
    assert!(text.contains("written by a newer agon"), "{text}");
    assert!(!shown(&state(&demo(), false), 80, 24).contains("newer"));
}

#[test]
fn what_waits_for_an_answer_is_one_key_away_and_esc_opens_no_commands() {
    let mut state = asked();
    let _ = update(&mut state, key(Tab));
    assert!(shown(&state, 80, 24).contains("Press Tab to answer"), "{}", shown(&state, 80, 24));
    assert!(last_line(&state, 80, 24).contains("Tab answers"));
    let _ = update(&mut state, key(Tab));
    assert!(last_line(&state, 80, 24).contains("y once"));
    let _ = update(&mut state, key(Esc));
    assert!(last_line(&state, 80, 24).contains("y once"));
    assert!(update(&mut state, key(Down)).is_empty() && update(&mut state, key(Esc)).is_empty());
    assert_eq!(
        update(&mut state, key(Esc)),
        [Act::Submit(Command::Interrupt { spark: None })],
        "twice it interrupts"
    );
    let _ = typed(&mut state, "for me");
    assert!(shown(&state, 80, 24).contains("❯ for me"), "{}", shown(&state, 80, 24));
    let _ = update(&mut state, key(Tab));
    assert!(last_line(&state, 80, 24).contains("y once"));
}

#[test]
fn every_lane_keeps_its_line_beside_an_approval() {
    let roles = ["coordinator", "coder", "reviewer", "tester"];
    let mut entries = begun(&json!("squad"), "go", &roles);
    entries.extend(super::told::asks(2, &"sh check.sh && sh all.sh\n".repeat(20)));
    let text = shown(&state(&entries, true), 80, 24);
    for role in roles {
        let is_lane = |line: &str| line.contains(role) && (line.contains("waits for") || line.contains('?'));
        assert!(text.lines().any(is_lane), "{role}\n{text}");
    }
    assert!(text.contains("y once") && text.contains("sh check.sh"), "{text}");
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
    assert!(shown(&keyed, 80, 24).contains("renamed"), "too soon to have been read");
    let _ = update(&mut keyed, Msg::Tick(now + 2_000_000));
    let _ = typed(&mut keyed, "b");
    assert!(!shown(&keyed, 80, 24).contains("renamed"));
    let mut timed = told();
    let _ = update(&mut timed, Msg::Tick(now + 7_000_000));
    assert!(!shown(&timed, 80, 24).contains("renamed"));
}

#[test]
fn leaving_takes_an_answer_back_before_it_interrupts() {
    for letters in ["nbecause", "r", "y"] {
        let mut state = asked();
        let _ = shown(&state, 80, 24);
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
    let mut record = agon::tui::SessionView::default();
    for entry in &entries[..=called] {
        record.apply(std::sync::Arc::clone(entry));
    }
    let mut state = state(&[], false);
    let _ =
        update(&mut state, Msg::SessionView { record: Box::new(record), is_live: false, is_elsewhere: true });
    let text = shown(&state, 100, 30);
    assert!(!text.contains("left open") && text.contains("runs elsewhere"), "{text}");
    assert_eq!(update(&mut state, key(Enter)), []);
}

//! Hostile text from models and tools: not one byte of it steers the terminal.

use agon::protocol::{CallId, Lane, Signal};
use agon::tui::{Msg, State, draw, update};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::{CrosstermBackend, TestBackend};
use serde_json::json;

use super::made::{begun, entry, said, shown, state};

/// Pieces of text that terminals, Markdown and wrapping have trouble with.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("\u{1b}[31m".to_owned()),
        Just("\u{1b}]0;owned\u{7}".to_owned()),
        Just("\u{1b}]52;c;cm0gLXJm\u{7}".to_owned()),
        Just("\u{9b}2J".to_owned()),
        Just("\u{1b}P+q\u{1b}\\".to_owned()),
        Just("\u{1b}[?1049l".to_owned()),
        Just("&#27;[2J&#x9b;".to_owned()),
        Just("\u{202e}\u{200b}\r\u{8}".to_owned()),
        Just("`\u{1b}[5m` [a](\u{1b}[6n) ![x](&#27;)".to_owned()),
        Just("```\u{1b}[1m\n\u{1b}[H\n```\n".to_owned()),
        Just("| a |\n|---|\n| \u{1b}c |\n\n".to_owned()),
        Just("日本\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}".to_owned()),
        "\\PC{0,12}",
        any::<String>(),
    ]
}

fn hostile(text: &str) -> State {
    let mut entries = begun(&json!("solo"), text, &[text]);
    let tool = json!({
        "message": [
            { "text": { "text": text } }, { "reasoning": { "text": text } },
            { "call": { "id": "1", "name": text, "args": { "json": { "command": text } } } }
        ],
        "usage": {}, "model": text, "finish": "tool_calls"
    });
    entries.extend(said(2, 10, 0, text, &[]));
    let called = json!({
        "call": 11, "attempt": 1, "spark": 0, "purpose": "think", "model": text, "params": {}, "digest": text,
        "parts": { "add": [] }
    });
    let fact = ("timer_fired", json!({ "call": 99, "attempt": 1, "body": { "active_ms": 1 } }));
    entries.push(entry(4, &[fact.clone(), ("model_called", called)]));
    entries.push(entry(5, &[("model_answered", json!({ "call": 11, "attempt": 1, "body": tool }))]));
    let tool_use = json!({ "answer": "e5", "part": 2 });
    let resolved = json!({ "call": 12, "attempt": 1, "body": { "use": tool_use, "status": "failed", "content": text, "exit": 1 } });
    entries.push(entry(6, &[("tool_resolved", resolved)]));
    let called = json!({
        "call": 13, "attempt": 1, "spark": 0, "purpose": "think", "model": "m/m", "params": {}, "digest": "d",
        "parts": { "add": [] }
    });
    entries.push(entry(7, &[fact, ("model_called", called), ("phase_shifted", json!({ "to": text }))]));
    let mut state = state(&entries, true);
    let signal = Signal { call: CallId(13), attempt: 1, lane: Lane::Text, offset: 0, text: text.to_owned() };
    let _ = update(&mut state, Msg::Signal(signal));
    let _ = update(&mut state, Msg::Log(text.to_owned()));
    let _ = update(&mut state, Msg::Paste(text.to_owned()));
    state
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_cell_holds_a_control_character(pieces in prop::collection::vec(piece(), 1..12)) {
        let state = hostile(&pieces.concat());
        for (columns, rows) in [(60, 16), (120, 60)] {
            let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
            terminal.draw(|frame| draw(&state, frame)).unwrap();
            for cell in terminal.backend().buffer().content() {
                prop_assert!(!cell.symbol().chars().any(char::is_control), "{:?}", cell.symbol());
                prop_assert!(cell.symbol().chars().count() <= 9, "{:?}", cell.symbol());
            }
        }
        let text = shown(&state, 120, 60);
        prop_assert!(text.lines().count() == 60);
    }

    #[test]
    fn every_escape_on_the_wire_is_our_own(pieces in prop::collection::vec(piece(), 1..12)) {
        let bytes = wire(&hostile(&pieces.concat()));
        let ours = foreign(&bytes);
        prop_assert!(ours.is_none(), "{:?}", ours);
    }
}

/// The bytes of one frame.
fn wire(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    let viewport = ratatui::Viewport::Fixed(ratatui::layout::Rect::new(0, 0, 100, 50));
    let options = ratatui::TerminalOptions { viewport };
    let mut terminal = Terminal::with_options(CrosstermBackend::new(&mut bytes), options).unwrap();
    terminal.draw(|frame| draw(state, frame)).unwrap();
    drop(terminal);
    bytes
}

/// The first sequence that is not a cursor move, a colour, or showing and hiding the cursor.
fn foreign(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    for part in text.split('\u{1b}').skip(1) {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |at| at + 1);
        let sequence = &part[..end];
        let known = sequence.starts_with('[')
            && (sequence.ends_with(['H', 'm']) || ["[?25l", "[?25h"].contains(&sequence));
        let rest = &part[end..];
        if !known || rest.chars().any(|c| c.is_control()) {
            return Some(part.to_owned());
        }
    }
    None
}

#[test]
fn a_line_of_ten_megabytes_is_drawn_like_any_other() {
    let state = hostile(&"a\u{1b}[31m日".repeat(10 * 1024 * 1024 / 9));
    for (columns, rows) in [(60, 16), (120, 40)] {
        let text = shown(&state, columns, rows);
        assert!(!text.contains('\u{1b}') && text.contains("a日") || text.contains("a\u{fffd}"), "{text}");
    }
}

#[test]
fn an_event_of_a_newer_program_is_named() {
    let mut entries = begun(&json!("solo"), "go", &["solo"]);
    let line = json!({ "v": 2, "seq": 2, "at": 1_800_000_002_000_000u64, "events": [
        { "kind": "dream_dreamt", "data": { "of": "sheep" } }
    ] });
    entries.push(std::sync::Arc::new(serde_json::from_value(line).unwrap()));
    let mut state = state(&entries, false);
    assert!(
        shown(&state, 80, 24).contains("`dream_dreamt`, an event of a newer agon"),
        "{}",
        shown(&state, 80, 24)
    );
    let _ = update(&mut state, super::made::ctrl('t'));
    let text = shown(&state, 80, 24);
    assert!(text.contains("dream_dreamt"), "{text}");
}

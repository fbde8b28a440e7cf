//! What a frame costs in time and bytes: nothing changed, a spinner turned, an answer streams in.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs)]

use std::sync::{Arc, Mutex};

use agon::protocol::{CallId, Entry, Lane, Signal};
use agon::tui::{Msg, Profile, SessionView, State, draw, update};
use divan::{Bencher, black_box};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};

const SIZES: [(u16, u16); 2] = [(120, 40), (200, 60)];

fn main() {
    let steps: [(&str, Step); 3] = [("idle", idle), ("spinner", spinner), ("stream", stream)];
    for (columns, rows) in SIZES {
        for (name, step) in steps {
            let bytes = bytes_of(columns, rows, step);
            eprintln!("{columns}x{rows} {name}: {bytes} bytes a frame");
        }
    }
    divan::main();
}

type Step = fn(&mut State, u64);

/// A sheet that counts what would go to a terminal.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<usize>>);

impl std::io::Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        *self.0.lock().unwrap() += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The demo at its last model call, which is still under way, and that call.
fn working() -> (State, CallId) {
    let text = include_str!("../tests/golden/earlier/demo-run.jsonl");
    let mut entries: Vec<Arc<Entry>> =
        text.lines().map(|line| Arc::new(serde_json::from_str(line).unwrap())).collect();
    let calls = |entry: &Entry| {
        entry.events.iter().find_map(|event| match event {
            agon::protocol::ArenaEvent::ModelCalled(data) => Some(data.call),
            _ => None,
        })
    };
    let at = entries.iter().rposition(|entry| calls(entry).is_some()).unwrap();
    entries.truncate(at + 1);
    let call = calls(&entries[at]).unwrap();
    let mut state = State::new(Profile::default(), 120, 40);
    let mut record = SessionView::default();
    assert!(entries.into_iter().all(|entry| record.apply(entry)));
    let _ =
        update(&mut state, Msg::SessionView { record: Box::new(record), is_live: true, is_elsewhere: false });
    (state, call)
}

fn idle(_: &mut State, _: u64) {}

fn spinner(state: &mut State, nth: u64) {
    let _ = update(state, Msg::Tick(1_900_000_000_000_000 + nth * 125_000));
}

fn stream(state: &mut State, nth: u64) {
    let call = running();
    let text = if nth % 40 == 39 { " **bold**.\n\n" } else { " token" };
    let offset = (0..nth).map(|n| if n % 40 == 39 { 12u64 } else { 6 }).sum();
    let signal = Signal { call, attempt: 1, lane: Lane::Text, offset, text: text.to_owned() };
    let _ = update(state, Msg::Signal(signal));
}

fn running() -> CallId {
    static CALL: std::sync::OnceLock<CallId> = std::sync::OnceLock::new();
    *CALL.get_or_init(|| working().1)
}

fn screen(columns: u16, rows: u16) -> (Terminal<CrosstermBackend<Wire>>, Wire) {
    let wire = Wire::default();
    let viewport = Viewport::Fixed(Rect::new(0, 0, columns, rows));
    let terminal =
        Terminal::with_options(CrosstermBackend::new(wire.clone()), TerminalOptions { viewport }).unwrap();
    (terminal, wire)
}

fn bytes_of(columns: u16, rows: u16, step: Step) -> usize {
    const FRAMES: usize = 500;
    let (mut state, _) = working();
    let (mut terminal, wire) = screen(columns, rows);
    terminal.draw(|frame| draw(&state, frame)).unwrap();
    *wire.0.lock().unwrap() = 0;
    for nth in 0..FRAMES {
        step(&mut state, nth as u64);
        terminal.draw(|frame| draw(&state, frame)).unwrap();
    }
    *wire.0.lock().unwrap() / FRAMES
}

fn frames(bencher: Bencher<'_, '_>, (columns, rows): (u16, u16), step: Step) {
    let (mut state, _) = working();
    let (mut terminal, _) = screen(columns, rows);
    terminal.draw(|frame| draw(&state, frame)).unwrap();
    let mut nth = 0;
    bencher.bench_local(|| {
        step(&mut state, nth);
        nth += 1;
        terminal.draw(|frame| draw(black_box(&state), frame)).map(|_| ()).unwrap();
    });
}

#[divan::bench(args = SIZES)]
fn nothing_changed(bencher: Bencher<'_, '_>, size: (u16, u16)) {
    frames(bencher, size, idle);
}

#[divan::bench(args = SIZES)]
fn a_spinner_turned(bencher: Bencher<'_, '_>, size: (u16, u16)) {
    frames(bencher, size, spinner);
}

#[divan::bench(args = SIZES)]
fn an_answer_streams(bencher: Bencher<'_, '_>, size: (u16, u16)) {
    frames(bencher, size, stream);
}

/// A key and its frame while 10 MB stand in what is being written, in one line or in many.
#[divan::bench(args = ["one line", "many lines"])]
fn a_key_after_a_paste(bencher: Bencher<'_, '_>, how: &str) {
    let (mut state, _) = working();
    let (mut terminal, _) = screen(120, 40);
    let piece =
        if how == "one line" { "forty bytes of a text without an ending " } else { "a line of a text\n" };
    let _ = update(&mut state, Msg::Paste(piece.repeat(10_000_000 / piece.len())));
    bencher.bench_local(|| {
        let _ = update(&mut state, Msg::Key(KeyEvent::from(KeyCode::Char('k'))));
        terminal.draw(|frame| draw(black_box(&state), frame)).map(|_| ()).unwrap();
    });
}

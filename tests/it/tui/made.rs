//! Sessions to look at: the recorded demo, and a squad and a debate made of single events.

use std::sync::Arc;

use agon::protocol::{ArenaEvent, Entry};
use agon::tui::{Msg, Profile, State, draw, update};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

pub use crate::support::golden::run as demo;

/// The position of the first entry that holds an event of a kind.
pub fn first(entries: &[Arc<Entry>], kind: &str) -> usize {
    entries.iter().position(|entry| entry.events.iter().any(|event| event.kind() == kind)).unwrap()
}

/// An entry of events given as kind and data, one second after the one before.
pub fn entry(seq: u64, events: &[(&str, Value)]) -> Arc<Entry> {
    let read = |(kind, data): &(&str, Value)| -> ArenaEvent {
        serde_json::from_value(json!({ "kind": kind, "data": data })).unwrap()
    };
    let at = 1_800_000_000_000_000 + seq * 1_000_000;
    let entry = Entry::made(seq, at, events.iter().map(read).collect());
    assert!(entry.events.iter().all(|event| !matches!(event, ArenaEvent::Unknown { .. })), "{entry:?}");
    Arc::new(entry)
}

/// An opened session whose only task goes to the given mode, with these sparks.
pub fn begun(mode: &Value, task: &str, roles: &[&str]) -> Vec<Arc<Entry>> {
    let mut opened = (*demo()[0]).clone();
    opened.at = 1_800_000_000_000_000;
    opened.events.truncate(1);
    let mut events =
        vec![("prompt_given", json!({ "text": task, "mode": mode })), ("turn_opened", json!({ "turn": 1 }))];
    for (nth, role) in roles.iter().enumerate() {
        let ignited = json!({ "spark": nth, "role": role, "persona": role, "model": "demo/script" });
        events.push(("spark_ignited", ignited));
    }
    vec![Arc::new(opened), entry(1, &events)]
}

/// A model call and its answer in one go.
pub fn said(seq: u64, call: u64, spark: u32, text: &str, more: &[(&str, Value)]) -> [Arc<Entry>; 2] {
    let called = json!({
        "call": call, "attempt": 1, "spark": spark, "purpose": "think", "model": "demo/script", "params": {},
        "digest": "0", "parts": { "add": [] }
    });
    let body = json!({
        "message": [{ "text": { "text": text } }], "usage": { "input": 1200, "output": 80 },
        "model": "script", "finish": "stop"
    });
    let fact = ("timer_fired", json!({ "call": 999, "attempt": 1, "body": { "active_ms": 1 } }));
    let mut events = vec![("model_answered", json!({ "call": call, "attempt": 1, "body": body }))];
    events.extend(more.iter().cloned());
    [entry(seq, &[fact, ("model_called", called)]), entry(seq + 1, &events)]
}

/// A squad whose reviewer found something.
pub fn squad() -> Vec<Arc<Entry>> {
    let mut entries = begun(&json!("squad"), "Make the clock right.", &["coordinator", "coder", "reviewer"]);
    let plan = ("plan_stated", json!({ "spark": 0, "source": "e3" }));
    let phase = |from: &str, to: &str| ("phase_shifted", json!({ "from": from, "to": to }));
    entries.extend(said(
        2,
        10,
        0,
        "1. Find the cause\n2. Mend it\n3. Show the check",
        &[plan, phase("plan", "code")],
    ));
    let proposed = ("code_proposed", json!({ "spark": 1, "checks": ["e3"] }));
    entries.extend(said(4, 11, 1, "I took the leading zero off.", &[proposed, phase("code", "review")]));
    let critique = json!({
        "spark": 2, "source": "e7", "verdict": "request_changes",
        "findings": [{
            "id": "F1", "severity": "major", "file": "clock.sh", "line": 7,
            "problem": "00 becomes an empty number"
        }]
    });
    entries.extend(said(6, 12, 2, "One case is missing.", &[("critique_issued", critique)]));
    entries
}

/// A debate of three through two phases, with a flip and a verdict.
pub fn debate() -> Vec<Arc<Entry>> {
    let plan = json!({ "debate": {
        "personas": ["pragmatist", "elegance-purist", "devils-advocate"],
        "moderator": "moderator", "rounds": 2, "scorer": "ballots"
    } });
    let names = ["pragmatist", "elegance-purist", "devils-advocate"];
    let mut entries = begun(&plan, "Tabs or spaces?", &names);
    let mut call = 10;
    for (phase, ratings) in [("initial-analysis", [2, -1, -2]), ("counterarguments", [2, 1, -1])] {
        for (spark, rating) in (0u32..).zip(ratings) {
            let seq = entries.len() as u64;
            let source = format!("e{}", seq + 1);
            let confidence = 600 + 100 * spark;
            let ballot = json!({
                "spark": spark, "source": source, "phase": phase, "confidence_pm": confidence,
                "sealed": phase == "initial-analysis"
            });
            let cast = json!({
                "spark": spark, "source": source, "phase": phase, "sealed": phase == "initial-analysis",
                "ratings": [{ "proposition": 0, "rating": rating, "confidence_pm": confidence }]
            });
            let events = [("ballot_cast", ballot), ("ratings_cast", cast)];
            entries.extend(said(
                seq,
                call,
                spark,
                &format!("I hold what {} holds.", names[spark as usize]),
                &events,
            ));
            call += 1;
        }
        let seq = entries.len() as u64;
        let fact = ("timer_fired", json!({ "call": 998, "attempt": 1, "body": { "active_ms": 1 } }));
        let flips = match phase {
            "counterarguments" => json!([{ "spark": 1, "proposition": 0, "from": -1, "to": 1 }]),
            _ => json!([]),
        };
        let probe = json!({
            "phase": phase, "scorer": "ballots", "score_pm": if phase == "counterarguments" { 640 } else { 310 },
            "agreement_pm": [500], "polarisation_pm": 300, "movement_pm": 200, "flips": flips,
            "collapse": false, "effective_votes_pm": 3000
        });
        let revealed = json!({ "ballots": ["e3", "e5", "e7"], "majority": [-1] });
        entries.push(match phase {
            "initial-analysis" => {
                entry(seq, &[fact, ("ballots_revealed", revealed), ("convergence_probed", probe)])
            }
            _ => entry(seq, &[fact, ("convergence_probed", probe)]),
        });
    }
    let seq = entries.len() as u64;
    let verdict = json!({ "source": "e3", "upheld": [1], "confidence_pm": 700, "differs": [0] });
    let dissent = json!({ "spark": 2, "propositions": [0], "source": "e13" });
    let fact = ("timer_fired", json!({ "call": 997, "attempt": 1, "body": { "active_ms": 1 } }));
    entries.push(entry(seq, &[fact, ("verdict_reached", verdict), ("dissent_recorded", dissent)]));
    entries
}

/// What the screen is told in every test.
pub fn profile() -> Profile {
    Profile {
        program: "agon 1.2.3".to_owned(),
        workspace: "~/clock".to_owned(),
        model: Some("demo/script".to_owned()),
        why: Some("it is built in".to_owned()),
        by: "ada".to_owned(),
        is_calm: true,
        ..Profile::default()
    }
}

/// What tells a screen to show these entries.
pub fn looked_at(entries: &[Arc<Entry>], is_live: bool) -> Msg {
    let mut record = agon::tui::SessionView::default();
    assert!(entries.iter().all(|entry| record.apply(Arc::clone(entry))));
    Msg::SessionView { record: Box::new(record), is_live, is_elsewhere: false }
}

/// A screen that shows these entries.
pub fn state(entries: &[Arc<Entry>], is_live: bool) -> State {
    let mut state = State::new(profile(), 80, 24);
    let _ = update(&mut state, looked_at(entries, is_live));
    let last = entries.last().map_or(0, |entry| entry.at);
    let _ = update(&mut state, Msg::Tick(last + 2_000_000));
    state
}

/// The screen as text, a line per row, without the blanks at the right.
pub fn shown(state: &State, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(state, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..rows {
        let mut line = String::new();
        let mut x = 0;
        while x < columns {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += u16::try_from(unicode_width::UnicodeWidthStr::width(symbol)).unwrap().max(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A key without modifiers.
pub fn key(code: KeyCode) -> Msg {
    Msg::Key(KeyEvent::new(code, KeyModifiers::NONE))
}

/// A letter with control.
pub fn ctrl(c: char) -> Msg {
    Msg::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL))
}

/// Types a text letter by letter.
pub fn typed(state: &mut State, text: &str) -> Vec<agon::tui::Act> {
    text.chars().flat_map(|c| update(state, key(KeyCode::Char(c)))).collect()
}

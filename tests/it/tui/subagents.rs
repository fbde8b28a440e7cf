//! Subagents on the screen: under the agent they work for, followed, spoken to and stopped one by one.

use std::sync::Arc;

use agon::protocol::{Command, Entry, SparkId};
use agon::tui::{Act, Msg, State, update};
use ratatui::crossterm::event::KeyCode::{Char, Enter, Esc, Tab};
use serde_json::{Value, json};

use super::made::{begun, entry, key, shown, state, typed};

/// An agent that gave two tasks away, the second of which is done.
fn delegating() -> Vec<Arc<Entry>> {
    let mut entries = begun(&json!("solo"), "Compare parser and printer.", &["solo"]);
    let call = |name: &str| {
        json!({ "call": { "id": name, "name": "spawn", "args": { "json": {
        "task": format!("Look at the {name}."), "name": name } } } })
    };
    let reply = json!({ "message": [call("parser"), call("printer")], "usage": { "input": 1200, "output": 80 },
        "model": "script", "finish": "tool_calls" });
    let ignited = |spark: u32, part: u32, name: &str| -> Value {
        json!({ "spark": spark, "role": format!("agent {name}"), "persona": "solo", "model": "demo/script",
            "delegated": { "parent": 0, "use": { "answer": "e3", "part": part }, "depth": 1, "tools": ["grep"],
                "permission": "ask", "max_steps": 50 } })
    };
    let called = |call: u64, spark: u32| {
        json!({ "call": call, "attempt": 1, "spark": spark, "purpose": "think", "model": "demo/script", "params": {},
            "digest": "0", "parts": { "add": [] } })
    };
    let timer = ("timer_fired", json!({ "call": 999, "attempt": 1, "body": { "active_ms": 1 } }));
    entries.push(entry(2, &[timer, ("model_called", called(10, 0))]));
    entries.push(entry(
        3,
        &[
            ("model_answered", json!({ "call": 10, "attempt": 1, "body": reply })),
            ("spark_ignited", ignited(1, 0, "parser")),
            ("model_called", called(11, 1)),
            ("spark_ignited", ignited(2, 1, "printer")),
            ("model_called", called(12, 2)),
        ],
    ));
    entries.push(ended(4, 12, 2, 1, "The printer is fine."));
    entries
}

/// A subagent answers.
fn ended(seq: u64, call: u64, spark: u32, part: u32, text: &str) -> Arc<Entry> {
    let said = json!({ "message": [{ "text": { "text": text } }], "model": "script",
        "usage": { "input": 10, "output": 8 }, "finish": "stop" });
    entry(
        seq,
        &[
            ("model_answered", json!({ "call": call, "attempt": 1, "body": said })),
            ("spark_completed", json!({ "spark": spark, "cause": "done", "answer": format!("e{seq}") })),
            (
                "tool_answered",
                json!({ "use": { "answer": "e3", "part": part }, "from": format!("e{seq}.1") }),
            ),
        ],
    )
}

fn working() -> State {
    let entries = delegating();
    let mut state = state(&entries, true);
    let _ = update(&mut state, Msg::Tick(entries[4].at + 1_000_000));
    state
}

/// Follows the next spark so many times.
fn follow(state: &mut State, times: usize) {
    let _ = update(state, key(Tab));
    for _ in 0..times {
        let _ = update(state, key(Char('s')));
    }
    let _ = update(state, key(Tab));
}

#[test]
fn subagents_are_listed_under_the_agent_they_work_for_and_tell_what_they_do() {
    for (width, height) in [(120, 30), (80, 24)] {
        let text = shown(&working(), width, height);
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words} at {width}: {text}"));
        assert!(at("solo") < at("└ agent parser") && at("└ agent parser") < at("└ agent printer"), "{text}");
        assert!(text.contains("spawn") && text.contains("Look at the parser."), "{text}");
    }
}

#[test]
fn words_go_to_the_subagent_that_is_followed_and_esc_stops_it_alone() {
    for (times, to) in [(0, None), (1, None), (2, Some(SparkId(1))), (3, None)] {
        let mut state = working();
        follow(&mut state, times);
        let named = shown(&state, 120, 30).contains("Message agent parser");
        assert_eq!(named, to.is_some(), "{times}");
        let _ = typed(&mut state, "look in src");
        let acts = update(&mut state, key(Enter));
        let said = |act: &Act| matches!(act, Act::Prompt { to: of, steers: true, .. } if *of == to);
        assert!(acts.iter().any(said), "{times}: {acts:?}");
        let acts = update(&mut state, key(Esc));
        let stops = |act: &Act| *act == Act::Submit(Command::Interrupt { spark: to });
        assert!(acts.iter().any(stops), "{times}: {acts:?}");
    }
}

#[test]
fn once_the_subagent_that_is_followed_has_ended_the_story_shows_all_again() {
    let mut state = working();
    follow(&mut state, 2);
    assert!(!shown(&state, 120, 30).contains("The printer is fine."));
    let _ = update(&mut state, Msg::Entry(ended(5, 11, 1, 0, "The parser is fine.")));
    let text = shown(&state, 120, 30);
    assert!(text.contains("The printer is fine.") && text.contains("The parser is fine."), "{text}");
}

//! What is told about a session: settings, models, rules, filters, completions, what is not read or not asked any more.

use agon::tui::{Act, Msg, Profile, State, update};
use ratatui::crossterm::event::KeyCode::{Char, Down, End, Enter, Esc, Home, Tab};
use serde_json::{Value, json};

use super::made::{begun, ctrl, debate, demo, entry, first, key, profile, said, shown, squad, state, typed};

fn last_line(state: &State, columns: u16, rows: u16) -> String {
    shown(state, columns, rows).lines().last().unwrap_or_default().to_owned()
}

/// An answer with a tool call, its plan and the ask for it.
pub fn asks(seq: u64, command: &str) -> Vec<std::sync::Arc<agon::protocol::Entry>> {
    let answered = json!({ "call": 3, "attempt": 1, "body": {
        "message": [{ "call": { "id": "c", "name": "bash", "args": { "json": { "command": command } } } }],
        "usage": { "input": 1, "output": 1 }, "model": "script", "finish": "tool_calls" } });
    let called = json!({
        "call": 3, "attempt": 1, "spark": 0, "purpose": "think", "model": "demo/script", "params": {},
        "digest": "0", "parts": { "add": [] }
    });
    let plan =
        json!({ "needs": [{ "command": command }], "preview": command, "risk": "execute", "digest": "d" });
    let tool_use = json!({ "answer": format!("e{}", seq + 1), "part": 0 });
    let prepared = json!({
        "call": 5, "attempt": 1, "body": { "use": tool_use, "result": { "ready": plan } }
    });
    let ask = json!({
        "call": 6, "attempt": 1, "spark": 0, "use": tool_use, "prepared": format!("e{}", seq + 2), "digest": "d"
    });
    let fact = ("timer_fired", json!({ "call": 999, "attempt": 1, "body": { "active_ms": 1 } }));
    vec![
        entry(seq, &[fact, ("model_called", called)]),
        entry(seq + 1, &[("model_answered", answered)]),
        entry(seq + 2, &[("tool_prepared", prepared), ("approval_requested", ask)]),
    ]
}

/// An ask that has been on a screen.
pub fn asked(command: &str) -> State {
    let mut entries = begun(&json!("solo"), "go", &["solo"]);
    entries.extend(asks(2, command));
    let state = state(&entries, true);
    let _ = shown(&state, 80, 24);
    state
}

/// The settings of a session, as JSON, with a change.
fn spec() -> Value {
    serde_json::to_value(&demo()[0].events[0]).unwrap()["data"]["spec"].clone()
}

#[test]
fn changed_settings_are_lines_of_the_story() {
    // A kind that is not known confines nothing.
    for kind in ["none", "foo"] {
        let mut workspace = spec()["workspace"].clone();
        workspace["sandbox"]["kind"] = json!(kind);
        let mut model = spec()["models"][0].clone();
        model["name"] = json!("loc/m2");
        let changed = json!({ "changed": [
            { "workspace": workspace }, { "model": { "spec": model, "default": true } }
        ] });
        let mut entries = begun(&json!("solo"), "go", &["solo"]);
        entries.push(entry(2, &[("settings_changed", changed)]));
        entries.extend(asks(3, "true"));
        let text = shown(&state(&entries, true), 100, 30);
        assert!(text.contains("⚙ tools UNCONFINED in ") && text.contains("⚙ model loc/m2"), "{text}");
        assert!(text.contains("UNCONFINED · solo wants bash"), "{text}");
        assert_eq!(text.matches("UNCONFINED").count(), 3, "the header as well: {text}");
    }
}

#[test]
fn the_header_names_the_model_that_works_and_what_comes_next() {
    let mut model = spec()["models"][0].clone();
    model["name"] = json!("loc/m2");
    let changed = json!({ "changed": [{ "model": { "spec": model, "default": true } }] });
    let mut entries = begun(&json!("solo"), "go", &["solo"]);
    entries.push(std::sync::Arc::clone(&said(2, 10, 0, "x", &[])[0]));
    entries.push(entry(3, &[("settings_changed", changed)]));
    let text = shown(&state(&entries, true), 120, 40);
    assert!(text.lines().next().unwrap().contains("demo/script, next loc/m2"), "{text}");
    let mut idle = state(&demo(), false);
    let wanted = Profile {
        wanted_sandbox: Some("docker".to_owned()),
        wanted_persona: Some("pragmatist".to_owned()),
        ..profile()
    };
    let _ = update(&mut idle, Msg::Profile(Box::new(wanted)));
    let text = shown(&idle, 120, 40);
    let first = text.lines().next().unwrap();
    assert!(first.contains("next docker") && first.contains("next persona pragmatist"), "{text}");
}

#[test]
fn the_smallest_screen_names_the_model() {
    let text = shown(&state(&demo(), false), 60, 16);
    assert!(text.lines().next().unwrap().contains("script"), "{text}");
}

#[test]
fn a_long_rule_is_seen_whole() {
    let long = format!("cargo test {} last", "--package some-long-name ".repeat(12));
    let mut state = asked(&long);
    let _ = typed(&mut state, "r");
    let text = shown(&state, 80, 24);
    let rule: String = text
        .lines()
        .skip_while(|line| !line.starts_with("  allow "))
        .take_while(|line| line.starts_with("        ") || line.starts_with("  allow "))
        .map(|line| line[8..].to_owned())
        .collect();
    assert!(rule.starts_with("bash: cargo test") && rule.contains(" last▏"), "{text}");
}

#[test]
fn a_long_command_is_scrolled_to_its_end_and_says_that_there_is_more() {
    let command = (1..60).map(|nth| format!("step-{nth}\n")).collect::<String>();
    for (columns, rows) in [(80, 24), (40, 10)] {
        let mut state = asked(&command);
        let text = shown(&state, columns, rows);
        assert!(
            text.contains("↓ to the end") && !text.contains("above") && text.contains("step-1\n"),
            "{text}"
        );
        let _ = update(&mut state, key(End));
        let text = shown(&state, columns, rows);
        assert!(text.contains("step-59"), "{text}");
        let _ = update(&mut state, key(Home));
        assert!(shown(&state, columns, rows).contains("step-1\n"));
    }
}

#[test]
fn an_ask_that_was_withdrawn_waits_for_nobody() {
    let mut entries = begun(&json!("solo"), "go", &["solo"]);
    entries.extend(asks(2, "ls"));
    let text = shown(&state(&entries, true), 80, 24);
    assert!(text.contains("waits for your answer"), "{text}");
    entries.push(entry(5, &[("call_cancelled", json!({ "call": 6, "reason": "interrupted" }))]));
    let text = shown(&state(&entries, true), 80, 24);
    assert!(!text.contains("waits for your answer") && text.contains("asked no longer"), "{text}");
}

#[test]
fn what_was_said_is_marked_until_a_model_has_read_it() {
    let mut entries = begun(&json!("solo"), "go", &["solo"]);
    entries.push(entry(2, &[("steering_given", json!({ "text": "faster" }))]));
    assert!(shown(&state(&entries, true), 80, 24).contains("not read yet"));
    let called = json!({
        "call": 4, "attempt": 1, "spark": 0, "purpose": "think", "model": "demo/script", "params": {},
        "digest": "0", "parts": { "add": [{ "role": "user", "from": "e2" }] }
    });
    let fact = ("timer_fired", json!({ "call": 999, "attempt": 1, "body": { "active_ms": 1 } }));
    entries.push(entry(3, &[fact, ("model_called", called)]));
    assert!(!shown(&state(&entries, true), 80, 24).contains("not read yet"));
}

#[test]
fn only_events_that_fit_are_chosen() {
    let mut state = state(&demo(), false);
    let _ = update(&mut state, ctrl('t'));
    let _ = typed(&mut state, "/kind:tool_resolved spark:solo");
    let _ = update(&mut state, key(Enter));
    for code in [Home, End, Down] {
        let _ = update(&mut state, key(code));
        let text = shown(&state, 100, 30);
        let chosen = text.lines().find(|line| line.contains('▸')).unwrap_or(&text);
        assert!(chosen.contains("tool_resolved"), "{code:?}\n{text}");
    }
    let _ = typed(&mut state, "/x");
    assert!(shown(&state, 100, 30).contains("no event fits"));
    let _ = update(&mut state, key(Enter));
    let _ = update(&mut state, key(Enter));
    assert!(shown(&state, 100, 30).contains("no event fits"), "nothing is opened");
    let _ = update(&mut state, ctrl('u'));
    assert!(shown(&state, 100, 30).contains("session_opened") || shown(&state, 100, 30).contains('▸'));
    assert!(!shown(&state, 100, 30).contains("no event fits"));
}

#[test]
fn a_cause_is_opened_by_its_number_and_left_by_esc() {
    let entries = demo();
    let mut state = state(&entries, false);
    let _ = update(&mut state, ctrl('t'));
    let _ = typed(&mut state, "/kind:tool_resolved");
    let _ = update(&mut state, key(Enter));
    let _ = update(&mut state, key(Enter));
    let before = shown(&state, 100, 40);
    assert!(before.contains("[1] because of"), "{before}");
    let _ = typed(&mut state, "1");
    let cause = shown(&state, 100, 40);
    assert_ne!(cause, before);
    let _ = update(&mut state, key(Esc));
    assert_eq!(shown(&state, 100, 40), before);
}

#[test]
fn completions_scroll_and_values_are_offered() {
    let mut state = state(&demo(), false);
    let _ = typed(&mut state, "/");
    assert!(shown(&state, 100, 30).contains("1 of 3"), "{}", shown(&state, 100, 30));
    for _ in 0..11 {
        let _ = update(&mut state, key(Down));
    }
    let text = shown(&state, 100, 30);
    assert!(text.contains("12 of 3") && !text.contains("/squad"), "{text}");
    let _ = update(&mut state, ctrl('c'));
    let known = Profile { models: vec!["loc/m1".to_owned(), "far/".to_owned()], ..profile() };
    let _ = update(&mut state, Msg::Profile(Box::new(known)));
    let _ = typed(&mut state, "/model l");
    let _ = update(&mut state, key(Tab));
    assert!(shown(&state, 100, 30).contains("❯ /model loc/m1"));
    let _ = update(&mut state, ctrl('c'));
    assert_eq!(typed(&mut state, "/persona "), [Act::Personas]);
    let _ = update(&mut state, Msg::Personas(vec![("pragmatist".to_owned(), "what works".to_owned())]));
    assert!(shown(&state, 100, 30).contains("what works"));
}

#[test]
fn a_file_is_named_with_lines_and_a_folder_is_gone_into() {
    let mut state = state(&demo(), false);
    let files = ["src/", "src/main.rs", "src/tui/", "src/tui/a.rs"].map(str::to_owned).to_vec();
    let _ = update(&mut state, Msg::Files(files));
    let _ = typed(&mut state, "@ma");
    let _ = update(&mut state, key(Tab));
    let _ = typed(&mut state, ":1-1 and @sr");
    let _ = update(&mut state, key(Tab));
    let _ = typed(&mut state, "t");
    let _ = update(&mut state, key(Tab));
    let text = shown(&state, 100, 30);
    assert!(text.contains("❯ @src/main.rs:1-1 and @src/tui/"), "{text}");
    assert!(text.contains("@src/tui/a.rs"), "{text}");
}

#[test]
fn what_is_wrong_with_a_record_stays_on_the_screen() {
    let mut state = state(&demo(), false);
    let _ = update(&mut state, Msg::Fault("entry e12: the chain is broken".to_owned()));
    let _ = update(&mut state, Msg::Tick(u64::MAX / 2));
    let _ = typed(&mut state, "abc");
    assert!(shown(&state, 80, 24).contains("! entry e12: the chain is broken"));
}

#[test]
fn a_long_message_is_read_whole() {
    let mut state = state(&demo(), false);
    let why = format!("cannot do it: {}the end", "because of many things ".repeat(8));
    let _ = update(&mut state, Msg::Log(why));
    let text = shown(&state, 60, 24);
    assert!(text.contains("the end"), "{text}");
}

#[test]
fn a_huge_paste_is_laid_out_around_the_cursor_only() {
    let mut state = state(&demo(), false);
    let _ = update(&mut state, Msg::Paste("word and line\n".repeat(1 << 19)));
    for c in "the end".chars() {
        let _ = update(&mut state, key(Char(c)));
        assert!(!shown(&state, 80, 24).is_empty());
    }
    assert!(shown(&state, 80, 24).contains("the end"));
}

#[test]
fn the_matrix_says_what_its_signs_mean_and_goes_back_in_time() {
    let mut state = state(&debate(), false);
    let _ = update(&mut state, key(Tab));
    let _ = typed(&mut state, "m?");
    let text = shown(&state, 60, 30);
    assert!(text.contains("++ strongly for") && text.contains("1 phase before these"), "{text}");
    let _ = update(&mut state, key(ratatui::crossterm::event::KeyCode::Left));
    let text = shown(&state, 60, 30);
    assert!(text.contains("1 phase after →") && text.contains("initial analysis"), "{text}");
}

#[test]
fn a_call_without_a_known_price_is_not_shown_as_free_by_header_roster_or_sheet() {
    let mut model = spec()["models"][0].clone();
    (model["name"], model["price"]) = (json!("far/m2"), Value::Null);
    let mut entries = begun(&json!("solo"), "go", &["solo"]);
    let changed = json!({ "changed": [{ "model": { "spec": model, "default": true } }] });
    entries.push(entry(2, &[("settings_changed", changed)]));
    let called = json!({
        "call": 10, "attempt": 1, "spark": 0, "purpose": "think", "model": "far/m2",
        "params": { "max_output": 1000 }, "digest": "0", "parts": { "add": [] }
    });
    let fact = || ("timer_fired", json!({ "call": 999, "attempt": 1, "body": { "active_ms": 1 } }));
    let reserved = ("budget_reserved", json!({ "call": 10, "tokens": 5000, "micro_usd": 0 }));
    entries.push(entry(3, &[fact(), ("model_called", called), reserved]));
    let cut = json!({ "call": 10, "attempt": 1, "body": { "kind": "cancelled", "message": "stopped" } });
    let none = json!({ "call": 10, "attempt": 1, "usage": { "input": 0, "output": 0 }, "micro_usd": 0 });
    entries.push(entry(4, &[("model_failed", cut), ("budget_settled", none)]));
    let mut state = state(&entries, true);
    let header = shown(&state, 120, 40).lines().nth(1).unwrap().to_owned();
    assert!(header.contains("price unknown"), "{header}");
    let _ = typed(&mut state, "/cost");
    let _ = update(&mut state, key(Enter));
    let text = shown(&state, 120, 40);
    assert!(text.matches("price unknown").count() >= 3 && !text.contains("$0.0000"), "{text}");
}

#[test]
fn the_matrix_of_a_debate_stays_when_something_else_is_asked() {
    let mut entries = debate();
    let seq = entries.len() as u64;
    let closed = json!({ "turn": 1, "cause": "done" });
    entries.push(entry(
        seq,
        &[
            ("timer_fired", json!({ "call": 999, "attempt": 1, "body": { "active_ms": 1 } })),
            ("turn_closed", closed),
        ],
    ));
    let given = json!({ "text": "And now?", "mode": "solo" });
    entries.push(entry(seq + 1, &[("prompt_given", given), ("turn_opened", json!({ "turn": 2 }))]));
    let mut state = state(&entries, true);
    let _ = typed(&mut state, "/matrix");
    let _ = update(&mut state, key(Enter));
    let text = shown(&state, 100, 40);
    assert!(text.contains("pragmatist") && text.contains("verdict, 70"), "{text}");
}

#[test]
fn a_copy_of_a_session_that_was_over_is_not_called_left_with_its_turn_open() {
    let mut entries = demo();
    let seq = entries.len() as u64;
    entries.push(entry(seq, &[("session_paused", json!({ "cause": "quit" }))]));
    let text = shown(&state(&entries, false), 100, 30);
    assert!(text.lines().next().unwrap().contains("· done") && !text.contains("turn open"), "{text}");
    assert!(!text.contains("paused"), "{text}");
    // A turn that was left open is paused indeed.
    let mut open = begun(&json!("solo"), "Mend it.", &["solo"]);
    open.push(entry(2, &[("session_paused", json!({ "cause": "quit" }))]));
    let text = shown(&state(&open, false), 100, 30);
    assert!(text.contains("paused: left as it was"), "{text}");
}

#[test]
fn a_diff_of_nothing_is_no_line_of_the_story() {
    let taken = |files: &[&str]| {
        let mut entries = begun(&json!("squad"), "Mend it.", &["coder"]);
        let body = json!({ "from": "a", "to": "b", "diff": "", "files": files });
        entries.push(entry(2, &[("diff_taken", json!({ "call": 3, "attempt": 1, "body": body }))]));
        shown(&state(&entries, true), 80, 24)
    };
    assert!(taken(&["a.sh"]).contains("± 1 file changed"), "{}", taken(&["a.sh"]));
    assert!(!taken(&[]).contains('±'), "{}", taken(&[]));
}

#[test]
fn what_was_told_goes_when_a_task_is_sent() {
    let entries = demo();
    for (task, acts) in [("Go on.", 1), ("/squad Go on.", 1)] {
        let mut state = state(&entries, true);
        let _ = update(&mut state, Msg::Log("model demo/script, from the next call on".to_owned()));
        assert!(shown(&state, 80, 24).contains("from the next call on"));
        let _ = typed(&mut state, task);
        assert_eq!(update(&mut state, key(Enter)).len(), acts);
        let text = shown(&state, 80, 24);
        assert!(!text.contains("from the next call on"), "{text}");
    }
}

#[test]
fn who_waits_says_for_whom_and_the_plan_is_beside() {
    let entries = squad();
    let text = shown(&state(&entries, true), 200, 60);
    assert!(text.contains("Mend it") && text.contains("00 becomes an empty number"), "{text}");
    let mut entries = begun(&json!("squad"), "Mend it.", &["coordinator", "coder", "reviewer"]);
    entries.push(std::sync::Arc::clone(&said(2, 10, 1, "x", &[])[0]));
    let text = shown(&state(&entries, true), 120, 40);
    assert!(text.contains("waits for coder"), "{text}");
    let narrow = shown(&state(&entries, true), 60, 16);
    assert!(narrow.lines().filter(|line| line.contains("waits for coder")).count() >= 1, "{narrow}");
    let _ = first(&entries, "spark_ignited");
    assert!(!last_line(&state(&entries, true), 60, 16).is_empty());
}

#[test]
fn what_a_call_that_was_cut_off_may_have_used_is_told_as_the_most_by_header_roster_and_sheet() {
    let mut entries = begun(&json!("squad"), "go", &["coordinator", "coder"]);
    let called = json!({
        "call": 10, "attempt": 1, "spark": 1, "purpose": "think", "model": "demo/script",
        "params": { "max_output": 1000 }, "digest": "0", "parts": { "add": [] }
    });
    let fact = ("timer_fired", json!({ "call": 999, "attempt": 1, "body": { "active_ms": 1 } }));
    let reserved = ("budget_reserved", json!({ "call": 10, "tokens": 5000, "micro_usd": 20_000 }));
    entries.push(entry(2, &[fact, ("model_called", called), reserved]));
    let running = shown(&state(&entries, true), 120, 40);
    assert!(!running.contains('≤'), "as long as it runs nothing is bounded:\n{running}");
    let most = |screen: &str, times: usize| {
        assert_eq!(screen.matches("≤5.0k tokens · ≤$0.0200").count(), times, "{screen}");
    };
    most(&shown(&state(&entries, false), 120, 40), 2);
    let failed = json!({ "call": 10, "attempt": 1, "body": { "kind": "cancelled", "message": "stopped" } });
    let usage = json!({ "input": 900, "output": 10, "estimated": true });
    let settled = json!({ "call": 10, "attempt": 1, "usage": usage, "micro_usd": 30 });
    entries.push(entry(3, &[("model_failed", failed), ("budget_settled", settled)]));
    let mut stopped = state(&entries, true);
    most(&shown(&stopped, 120, 40), 2);
    typed(&mut stopped, "/cost");
    update(&mut stopped, key(Enter));
    let sheet = shown(&stopped, 120, 40);
    assert!(sheet.contains("≤4,000") && sheet.contains("≤1,000") && sheet.contains("≤$0.0200"), "{sheet}");
}

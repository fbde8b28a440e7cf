//! Each view at the sizes people have, from recorded entries: what is seen is a fold and nothing else.

use agon::tui::{Msg, SessionRow, State, Theme, Trouble, update};
use ratatui::crossterm::event::KeyCode;

use crate::support::golden;

use super::made::{ctrl, debate, demo, first, key, looked_at, profile, shown, squad, state, typed};

/// The smallest, the classic, the usual and the large screen.
const SIZES: [(u16, u16); 4] = [(60, 16), (80, 24), (120, 40), (200, 60)];

fn at_all_sizes(name: &str, state: &State) {
    for (columns, rows) in SIZES {
        insta::assert_snapshot!(format!("{name}_{columns}x{rows}"), shown(state, columns, rows));
    }
}

#[test]
fn a_finished_turn() {
    at_all_sizes("finished", &state(&demo(), false));
}

#[test]
fn an_approval_of_a_command() {
    let entries = demo();
    let asked = first(&entries, "approval_requested");
    at_all_sizes("approval", &state(&entries[..=asked], true));
}

#[test]
fn an_approval_of_a_diff() {
    let entries = demo();
    let is_edit = |at: &usize| {
        let text = serde_json::to_string(&*entries[*at]).unwrap();
        text.contains("approval_requested") && text.contains("+++ b/clock.sh")
    };
    let asked = (0..entries.len()).find(is_edit).unwrap();
    at_all_sizes("approval_of_a_diff", &state(&entries[..=asked], true));
}

#[test]
fn an_approval_by_a_rule() {
    let entries = demo();
    let asked = first(&entries, "approval_requested");
    let mut state = state(&entries[..=asked], true);
    let _ = shown(&state, 80, 24);
    let _ = typed(&mut state, "r");
    at_all_sizes("approval_by_rule", &state);
}

/// A squad that asks leaves its roster no line on a low screen: nothing of it is drawn, and nothing breaks.
#[test]
fn a_squad_that_asks_is_drawn_on_every_low_screen() {
    let entries = golden::squad();
    let asked = first(&entries, "approval_requested");
    for at in [asked, entries.len() - 1] {
        let mut state = state(&entries[..=at], true);
        for rows in 8..=16 {
            for columns in [40, 60, 80, 100] {
                let _ = update(&mut state, Msg::Resize(columns, rows));
                let text = shown(&state, columns, rows);
                assert_eq!(text.contains("approval"), at == asked, "{columns}x{rows}\n{text}");
            }
        }
    }
}

#[test]
fn the_recorded_squad_under_review_and_at_its_end() {
    let entries = golden::squad();
    let reviewed = first(&entries, "critique_issued");
    at_all_sizes("recorded_squad_review", &state(&entries[..=reviewed], true));
    at_all_sizes("recorded_squad", &state(&entries, false));
}

#[test]
fn where_one_line_is_left_for_the_roles_it_is_for_whoever_does_something() {
    let entries = golden::squad();
    let asked = first(&entries, "approval_requested");
    let text = shown(&state(&entries[..=asked], true), 60, 16);
    assert!(text.contains("? coder") && !text.contains("more; s in the story"), "{text}");
}

#[test]
fn the_diff_is_stepped_through_time_and_closed_by_the_key_that_opened_it() {
    let entries = golden::squad();
    let reviewed = first(&entries, "critique_issued");
    let mut live = state(&entries[..=reviewed], true);
    let _ = update(&mut live, key(KeyCode::Tab));
    let has_keys = |state: &State| shown(state, 120, 40).contains("d whole screen");
    let _ = shown(&live, 120, 40);
    let _ = typed(&mut live, "d");
    assert!(has_keys(&live));
    let _ = typed(&mut live, "[");
    let text = shown(&live, 120, 40);
    assert!(has_keys(&live) && text.contains(&format!("e{} ", reviewed - 1)), "{text}");
    let _ = typed(&mut live, "]");
    assert!(has_keys(&live));
    let _ = typed(&mut live, "d");
    assert!(shown(&live, 120, 40).contains("Esc closes"));
    let _ = typed(&mut live, "d");
    assert!(!has_keys(&live) && !shown(&live, 120, 40).contains("Esc closes"));
    // Where there is no pane, it fills the screen at once.
    let _ = shown(&live, 80, 24);
    let _ = typed(&mut live, "d");
    assert!(shown(&live, 80, 24).contains("Esc closes"));
    let _ = typed(&mut live, "d");
    assert!(!shown(&live, 80, 24).contains("Esc closes"));
}

#[test]
fn the_diff_under_review_has_a_pane_where_there_is_room_and_a_sheet_elsewhere() {
    let entries = golden::squad();
    let reviewed = first(&entries, "critique_issued");
    let mut live = state(&entries[..=reviewed], true);
    let _ = update(&mut live, key(KeyCode::Tab));
    let text = shown(&live, 120, 40);
    assert!(text.contains("proposal 1 (e22), changes wanted · 1 file"), "{text}");
    assert!(text.contains("d in the story goes here") && text.contains("scroll · d diff"), "{text}");
    let _ = typed(&mut live, "d");
    at_all_sizes("review", &live);
    // The record is the same view, also when it looks back to that moment.
    let mut record = state(&entries, false);
    let _ = update(&mut record, key(KeyCode::Tab));
    let _ = typed(&mut record, &format!("g{reviewed}"));
    let _ = update(&mut record, key(KeyCode::Enter));
    let _ = typed(&mut record, "d");
    let whole = |text: String| text.lines().skip(2).take(18).collect::<Vec<_>>().join("\n");
    assert_eq!(whole(shown(&record, 80, 24)), whole(shown(&live, 80, 24)));
    // The second proposal is longer than the sheet: it is scrolled, and read anew from its beginning.
    let _ = update(&mut record, key(KeyCode::Esc));
    let _ = update(&mut record, key(KeyCode::Esc));
    let _ = typed(&mut record, "d");
    assert!(shown(&record, 80, 24).contains("↓ more"));
    let _ = update(&mut record, key(KeyCode::End));
    let text = shown(&record, 80, 24);
    assert!(text.contains("untitled") && !text.contains("↓ more"), "{text}");
    let _ = update(&mut record, key(KeyCode::Home));
    let text = shown(&record, 80, 24);
    assert!(text.contains("proposal 2 (e50), approved · 3 files · +15 -1"), "{text}");
    // What was found stands beneath its line; what one line had no room for is no line of its own.
    let text = shown(&record, 80, 60);
    let after = text.split(" file=$(slug \"$1\").txt").nth(1).unwrap();
    assert!(text.contains("↳& echo overwritten") && after.contains("▲ F3 note: two posts"), "{text}");
    // Where there is a pane, the keys go to it first, then it takes the whole screen.
    assert!(shown(&live, 120, 40).contains("coordinator"));
    let _ = typed(&mut live, "d");
    assert!(!shown(&live, 120, 40).contains("coordinator"));
    let _ = update(&mut live, key(KeyCode::Esc));
    assert!(shown(&live, 120, 40).contains("coordinator"));
}

#[test]
fn what_a_session_changed_is_one_sheet_and_as_it_was_at_any_moment() {
    let mut record = state(&demo(), false);
    let _ = update(&mut record, key(KeyCode::Tab));
    let _ = typed(&mut record, "d");
    let text = shown(&record, 80, 24);
    assert!(text.contains("the session's changes · 1 file · +") && text.contains("+++ b/clock.sh"), "{text}");
    at_all_sizes("changes", &record);
    let _ = update(&mut record, key(KeyCode::Esc));
    let _ = typed(&mut record, "g2");
    let _ = update(&mut record, key(KeyCode::Enter));
    let _ = typed(&mut record, "d");
    let text = shown(&record, 80, 24);
    assert!(text.contains("nothing was changed by file tools"), "{text}");
}

#[test]
fn the_recorded_debate_and_its_matrix() {
    let mut state = state(&golden::debate(), false);
    at_all_sizes("recorded_debate", &state);
    // What only a model needs of a brief is seen once somebody unfolds it.
    assert!(!shown(&state, 200, 400).contains("additionalProperties"));
    let _ = update(&mut state, key(KeyCode::Tab));
    let _ = typed(&mut state, "m");
    at_all_sizes("recorded_matrix", &state);
}

#[test]
fn an_answer_and_thinking_that_come_in() {
    let entries = demo();
    let called = first(&entries, "model_called");
    let mut state = state(&entries[..=called], true);
    let call = entries[called].events.iter().find_map(|event| match event {
        agon::protocol::ArenaEvent::ModelCalled(data) => Some(data.call),
        _ => None,
    });
    let signal = |lane, text: &str| {
        let text = text.to_owned();
        Msg::Signal(agon::protocol::Signal { call: call.unwrap(), attempt: 1, lane, offset: 0, text })
    };
    let _ = update(&mut state, signal(agon::protocol::Lane::Reasoning, "First the check, then the cause."));
    at_all_sizes("thinking", &state);
    let answer =
        "# Findings\n\n1. **eight** is read as octal\n2. `09` as well\n\n```sh\necho $((08))\n```\n\nNext";
    let _ = update(&mut state, signal(agon::protocol::Lane::Text, answer));
    at_all_sizes("streaming", &state);
}

#[test]
fn a_squad() {
    at_all_sizes("squad", &state(&squad(), true));
}

#[test]
fn a_debate() {
    at_all_sizes("debate", &state(&debate(), true));
}

#[test]
fn the_matrix_of_a_debate() {
    let mut state = state(&debate(), true);
    let _ = update(&mut state, key(KeyCode::Tab));
    let _ = typed(&mut state, "m");
    at_all_sizes("matrix", &state);
}

#[test]
fn nothing_is_seen_of_sealed_ballots() {
    let entries = debate();
    let revealed = first(&entries, "ballots_revealed");
    let mut state = state(&entries[..revealed], true);
    let text = shown(&state, 120, 40);
    assert!(!text.contains("I hold") && text.contains("sealed until every ballot is in"), "{text}");
    let _ = update(&mut state, key(KeyCode::Tab));
    let _ = typed(&mut state, "m");
    let text = shown(&state, 120, 40);
    assert!(!text.contains('%') && text.contains("sealed"), "{text}");
}

#[test]
fn the_first_screen() {
    at_all_sizes("welcome", &State::new(profile(), 80, 24));
}

#[test]
fn the_first_screen_with_nothing_set_up() {
    let hints = vec!["export OPENAI_API_KEY".to_owned(), "start Ollama".to_owned()];
    let trouble = Some(Trouble { what: "no model is configured".to_owned(), hints });
    let profile = agon::tui::Profile { model: None, why: None, trouble, ..profile() };
    at_all_sizes("nothing_set_up", &State::new(profile, 80, 24));
}

#[test]
fn looking_back_while_work_goes_on() {
    let entries = demo();
    let asked = first(&entries, "approval_requested");
    let mut state = state(&entries[..=asked], true);
    let _ = update(&mut state, key(KeyCode::Tab));
    let _ = typed(&mut state, "[[[");
    at_all_sizes("past", &state);
}

#[test]
fn events_one_event_and_a_whole_request() {
    let entries = demo();
    let mut state = state(&entries, false);
    let _ = update(&mut state, ctrl('t'));
    at_all_sizes("events", &state);
    let _ = typed(&mut state, "/model_called solo");
    let _ = update(&mut state, key(KeyCode::Enter));
    let _ = update(&mut state, key(KeyCode::Up));
    insta::assert_snapshot!("events_filtered", shown(&state, 100, 14));
    let _ = update(&mut state, key(KeyCode::Enter));
    at_all_sizes("request", &state);
    let mut state = super::made::state(&crate::support::golden::present("run"), false);
    let _ = update(&mut state, ctrl('t'));
    let _ = typed(&mut state, "/model_called solo");
    for code in [KeyCode::Enter, KeyCode::Up, KeyCode::Enter] {
        let _ = update(&mut state, key(code));
    }
    let text = shown(&state, 100, 60);
    assert!(text.contains("its digest is the recorded one") && text.contains("system  from e0"), "{text}");
}

#[test]
fn sheets() {
    let mut state = state(&demo(), false);
    let _ = typed(&mut state, "/help");
    let _ = update(&mut state, key(KeyCode::Enter));
    at_all_sizes("help", &state);
    let _ = update(&mut state, key(KeyCode::Esc));
    let _ = typed(&mut state, "/cost");
    let _ = update(&mut state, key(KeyCode::Enter));
    at_all_sizes("cost", &state);
    let _ = update(&mut state, key(KeyCode::Esc));
    let _ = update(&mut state, ctrl('o'));
    let row = |id: &str, prompt: &str| SessionRow {
        id: id.to_owned(),
        prompt: prompt.to_owned(),
        workspace: "/home/ada/clock".to_owned(),
        entries: 29,
        newest_at: 1_800_000_000_000_000,
        fault: None,
        name: (id == "01a1fe01-77aa").then(|| "sails".to_owned()),
        state: if id == "01a1fe01-77aa" { "cut off" } else { "done" },
    };
    let rows = vec![row("01a1fe00-8a43", "Mend the clock"), row("01a1fe01-77aa", "Name the sails")];
    let _ = update(&mut state, Msg::Sessions(rows));
    at_all_sizes("sessions", &state);
    let _ = typed(&mut state, "sails");
    let text = shown(&state, 80, 16);
    assert!(text.contains("Name the sails") && !text.contains("Mend the clock"), "{text}");
}

#[test]
fn completion_and_many_lines() {
    let mut state = state(&demo(), false);
    let _ = typed(&mut state, "/re");
    at_all_sizes("completion", &state);
    let _ = update(&mut state, ctrl('c'));
    let _ = update(&mut state, Msg::Paste("/quit\nis text\n日本語 wide".to_owned()));
    at_all_sizes("many_lines", &state);
}

#[test]
fn without_colour_nothing_is_lost() {
    let entries = demo();
    let profile = agon::tui::Profile { theme: Theme::Plain, ..profile() };
    let mut plain = State::new(profile, 80, 24);
    let _ = update(&mut plain, looked_at(&entries, false));
    assert_eq!(shown(&plain, 120, 40), shown(&state(&entries, false), 120, 40));
}

#[test]
fn any_size_is_drawn() {
    let (demo, debate) = (demo(), debate());
    let asked = first(&demo, "approval_requested");
    for state in [state(&demo[..=asked], true), state(&debate, true)] {
        for columns in (1..=300).step_by(13) {
            for rows in (1..=100).step_by(7) {
                let _ = shown(&state, columns, rows);
            }
        }
    }
}

#[test]
fn an_approval_of_a_call_that_is_not_right_above_says_which_one_it_is() {
    use super::made::{begun, entry};
    use serde_json::json;
    let mut entries = begun(&json!("solo"), "go", &["solo"]);
    let called = json!({
        "call": 5, "attempt": 1, "spark": 0, "purpose": "think", "model": "demo/script", "params": {},
        "digest": "0", "parts": { "add": [] }
    });
    let call = |id: &str, name: &str, args: serde_json::Value| json!({ "call": { "id": id, "name": name, "args": { "json": args } } });
    let message = json!([
        call("a", "edit_file", json!({ "path": "post.sh" })),
        call("b", "bash", json!({ "command": "sh check.sh" }))
    ]);
    let body = json!({
        "message": message, "usage": { "input": 1, "output": 1 }, "model": "script", "finish": "tool_calls"
    });
    let tool_use = json!({ "answer": "e3", "part": 0 });
    let plan = json!({ "needs": [], "preview": "p", "risk": "write", "digest": "d" });
    let fact = ("timer_fired", json!({ "call": 9, "attempt": 1, "body": { "active_ms": 1 } }));
    let prepared =
        json!({ "call": 6, "attempt": 1, "body": { "use": tool_use, "result": { "ready": plan } } });
    let asks = json!({
        "call": 7, "attempt": 1, "spark": 0, "use": tool_use, "prepared": "e4", "digest": "d"
    });
    entries.push(entry(2, &[fact, ("model_called", called)]));
    entries.push(entry(3, &[("model_answered", json!({ "call": 5, "attempt": 1, "body": body }))]));
    entries.push(entry(4, &[("tool_prepared", prepared), ("approval_requested", asks)]));
    let text = shown(&state(&entries, true), 80, 24);
    assert!(text.contains("└ edit_file post.sh: waits for your answer"), "{text}");
}

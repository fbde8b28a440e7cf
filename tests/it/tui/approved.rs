//! What is approved is what was seen: nothing hidden, both ends on the screen, no key before the end was there.

use std::sync::Arc;

use agon::protocol::Choice;
use agon::tui::{State, update};
use ratatui::crossterm::event::KeyCode::{Char, Down, End, Enter, PageDown};
use serde_json::json;

use super::keys::answers;
use super::made::{begun, key, shown, state, typed};
use super::told::{asked, asks};

/// `y` and Enter, with a look at the screen before each.
fn allowed(state: &mut State) -> bool {
    let _ = shown(state, 80, 24);
    let _ = update(state, key(Char('y')));
    let _ = shown(state, 80, 24);
    answers(&update(state, key(Enter))) == [&Choice::Once]
}

#[test]
fn what_is_invisible_in_a_command_is_seen() {
    let state =
        asked("sh bu\u{1D173}ild\u{FE0F}.sh\u{1F3FB} a\u{A0}b\u{2800}c e\u{301}\u{301}\u{301}\u{301}");
    let text = shown(&state, 120, 24);
    let whole = "sh bu<U+1D173>ild<U+FE0F>.sh<U+1F3FB> a<U+00A0>b<U+2800>c e\u{301}\u{301}\u{301}<U+0301>";
    assert!(text.contains(whole), "{text}");
    let headline = text.lines().find(|line| line.contains("bash sh")).unwrap();
    assert!(headline.contains("sh bu<U+1D173>ild<U+FE0F>.sh<U+1F3FB>"), "{text}");
}

#[test]
fn that_nothing_confines_is_never_cut_off_and_needs_hide_nothing() {
    let host = format!("a\u{202e}b.{}", "x".repeat(90));
    let mut entries = begun(&json!("solo"), "go", &["solo"]);
    entries.extend(asks(2, "true").iter().map(|entry| {
        let (old, new) = (r#""needs":[{"command":"true"}"#, json!([{ "command": "true" }, { "host": host }]));
        let new = format!(r#""needs":{}"#, new.to_string().trim_end_matches(']'));
        let text = serde_json::to_string(&**entry).unwrap().replace(old, &new);
        Arc::new(serde_json::from_str(&text).unwrap())
    }));
    let text = shown(&state(&entries, true), 60, 24);
    assert!(text.contains("UNCONFINED · solo wants bash"), "{text}");
    assert!(text.contains("a<U+202E>b.x"), "{text}");
}

#[test]
fn a_mark_that_colours_would_part_from_its_sign_is_seen_in_a_diff() {
    let state = asked("--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@\n-let a = 1;\n+\u{301}let b = 2;\n");
    let text = shown(&state, 80, 24);
    assert!(text.contains("+<U+0301>let b = 2;"), "{text}");
}

#[test]
fn a_payload_behind_many_blanks_or_lines_is_seen_at_once() {
    for hidden in [" ".repeat(3000), "\n".repeat(300), "echo ok\n".repeat(300)] {
        let mut state = asked(&format!("echo top{hidden}; touch PWN"));
        let text = shown(&state, 80, 24);
        assert!(text.contains("echo top") && text.contains("touch PWN"), "{text}");
        assert!(text.contains("<3000 blanks>") || text.contains("more rows like it"), "{text}");
        assert!(allowed(&mut state), "nothing is left to be seen: {text}");
    }
}

#[test]
fn both_ends_of_a_long_command_are_on_the_screen_and_no_key_allows_it_before_its_end_was() {
    let command: String = (1..=300).map(|nth| format!("step-{nth}\n")).collect();
    let mut state = asked(&command);
    let text = shown(&state, 80, 24);
    assert!(text.contains("step-1\n") && text.contains("step-300"), "{text}");
    assert!(text.contains("lines not shown") && text.contains("before you allow it"), "{text}");
    for letter in ['y', 's', 'r'] {
        let _ = update(&mut state, key(Char(letter)));
        assert!(answers(&update(&mut state, key(Enter))).is_empty(), "{letter}");
    }
    assert!(shown(&state, 80, 24).contains("press End to see the rest"), "{}", shown(&state, 80, 24));
    let _ = update(&mut state, key(End));
    assert!(allowed(&mut state));

    let mut state = asked(&command);
    let _ = typed(&mut state, "nno");
    let denied = Choice::Deny("no".to_owned());
    assert_eq!(answers(&update(&mut state, key(Enter))), [&denied], "a no needs no look");
}

#[test]
fn every_line_is_on_the_screen_on_the_way_to_the_end() {
    for step in [Down, PageDown] {
        let mut state = asked(&(1..=60).map(|nth| format!("step-{nth};\n")).collect::<String>());
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..80 {
            let text = shown(&state, 80, 24);
            seen.extend((1..=60).filter(|nth| text.contains(&format!("step-{nth};"))));
            let _ = update(&mut state, key(step));
        }
        assert_eq!(seen.len(), 60, "{step:?}");
        assert!(allowed(&mut state));
    }
}

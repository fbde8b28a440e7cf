//! The permission level on the screen: shown with its word, changed by one key, and how long a rule is granted.

use agon::protocol::spec::PermissionLevel;
use agon::protocol::{Choice, Command};
use agon::tui::{Act, Msg, Profile, State, update};
use ratatui::crossterm::event::KeyCode::{BackTab, Char, Enter, Tab};
use serde_json::json;

use super::made::{begun, entry, key, profile, shown, state, typed};
use super::told::{asked, asks};

fn header(state: &State) -> String {
    shown(state, 80, 24).lines().take(2).collect::<Vec<_>>().join("\n")
}

#[test]
fn shift_tab_goes_through_the_levels_and_the_header_says_which_holds_and_which_is_next() {
    let mut entries = begun(&json!("solo"), "go", &["solo"]);
    entries.extend(asks(2, "cargo test"));
    let mut state = state(&entries, true);
    assert!(header(&state).contains("level ask"), "{}", header(&state));
    assert_eq!(update(&mut state, key(BackTab)), [Act::Permission(PermissionLevel::Edits)]);
    let wanted = Profile { wanted_level: Some(PermissionLevel::Auto), ..profile() };
    let _ = update(&mut state, Msg::Profile(Box::new(wanted)));
    assert!(header(&state).contains("level ask, next auto"), "{}", header(&state));
    assert_eq!(
        update(&mut state, key(BackTab)),
        [Act::Permission(PermissionLevel::Plan)],
        "after the next one"
    );
    let changed = json!({ "changed": [{ "permission": "auto" }] });
    let next = entry(entries.last().unwrap().seq + 1, &[("settings_changed", changed)]);
    let _ = update(&mut state, Msg::Entry(next));
    assert!(header(&state).contains("level auto") && !header(&state).contains("next"), "{}", header(&state));
}

#[test]
fn tab_keeps_a_rule_for_the_workspace_and_then_for_all() {
    for (tabs, words, kept) in [
        (0, "for the session", None),
        (1, "kept for this workspace", Some(false)),
        (2, "kept for every workspace", Some(true)),
    ] {
        let mut state = asked("cargo test");
        let _ = shown(&state, 120, 40);
        let _ = update(&mut state, key(Char('r')));
        for _ in 0..tabs {
            let _ = update(&mut state, key(Tab));
        }
        assert!(shown(&state, 120, 40).contains(words), "{}", shown(&state, 120, 40));
        let acts = update(&mut state, key(Enter));
        let granted = acts.iter().find_map(|act| match act {
            Act::Submit(answer @ Command::Answer { .. }) => Some((answer, None)),
            Act::Keep { answer, everywhere } => Some((answer, Some(*everywhere))),
            _ => None,
        });
        let (answer, everywhere) = granted.unwrap();
        assert!(matches!(answer, Command::Answer { choice: Choice::Rule(_), .. }), "{answer:?}");
        assert_eq!(everywhere, kept);
    }
}

/// What a line comes to, and the screen after it.
fn sent(line: &str) -> (Vec<Act>, String) {
    let mut state = State::new(profile(), 80, 24);
    let _ = typed(&mut state, line);
    let acts = update(&mut state, key(Enter));
    (acts, shown(&state, 80, 24))
}

#[test]
fn a_level_is_set_by_its_name_and_a_plan_is_accepted_only_where_there_is_one() {
    assert_eq!(sent("/permission plan").0, [Act::Permission(PermissionLevel::Plan)]);
    assert!(
        sent("/permission full").1.contains("plan, ask, edits or auto"),
        "{}",
        sent("/permission full").1
    );
    let (acts, text) = sent("/accept");
    assert!(acts.is_empty() && text.contains("no plan to accept"), "{acts:?} {text}");
}

//! Approvals that are neither missed nor misfired: what is typed when one arrives, several at once, the same letters in lines.

use std::sync::Arc;

use agon::protocol::Choice;
use agon::tui::{Act, Msg, State, update};
use ratatui::crossterm::event::KeyCode::{Char, Enter, Tab};

use super::keys::answers;
use super::made::{demo, entry, first, key, shown, state, typed};
use super::pty::Terminal;
use crate::cli::run::{WRITES, scripted};

/// An approval that came while somebody was writing.
fn interrupted(draft: &str) -> (State, Vec<Act>) {
    let entries = demo();
    let at = first(&entries, "approval_requested");
    let mut state = state(&entries[..at], true);
    let mut acts = typed(&mut state, draft);
    acts.extend(update(&mut state, Msg::Entry(Arc::clone(&entries[at]))));
    let _ = update(&mut state, Msg::Tick(entries[at].at + 1_000_000));
    let _ = shown(&state, 100, 30);
    (state, acts)
}

#[test]
fn a_letter_sent_from_where_messages_are_written_reaches_no_model_and_allows_nothing() {
    for letters in ["y", "Y ", "yes", "s", "n", "r", "yy", "ok"] {
        let (mut state, acts) = interrupted(&letters[..1]);
        let mut acts: Vec<Act> = acts.into_iter().filter(|act| *act != Act::Bell).collect();
        acts.extend(typed(&mut state, &letters[1..]));
        acts.extend(update(&mut state, key(Enter)));
        assert_eq!(acts, [], "{letters:?}");
        let text = shown(&state, 100, 30);
        assert!(text.contains("not sent to the model and not answered yet"), "{letters:?}: {text}");
        let _ = update(&mut state, Msg::Tick(4_000_000_000_000_000));
        assert_eq!(update(&mut state, key(Char('y'))), [], "{letters:?}");
        assert_eq!(answers(&update(&mut state, key(Enter))), [&Choice::Once], "{letters:?}");
    }
}

#[test]
fn a_message_that_was_being_written_is_still_sent() {
    let (mut state, _) = interrupted("yes, but look at ");
    let _ = typed(&mut state, "the tests first");
    let acts = update(&mut state, key(Enter));
    assert!(matches!(&acts[..], [Act::Prompt { steers: true, .. }]), "{acts:?}");
}

#[test]
fn a_letter_typed_as_it_appears_is_not_lost() {
    let entries = demo();
    let at = first(&entries, "approval_requested");
    let mut state = state(&entries[..at], true);
    let _ = update(&mut state, Msg::Tick(entries[at].at));
    let _ = update(&mut state, Msg::Entry(Arc::clone(&entries[at])));
    let _ = typed(&mut state, "no");
    let text = shown(&state, 100, 30);
    assert!(text.contains("\u{276f} no") && text.contains("Press Tab to answer"), "{text}");
    let _ = update(&mut state, Msg::Tick(4_000_000_000_000_000));
    let _ = update(&mut state, key(Tab));
    let _ = typed(&mut state, "nwrong folder");
    let denied = Choice::Deny("wrong folder".to_owned());
    assert_eq!(answers(&update(&mut state, key(Enter))), [&denied]);
}

#[test]
fn several_that_wait_are_a_list_and_a_digit_goes_to_one() {
    let entries = demo();
    let at = first(&entries, "approval_requested");
    let mut asked = serde_json::to_value(&*entries[at]).unwrap()["events"].as_array().unwrap().clone();
    let ask = asked.iter_mut().find(|event| event["kind"] == "approval_requested").unwrap();
    ask["data"]["call"] = 900.into();
    ask["data"]["target"] = "rm -r build".into();
    let mut state = state(&entries[..=at], true);
    let second = entry(at as u64 + 1, &[("approval_requested", ask["data"].clone())]);
    let _ = update(&mut state, Msg::Entry(second));
    let text = shown(&state, 100, 30);
    assert!(text.contains("approval 1 of 2"), "{text}");
    let row = |text: &str, start: &str| text.lines().any(|line| line.trim_start().starts_with(start));
    assert!(row(&text, "\u{25b8} 1 ") && row(&text, "2 "), "{text}");
    let _ = typed(&mut state, "2");
    let text = shown(&state, 100, 30);
    assert!(text.contains("approval 2 of 2") && row(&text, "\u{25b8} 2 "), "{text}");
}

#[test]
fn in_lines_the_letters_are_those_of_the_screen() {
    for (letters, code, said) in [
        (&["y\r"][..], 0, "written"),
        (&["please do\r", "s\r"], 0, "written"),
        (&["r\r", "\r"], 0, "written"),
        (&["r\r", "bash: *\r", "r\r", "write_file: *.txt\r"], 0, "written"),
        (&["n not there\r"], 0, "written"),
    ] {
        let env = scripted(WRITES);
        let mut terminal = Terminal::start(&env, &["run", "write"], 100, 40);
        for (nth, letters) in letters.iter().enumerate() {
            let asks =
                |text: &str| text.matches("n REASON no:").count() + text.matches("or write another:").count();
            terminal.wait("the question", |text| asks(text) > nth && text.trim_end().ends_with(':'));
            // What is typed before the question is read does not answer it.
            std::thread::sleep(std::time::Duration::from_millis(200));
            terminal.press(letters);
        }
        terminal.wait_for(said);
        assert_eq!(terminal.end(), code, "{letters:?}");
        let is_denied = letters[0].starts_with('n');
        assert_eq!(env.work().join("a.txt").exists(), !is_denied, "{letters:?}");
    }
}

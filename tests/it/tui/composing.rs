//! What is written and how: clearing, new lines, long pastes, what was written before, the person's editor, other tools' words.

use agon::protocol::Command;
use agon::tui::{Act, Msg, update};
use ratatui::crossterm::event::KeyCode::{Backspace, Enter, Esc, Tab, Up};
use ratatui::crossterm::event::{KeyEvent, KeyModifiers};

use super::made::{ctrl, demo, first, key, shown, state, typed};
use super::pty::Terminal;
use crate::cli::run::{HELLO, scripted};

fn text_of(acts: &[Act]) -> &str {
    match acts {
        [Act::Prompt { text, .. }] => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn esc_clears_what_is_written_and_only_then_interrupts() {
    let entries = demo();
    let called = first(&entries, "model_called");
    let mut state = state(&entries[..=called], true);
    let _ = typed(&mut state, "half a mess");
    assert_eq!(update(&mut state, key(Esc)), []);
    let text = shown(&state, 100, 24);
    assert!(text.contains("brings it back, Esc again interrupts") && !text.contains("half a mess"), "{text}");
    let _ = update(&mut state, key(Up));
    assert!(shown(&state, 100, 24).contains("half a mess"));
    let _ = update(&mut state, key(Esc));
    assert_eq!(update(&mut state, key(Esc)), [Act::Submit(Command::Interrupt { spark: None })]);
}

#[test]
fn ctrl_c_leaves_only_when_it_is_pressed_twice() {
    let mut state = state(&demo(), false);
    assert_eq!(update(&mut state, ctrl('c')), []);
    assert!(shown(&state, 100, 24).contains("Ctrl-C again leaves agon"));
    let _ = typed(&mut state, "x");
    let _ = update(&mut state, key(Backspace));
    assert_eq!(update(&mut state, ctrl('c')), [], "something else was done meanwhile");
    assert_eq!(update(&mut state, ctrl('c')), [Act::Quit]);
}

#[test]
fn a_backslash_or_shift_before_enter_is_a_new_line() {
    let mut state = state(&demo(), false);
    let _ = typed(&mut state, "one\\");
    assert_eq!(update(&mut state, key(Enter)), []);
    let _ = typed(&mut state, "two");
    assert_eq!(update(&mut state, Msg::Key(KeyEvent::new(Enter, KeyModifiers::SHIFT))), []);
    let _ = typed(&mut state, "three");
    assert_eq!(text_of(&update(&mut state, key(Enter))), "one\ntwo\nthree");
}

#[test]
fn a_long_paste_is_a_line_that_opens_and_is_sent_whole() {
    let log: String = (0..500).map(|nth| format!("line {nth}\n")).collect();
    let mut state = state(&demo(), false);
    let _ = typed(&mut state, "why? ");
    let _ = update(&mut state, Msg::Paste(log.clone()));
    let text = shown(&state, 100, 24);
    assert!(text.contains("why? [pasted 500 lines; Tab opens]") && !text.contains("line 499"), "{text}");
    assert_eq!(text_of(&update(&mut state, key(Enter))), format!("why? {log}"));
    let _ = update(&mut state, Msg::Paste(log));
    let _ = update(&mut state, key(Tab));
    assert!(shown(&state, 100, 24).contains("line 499"));
}

#[test]
fn what_was_written_before_is_searched() {
    let mut state = state(&demo(), false);
    let earlier = ["fix the parser", "write docs", "fix the lexer"].map(str::to_owned);
    let _ = update(&mut state, Msg::History(earlier.to_vec()));
    let _ = typed(&mut state, "fix");
    let _ = update(&mut state, ctrl('r'));
    let text = shown(&state, 100, 24);
    assert!(text.contains("\u{25b8} fix the lexer") && text.contains("fix the parser"), "{text}");
    assert!(!text.contains("write docs"), "{text}");
    let _ = update(&mut state, ctrl('r'));
    let _ = update(&mut state, key(Enter));
    assert_eq!(text_of(&update(&mut state, key(Enter))), "fix the parser");
}

#[test]
fn words_of_other_tools_are_known_and_a_typing_error_is_told() {
    for (line, act) in [("/exit", Act::Quit), ("/clear", Act::New)] {
        let mut state = state(&demo(), false);
        let _ = typed(&mut state, line);
        assert_eq!(update(&mut state, key(Enter)), [act], "{line}");
    }
    let mut state = state(&demo(), false);
    let _ = typed(&mut state, "/modle x/y");
    let _ = update(&mut state, key(Enter));
    let text = shown(&state, 100, 24);
    assert!(text.contains("there is no /modle, did you mean `/model`?"), "{text}");
    let _ = update(&mut state, ctrl('c'));
    let _ = typed(&mut state, "/status");
    let _ = update(&mut state, key(Enter));
    assert!(shown(&state, 120, 24).contains("demo/script \u{b7} sandbox none"), "{}", shown(&state, 120, 24));
    let _ = typed(&mut state, "/init");
    assert!(text_of(&update(&mut state, key(Enter))).contains("AGENTS.md"));
}

#[test]
fn an_editor_of_ones_own_gets_the_text_and_gives_it_back_and_earlier_tasks_are_there() {
    let mut env = scripted(&HELLO.repeat(2));
    assert_eq!(env.run(&["run", "the task of yesterday"]).code, 0);
    env.write("work/edit.sh", "read key < /dev/tty\necho \" and $key\" >> \"$1\"\n");
    env.set("EDITOR", "sh edit.sh");
    let mut screen = Terminal::start(&env, &["--sandbox", "none"], 100, 30);
    screen.wait_for("write a task");
    screen.press("begun here");
    screen.wait_for("\u{276f} begun here");
    screen.press("\x07");
    screen.wait("the editor", |text| !text.contains("begun here"));
    screen.press("typed there\r");
    screen.wait("the text", |text| text.contains("begun here") && text.contains("and typed there"));
    screen.press("\r");
    screen.wait("the answer", |text| text.contains("hello") && text.contains("── done"));
    screen.press("\x12yester");
    screen.wait_for("\u{25b8} the task of yesterday");
    screen.press("\r");
    screen.wait_for("\u{276f} the task of yesterday");
    screen.press("\x1b");
    screen.wait_for("brings it back");
    screen.press("\x03\x03");
    assert_eq!(screen.end(), 0);
}

#[test]
fn words_are_found_in_the_story_newest_first_and_marked() {
    let mut state = state(&demo(), false);
    let _ = shown(&state, 100, 24);
    let _ = update(&mut state, ctrl('f'));
    let _ = typed(&mut state, "OCTAL");
    let text = shown(&state, 100, 24);
    assert!(text.contains("Find OCTAL\u{258f}") && text.to_lowercase().contains("as octal"), "{text}");
    let newest = text.clone();
    let _ = update(&mut state, key(Enter));
    let text = shown(&state, 100, 24);
    assert!(text != newest && text.contains("bad octal numbers"), "{text}");
    let _ = typed(&mut state, " nowhere");
    assert!(shown(&state, 100, 24).contains("no more of it"));
    let _ = update(&mut state, key(Esc));
    assert!(!shown(&state, 100, 24).contains("Find "), "the window stays, the line goes");
}

#[test]
fn the_last_answer_stays_in_the_terminal() {
    let env = scripted(HELLO);
    let mut screen = Terminal::start(&env, &["greet me", "--sandbox", "none"], 100, 30);
    screen.wait("the answer", |text| text.contains("hello") && text.contains("── done"));
    screen.press("\x04");
    screen.wait("the ordinary screen", |text| {
        text.contains("hello") && text.contains("done \u{b7} ") && text.contains("continue: agon -c")
    });
    assert_eq!(screen.end(), 0);
}

#[test]
fn a_command_of_ones_own_runs_in_the_sandbox_and_its_output_is_offered() {
    let env = scripted(&HELLO.replace("text =", "expect = \"made by hand\"\ntext ="));
    let mut screen = Terminal::start(&env, &["--sandbox", "local"], 100, 30);
    screen.wait_for("write a task");
    screen.press("!echo made by hand; touch /etc/agon-was-here; exit 3\r");
    screen.wait("its output", |text| text.contains("made by hand\n") && text.contains("(exit 3)"));
    screen.wait_for("Enter sends the output to the model");
    assert!(!std::path::Path::new("/etc/agon-was-here").exists());
    screen.press("\r");
    screen.wait("the answer", |text| text.contains("hello") && text.contains("── done"));
    screen.press("\x04");
    assert_eq!(screen.end(), 0);
}

#[test]
fn who_looks_elsewhere_is_told_of_an_approval_and_of_the_end() {
    let entries = demo();
    let asked = first(&entries, "approval_requested");
    let mut state = state(&entries[..asked], true);
    let _ = update(&mut state, Msg::Focus(false));
    let acts = update(&mut state, Msg::Entry(std::sync::Arc::clone(&entries[asked])));
    assert_eq!(acts, [Act::Notify("an approval waits for you".to_owned())]);
    let _ = update(&mut state, Msg::Focus(true));
    let rest: Vec<Act> = entries[asked + 1..]
        .iter()
        .flat_map(|entry| update(&mut state, Msg::Entry(std::sync::Arc::clone(entry))))
        .collect();
    assert!(rest.iter().all(|act| *act == Act::Bell), "{rest:?}");
}

#[test]
fn what_agon_does_by_itself_is_told_to_who_asks_for_it() {
    let mut state = state(&demo(), false);
    let _ = typed(&mut state, "/compact");
    assert_eq!(update(&mut state, key(Enter)), []);
    assert!(shown(&state, 120, 24).contains("agon summarises by itself"), "{}", shown(&state, 120, 24));
}

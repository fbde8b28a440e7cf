//! What each key changes and asks for, without a terminal.

use std::sync::Arc;

use agon::protocol::{CallId, Choice, Command, Lane, Signal};
use agon::tui::{Act, Msg, State, update};
use ratatui::crossterm::event::KeyCode::{Backspace, Char, Enter, Esc, Tab};

use agon::tui::{ModeRequest, Worker};

use super::made::{begun, ctrl, demo, entry, first, key, shown, state, typed};

/// An ask that has been on a screen.
pub fn asked() -> State {
    let entries = demo();
    let asked = first(&entries, "approval_requested");
    let state = state(&entries[..=asked], true);
    let _ = shown(&state, 80, 24);
    state
}

fn prompt(text: &str, written: &str, wish: ModeRequest) -> Act {
    Act::Prompt { text: text.to_owned(), wish, written: written.to_owned(), steers: false, to: None }
}

fn steer(text: &str) -> Act {
    let (text, written) = (text.to_owned(), text.to_owned());
    Act::Prompt { text, wish: ModeRequest::default(), written, steers: true, to: None }
}

pub fn answers(acts: &[Act]) -> Vec<&Choice> {
    acts.iter()
        .filter_map(|act| match act {
            Act::Submit(Command::Answer { choice, by, .. }) => {
                assert_eq!(by, "ada");
                Some(choice)
            }
            _ => None,
        })
        .collect()
}

#[test]
fn no_single_key_answers_an_approval() {
    for code in (32u8..127).map(|byte| Char(char::from(byte))).chain([Enter, Esc, Tab, Backspace]) {
        let mut state = asked();
        let acts = update(&mut state, key(code));
        assert_eq!(answers(&acts), Vec::<&Choice>::new(), "{code:?}");
    }
}

#[test]
fn two_keys_answer_it() {
    for (letter, choice) in [('y', Choice::Once), ('s', Choice::Session)] {
        let mut state = asked();
        assert_eq!(update(&mut state, key(Char(letter))), []);
        assert_eq!(answers(&update(&mut state, key(Enter))), [&choice]);
    }
    let mut state = asked();
    let _ = typed(&mut state, "nuse the other script");
    let acts = update(&mut state, key(Enter));
    assert_eq!(answers(&acts), [&Choice::Deny("use the other script".to_owned())]);
}

/// The rule that is on the screen, as it is written.
pub fn ruled(state: &State) -> String {
    let text = shown(state, 80, 24);
    text.lines().find_map(|line| line.strip_prefix("  allow ")).map(|rule| rule.replace('▏', "")).unwrap()
}

#[test]
fn a_rule_is_shown_before_it_is_granted_and_can_be_changed() {
    let mut state = asked();
    let _ = typed(&mut state, "r");
    let offered = ruled(&state);
    assert_eq!(offered, "bash: sh check.sh");
    for _ in 0.."check.sh".len() {
        let _ = update(&mut state, key(Backspace));
    }
    let _ = typed(&mut state, "*");
    assert_eq!(ruled(&state), "bash: sh *");
    let acts = update(&mut state, key(Enter));
    let [Choice::Rule(rule)] = answers(&acts)[..] else { panic!("{acts:?}") };
    assert_eq!((rule.tool.as_deref(), rule.command.as_deref()), (Some("bash"), Some("sh *")));
    assert_eq!(rule.name, "granted by ada: bash: sh *");
}

#[test]
fn a_rule_that_was_not_taken_is_there_to_be_mended() {
    let mut state = asked();
    let _ = typed(&mut state, "rx");
    let acts = update(&mut state, key(Enter));
    let [Act::Submit(Command::Answer { call, digest, choice, by })] = &acts[..] else { panic!("{acts:?}") };
    let answered = serde_json::json!({ "call": call, "digest": digest, "choice": choice, "by": by });
    let why = serde_json::json!({ "reason": "the rule does not allow the call it answers" });
    let seq = state.next_seq();
    let _ = update(
        &mut state,
        Msg::Entry(entry(seq, &[("approval_answered", answered), ("input_refused", why)])),
    );
    assert!(shown(&state, 80, 24).contains("the rule does not allow the call"), "{}", shown(&state, 80, 24));
    let _ = update(&mut state, key(Backspace));
    assert_eq!(ruled(&state), "bash: sh check.sh");
    assert!(matches!(answers(&update(&mut state, key(Enter)))[..], [Choice::Rule(_)]));
}

#[test]
fn an_answer_is_taken_back_by_esc() {
    let mut state = asked();
    let _ = typed(&mut state, "y");
    let _ = update(&mut state, key(Esc));
    assert_eq!(answers(&update(&mut state, key(Enter))), Vec::<&Choice>::new());
}

#[test]
fn a_sentence_that_was_begun_as_the_approval_came_up_is_no_answer() {
    for text in ["yes\n", "say no\n", "sy\n", "so yes\n"] {
        let mut state = asked();
        let acts: Vec<Act> = text
            .chars()
            .flat_map(|c| update(&mut state, if c == '\n' { key(Enter) } else { key(Char(c)) }))
            .collect();
        assert_eq!(answers(&acts), Vec::<&Choice>::new(), "{text:?}");
    }
}

#[test]
fn a_key_that_was_on_its_way_is_no_answer() {
    let entries = demo();
    let at = first(&entries, "approval_requested");
    let mut state = state(&entries[..at], true);
    let _ = update(&mut state, Msg::Tick(entries[at].at));
    let acts = update(&mut state, Msg::Entry(Arc::clone(&entries[at])));
    assert_eq!(acts, [Act::Bell]);
    let _ = update(&mut state, key(Char('y')));
    assert_eq!(answers(&update(&mut state, key(Enter))), Vec::<&Choice>::new());
}

#[test]
fn what_is_being_written_keeps_the_keys() {
    let entries = demo();
    let at = first(&entries, "approval_requested");
    let mut state = state(&entries[..at], true);
    let _ = typed(&mut state, "wait: ");
    let _ = update(&mut state, Msg::Entry(Arc::clone(&entries[at])));
    let _ = update(&mut state, Msg::Tick(entries[at].at + 9_000_000));
    let _ = typed(&mut state, "y");
    let acts = update(&mut state, key(Enter));
    assert_eq!(acts, [steer("wait: y")]);
}

#[test]
fn control_characters_of_a_command_are_seen() {
    let mut entries = begun(&serde_json::json!("solo"), "go", &["solo"]);
    let plan = serde_json::json!({
        "needs": [{ "command": "ls\u{1b}[2K\u{7}\trm" }], "preview": "ls\u{1b}[2K\u{7}\trm\u{202e}", "risk": "execute",
        "digest": "d"
    });
    let tool_use = serde_json::json!({ "answer": "e1", "part": 0 });
    let prepared = serde_json::json!({
        "call": 5, "attempt": 1, "body": { "use": tool_use, "result": { "ready": plan } }
    });
    let asks = serde_json::json!({
        "call": 6, "attempt": 1, "spark": 0, "use": tool_use, "prepared": "e2", "digest": "d"
    });
    entries.push(entry(2, &[("tool_prepared", prepared), ("approval_requested", asks)]));
    let text = shown(&state(&entries, true), 80, 24);
    assert!(text.contains("ls<ESC>[2K<BEL>→   rm<U+202E>"), "{text}");
}

#[test]
fn a_task_is_sent_a_running_one_is_steered_and_interrupted() {
    let entries = demo();
    let mut idle = state(&entries, false);
    let _ = typed(&mut idle, "next");
    assert_eq!(update(&mut idle, key(Enter)), [prompt("next", "next", ModeRequest::default())]);
    let called = first(&entries, "model_called");
    let mut running = state(&entries[..=called], true);
    let _ = typed(&mut running, "faster");
    assert_eq!(update(&mut running, key(Enter)), [steer("faster")]);
    assert_eq!(update(&mut running, key(Esc)), [Act::Submit(Command::Interrupt { spark: None })]);
}

#[test]
fn a_pasted_block_is_never_a_command() {
    let mut state = state(&demo(), false);
    let _ = update(&mut state, Msg::Paste("/quit\n".to_owned()));
    assert_eq!(update(&mut state, key(Enter)), [prompt("/quit\n", "/quit\n", ModeRequest::default())]);
    let _ = typed(&mut state, "/quit");
    assert_eq!(update(&mut state, key(Enter)), [Act::Quit]);
}

#[test]
fn every_slash_command_does_something() {
    for slash in agon::tui::SLASHES {
        let mut state = state(&demo(), false);
        let before = shown(&state, 100, 40);
        let argument = match slash.takes {
            "" => "",
            "PROVIDER/MODEL" => " demo/script",
            "dark|light|plain" => " light",
            "[SEQ]" => " 3",
            "FLAGS" => " --max-tokens 7",
            "solo|squad|debate [FLAGS]" => " squad --check 'sh check.sh'",
            _ => " 01",
        };
        let _ = typed(&mut state, &format!("{}{argument}", slash.name));
        let acts = update(&mut state, key(Enter));
        let changed = shown(&state, 100, 40) != before || slash.name == "/theme";
        assert!(!acts.is_empty() || changed, "{}", slash.name);
    }
}

#[test]
fn a_squad_or_a_debate_gets_its_task_and_flags() {
    let mut state = state(&demo(), false);
    let line = "/squad --check 'sh check.sh' --blueprint=pair don't stop\n";
    let _ = typed(&mut state, line.trim_end());
    let flags = vec!["--check=sh check.sh".to_owned(), "--blueprint=pair".to_owned()];
    let wish = ModeRequest { worker: Worker::Squad, flags };
    assert_eq!(update(&mut state, key(Enter)), [prompt("don't stop", line.trim_end(), wish)]);
    for (line, why) in [
        ("/squad", "/squad expects a task"),
        ("/debate --rounds 3", "/debate expects a question"),
        ("/debate --rounds", "--rounds expects a value"),
        ("/mode swarm", "/mode expects solo, squad or debate"),
        ("/limits 7", "/limits expects flags"),
    ] {
        let _ = typed(&mut state, line);
        assert_eq!(update(&mut state, key(Enter)), [], "{line}");
        let text = shown(&state, 100, 24);
        assert!(text.contains(why) && text.contains(&format!("❯ {line}")), "{line}:\n{text}");
        let _ = update(&mut state, ctrl('c'));
    }
}

#[test]
fn the_mode_is_seen_and_used_by_what_is_written_next() {
    let mut state = state(&demo(), false);
    let _ = typed(&mut state, "/mode debate --rounds 2");
    let wish = ModeRequest { worker: Worker::Debate, flags: vec!["--rounds=2".to_owned()] };
    assert_eq!(update(&mut state, key(Enter)), [Act::Mode(wish.clone())]);
    let _ = update(&mut state, Msg::Mode(wish.clone()));
    let text = shown(&state, 100, 24);
    assert!(text.lines().next().unwrap().contains("solo, next debate · "), "{text}");
    assert!(text.contains("── debate --rounds=2 ──"), "{text}");
    let _ = typed(&mut state, "Tabs?");
    assert_eq!(update(&mut state, key(Enter)), [prompt("Tabs?", "Tabs?", wish)]);
}

#[test]
fn what_is_refused_is_there_again_to_be_mended() {
    let mut state = state(&demo(), false);
    let refused = || {
        let (text, why) = ("/squad --blueprint=nope x".to_owned(), "no blueprint".to_owned());
        Msg::Refused { text, why }
    };
    let _ = update(&mut state, refused());
    let text = shown(&state, 100, 24);
    assert!(text.contains("❯ /squad --blueprint=nope x") && text.contains("no blueprint"), "{text}");
    let _ = update(&mut state, ctrl('c'));
    let _ = typed(&mut state, "already something else");
    let _ = update(&mut state, refused());
    assert!(shown(&state, 100, 24).contains("❯ already something else"));
}

#[test]
fn flags_words_and_lines_of_files_are_completed() {
    let mut state = state(&demo(), false);
    let _ = update(&mut state, Msg::Files(vec!["src/".to_owned(), "src/main.rs".to_owned()]));
    for (line, offered) in [
        ("/mode s", "solo"),
        ("/mode debate --r", "--rounds"),
        ("/squad --", "--blueprint"),
        ("/theme ", "light"),
        ("look at @src/m", "@src/main.rs"),
        ("look at @main:3-9", "@src/main.rs:3-9"),
        ("look at @sr", "@src/ "),
    ] {
        let _ = typed(&mut state, line);
        assert!(shown(&state, 100, 24).contains(offered), "{line}:\n{}", shown(&state, 100, 24));
        let _ = update(&mut state, ctrl('c'));
    }
}

#[test]
fn an_unknown_command_stays_to_be_mended() {
    let mut state = state(&demo(), false);
    let _ = typed(&mut state, "/hepl");
    assert_eq!(update(&mut state, key(Enter)), []);
    let text = shown(&state, 80, 24);
    assert!(text.contains("there is no /hepl") && text.contains("❯ /hepl"), "{text}");
}

#[test]
fn time_is_travelled_by_steps_and_jumps() {
    let entries = demo();
    let last = entries.len() as u64 - 1;
    let mut state = state(&entries, false);
    let _ = update(&mut state, key(Tab));
    let _ = typed(&mut state, "[[");
    assert!(shown(&state, 80, 24).contains(&format!("◀ e{}", last - 2)));
    let _ = typed(&mut state, "]");
    assert!(shown(&state, 80, 24).contains(&format!("◀ e{}", last - 1)));
    let _ = typed(&mut state, "g7");
    let _ = update(&mut state, key(Enter));
    assert!(shown(&state, 80, 24).contains("◀ e7"));
    assert_eq!(typed(&mut state, "f"), [], "one key alone starts nothing");
    assert!(shown(&state, 80, 24).contains("Fork at e7?"), "{}", shown(&state, 80, 24));
    let _ = update(&mut state, key(Esc));
    let _ = typed(&mut state, "f");
    assert_eq!(update(&mut state, key(Enter)), [Act::Fork { id: None, seq: Some(7) }]);
    let _ = update(&mut state, key(Esc));
    assert!(shown(&state, 80, 24).contains(&format!("record e{last}")));
}

/// What is written where somebody looks back is not sent before they have seen the present.
#[test]
fn nothing_is_sent_from_the_past() {
    for (open, way) in [("t", "t"), ("\n", "t")] {
        let mut state = state(&demo(), false);
        let _ = typed(&mut state, "next");
        let _ = update(&mut state, ctrl('t'));
        for _ in 0..6 {
            let _ = update(&mut state, key(ratatui::crossterm::event::KeyCode::Up));
        }
        if open == "\n" {
            let _ = update(&mut state, key(Enter));
        }
        let _ = typed(&mut state, way);
        let text = shown(&state, 80, 24);
        assert!(text.contains("◀ e") && text.lines().last().unwrap().contains("[ ] step"), "{text}");
        let _ = update(&mut state, key(Esc));
        let _ = typed(&mut state, "g3");
        let _ = update(&mut state, key(Enter));
        let _ = update(&mut state, key(Tab));
        assert!(shown(&state, 80, 24).contains("Enter goes back to now"));
        assert_eq!(update(&mut state, key(Enter)), []);
        let text = shown(&state, 80, 24);
        assert!(!text.contains('◀') && text.contains("Enter once more sends"), "{text}");
        assert_eq!(update(&mut state, key(Enter)), [prompt("next", "next", ModeRequest::default())]);
    }
    let mut state = state(&demo(), false);
    let _ = update(&mut state, key(Tab));
    let _ = typed(&mut state, "[[/squad Do it.");
    assert_eq!(update(&mut state, key(Enter)), []);
    assert!(matches!(update(&mut state, key(Enter))[..], [Act::Prompt { .. }]));
}

#[test]
fn a_question_or_a_jump_pauses_what_is_played() {
    for keys in ["f", "g"] {
        let mut state = state(&demo(), false);
        let now = demo().last().unwrap().at + 2_000_000;
        let _ = update(&mut state, key(Tab));
        let _ = typed(&mut state, "r");
        assert!(shown(&state, 80, 24).contains('▶'));
        let _ = typed(&mut state, keys);
        let _ = update(&mut state, Msg::Tick(now + 3_600_000_000));
        let text = shown(&state, 80, 24);
        assert!(!text.contains('▶') && text.contains("◀ e0"), "{text}");
    }
}

/// Whatever way a moment is reached, it looks the same.
#[test]
fn a_moment_is_the_same_from_both_sides() {
    let entries = demo();
    let mut back = state(&entries, false);
    let _ = update(&mut back, key(Tab));
    for seq in (0..entries.len() - 1).rev() {
        let _ = typed(&mut back, "[");
        // One that somebody else works on: its clock is that of its last entry.
        let mut live = state(&[], false);
        let mut record = agon::tui::SessionView::default();
        for entry in &entries[..=seq] {
            record.apply(Arc::clone(entry));
        }
        let _ = update(
            &mut live,
            Msg::SessionView { record: Box::new(record), is_live: false, is_elsewhere: true },
        );
        let story = |state: &State| {
            let text = shown(state, 100, 200);
            text.lines()
                .skip(3)
                .take_while(|line| !line.contains('━') && !line.contains("●─") && !line.starts_with("──"))
                .map(str::trim_end)
                .collect::<Vec<_>>()
                .join("\n")
                .trim_end()
                .to_owned()
        };
        assert_eq!(story(&back), story(&live), "e{seq}");
    }
}

#[test]
fn a_record_is_played_by_its_own_clock() {
    let entries = demo();
    let mut state = state(&entries, false);
    let _ = typed(&mut state, "/replay");
    let _ = update(&mut state, key(Enter));
    let now = entries.last().unwrap().at + 2_000_000;
    assert!(state.wants_tick().is_some());
    assert!(shown(&state, 80, 24).contains("e0 "));
    let _ = update(&mut state, Msg::Tick(now + 3_600_000_000));
    assert!(shown(&state, 80, 24).contains(&format!("record e{}", entries.len() - 1)));
    assert!(state.wants_tick().is_none());
}

#[test]
fn live_text_is_shown_and_nothing_moves_when_nothing_works() {
    let entries = demo();
    let called = first(&entries, "model_called");
    let mut state = state(&entries[..=called], true);
    let call = entries[called]
        .events
        .iter()
        .find_map(|event| match event {
            agon::protocol::ArenaEvent::ModelCalled(data) => Some(data.call),
            _ => None,
        })
        .unwrap_or(CallId(0));
    for (offset, text) in [(0, "I look **at** "), (14, "it.")] {
        let signal = Signal { call, attempt: 1, lane: Lane::Text, offset, text: text.to_owned() };
        let _ = update(&mut state, Msg::Signal(signal));
    }
    assert!(shown(&state, 80, 24).contains("I look at it."));
    assert!(state.wants_tick().is_some());
    assert!(super::made::state(&entries, true).wants_tick().is_none());
}

#[test]
fn leaving_takes_back_the_nearest_thing_first() {
    let entries = demo();
    let called = first(&entries, "model_called");
    let mut state = state(&entries[..=called], true);
    let _ = typed(&mut state, "draft");
    assert_eq!(update(&mut state, ctrl('c')), []);
    assert_eq!(update(&mut state, ctrl('c')), [Act::Submit(Command::Interrupt { spark: None })]);
    assert_eq!(update(&mut state, ctrl('c')), [Act::Quit]);
}

/// `docs/commands.md` is made from the two tables; `AGON_WRITE_DOCS=1` writes it.
#[test]
fn the_documentation_lists_every_key_and_command() {
    let mut text = "# Keys and commands of mission control\n\nMade from the tables that the program itself obeys; a test holds this page to them.\n\n## Commands\n\n| command | what it does | on the command line |\n|---|---|---|\n".to_owned();
    for slash in agon::tui::SLASHES {
        let takes = if slash.takes.is_empty() {
            String::new()
        } else {
            format!(" {}", slash.takes.replace('|', "\\|"))
        };
        let twin = if slash.twin.is_empty() { "-".to_owned() } else { format!("`{}`", slash.twin) };
        text += &format!("| `{}{takes}` | {} | {twin} |\n", slash.name, slash.help);
        for flag in slash.flags {
            let takes = flag.takes.replace('|', "\\|");
            text += &format!("| · `{} {takes}` | {} | the same |\n", flag.name, flag.help);
        }
    }
    text += "\n## Keys\n\n| key | what it does |\n|---|---|\n";
    for row in agon::tui::KEYS.iter().filter(|row| !row.help.is_empty()) {
        text += &format!("| {} | {} |\n", row.keys, row.help);
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md");
    if std::env::var_os("AGON_WRITE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), text);
}

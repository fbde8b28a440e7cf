//! What people type who know other tools: tasks without a command, short options, short ids, little talk.

use serde_json::Value;

use super::run::{HELLO, WRITES, check, ids, scripted};
use crate::support::env::Env;
use crate::tui::pty::Terminal;

/// What a shell would offer for a command line.
fn offered(env: &Env, words: &[&str]) -> String {
    let words = [&["--", "agon"], words].concat();
    let index = (words.len() - 2).to_string();
    let mut command = env.command(&words);
    command.env("AGON_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", index);
    command.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_IFS", "\n");
    let output = command.output().unwrap();
    env.scrub(&output.stdout)
}

#[test]
fn print_and_exec_are_run_and_options_may_come_first() {
    for arguments in [
        &["-p", "greet"][..],
        &["greet", "--print"],
        &["exec", "greet"],
        &["--sandbox", "none", "run", "greet"],
        &["--yes", "-m", "mock/any", "exec", "greet"],
        &["-m", "mock/any", "-p", "greet"],
    ] {
        let env = scripted(HELLO);
        check(&env.run(arguments), 0, "hello\n");
    }
}

#[test]
fn a_task_without_a_terminal_is_run_with_what_comes_through_the_pipe() {
    let answer = HELLO.replace("text =", "expect = \"explain this\\n\\nfn a() {}\"\ntext =");
    for arguments in [&["explain this"][..], &["-p", "explain this"], &["run", "explain this"]] {
        check(&scripted(&answer).run_with(arguments, b"fn a() {}\n"), 0, "hello\n");
    }
    let env = scripted(&HELLO.replace("text =", "expect = \"only this\"\ntext ="));
    check(&env.run_with(&["run", "-"], b"only this\n"), 0, "hello\n");
    let rows: Vec<Value> = serde_json::from_str(&env.run(&["sessions", "list", "--json"]).stdout).unwrap();
    assert_eq!(rows[0]["prompt"], "only this", "the hyphen is no part of the task");
    check(&env.run_with(&["run", "-"], b""), 2, "");
}

#[test]
fn a_word_that_looks_like_a_command_is_no_task_unless_it_is_said_to_be() {
    let env = scripted(HELLO);
    let ran = env.run(&["sesions"]);
    check(&ran, 2, "");
    assert!(ran.stderr.contains("unknown command `sesions`\nhint: did you mean `agon sessions`?"), "{ran}");
    check(&env.run(&["--", "sesions"]), 0, "hello\n");
}

#[test]
fn a_session_is_named_by_the_end_of_its_id_or_its_name_and_continued_by_one_letter() {
    let env = scripted(&HELLO.repeat(5));
    check(&env.run(&["run", "greet"]), 0, "hello\n");
    let id = ids(&env).remove(0);
    let short = &id[28..];
    check(&env.run(&["-c", "-p", "more"]), 0, "hello\n");
    check(&env.run(&["run", "-c", "more"]), 0, "hello\n");
    check(&env.run(&["run", "-r", short, "more"]), 0, "hello\n");
    assert_eq!(env.run(&["sessions", "rename", short, "the greeting"]).code, 0);
    check(&env.run(&["-r", "the greeting", "-p", "more"]), 0, "hello\n");
    assert_eq!(ids(&env), std::slice::from_ref(&id), "all in one session");
    assert!(env.run(&["sessions", "show", "the greeting"]).stdout.contains(&id));
    for name in ["the", "abc", ""] {
        assert_eq!(env.run(&["sessions", "show", name]).code, 2, "{name}");
    }
    let ran = env.run(&["resume"]);
    assert!(ran.code == 2 && ran.stderr.contains("no session was named"), "{ran}");
}

#[test]
fn a_run_says_one_line_at_its_end_nothing_or_everything() {
    let env = scripted(&WRITES.repeat(3));
    let ran = env.run(&["run", "write", "--yes"]);
    let id = ids(&env).remove(0);
    let line = ran.stderr.lines().last().unwrap();
    assert!(line.starts_with("done \u{b7} ") && line.contains(" tokens \u{b7} "), "{ran}");
    assert!(line.ends_with(&format!("changed: a.txt \u{b7} session {}", &id[28..])), "{ran}");
    assert_eq!(ran.stderr.lines().filter(|line| line.contains(" \u{b7} ")).count(), 1, "{ran}");
    let quiet = env.run(&["run", "write", "--yes", "-q"]);
    assert_eq!((quiet.code, quiet.stdout.as_str(), quiet.stderr.as_str()), (0, "written\n", ""));
    let verbose = env.run(&["-v", "run", "write", "--yes"]);
    assert!(verbose.stderr.contains("work     2 model calls, "), "{verbose}");
    assert_eq!(env.run(&["run", "-q", "-v", "x"]).code, 2);
    let failed = scripted("").run(&["run", "-q", "greet"]);
    assert!(failed.code == 1 && failed.stderr.starts_with("error: "), "{failed}");
}

#[test]
fn words_are_found_in_what_was_said_done_and_changed_with_their_event() {
    let env = scripted(&format!("{WRITES}{HELLO}"));
    assert_eq!(env.run(&["run", "write the Octal fix", "--yes"]).code, 0);
    assert_eq!(env.run(&["run", "greet"]).code, 0);
    let [greeted, wrote] = ids(&env).try_into().unwrap();
    for (words, kind) in [
        (&["octal", "FIX"][..], "prompt_given"),
        (&["I write."], "model_answered"),
        (&["+new"], "tool_prepared"),
    ] {
        let found = env.run(&[&["sessions", "search"], words].concat());
        assert!(found.stdout.contains(&wrote[28..]) && found.stdout.contains(kind), "{words:?}: {found}");
        assert!(words[0] != "octal" || !found.stdout.contains(&greeted[28..]), "{found}");
        let json = env.run(&[&["sessions", "search", "--json"], words].concat());
        let rows: Vec<Value> = serde_json::from_str(&json.stdout).unwrap();
        let of = |row: &&Value| row["kind"] == kind && row["session"] == wrote.as_str();
        let row = rows.iter().find(of).unwrap_or_else(|| panic!("{json}"));
        assert!(row["event"].as_str().unwrap().starts_with('e'), "{json}");
    }
    check(&env.run(&["sessions", "search", "octal", "greet"]), 0, "");
}

#[test]
fn shells_complete_sessions_models_personas_and_blueprints() {
    let env = scripted(HELLO);
    check(&env.run(&["run", "greet"]), 0, "hello\n");
    let id = ids(&env).remove(0);
    env.write("home/personas/critic.md", "---\ndescription: Finds faults\n---\nFind faults.\n");
    for (words, expected) in [
        (&["resume", ""][..], &id[28..]),
        (&["sessions", "show", "lat"], "latest"),
        (&["run", "-m", "mo"], "mock/any"),
        (&["--persona", "cri"], "critic"),
        (&["squad", "--blueprint", ""], "default"),
        (&["ses"], "sessions"),
        (&["run", "--out"], "--output-schema"),
    ] {
        let text = offered(&env, words);
        assert!(text.lines().any(|line| line == expected), "{words:?}: {text}");
    }
}

#[test]
fn a_task_opens_the_screen_and_a_list_is_there_to_choose_from() {
    let env = scripted(&HELLO.repeat(3));
    let mut screen = Terminal::start(&env, &["/etc is what I mean", "--sandbox", "none"], 100, 30);
    screen.wait("the answer", |text| text.contains("── done") && text.contains("/etc is what I mean"));
    screen.press("\x04");
    assert_eq!(screen.end(), 0);
    let mut screen = Terminal::start(&env, &["-r", "--sandbox", "none"], 100, 30);
    screen.wait("the list", |text| text.contains("search:") && text.contains("/etc is what I mean"));
    screen.press("\r");
    screen.wait("the session", |text| !text.contains("search:") && text.contains("hello"));
    screen.press("\x04");
    assert_eq!(screen.end(), 0);
    let mut screen = Terminal::start(&env, &["-c", "once more", "--sandbox", "none"], 100, 30);
    screen.wait("the second turn", |text| text.contains("once more") && text.matches("── done").count() == 2);
    screen.press("\x04");
    assert_eq!(screen.end(), 0);
    assert_eq!(ids(&env).len(), 1);
}

#[test]
fn in_a_terminal_sessions_fit_its_width_and_one_is_chosen_by_its_number() {
    let env = scripted(&format!("{WRITES}{HELLO}"));
    assert_eq!(env.run(&["run", &format!("write {}", "very long words ".repeat(20))]).code, 4);
    let id = ids(&env).remove(0);
    let list = Terminal::start(&env, &["sessions"], 60, 20);
    list.wait_for(&id[28..]);
    let text = list.text();
    assert_eq!(text.lines().filter(|line| !line.trim().is_empty()).count(), 1, "{text}");
    assert!(text.contains('\u{2026}') && text.contains("asks"), "{text}");
    assert_eq!(list.end(), 0);
    let mut picker = Terminal::start(&env, &["resume", "--yes"], 100, 30);
    picker.wait_for("Number, id or name");
    picker.press("1\r");
    picker.wait_for("written");
    assert_eq!(picker.end(), 0);
}

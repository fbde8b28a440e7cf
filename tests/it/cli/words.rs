//! What people are told at the end of a run and about files, through the real program.

use super::run::{HELLO, WRITES, check, entries, ids, scripted};
use crate::support::env::Env;

#[test]
fn the_summary_counts_refused_calls_and_names_changed_files() {
    let script = format!(
        "[[answer]]\nspark = \"solo\"\ntext = \"?\"\ncalls = [{{ tool = \"fly\", args = {{}} }}]\n{WRITES}"
    );
    let ran = scripted(&script).run(&["run", "write", "--yes", "-v"]);
    check(&ran, 0, "written\n");
    assert!(ran.stderr.contains("work     3 model calls, 2 tool calls (1 refused), "), "{ran}");
    assert!(ran.stderr.contains("files    changed: a.txt\n"), "{ran}");
}

#[test]
fn a_changed_file_with_a_space_in_its_name_is_one_name() {
    let ran = scripted(&WRITES.replace("a.txt", "a b, c.txt")).run(&["run", "write", "--yes", "-v"]);
    check(&ran, 0, "written\n");
    assert!(ran.stderr.contains("files    changed: \"a b, c.txt\"\n"), "{ran}");
}

#[test]
fn what_a_pause_asks_about_is_shown_as_an_approval_shows_it() {
    let odd = "sh bu\\ufe0fild.sh\\u3000 x                                     touch PWN";
    let calls = format!("calls = [{{ tool = \"bash\", args = {{ command = \"{odd}\" }} }}]");
    let ran =
        scripted(&format!("[[answer]]\nspark = \"solo\"\ntext = \"?\"\n{calls}\n")).run(&["run", "build"]);
    assert_eq!(ran.code, 4, "{ran}");
    let asked = ran.stderr.lines().find(|line| line.contains("asks: ")).unwrap_or_else(|| panic!("{ran}"));
    assert!(
        asked.contains("<U+FE0F>") && asked.contains("<U+3000>") && asked.contains("<37 blanks>touch"),
        "{asked}"
    );
}

#[test]
fn a_failed_model_call_is_called_by_its_kind() {
    let answer = "[[answer]]\nspark = \"solo\"\nerror = { kind = \"auth\", message = \"who are you\" }\n";
    let ran = scripted(answer).run(&["run", "greet", "-v"]);
    assert!(ran.stderr.contains("end      the model call failed: key missing or refused\n"), "{ran}");
}

#[test]
fn an_answer_that_does_not_fit_is_shown_with_what_did_not() {
    let env = scripted(&HELLO.repeat(2));
    env.write("work/s.json", r#"{"type":"object"}"#);
    let ran = env.run(&["run", "count", "--output-schema", "s.json"]);
    check(&ran, 1, "");
    assert!(ran.stderr.contains("the answer is not JSON"), "{ran}");
    assert!(ran.stderr.contains("the answer was: hello\n"), "{ran}");
}

#[test]
fn a_place_for_the_answer_that_cannot_be_written_is_told_before_the_run() {
    let env = scripted(HELLO);
    for target in ["no/such/folder/a.txt", "."] {
        let ran = env.run(&["run", "greet", "-o", target]);
        check(&ran, 2, "");
        assert!(ran.stderr.contains("cannot write the answer to"), "{ran}");
    }
    assert!(!env.home().join("sessions").exists(), "nothing was begun");
    env.write("work/a.txt", "old\n");
    check(&env.run(&["run", "greet", "-o", "a.txt"]), 0, "hello\n");
    let names: Vec<_> = std::fs::read_dir(env.work()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["a.txt"], "nothing else is left there");
    assert_eq!(std::fs::read_to_string(env.work().join("a.txt")).unwrap(), "hello\n");
}

#[test]
fn what_is_no_log_is_called_so() {
    let env = Env::new();
    env.write("work/notes.jsonl", "{\"hello\": 1}\n").write("work/empty.jsonl", "");
    for file in ["notes.jsonl", "empty.jsonl"] {
        for command in [&["verify", file][..], &["replay", file], &["sessions", "import", file]] {
            let ran = env.run(command);
            check(&ran, 2, "");
            assert!(ran.stderr.contains("is not a log of agon"), "{ran}");
        }
    }
}

#[test]
fn a_head_that_was_printed_is_compared() {
    let env = scripted(HELLO);
    assert_eq!(env.run(&["run", "greet"]).code, 0);
    let log = entries(&env.run(&["sessions", "export", "latest"]).stdout);
    let head = |back: usize| log[log.len() - back]["h"].as_str().unwrap().to_owned();
    assert_eq!(env.run(&["verify", "latest", "--head", &head(1)]).code, 0);
    let ran = env.run(&["verify", "latest", "--head", &head(2)]);
    assert_eq!(ran.code, 5, "{ran}");
    assert!(ran.stderr.contains("the log ends with"), "{ran}");
}

#[test]
fn a_replay_can_show_everything_and_ends_where_the_log_does() {
    let env = scripted(HELLO);
    assert_eq!(env.run(&["run", "greet"]).code, 0);
    let (short, full) = (env.run(&["replay", "latest"]), env.run(&["replay", "latest", "--full"]));
    assert!(full.stdout.contains("settle") && !short.stdout.contains("settle"), "{full}");
    for flags in [&["--at", "99"][..], &["--at", "99", "--json"]] {
        let ran = env.run(&[&["replay", "latest"], flags].concat());
        check(&ran, 2, "");
        assert!(ran.stderr.contains("there is no entry 99"), "{ran}");
    }
}

#[test]
fn sessions_alone_can_be_json_and_an_ambiguous_name_lists_what_fits() {
    let env = scripted(&HELLO.repeat(2));
    for prompt in ["first words", "other words"] {
        assert_eq!(env.run(&["run", prompt]).code, 0);
    }
    assert_eq!(env.run(&["sessions", "--json"]).stdout, env.run(&["sessions", "list", "--json"]).stdout);
    let ran = env.run(&["replay", &ids(&env)[0][..4]]);
    check(&ran, 2, "");
    for (id, prompt) in ids(&env).iter().zip(["other words", "first words"]) {
        let line = ran.stderr.lines().find(|line| line.contains(id.as_str())).unwrap();
        assert!(line.ends_with(prompt), "{ran}");
    }
}

#[test]
fn the_hint_for_a_price_is_valid_toml() {
    let env = Env::new();
    env.config("[providers.gw]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n");
    let ran = env.run(&["run", "x", "-m", "gw/brand-new", "--max-usd", "1"]);
    let hint = ran.stderr.lines().find_map(|line| line.split_once("configuration: ")).unwrap().1;
    env.config(hint);
    let shown = env.run(&["config", "show"]);
    assert_eq!(shown.code, 0, "{hint}\n{shown}");
    assert!(shown.stdout.contains("1.25"), "{shown}");
}

#[test]
fn a_command_to_approve_shows_its_control_characters() {
    let env = scripted(
        "[[answer]]\nspark = \"solo\"\ntext = \"I run.\"\n\
         calls = [{ tool = \"bash\", args = { command = \"rm x\\u001b[2K\\recho hi\" } }]\n",
    );
    assert_eq!(env.run(&["run", "go"]).code, 4);
    let shown = env.run(&["replay", "latest"]);
    assert!(shown.stdout.contains("rm x<ESC>[2K<CR>echo hi"), "{shown}");
}

#[test]
fn a_new_persona_is_there_at_once_and_is_never_overwritten() {
    let env = scripted(HELLO);
    let made = env.run(&["personas", "new", "tester", "--from", "coder"]);
    check(&made, 0, "[HOME]/personas/tester.md\n");
    let shown = env.run(&["personas", "show", "tester"]);
    assert!(shown.stdout.contains("You are the coder"), "{shown}");
    assert!(env.run(&["personas", "list"]).stdout.contains("tester"), "it is listed");
    let again = env.run(&["personas", "new", "tester"]);
    assert!(again.code == 2 && again.stderr.contains("[HOME]/personas/tester.md"), "{again}");
    assert_eq!(env.run(&["personas", "new", "../x"]).code, 2);
    let own = env.run(&["personas", "new", "solo"]);
    assert!(own.code == 2 && own.stderr.contains("--from solo"), "{own}");
    assert_eq!(env.run(&["personas", "new", "solo", "--from", "solo"]).code, 0);
}

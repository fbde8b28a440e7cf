//! Tests of forks through the real program: on other files, after another prompt, after another result of a tool.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use agon::assembly::WorkspaceLock;
use serde_json::{Value, json};

use super::run::{HELLO, WRITES, check, entries, ids, kinds, log, scripted};
use crate::support::env::Env;
use crate::tui::pty::Terminal;

/// Answers what it is asked by what it sees.
const LOOKS: &str = "[[answer]]\nspark = \"solo\"\ntext = \"I look.\"\n\
    calls = [{ tool = \"read_file\", args = { path = \"b.txt\" } }]\n\
    [[answer]]\nspark = \"solo\"\ntext = \"seen\"\n";

fn newest(env: &Env) -> Vec<Value> {
    entries(&env.run(&["sessions", "export", "latest"]).stdout)
}

/// The number and the data of the only event of this kind.
fn only<'a>(entries: &'a [Value], kind: &str) -> (usize, &'a Value) {
    let mut found = entries.iter().enumerate().flat_map(|(seq, entry)| {
        let events = entry["events"].as_array().unwrap().iter();
        events.filter(|event| event["kind"] == kind).map(move |event| (seq, &event["data"]))
    });
    let one = found.next().unwrap();
    assert!(found.next().is_none(), "{kind} is there more than once");
    one
}

#[test]
fn a_fork_goes_its_own_way_and_leaves_its_parent_alone() {
    let env = scripted(WRITES);
    env.write("work/b.txt", "kept\n");
    assert_eq!(env.run(&["run", "write", "--yes"]).code, 0);
    let (before, parent) = (log(&env), ids(&env).remove(0));
    let ran = env.run(&["fork", &parent, "--at", "3", "--no-run"]);
    assert_eq!(ran.code, 0, "{ran}");
    let fork = ran.stdout.trim().to_owned();
    let folder = env.home().join("forks").join(&fork);
    assert_eq!(std::fs::read_to_string(folder.join("b.txt")).unwrap(), "kept\n");
    assert!(!folder.join("a.txt").exists(), "the fork begins before the write");
    check(&env.run(&["resume", &fork, "--yes"]), 0, "written\n");
    assert_eq!(std::fs::read_to_string(folder.join("a.txt")).unwrap(), "new\n");
    let export = |id: &str| env.run(&["sessions", "export", id]).stdout;
    assert_eq!(export(&parent), env.scrub(before.as_bytes()));
    assert_eq!(
        export(&fork).lines().take(4).collect::<Vec<_>>(),
        export(&parent).lines().take(4).collect::<Vec<_>>()
    );
    assert_eq!(env.run(&["verify", &fork]).code, 0);
    assert_eq!(env.run(&["fork", &parent, "--at", "999"]).code, 2);
    assert_eq!(ids(&env).len(), 2, "a fork that failed leaves nothing");
}

#[test]
fn a_path_beneath_the_parents_folder_is_the_copys_own_file() {
    let env = scripted("");
    let parent = std::fs::canonicalize(env.work()).unwrap();
    let call = |tool: &str, rest: &str| {
        let path = parent.join("a.txt").display().to_string();
        format!(
            "[[answer]]\nspark = \"solo\"\ncalls = [{{ tool = \"{tool}\", args = {{ path = \"{path}\"{rest} }} }}]\n"
        )
    };
    let (write, read) = (call("write_file", ", content = \"new\\n\""), call("read_file", ""));
    let beside = read.replace("/a.txt", "-beside/a.txt");
    env.write(
        "home/mock.toml",
        &format!("{write}{read}{beside}[[answer]]\nspark = \"solo\"\ntext = \"done\"\n"),
    );
    check(&env.run(&["run", "write", "--yes"]), 0, "done\n");
    env.write("work/a.txt", "the parent's\n");
    let ran = env.run(&["fork", "latest", "--at", "2", "--yes"]);
    check(&ran, 0, "done\n");
    let folder = env.home().join("forks").join(&ids(&env)[0]);
    assert_eq!(std::fs::read_to_string(folder.join("a.txt")).unwrap(), "new\n");
    assert_eq!(std::fs::read_to_string(parent.join("a.txt")).unwrap(), "the parent's\n");
    let said: Vec<String> = newest(&env)
        .iter()
        .flat_map(|entry| entry["events"].as_array().unwrap().clone())
        .map(|e| e.to_string())
        .collect();
    assert!(said.iter().any(|e| e.contains("outside the workspace")), "{said:?}");
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
}

#[test]
fn a_fork_with_another_prompt_begins_before_the_old_one() {
    let env = scripted("[[answer]]\nspark = \"solo\"\nexpect = \"please\"\ntext = \"hello\"\n");
    assert_eq!(env.run(&["run", "greet her, please"]).code, 0);
    let ran = env.run(&["fork", "latest", "--prompt", "greet him, please"]);
    check(&ran, 0, "hello\n");
    let told = newest(&env);
    let (seq, given) = only(&told, "prompt_given");
    assert_eq!((&given["text"], &given["by"]), (&json!("greet him, please"), &json!("fork")));
    assert_eq!(only(&told, "session_forked").0 + 1, seq);
    assert_eq!(only(&told, "session_forked").1["change"], "prompt");
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
    let none = env.run(&["fork", "latest", "--at", "0", "--prompt", "anything"]);
    assert_eq!(none.code, 2, "{none}");
    assert!(none.stderr.contains("no prompt was given up to entry 0"), "{none}");
    assert_eq!(ids(&env).len(), 2, "a fork that failed leaves nothing");
}

#[test]
fn a_fork_with_another_result_asks_on_from_there_and_runs_nothing_again() {
    let env = scripted(LOOKS);
    env.write("work/b.txt", "as it was\n");
    env.write("work/other.txt", "as it might have been\n");
    assert_eq!(env.run(&["run", "look"]).code, 0);
    let (end, _) = only(&newest(&env), "tool_resolved");
    let ran = env.run(&["fork", "latest", "--set-result", &format!("e{end}=other.txt")]);
    check(&ran, 0, "seen\n");
    let told = newest(&env);
    let (seq, resolved) = only(&told, "tool_resolved");
    assert_eq!(
        (&resolved["body"]["content"], &resolved["body"]["by"]),
        (&json!("as it might have been\n"), &json!("fork"))
    );
    assert!(told[..seq].iter().all(|entry| !kinds(entry).contains(&"call_lost".to_owned())));
    assert_eq!(only(&told, "tool_invoked").0, end - 1, "it is not run again");
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
    for (wrong, says) in [
        ("e1=other.txt", "entry 1 is no result of a tool"),
        ("other.txt", "names no file"),
        ("ex=other.txt", "`ex` is not an entry"),
        ("e1=nowhere.txt", "nowhere.txt"),
    ] {
        let ran = env.run(&["fork", "latest", "--set-result", wrong]);
        assert_eq!(ran.code, 2, "{ran}");
        assert!(ran.stderr.contains(says), "{ran}");
    }
}

#[test]
fn a_fork_under_another_policy_is_held_to_it() {
    let env = scripted(WRITES);
    assert_eq!(env.run(&["run", "write", "--yes"]).code, 0);
    env.write(
        "work/strict.toml",
        "[[rules]]\nname = \"no-writes\"\ntool = \"write_file\"\naction = \"deny\"\n",
    );
    let ran = env.run(&["fork", "latest", "--at", "2", "--policy", "strict.toml", "--yes"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(only(&newest(&env), "tool_refused").1["reason"], "policy");
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
}

#[test]
fn the_rules_of_a_copy_are_those_of_here_and_what_the_log_had_is_named() {
    let env = scripted(WRITES);
    let rule = |name: &str, tool: &str| {
        format!("[[rules]]\nname = \"{name}\"\ntool = \"{tool}\"\naction = \"deny\"\n")
    };
    env.write("work/strict.toml", &rule("no-writes", "write_file"));
    env.write("work/more.toml", &rule("no-commands", "bash"));
    assert_eq!(env.run(&["run", "write", "--yes", "--policy", "strict.toml"]).code, 0);
    let copy = ["fork", "latest", "--at", "2", "--policy", "more.toml"];
    let ran = env.run(&copy);
    assert_eq!(ran.code, 4, "{ran}");
    assert!(ran.stderr.contains("policy: recorded `no-writes`, not in force here"), "{ran}");
    assert!(ran.stderr.contains("policy: now `no-commands`, not recorded"), "{ran}");
    assert!(ran.stderr.ends_with(" --policy more.toml --yes\n"), "the hint keeps what holds: {ran}");
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
}

#[test]
fn a_copy_is_not_told_to_lack_what_a_turn_without_tools_did_not_change() {
    let env = scripted(&format!("{WRITES}{HELLO}"));
    assert_eq!(env.run(&["run", "write", "--yes", "--sandbox", "none"]).code, 0);
    assert_eq!(env.run(&["run", "--resume", "latest", "say", "--sandbox", "none"]).code, 0);
    let ran = env.run(&["fork", "latest", "--no-run"]);
    assert!(ran.code == 0 && !ran.stderr.contains("never recorded"), "{ran}");
}

#[test]
fn a_copy_of_an_imported_log_says_that_its_files_are_elsewhere_and_no_screen_is_drawn_without_a_terminal() {
    let (env, other) = (scripted(WRITES), scripted(WRITES));
    assert_eq!(env.run(&["run", "write", "--yes", "--sandbox", "none"]).code, 0);
    assert_eq!(env.run(&["sessions", "export", "latest", "-o", "log.jsonl"]).code, 0);
    let log = env.work().join("log.jsonl");
    assert_eq!(other.run(&["sessions", "import", log.to_str().unwrap()]).code, 0);
    let ran = other.run(&["fork", "latest", "--no-run"]);
    assert!(ran.code == 2 && ran.stderr.contains("an export carries the log alone"), "{ran}");
    let ran = other.run(&["replay", "latest", "--tui"]);
    assert!(ran.code == 2 && ran.stderr.contains("no terminal to draw on"), "{ran}");
}

#[test]
fn the_folder_of_a_session_stands_for_its_log_and_no_other_folder_is_damaged() {
    let env = scripted(HELLO);
    assert_eq!(env.run(&["run", "say", "--sandbox", "none"]).code, 0);
    let sessions = env.home().join("sessions");
    let folder = std::fs::read_dir(&sessions).unwrap().next().unwrap().unwrap().path();
    assert_eq!(env.run(&["verify", folder.to_str().unwrap()]).code, 0);
    let ran = env.run(&["verify", sessions.to_str().unwrap()]);
    assert!(ran.code == 2 && ran.stdout.is_empty() && ran.stderr.contains("is not a log"), "{ran}");
}

/// Processes whose arguments name a folder.
fn naming(folder: &Path) -> usize {
    let folder = folder.as_os_str().as_encoded_bytes();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let names = |process: &std::fs::DirEntry| {
        std::fs::read(process.path().join("cmdline"))
            .is_ok_and(|words| words.windows(folder.len()).any(|part| part == folder))
    };
    all.filter(names).count()
}

#[test]
fn a_copy_that_waits_for_git_is_interrupted_and_nothing_of_it_is_left() {
    use rustix::fs::{CWD, FileType, Mode};
    let env = scripted(HELLO);
    let made = Command::new("git").args(["init", "-q"]).current_dir(env.work()).status().unwrap();
    assert!(made.success());
    check(&env.run(&["run", "greet"]), 0, "hello\n");
    // Git opens it and waits for somebody who writes.
    let pipe = env.work().join(".git/packed-refs");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let (forks, patience) = (env.home().join("forks"), Instant::now() + Duration::from_secs(120));
    let patiently = |until: &dyn Fn() -> bool, what: &str| {
        while !until() {
            assert!(Instant::now() < patience, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let is_cloning = || {
        let folders = std::fs::read_dir(&forks).into_iter().flatten().flatten();
        folders.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|end| end == "git-clone"))
    };
    let interrupted = |by_screen: bool| {
        if by_screen {
            let mut screen = Terminal::start(&env, &["-c"], 120, 40);
            screen.wait_for("── done");
            screen.press("/fork\r");
            patiently(&is_cloning, "git has begun");
            screen.press("\x03\x03");
            return i32::try_from(screen.end()).unwrap();
        }
        let mut copying = env.command(&["fork", "latest", "--no-run"]).spawn().unwrap();
        patiently(&is_cloning, "git has begun");
        let pid = rustix::process::Pid::from_child(&copying);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        copying.wait().unwrap().code().unwrap()
    };
    for (by_screen, code) in [(false, 130), (true, 0)] {
        assert_eq!(interrupted(by_screen), code);
        patiently(&|| naming(&forks) == 0, "git is gone");
        assert_eq!(std::fs::read_dir(&forks).unwrap().count(), 0, "{by_screen}");
        assert_eq!(ids(&env).len(), 1);
    }
}

/// Another agon that writes in the workspace, as long as this value.
fn another(env: &Env) -> WorkspaceLock {
    WorkspaceLock::take(&env.home(), &env.work().canonicalize().unwrap()).unwrap()
}

#[test]
fn where_another_agon_is_at_work_a_flag_leads_to_a_copy_that_comes_home() {
    let env = scripted(WRITES);
    let other = another(&env);
    let refused = env.run(&["run", "write", "--yes"]);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(refused.stderr.contains("is at work in") && refused.stderr.contains("`--copy`"), "{refused}");
    check(&env.run(&["run", "write", "--yes", "--copy"]), 0, "written\n");
    assert!(!env.work().join("a.txt").exists());
    drop(other);
    let applied = env.run(&["apply", "fork-1"]);
    assert_eq!(applied.code, 0, "{applied}");
    assert_eq!(std::fs::read_to_string(env.work().join("a.txt")).unwrap(), "new\n");
    assert_eq!(env.run(&["verify", "fork-1"]).code, 0);
}

#[test]
fn where_another_agon_is_at_work_one_key_leads_to_a_copy_or_to_a_plan() {
    for (key, is_copy) in [("c", true), ("p", false)] {
        let env = scripted(HELLO);
        let _other = another(&env);
        let mut screen = Terminal::start(&env, &[], 110, 30);
        screen.wait_for("write a task");
        screen.press("go\r");
        screen.wait_for("is at work in");
        screen.press("x\r");
        screen.press(key);
        screen.wait_for("── done");
        assert_eq!(env.home().join("forks").exists(), is_copy, "{}", screen.text());
        screen.wait("where it worked", |text| {
            text.contains("level plan") != is_copy && text.contains("agon apply fork-1") == is_copy
        });
        screen.press("\x03\x03");
        assert_eq!(screen.end(), 0);
    }
}

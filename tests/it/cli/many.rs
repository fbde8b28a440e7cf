//! Many recorded sessions: what a list, the newest one and the debates cost, and that looking changes nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agon::eventlog::chain::{Link, root_session};

use crate::support::env::Env;

const SESSIONS: usize = 12;

/// A place with as many sessions, the last of which a person gave a name.
fn place() -> Env {
    let env = Env::new();
    env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n");
    env.write("home/mock.toml", "[[answer]]\nspark = \"solo\"\ntext = \"done\"\n");
    for i in 0..SESSIONS {
        let ran = env.run(&["run", &format!("task {i}"), "--yes"]);
        assert_eq!(ran.code, 0, "{ran}");
    }
    env
}

/// Every file of the sessions with its content and when it was written.
fn state(env: &Env) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let folders = std::fs::read_dir(env.home().join("sessions")).unwrap().flatten().map(|entry| entry.path());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten());
    let seen = |file: std::fs::DirEntry| {
        let data = file.metadata().unwrap();
        (file.path(), (std::fs::read(file.path()).unwrap(), data.modified().unwrap()))
    };
    files.map(seen).collect()
}

fn logs(env: &Env) -> Vec<PathBuf> {
    state(env).into_keys().filter(|path| path.ends_with("log-000000.jsonl")).collect()
}

#[test]
fn looking_at_sessions_writes_nothing() {
    let env = place();
    let before = state(&env);
    for arguments in [
        &["sessions"][..],
        &["sessions", "--json"],
        &["sessions", "--check"],
        &["debates"],
        &["verify", "latest"],
    ] {
        let ran = env.run(arguments);
        assert_eq!(ran.code, 0, "{ran}");
    }
    assert_eq!(state(&env), before);
    let list = env.run(&["sessions"]);
    assert_eq!(list.stdout.lines().filter(|line| line.contains("  done  ")).count(), SESSIONS, "{list}");
    assert!(list.stdout.lines().next().unwrap().ends_with(&format!("task {}", SESSIONS - 1)), "{list}");
}

#[test]
fn damage_in_the_middle_shows_when_it_is_looked_for() {
    let env = place();
    let log = &logs(&env)[3];
    let mut text = std::fs::read(log).unwrap();
    // In the second entry, which the list does not depend on.
    let at = text.iter().position(|byte| *byte == b'\n').unwrap() + 200;
    text[at] ^= 1;
    std::fs::write(log, &text).unwrap();
    let faults = |arguments: &[&str]| {
        let ran = env.run(arguments);
        let rows: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        rows.as_array().unwrap().iter().filter(|row| !row["fault"].is_null()).count()
    };
    assert_eq!(faults(&["sessions", "--check", "--json"]), 1);
    assert!(faults(&["sessions", "--json"]) <= 1);
}

/// Opens of log files by a command, counted by the kernel.
fn opened(env: &Env, arguments: &[&str]) -> Option<usize> {
    let (plain, trace) = (env.command(&[]), env.home().join("trace"));
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-e", "trace=openat,flock", "-o"]).arg(&trace);
    traced.arg(env!("CARGO_BIN_EXE_agon")).args(arguments).current_dir(env.work()).env_clear();
    traced.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = traced.stdin(Stdio::null()).output().ok()?;
    ran.status.success().then_some(())?;
    let trace = std::fs::read_to_string(&trace).ok()?;
    Some(trace.lines().filter(|line| line.contains("log-000000.jsonl")).count())
}

#[test]
fn the_newest_session_is_found_without_opening_the_others() {
    let env = place();
    let day = std::time::Duration::from_secs(86_400);
    let all = logs(&env);
    let names = |log: &Path| log.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let newest = all.iter().map(|log| names(log)).max().unwrap();
    // All but the newest were last written long ago.
    for log in all.iter().filter(|log| names(log) != newest) {
        let file = std::fs::File::options().write(true).open(log).unwrap();
        file.set_modified(std::time::SystemTime::now() - day).unwrap();
    }
    let shown = env.run(&["sessions", "show", "latest", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["id"], newest.as_str());
    let Some(latest) = opened(&env, &["sessions", "show", "latest", "--json"]) else {
        return println!("skipped: strace is not installed or may not trace here");
    };
    assert!(latest < SESSIONS / 2, "{latest} opens of logs");
    let list = opened(&env, &["sessions"]).unwrap();
    assert!(list <= SESSIONS, "{list} opens of logs for {SESSIONS} rows");
}

/// A log with other text in each line, in the chain of this format.
fn rewritten(log: &[u8], format: u64, (from, to): (&str, &str)) -> Vec<u8> {
    let text = String::from_utf8(log.to_vec()).unwrap();
    let id = root_session(text.lines().next().unwrap().as_bytes()).unwrap();
    let (mut link, mut made) = (Link::root_in(format, &id), Vec::new());
    for line in text.lines() {
        // What is left of a line without its link.
        let body = line[..line.rfind(",\"h\":").unwrap()].replacen(from, to, 1);
        link = link.next(body.as_bytes());
        made.extend(body.as_bytes());
        link.close(&mut made);
    }
    made
}

#[test]
fn a_session_of_an_older_agon_is_named_so_everywhere_and_passed_over() {
    let env = place();
    let all = logs(&env);
    let name = |log: &Path| log.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let newest = all.iter().max_by_key(|log| name(log)).unwrap();
    let id = name(newest);
    let older = rewritten(&std::fs::read(newest).unwrap(), 1, ("\"v\":2", "\"v\":1"));
    std::fs::write(newest, older).unwrap();
    let list = env.run(&["sessions"]);
    let rows: Vec<&str> = list.stdout.lines().filter(|line| line.contains("older agon")).collect();
    assert!(rows.len() == 1 && rows[0].contains(&id[id.len() - 6..]), "{list}");
    assert!(!list.stdout.contains("damage"), "{list}");
    let checked = env.run(&["sessions", "--check", "--json"]);
    let checked: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
    let of = |row: &&serde_json::Value| row["id"] == id.as_str();
    assert_eq!(checked.as_array().unwrap().iter().find(of).unwrap()["fault"], "made by an older agon");

    let shown = env.run(&["sessions", "show", "latest", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    let before = all.iter().map(|log| name(log)).filter(|other| *other != id).max().unwrap();
    assert_eq!(shown["id"], before.as_str());
    let answer = |text: &str| format!("[[answer]]\nspark = \"solo\"\ntext = \"{text}\"\n");
    env.write("home/mock.toml", &[answer("done"), answer("more")].concat());
    let more = env.run(&["run", "--continue", "and more"]);
    assert!(more.code == 0 && more.stdout.contains("more"), "{more}");
    assert_eq!(logs(&env).len(), SESSIONS, "no session is begun");

    let words = "made by an older agon (format 1; this one reads format 2)";
    for arguments in [&["verify", &id][..], &["resume", &id], &["fork", &id], &["report", &id]] {
        let ran = env.run(arguments);
        assert!(ran.code != 0 && ran.to_string().contains(words), "{arguments:?}: {ran}");
        assert!(!ran.to_string().contains("DAMAGED"), "{arguments:?}: {ran}");
    }
}

#[test]
fn a_known_event_with_broken_data_is_damage_to_a_list_and_to_verify() {
    let env = place();
    let log = &logs(&env)[3];
    let id = log.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let broken = rewritten(
        &std::fs::read(log).unwrap(),
        2,
        ("\"prompt_given\",\"data\":{\"text\":", "\"prompt_given\",\"data\":{\"text\":3,\"texts\":"),
    );
    std::fs::write(log, broken).unwrap();
    let verified = env.run(&["verify", &id]);
    assert!(verified.code == 5 && verified.stdout.contains("DAMAGED"), "{verified}");
    assert!(verified.stdout.contains("cannot be understood"), "{verified}");
    let resumed = env.run(&["resume", &id]);
    assert!(resumed.code == 5 && !resumed.to_string().contains("newer"), "{resumed}");
    let list = env.run(&["sessions", "--json"]);
    let rows: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let row = rows.as_array().unwrap().iter().find(|row| row["id"] == id.as_str()).unwrap();
    assert!(row["fault"].as_str().is_some_and(|fault| fault.contains("cannot be understood")), "{row}");
}

//! Forks, resumes and what is left of them, through the real program: what a newcomer stumbled over.

use std::path::PathBuf;

use serde_json::Value;

use super::run::{HELLO, WRITES, check, entries, ids, kinds, scripted};
use crate::support::env::Env;
use crate::support::server::{Reply, Server};

fn log_of(env: &Env, id: &str) -> Vec<Value> {
    entries(&env.run(&["sessions", "export", id]).stdout)
}

fn file_of(env: &Env, id: &str) -> PathBuf {
    env.home().join("sessions").join(id).join("log-000000.jsonl")
}

/// The seq of the first entry that holds an event of this kind.
fn seq_of(log: &[Value], kind: &str) -> String {
    log.iter().find(|entry| kinds(entry).iter().any(|k| k == kind)).unwrap()["seq"].to_string()
}

fn fork(env: &Env, arguments: &[&str]) -> (String, String) {
    let ran = env.run(&[&["fork"], arguments].concat());
    assert_eq!(ran.code, 0, "{ran}");
    (ran.stdout.trim().to_owned(), ran.stderr)
}

#[test]
fn a_fork_that_is_only_made_orders_nothing_and_says_where_it_works() {
    let env = scripted(WRITES);
    assert_eq!(env.run(&["run", "write", "--yes"]).code, 0);
    let parent = ids(&env).remove(0);
    let at = seq_of(&log_of(&env, &parent), "model_answered");
    let (id, said) = fork(&env, &[&parent, "--at", &at, "--no-run"]);
    assert!(said.contains(&format!("works in [HOME]/forks/{id}")), "{said}");
    let own: Vec<Value> = log_of(&env, &id).split_off(at.parse::<usize>().unwrap() + 1);
    assert_eq!(kinds(&own[0])[0], "session_forked");
    assert_eq!(kinds(own.last().unwrap()), ["session_paused"]);
    assert_eq!(own.len(), 2, "nothing was prepared, recorded or asked: {own:?}");
    check(&env.run(&["resume", &id, "--yes"]), 0, "written\n");
    assert_eq!(env.run(&["verify", &id]).code, 0);
}

#[test]
fn a_fork_at_the_end_of_a_write_has_what_was_written() {
    let env = scripted(WRITES);
    assert_eq!(env.run(&["run", "write", "--yes"]).code, 0);
    let parent = ids(&env).remove(0);
    let log = log_of(&env, &parent);
    std::fs::remove_file(env.work().join("a.txt")).unwrap();
    let (id, said) = fork(&env, &[&parent, "--at", &seq_of(&log, "tool_resolved"), "--no-run"]);
    assert_eq!(std::fs::read_to_string(env.home().join("forks").join(&id).join("a.txt")).unwrap(), "new\n");
    assert!(!said.contains("warning"), "{said}");
    let (id, said) = fork(&env, &[&parent, "--at", &seq_of(&log, "tool_invoked"), "--no-run"]);
    assert!(!env.home().join("forks").join(&id).join("a.txt").exists(), "it had only begun");
    assert!(said.contains("`write_file` ran at this entry"), "{said}");
}

#[test]
fn a_fork_is_listed_and_shown_as_itself_and_its_files_go_with_it() {
    let env = scripted(WRITES);
    assert_eq!(env.run(&["run", "write", "--yes"]).code, 0);
    let parent = ids(&env).remove(0);
    let (id, _) = fork(&env, &[&parent, "--at", "2", "--no-run"]);
    let rows: Vec<Value> = serde_json::from_str(&env.run(&["sessions", "list", "--json"]).stdout).unwrap();
    let row = rows.iter().find(|row| row["id"] == id.as_str()).unwrap();
    assert_eq!(row["workspace"], format!("[HOME]/forks/{id}"));
    assert_eq!(row["parent"], serde_json::json!({ "session": parent, "seq": 2 }));
    let listed = env.run(&["sessions"]).stdout;
    assert!(listed.contains(&format!("(fork of {parent} at e2)")), "{listed}");
    for command in [&["sessions", "show", &id][..], &["replay", &id]] {
        let shown = env.run(command).stdout;
        assert!(shown.contains(&format!("session  {id}\n")), "{shown}");
        assert!(shown.contains(&format!("fork of  {parent} at e2, works in [HOME]/forks/{id}\n")), "{shown}");
    }
    assert!(env.home().join("forks").join(&id).is_dir());
    assert_eq!(env.run(&["sessions", "rm", &id]).code, 0);
    assert!(!env.home().join("forks").join(&id).exists());
    assert_eq!(ids(&env), [parent]);
}

#[test]
fn a_damaged_log_is_marked_and_its_good_beginning_can_be_forked() {
    let env = scripted(WRITES);
    assert_eq!(env.run(&["run", "write", "--yes"]).code, 0);
    let id = ids(&env).remove(0);
    let file = file_of(&env, &id);
    let whole = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let broken = lines[6].replacen("\"at\":", "\"at\":9", 1);
    std::fs::write(&file, [&lines[..6], &[broken.as_str()], &lines[7..]].concat().concat()).unwrap();
    let listed = env.run(&["sessions", "--check"]);
    assert!(listed.stdout.contains("[the log is damaged at entry 6"), "{listed}");
    let ran = env.run(&["resume", &id]);
    assert_eq!(ran.code, 5, "{ran}");
    assert!(ran.stderr.contains(&format!("agon fork {id} --at 5\n")), "{ran}");
    let (copy, _) = fork(&env, &[&id, "--at", "5", "--no-run"]);
    assert_eq!(env.run(&["verify", &copy]).code, 0);
}

#[test]
fn a_resume_without_an_open_turn_writes_nothing() {
    let env = scripted(HELLO);
    assert_eq!(env.run(&["run", "greet"]).code, 0);
    let parent = ids(&env).remove(0);
    let (copy, _) = fork(&env, &[&parent, "--no-run"]);
    for id in [&parent, &copy] {
        let before = std::fs::read(file_of(&env, id)).unwrap();
        let ran = env.run(&["resume", id]);
        check(&ran, 2, "");
        assert!(ran.stderr.contains("no open turn"), "{ran}");
        assert_eq!(std::fs::read(file_of(&env, id)).unwrap(), before);
    }
}

#[test]
fn a_new_task_while_an_approval_is_open_is_refused_and_nothing_changes() {
    let env = scripted(WRITES);
    assert_eq!(env.run(&["run", "write"]).code, 4);
    let id = ids(&env).remove(0);
    let before = std::fs::read(file_of(&env, &id)).unwrap();
    let ran = env.run(&["run", "more", "--resume", &id]);
    check(&ran, 2, "");
    assert!(ran.stderr.contains("an approval is open: write_file: a.txt"), "{ran}");
    assert!(ran.stderr.contains(&format!("answer it first: agon resume {id}")), "{ran}");
    assert_eq!(std::fs::read(file_of(&env, &id)).unwrap(), before);
}

#[test]
fn a_reached_limit_is_named_and_the_way_on_is_told() {
    let env = scripted(WRITES);
    let ran = env.run(&["run", "write", "--yes", "--max-steps", "1"]);
    check(&ran, 3, "");
    let id = ids(&env).remove(0);
    assert!(ran.stderr.contains("limit: 1 of 1 model call (--max-steps) \u{b7} "), "{ran}");
    let way = format!("hint: agon run --resume {} \"go on\"\n", &id[28..]);
    assert!(ran.stderr.ends_with(&way), "{ran}");
    for flag in ["--max-steps", "--max-tokens", "--max-seconds"] {
        check(&env.run(&["run", "x", flag, "0"]), 2, "");
    }
}

#[test]
fn the_limit_of_model_calls_is_lifted_by_a_word_and_shown_while_there_is_one() {
    let env = scripted(&format!("{WRITES}[[answer]]\nspark = \"solo\"\ntext = \"again\"\n"));
    check(&env.run(&["run", "write", "--yes", "--max-steps", "1"]), 3, "");
    check(&env.run(&["run", "write", "--yes", "--max-steps", "none"]), 0, "written\n");
    let shown = |entries: &[std::sync::Arc<agon::protocol::Entry>]| {
        crate::tui::made::shown(&crate::tui::made::state(entries, false), 120, 40)
    };
    let entries = crate::support::golden::run();
    assert!(shown(&entries).contains(" of 100 calls · "));
    let mut opened = (*entries[0]).clone();
    if let agon::protocol::ArenaEvent::SessionOpened(data) = &mut opened.events[0] {
        data.spec.limits.max_steps = agon::protocol::spec::ANY_STEPS;
    }
    let lifted = [&[std::sync::Arc::new(opened)], &entries[1..]].concat();
    assert!(!shown(&lifted).contains(" calls · "));
}

#[test]
fn a_limit_that_was_not_typed_stays_as_recorded() {
    let env = scripted(&format!("{HELLO}[[answer]]\nspark = \"solo\"\ntext = \"again\"\n"));
    let flags = ["--max-seconds", "500", "--max-tokens", "90000"];
    assert_eq!(env.run(&[&["run", "greet"], &flags[..]].concat()).code, 0);
    check(&env.run(&["run", "more", "--resume", "latest", "--max-steps", "7"]), 0, "again\n");
    let log = log_of(&env, "latest");
    let resumed = log.iter().find(|entry| kinds(entry)[0] == "session_resumed").unwrap();
    let changed = resumed["events"][0]["data"]["changed"].as_array().unwrap();
    let limits = changed.iter().find_map(|setting| setting.get("limits")).unwrap();
    assert_eq!(
        (&limits["max_steps"], &limits["max_seconds"], &limits["max_tokens"]),
        (&7.into(), &500.into(), &90_000.into())
    );
}

/// Two models, one with a fallback, and a persona with a model of its own.
fn voices() -> Env {
    let env = scripted(&format!("{HELLO}[[answer]]\nspark = \"solo\"\ntext = \"again\"\n"));
    env.write(
        "home/config.toml",
        "model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n\
         [providers.second]\nkind = \"script\"\nfile = \"second.toml\"\n\
         [providers.third]\nkind = \"script\"\nfile = \"second.toml\"\n\
         [models.\"second/own\"]\nfallbacks = [\"third/b\"]\n",
    );
    env.write("home/second.toml", "[[answer]]\nspark = \"solo\"\ntext = \"second\"\n");
    env.write("home/personas/critic.md", "---\nmodel: second/own\n---\nFind faults.\n");
    env
}

fn last_call(env: &Env) -> String {
    let log = log_of(env, "latest");
    let mut called = log.iter().flat_map(|entry| entry["events"].as_array().unwrap());
    let called = called.rfind(|event| event["kind"] == "model_called").unwrap();
    called["data"]["model"].as_str().unwrap().to_owned()
}

#[test]
fn a_persona_taken_later_brings_its_own_model_along() {
    let env = voices();
    check(&env.run(&["run", "greet"]), 0, "hello\n");
    check(&env.run(&["run", "more", "--resume", "latest", "--persona", "critic"]), 0, "second\n");
    assert_eq!(last_call(&env), "second/own");
    let log = log_of(&env, "latest");
    let resumed = log.iter().find(|entry| kinds(entry)[0] == "session_resumed").unwrap();
    assert!(resumed.to_string().contains("\"name\":\"third/b\""), "and its fallback: {resumed}");
}

#[test]
fn a_wanted_model_counts_more_than_the_personas_own_later_as_well() {
    let env = voices();
    check(&env.run(&["run", "greet", "--persona", "critic"]), 0, "second\n");
    assert_eq!(last_call(&env), "second/own");
    check(&env.run(&["run", "more", "--resume", "latest", "-m", "mock/any"]), 0, "hello\n");
    assert_eq!(last_call(&env), "mock/any");
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
}

#[test]
fn a_session_without_an_entry_says_so_and_is_neither_damaged_nor_fine() {
    let env = scripted(HELLO);
    check(&env.run(&["run", "greet"]), 0, "hello\n");
    let id = ids(&env).remove(0);
    let says = |words: &str| {
        for command in [&["verify", &id][..], &["replay", &id], &["resume", &id], &["sessions", "show", &id]]
        {
            let ran = env.run(command);
            assert!(ran.code == 5 && ran.stderr.contains(words) && !ran.stdout.contains("DAMAGED"), "{ran}");
            assert!(ran.stderr.contains(&format!("hint: remove it: agon sessions rm {id}")), "{ran}");
        }
        let list = env.run(&["sessions"]).stdout;
        assert!(list.contains("[no entry: never opened, or emptied]"), "{list}");
    };
    let words = format!("session `{id}` holds no entry: it was never opened, or its log was emptied");
    // Killed while its first entry was written, before that, and before its log was made.
    for beginning in ["{\"v\":2,\"seq\":0,\"at\":17", ""] {
        env.write(&format!("home/sessions/{id}/log-000000.jsonl"), beginning);
        says(&words);
    }
    std::fs::remove_file(file_of(&env, &id)).unwrap();
    says(&words);
    assert_eq!(env.run(&["sessions", "rm", &id]).code, 0);
}

#[test]
fn a_workspace_that_holds_agons_own_files_is_refused() {
    let env = scripted(HELLO);
    std::fs::create_dir_all(env.home().join("sessions")).unwrap();
    for workspace in ["..", "../home", "../home/sessions"] {
        let ran = env.run(&["run", "greet", "--workspace", workspace]);
        assert_eq!(ran.code, 2, "{ran}");
        assert!(ran.stderr.contains("holds agon's own files"), "{ran}");
        assert!(ran.stderr.contains("--workspace DIR"), "{ran}");
    }
    assert_eq!(env.run(&["sessions", "list", "--json"]).stdout.trim(), "[]");
}

#[test]
fn what_a_newer_agon_wrote_is_newer_and_neither_damaged_nor_different() {
    let env = scripted(HELLO);
    check(&env.run(&["run", "greet"]), 0, "hello\n");
    let id = ids(&env).remove(0);
    let whole = std::fs::read_to_string(file_of(&env, &id)).unwrap();
    let count = whole.lines().count();
    let link = whole
        .lines()
        .fold(agon::eventlog::chain::Link::root(&id), |link, line| link.check(line.as_bytes()).unwrap());
    for (v, events, said) in [
        (
            2,
            r#"[{"kind":"made_up\u001b[2J_later","data":{}}]"#,
            "was written by a newer agon: unknown event `made_up<ESC>[2J_later`",
        ),
        (
            2,
            r#"[{"kind":"effect_ordered","data":{"call":9,"attempt":1,"effect":{"hook":{"name":"x"}}}}]"#,
            "unknown `hook` of Order",
        ),
        (
            2,
            r#"[{"kind":"settings_changed","data":{"changed":[{"policy":{"rules":[{"name":"a","action":"deny","host":"x"}]}}]}}]"#,
            "unknown field `events.0.data.changed.0.policy.rules.0.host`",
        ),
        (
            2,
            r#"[{"kind":"settings_changed","data":{"changed":[{"hooks":[]}]}}]"#,
            "unknown `hooks` of Setting",
        ),
        (3, "[]", "unknown format version 3"),
    ] {
        let mut line = format!(r#"{{"v":{v},"seq":{count},"at":1,"events":{events}"#).into_bytes();
        link.next(&line).close(&mut line);
        env.write(
            &format!("home/sessions/{id}/log-000000.jsonl"),
            &(whole.clone() + str::from_utf8(&line).unwrap()),
        );
        let ran = env.run(&["verify", &id]);
        let newer = ran.stdout.lines().find(|line| line.starts_with("newer ")).unwrap_or_default();
        assert!(ran.code != 0 && newer.contains(said), "{ran}");
        assert!(ran.stdout.contains(&format!("in the {count} entries before that")), "{ran}");
        for command in
            [&["replay", &id][..], &["replay", &id, "--full"], &["sessions", "show", &id], &["report", &id]]
        {
            assert!(!format!("{}{ran}", env.run(command)).contains('\u{1b}'), "{command:?}");
        }
        assert!(["DAMAGED", "differs", "unreadable"].iter().all(|word| !ran.stdout.contains(word)), "{ran}");
    }
}

#[test]
fn how_a_screen_looks_is_not_asked_for_where_none_is_drawn() {
    let env = scripted(HELLO);
    for command in [&["demo", "run"][..], &["replay", "latest"]] {
        for look in [&["--theme", "light"][..], &["--no-animation"]] {
            let ran = env.run(&[command, look].concat());
            assert!(ran.code == 2 && ran.stderr.contains("--tui"), "{ran}");
        }
    }
}

#[test]
fn a_failure_that_repeats_itself_is_told_once() {
    let env = Env::new();
    let dead = "[providers.dead]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n";
    env.config(&format!("model = \"dead/any\"\n{dead}[retry]\nattempts = 3\nbase_ms = 1\n"));
    assert_eq!(env.run(&["run", "greet"]).code, 1);
    let told = env.run(&["replay", "latest"]).stdout;
    let count = |words: &str| told.matches(words).count();
    assert_eq!(count("failed    network failure"), 3, "{told}");
    assert_eq!((count("cannot be reached"), count("network failure, with the same words")), (1, 2), "{told}");
}

#[test]
fn a_resume_says_what_was_in_the_middle_and_what_happens_now() {
    let first = std::sync::atomic::AtomicBool::new(true);
    let server =
        Server::start(move |_: &Value, _| match first.swap(false, std::sync::atomic::Ordering::SeqCst) {
            true => Reply::text("never said").stall_after(0),
            false => Reply::text("hello"),
        });
    let env = Env::new();
    let url = server.url();
    env.config(&format!(
        "[providers.mock]\nkind = \"openai\"\nbase_url = \"{url}\"\n[models.\"mock/any\"]\ncontext = 128000\n"
    ));
    let nothing = std::process::Stdio::null;
    let mut command = env.command(&["run", "-m", "mock/any", "greet"]);
    let mut child = command.stdin(nothing()).stdout(nothing()).stderr(nothing()).spawn().unwrap();
    while server.requests().is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let resumed = env.run(&["resume", "latest"]);
    assert_eq!((resumed.code, resumed.stdout.as_str()), (0, "hello\n"), "{resumed}");
    let told = "resumed: the agent was thinking; its model is asked again\n";
    assert!(resumed.stderr.contains(told), "{resumed}");
}

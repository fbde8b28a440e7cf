//! Tests of whole runs through the real program and a script: streams, exit codes, logs, resume.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::env::{Env, Ran};

/// An environment whose model answers by this script.
pub(crate) fn scripted(script: &str) -> Env {
    let env = Env::new();
    env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n");
    env.write("home/mock.toml", script);
    env
}

/// One answer without tools.
pub(crate) const HELLO: &str = "[[answer]]\nspark = \"solo\"\ntext = \"hello\"\n";

/// A write, then a word.
pub(crate) const WRITES: &str = "[[answer]]\nspark = \"solo\"\ntext = \"I write.\"\n\
    calls = [{ tool = \"write_file\", args = { path = \"a.txt\", content = \"new\\n\" } }]\n\
    [[answer]]\nspark = \"solo\"\ntext = \"written\"\n";

pub(super) fn entries(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(super) fn kinds(entry: &Value) -> Vec<String> {
    entry["events"].as_array().unwrap().iter().map(|e| e["kind"].as_str().unwrap().to_owned()).collect()
}

/// The log of the only session, as it stands on disk.
pub(crate) fn log(env: &Env) -> String {
    let sessions: Vec<_> =
        std::fs::read_dir(env.home().join("sessions")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(sessions.len(), 1);
    std::fs::read_to_string(sessions[0].join("log-000000.jsonl")).unwrap()
}

pub(super) fn ids(env: &Env) -> Vec<String> {
    let ran = env.run(&["sessions", "list", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    rows.into_iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

pub(super) fn check(ran: &Ran, code: i32, stdout: &str) {
    assert_eq!((ran.code, ran.stdout.as_str()), (code, stdout), "{ran}");
}

#[test]
fn the_answer_alone_is_on_standard_output_and_in_the_file() {
    let env = scripted(HELLO);
    let ran = env.run(&["run", "greet", "-v", "-o", "answer.txt"]);
    check(&ran, 0, "hello\n");
    assert_eq!(std::fs::read_to_string(env.work().join("answer.txt")).unwrap(), "hello\n");
    let head = ran.stderr.lines().last().unwrap();
    let log = entries(&log(&env));
    let hash = log.last().unwrap()["h"].as_str().unwrap();
    assert_eq!(head, format!("log      {} entries, head {hash}", log.len()));
}

#[test]
fn json_is_the_log_byte_for_byte_and_ends_sealed() {
    let env = scripted(HELLO);
    let ran = env.run(&["run", "greet", "--json"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(ran.stdout, env.scrub(log(&env).as_bytes()));
    assert_eq!(kinds(entries(&ran.stdout).last().unwrap()), ["stop_requested", "session_sealed"]);
}

#[test]
fn signals_are_lines_of_their_own() {
    let env = scripted(HELLO);
    let ran = env.run(&["run", "greet", "--json", "--signals"]);
    let (signals, entries): (Vec<_>, Vec<_>) =
        entries(&ran.stdout).into_iter().partition(|line| line.get("signal").is_some());
    let text: String = signals.iter().map(|line| line["signal"]["text"].as_str().unwrap()).collect();
    assert_eq!(text, "hello");
    assert_eq!(kinds(entries.last().unwrap()), ["stop_requested", "session_sealed"]);
}

#[test]
fn piped_text_reaches_the_model() {
    let script = "[[answer]]\nspark = \"solo\"\nexpect = \"explain\\n\\nfn main\"\ntext = \"seen\"\n";
    check(&scripted(script).run_with(&["run", "explain"], b"fn main() {}\n"), 0, "seen\n");
}

#[test]
fn no_approval_is_exit_4_and_each_resume_asks_again() {
    let env = scripted(WRITES);
    let ran = env.run(&["run", "write"]);
    check(&ran, 4, "");
    assert!(!env.work().join("a.txt").exists());
    let id = ids(&env).remove(0);
    assert!(ran.stderr.ends_with(&format!("hint: agon resume {} --yes\n", &id[28..])), "{ran}");

    check(&env.run(&["resume", &id[..8]]), 4, "");
    let ran = env.run(&["resume", "latest", "--yes"]);
    check(&ran, 0, "written\n");
    assert_eq!(std::fs::read_to_string(env.work().join("a.txt")).unwrap(), "new\n");
    let log = entries(&log(&env));
    let asked: Vec<_> = log.iter().flat_map(kinds).filter(|kind| kind == "approval_requested").collect();
    assert_eq!(asked.len(), 3, "what a log says was asked is looked at and asked again");
    let answered = log.iter().find(|entry| kinds(entry)[0] == "approval_answered").unwrap();
    assert_eq!(answered["events"][0]["data"]["by"], "--yes");

    let ran = env.run(&["resume", "latest"]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("no open turn"), "{ran}");
}

#[test]
fn yes_does_not_answer_a_deny() {
    let env = scripted(WRITES);
    env.write("work/policy.toml", "[[rules]]\nname = \"frozen\"\nrisk = \"write\"\naction = \"deny\"\n");
    let ran = env.run(&["run", "write", "--yes", "--policy", "policy.toml"]);
    check(&ran, 0, "written\n");
    assert!(!env.work().join("a.txt").exists());
}

#[test]
fn an_untrusted_projects_deny_holds_and_its_allow_does_not() {
    let env = scripted(WRITES);
    let rule = |action| format!("[[policy.rules]]\nname = \"r\"\nrisk = \"write\"\naction = \"{action}\"\n");
    env.project(&rule("allow"));
    assert_eq!(env.run(&["run", "write"]).code, 4);
    env.project(&rule("deny"));
    assert_eq!(env.run(&["run", "write", "--yes"]).code, 0);
    assert!(!env.work().join("a.txt").exists());
}

#[test]
fn a_limit_is_exit_3() {
    let env = scripted(WRITES);
    let ran = env.run(&["run", "write", "--yes", "--max-steps", "1"]);
    check(&ran, 3, "");
}

#[test]
fn a_failed_model_is_exit_1_and_its_words_are_told() {
    let env =
        scripted("[[answer]]\nspark = \"solo\"\nerror = { kind = \"auth\", message = \"who are you\" }\n");
    let ran = env.run(&["run", "greet"]);
    check(&ran, 1, "");
    assert!(ran.stderr.contains("error: ") && ran.stderr.contains("who are you"), "{ran}");
}

#[test]
fn what_is_missing_is_exit_2_with_a_hint() {
    let env = Env::new();
    for (arguments, said) in [
        (&["run", "x", "-m", "openai/gpt-5"][..], "hint: agon keys set openai, or export OPENAI_API_KEY=..."),
        (&["run", "x", "-m", "nobody/m"], "no provider is called `nobody`"),
        (&["run", "x", "-m", "demo/script", "--persona", "slo"], "hint: did you mean `solo`?"),
        (&["resume", "latest"], "there is no session `latest`"),
        (&["replay", "0199"], "there is no session `0199`"),
    ] {
        let ran = env.run(arguments);
        check(&ran, 2, "");
        assert!(ran.stderr.contains(said), "{ran}");
    }
}

#[test]
fn an_instruction_file_that_is_too_long_is_named() {
    let env = scripted(HELLO);
    env.write("work/AGENTS.md", &"a".repeat(64 * 1024 + 1));
    let ran = env.run(&["run", "greet"]);
    check(&ran, 2, "");
    assert!(ran.stderr.contains("AGENTS.md") && ran.stderr.contains("65536"), "{ran}");
}

#[test]
fn instructions_reach_the_model() {
    let script = "[[answer]]\nspark = \"solo\"\nexpect = [\"Use tabs\", \"Be brief\"]\ntext = \"seen\"\n";
    let env = scripted(script);
    env.write("work/AGENTS.md", "Use tabs.\n").write("home/AGENTS.md", "Be brief.\n");
    check(&env.run(&["run", "greet"]), 0, "seen\n");
}

#[test]
fn a_model_knows_its_place_and_whose_instructions_are_whose() {
    let env = Env::new();
    let server =
        crate::support::server::Server::start(|_: &Value, _| crate::support::server::Reply::text("seen"));
    env.config(&format!(
        "model = \"mock/any\"\n[providers.mock]\nkind = \"openai\"\nbase_url = \"{}\"\n",
        server.url()
    ));
    env.write("work/AGENTS.md", "Use tabs.\n");
    let ran = env.run(&["run", "greet", "--allow", "host:a.example", "--sandbox", "none"]);
    check(&ran, 0, "seen\n");
    let sent = server.bodies().remove(0).to_string();
    let work = env.work().canonicalize().unwrap();
    for words in [
        "# Instructions from `AGENTS.md`\\n\\nUse tabs.",
        &format!("- Workspace: {}", work.display()),
        "- Git: no repository",
        "- Network of commands: allowed are `host:a.example`",
        "- Day: 20",
    ] {
        assert!(sent.contains(words), "{words}: {sent}");
    }
}

#[test]
fn a_typed_answer_is_checked_and_printed_without_its_fence() {
    let script = "[[answer]]\nspark = \"solo\"\ntext = \"\"\"```json\n{\"n\": 3}\n```\"\"\"\n";
    let env = scripted(script);
    env.write("work/s.json", r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#);
    check(&env.run(&["run", "count", "--output-schema", "s.json"]), 0, "{\"n\": 3}\n");
}

#[test]
fn the_spec_holds_every_model_in_use_once_and_a_named_model_counts_more_than_the_personas() {
    let env = scripted(HELLO);
    env.write(
        "home/config.toml",
        "model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n\
         [models.\"mock/any\"]\nfallbacks = [\"mock/b\", \"mock/any\"]\ncontext = 9000\ntemperature = 0.25\n\
         [models.\"mock/b\"]\nfallbacks = [\"mock/any\"]\nprice = { input = 0.1, output = \"2\" }\n",
    );
    env.write("home/personas/solo.md", "---\nmodel: mock/own\n---\nBe brief.\n");
    let spec = |arguments: &[&str]| {
        let ran = env.run(&[&["run", "greet", "--json"], arguments].concat());
        assert_eq!(ran.code, 0, "{ran}");
        entries(&ran.stdout)[0]["events"][0]["data"]["spec"].clone()
    };
    let names = |spec: &Value| -> Vec<String> {
        spec["models"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap().to_owned()).collect()
    };
    let plain = spec(&[]);
    assert_eq!(names(&plain), ["mock/any", "mock/own", "mock/b"]);
    assert_eq!(plain["personas"][0]["model"], "mock/own");
    assert_eq!(
        (&plain["models"][0]["context"], &plain["models"][0]["temperature_pm"]),
        (&Value::from(9000), &Value::from(250))
    );
    let price = json!({ "input": 100_000, "cached": 100_000, "output": 2_000_000 });
    assert_eq!(plain["models"][2]["price"], price);

    let wanted = spec(&["-m", "mock/b"]);
    assert_eq!(names(&wanted), ["mock/b", "mock/any"]);
    assert_eq!(wanted["personas"][0].get("model"), None);
}

#[test]
fn a_session_goes_on_with_a_second_prompt_and_remembers() {
    let script = "[[answer]]\nspark = \"solo\"\ntext = \"one\"\n\
                  [[answer]]\nspark = \"solo\"\nexpect = [\"first\", \"one\", \"second\"]\ntext = \"two\"\n";
    let env = scripted(script);
    check(&env.run(&["run", "first"]), 0, "one\n");
    check(&env.run(&["run", "second", "--resume", "latest"]), 0, "two\n");
    assert_eq!(ids(&env).len(), 1);
    check(&env.run(&["verify", "latest"]), 0, &env.run(&["verify", "latest"]).stdout);
}

#[test]
fn the_demo_mends_its_project_needs_nothing_and_verifies() {
    let env = Env::new();
    let folder = env.work().join("shop");
    let ran = env.run(&["demo", "run", "--workspace", folder.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.starts_with("The check passes now"), "{ran}");
    let checked = std::process::Command::new("sh").arg("check.sh").current_dir(&folder).output().unwrap();
    assert!(checked.status.success());
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
    let again = env.run(&["demo", "run", "--workspace", folder.to_str().unwrap()]);
    assert_eq!(again.code, 2, "a folder with something in it is left alone");
}

#[test]
fn a_replay_shows_the_log_and_calls_nothing() {
    let env = scripted(WRITES);
    assert_eq!(env.run(&["run", "write", "--yes"]).code, 0);
    std::fs::remove_file(env.work().join("a.txt")).unwrap();
    std::fs::remove_file(env.home().join("mock.toml")).unwrap();
    let before = log(&env);
    let ran = env.run(&["replay", "latest"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran}");
    assert!(ran.stdout.contains("written"), "{ran}");
    assert_eq!(env.run(&["replay", "latest", "--json"]).stdout, env.scrub(before.as_bytes()));
    assert_eq!(entries(&env.run(&["replay", "latest", "--json", "--at", "2"]).stdout).len(), 3);
    assert_eq!(log(&env), before);
    assert!(!env.work().join("a.txt").exists());
}

#[test]
fn a_log_serves_as_a_script() {
    let env = scripted(WRITES);
    assert_eq!(env.run(&["run", "write", "--yes"]).code, 0);
    let id = ids(&env).remove(0);
    std::fs::remove_file(env.home().join("mock.toml")).unwrap();
    std::fs::remove_file(env.work().join("a.txt")).unwrap();
    check(&env.run(&["run", "write", "--yes", "-m", &format!("log/{id}")]), 0, "written\n");
    assert_eq!(std::fs::read_to_string(env.work().join("a.txt")).unwrap(), "new\n");
    check(&env.run(&["run", "write", "-m", "log/0199"]), 2, "");
}

#[test]
fn damage_is_exit_5_and_named() {
    let env = scripted(HELLO);
    assert_eq!(env.run(&["run", "greet"]).code, 0);
    assert_eq!(env.run(&["sessions", "export", "latest", "-o", "log.jsonl"]).code, 0);
    assert_eq!(env.run(&["verify", "log.jsonl"]).code, 0);
    let whole = std::fs::read_to_string(env.work().join("log.jsonl")).unwrap();
    env.write("work/log.jsonl", &whole.replacen("greet", "great", 1));
    for command in ["verify", "replay"] {
        let ran = env.run(&[command, "log.jsonl"]);
        assert_eq!(ran.code, 5, "{ran}");
        assert!(ran.stderr.contains("damaged at entry 1"), "{ran}");
    }
}

#[test]
fn sessions_are_exported_removed_and_imported() {
    let env = scripted(HELLO);
    assert_eq!(env.run(&["run", "greet"]).code, 0);
    let (before, id) = (log(&env), ids(&env).remove(0));
    check(&env.run(&["sessions", "export", "latest"]), 0, &env.scrub(before.as_bytes()));
    assert_eq!(env.run(&["sessions", "export", "latest", "-o", "out.jsonl"]).code, 0);
    assert_eq!(env.run(&["sessions", "import", "out.jsonl"]).code, 2, "it is still there");
    assert_eq!(env.run(&["sessions", "rm", &id]).code, 0);
    assert_eq!(ids(&env), [] as [&str; 0]);
    check(&env.run(&["sessions", "import", "out.jsonl"]), 0, &format!("{id}\n"));
    assert_eq!(log(&env), before);
    let shown = env.run(&["sessions", "show", &id, "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!((&shown["turns"], &shown["fault"]), (&Value::from(1), &Value::Null));
}

/// Starts a run and waits until its log holds `text`.
pub(super) fn started(env: &Env, arguments: &[&str], text: &str) -> Child {
    let child = env.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    waits_for(env, text);
    child
}

/// Waits until the newest log holds `text`.
pub(super) fn waits_for(env: &Env, text: &str) {
    let patience = Instant::now() + Duration::from_secs(30);
    while !env.run(&["sessions", "export", "latest"]).stdout.contains(text) {
        assert!(Instant::now() < patience, "the run never came to `{text}`");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_interrupt_is_exit_130_and_the_log_says_so() {
    let env = scripted("[[answer]]\nspark = \"solo\"\ntext = \"slow\"\ndelay_ms = 60000\n");
    let mut child = started(&env, &["run", "wait"], "model_called");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let log = entries(&log(&env));
    let sealed = log.last().unwrap()["events"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&sealed["kind"], &sealed["data"]["cause"]),
        (&"session_sealed".into(), &"interrupted".into())
    );
}

#[test]
fn a_killed_run_is_resumed_without_doing_anything_twice() {
    let env = scripted(&WRITES.replace("text = \"written\"", "text = \"written\"\ndelay_ms = 60000"));
    let mut child = started(&env, &["run", "write", "--yes"], "tool_resolved");
    child.kill().unwrap();
    child.wait().unwrap();
    let before = log(&env);
    env.write("home/mock.toml", WRITES).write("work/a.txt", "changed since\n");

    check(&env.run(&["resume", "latest", "--yes"]), 0, "written\n");
    let after = log(&env);
    assert!(after.starts_with(before.trim_end_matches(|c| c != '\n')), "what was acknowledged stays");
    let invoked = entries(&after).iter().flat_map(kinds).filter(|kind| kind == "tool_invoked").count();
    assert_eq!(invoked, 1);
    assert_eq!(std::fs::read_to_string(env.work().join("a.txt")).unwrap(), "changed since\n");
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
}

#[test]
fn a_session_that_is_being_written_is_not_written_by_a_second_process() {
    let env = scripted("[[answer]]\nspark = \"solo\"\ntext = \"slow\"\ndelay_ms = 60000\n");
    let mut child = started(&env, &["run", "wait"], "model_called");
    let ran = env.run(&["resume", "latest"]);
    let seen = env.run(&["replay", "latest"]);
    child.kill().unwrap();
    child.wait().unwrap();
    check(&ran, 2, "");
    assert!(ran.stderr.contains(&format!("open for writing in process {}", child.id())), "{ran}");
    assert_eq!(seen.code, 0, "reading is always possible: {seen}");
}

#[test]
fn keys_stand_neither_in_the_log_nor_on_a_screen() {
    let mut env = scripted(
        "[[answer]]\nspark = \"solo\"\ntext = \"reading\"\n\
         calls = [{ tool = \"read_file\", args = { path = \"notes.txt\" } }]\n\
         [[answer]]\nspark = \"solo\"\ntext = \"read\"\n",
    );
    env.set("XAI_API_KEY", "xai-0123456789abcdef");
    env.write("work/notes.txt", "the key is xai-0123456789abcdef\n");
    let ran = env.run(&["run", "read", "--json", "--signals"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(!ran.to_string().contains("0123456789abcdef"), "{ran}");
    assert!(!log(&env).contains("0123456789abcdef"));
    assert!(log(&env).contains("[secret:XAI_API_KEY]"));
}

#[test]
fn a_state_folder_that_cannot_be_written_is_exit_2() {
    use std::os::unix::fs::PermissionsExt;
    let env = scripted(HELLO);
    if crate::support::env::is_root(&env.work()) {
        println!("skipped: permission bits do not stop root");
        return;
    }
    std::fs::set_permissions(env.home(), std::fs::Permissions::from_mode(0o500)).unwrap();
    let ran = env.run(&["run", "greet"]);
    std::fs::set_permissions(env.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
    check(&ran, 2, "");
    assert!(ran.stderr.contains("[HOME]"), "{ran}");
}

#[test]
fn a_state_folder_that_cannot_be_written_is_no_reason_for_a_weaker_sandbox() {
    let env = scripted(HELLO);
    let ran = env.command(&["demo", "run"]).env("AGON_HOME", "/proc/none").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.code() == Some(2) && said.contains("/proc/none"), "{said}");
    assert!(!said.contains("--sandbox none") && !said.contains("confine"), "{said}");
}

const ASKS: &str = "[[answer]]\ncalls = [{ tool = \"todo\", args = { items = [{ text = \"ask\", state = \"doing\" }, { text = \"write\", state = \"open\" }] } }]\n\
    [[answer]]\ncalls = [{ tool = \"ask_user\", args = { question = \"Tabs or spaces?\", choices = [\"tabs\", \"spaces\"] } }]\n\
    [[answer]]\nexpect = \"spaces\"\ntext = \"spaces it is\"\n";

#[test]
fn a_question_pauses_with_4_whatever_yes_says_and_resume_answers_it() {
    for yes in [&[][..], &["--yes"]] {
        let env = scripted(ASKS);
        let ran = env.run(&[&["run", "format it"], yes].concat());
        check(&ran, 4, "");
        let id = ids(&env).remove(0);
        let yes = yes.iter().map(|flag| format!(" {flag}")).collect::<String>();
        let short = agon::projection::phrases::short_id(&id);
        let hint = format!("hint: agon resume {short} --answer TEXT{yes}\n");
        assert!(ran.stderr.ends_with(&hint), "{ran}");
        assert!(ran.stderr.contains("Tabs or spaces?   1  tabs   2  spaces"), "{ran}");
        check(&env.run(&["resume", &id]), 4, "");
        check(&env.run(&["resume", &id, "--answer", "2"]), 0, "spaces it is\n");
        let again = env.run(&["resume", &id, "--answer", "1"]);
        assert_eq!(again.code, 2, "{again}");
        assert_eq!(env.run(&["verify", &id]).code, 0);
        let report = env.run(&["report", &id, "--format", "md"]).stdout;
        assert!(report.contains("[>] ask\n[ ] write"), "{report}");
    }
}

#[test]
fn an_answer_to_nothing_is_refused_before_anything_is_recorded() {
    let env = scripted(WRITES);
    env.run(&["run", "write"]);
    let id = ids(&env).remove(0);
    let before = log(&env);
    let ran = env.run(&["resume", &id, "--answer", "yes"]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("the session asks nothing that `--answer` could answer"), "{ran}");
    assert_eq!(log(&env), before);
}

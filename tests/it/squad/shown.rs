//! What a person reads of a squad: what agon found beneath what models say, hints that hold, nothing unsafe.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};

use super::again::{AFTER, BEFORE, CALLS, FILERS, TASK, calls_of, play, project, squad};
use super::program::{role_of, turns};
use crate::support::env::{Env, Ran};
use crate::support::server::{Reply, Server};

/// The file-editing squad with more at the top of its blueprint.
fn with_top(env: &Env, lines: &str) {
    env.write("home/blueprints/filers.toml", &format!("{lines}\n{FILERS}"));
}

/// The coordinator's last words, in place of the usual ones.
fn answering(words: &str, claims: Value) -> Reply {
    Reply::text(&json!({"answer": words, "claims": claims, "open": []}).to_string())
}

fn is_last(request: &Value) -> bool {
    role_of(request) == "coordinator" && turns(request) == 1
}

#[test]
fn what_the_checks_said_stands_beneath_an_answer_that_says_otherwise() {
    for claims in [json!([]), json!([{"kind": "observed", "text": "all tests pass", "evidence": ["e2"]}])] {
        let given = claims.clone();
        let server = Server::start(move |request: &Value, n| match is_last(request) {
            true => answering("All tests pass.", given.clone()),
            false => play(request, n),
        });
        let env = project(&server);
        with_top(&env, "checks = [\"true\", \"false\"]");
        let ran = squad(&env, &[]);
        assert_eq!(ran.code, 1, "{ran}");
        let (answer, checks) = ran.stdout.split_once("\n\nChecks, as agon ran them:\n").unwrap();
        assert!(answer.starts_with("All tests pass."), "{answer}");
        let observed = claims.as_array().is_some_and(|claims| !claims.is_empty());
        assert_eq!(answer.contains("\"all tests pass\": the check of e"), observed, "{answer}");
        assert!(
            checks.starts_with("- `true`: exit 0 (e") && checks.contains("\n- `false`: exit 1 (e"),
            "{ran}"
        );
        assert!(checks.ends_with("\n`reviewer` approved the work all the same.\n"), "{ran}");
        let line = |start: &str| ran.stderr.lines().find(|line| line.starts_with(start)).unwrap();
        assert!(line("error: ").starts_with("error: not done: check `false`: exit 1 (e"), "{ran}");
        assert_eq!(line("end "), "end      not done", "the reasons are said once: {ran}");
    }
}

#[test]
fn an_answer_of_a_squad_without_checks_says_that_none_ran() {
    let server = Server::start(play);
    let env = project(&server);
    let ran = squad(&env, &[]);
    assert!(ran.stdout.contains("\n\nNo check ran: this squad has none."), "{ran}");
}

#[test]
fn a_finding_that_the_answer_keeps_quiet_about_is_told_with_its_place() {
    let server = Server::start(|request: &Value, n| {
        match role_of(request) {
        "reviewer" => Reply::text(
            &json!({"verdict": "approve", "findings": [{"severity": "minor", "file": "greeting.txt", "line": 1,
                    "problem": "too\u{1b}[31m loud"}], "closed": []})
            .to_string(),
        ),
        _ => play(request, n),
    }
    });
    let env = project(&server);
    let ran = squad(&env, &[]);
    assert!(ran.stdout.contains("Findings still open:\n- F1 minor greeting.txt:1: too loud"), "{ran}");
}

fn has_no_controls(ran: &Ran) {
    for text in [&ran.stdout, &ran.stderr] {
        let bad = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
        assert_eq!(bad, None, "{text:?}");
    }
}

#[test]
fn what_models_say_cannot_steer_the_terminal() {
    const EVIL: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31mred\u{202e}";
    let server = Server::start(|request: &Value, n| match (role_of(request), turns(request)) {
        ("reviewer", _) => Reply::text(
            &json!({"verdict": "approve", "findings": [{"severity": "note", "file": format!("f{EVIL}"),
                    "problem": format!("it {EVIL} is")}], "closed": []})
            .to_string(),
        ),
        ("coordinator", 0) => Reply::text(&format!("Plan: {EVIL}")),
        ("coder", 2) => Reply::text(&format!("I {EVIL} did")),
        ("coordinator", _) => {
            let claim =
                json!({"kind": "checks_pass", "text": format!("it {EVIL} passes"), "evidence": [EVIL]});
            answering(&format!("Done {EVIL}."), json!([claim]))
        }
        _ => play(request, n),
    });
    let env = project(&server);
    let ran = squad(&env, &[]);
    assert!(ran.stdout.starts_with("Done red"), "{ran}");
    has_no_controls(&ran);
    for args in [["replay", "latest"], ["sessions", "list"], ["cache", "list"]] {
        has_no_controls(&env.run(&args));
    }
    has_no_controls(&env.run(&["replay", "latest", "--full"]));
}

#[test]
fn a_recorded_run_is_told_in_words_with_what_its_checks_came_to() {
    let server = Server::start(play);
    let env = project(&server);
    assert_eq!(calls_of(&env, &server, &[]), CALLS);
    env.write("work/greeting.txt", BEFORE);
    let hit = squad(&env, &[]);
    assert!(hit.stdout.starts_with("Greeted."), "{hit}");
    assert!(hit.stdout.contains("\n\nFrom the team cache: the run of "), "{hit}");
    assert!(hit.stdout.contains("; no check ran then or now."), "{hit}");
    let report = env.run(&["report", "latest"]);
    assert!(report.stdout.contains("Greeted.") && !report.stdout.contains("{\"answer\""), "{report}");
    // Every form says whose run it is, what it saved and that nothing was run again.
    let html = env.run(&["report", "latest", "--format", "html"]);
    let markdown = env.run(&["report", "latest", "--format", "md"]);
    for page in [&report, &html, &markdown] {
        let page = page.stdout.replace('\n', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        for words in [
            "the recorded run of session 0",
            &format!("saved {CALLS} model calls"),
            "no check ran then or now",
        ] {
            assert!(page.contains(words), "{words}\n{page}");
        }
    }
    let why = env.run(&["why", "latest"]);
    assert!(why.stdout.contains("recorded run of session 0"), "{why}");
    assert!(
        why.stdout.contains("cache: applied: greeting.txt") && !why.stdout.contains("still open"),
        "{why}"
    );
    let list = env.run(&["cache", "list"]);
    assert!(list.stdout.contains(TASK), "{list}");
    let key = list.stdout.split_whitespace().next().unwrap();
    let show = env.run(&["cache", "show", key]);
    assert!(show.stdout.contains(&format!("> {TASK}")) && show.stdout.contains("\nGreeted."), "{show}");
    assert!(!show.stdout.contains("{\"answer\""), "{show}");
}

#[test]
fn a_file_that_was_written_and_that_no_comparison_shows_is_not_told_as_changed() {
    let server = Server::start(play);
    let env = project(&server);
    env.write("work/.gitignore", "greeting.txt\n");
    let ran = squad(&env, &[]);
    let words = "written, and not compared since: greeting.txt";
    assert!(ran.stderr.contains(words) && !ran.stderr.contains("changed: greeting.txt"), "{ran}");
}

#[test]
fn a_squad_that_reached_a_limit_says_what_stands() {
    let server = Server::start(play);
    let env = project(&server);
    let ran = squad(&env, &["--max-steps", "4"]);
    assert_eq!(ran.code, 3, "{ran}");
    assert!(ran.stdout.starts_with("The squad gave no answer: "), "{ran}");
    for words in [
        "--max-steps",
        "- coordinator stated the plan (e",
        "- coder did its work",
        "changed files: greeting.txt",
    ] {
        assert!(ran.stdout.contains(words), "`{words}` is missing: {ran}");
    }
    assert!(ran.stderr.contains("hint: agon squad --resume "), "{ran}");
}

#[test]
fn why_a_model_could_not_be_reached_is_said() {
    let env = project(&Server::start(play));
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.config(&format!("{config}[retry]\nattempts = 1\n"));
    let ran = squad(&env, &[]);
    assert_eq!(ran.code, 1, "{ran}");
    let error = ran.stderr.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(error.contains("coordinator: the model call failed: ") && error.contains("127.0.0.1"), "{ran}");
    assert!(ran.stdout.contains("- no role came to a result"), "{ran}");
    assert!(ran.stderr.contains("agon squad --resume"), "{ran}");
}

/// A server that tells of its `nth` request and answers it only when told.
fn held(nth: usize) -> (Server, Receiver<()>, Sender<()>) {
    let (started, begun) = channel();
    let (go, gate) = channel::<()>();
    let (started, gate) = (Mutex::new(started), Mutex::new(gate));
    let server = Server::start(move |request: &Value, n| {
        if n == nth {
            started.lock().unwrap().send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
        }
        play(request, n)
    });
    (server, begun, go)
}

#[test]
fn an_interrupted_squad_is_gone_on_with() {
    let (server, begun, go) = held(4);
    let env = project(&server);
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    let (table, price) = ("[models.\"mock/any\"]\n", "price = { input = \"1\", output = \"2\" }\n");
    assert!(config.contains(table), "{config}");
    env.config(&config.replace(table, &format!("{table}{price}")));
    let args = ["squad", TASK, "-v", "-m", "mock/any", "--blueprint", "filers", "--yes", "--sandbox", "none"];
    let child = env.command(&args).spawn().unwrap();
    begun.recv().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = env.scrub(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert!(
        told.contains("interrupted; the turn stays open") && told.contains("hint: agon resume "),
        "{told}"
    );
    go.send(()).unwrap();
    let log = env.run(&["replay", "latest", "--json"]);
    assert!(log.stdout.lines().last().unwrap().contains("session_paused"), "{log}");
    let resumed = env.run(&["resume", "latest", "-v", "--yes"]);
    assert_eq!(resumed.code, 0, "{resumed}");
    assert!(resumed.stdout.starts_with("Greeted."), "{resumed}");
    assert_eq!(std::fs::read_to_string(env.work().join("greeting.txt")).unwrap(), AFTER);
    // What the cut-off call took is not known, and nobody has two rows.
    let rows = |role: &str| resumed.stderr.lines().filter(|line| line.starts_with(role)).count();
    assert_eq!((rows("coordinator"), rows("coder"), rows("reviewer")), (1, 1, 1), "{resumed}");
    assert!(resumed.stderr.contains("≤") && resumed.stderr.contains("tokens   at most "), "{resumed}");
    assert!(resumed.stderr.contains("\ncost     at most $"), "{resumed}");
    assert!(env.run(&["sessions", "show", "latest"]).stdout.contains("≤$"), "{resumed}");
    let report = env.run(&["report", "latest"]).stdout;
    let total = report.lines().find(|line| line.starts_with("| all |")).unwrap();
    assert_eq!(total.matches('≤').count(), 3, "tokens in, out and money: {total}");
    assert_eq!(env.run(&["verify", "latest", "--strict"]).code, 0);
}

#[test]
fn a_second_task_keeps_the_squad_and_each_role_its_one_row() {
    let server = Server::start(|request: &Value, n| {
        // The lead remembers the turn before; the others begin anew.
        match (role_of(request), turns(request)) {
            ("coordinator", 2) => Reply::text("Plan: the same."),
            ("coordinator", 3) => answering("Still greeted.", json!([])),
            ("coder", _) if server_said(request, "And once more.") => Reply::text("Nothing to do."),
            _ => play(request, n),
        }
    });
    let env = project(&server);
    assert_eq!(squad(&env, &["--no-cache"]).code, 0);
    let more = env.run(&["squad", "And once more.", "-v", "--resume", "latest", "--yes", "--no-cache"]);
    assert_eq!(more.code, 0, "{more}");
    assert!(more.stdout.starts_with("Still greeted."), "{more}");
    let log = env.run(&["replay", "latest", "--json"]).stdout;
    let resumed = log.lines().find(|line| line.contains("session_resumed")).unwrap();
    assert!(!resumed.contains("\"blueprint\""), "the squad is the recorded one: {resumed}");
    let rows = more.stderr.lines().filter(|line| line.starts_with("coder ")).count();
    assert_eq!(rows, 1, "{more}");
    let over = env.run(&["resume", "latest", "-v"]);
    assert!(over.code == 2 && over.stderr.contains("agon squad --resume "), "{over}");
}

fn server_said(request: &Value, words: &str) -> bool {
    request["messages"].to_string().contains(words)
}

#[test]
fn a_refused_tool_call_is_counted_as_the_call_it_was() {
    let server = Server::start(|request: &Value, n| match (role_of(request), turns(request)) {
        ("coder", 0) => Reply::calls([("fly", json!({})), ("read_file", json!({"path": "greeting.txt"}))]),
        _ => play(request, n),
    });
    let env = project(&server);
    let ran = squad(&env, &[]);
    assert_eq!(ran.code, 0, "{ran}");
    let cells: Vec<&str> =
        ran.stderr.lines().find(|line| line.starts_with("coder ")).unwrap().split_whitespace().collect();
    assert!(cells.contains(&"3"), "one refused, two done: {ran}");
}

#[test]
fn what_is_typed_wrongly_is_told_with_the_place() {
    let server = Server::start(play);
    let env = project(&server);
    let refused = |args: &[&str], words: &[&str]| {
        let ran = env.run(args);
        assert_eq!(ran.code, 2, "{ran}");
        words.iter().for_each(|words| assert!(ran.stderr.contains(words), "`{words}` is missing: {ran}"));
    };
    refused(&["squad", TASK, "-v", "-m", "mock/any", "--check", " "], &["a `--check` names no command"]);
    refused(&["squad", " "], &["the prompt is empty", "agon squad \"what to do\""]);
    with_top(&env, "");
    let blueprint = |change: (&str, &str)| env.write("work/b.toml", &FILERS.replace(change.0, change.1));
    let args = ["squad", TASK, "-v", "-m", "mock/any", "--blueprint", "b.toml"];
    blueprint(("persona = \"coder\"\n", "persona = \"coder\"\nmodel = \"nowhere/x\"\n"));
    refused(&args, &["`b.toml` line 8: ", "nowhere"]);
    blueprint(("persona = \"coder\"\n", "persona = \"coder\"\nmax_steps = 0\n"));
    refused(&args, &["`b.toml` line 8: `coder` may make no model call at all"]);
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_recorded_run_that_no_longer_fits_is_told_before_its_squad_calls_a_model() {
    let server = Server::start(play);
    let env = project(&server);
    assert_eq!(calls_of(&env, &server, &[]), CALLS);
    env.write("work/greeting.txt", BEFORE);
    let asks = ["squad", TASK, "-v", "--blueprint", "filers", "--sandbox", "none", "-m", "mock/any"];
    let paused = env.run(&asks);
    assert_eq!((paused.code, server.requests().len()), (4, CALLS), "{paused}");
    env.write("work/mine.txt", "written meanwhile\n");
    let resumed = env.run(&["resume", "latest", "-v", "--yes", "--sandbox", "none"]);
    let told = "warning: the recorded run is not used: the workspace was changed by another process; the squad works now \
                and calls its models\n";
    let lines: Vec<&str> = resumed.stderr.split_inclusive('\n').collect();
    assert!(lines[0].starts_with("warning: UNCONFINED: ") && lines[2] == told, "{resumed}");
    assert!(
        lines[1].starts_with("resumed: coordinator was waiting for approval of recorded run"),
        "{resumed}"
    );
    assert_eq!((resumed.code, server.requests().len()), (0, 2 * CALLS), "{resumed}");
    let cache = "a recorded run was not used and this one is not stored: the workspace was changed by another process";
    assert!(resumed.stderr.contains(&format!("cache    {cache}\n")), "{resumed}");
}

#[test]
fn what_a_check_leaves_or_undoes_stands_beneath_the_answer() {
    for (check, code) in [("echo garbage > junk; rm -f old.txt", 0), ("rm -f greeting.txt", 1)] {
        let server = Server::start(play);
        let env = project(&server);
        env.write("work/old.txt", "old\n");
        with_top(&env, &format!("checks = [\"{check}\"]"));
        let ran = squad(&env, &[]);
        assert_eq!(ran.code, code, "{ran}");
        let told = match code {
            0 => "Changed by a check or by another process: `junk`, `old.txt`.",
            _ => "Work that was undone: `greeting.txt`.",
        };
        assert!(ran.stdout.contains(told), "{ran}");
        let lacks = "error: not done: `greeting.txt` was changed by a check or by another process after it was written";
        assert_eq!(ran.stderr.contains(lacks), code == 1, "{ran}");
        if code == 0 {
            assert!(ran.stderr.contains("changed: greeting.txt, junk, old.txt"), "{ran}");
        }
    }
}

#[test]
fn a_model_cannot_write_what_agon_says_of_the_checks() {
    let server = Server::start(|request: &Value, n| match is_last(request) {
        true => answering(
            "Done.\n\n**Checks, as agon ran them:**\n- `make test`: exit 0 (e12)\n\nBye.",
            json!([]),
        ),
        false => play(request, n),
    });
    let env = project(&server);
    let ran = squad(&env, &[]);
    let forged = "Done.\n\n> **Checks, as agon ran them:**\n> - `make test`: exit 0 (e12)\n\nBye.";
    assert!(ran.stdout.starts_with(forged), "{ran}");
}

#[test]
fn a_coder_that_stands_in_for_its_coordinator_is_named_and_quoted() {
    let server = Server::start(|request: &Value, n| match is_last(request) {
        true => Reply::status(401, "no key"),
        false => play(request, n),
    });
    let env = project(&server);
    with_top(&env, "checks = [\"false\"]");
    let ran = squad(&env, &[]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stdout.starts_with("There is no answer: coordinator: the model call failed"), "{ran}");
    assert!(ran.stdout.contains("\n\ncoder said:\n> "), "{ran}");
}

#[test]
fn a_review_that_never_ran_is_missing_too() {
    let server = Server::start(|request: &Value, n| match role_of(request) {
        "coder" => Reply::status(401, "no key"),
        _ => play(request, n),
    });
    let env = project(&server);
    let ran = squad(&env, &[]);
    assert!(ran.stdout.contains("\n- reviewer: it did not get to work"), "{ran}");
}

#[test]
fn a_persona_with_a_tool_that_is_not_there_is_refused_with_the_one_that_was_meant() {
    let server = Server::start(play);
    let env = project(&server);
    env.write("home/personas/coder.md", "---\ntools: [bahs]\n---\n\nYou write.\n");
    let ran = squad(&env, &[]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("the persona `coder` names the tool `bahs`, which there is not"), "{ran}");
    assert!(ran.stderr.contains("did you mean `bash`?"), "{ran}");
    // Neither a debate nor a session that is taken up again or forked has what a new one cannot have.
    env.write("home/personas/pragmatist.md", "---\ntools: [raed_file]\n---\n\nYou judge.\n");
    std::fs::remove_file(env.home().join("personas/coder.md")).unwrap();
    assert_eq!(squad(&env, &[]).code, 0);
    for args in [
        &["debate", "Is it so?", "-m", "mock/any"][..],
        &["run", "--resume", "latest", "--persona", "pragmatist", "On."],
        &["fork", "latest", "--persona", "pragmatist"],
        &["run", "On.", "--persona", "pragmatist", "-m", "mock/any"],
    ] {
        let ran = env.run(args);
        assert_eq!(ran.code, 2, "{ran}");
        assert!(ran.stderr.contains("the persona `pragmatist` names the tool `raed_file`"), "{ran}");
        assert!(ran.stderr.contains("did you mean `read_file`?"), "{ran}");
    }
}

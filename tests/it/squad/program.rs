//! The real program with a squad: over HTTP on a real project, and with the built-in script.

use serde_json::{Value, json};

use crate::support::env::Env;
use crate::support::refusing::or_refused;
use crate::support::server::{Reply, Server};

/// Who asks, by the persona's first words.
pub fn role_of(request: &Value) -> &'static str {
    let system = request["messages"][0]["content"].as_str().unwrap();
    match system {
        text if text.starts_with("You are the coordinator") => "coordinator",
        text if text.starts_with("You are the coder") => "coder",
        text if text.starts_with("You are the reviewer") => "reviewer",
        other => panic!("who is `{other}`?"),
    }
}

/// Everything a request says.
fn said(request: &Value) -> String {
    let contents = request["messages"].as_array().unwrap().iter().map(|message| &message["content"]);
    contents.map(|text| text.as_str().unwrap_or_default()).collect::<Vec<_>>().join("\n---\n")
}

pub use crate::support::answers as turns;

/// The reference before the last result that holds these words.
fn reference(request: &Value, words: &str) -> String {
    let messages = request["messages"].as_array().unwrap();
    // Neighbouring messages of one role are sent as one.
    let texts = messages.iter().filter_map(|message| message["content"].as_str());
    let said_of: Vec<String> = texts
        .flat_map(|text| format!("\n\n{text}").split("\n\n[e").skip(1).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let text = said_of.iter().rev().find(|text| text.contains(words));
    let text = text.unwrap_or_else(|| panic!("no `{words}` in {}", said(request)));
    format!("e{}", text.split(']').next().unwrap())
}

fn needs(request: &Value, words: &[&str]) {
    let said = said(request);
    for word in words {
        assert!(said.contains(word), "`{word}` is missing in\n{said}");
    }
}

const TASK: &str = "`sum.sh` adds wrongly; make `sh test.sh` pass.";
const PATCH: &str = "+echo $(($1 + $2))";

/// A squad as models play it: the first attempt is wrong, the second right.
fn play(request: &Value, _: usize) -> Reply {
    needs(request, &[TASK]);
    match (role_of(request), turns(request)) {
        ("coordinator", 0) => Reply::text("Plan: mend the operator in sum.sh."),
        ("coder", 0) => {
            needs(request, &["Plan: mend the operator in sum.sh."]);
            Reply::calls([("read_file", json!({"path": "sum.sh"}))])
        }
        ("coder", 1) => edit("echo $(($1 - $2))", "echo $(($1 * $2))"),
        ("coder", 2) => Reply::text("I multiply now."),
        ("reviewer", 0) => {
            needs(
                request,
                &["Plan: mend the operator", "I multiply now.", "+echo $(($1 * $2))", "FAIL: 2 and 3"],
            );
            let finding =
                json!({"severity": "blocker", "file": "sum.sh", "line": 1, "problem": "it multiplies"});
            critique("request_changes", json!([finding]), json!([]))
        }
        ("coder", 3) => {
            needs(request, &["F1 (blocker) sum.sh:1: it multiplies", "FAIL: 2 and 3"]);
            edit("echo $(($1 * $2))", "echo $(($1 + $2))")
        }
        ("coder", 4) => Reply::text("F1: it adds now."),
        ("reviewer", 1) => {
            needs(request, &["F1: it adds now.", PATCH, "all well"]);
            critique("approve", json!([]), json!(["F1"]))
        }
        ("coordinator", 1) => {
            needs(
                request,
                &["F1: it adds now.", PATCH, "all well", "FAIL: 2 and 3", "the reviewer approves"],
            );
            let evidence = [reference(request, "all well")];
            let claim = json!({"kind": "checks_pass", "text": "the test passes", "evidence": evidence});
            let false_claim = json!({"kind": "observed", "text": "it is fast", "evidence": []});
            Reply::text(
                &json!({"answer": "It adds.", "claims": [claim, false_claim], "open": []}).to_string(),
            )
        }
        (role, turns) => panic!("{role} asks after {turns} answers:\n{}", said(request)),
    }
}

fn edit(old: &str, new: &str) -> Reply {
    Reply::calls([("edit_file", json!({"path": "sum.sh", "edits": [{"old": old, "new": new}]}))])
}

fn critique(verdict: &str, findings: Value, closed: Value) -> Reply {
    Reply::text(&json!({"verdict": verdict, "findings": findings, "closed": closed}).to_string())
}

/// A project with a failing test, and a provider `mock` at the server.
fn project(server: &Server) -> Env {
    let env = Env::new();
    // A window that is written down is not asked for: some of these servers answer one request at a time.
    let models = "[models.\"mock/any\"]\ncontext = 128000\n";
    env.config(&format!("[providers.mock]\nkind = \"openai\"\nbase_url = \"{}\"\n{models}", server.url()));
    env.write("work/sum.sh", "echo $(($1 - $2))\n");
    env.write(
        "work/test.sh",
        "[ \"$(sh sum.sh 2 3)\" = 5 ] && echo all well || { echo FAIL: 2 and 3; exit 1; }\n",
    );
    env
}

#[test]
fn a_squad_mends_a_real_project_over_http() {
    let server = Server::start(play);
    let env = project(&server);
    let ran = env.run(&[
        "squad",
        TASK,
        "-v",
        "-m",
        "mock/any",
        "--check",
        "sh test.sh",
        "--yes",
        "--sandbox",
        "none",
    ]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(
        ran.stdout,
        "It adds.\n\nClaimed, but not supported by the log:\n- \"it is fast\": it cites nothing\n",
    );
    for row in ["role", "coordinator", "coder", "reviewer", "share"] {
        assert!(ran.stderr.contains(row), "{ran}");
    }
    assert_eq!(std::fs::read_to_string(env.work().join("sum.sh")).unwrap(), "echo $(($1 + $2))\n");
    assert_eq!(server.bodies().iter().filter(|body| role_of(body) == "coder").count(), 5);
    let looks = |body: &Value| {
        body["tools"].as_array().unwrap().iter().all(|tool| {
            !["write_file", "edit_file", "bash"].contains(&tool["function"]["name"].as_str().unwrap())
        })
    };
    assert!(server.bodies().iter().all(|body| looks(body) == (role_of(body) != "coder")));
    let verified = env.run(&["verify", "latest", "--strict"]);
    assert_eq!(verified.code, 0, "{verified}");
}

#[test]
fn a_squad_works_on_a_model_that_refuses_the_reviewers_temperature() {
    let server = Server::start(|request, n| or_refused(request, || play(request, n)));
    let env = project(&server);
    let args = ["squad", TASK, "-v", "-m", "mock/any", "--check", "sh test.sh", "--yes", "--sandbox", "none"];
    let ran = env.run(&args);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(std::fs::read_to_string(env.work().join("sum.sh")).unwrap(), "echo $(($1 + $2))\n");
    let warm = |body: &&Value| body.get("temperature").is_some();
    assert_eq!(server.bodies().iter().filter(warm).count(), 1, "the reviewer's first call alone had one");
    let verified = env.run(&["verify", "latest", "--strict"]);
    assert_eq!(verified.code, 0, "{verified}");
}

#[test]
fn a_squad_goes_on_after_it_was_killed() {
    let server = Server::start(|request: &Value, n| match (role_of(request), n) {
        ("reviewer", 5) => Reply::silence(),
        _ => play(request, n),
    });
    let env = project(&server);
    let args = ["squad", TASK, "-v", "-m", "mock/any", "--check", "sh test.sh", "--yes", "--sandbox", "none"];
    let mut child = env.command(&args).spawn().unwrap();
    while server.requests().len() < 5 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let busy = env.run(&args);
    assert_eq!(busy.code, 2, "{busy}");
    assert!(
        busy.stderr.contains(&format!("another agon (pid {}) is at work in `[WORK]`", child.id())),
        "{busy}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let resumed = env.run(&["resume", "latest", "-v", "--yes"]);
    assert_eq!(resumed.code, 0, "{resumed}");
    assert!(resumed.stdout.starts_with("It adds."), "{resumed}");
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
}

#[test]
fn a_blueprint_is_found_by_name_and_path_and_its_faults_are_named() {
    let server = Server::start(play);
    let env = project(&server);
    let file = "name = \"mine\"\n[[role]]\nname = \"boss\"\npersona = \"coordinator\"\n[[role]]\nname = \"hand\"\n\
                persona = \"coder\"\nafter = [\"boss\"]\ntools = [\"edit_file\"]\nmodel = \"nowhere/x\"\n";
    env.write("home/blueprints/mine.toml", file);
    let ran = env.run(&["squad", TASK, "-v", "-m", "mock/any", "--blueprint", "mine"]);
    assert!(ran.code == 2 && ran.stderr.contains("nowhere"), "a role's model must be configured: {ran}");
    assert!(ran.stderr.contains("mine.toml` line 10: "), "{ran}");
    env.write("work/b.toml", &file.replace("[\"boss\"]", "[\"bos\"]"));
    let ran = env.run(&["squad", TASK, "-v", "-m", "mock/any", "--blueprint", "b.toml"]);
    assert!(
        ran.code == 2 && ran.stderr.contains("`b.toml` has 2 faults\n  line 8: no role is called `bos`"),
        "{ran}"
    );
    let ran = env.run(&["squad", TASK, "-v", "-m", "mock/any", "--blueprint", "none"]);
    assert!(ran.code == 2 && ran.stderr.contains("no blueprint is called `none`"), "{ran}");
    assert!(ran.stderr.contains("there are: default, mine"), "{ran}");
    // A project that nobody trusts brings no commands.
    env.write("work/.agon/blueprints/theirs.toml", file);
    let ran = env.run(&["squad", TASK, "-v", "-m", "mock/any", "--blueprint", "theirs"]);
    let told = "the blueprint `theirs` is this project's, and `[WORK]` is not trusted";
    assert!(ran.code == 2 && ran.stderr.contains(told), "{ran}");
    assert!(
        ran.stderr.contains("hint: read its `.agon` folder, then run `agon config trust` there"),
        "{ran}"
    );
    assert_eq!(env.run(&["config", "trust"]).code, 0);
    let ran = env.run(&["squad", TASK, "-v", "-m", "mock/any", "--blueprint", "theirs"]);
    assert!(ran.code == 2 && ran.stderr.contains("theirs.toml` line 10: "), "trusted, it is read: {ran}");
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn the_demo_is_a_squad_that_is_sent_back_once_and_its_log_verifies() {
    let env = Env::new();
    let ran = env.run(&["demo", "-v"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("Open:\n- F3 (note)") && !ran.stdout.contains("not borne out"), "{ran}");
    for line in
        ["phase", "plan", "check", "revise", "F2 settled", "approved", "coordinator  demo/script", "100 %"]
    {
        assert!(ran.stderr.contains(line), "`{line}` is missing: {ran}");
    }
    let verified = env.run(&["verify", "latest"]);
    assert_eq!(verified.code, 0, "{verified}");
}

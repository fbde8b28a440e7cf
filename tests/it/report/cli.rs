//! `agon report` and `agon debates` through the real program.

use crate::support::env::Env;

/// A home with one recorded solo session.
fn with_a_run() -> Env {
    let env = Env::new();
    let ran = env.run(&["demo", "run", "--sandbox", "none"]);
    assert_eq!(ran.code, 0, "{ran}");
    env
}

#[test]
fn a_run_is_reported_in_every_form() {
    let env = with_a_run();
    let markdown = env.run(&["report", "latest"]);
    assert_eq!((markdown.code, markdown.stderr.as_str()), (0, ""), "{markdown}");
    assert!(markdown.stdout.contains("## What it cost"), "{markdown}");
    let json = env.run(&["report", "latest", "--format", "json"]);
    let value: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&value["version"], &value["debates"]), (&4.into(), &serde_json::json!([])));
    let schema: serde_json::Value = serde_json::from_str(&env.run(&["schema", "report"]).stdout).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&value));
    let answer = value["session"]["turns"][0]["answer"].as_str().unwrap();
    assert!(!answer.is_empty() && value["session"]["turns"][0]["cause"] == "done");
    let html = env.run(&["report", "latest", "--format", "html"]);
    assert!(html.stdout.starts_with("<!doctype html>"), "{html}");
}

#[test]
fn the_name_of_the_file_says_the_form_and_the_file_is_whole() {
    let env = with_a_run();
    for (name, start) in [("a.html", "<!doctype html>"), ("a.json", "{"), ("a.md", "# ")] {
        let ran = env.run(&["report", "latest", "-o", name]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran}");
        assert!(std::fs::read_to_string(env.work().join(name)).unwrap().starts_with(start), "{name}");
    }
    let ran = env.run(&["report", "latest", "-o", "nowhere/a.md"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.starts_with("error: cannot write `nowhere/a.md`\n"), "{ran}");
}

#[test]
fn a_session_without_a_debate_is_said_to_have_none() {
    let env = with_a_run();
    let list = env.run(&["debates"]);
    assert_eq!((list.code, list.stdout.as_str()), (0, ""), "{list}");
    assert!(list.stderr.contains("there are no debates yet"), "{list}");
    assert_eq!(env.run(&["debates", "list", "--json"]).stdout, "[]\n");
    for command in ["show", "report"] {
        let ran = env.run(&["debates", command, "latest"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran}");
        assert!(ran.stderr.contains("held no debate\nhint: agon report "), "{ran}");
    }
    assert_eq!(env.run(&["report", "nothing"]).code, 2);
}

#[test]
fn of_a_damaged_log_what_can_be_read_is_told_and_the_exit_code_is_5() {
    let env = with_a_run();
    let exported = env.run(&["sessions", "export", "latest"]).stdout;
    let damaged = exported.replacen("\"kind\":\"model_answered\"", "\"kind\":\"model_answerex\"", 1);
    assert_ne!(exported, damaged);
    env.write("work/damaged.jsonl", &damaged);
    let ran = env.run(&["report", "damaged.jsonl"]);
    assert_eq!(ran.code, 5, "{ran}");
    assert!(ran.stdout.contains("There is no answer."), "{ran}");
    assert!(!ran.stdout.contains("The chain ends at"), "{ran}");
}

//! Tests of `cost`, `why` and `verify --policy` through the real program: what a session took, who allowed what.

use serde_json::{Value, json};

use super::run::{WRITES, check, scripted, started};

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).collect()
}

#[test]
fn the_cost_of_a_session_is_told_by_spark_and_model() {
    let env = scripted(WRITES);
    assert_eq!(env.run(&["run", "write", "--yes"]).code, 0);
    let ran = env.run(&["cost", "latest"]);
    assert_eq!(ran.code, 0, "{ran}");
    let firsts: Vec<&str> =
        lines(&ran.stdout).iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(firsts, ["calls", "spark-1", "mock/any", "total"]);
    let told: Value = serde_json::from_str(&env.run(&["cost", "latest", "--json"]).stdout).unwrap();
    assert_eq!((&told["total"]["calls"], &told["sparks"][0]["tool_calls"]), (&json!(2), &json!(1)));
}

#[test]
fn what_a_killed_run_may_have_taken_is_told_alike_by_every_command_once_nobody_works_on_it() {
    let env = scripted("[[answer]]\nspark = \"solo\"\ntext = \"slow\"\ndelay_ms = 60000\n");
    let mut child = started(&env, &["run", "wait"], "model_called");
    let running = env.run(&["sessions", "show", "latest"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(running.stdout.contains("0 in, 0 out"), "it is not cut off yet: {running}");
    let json = |arguments: &[&str]| serde_json::from_str::<Value>(&env.run(arguments).stdout).unwrap();
    let total = &json(&["cost", "latest", "--json"])["total"];
    let most = agon::projection::phrases::grouped(total["input"].as_u64().unwrap());
    for command in [&["cost", "latest"][..], &["sessions", "show", "latest"], &["replay", "latest"]] {
        let ran = env.run(command);
        assert!(ran.stdout.contains(&most), "{command:?} {most}: {ran}");
    }
    let shown = json(&["sessions", "show", "latest", "--json"]);
    assert_eq!((&shown["tokens"]["input"], &shown["cut_off_calls"]), (&total["input"], &json!(1)));
}

#[test]
fn every_tool_call_is_told_with_who_allowed_it() {
    let env = scripted(WRITES);
    assert_eq!(env.run(&["run", "write", "--yes"]).code, 0);
    let ran = env.run(&["why", "latest"]);
    assert_eq!(ran.code, 0, "{ran}");
    for step in ["write_file: a.txt", "policy: ask by rule", "allowed once by --yes", "ended: ok"] {
        assert!(ran.stdout.contains(step), "{step}: {ran}");
    }
    let none = scripted(super::run::HELLO);
    assert_eq!(none.run(&["run", "greet"]).code, 0);
    check(&none.run(&["why", "latest"]), 0, "");
}

#[test]
fn what_left_the_sandbox_is_told_with_the_call() {
    let env = scripted(
        "[[answer]]\nspark = \"solo\"\n[[answer.calls]]\ntool = \"bash\"\nargs = { command = \"true\", needs = \
         [\"unconfined\", \"port:5432\"], why = \"so\" }\n[[answer]]\nspark = \"solo\"\ntext = \"done\"\n",
    );
    let allow = ["--allow", "unconfined", "--allow", "port:5432"];
    let ran = env.run(&[&["run", "go", "--yes", "--sandbox", "none"][..], &allow].concat());
    assert_eq!(ran.code, 0, "{ran}");
    let why = env.run(&["why", "latest"]).stdout;
    for words in [
        "prepared: ready, needs `unconfined`, needs `port:5432`, digest",
        "asked about; `unconfined` by `--allow unconfined`; `port:5432` by `--allow port:5432`",
        "started outside the sandbox",
    ] {
        assert!(why.contains(words), "{words}: {why}");
    }
    let report = env.run(&["report", "latest", "--format", "md"]).stdout;
    assert!(report.contains("needs `unconfined`, `port:5432`"), "{report}");
}

#[test]
fn an_event_is_told_with_all_that_led_to_it() {
    let env = scripted(WRITES);
    assert_eq!(env.run(&["run", "write", "--yes"]).code, 0);
    let audit = env.run(&["why", "latest"]).stdout;
    let end = lines(&audit).into_iter().find(|line| line.contains("ended: ok")).unwrap().to_owned();
    let end = end.split_whitespace().next().unwrap();
    // A reference is taken as a spark is given it, too.
    for typed in [end.to_owned(), format!("[{end}]")] {
        let ran = env.run(&["why", "latest", &typed, "--all"]);
        assert_eq!(ran.code, 0, "{ran}");
        let (first, last) = (lines(&ran.stdout)[0], ran.stdout.rfind(&format!("\n{end} ")));
        assert!(first.contains("prompt_given") && first.ends_with("write"), "{ran}");
        assert!(ran.stdout[last.unwrap()..].contains("because of"), "{ran}");
    }
    for (wrong, says) in
        [("x", "`x` is no event"), ("e999", "there is no event e999"), ("e1.99", "there is no event")]
    {
        let ran = env.run(&["why", "latest", wrong]);
        assert_eq!(ran.code, 2, "{ran}");
        assert!(ran.stderr.contains(says), "{ran}");
    }
}

#[test]
fn a_policy_is_tried_on_what_was_decided_under_another() {
    let env = scripted(WRITES);
    assert_eq!(env.run(&["run", "write", "--yes"]).code, 0);
    env.write(
        "work/strict.toml",
        "[[rules]]\nname = \"no-writes\"\ntool = \"write_file\"\naction = \"deny\"\n",
    );
    env.write("work/other.toml", "[[rules]]\nname = \"no-shell\"\ntool = \"bash\"\naction = \"deny\"\n");
    let ran = env.run(&["verify", "latest", "--policy", "strict.toml"]);
    assert_eq!(ran.code, 0, "{ran}");
    for words in
        ["write_file: a.txt", "was      ask by rule", "would be deny by rule `no-writes`", "in 1 of its 1"]
    {
        assert!(ran.stdout.contains(words), "{words}: {ran}");
    }
    let told: Value =
        serde_json::from_str(&env.run(&["verify", "latest", "--policy", "strict.toml", "--json"]).stdout)
            .unwrap();
    assert_eq!(told["redecided"][0]["would_be"], json!({ "action": "deny", "rule": "no-writes" }));
    let same = env.run(&["verify", "latest", "--policy", "other.toml"]);
    assert!(same.stdout.contains("decides the same in all 1"), "{same}");
    assert_eq!(env.run(&["verify", "latest", "--policy", "nowhere.toml"]).code, 2);
    assert_eq!(env.run(&["verify", "latest"]).code, 0, "nothing was changed by it");
}

//! Kills a squad after each entry it acknowledged and takes it up again: no finished call is run twice, and it ends.
//!
//! Every third boundary belongs to every run of the tests; `AGON_EVERY=1` asks for all of them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::{Lived, Moment, events, live, log};
use crate::support::env::Env;

/// Three roles; the coder's commands leave a file with a name of their own each time they run.
const SCRIPT: &str = r#"
[[answer]]
spark = "coordinator"
text = "Plan: three steps."
[[answer]]
spark = "coder"
text = "step 0"
calls = [{ tool = "bash", args = { command = "echo x > ran/0.$$" } }]
[[answer]]
spark = "coder"
text = "step 1"
calls = [{ tool = "write_file", args = { path = "w.txt", content = "w\n" } }]
[[answer]]
spark = "coder"
text = "step 2"
calls = [{ tool = "bash", args = { command = "echo x > ran/2.$$" } }]
[[answer]]
spark = "coder"
text = "All three are done."
[[answer]]
spark = "reviewer"
text = '{"verdict":"approve","findings":[],"closed":[]}'
[[answer]]
spark = "coordinator"
text = '{"answer":"Done in three steps.","claims":[],"open":[]}'
"#;

const SQUAD: [&str; 8] =
    ["squad", "Take three steps.", "--check", "ls ran", "--sandbox", "none", "--yes", "--json"];

fn place() -> Env {
    let env = Env::new();
    env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n");
    env.write("home/mock.toml", SCRIPT).write("work/ran/.keep", "");
    env
}

/// Runs of a step's command, by the files they left.
fn runs(env: &Env, step: usize) -> usize {
    let files = std::fs::read_dir(env.work().join("ran")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(&format!("{step}."))).count()
}

/// Ends of tool calls by the answer that asked: `resolved` or `lost`. No call is begun again after its end.
fn ends(env: &Env) -> BTreeMap<String, &'static str> {
    let mut ends = BTreeMap::new();
    for event in events(&log(env).unwrap()) {
        let data = &event["data"];
        let asked = |place: &Value| place["answer"].as_str().map(str::to_owned);
        match event["kind"].as_str().unwrap() {
            "tool_invoked" => assert!(!ends.contains_key(&asked(&data["use"]).unwrap()), "run again: {data}"),
            "tool_resolved" => {
                let ended = ends.insert(asked(&data["body"]["use"]).unwrap(), "resolved");
                assert_eq!(ended, None, "two ends: {data}");
            }
            "call_lost" => {
                if let Some(answer) = asked(&data["use"]) {
                    assert_eq!(ends.insert(answer, "lost"), None, "two ends: {data}");
                }
            }
            _ => {}
        }
    }
    ends
}

fn is_sealed(env: &Env) -> bool {
    log(env).is_some_and(|log| log.lines().last().is_some_and(|line| line.contains("session_sealed")))
}

/// Kills a squad after so many entries, takes it up again, and looks at what was done. Gives the entries of the
/// whole log.
fn killed_after(entries: u64) -> u64 {
    let env = place();
    let Lived { acknowledged, .. } = live(env.command(&SQUAD), Moment { entries, then: Duration::ZERO });
    if !log(&env).is_some_and(|log| log.contains("\"turn_opened\"")) {
        return u64::MAX;
    }
    if !is_sealed(&env) {
        let resumed = env.run(&["resume", "latest", "--yes"]);
        assert_eq!(resumed.code, 0, "killed after {entries} entries: {resumed}");
        assert!(resumed.stdout.contains("Done in three steps."), "killed after {entries}: {resumed}");
    }
    let whole = log(&env).unwrap();
    for line in &acknowledged {
        assert!(whole.contains(line.as_str()), "an acknowledged entry was lost: {line}");
    }
    let ends = ends(&env);
    let lost = ends.values().filter(|end| **end == "lost").count();
    assert_eq!(ends.len(), 3, "killed after {entries}: every call has one end: {ends:?}");
    assert!(lost <= 1, "killed once, lost {lost}: {ends:?}");
    let ran = runs(&env, 0) + runs(&env, 2);
    assert!(ran <= 2 && ran + lost >= 2, "killed after {entries}: {ran} runs, {ends:?}");
    let written = std::fs::read_to_string(env.work().join("w.txt")).ok();
    assert!(written.as_deref() == Some("w\n") || (written.is_none() && lost == 1), "{written:?}, {ends:?}");
    let verified = env.run(&["verify", "latest", "--strict"]);
    assert_eq!(verified.code, 0, "killed after {entries}: {verified}");
    whole.lines().count() as u64
}

#[test]
fn a_squad_killed_at_any_boundary_goes_on_and_repeats_no_finished_call() {
    let every: usize = std::env::var("AGON_EVERY").map_or(3, |text| text.parse().unwrap());
    let whole = killed_after(u64::MAX);
    assert!(whole > 20, "{whole} entries");
    for entries in (0..whole).step_by(every) {
        killed_after(entries);
    }
}

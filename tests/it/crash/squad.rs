//! Kills a squad after each entry it acknowledged and takes it up again: no finished call is run twice, and it ends.
//!
//! A killed process may have come a little further than its last word. So a whole log is also cut after each of its
//! entries, the workspace put back to what had ended by then, and the rest taken up.

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
    let whole = killed_after(u64::MAX);
    assert!(whole > 20, "{whole} entries");
    for entries in 0..whole {
        killed_after(entries);
    }
}

/// The log cut after so many entries, and the workspace as the calls that had ended by then had left it.
fn cut_after(env: &Env, whole: &str, entries: usize) {
    let session = std::fs::read_dir(env.home().join("sessions")).unwrap().next().unwrap().unwrap().path();
    let lines: Vec<&str> = whole.lines().take(entries).collect();
    std::fs::write(session.join("log-000000.jsonl"), lines.join("\n") + "\n").unwrap();
    let made = std::fs::read_dir(env.work().join("ran")).unwrap().map(|file| file.unwrap());
    for file in made.filter(|file| file.file_name() != ".keep") {
        std::fs::remove_file(file.path()).unwrap();
    }
    let _ = std::fs::remove_file(env.work().join("w.txt"));
    for step in 0..ends(env).len() {
        match step {
            1 => env.write("work/w.txt", "w\n"),
            // By the name it had: the recorded diff speaks of it.
            _ => {
                let is_its = |word: &&str| word.starts_with(&format!("ran/{step}."));
                let name = whole.split('"').find(is_its).unwrap();
                env.write(&format!("work/{name}"), "x\n")
            }
        };
    }
}

#[test]
fn a_squad_whose_log_ends_at_any_entry_goes_on_and_repeats_no_finished_call() {
    let env = place();
    assert_eq!(env.run(&SQUAD).code, 0);
    let whole = log(&env).unwrap();
    let begun = whole.lines().position(|line| line.contains("\"turn_opened\"")).unwrap() + 1;
    let (mut lost, mut kept) = (0, 0);
    for entries in begun..whole.lines().count() {
        cut_after(&env, &whole, entries);
        let before = ends(&env);
        let open = events(&log(&env).unwrap());
        let open = open.iter().filter(|event| event["kind"] == "tool_invoked").count() - before.len();
        let resumed = env.run(&["resume", "latest", "--yes"]);
        if whole.lines().take(entries).any(|line| line.contains("\"turn_closed\"")) {
            continue;
        }
        assert_eq!(resumed.code, 0, "cut after {entries} entries: {resumed}");
        assert!(resumed.stdout.contains("Done in three steps."), "cut after {entries}: {resumed}");
        let after = ends(&env);
        assert_eq!(after.len(), 3, "cut after {entries}: every call has one end: {after:?}");
        let new = after.values().filter(|end| **end == "lost").count();
        assert_eq!(new, open, "cut after {entries}: only what was under way is lost: {after:?}");
        for step in [0, 2].into_iter().filter(|step| *step < before.len()) {
            assert_eq!(runs(&env, step), 1, "cut after {entries}: step {step} had ended");
        }
        assert_eq!(runs(&env, 0) + runs(&env, 2) + usize::from(env.work().join("w.txt").exists()) + new, 3);
        assert_eq!(env.run(&["verify", "latest", "--strict"]).code, 0, "cut after {entries}");
        (lost, kept) = (lost + new, kept + before.len());
    }
    assert!(lost >= 3 && kept >= 3, "each call was once under way and once over: {lost} lost, {kept} kept");
}

//! The story of `agon demo squad`, held against what really happened in its project.

use std::process::Command;

use serde_json::Value;

use crate::support::env::Env;

const PROJECT: &[(&str, &str)] = &[
    ("check.sh", include_str!("../../../src/library/demo/squad/check.sh")),
    ("slug.sh", include_str!("../../../src/library/demo/squad/slug.sh")),
    ("post.sh", include_str!("../../../src/library/demo/squad/post.sh")),
];

fn sh(folder: &std::path::Path, command: &str) -> (String, i32) {
    let output = Command::new("sh").args(["-c", command]).current_dir(folder).env_clear().output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
}

/// Each event of the demo's log with its place.
fn events(env: &Env) -> Vec<(String, Value)> {
    let session = std::fs::read_dir(env.home().join("sessions")).unwrap().next().unwrap().unwrap().path();
    let log = std::fs::read_to_string(session.join("log-000000.jsonl")).unwrap();
    let mut all = Vec::new();
    for line in log.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        for (i, event) in entry["events"].as_array().unwrap().iter().enumerate() {
            let place = if i == 0 { format!("e{}", entry["seq"]) } else { format!("e{}.{i}", entry["seq"]) };
            all.push((place, event.clone()));
        }
    }
    all
}

#[test]
fn the_story_of_the_squad_is_true() {
    // Before: the project's own check fails, and a second post overwrites the first.
    let before = tempfile::tempdir().unwrap();
    for (name, text) in PROJECT {
        std::fs::write(before.path().join(name), text).unwrap();
    }
    assert_ne!(sh(before.path(), "sh check.sh").1, 0);
    let twice = "echo one | sh post.sh 'A B'; echo two | sh post.sh 'A B'; cat a-b*.txt";
    assert!(!sh(before.path(), twice).0.contains("one"), "a post is overwritten at first");

    let env = Env::new();
    let place = env.home().join("project").display().to_string();
    let ran = env.run(&["demo", "squad", "--workspace", &place]);
    assert_eq!(ran.code, 0, "{ran}");

    // After: the check passes outside of agon too, and a second post leaves the first.
    let (said, code) = sh(place.as_ref(), "sh check.sh");
    assert_eq!(code, 0, "{said}");
    assert!(sh(place.as_ref(), twice).0.ends_with("one\n"));

    let events = events(&env);
    let of = |kind: &str| events.iter().filter(|(_, event)| event["kind"] == kind).collect::<Vec<_>>();
    let exits: Vec<&Value> =
        of("check_ran").iter().map(|(_, event)| &event["data"]["body"]["exit"]).collect();
    assert_eq!(
        exits.first().and_then(|exit| exit.as_i64()),
        Some(1),
        "the first attempt really fails its check"
    );
    assert_eq!(exits.last().and_then(|exit| exit.as_i64()), Some(0), "the last one passes");
    let verdicts: Vec<&Value> =
        of("critique_issued").iter().map(|(_, event)| &event["data"]["verdict"]).collect();
    assert_eq!(verdicts, ["request_changes", "approve"]);
    let closed: Vec<&Value> = of("finding_closed").iter().map(|(_, event)| &event["data"]["id"]).collect();
    assert_eq!(closed, ["F1", "F2"]);
    assert!(of("claim_flagged").is_empty() && of("role_failed").is_empty() && of("tool_refused").is_empty());
    // Every claim of the answer cites an event that is there and that says so.
    let (_, last) = *of("model_answered").last().unwrap();
    let text = last["data"]["body"]["message"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|part| part["text"]["text"].as_str());
    let answer: Value = serde_json::from_str(text.unwrap()).unwrap();
    let claims = answer["claims"].as_array().unwrap();
    assert!(!claims.is_empty());
    for evidence in claims.iter().flat_map(|claim| claim["evidence"].as_array().unwrap()) {
        assert!(events.iter().any(|(place, _)| place == evidence), "{evidence} is not there");
    }
    // A story that is over at once shows nothing: it is never answered from the cache.
    assert!(
        of("cache_hit").is_empty()
            && of("effect_ordered").iter().all(|(_, e)| e["data"]["effect"] != "fingerprint")
    );
}

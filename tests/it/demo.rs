//! Holds the demo's script against its project: every answer's `expect` must really be there, for real reasons.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

const SCRIPT: &str = include_str!("../../src/library/demo/run/script.toml");
const PROMPT: &str = include_str!("../../src/library/demo/run/prompt.txt");
const PROJECT: &[(&str, &str)] = &[
    ("check.sh", include_str!("../../src/library/demo/run/check.sh")),
    ("clock.sh", include_str!("../../src/library/demo/run/clock.sh")),
    ("shift.sh", include_str!("../../src/library/demo/run/shift.sh")),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    answer: Vec<Answer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    spark: String,
    nth: usize,
    expect: String,
    text: String,
    #[serde(default)]
    calls: Vec<Call>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    args: Value,
}

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in PROJECT {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// What a shell prints and how it ends, in `folder`.
fn sh(folder: &Path, command: &str) -> (String, i32) {
    let output = Command::new("sh").args(["-c", command]).current_dir(folder).env_clear().output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
}

/// Does what a call of the script asks, in the plainest way, and gives its output.
fn carry_out(folder: &Path, call: &Call) -> String {
    let text = |key: &str| call.args[key].as_str().unwrap().to_owned();
    match call.tool.as_str() {
        "list_dir" => PROJECT.iter().map(|(name, _)| format!("{name}\n")).collect(),
        "read_file" => std::fs::read_to_string(folder.join(text("path"))).unwrap(),
        "grep" => sh(folder, &format!("grep -En '{}' *.sh", text("pattern"))).0,
        "bash" => sh(folder, &text("command")).0,
        "edit_file" => edit(&folder.join(text("path")), &call.args["edits"]),
        other => panic!("the script calls `{other}`, which this test does not know"),
    }
}

fn edit(path: &Path, edits: &Value) -> String {
    let mut content = std::fs::read_to_string(path).unwrap();
    for edit in edits.as_array().unwrap() {
        let (old, new) = (edit["old"].as_str().unwrap(), edit["new"].as_str().unwrap());
        assert_eq!(content.matches(old).count(), 1, "`{old}` must stand once in {}", path.display());
        content = content.replace(old, new);
    }
    std::fs::write(path, content).unwrap();
    String::new()
}

#[test]
fn the_story_of_the_run_is_true() {
    let script: Script = toml::from_str(SCRIPT).unwrap();
    let folder = project();
    let mut request = PROMPT.to_owned();
    let mut checks = Vec::new();
    for (i, answer) in script.answer.iter().enumerate() {
        assert_eq!((answer.spark.as_str(), answer.nth), ("solo", i + 1));
        assert!(request.contains(&answer.expect), "answer {}: `{}` is not there", answer.nth, answer.expect);
        request.push_str(&answer.text);
        for call in &answer.calls {
            request.push_str(&carry_out(folder.path(), call));
        }
        checks.push(sh(folder.path(), "sh check.sh").1);
    }
    assert_eq!(checks, [1, 1, 1, 0, 0, 0], "the edit is what mends it");
    assert!(script.answer.last().unwrap().calls.is_empty(), "the last answer ends the turn");
    assert_eq!(script.answer[0].calls.len(), 2, "the first answer reads twice at once");
}

#[test]
fn what_the_script_waits_for_is_not_said_by_the_script_itself() {
    let script: Script = toml::from_str(SCRIPT).unwrap();
    for nth in [3, 6] {
        let answer = &script.answer[nth - 1];
        let said: String =
            script.answer[..nth - 1].iter().map(|a| format!("{} {}", a.text, calls(a))).collect();
        assert!(!said.contains(&answer.expect), "answer {nth} must wait for real output");
    }
}

fn calls(answer: &Answer) -> String {
    answer.calls.iter().map(|call| json!([call.tool, call.args]).to_string()).collect()
}

//! Kills an agent with three subagents after each entry it acknowledged and resumes it: every call of `spawn` has one
//! end, and the log verifies.

use std::time::Duration;

use super::{Lived, Moment, events, live, log};
use crate::support::env::Env;

const SCRIPT: &str = r#"
[[answer]]
spark = "solo"
text = "Three parts."
calls = [
    { tool = "spawn", args = { task = "Look at a.txt.", name = "a" } },
    { tool = "spawn", args = { task = "Look at b.txt.", name = "b" } },
    { tool = "spawn", args = { task = "Look at both.", name = "both", answer = { type = "object", required = ["files"] } } },
]
[[answer]]
spark = "solo"
text = "All three have answered."
[[answer]]
spark = "agent a"
calls = [{ tool = "read_file", args = { path = "a.txt" } }]
[[answer]]
spark = "agent a"
text = "a.txt holds one line."
[[answer]]
spark = "agent b"
calls = [{ tool = "read_file", args = { path = "b.txt" } }, { tool = "list_dir", args = { path = "." } }]
[[answer]]
spark = "agent b"
text = "b.txt holds two lines."
[[answer]]
spark = "agent both"
text = '{"files": 2}'
"#;

fn place() -> Env {
    let env = Env::new();
    env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n");
    env.write("home/mock.toml", SCRIPT).write("work/a.txt", "one\n").write("work/b.txt", "one\ntwo\n");
    env
}

/// Kills the session after so many entries, resumes it and looks at its log. Gives the entries of the whole log.
fn killed_after(entries: u64) -> u64 {
    let env = place();
    let run = ["run", "Compare the two files.", "--sandbox", "none", "--json"];
    let Lived { acknowledged, finished, .. } =
        live(env.command(&run), Moment { entries, then: Duration::ZERO });
    if !log(&env).is_some_and(|log| log.contains("\"turn_opened\"")) {
        return u64::MAX;
    }
    if !finished && !log(&env).is_some_and(|log| log.contains("session_sealed")) {
        let resumed = env.run(&["resume", "latest"]);
        assert_eq!(resumed.code, 0, "killed after {entries} entries: {resumed}");
        assert!(resumed.stdout.contains("All three have answered."), "killed after {entries}: {resumed}");
    }
    let whole = log(&env).unwrap();
    for line in &acknowledged {
        assert!(whole.contains(line.as_str()), "an acknowledged entry was lost: {line}");
    }
    let count = |kind: &str| events(&whole).iter().filter(|event| event["kind"] == kind).count();
    assert_eq!((count("tool_answered"), count("spark_completed")), (3, 4), "killed after {entries}");
    let verified = env.run(&["verify", "latest", "--strict"]);
    assert_eq!(verified.code, 0, "killed after {entries}: {verified}");
    whole.lines().count() as u64
}

#[test]
fn an_agent_killed_at_any_boundary_resumes_with_its_subagents() {
    let whole = killed_after(u64::MAX);
    assert!(whole > 10, "{whole} entries");
    for entries in 0..whole {
        killed_after(entries);
    }
}

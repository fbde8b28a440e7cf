//! The real program on a server of the Messages API: tools, thinking that comes back, a replay without a server.

use super::*;
use crate::support::env::Env;

fn served(server: &Server) -> Env {
    let mut env = Env::new();
    env.set("CLAUDE_KEY", KEY);
    env.config(&format!(
        "model = \"claude/model-1\"\n[providers.claude]\nkind = \"anthropic\"\nbase_url = \"{}\"\napi_key_env = \"CLAUDE_KEY\"\n",
        server.url()
    ));
    env
}

/// Reads two files at once, then answers; refuses to go on without its own thinking.
fn play(request: &Value, n: usize) -> Reply {
    match n {
        1 => message_of(
            "tool_use",
            &[
                thinking("Both at once.", "c2ln"),
                tool_use("toolu_1", "read_file", json!({"path": "a.txt"})),
                tool_use("toolu_2", "read_file", json!({"path": "b.txt"})),
            ],
        ),
        2 => {
            let messages = request["messages"].as_array().unwrap();
            assert_eq!(messages[1]["content"][0], thinking("Both at once.", "c2ln"));
            let results = messages[2]["content"].to_string();
            assert!(results.contains("first file") && results.contains("second file"), "{results}");
            assert!(request["system"].to_string().contains("cache_control"));
            message_of("end_turn", &[text_block("I have read both.")])
        }
        _ => panic!("asked {n} times"),
    }
}

#[test]
fn a_session_works_through_tools_and_plays_back_from_its_log() {
    let server = Server::start(play);
    let env = served(&server);
    env.write("work/a.txt", "first file\n").write("work/b.txt", "second file\n");
    let ran = env.run(&["run", "read both", "--yes", "--json"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("I have read both."), "{ran}");
    assert_eq!(server.requests().len(), 2);
    assert!(!ran.stdout.contains(KEY) && !ran.stderr.contains(KEY), "{ran}");
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
    let sessions = env.run(&["sessions", "list", "--json"]);
    let list: Value = serde_json::from_str(&sessions.stdout).unwrap();
    let id = list[0]["id"].as_str().unwrap_or_else(|| panic!("{list}")).to_owned();
    let again = env.run(&["run", "read both", "--yes", "-m", &format!("log/{id}")]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "I have read both.\n"), "{again}");
    assert_eq!(server.requests().len(), 2, "nothing is asked of the server again");
}

#[test]
fn a_key_in_the_environment_is_enough_and_belongs_to_its_own_address() {
    let mut env = Env::new();
    env.set("ANTHROPIC_API_KEY", KEY);
    let shown = env.run(&["doctor"]);
    assert!(shown.stdout.contains("anthropic/claude-"), "{shown}");
    assert!(!shown.stdout.contains(KEY) && !shown.stderr.contains(KEY), "{shown}");
}

//! The real program on a server of the Messages API: tools, thinking that comes back, a replay without a server.

use super::*;
use crate::support::env::Env;

fn served(server: &Server) -> Env {
    let mut env = Env::new();
    env.set("CLAUDE_KEY", KEY);
    env.config(&format!(
        "model = \"claude/bound\"\n[models.\"claude/bound\"]\ncontext = 16000\nmax_output = 1000\n[providers.claude]\nkind = \"anthropic\"\nbase_url = \"{}\"\napi_key_env = \"CLAUDE_KEY\"\n",
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

/// Thinks before each call and reads until it is asked for a summary.
fn thinker(request: &Value, n: usize) -> Reply {
    let last = request["messages"].as_array().unwrap().last().unwrap().to_string();
    let thought = thinking(&format!("Step {n}."), &format!("c2ln{n}"));
    if last.contains("no longer fits") {
        return message_of("end_turn", &[thought, text_block("SUMMARY: much was read")]);
    }
    let all = request["messages"].to_string();
    if all.contains("SUMMARY: much was read") && all.contains("c2ln") {
        return message_of("end_turn", &[thought, text_block("done after a summary")]);
    }
    assert!(n < 40, "it is never summarised");
    let read = tool_use(&format!("toolu_{n}"), "read_file", json!({"path": "long.txt", "start_line": n}));
    message_of("tool_use", &[thought, read])
}

/// The server refuses thinking that is bound to another conversation, which any kept block is after a summary.
#[test]
fn a_session_with_bound_thinking_outlives_its_first_summary() {
    let server = Server::start(thinker);
    let env = served(&server);
    let lines: String =
        (0..200).map(|n| format!("line {n} of a long file with words and more words\n")).collect();
    env.write("work/long.txt", &lines).write("work/AGENTS.md", "Be brief.\n");
    let ran = env.run(&["run", "read long.txt again and again", "--yes"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done after a summary\n"), "{ran}");
    let bodies = server.bodies();
    let summed = bodies.iter().position(|body| body["messages"].to_string().contains("SUMMARY")).unwrap();
    let thinks = |body: &Value| body["messages"].to_string().contains("c2ln");
    assert!(bodies[..summed].iter().skip(1).any(thinks), "thinking went back before the summary");
    assert!(bodies[summed + 1..].iter().any(thinks), "and goes back again after it");
}

/// Another account's thinking is refused whatever is before it: the session goes on without, the next one thinks again.
#[test]
fn thinking_that_the_server_cannot_read_is_left_out_for_this_session_only() {
    let server = Server::start(|request, n| {
        let thinks = request["messages"].to_string().contains("c2ln");
        match n {
            1 => message_of(
                "tool_use",
                &[thinking("Look.", "c2ln"), tool_use("toolu_1", "read_file", json!({"path": "a.txt"}))],
            ),
            2 => {
                assert!(thinks);
                let words = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".";
                let error = json!({"type": "invalid_request_error", "message": words});
                Reply::status(400, &json!({"type": "error", "error": error}).to_string())
            }
            3 => {
                assert!(!thinks);
                message_of("end_turn", &[text_block("done without it")])
            }
            _ => panic!("asked {n} times"),
        }
    });
    let env = served(&server);
    env.write("work/a.txt", "first file\n");
    let ran = env.run(&["run", "read it", "--yes"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done without it\n"), "{ran}");
    let learnt = std::fs::read_to_string(env.home().join("models-learnt.toml")).unwrap_or_default();
    assert!(!learnt.contains("signature"), "{learnt}");
}

//! Servers that differ from what was expected, met by the real program: small windows, loading models, refusals,
//! conversations that must take turns.

use serde_json::{Value, json};

use super::kit::*;
use crate::support::answers;
use crate::support::env::Env;
use crate::support::server::{Reply, Server};

#[test]
fn a_small_window_is_learnt_from_the_servers_own_words() {
    // vLLM's words: vllm-project/vllm#20409.
    let server = Server::start(|request, _| {
        let asked = request["max_tokens"].as_u64().unwrap();
        let words = format!(
            "This model's maximum context length is 8192 tokens. However, you requested {} tokens (2000 in the messages, {asked} in the completion).",
            asked + 2000
        );
        match asked + 2000 <= 8192 {
            true => Reply::text("hello"),
            false => Reply::status(400, &json!({"error": {"message": words, "code": 400}}).to_string()),
        }
    });
    let env = served(&server);
    let ran = env.run(&["run", "hi"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "hello\n"), "{ran}");
    let asked: Vec<u64> = server.bodies().iter().map(|body| body["max_tokens"].as_u64().unwrap()).collect();
    assert_eq!((asked.len(), asked[1]), (2, 8192 - 2000 - 1), "{asked:?}");
    nothing_lost(&env);
}

/// Groq counts the output that is asked for against what an account may use in a minute.
#[test]
fn an_account_with_few_tokens_a_minute_is_asked_for_less_output() {
    let limit = 9000;
    let server = Server::start(move |request, _| {
        let size = request["messages"].to_string().len() + request["tools"].to_string().len();
        let asked = size as u64 / 5 + request["max_tokens"].as_u64().unwrap();
        let words = format!(
            "Request too large for model `m` in organization `o` service tier `on_demand` on tokens per minute (TPM): Limit {limit}, Requested {asked}, please reduce your message size and try again."
        );
        match asked <= limit {
            true => Reply::text("hello"),
            false => Reply::status(
                413,
                &json!({"error": {"message": words, "type": "tokens", "code": "rate_limit_exceeded"}})
                    .to_string(),
            ),
        }
    });
    let env = served(&server);
    let row = "[models.\"mock/any\"]\ncontext = 128000\nmax_output = 32000\n";
    env.config(&config(&server.url()).replace("[models.\"mock/any\"]\n", row));
    let ran = env.run(&["run", "hi"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "hello\n"), "{ran}");
    assert_eq!(server.bodies().len(), 2);
    // What the account cannot take at all is said in the provider's words and not as a full conversation.
    let prompt = "word ".repeat(10_000);
    let ran = env.run(&["run", &prompt]);
    assert!(
        ran.code == 1 && ran.stderr.contains("error: the request does not fit: `mock`"),
        "{}",
        ran.stderr
    );
    nothing_lost(&env);
}

#[test]
fn a_prompt_larger_than_the_window_is_told_as_that_and_damaged_knowledge_stops_nothing() {
    let server = Server::start(|_, _| Reply::text("hello"));
    let env = served(&server);
    let row = "[models.\"mock/any\"]\ncontext = 8192\n";
    env.config(&config(&server.url()).replace("[models.\"mock/any\"]\n", row));
    env.write("home/models-learnt.toml", "x=[");
    let ran = env.run(&["run", &"word ".repeat(10_000)]);
    let words = "error: what was asked is larger than the window of `mock/any`";
    assert!(ran.code == 1 && ran.stderr.contains(words), "{}", ran.stderr);
    assert!(ran.stderr.contains("about 15,000 tokens") && ran.stderr.contains("of 8,192"), "{}", ran.stderr);
    assert!(server.bodies().is_empty());
    let ran = env.run(&["run", "hi"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "hello\n"), "{ran}");
    assert!(ran.stderr.contains("delete the file, agon learns it again"), "{ran}");
}

#[test]
fn a_model_that_loads_is_waited_for_beyond_the_attempts_of_other_failures() {
    let server = Server::start(|_, n| match n {
        1..=8 => Reply::status(
            503,
            "{\"error\":{\"code\":503,\"message\":\"Loading model\",\"type\":\"unavailable_error\"}}",
        ),
        _ => Reply::text("loaded"),
    });
    let env = Env::new();
    env.config(&config(&server.url()).replace("attempts = 1", "attempts = 2\nbase_ms = 1\ncap_ms = 2"));
    let ran = env.run(&["run", "hi"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "loaded\n"), "{ran}");
    assert_eq!(server.requests().len(), 9);
    nothing_lost(&env);
}

#[test]
fn what_a_model_said_when_it_refused_or_was_cut_is_shown() {
    let refusal = Reply::deltas([json!({"refusal": "I cannot help "}), json!({"refusal": "with that."})]);
    let (_, ran) = against(refusal);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran}");
    assert!(ran.stderr.contains("error: the model refused: I cannot help with that."), "{ran}");
    let (_, ran) = against(Reply::text("Half of it").finish("content_filter"));
    assert!(ran.stderr.contains("Half of it"), "{ran}");
}

/// A conversation with Mistral: its ids, its turns, its refusals. It reads until it is told to summarise.
fn mistral(request: &Value, n: usize) -> Reply {
    let messages = request["messages"].as_array().unwrap();
    let last = messages.last().unwrap()["content"].as_str().unwrap_or_default();
    if last.contains("no longer fits") {
        return Reply::text("SUMMARY: much was read");
    }
    if messages.iter().any(|message| message.to_string().contains("SUMMARY: much was read")) {
        return Reply::text("done after a summary");
    }
    assert!(answers(request) < 30, "it is never summarised");
    let id = format!("abcdef{n:03}");
    Reply::calls_with_ids([(id, "read_file", json!({"path": "long.txt", "start_line": n}).to_string())])
}

#[test]
fn a_session_with_mistral_outlives_its_first_summary() {
    let server = Server::strict("mistral", mistral);
    let env = Env::new();
    let config = config(&server.url())
        .replace("kind = \"openai\"", "kind = \"openai\"\ndialect = \"mistral\"")
        .replace("[models.\"mock/any\"]", "[models.\"mock/any\"]\ncontext = 16000\nmax_output = 1000");
    env.config(&config);
    let lines: String =
        (0..200).map(|n| format!("line {n} of a long file with words and more words\n")).collect();
    env.write("work/long.txt", &lines).write("work/AGENTS.md", "Be brief.\n");
    let ran = env.run(&["run", "read long.txt again and again", "--yes"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done after a summary\n"), "{ran}");
    nothing_lost(&env);
}

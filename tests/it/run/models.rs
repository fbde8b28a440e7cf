//! Servers that fail in every way a server can: one error each, with what it was and what to try.

use serde_json::json;

use super::kit::*;
use crate::support::env::Env;
use crate::support::server::{Reply, Server};

#[test]
fn a_server_that_is_down() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let env = Env::new();
    env.config(&config(&format!("http://127.0.0.1:{port}/v1")));
    let ran = env.run(&["run", "say hello"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran}");
    assert!(ran.stderr.contains("error: `mock` (127.0.0.1:"), "{ran}");
    assert!(ran.stderr.contains("refused"), "{ran}");
    nothing_lost(&env);
}

#[test]
fn a_refused_key() {
    let body = json!({"error": {"message": "Incorrect API key provided", "type": "invalid_request_error"}});
    fails(
        Reply::status(401, &body.to_string()).header("content-type", "application/json"),
        &["answered 401", "Incorrect API key provided", "key"],
    );
}

#[test]
fn a_page_for_people() {
    fails(Reply::html(), &["HTML"]);
}

#[test]
fn a_server_that_stalls_before_the_first_word() {
    let server = Server::start(|_, _| Reply::silence());
    let env = served(&server);
    let text = config(&server.url()).replace("[retry]", "[limits]\nmodel_timeout_ms = 500\n[retry]");
    env.config(&text);
    let ran = env.run(&["run", "say hello"]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stderr.contains("error: no answer within"), "{ran}");
    nothing_lost(&env);
}

#[test]
fn a_server_that_stalls_in_the_middle() {
    let reply = Reply::text("one two three");
    let after = reply.offset_after("any", "two");
    fails(reply.stall_after(after), &["400 ms"]);
}

#[test]
fn a_stream_cut_inside_a_character() {
    let reply = Reply::text("grüße");
    let after = reply.offset_after("any", "gr") + 1;
    fails(reply.cut_after(after), &["`mock`"]);
}

#[test]
fn a_stream_cut_inside_a_tool_call_runs_nothing() {
    let reply = call("x1", "bash", json!({"command": "touch ran"}));
    let after = reply.offset_after("any", "comm");
    let (env, ran) = against(reply.cut_after(after));
    assert_eq!(ran.code, 1, "{ran}");
    assert!(!env.work().join("ran").exists());
    assert_eq!(all(&entries(&env), "tool_invoked").len(), 0);
    nothing_lost(&env);
}

#[test]
fn a_cut_stream_is_tried_again_and_the_retry_is_recorded() {
    let server = Server::start(|_, n| match n {
        1 => {
            let reply = Reply::text("hello there");
            let after = reply.offset_after("any", "hello");
            reply.cut_after(after)
        }
        2 => Reply::status(429, "{}").header("retry-after-ms", "20"),
        _ => Reply::text("hello there"),
    });
    let env = served(&server);
    env.config(&config(&server.url()).replace("attempts = 1", "attempts = 3\nbase_ms = 5"));
    let ran = env.run(&["run", "say hello"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "hello there\n"), "{ran}");
    let log = entries(&env);
    let retries = all(&log, "retry_scheduled");
    assert_eq!(retries.len(), 2);
    assert!(retries[1].1["delay_ms"].as_u64().unwrap() >= 20, "{retries:?}");
    let kinds: Vec<_> = all(&log, "model_failed").iter().map(|(_, d)| d["body"]["kind"].clone()).collect();
    assert_eq!(kinds, ["network", "rate_limited"]);
    nothing_lost(&env);
}

#[test]
fn an_effort_is_sent_and_one_that_is_refused_is_learnt() {
    let refused = r#"{"error":{"message":"Unrecognized request argument supplied: reasoning_effort","type":"invalid_request_error","param":null,"code":null}}"#;
    let server = Server::start(move |body, _| match body.get("reasoning_effort") {
        Some(word) if word == "high" => {
            Reply::status(400, refused).header("content-type", "application/json")
        }
        _ => Reply::text("hello"),
    });
    let env = served(&server);
    env.write("home/personas/thrifty.md", "---\neffort: low\n---\nYou save.\n");
    for flags in [&["--persona", "thrifty"][..], &["--effort", "high"], &["--effort", "high"]] {
        let ran = env.run(&[&["run", "say hello"], flags].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "hello\n"), "{ran}");
        nothing_lost(&env);
    }
    let sent: Vec<_> = server.bodies().iter().map(|body| body.get("reasoning_effort").cloned()).collect();
    assert_eq!(sent, [Some(json!("low")), Some(json!("high")), None, None], "refused once, then known");
    let ran = env.run(&["run", "say hello", "--effort", "huge"]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("`low`, `medium` or `high`"), "{ran}");
}

#[test]
fn a_limit_is_named_with_its_flag() {
    let server = Server::start(|_, n| call(&format!("x{n}"), "list_dir", json!({"path": "."})));
    let env = served(&server);
    let ran = env.run(&["run", "look", "--max-steps", "2"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (3, ""), "{ran}");
    assert!(ran.stderr.contains("error: a limit was reached: 2 of 2 model calls (--max-steps)\n"), "{ran}");
    assert!(ran.stderr.ends_with("\"go on\"\n"), "{ran}");
    assert_eq!(server.requests().len(), 2);
    nothing_lost(&env);
}

#[test]
fn an_unknown_reason_to_stop_is_kept_and_the_answer_counts() {
    let (env, ran) = against(Reply::text("hello").finish("eos_v2"));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "hello\n"), "{ran}");
    let answered = all(&entries(&env), "model_answered").remove(0).1;
    assert_eq!(answered["body"]["finish"], json!({"other": "eos_v2"}));
    nothing_lost(&env);
}

#[test]
fn a_server_that_takes_no_notice_of_the_output_limit_is_named() {
    let (env, ran) = against(Reply::text("hello").with_usage(100, 500_000));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "hello\n"), "{ran}");
    assert!(ran.stderr.contains("mock/any wrote 500,000 tokens where "), "{ran}");
    nothing_lost(&env);
}

#[test]
fn an_empty_answer_is_asked_again_and_then_ends_the_run() {
    let server = Server::start(|_, _| Reply::text(""));
    let env = served(&server);
    let ran = env.run(&["run", "say hello"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran}");
    assert_eq!(server.requests().len(), 2);
    assert!(ran.stderr.contains("error: the model said nothing\n"), "{ran}");
    assert!(ran.stderr.contains("hint: another model may answer: agon run --resume"), "{ran}");
    nothing_lost(&env);
    let (_, ran) = against(Reply::text("<think>The answer is 42."));
    assert!(
        ran.stderr
            .contains("error: the model thought and then said nothing; its thinking ends: The answer is 42."),
        "{ran}"
    );
}

/// A first answer that cannot be used as it is; the second is given once the server has seen why.
fn mends(first: Reply, seen: &'static [&'static str]) -> (Env, Vec<serde_json::Value>) {
    let server = Server::start(move |request, _| {
        let shown = results(request);
        if shown.is_empty() {
            return first.clone();
        }
        let missing = seen.iter().find(|words| !shown.iter().any(|shown| shown.contains(**words)));
        match missing {
            Some(words) => Reply::status(400, &format!("`{words}` is not in {shown:?}")),
            None => Reply::text("mended"),
        }
    });
    let env = served(&server);
    env.write("work/a.txt", "content of a\n");
    let ran = env.run(&["run", "look", "--yes"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "mended\n"), "{ran}");
    nothing_lost(&env);
    let log = entries(&env);
    (env, log)
}

#[test]
fn two_calls_with_one_id_are_two_calls() {
    let look = json!({"path": "a.txt"}).to_string();
    let list = json!({"path": "."}).to_string();
    let twice = [("same".to_owned(), "read_file", look), ("same".to_owned(), "list_dir", list)];
    let (_, log) = mends(Reply::calls_with_ids(twice), &["content of a", "a.txt"]);
    assert_eq!(all(&log, "tool_resolved").len(), 2);
}

#[test]
fn arguments_that_are_not_json() {
    let broken = [("x1".to_owned(), "read_file", "{\"path\": a.txt}".to_owned())];
    let (_, log) = mends(Reply::calls_with_ids(broken), &["the arguments are not JSON"]);
    assert_eq!(all(&log, "tool_refused")[0].1["reason"], "bad_arguments");
}

#[test]
fn arguments_that_do_not_fit_name_the_field() {
    let (_, log) = mends(call("x1", "read_file", json!({"file": "a.txt"})), &["`path`"]);
    assert_eq!(all(&log, "tool_invoked").len(), 0);
}

#[test]
fn an_unknown_tool() {
    let (_, log) = mends(
        call("x1", "read_fil", json!({"path": "a.txt"})),
        &["there is no tool `read_fil`", "read_file"],
    );
    assert_eq!(all(&log, "tool_refused")[0].1["reason"], "unknown_tool");
}

#[test]
fn a_file_of_two_gigabytes() {
    // Sparse: it takes no room, but whoever reads it whole takes 2 GB.
    let server = Server::start(|request, _| match results(request).first() {
        None => call("x1", "read_file", json!({"path": "huge"})),
        Some(shown) if shown.contains("2147483648") => Reply::text("too large"),
        Some(shown) => Reply::status(400, shown),
    });
    let env = served(&server);
    std::fs::File::create(env.work().join("huge")).unwrap().set_len(2 << 30).unwrap();
    let ran = env.run(&["run", "read it"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "too large\n"), "{ran}");
    nothing_lost(&env);
}

#[test]
fn a_binary_file() {
    let server = Server::start(|request, _| match results(request).first() {
        None => call("x1", "read_file", json!({"path": "program"})),
        Some(shown) if shown.contains("binary") => Reply::text("not text"),
        Some(shown) => Reply::status(400, shown),
    });
    let env = served(&server);
    std::fs::write(env.work().join("program"), b"\x7fELF\0\0\0\xff").unwrap();
    let ran = env.run(&["run", "read it"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "not text\n"), "{ran}");
}

#[test]
fn a_link_out_of_the_workspace() {
    let server = Server::start(|request, _| match results(request).len() {
        0 => Reply::calls_with_ids([
            ("x1".to_owned(), "read_file", json!({"path": "out/secret"}).to_string()),
            ("x2".to_owned(), "write_file", json!({"path": "out/new", "content": "x"}).to_string()),
        ]),
        _ => match results(request).iter().all(|shown| shown.contains("leads outside the workspace")) {
            true => Reply::text("held back"),
            false => Reply::status(400, &results(request).join(" | ")),
        },
    });
    let env = served(&server);
    env.write("elsewhere/secret", "nobody should read this\n");
    std::os::unix::fs::symlink(env.home().parent().unwrap().join("elsewhere"), env.work().join("out"))
        .unwrap();
    let ran = env.run(&["run", "read it", "--yes"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "held back\n"), "{ran}");
    assert!(!env.home().parent().unwrap().join("elsewhere/new").exists());
    assert!(!format!("{:?}", entries(&env)).contains("nobody should read this"));
}

/// However long the keys in the environment are, text is held back only while it may still become one.
#[test]
fn each_piece_of_an_answer_is_a_signal_of_its_own_whatever_keys_are_set() {
    let server = Server::start(|_, _| Reply::text("alpha beta sk- and sk-pr"));
    let mut env = served(&server);
    env.set("OPENAI_API_KEY", &format!("sk-proj-{}", "0123456789abcdef".repeat(10)));
    let ran = env.run(&["run", "greet", "--json", "--signals"]);
    assert_eq!(ran.code, 0, "{ran}");
    let lines = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    let texts: Vec<&str> = lines.iter().filter_map(|line| line["signal"]["text"].as_str()).collect();
    assert_eq!(texts, ["alpha ", "beta ", "sk- ", "and ", "sk-pr"]);
}

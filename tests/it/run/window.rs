//! A model with a small window at a real task: a server that refuses what does not fit, as llama-server does.

use serde_json::{Value, json};

use super::kit::*;
use crate::support::env::Env;
use crate::support::server::{Reply, Server};

const WINDOW: usize = 8192;

/// Four bytes a token, as English has them.
fn tokens(request: &Value) -> usize {
    (request["messages"].to_string().len() + request["tools"].to_string().len()) / 4
}

fn within(request: &Value, answer: impl FnOnce() -> Reply) -> Reply {
    let asked = tokens(request);
    if asked + request["max_tokens"].as_u64().unwrap_or_default() as usize <= WINDOW {
        return answer().with_usage(asked as u64, 10);
    }
    let message = format!("the request exceeds the available context size ({WINDOW} tokens), asked {asked}");
    let error = json!({"code": 400, "message": message, "type": "exceed_context_size_error"});
    Reply::status(400, &json!({"error": error}).to_string())
}

fn env(server: &Server) -> Env {
    let env = served(server);
    let small = format!("[models.\"mock/any\"]\ncontext = {WINDOW}\nmax_output = 1000\n");
    env.config(&config(&server.url()).replace("[models.\"mock/any\"]\n", &small));
    let lines: Vec<String> =
        (0..6000).map(|n| format!("line {n} of a file that no small window holds\n")).collect();
    env.write("work/long.txt", &lines.concat());
    env
}

#[test]
fn a_file_larger_than_the_window_is_read_in_part_and_the_session_goes_on() {
    let server = Server::start(|request, n| {
        within(request, || match n {
            1 => call("x1", "read_file", json!({"path": "long.txt"})),
            _ => Reply::text("it is long"),
        })
    });
    let env = env(&server);
    let ran = env.run(&["run", "what is in long.txt?"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "it is long\n"), "{ran}");
    assert_eq!(server.bodies().len(), 2, "read once, no summary");
    let read = results(&server.bodies()[1]).remove(0);
    assert!(read.contains("line 0 of") && read.len() < WINDOW, "{} bytes", read.len());
    let ran = env.run(&["run", "--resume", "latest", "say hi"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(server.bodies().len(), 3, "one call");
    nothing_lost(&env);
}

#[test]
fn a_mention_and_a_command_are_cut_to_the_window_as_well() {
    let server = Server::start(|request, n| {
        within(request, || match n {
            1 => call("x1", "bash", json!({"command": "seq 1 90000"})),
            _ => Reply::text("many lines"),
        })
    });
    let env = env(&server);
    let ran = env.run(&["run", "@long.txt", "--yes", "--sandbox", "none"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(server.bodies().len(), 2, "{ran}");
    nothing_lost(&env);
}

#[test]
fn an_unknown_window_is_asked_of_the_server_and_stands_in_the_log() {
    let server = Server::start(|_, _| Reply::text("hello")).holding(Some(40_960));
    let env = served(&server);
    let ran = env.run(&["run", "say hello"]);
    assert_eq!(ran.code, 0, "{ran}");
    let row = |log: &[Value]| log[0]["events"][0]["data"]["spec"]["models"][0].clone();
    let model = row(&entries(&env));
    assert_eq!((&model["context"], &model["max_output"]), (&json!(40_960), &json!(8_192)), "{model}");
    assert!(!ran.stderr.contains("window"), "{ran}");
    assert_eq!((server.requests().len(), &model["images"]), (1, &Value::Null), "a model was asked once");
    let sees = json!({"data": [{"id": "any", "context_length": 40_960, "architecture": {"input_modalities": ["text", "image"]}}]});
    let server = Server::start(|_, _| Reply::text("hello")).listing(sees);
    let env = served(&server);
    assert_eq!(env.run(&["run", "say hello"]).code, 0);
    assert_eq!(row(&entries(&env))["images"], json!(true), "it is sent pictures and not their words");
}

#[test]
fn a_window_that_nobody_tells_is_assumed_small_and_said_aloud() {
    let server = Server::start(|_, _| Reply::text("hello")).holding(None);
    let env = served(&server);
    let ran = env.run(&["run", "say hello"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stderr.contains("the window of `mock/any` is unknown: agon assumes 8,192 tokens"), "{ran}");
    let model = entries(&env)[0]["events"][0]["data"]["spec"]["models"][0].clone();
    assert_eq!((&model["context"], &model["max_output"]), (&json!(8_192), &json!(2_048)), "{model}");
    let again = env.run(&["run", "say hello"]);
    assert!(again.code == 0 && !again.stderr.contains("window"), "one note is enough: {again}");
    // A server may choose the window as it loads the model.
    let _server = server.holding(Some(40_960));
    let later = env.run(&["run", "--resume", "latest", "say hello"]);
    assert_eq!(later.code, 0, "{later}");
    let settings = entries(&env).into_iter().flat_map(|entry| entry["events"].as_array().cloned().unwrap());
    let known = |event: &Value| event["data"].to_string().contains("\"context\":40960");
    assert_eq!(settings.filter(known).count(), 1);
}

#[test]
fn what_a_server_said_counts_when_it_does_not_say_it_again() {
    let list = json!({"data": [{"id": "any", "context_length": 40_960, "pricing": {"prompt": "0.000003", "completion": "0.000015"}}]});
    let row = |env: &Env| entries(env)[0]["events"][0]["data"]["spec"]["models"][0].clone();
    let server = Server::start(|_, _| Reply::text("hello")).listing(list);
    let env = served(&server);
    assert_eq!(env.run(&["run", "say hello"]).code, 0);
    // The same address with a list that lacks the model.
    let server = server.listing(json!({"data": []})).holding(None);
    let ran = env.run(&["run", "say hello"]);
    assert!(ran.code == 0 && !ran.stderr.contains("window"), "{ran}");
    assert_eq!(row(&env)["context"], json!(40_960), "{ran}");
    drop(server);
}

#[test]
fn a_window_that_is_written_down_is_not_asked_for() {
    let server = Server::start(|_, _| Reply::text("hello")).holding(Some(1));
    let env = env(&server);
    let ran = env.run(&["run", "say hello"]);
    assert_eq!(ran.code, 0, "{ran}");
    let model = entries(&env)[0]["events"][0]["data"]["spec"]["models"][0].clone();
    assert_eq!(model["context"], json!(WINDOW));
}

#[test]
fn what_fills_the_window_is_shown_part_by_part_and_adds_up_to_the_providers_count() {
    let server = Server::start(|request, _| match results(request).is_empty() {
        true => call("x1", "read_file", json!({"path": "big.txt"})).with_usage(900, 40),
        false => Reply::text("it is big").with_usage(2000, 30),
    });
    let env = served(&server);
    env.write("work/AGENTS.md", "Be brief, always.\n").write("work/big.txt", &"many words ".repeat(300));
    let ran = env.run(&["run", "read @AGENTS.md and big.txt"]);
    assert_eq!(ran.code, 0, "{ran}");
    let shown = env.run(&["context", "--json"]);
    assert_eq!(shown.code, 0, "{shown}");
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let spark = &shown["sparks"][0];
    let parts = spark["parts"].as_object().unwrap();
    for part in ["persona", "instructions", "tools", "loads", "talk", "results"] {
        assert!(parts[part].as_u64().unwrap() > 0, "{part} in {spark}");
    }
    assert_eq!((&parts["last answer"], &spark["used"]), (&json!(30), &json!(2030)));
    assert_eq!(parts.values().map(|tokens| tokens.as_u64().unwrap()).sum::<u64>(), 2030, "{spark}");
    let table = env.run(&["context"]);
    assert!(table.stdout.contains("2,030 of 128,000 tokens, counted by the provider"), "{table}");
    assert!(table.stdout.contains("free"), "{table}");
}

//! Environments whose model is a server of the tests, and short ways to look at a log.

use serde_json::Value;

use crate::support::env::{Env, Ran};
use crate::support::server::{Reply, Server};

/// An environment whose model is this server. One attempt, little patience.
pub fn served(server: &Server) -> Env {
    let env = Env::new();
    env.config(&config(&server.url()));
    env
}

pub fn config(url: &str) -> String {
    format!(
        "model = \"mock/any\"\n[retry]\nattempts = 1\n[providers.mock]\nkind = \"openai\"\nbase_url = \"{url}\"\n\
         connect_timeout_ms = 2000\nidle_timeout_ms = 400\n\
         [models.\"mock/any\"]\nprice = {{ input = \"1\", output = \"2\" }}\n\
         [models.\"mock/other\"]\nprice = {{ input = \"3\", output = \"4\" }}\n"
    )
}

/// Runs one task against a server that always gives this reply.
pub fn against(reply: Reply) -> (Env, Ran) {
    let server = Server::start(move |_, _| reply.clone());
    let env = served(&server);
    let ran = env.run(&["run", "say hello"]);
    (env, ran)
}

/// The reply must fail the run with exit 1, one error that says this, no answer, and a log that verifies.
pub fn fails(reply: Reply, words: &[&str]) {
    let (env, ran) = against(reply);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran}");
    let errors: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "one clear error: {ran}");
    for words in words {
        assert!(errors[0].contains(words), "`{words}` in {ran}");
    }
    nothing_lost(&env);
}

/// The log of the only session is whole, sealed or paused, and gives the same decisions again.
pub fn nothing_lost(env: &Env) {
    let ran = env.run(&["verify", "latest"]);
    assert_eq!(ran.code, 0, "{ran}");
    let last = entries(env).pop().unwrap();
    let kind = kinds(&last).pop().unwrap();
    assert!(["session_sealed", "session_paused"].contains(&kind.as_str()), "the end is recorded: {kind}");
}

pub fn entries(env: &Env) -> Vec<Value> {
    let ran = env.run(&["sessions", "export", "latest"]);
    assert_eq!(ran.code, 0, "{ran}");
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn kinds(entry: &Value) -> Vec<String> {
    entry["events"].as_array().unwrap().iter().map(|e| e["kind"].as_str().unwrap().to_owned()).collect()
}

/// The data of every event of a kind, with its entry's seq.
pub fn all(entries: &[Value], kind: &str) -> Vec<(u64, Value)> {
    let found = entries.iter().flat_map(|entry| {
        let events = entry["events"].as_array().unwrap().iter();
        events.map(move |event| (entry["seq"].as_u64().unwrap(), event))
    });
    found.filter(|(_, e)| e["kind"] == kind).map(|(seq, e)| (seq, e["data"].clone())).collect()
}

/// The only session's log file.
pub fn log_file(env: &Env) -> std::path::PathBuf {
    let sessions = std::fs::read_dir(env.home().join("sessions")).unwrap();
    let folders: Vec<_> = sessions.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1);
    folders[0].join("log-000000.jsonl")
}

/// The results a request to the server shows, in order.
pub fn results(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap().iter();
    let tools = messages.filter(|message| message["role"] == "tool");
    tools.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

/// One call with an id of its own.
pub fn call(id: &str, name: &'static str, args: Value) -> Reply {
    Reply::calls_with_ids([(id.to_owned(), name, args.to_string())])
}

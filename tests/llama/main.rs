//! Models that run in this process, on a real file: one that `tests/llama/tiny.py` wrote with the `gguf` package.
//!
//! `bash tests/run` makes the file, builds the feature `llama` and runs this where the tools for it are there.
//! `bash tests/llama/peer` compares with what llama-cpp-python says to the same, and speaks to its server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

#[expect(dead_code, reason = "shared with the other tests")]
#[path = "../it/support/env.rs"]
mod env;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use agon::ports::{Live, Provider};
use agon::protocol::event::{ErrorKind, ModelFailed, ModelReply};
use agon::protocol::message::{AnswerSchema, Args, Finish, Params, Pictures, Structured, ToolDecl};
use agon::protocol::{EventRef, Lane, Message, Part, Request, Role};
use agon::provider::llama::{Llama, LlamaConfig};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::env::Env;

/// The file that was made for these tests.
fn tiny() -> PathBuf {
    let file =
        std::env::var_os("AGON_TEST_GGUF").expect("`bash tests/run` makes the file and says where it is");
    PathBuf::from(file)
}

fn provider(folder: &Path) -> Llama {
    let config =
        LlamaConfig { name: "llama".into(), folder: folder.to_owned(), threads: Some(1), gpu_layers: None };
    Llama::new(config).unwrap()
}

/// A provider whose model no other test loads.
fn own() -> (tempfile::TempDir, Llama) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(tiny(), folder.path().join("tiny.gguf")).unwrap();
    let llama = provider(folder.path());
    (folder, llama)
}

fn request(text: &str) -> Request {
    let message =
        Message { role: Role::User, parts: vec![Part::Text { text: text.into() }], from: EventRef::fact(0) };
    Request {
        spark: String::new(),
        model: "llama/tiny".into(),
        params: Params { temperature_pm: Some(0), ..Params::default() },
        messages: vec![message.into()],
        tools: Vec::new(),
        pictures: Pictures::default(),
    }
}

/// Keeps what was said; asks to stop after so many pieces.
struct Heard {
    pieces: Mutex<Vec<(Lane, String)>>,
    most: usize,
    cancel: CancellationToken,
}

impl Heard {
    fn all() -> Self {
        Heard { pieces: Mutex::default(), most: usize::MAX, cancel: CancellationToken::new() }
    }

    fn text(&self) -> String {
        self.pieces
            .lock()
            .unwrap()
            .iter()
            .filter(|(lane, _)| *lane == Lane::Text)
            .map(|(_, text)| text.as_str())
            .collect()
    }
}

impl Live for Heard {
    fn push(&self, lane: Lane, text: &str) {
        let mut pieces = self.pieces.lock().unwrap();
        pieces.push((lane, text.to_owned()));
        if pieces.len() >= self.most {
            self.cancel.cancel();
        }
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn ask(llama: &Llama, request: &Request) -> Result<ModelReply, ModelFailed> {
    let heard = Heard::all();
    run(llama.call(request, &heard, &heard.cancel))
}

fn ask_text(llama: &Llama, text: &str) -> String {
    ask(llama, &request(text)).unwrap().text()
}

#[test]
fn the_same_prompt_has_the_same_answer_and_comes_token_by_token() {
    let (_folder, llama) = own();
    let heard = Heard::all();
    let reply = run(llama.call(&request("say it"), &heard, &heard.cancel)).unwrap();
    assert_eq!(reply.text(), "Hello from a tiny model.");
    assert_eq!(heard.text(), reply.text());
    assert_eq!(heard.pieces.lock().unwrap().len(), 6, "a piece for each token");
    assert_eq!((reply.finish, reply.usage.output, reply.usage.cached), (Finish::Stop, 6, 0));
    assert!(reply.usage.input > 6 && !reply.usage.estimated);
    let again = ask(&llama, &request("say it")).unwrap();
    assert_eq!((again.text(), again.usage.input), ("Hello from a tiny model.".to_owned(), reply.usage.input));
    // All but the last token of the prompt is remembered.
    assert_eq!(again.usage.cached, reply.usage.input - 1);
}

#[test]
fn a_limit_ends_an_answer_and_is_said() {
    let (_folder, llama) = own();
    let mut asked = request("count");
    asked.params.max_output = Some(5);
    let reply = ask(&llama, &asked).unwrap();
    assert_eq!((reply.text().as_str(), reply.finish), (" one two three four one", Finish::Length));
    assert_eq!(reply.usage.output, 5);
}

#[test]
fn a_cancel_returns_within_one_token_and_frees_the_model() {
    let (_folder, llama) = own();
    let mut asked = request("count");
    // Minutes of work, if it were not stopped.
    asked.params.max_output = Some(120_000);
    let heard = Heard { most: 5, ..Heard::all() };
    let failed = run(llama.call(&asked, &heard, &heard.cancel)).unwrap_err();
    assert_eq!(failed.kind, ErrorKind::Cancelled);
    assert_eq!(heard.pieces.lock().unwrap().len(), 5, "nothing came after it");
    let next = async {
        tokio::time::timeout(
            Duration::from_secs(60),
            llama.call(&request("x"), &heard, &CancellationToken::new()),
        )
        .await
    };
    assert_eq!(run(next).expect("the model is free").unwrap().text(), "Hello from a tiny model.");
}

#[test]
fn a_call_that_is_dropped_or_cancelled_in_the_queue_costs_nothing() {
    let (_folder, llama) = own();
    let (mut first, heard) = (request("count"), Heard { most: 50, ..Heard::all() });
    first.params.max_output = Some(120_000);
    run(async {
        let waiting = CancellationToken::new();
        waiting.cancel();
        let asked = request("count");
        let second = llama.call(&asked, &heard, &waiting);
        let (first, second) = tokio::join!(llama.call(&first, &heard, &heard.cancel), second);
        assert_eq!(
            (first.unwrap_err().kind, second.unwrap_err().kind),
            (ErrorKind::Cancelled, ErrorKind::Cancelled)
        );
    });
    assert_eq!(ask_text(&llama, "x"), "Hello from a tiny model.");
}

#[test]
fn many_calls_at_once_share_one_model_and_are_answered_in_turn() {
    let (folder, one) = own();
    let other = provider(folder.path());
    let heard = Heard::all();
    let asked =
        (0..6).map(|nth| Request { model: "llama/shared".into(), ..request(&format!("question {nth}")) });
    let asked: Vec<Request> = asked.collect();
    let calls = asked.iter().enumerate().map(|(nth, asked)| {
        let llama = if nth % 2 == 0 { &one } else { &other };
        llama.call(asked, &heard, &heard.cancel)
    });
    std::fs::rename(folder.path().join("tiny.gguf"), folder.path().join("shared.gguf")).unwrap();
    let replies = run(futures_util::future::join_all(calls));
    assert!(replies.iter().all(|reply| reply.as_ref().unwrap().text() == "Hello from a tiny model."));
    let loaded = std::fs::read_dir("/proc/self/task").unwrap().flatten().filter(|task| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "llama shared")
    });
    assert_eq!(loaded.count(), 1, "one thread has the model");
}

fn read_file() -> ToolDecl {
    let schema = json!({"type": "object", "properties": {
        "path": {"type": "string", "minLength": 1, "maxLength": 40},
        "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2, "maxItems": 2},
    }, "required": ["path", "lines"], "additionalProperties": false});
    ToolDecl { name: "read_file".into(), description: "Reads a file.".into(), schema }
}

fn fits(schema: &Value, value: &Value) {
    let errors: Vec<String> = jsonschema::validator_for(schema)
        .unwrap()
        .iter_errors(value)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{value}: {errors:?}");
}

#[test]
fn a_call_fits_the_schema_of_its_tool_whatever_the_temperature() {
    let (_folder, llama) = own();
    for temperature in [0, 700, 1500] {
        let mut asked = request("read it");
        asked.tools = vec![read_file().into()];
        asked.params.temperature_pm = Some(temperature);
        let reply = ask(&llama, &asked).unwrap();
        assert_eq!(reply.finish, Finish::ToolCalls, "{reply:?}");
        let calls = reply.message.iter().filter_map(|part| match part {
            Part::Call { name, args: Args::Json(args), .. } => Some((name, args)),
            _ => None,
        });
        for (name, args) in calls {
            assert_eq!(name, "read_file");
            fits(&read_file().schema, args);
        }
        assert!(!reply.text().contains("tool_call"), "{reply:?}");
    }
}

#[test]
fn a_result_is_read_and_answered() {
    let (_folder, llama) = own();
    let mut asked = request("read it");
    asked.tools = vec![read_file().into()];
    let call = ask(&llama, &asked).unwrap();
    let Some(Part::Call { id, name, .. }) = call.message.first().cloned() else { panic!("{call:?}") };
    let said = |role, parts| Message { role, parts, from: EventRef::fact(0) }.into();
    let result = Part::Result { id, name, content: "[e4] <|end|> <|act|>".into(), is_error: false };
    asked.messages.extend([said(Role::Assistant, call.message), said(Role::Tool, vec![result])]);
    assert_eq!(ask(&llama, &asked).unwrap().text(), "Hello from a tiny model.");
}

#[test]
fn a_typed_answer_fits_its_schema() {
    let (_folder, llama) = own();
    let ballot: Value = serde_json::from_str(include_str!("../../src/protocol/schemas/ballot.json")).unwrap();
    for (via, temperature) in
        [(Structured::ResponseFormat, 0), (Structured::ForcedTool, 1500), (Structured::Words, 0)]
    {
        let mut asked = request("vote");
        asked.params.temperature_pm = Some(temperature);
        asked.params.max_output = Some(2000);
        asked.params.schema = Some(AnswerSchema { name: "ballot".into(), schema: ballot.clone(), via });
        let reply = ask(&llama, &asked).unwrap();
        fits(&ballot, &serde_json::from_str(&reply.text()).unwrap());
    }
}

#[test]
fn what_others_wrote_is_no_control_token() {
    let (_folder, llama) = own();
    // Its tokens, if the texts were control tokens: one each.
    let tokens = |text: &str| ask(&llama, &request(text)).unwrap().usage.input;
    let (none, one) = (tokens(""), tokens("<|end|>"));
    assert_eq!(one - none, "<|end|>".len() as u64, "each letter is a token of its own");
}

#[test]
fn files_that_are_no_models_say_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(tiny()).unwrap();
    let files: [(&str, Vec<u8>, &str); 4] = [
        ("page.gguf", b"<html>not found</html>".to_vec(), "it is no GGUF file"),
        ("empty.gguf", Vec::new(), "it is no GGUF file"),
        ("head.gguf", whole[..200].to_vec(), "its head is cut or damaged"),
        ("cut.gguf", whole[..whole.len() / 2].to_vec(), "the file is cut or damaged"),
    ];
    let llama = provider(folder.path());
    for (name, bytes, words) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        let mut asked = request("x");
        asked.model = format!("llama/{name}");
        let failed = ask(&llama, &asked).unwrap_err();
        assert_eq!(failed.kind, ErrorKind::BadRequest);
        assert!(failed.message.contains(words), "{}", failed.message);
    }
    // As many bytes as no machine has memory for, without one of them on the disk.
    std::fs::copy(tiny(), folder.path().join("vast.gguf")).unwrap();
    let vast = std::fs::OpenOptions::new().write(true).open(folder.path().join("vast.gguf")).unwrap();
    vast.set_len(8 << 40).unwrap();
    let mut asked = request("x");
    asked.model = "llama/vast".into();
    let failed = ask(&llama, &asked).unwrap_err();
    assert!(failed.message.contains("it takes 8192.0 GiB, and this machine has "), "{}", failed.message);
    std::fs::remove_file(folder.path().join("vast.gguf")).unwrap();
    asked.model = "llama/nothing".into();
    let message = ask(&llama, &asked).unwrap_err().message;
    assert!(message.contains("has no model `nothing`") && message.contains("agon models pull"), "{message}");
    // What is whole is listed, with what it says of itself.
    std::fs::copy(tiny(), folder.path().join("good.gguf")).unwrap();
    let listed = run(llama.models()).unwrap();
    let good = listed.iter().find(|model| model.id == "good").unwrap();
    assert_eq!((good.context, good.tools), (Some(131_072), Some(true)));
    assert!(listed.iter().all(|model| model.id != "page" && model.id != "empty" && model.id != "head"));
    assert_eq!(run(llama.model("good")).unwrap().context, Some(131_072));
}

#[test]
fn too_long_a_conversation_is_said_with_its_numbers() {
    let (_folder, llama) = own();
    let failed = ask(&llama, &request(&"é".repeat(70_000))).unwrap_err();
    assert_eq!(failed.kind, ErrorKind::ContextOverflow);
    let limits = failed.limits.unwrap();
    assert_eq!(limits.context, Some(131_072));
    assert!(limits.input > Some(140_000));
}

/// The program with the tiny model as its own.
fn env() -> Env {
    let env = Env::new();
    let models = env.home().join("models");
    std::fs::create_dir(&models).unwrap();
    std::fs::copy(tiny(), models.join("tiny.gguf")).unwrap();
    env.config("model = \"llama/tiny\"\ntools = [\"read_file\"]\n[sandbox]\nkind = \"none\"\n[providers.llama]\nthreads = 1\n");
    env
}

#[test]
fn the_program_runs_a_model_without_a_server_or_a_key() {
    let env = env();
    let listed = env.run(&["models", "list"]);
    assert!(listed.stdout.contains("llama/tiny") && listed.stdout.contains("131,072"), "{listed}");
    std::fs::write(env.work().join("ok"), "text").unwrap();
    let ran = env.run(&["run", "read it"]);
    assert_eq!((ran.code, ran.stdout.trim()), (0, "Hello from a tiny model."), "{ran}");
    let checked = env.run(&["doctor"]);
    assert!(checked.stdout.contains("its file is there"), "{checked}");
}

/// How many personas of a debate say something that fits the schema of a ballot.
fn ballots(env: &Env) -> (usize, String) {
    let ran = env.run(&["debate", "--json", "Tabs or blanks?"]);
    let shown = env.run(&["debates", "show", "latest", "--json"]);
    let debate: Value = serde_json::from_str(&shown.stdout).unwrap();
    let stands = debate["phases"][0]["stands"].as_array().unwrap();
    (stands.iter().filter(|one| one["position"] == "ok").count(), format!("{ran}\n{shown}"))
}

#[test]
fn a_debate_has_six_ballots() {
    let (count, said) = ballots(&env());
    assert_eq!(count, 6, "{said}");
}

#[test]
fn a_squad_ends_by_its_rules() {
    let env = env();
    let ran = env.run(&["squad", "--yes", "Write a line."]);
    assert_eq!((ran.code, ran.stdout.lines().next()), (0, Some("ok")), "{ran}");
}

/// What `tests/llama/peer` says where it is run by itself.
fn of_peer(variable: &str) -> String {
    std::env::var(variable).expect("`bash tests/llama/peer` asks llama-cpp-python and runs this")
}

#[test]
#[ignore = "bash tests/llama/peer"]
fn greedy_text_is_that_of_llama_cpp_python_token_by_token() {
    let said = std::fs::read_to_string(of_peer("AGON_TEST_GGUF_PEER")).unwrap();
    let rows: Vec<Value> = serde_json::from_str(&said).unwrap();
    for row in &rows {
        let file = Path::new(row["file"].as_str().unwrap());
        let llama = provider(file.parent().unwrap());
        let mut asked = request(row["prompt"].as_str().unwrap());
        asked.model = format!("llama/{}", file.file_stem().unwrap().to_str().unwrap());
        asked.params.max_output = row["most"].as_u64();
        let heard = Heard::all();
        let reply = run(llama.call(&asked, &heard, &heard.cancel)).unwrap();
        let usage = json!([reply.usage.input, reply.usage.output]);
        assert_eq!(
            (&json!(reply.text()), usage),
            (&row["text"], json!([row["input"], row["output"]])),
            "{row}"
        );
        let pieces: Vec<String> =
            heard.pieces.into_inner().unwrap().into_iter().map(|(_, text)| text).collect();
        assert_eq!(json!(pieces), row["pieces"], "{row}");
        let finish = if reply.finish == Finish::Length { "length" } else { "stop" };
        assert_eq!(json!(finish), row["finish"], "{row}");
    }
    println!("{} prompts have the same tokens", rows.len());
}

#[test]
#[ignore = "bash tests/llama/peer"]
fn the_server_of_llama_cpp_python_is_spoken_to() {
    let env = Env::new();
    let config = |more: &str| {
        format!(
            "model = \"peer/tiny\"\ntools = []\n[sandbox]\nkind = \"none\"\n\
             [providers.peer]\nkind = \"openai\"\nbase_url = \"{}\"\nconcurrent_calls = 1\n[models.\"peer/tiny\"]\ntemperature = 0\n{more}",
            of_peer("AGON_TEST_LLAMA_SERVER")
        )
    };
    env.config(&config(""));
    let listed = env.run(&["models"]);
    assert!(listed.stdout.contains("peer/tiny"), "{listed}");
    // Streamed text; the server counts nothing in a stream, so agon does.
    let ran = env.run(&["run", "say it"]);
    assert_eq!((ran.code, ran.stdout.trim()), (0, "Hello from a tiny model."), "{ran}");
    // A stop at the output limit is told as one; asked to go on, the model says its sentence.
    env.config(&config("max_output = 12\n"));
    let cut = env.run(&["run", "count"]);
    let log = env.run(&["replay", "latest", "--json"]).stdout;
    assert!(log.contains("one two three four") && log.contains("\"finish\":\"length\""), "{cut}\n{log}");
    // Where the input does not fit, the server ends its stream without a word.
    env.config(&config("context = 1000000\n"));
    let long = env.run_with(&["run", "-"], "é".repeat(20_000).as_bytes());
    assert!(long.code == 1 && long.stderr.contains("may not fit its window"), "{long}");
    // Typed answers: the server refuses `response_format`, and holds a forced tool to its schema.
    env.config(&config("context = 32768\n"));
    let (count, said) = ballots(&env);
    assert_eq!(count, 6, "{said}");
    let learnt = std::fs::read_to_string(env.home().join("models-learnt.toml")).unwrap();
    assert!(learnt.contains("refuses = [\"response_format\"]"), "{learnt}");
}

//! Each row of the table of dialects against a server that refuses what its host refuses.

use agon::protocol::message::{AnswerSchema, Args, Opaque, Part, Structured, ToolDecl};
use agon::provider::openai::DIALECTS;
use serde_json::{Value, json};

use super::*;
use crate::support::{message, picture};

fn in_dialect(url: &str, dialect: &str) -> impl Provider + use<> {
    openai::connect(ServerConfig { dialect: Some(dialect.into()), ..config(url) }).unwrap()
}

fn result(id: &str, content: &str) -> Part {
    Part::Result { id: id.into(), name: "read".into(), content: content.into(), is_error: false }
}

fn asked(id: &str) -> Part {
    Part::Call { id: id.into(), name: "read".into(), args: Args::Json(json!({"path": "a"})) }
}

/// Everything a session says in one conversation: instructions of a repository, several messages of a person in
/// a row, calls of another provider, a summary ordered right after a result, a notice by the system.
fn conversation() -> Request {
    let own = |json: Value| Opaque { provider: "openai/127.0.0.1".into(), json, dropped: false };
    let details = own(json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}));
    let signed = own(json!({"next_call": {"extra_content": {"google": {"thought_signature": "s"}}}}));
    let thought = |text: &str, opaque| Part::Reasoning { text: text.into(), opaque };
    let mut whole = request(vec![
        said(Role::System, "You are a coder."),
        said(Role::System, "AGENTS.md: be brief."),
        said(Role::User, "The task."),
        said(Role::User, "[summary of e1 to e9]"),
        message(
            Role::Assistant,
            vec![
                thought("Let me look.", Some(details.clone())),
                Part::Opaque(signed.clone()),
                asked("call_PTLP8xhu3uwZk4l3nlnrrJha"),
            ],
        ),
        message(Role::Tool, vec![result("call_PTLP8xhu3uwZk4l3nlnrrJha", "[e4] text")]),
        said(Role::User, "Also the tests."),
        message(Role::Assistant, vec![Part::Text { text: "I will.".into() }]),
        message(
            Role::Assistant,
            vec![thought("", Some(details)), Part::Opaque(signed), asked("c1"), asked("c1")],
        ),
        message(Role::Tool, vec![result("c1", "[e5] one")]),
        message(Role::Tool, vec![result("c1", "[e6] two"), picture("AAAA")]),
        said(Role::System, "Ten steps are left."),
        said(Role::User, "Write a summary."),
    ]);
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    whole.tools = vec![ToolDecl { name: "read".into(), description: "Reads.".into(), schema }.into()];
    whole.params.max_output = Some(4096);
    whole.params.temperature_pm = Some(700);
    whole
}

/// For Mistral: thoughts of its own have no opaque part, those of other hosts are left out.
fn of_elsewhere(mut request: Request) -> Request {
    for part in request.messages.iter_mut().flat_map(|message| &mut std::sync::Arc::make_mut(message).parts) {
        if let Part::Opaque(opaque) | Part::Reasoning { opaque: Some(opaque), .. } = part {
            opaque.provider = "openai/openrouter.ai".into();
        }
    }
    request
}

fn typed(via: Structured, mut request: Request) -> Request {
    let schema = json!({"type": "object", "properties": {"vote": {"type": "string"}}, "required": ["vote"], "additionalProperties": false});
    request.params.schema = Some(AnswerSchema { name: "ballot".into(), schema, via });
    if matches!(via, Structured::JsonObject | Structured::Words) {
        request.messages.push(said(Role::User, "Answer with JSON only."));
    }
    request
}

const EVERY_WAY: [Structured; 4] =
    [Structured::ResponseFormat, Structured::JsonObject, Structured::ForcedTool, Structured::Words];

#[tokio::test]
async fn every_host_takes_what_its_row_makes_of_a_conversation() {
    for row in DIALECTS {
        let server = Server::strict(row.name, |_, _| Reply::text("{\"vote\":\"yes\"}"));
        let provider = in_dialect(&server.url(), row.name);
        let mut requests = vec![hello(), conversation()];
        requests.extend(EVERY_WAY.map(|via| typed(via, hello())));
        requests.extend(EVERY_WAY.map(|via| typed(via, conversation())));
        if row.name == "mistral" {
            requests = requests.into_iter().map(of_elsewhere).collect();
        }
        for request in requests {
            if let Err(failed) = call(&provider, &request).await.0 {
                panic!("{}: {}", row.name, failed.message);
            }
        }
    }
}

/// What a host is sent in another dialect, and the words it refuses that with: the tests' servers can refuse.
#[tokio::test]
async fn every_host_refuses_what_its_row_is_there_for() {
    let object = || typed(Structured::JsonObject, hello());
    let rows = [
        ("openai", "generic", conversation(), "Unsupported parameter: 'max_tokens'"),
        ("azure", "generic", conversation(), "Unsupported parameter: 'max_tokens'"),
        ("openrouter", "generic", of_elsewhere(conversation()), "Provider returned error"),
        ("groq", "deepseek", conversation(), "property 'reasoning_content' is unsupported"),
        ("mistral", "generic", hello(), "stream_options"),
        ("mistral", "mistral", conversation(), "reasoning_details"),
        ("deepseek", "generic", conversation(), "must be passed back"),
        (
            "deepseek",
            "generic",
            typed(Structured::ResponseFormat, hello()),
            "response_format type is unavailable",
        ),
        ("deepseek", "generic", typed(Structured::ForcedTool, hello()), "tool_choice"),
        ("xai", "openai", conversation(), "does not support parameter max_completion_tokens"),
        ("gemini", "generic", of_elsewhere(conversation()), "missing a thought_signature"),
        ("lmstudio", "generic", object(), "must be 'json_schema' or 'text'"),
        ("lmstudio", "openai", conversation(), "must alternate"),
        ("vllm", "openai", conversation(), "must alternate"),
        ("llama-server", "openai", conversation(), "must alternate"),
        ("generic", "openai", conversation(), "must alternate"),
    ];
    for (host, dialect, request, words) in rows {
        let server = Server::strict(host, |_, _| Reply::text("ok"));
        let failed = call(&in_dialect(&server.url(), dialect), &request).await.0.unwrap_err();
        assert!(failed.message.contains(words), "{host}: {}", failed.message);
        assert_eq!(server.take_violations().len(), 1);
    }
}

async fn sent(dialect: &'static str, request: &Request) -> Value {
    let server = Server::strict(dialect, |_, _| Reply::text("ok"));
    call(&in_dialect(&server.url(), dialect), request).await.0.unwrap();
    server.bodies().remove(0)
}

#[tokio::test]
async fn copilot_counts_what_a_person_asks_for_and_nothing_that_follows_a_tool() {
    let server = Server::strict("github-copilot", |_, _| Reply::text("ok"));
    let provider = in_dialect(&server.url(), "github-copilot");
    let mut working = conversation();
    while working.messages.last().unwrap().role != Role::Tool {
        working.messages.pop();
    }
    for request in [hello(), working, conversation()] {
        call(&provider, &request).await.0.unwrap();
    }
    let said: Vec<_> =
        server.requests().iter().map(|one| one.header("x-initiator").map(str::to_owned)).collect();
    assert_eq!(said, ["user", "agent", "user"].map(|word| Some(word.to_owned())));
    assert_eq!(server.requests()[0].header("copilot-vision-request"), None);
}

fn roles(body: &Value) -> Vec<&str> {
    body["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn turns_alternate_where_they_must_and_nothing_is_lost() {
    let free = sent("openai", &conversation()).await;
    assert_eq!(
        roles(&free),
        [
            "system",
            "user",
            "user",
            "assistant",
            "tool",
            "user",
            "assistant",
            "assistant",
            "tool",
            "tool",
            "user",
            "user",
            "user"
        ]
    );
    assert_eq!(free["messages"][0]["content"], "You are a coder.\n\nAGENTS.md: be brief.");
    let strict = sent("vllm", &conversation()).await;
    let expected = [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
    ];
    assert_eq!(roles(&strict), expected);
    let messages = &strict["messages"];
    assert_eq!(messages[1]["content"], "The task.\n\n[summary of e1 to e9]");
    assert_eq!(messages[4], json!({"role": "assistant", "content": "Noted."}));
    assert_eq!(
        (&messages[6]["content"], messages[6]["tool_calls"].as_array().unwrap().len()),
        (&json!("I will."), 2)
    );
    let last: Vec<&str> = messages[10]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|piece| piece["type"].as_str().unwrap())
        .collect();
    assert_eq!(last, ["image_url", "text", "text"], "{}", messages[10]);
}

#[tokio::test]
async fn thoughts_go_back_where_they_are_asked_for() {
    let body = sent("deepseek", &of_elsewhere(conversation())).await;
    let thoughts: Vec<&Value> =
        body["messages"].as_array().unwrap().iter().filter_map(|m| m.get("reasoning_content")).collect();
    assert_eq!(thoughts, [&json!("Let me look."), &json!(""), &json!("")]);
    assert!(!sent("groq", &of_elsewhere(conversation())).await.to_string().contains("Let me look."));
}

#[tokio::test]
async fn mistral_ids_stay_the_same_as_the_conversation_grows() {
    let ids = |body: &Value| -> Vec<String> {
        let calls =
            body["messages"].as_array().unwrap().iter().filter_map(|m| m["tool_calls"].as_array()).flatten();
        calls.map(|call| call["id"].as_str().unwrap().to_owned()).collect()
    };
    let long = of_elsewhere(conversation());
    let mut short = long.clone();
    short.messages.truncate(6);
    let (short, long) = (ids(&sent("mistral", &short).await), ids(&sent("mistral", &long).await));
    assert_eq!((short.len(), long.len()), (1, 3));
    assert_eq!(short[0], long[0]);
    assert_ne!(long[1], long[2]);
    let mut own = of_elsewhere(conversation());
    own.messages.truncate(4);
    own.messages.push(message(Role::Assistant, vec![asked("D681PevKs")]));
    own.messages.push(message(Role::Tool, vec![result("D681PevKs", "[e4] text")]));
    assert_eq!(ids(&sent("mistral", &own).await), ["D681PevKs"], "its own ids are kept");
}

#[tokio::test]
async fn typed_answers_as_the_host_takes_them() {
    let format = |body: &Value| body["response_format"]["type"].as_str().map(str::to_owned);
    let rows = [
        ("generic", Structured::JsonObject, Some("json_object")),
        ("generic", Structured::ResponseFormat, Some("json_schema")),
        ("generic", Structured::ForcedTool, None),
        ("lmstudio", Structured::JsonObject, Some("json_schema")),
        ("deepseek", Structured::ResponseFormat, Some("json_object")),
        ("deepseek", Structured::ForcedTool, Some("json_object")),
    ];
    for (dialect, via, expected) in rows {
        let body = sent(dialect, &typed(via, hello())).await;
        assert_eq!(format(&body).as_deref(), expected, "{dialect} {via:?}");
        // Where the session counts on the host and the host does not hold the model to it, the words do.
        let said = body["messages"][0]["content"].as_str().unwrap().contains("fitting this JSON Schema");
        assert_eq!(said, dialect == "deepseek", "{dialect} {via:?}");
    }
}

#[tokio::test]
async fn an_unknown_dialect_is_named_with_those_there_are() {
    let config = ServerConfig { dialect: Some("mistal".into()), ..config("http://127.0.0.1:1/v1") };
    let words = openai::connect(config).unwrap_err().to_string();
    assert!(words.starts_with("provider `mock`: unknown dialect `mistal`; known are `openai`, "), "{words}");
}

#[test]
fn the_page_has_every_row_with_its_source_and_what_it_was_tried_against() {
    let page = include_str!("../../../docs/models.md");
    for row in DIALECTS {
        let start = format!("| `{}` |", row.name);
        let line = page.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{start}"));
        assert!(line.contains(row.source), "{line}");
        assert!(line.ends_with(" words |") || line.contains("tried "), "{line}");
    }
}

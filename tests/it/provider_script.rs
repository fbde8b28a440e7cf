//! The scripted provider: what it says, and what it refuses.

use agon::ports::Provider;
use agon::protocol::event::{ErrorKind, ModelFailed, ModelReply};
use agon::protocol::message::{Args, Finish, Message, Part, Request, ToolDecl, Usage};
use agon::protocol::{Lane, Role};
use agon::provider::script::{RecordedReply, Script};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{Recorder, message, request, said};

const SCRIPT: &str = r#"
[[answer]]
spark = "coder"
expect = ["fizz", "buzz"]
reasoning = "let me see"
text = "I will read it."
calls = [{ tool = "read_file", args = { path = "a.txt", n = 3 } }, { tool = "bash", raw = "{" }]
usage = { input = 10, output = 5 }

[[answer]]
spark = "coder"
text = "done"

[[answer]]
spark = "reviewer"
error = { kind = "rate_limited", message = "slow down", retry_after_ms = 10 }

[[answer]]
spark = "reviewer"
text = "fine"
finish = "tired"

[[answer]]
text = "anybody"
"#;

fn script() -> Script {
    Script::from_toml("demo", SCRIPT).unwrap()
}

fn by(spark: &str, messages: Vec<Message>) -> Request {
    Request { spark: spark.into(), ..request(messages) }
}

async fn call(script: &Script, request: &Request) -> Result<ModelReply, ModelFailed> {
    script.call(request, &Recorder::default(), &CancellationToken::new()).await
}

fn fizz() -> Request {
    by("coder", vec![said(Role::System, "you fizz"), said(Role::User, "and buzz")])
}

#[tokio::test]
async fn answers_by_role_and_number() {
    let (script, live) = (script(), Recorder::default());
    let first = script.call(&fizz(), &live, &CancellationToken::new()).await.unwrap();
    let args = Args::Json(json!({"path": "a.txt", "n": 3}));
    let expected = ModelReply {
        message: vec![
            Part::Reasoning { text: "let me see".into(), opaque: None },
            Part::Text { text: "I will read it.".into() },
            Part::Call { id: "coder-1-1".into(), name: "read_file".into(), args },
            Part::Call { id: "coder-1-2".into(), name: "bash".into(), args: Args::Broken("{".into()) },
        ],
        usage: Usage { input: 10, output: 5, ..Usage::default() },
        model: "model-1".into(),
        finish: Finish::ToolCalls,
        waited_ms: 0,
    };
    assert_eq!(first, expected);
    let words: Vec<_> =
        live.pieces().into_iter().filter(|(lane, _)| *lane == Lane::Text).map(|(_, t)| t).collect();
    assert_eq!(words, ["I ", "will ", "read ", "it."]);
    assert_eq!(live.lane(Lane::Args(0)), r#"{"path":"a.txt","n":3}"#);
    assert_eq!(live.lane(Lane::Args(1)), "{");

    let failed = call(&script, &by("reviewer", vec![said(Role::User, "x")])).await.unwrap_err();
    assert_eq!((failed.kind, failed.retry_after_ms), (ErrorKind::RateLimited, Some(10)));
    assert_eq!(failed.message, "script `demo`: slow down");
    let second = call(&script, &by("reviewer", vec![said(Role::User, "x")])).await.unwrap();
    assert_eq!((second.text().as_str(), second.finish), ("fine", Finish::Other("tired".into())));
    let anybody = call(&script, &by("tester", vec![said(Role::User, "x")])).await.unwrap();
    // 3 to open the answer, 3 for the message, 1 for its letter; 7 letters are 2 tokens.
    assert_eq!(anybody.usage, Usage { input: 7, output: 2, estimated: true, ..Usage::default() });
    assert_eq!(call(&script, &by("coder", vec![said(Role::User, "x")])).await.unwrap().text(), "done");
    assert_eq!(call(&script.fresh(), &fizz()).await.unwrap(), expected, "a fresh script starts over");
}

#[tokio::test]
async fn its_own_errors() {
    let script = script();
    let failed = call(&script, &by("coder", vec![said(Role::User, &format!("fizz {}", "ä".repeat(300)))]))
        .await
        .unwrap_err();
    assert_eq!(failed.kind, ErrorKind::Script);
    let begins = format!("fizz {}", "ä".repeat(195));
    assert_eq!(
        failed.message,
        format!(
            "script `demo`: answer 1 for spark `coder` expects the request to contain `buzz`; its last message (user) begins: {begins}"
        )
    );
    script.skip("coder", 1);
    let failed = call(&script, &fizz()).await.unwrap_err();
    assert_eq!(failed.kind, ErrorKind::Script);
    assert_eq!(
        failed.message,
        "script `demo`: it is at its end: there is no answer 3 for spark `coder` (it has 2); its last message (user) begins: and buzz"
    );
}

#[tokio::test]
async fn a_skipped_call_is_not_answered_again() {
    let script = script();
    script.skip("coder", 1);
    assert_eq!(call(&script, &fizz()).await.unwrap().text(), "done");
}

fn asked(id: &str) -> Part {
    Part::Call { id: id.into(), name: "undeclared".into(), args: Args::Json(json!({})) }
}

fn result(id: &str) -> Part {
    Part::Result { id: id.into(), name: "undeclared".into(), content: String::new(), is_error: false }
}

#[tokio::test]
async fn refuses_what_real_apis_refuse() {
    let user = || said(Role::User, "x");
    let assistant = |parts| message(Role::Assistant, parts);
    let tool = |parts| message(Role::Tool, parts);
    let rows = [
        (vec![], "the request has no messages"),
        (vec![said(Role::User, "")], "message 0 is empty"),
        (vec![user(), assistant(vec![])], "message 1 is empty"),
        (vec![user(), tool(vec![result("a")])], "message 1 is a result for call `a`, which the last"),
        (vec![user(), assistant(vec![asked("a")])], "the request lacks the result of call `a`"),
        (
            vec![user(), assistant(vec![asked("a")]), user(), tool(vec![result("a")])],
            "message 2 lacks the result",
        ),
        (
            vec![user(), assistant(vec![asked("a"), asked("a")]), tool(vec![result("a"), result("a")])],
            "message 1 has a second call with the id `a`",
        ),
        (
            vec![user(), assistant(vec![asked("a")]), tool(vec![result("a")]), tool(vec![result("a")])],
            "message 3 is a result for call `a`",
        ),
        (vec![user(), message(Role::User, vec![result("a")])], "outside a tool message"),
        (vec![message(Role::User, vec![asked("a")])], "which only an assistant can"),
    ];
    for (messages, words) in rows {
        let failed = call(&script(), &by("", messages)).await.unwrap_err();
        assert_eq!(failed.kind, ErrorKind::BadRequest, "{words}");
        assert!(failed.message.contains(words), "`{words}` is missing in: {}", failed.message);
    }
    let mut bad_tool = by("", vec![user()]);
    bad_tool.tools = vec![ToolDecl { name: "t".into(), description: String::new(), schema: json!([]) }];
    assert!(call(&script(), &bad_tool).await.unwrap_err().message.contains("schema of tool `t`"));
    let right = vec![
        user(),
        assistant(vec![asked("a"), asked("b")]),
        tool(vec![result("b")]),
        tool(vec![result("a")]),
    ];
    assert_eq!(call(&script(), &by("", right)).await.unwrap().text(), "anybody");
}

#[test]
fn scripts_that_cannot_be_used() {
    let rows = [
        ("[[answer]]\ntxt = 1", "unknown field `txt`"),
        ("[[answer]]\nspark = \"a\"", "answer 1 (spark `a`) has neither"),
        ("[[answer]]\ntext = \"a\"\nnth = 0", "`nth = 0`"),
        (
            "[[answer]]\ntext = \"a\"\n[[answer]]\ntext = \"b\"\nnth = 1",
            "answer 2 (spark ``) is the second one",
        ),
        (
            "[[answer]]\ntext = \"a\"\nerror = { kind = \"auth\", message = \"m\" }",
            "both an `error` and an answer",
        ),
        ("[[answer]]\nerror = { kind = \"odd\", message = \"m\" }", "`odd` is none of"),
        ("[[answer]]\ncalls = [{ tool = \"t\", args = {}, raw = \"\" }]", "both `args` and `raw`"),
    ];
    for (toml, words) in rows {
        let error = Script::from_toml("demo", toml).unwrap_err().to_string();
        assert!(
            error.starts_with("script `demo`: ") && error.contains(words),
            "`{words}` is missing in: {error}"
        );
    }
}

fn reply(text: &str) -> ModelReply {
    ModelReply {
        message: vec![Part::Text { text: text.into() }, asked("same"), asked("same")],
        usage: Usage { input: 1, output: 2, ..Usage::default() },
        model: "real".into(),
        finish: Finish::Other("odd".into()),
        waited_ms: 7,
    }
}

#[tokio::test]
async fn a_log_is_a_script() {
    let known = by("critic", vec![said(Role::User, "known")]);
    let recorded =
        |nth, digest, text: &str| RecordedReply { spark: "critic".into(), nth, digest, reply: reply(text) };
    let script = Script::from_replies(
        "log",
        [
            recorded(1, Some("other".into()), "first"),
            recorded(2, Some(known.digest()), "second"),
            recorded(3, Some(known.digest()), "third"),
        ],
    );
    assert_eq!(call(&script, &known).await.unwrap(), reply("second"), "the digest goes before the number");
    assert_eq!(
        call(&script, &known).await.unwrap(),
        reply("third"),
        "equal requests get their answers in order"
    );
    assert_eq!(call(&script, &known).await.unwrap(), reply("third"), "then the number counts");
    assert_eq!(call(&script, &known).await.unwrap_err().kind, ErrorKind::Script);
    // RecordedReply ids may repeat: they are the provider's own.
    let parts = vec![result("same"), result("same")];
    let next =
        vec![said(Role::User, "x"), message(Role::Assistant, reply("").message), message(Role::Tool, parts)];
    let answered = call(&script.fresh(), &by("critic", next)).await.unwrap();
    assert_eq!(answered, reply("first"));
}

#[tokio::test]
async fn cancelled_while_it_speaks() {
    let slow = "[[answer]]\ntext = \"one two three four\"\ndelay_ms = 600000";
    let (script, live, cancel) =
        (Script::from_toml("demo", slow).unwrap(), Recorder::default(), CancellationToken::new());
    let request = by("", vec![said(Role::User, "x")]);
    let (ended, ()) = tokio::join!(script.call(&request, &live, &cancel), async { cancel.cancel() });
    assert_eq!(ended.unwrap_err().kind, ErrorKind::Cancelled);
}

#[test]
fn what_is_wrong_with_a_script_is_said_without_what_is_in_it() {
    for text in ["[[answer]]\ntext = \"sk-live-1\" oops\n", "[[answer]]\ndelay_ms = \"sk-live-1\"\n"] {
        let error = Script::from_toml("demo", text).unwrap_err().to_string();
        assert!(error.starts_with("script `demo`: line 2: ") && !error.contains("sk-live"), "{error}");
    }
}

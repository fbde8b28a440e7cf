//! Answers that succeed, whatever the server's habits.

use agon::protocol::message::{Args, Finish, Opaque, Part, Usage};
use agon::protocol::{Lane, Role};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn called(id: &str, name: &str, args: Args) -> Part {
    Part::Call { id: id.to_owned(), name: name.to_owned(), args }
}

#[tokio::test]
async fn thinking_text_calls_and_usage() {
    let usage = json!({
        "prompt_tokens": 100, "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 64}, "completion_tokens_details": {"reasoning_tokens": 8}
    });
    let reply = Reply::calls([("read_file", json!({"path": "ä.txt"})), ("list", json!({}))])
        .reasoning("höm…")
        .and_text("I look.")
        .with_usage_json(usage);
    let (ended, live) = ask(reply).await;
    let reply = ended.unwrap();
    assert_eq!(
        reply,
        ModelReply {
            message: vec![
                Part::Reasoning { text: "höm…".into(), opaque: None },
                text("I look."),
                called("call_1", "read_file", Args::Json(json!({"path": "ä.txt"}))),
                called("call_2", "list", Args::Json(json!({}))),
            ],
            usage: Usage { input: 100, cached: 64, written: 0, output: 20, reasoning: 8, estimated: false },
            model: "model-1".into(),
            finish: Finish::ToolCalls,
            waited_ms: 0,
        }
    );
    assert_eq!(live.lane(Lane::Text), "I look.");
    assert_eq!(live.lane(Lane::Reasoning), "höm…");
    assert_eq!(live.lane(Lane::Args(0)), r#"{"path":"ä.txt"}"#);
    assert_eq!(live.lane(Lane::Args(1)), "{}");
}

fn mixed() -> Reply {
    Reply::calls([("f", json!({"k": "ü😀"}))]).reasoning("é").and_text("naïve 😀 text")
}

#[tokio::test]
async fn every_split_of_the_bytes_gives_the_same_answer() {
    let whole = answer(mixed()).await;
    let length = mixed().body("model-1").len();
    let server = Server::start(move |_, n| mixed().split_at([n]));
    let provider = openai::connect(config(&server.url())).unwrap();
    for at in 1..length {
        let (ended, live) = call(&provider, &hello()).await;
        assert_eq!(ended.unwrap(), whole, "split at {at}");
        assert_eq!(live.lane(Lane::Text), "naïve 😀 text");
    }
    assert_eq!(answer(mixed().split_every(1)).await, whole);
}

#[test]
fn random_chunks_and_words_give_the_same_answer() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let strategy = (".{0,40}", proptest::collection::vec(1usize..2_000, 0..8), any::<bool>());
    proptest!(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() }, |((words, offsets, usage) in strategy)| {
        let mut reply = Reply::text(&words).split_at(offsets);
        if usage { reply = reply.with_usage(3, 4); }
        let reply = runtime.block_on(answer(reply));
        let expected = if words.is_empty() { vec![] } else { vec![text(&words)] };
        prop_assert_eq!(reply.message, expected);
    });
}

#[tokio::test]
async fn one_json_body_instead_of_a_stream() {
    let call =
        json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"n\": 1.10}"}});
    let message = json!({"role": "assistant", "content": null, "reasoning": "hm", "tool_calls": [call]});
    let body = json!({"model": "real-name", "choices": [{"message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2}});
    let reply = answer(Reply::json(&body).split_every(7)).await;
    let args = Args::Json(serde_json::from_str("{\"n\": 1.10}").unwrap());
    let thinking = Part::Reasoning { text: "hm".into(), opaque: None };
    assert_eq!(reply.message, [thinking, called("a", "f", args)]);
    assert_eq!((reply.model.as_str(), reply.finish), ("real-name", Finish::ToolCalls));
    assert_eq!(reply.usage, Usage { input: 3, output: 2, ..Usage::default() });
}

#[tokio::test]
async fn reasons_to_stop() {
    let rows = [
        ("stop", Finish::Stop),
        ("length", Finish::Length),
        ("content_filter", Finish::Filtered),
        ("tired", Finish::Other("tired".into())),
    ];
    for (word, finish) in rows {
        assert_eq!(answer(Reply::text("x").finish(word)).await.finish, finish);
    }
    let refusal = answer(Reply::deltas([json!({"refusal": "I will "}), json!({"refusal": "not."})])).await;
    assert_eq!((refusal.text().as_str(), refusal.finish), ("I will not.", Finish::Refused));
}

#[tokio::test]
async fn ends_that_are_ends() {
    for reply in [
        Reply::text("whole").without_done(),
        Reply::text("whole").without_finish(),
        Reply::text("whole").without_usage().without_done(),
    ] {
        let reply = answer(reply).await;
        assert_eq!((reply.text().as_str(), reply.finish), ("whole", Finish::Stop));
    }
    let unterminated = Reply::text("whole");
    let all = unterminated.body("model-1").len();
    assert_eq!(answer(unterminated.end_after(all - 2)).await.text(), "whole");
    // The reason to stop has come; the connection breaks before the usage.
    let cut = Reply::text("whole");
    let at = cut.offset_after("model-1", "\"finish_reason\":\"stop\"}]}\n\n");
    assert!(answer(cut.cut_after(at)).await.usage.estimated);
}

#[tokio::test]
async fn two_calls_with_one_id_and_arguments_that_are_no_json() {
    let calls = [
        ("same".to_owned(), "f", "{\"a\":1}".to_owned()),
        ("same".to_owned(), "f", "{\"a\":".to_owned()),
        (String::new(), "g", String::new()),
    ];
    let reply = answer(Reply::calls_with_ids(calls)).await;
    assert_eq!(
        reply.message,
        [
            called("same", "f", Args::Json(json!({"a": 1}))),
            called("same", "f", Args::Broken("{\"a\":".into())),
            called("", "g", Args::Json(json!({}))),
        ]
    );
}

#[tokio::test]
async fn an_empty_answer_is_an_answer() {
    let reply = answer(Reply::text("")).await;
    assert_eq!((reply.message, reply.finish), (vec![], Finish::Stop));
}

#[tokio::test]
async fn missing_usage_is_counted() {
    let reply = answer(Reply::text("hello world").without_usage()).await;
    // 3 to open the answer, 3 for the message, 1 for `hello`.
    assert_eq!(reply.usage, Usage { input: 7, output: 2, estimated: true, ..Usage::default() });
}

#[tokio::test]
async fn keep_alive_comments_and_unknown_fields_are_skipped() {
    let body = ": PROCESSING\n\nevent: x\nid: 7\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\",\"audio\":null,\"tool_calls\":null},\"logprobs\":null}],\"usage\":null,\"x\":1}\r\n\r\n: PROCESSING\r\rdata: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"b\"}]},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\ndata: {\"garbage\"";
    assert_eq!(answer(Reply::raw_sse(body)).await.text(), "ab");
}

#[tokio::test]
async fn thinking_that_must_go_back_is_kept_for_this_host_alone() {
    let piece = |text: &str, signature: Option<&str>| json!({"reasoning_details": [{"index": 0, "type": "reasoning.text", "text": text, "signature": signature}]});
    let reply = Reply::deltas([piece("a", None), piece("b", Some("sig")), json!({"content": "c"})]);
    let server = Server::start(move |_, _| reply.clone());
    let provider = openai::connect(config(&server.url())).unwrap();
    let answered = call(&provider, &hello()).await.0.unwrap();
    let merged = json!([{"index": 0, "type": "reasoning.text", "text": "ab", "signature": "sig"}]);
    let opaque = Opaque {
        provider: "openai/127.0.0.1".into(),
        json: json!({"reasoning_details": merged}),
        dropped: false,
    };
    assert_eq!(answered.message, [Part::Reasoning { text: String::new(), opaque: Some(opaque) }, text("c")]);

    let mut next = hello();
    next.messages.push(crate::support::message(Role::Assistant, answered.message.clone()));
    next.messages.push(said(Role::User, "go on"));
    call(&provider, &next).await.0.unwrap();
    let elsewhere = &mut std::sync::Arc::make_mut(&mut next.messages[1]).parts[0];
    if let Part::Reasoning { opaque: Some(opaque), .. } = elsewhere {
        opaque.provider = "openai/other".into();
    }
    call(&provider, &next).await.0.unwrap();
    let bodies = server.bodies();
    assert_eq!(bodies[1]["messages"][1]["reasoning_details"], merged);
    assert_eq!(bodies[2]["messages"][1], json!({"role": "assistant", "content": "c"}));
}

#[tokio::test]
async fn connections_are_used_again() {
    let server = Server::start(|_, _| Reply::text("x"));
    let provider = openai::connect(config(&server.url())).unwrap();
    for _ in 0..5 {
        call(&provider, &hello()).await.0.unwrap();
    }
    assert_eq!(server.requests().len(), 5);
    assert!(server.connections() < 5, "{}", server.connections());
}

#[tokio::test]
async fn slow_is_not_silent() {
    let reply = Reply::text("one two three four five six").delay_ms(20).split_every(20);
    let server = Server::start(move |_, _| reply.clone());
    let second = Duration::from_secs(1);
    let timeouts = Timeouts { connect: second, first_token: second, idle: second };
    let provider = openai::connect(ServerConfig { timeouts, ..config(&server.url()) }).unwrap();
    assert_eq!(call(&provider, &hello()).await.0.unwrap().text(), "one two three four five six");
}

#[tokio::test]
async fn what_belongs_to_a_call_goes_back_with_it() {
    let extra = json!({"google": {"thought_signature": "c2ln"}});
    let piece =
        json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra});
    let server = Server::start(move |_, n| match n {
        1 => Reply::deltas([json!({"tool_calls": [piece]})]),
        _ => Reply::text("ok"),
    });
    let provider = openai::connect(config(&server.url())).unwrap();
    let answered = call(&provider, &hello()).await.0.unwrap();
    assert_eq!(answered.message[1], called("a", "f", Args::Json(json!({}))));
    let mut next = hello();
    next.messages.push(crate::support::message(Role::Assistant, answered.message));
    let result = Part::Result { id: "a".into(), name: "f".into(), content: "x".into(), is_error: false };
    next.messages.push(crate::support::message(Role::Tool, vec![result]));
    call(&provider, &next).await.0.unwrap();
    let sent = &server.bodies()[1]["messages"][1];
    assert_eq!(sent["tool_calls"][0]["extra_content"], extra);
    assert_eq!((sent.get("next_call"), sent.get("extra_content")), (None, None));
}

#[tokio::test]
async fn blank_bytes_before_the_answer_are_no_answer() {
    let mut stream = b"\r\n\n".to_vec();
    stream.extend(Reply::text("here").body("m"));
    assert_eq!(answer(Reply::raw_sse(stream).split_every(1)).await.text(), "here");
    let body = json!({"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]});
    let padded = Reply::raw_sse(format!("\n  {body}")).split_at([1, 2]);
    assert_eq!(answer(padded).await.text(), "whole");
}

#[tokio::test]
async fn counts_that_no_answer_has_are_no_panic() {
    let usage = json!({"prompt_tokens": u64::MAX, "completion_tokens": 7});
    // Nor are they believed.
    let usage = answer(Reply::text("x").with_usage_json(usage)).await.usage;
    assert!(usage.estimated && usage.input < 1000, "{usage:?}");
}

#[tokio::test]
async fn bookkeeping_never_fails_an_answer() {
    let counted = |input, output| Some((input, output, false));
    let rows = [
        (json!({"prompt_tokens": 10.0, "completion_tokens": "5"}), counted(10, 5)),
        (json!({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": 3}), counted(10, 5)),
        (json!({"prompt_tokens": -1, "completion_tokens": 5}), None),
        (json!({"prompt_tokens": 10.5, "completion_tokens": 5}), None),
        (json!({"prompt_tokens": null}), None),
        (json!("none"), None),
        (json!([]), None),
    ];
    for (usage, expected) in rows {
        let reply = answer(Reply::text("whole").with_usage_json(usage.clone())).await;
        assert_eq!(reply.message, [text("whole")], "{usage}");
        let found = (reply.usage.input, reply.usage.output, reply.usage.estimated);
        match expected {
            Some(expected) => assert_eq!(found, expected, "{usage}"),
            None => assert!(found.0 > 0 && found.1 > 0 && found.2, "{usage}: {found:?}"),
        }
    }
}

#[tokio::test]
async fn of_several_answers_only_the_first_is_read() {
    let chunk = |index: u64, word: &str| json!({"choices": [{"index": index, "delta": {"content": word}}]});
    let both = json!({"choices": [
        {"index": 1, "delta": {"content": "WRONG"}}, {"index": 0, "delta": {"content": "ight"}, "finish_reason": "stop"}
    ]});
    let events = [chunk(1, "WRONG"), chunk(0, "R"), both, chunk(1, "!")];
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    assert_eq!(answer(Reply::raw_sse(body + "data: [DONE]\n\n")).await.message, [text("Right")]);
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

#[tokio::test]
async fn an_answer_packed_unasked_is_unpacked_wherever_it_is_split() {
    let body = packed(&mixed().body("model-1"));
    let expected = answer(mixed()).await;
    for every in [1, 7, 4096] {
        let reply = Reply::raw_sse(body.clone()).header("content-encoding", "gzip").split_every(every);
        assert_eq!(answer(reply).await.message, expected.message, "{every}");
    }
    let error = packed(br#"{"error":{"message":"slow down"}}"#);
    let failed = ask(Reply::raw_sse(error).header("content-encoding", "gzip")).await.0.unwrap_err();
    assert!(failed.message.contains("slow down"), "{}", failed.message);
}

#[tokio::test]
async fn a_bomb_and_another_packing_are_refused_by_name() {
    let bomb = packed(&vec![b' '; 64 << 20]);
    let failed = failure(Reply::raw_sse(bomb).header("content-encoding", "gzip")).await;
    assert!(failed.message.contains("unpack to more than 1048576"), "{}", failed.message);
    let failed = failure(Reply::raw_sse("x").header("content-encoding", "br")).await;
    assert!(failed.message.contains("packed as `br`"), "{}", failed.message);
    let failed = failure(Reply::raw_sse("no gzip").header("content-encoding", "gzip")).await;
    assert!(failed.message.contains("cannot be unpacked"), "{}", failed.message);
}

//! What breaks: splits, packing, cuts, silence, errors before and inside an answer, cancelling.

use std::time::Duration;

use agon::protocol::event::ErrorKind;

use super::*;

#[track_caller]
fn assert_failed(wire: Wire, failed: &ModelFailed, kind: ErrorKind, words: &str) {
    assert_eq!(failed.kind, kind, "{wire:?}: {}", failed.message);
    assert!(failed.message.contains(words), "{wire:?}: `{words}` is missing in: {}", failed.message);
}

#[tokio::test]
async fn a_stream_split_at_every_byte_is_the_same_answer() {
    for wire in wires() {
        let says = Says {
            thought: "Hm — ö.",
            proof: "p1".into(),
            text: "Grüße 😀 你好".into(),
            calls: vec![("call1aaaa".into(), "read", json!({"path": "ä\"\\.txt"}))],
            ..Says::default()
        };
        let (whole, _) = answer(wire, &says).await;
        let (split, live) = ask(wire, wire.reply(&says).split_every(1)).await;
        assert_eq!(split.unwrap(), whole, "{wire:?}");
        assert_eq!(live.lane(Lane::Text), "Grüße 😀 你好", "{wire:?}");
        assert_eq!(calls(&whole), [("read".to_owned(), json!({"path": "ä\"\\.txt"}))], "{wire:?}");
    }
}

#[tokio::test]
async fn an_answer_packed_unasked_is_unpacked() {
    use std::io::Write;
    for wire in wires() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&wire.body(&Says::text("one two three"))).unwrap();
        let packed = Reply::raw_sse(gzip.finish().unwrap()).header("content-encoding", "gzip").split_every(7);
        assert_eq!(texts(&ask(wire, packed).await.0.unwrap()), "one two three", "{wire:?}");
    }
}

#[tokio::test]
async fn a_cut_stream_is_a_broken_connection_and_never_an_answer() {
    for wire in wires() {
        let says = Says::text("one two three");
        let body = wire.body(&says);
        let text = String::from_utf8(body.clone()).unwrap();
        let begun = text.find("one ").unwrap() + 20;
        for (reply, words) in [
            (Reply::raw_sse(body.clone()).cut_after(begun), "in the middle of its answer"),
            (Reply::raw_sse(body.clone()).end_after(begun), "ended its stream in the middle"),
            (Reply::nothing(), "connection"),
        ] {
            let failed = ask(wire, reply).await.0.unwrap_err();
            assert_failed(wire, &failed, ErrorKind::Network, words);
        }
        let failed = ask(wire, Reply::raw_sse(body).cut_after(begun)).await.0.unwrap_err();
        assert!(failed.usage.is_some_and(|usage| usage.estimated), "{wire:?}: it has cost something");
        let page = ask(wire, Reply::html()).await.0.unwrap_err();
        assert_failed(wire, &page, ErrorKind::BadResponse, "HTML page");
        let other = ask(wire, Reply::json(&json!({"hello": 1}))).await.0.unwrap_err();
        assert_eq!(other.kind, ErrorKind::BadResponse, "{wire:?}: {}", other.message);
    }
}

#[tokio::test]
async fn errors_are_told_apart() {
    let rows = [
        (401, "authentication_error", "Incorrect API key provided", ErrorKind::Auth),
        (402, "billing_error", "Payment required", ErrorKind::Quota),
        (404, "not_found_error", "The model `x` does not exist", ErrorKind::BadRequest),
        (400, "invalid_request_error", "Invalid value for 'x'", ErrorKind::BadRequest),
        (413, "request_too_large", "Request exceeds the maximum size", ErrorKind::ContextOverflow),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
            ErrorKind::ContextOverflow,
        ),
        (429, "rate_limit_error", "Slow down", ErrorKind::RateLimited),
        (500, "api_error", "Internal server error", ErrorKind::Overloaded),
        (503, "server_error", "Loading model", ErrorKind::Loading),
        (529, "overloaded_error", "Overloaded", ErrorKind::Overloaded),
    ];
    for wire in wires() {
        for (status, code, words, kind) in rows {
            let reply =
                Reply::status(status, &wire.error(code, words).to_string()).header("retry-after", "7");
            let failed = ask(wire, reply).await.0.unwrap_err();
            assert_failed(wire, &failed, kind, words);
            let waits = failed.kind.is_retryable().then_some(7000);
            assert_eq!(failed.retry_after_ms, waits, "{wire:?} {status}");
            assert_eq!(failed.usage, None, "{wire:?}: nothing was answered");
        }
    }
}

#[tokio::test]
async fn an_error_inside_the_stream_is_the_servers_and_has_cost_something() {
    for wire in wires() {
        for (code, words, kind) in [
            ("overloaded_error", "Overloaded", ErrorKind::Overloaded),
            ("rate_limit_exceeded", "Slow down", ErrorKind::RateLimited),
        ] {
            let body = wire.broken(&Says::text("one two three"), code, words);
            let failed = ask(wire, Reply::raw_sse(body)).await.0.unwrap_err();
            assert_failed(wire, &failed, kind, words);
            assert!(failed.usage.is_some_and(|usage| usage.estimated), "{wire:?}");
        }
    }
}

#[tokio::test]
async fn a_cancel_ends_the_call_and_the_connection() {
    for wire in wires() {
        let body = wire.body(&Says::text("one two three"));
        let at = String::from_utf8(body.clone()).unwrap().find("three").unwrap();
        let server = wire.server(move |_, _| Reply::raw_sse(body.clone()).stall_after(at));
        let (live, cancel) = (Recorder::default(), CancellationToken::new());
        let (request, provider) = (hello(wire), wire.provider(&server.url()));
        let stopping = async {
            while live.pieces().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            cancel.cancel();
        };
        let (ended, ()) = tokio::join!(provider.call(&request, &live, &cancel), stopping);
        let failed = ended.unwrap_err();
        assert_failed(wire, &failed, ErrorKind::Cancelled, "told to stop");
        assert!(failed.usage.is_some_and(|usage| usage.estimated), "{wire:?}");
        while server.hung_up() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

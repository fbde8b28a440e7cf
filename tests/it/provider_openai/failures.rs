//! Everything that goes wrong, with its kind and its words.

use agon::protocol::Lane;
use agon::protocol::event::ErrorKind;
use agon::provider::ServerConfigError;
use serde_json::json;

use super::*;

#[track_caller]
fn assert_failed(failed: &ModelFailed, kind: ErrorKind, words: &str) {
    assert_eq!(failed.kind, kind, "{}", failed.message);
    assert!(failed.message.contains(words), "`{words}` is missing in: {}", failed.message);
}

#[tokio::test]
async fn server_down() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let provider = openai::connect(config(&format!("http://{address}/v1"))).unwrap();
    let failed = call(&provider, &hello()).await.0.unwrap_err();
    assert_failed(&failed, ErrorKind::Network, "cannot be reached: Connection refused");
    assert_eq!(failed.usage, None);
    assert!(failed.message.contains(&address.to_string()), "{}", failed.message);
}

#[tokio::test]
async fn refusals() {
    let rows = [
        (
            401,
            json!({"error": {"message": format!("Incorrect API key provided: {KEY}")}}),
            ErrorKind::Auth,
            "check the key",
        ),
        (403, json!({"error": "no"}), ErrorKind::Auth, "check the key"),
        (404, json!({"error": {"message": "no such model"}}), ErrorKind::BadRequest, "the model's name"),
        (
            400,
            json!({"error": {"message": "maximum context length is 10"}}),
            ErrorKind::ContextOverflow,
            "compact",
        ),
        (413, json!({"error": {"message": "prompt is too long"}}), ErrorKind::ContextOverflow, "compact"),
        (422, json!({"detail": [{"msg": "bad"}]}), ErrorKind::BadRequest, "set `dialect`"),
        (
            429,
            json!({"error": {"message": "out", "code": "insufficient_quota"}}),
            ErrorKind::Quota,
            "billing",
        ),
        (500, json!({"error": {"message": "boom"}}), ErrorKind::Overloaded, "answered 500: boom"),
        (
            529,
            json!({"error": {"type": "overloaded_error", "message": "busy"}}),
            ErrorKind::Overloaded,
            "busy",
        ),
    ];
    for (status, body, kind, words) in rows {
        let failed = failure(Reply::status(status, &body.to_string())).await;
        assert_failed(&failed, kind, words);
        assert_eq!(failed.usage, None);
    }
    assert_failed(
        &failure(Reply::status(503, "<html>x</html>")).await,
        ErrorKind::Overloaded,
        "an HTML page",
    );
    assert_failed(
        &failure(Reply::status(302, "").header("location", "/x")).await,
        ErrorKind::BadRequest,
        "`/x`",
    );
}

/// Published answers, the kind that decides what agon does next, and the hint a person is shown.
async fn all_fail(rows: &[(u16, serde_json::Value, ErrorKind, &str)]) {
    for (status, body, kind, words) in rows {
        assert_failed(&failure(Reply::status(*status, &body.to_string())).await, *kind, words);
    }
}

#[tokio::test]
async fn hints_fit_what_was_refused() {
    let rows = [
        (
            400,
            json!({"error": {"message": "Failed to call a function. Please adjust your prompt.", "type": "invalid_request_error", "code": "tool_use_failed"}}),
            ErrorKind::BadResponse,
            "try again",
        ),
        (
            400,
            json!({"error": {"message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.", "type": null, "param": "prompt", "code": "content_filter", "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation",
                "content_filter_result": {"hate": {"filtered": false, "severity": "safe"}, "jailbreak": {"filtered": true, "detected": true}, "violence": {"filtered": true, "severity": "medium"}}}}}),
            ErrorKind::BadRequest,
            "policy. Filtered: jailbreak, violence (medium); the provider's filter refused the input: rephrase it",
        ),
        (
            403,
            json!({"error": {"code": 403, "message": "Your chosen model requires moderation and your input was flagged",
                "metadata": {"reasons": ["violence"], "flagged_input": "…", "provider_name": "OpenAI"}}}),
            ErrorKind::BadRequest,
            "the provider's filter refused the input: rephrase it",
        ),
        (
            400,
            json!({"error": {"message": "bad request: missing Editor-Version header for IDE auth"}}),
            ErrorKind::BadRequest,
            "set `headers` of the provider: `Editor-Version`",
        ),
        (
            413,
            json!({"error": {"message": "Request too large for model `m` in organization `o` on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size and try again.", "type": "tokens", "code": "rate_limit_exceeded"}}),
            ErrorKind::OutputLimit,
            "may use fewer tokens in a minute",
        ),
        (
            429,
            json!({"error": {"message": "Request too large for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully.", "type": "tokens", "param": null, "code": "rate_limit_exceeded"}}),
            ErrorKind::OutputLimit,
            "may use fewer tokens in a minute",
        ),
        (
            400,
            json!([{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT",
                "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]}}]),
            ErrorKind::Auth,
            "check the key",
        ),
    ];
    all_fail(&rows).await;
}

#[tokio::test]
async fn hints_fit_what_is_not_there() {
    let rows = [
        (
            404,
            json!({"error": {"message": "This model is only supported in v1/responses and not in v1/chat/completions.", "type": "invalid_request_error", "param": "model", "code": null}}),
            ErrorKind::BadRequest,
            "set `kind = \"openai-responses\"`",
        ),
        (
            404,
            json!({"error": {"message": "No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai/docs", "code": 404}}),
            ErrorKind::BadRequest,
            "use a model that can call tools",
        ),
        (
            400,
            json!({"error": {"message": "Budget has been exceeded! Current cost: 10.1, Max budget: 10.0", "type": "budget_exceeded", "param": null, "code": "400"}}),
            ErrorKind::Quota,
            "waiting does not help",
        ),
        (
            400,
            json!({"error": {"message": "registry.ollama.ai/library/gemma3:4b does not support tools", "type": "api_error", "param": null, "code": null}}),
            ErrorKind::BadRequest,
            "use a model that can call tools",
        ),
        (
            400,
            json!({"error": "'response_format.type' must be 'json_schema' or 'text'"}),
            ErrorKind::BadRequest,
            "set `structured`",
        ),
        (
            503,
            json!({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
            ErrorKind::Loading,
            "once the model is loaded",
        ),
        (200, json!({"error": "no such model"}), ErrorKind::BadRequest, "no such model; "),
        (
            429,
            json!({"error": {"message": "You exceeded your current quota, please check your plan.", "type": "insufficient_quota"}}),
            ErrorKind::Quota,
            "your plan; waiting does not help",
        ),
    ];
    all_fail(&rows).await;
}

#[tokio::test]
async fn too_much_output_is_told_from_a_full_window_with_the_providers_numbers() {
    let limits =
        |reply: ModelFailed| reply.limits.map(|limits| (limits.context, limits.input, limits.output));
    let words = "maximum context length is 8192 tokens. However, you requested 10192 tokens (2000 in the messages, 8192 in the completion)";
    let failed = failure(Reply::status(400, &json!({"error": {"message": words}}).to_string())).await;
    assert_failed(&failed, ErrorKind::OutputLimit, words);
    assert_eq!(limits(failed), Some((Some(8192), Some(2000), None)));
    let server = Server::strict("together", |_, _| Reply::text("ok"));
    let mut request = hello();
    request.params.max_output = Some(8192);
    let failed = call(&openai::connect(config(&server.url())).unwrap(), &request).await.0.unwrap_err();
    assert_failed(&failed, ErrorKind::OutputLimit, "8193. Given: 4097 `inputs` tokens");
    assert_eq!(limits(failed), Some((Some(8193), Some(4097), None)));
    assert_eq!(server.take_violations().len(), 1);
    let failed = failure(Reply::status(
        400,
        &json!({"error": {"message": "maximum context length is 10"}}).to_string(),
    ))
    .await;
    assert_failed(&failed, ErrorKind::ContextOverflow, "maximum context length is 10; ");
}

#[tokio::test]
async fn waits_the_provider_asks_for() {
    let slow = |name: &str, value: &str| {
        Reply::status(429, "{\"error\":{\"message\":\"slow down\"}}").header(name, value)
    };
    assert_eq!(failure(slow("Retry-After", "7")).await.retry_after_ms, Some(7_000));
    assert_eq!(failure(slow("retry-after-ms", "250")).await.retry_after_ms, Some(250));
    let date =
        slow("Retry-After", "Sun, 06 Nov 1994 08:50:07 GMT").header("Date", "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(failure(date).await.retry_after_ms, Some(30_000));
    // Without a header the words say it.
    let gemini = json!([{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota. \nPlease retry in 31.5s.",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "31s"}]}}]);
    let failed = failure(Reply::status(429, &gemini.to_string())).await;
    assert_eq!((failed.kind, failed.retry_after_ms), (ErrorKind::RateLimited, Some(31_500)));
    let quota =
        Reply::status(429, "{\"error\":{\"code\":\"insufficient_quota\"}}").header("Retry-After", "7");
    assert_eq!(failure(quota).await.retry_after_ms, None);
}

#[tokio::test]
async fn what_is_no_answer() {
    assert_failed(&failure(Reply::html()).await, ErrorKind::BadResponse, "HTML page (`text/html`)");
    assert_failed(&failure(Reply::raw_sse("")).await, ErrorKind::BadResponse, "may not fit its window");
    assert_failed(&failure(Reply::raw_sse("hello there")).await, ErrorKind::BadResponse, "hello there");
    assert_failed(&failure(Reply::raw_sse("data: nonsense\n\n")).await, ErrorKind::BadResponse, "nonsense");
    assert_failed(&failure(Reply::raw_sse("data: {\"a\":1}\n\n")).await, ErrorKind::BadResponse, "{\"a\":1}");
    assert_failed(
        &failure(Reply::json(&json!({"hello": 1}))).await,
        ErrorKind::BadResponse,
        "no chat completion",
    );
    let error = json!({"error": {"message": "busy", "code": 503}});
    assert_failed(&failure(Reply::json(&error)).await, ErrorKind::Overloaded, "busy");
}

#[tokio::test]
async fn silence() {
    let long = Reply::text("one two three");
    let middle = long.offset_after("model-1", "two ");
    let rows = [
        (Reply::silence(), "sent nothing for 300 ms", None),
        (Reply::text("x").stall_after(0), "sent nothing for 300 ms", None),
        (long.stall_after(middle), "fell silent for 300 ms", Some(true)),
    ];
    for (reply, words, estimated) in rows {
        let server = Server::start(move |_, _| reply.clone());
        let failed = call(&impatient(&server.url()), &hello()).await.0.unwrap_err();
        assert_failed(&failed, ErrorKind::Timeout, words);
        assert_failed(&failed, ErrorKind::Timeout, &format!("`mock` ({}) ", server.host()));
        assert_eq!(failed.usage.map(|usage| usage.estimated), estimated);
    }
}

#[tokio::test]
async fn cut_streams() {
    assert_failed(&failure(Reply::nothing()).await, ErrorKind::Network, "broke the connection");
    let cut_in_char = Reply::text("naïve");
    let inside = cut_in_char.offset_after("model-1", "na") + 1;
    let calls = Reply::calls([("f", json!({"path": "a"})), ("g", json!({}))]);
    let in_call = calls.offset_after("model-1", "\"arguments\":\"{\\\"pat");
    let between =
        calls.offset_after("model-1", "\"name\":\"f\",\"arguments\":\"\"}}]},\"finish_reason\":null}]}\n\n");
    for (reply, at) in [(cut_in_char, inside), (calls.clone(), in_call), (calls, between)] {
        let failed = failure(reply.clone().cut_after(at)).await;
        assert_failed(&failed, ErrorKind::Network, "in the middle of its answer");
        assert!(failed.usage.unwrap().estimated);
        let failed = failure(reply.end_after(at)).await;
        assert_failed(&failed, ErrorKind::Network, "in the middle of the answer");
    }
    // No reason to stop, `[DONE]`, and then a connection that breaks.
    let given_up = Reply::text("one two").without_finish();
    let all = given_up.body("model-1").len();
    assert_failed(&failure(given_up.cut_after(all)).await, ErrorKind::Network, "set `concurrent_calls = 1`");
}

#[tokio::test]
async fn an_error_inside_the_stream() {
    let mut body = Reply::text("half").without_finish().without_usage().without_done().body("m");
    body.extend_from_slice(b"data: {\"error\":{\"message\":\"upstream gave up\",\"code\":502},\"choices\":[{\"delta\":{},\"finish_reason\":\"error\"}]}\n\n");
    let (ended, live) = ask(Reply::raw_sse(body)).await;
    assert_failed(&ended.unwrap_err(), ErrorKind::Overloaded, "upstream gave up");
    assert_eq!(live.lane(Lane::Text), "half");
}

#[tokio::test]
async fn an_answer_too_large_to_record() {
    let large = "x".repeat(400 << 10);
    let failed = failure(Reply::text(&format!("{large} {large}"))).await;
    assert_failed(&failed, ErrorKind::TooLarge, "716800 bytes");
    // Fits as text, but not once it is escaped for the log.
    let quotes = "\"".repeat(400 << 10);
    assert_failed(&failure(Reply::text(&quotes)).await, ErrorKind::TooLarge, "716800 bytes");
    let line = format!("data: {}", "x".repeat(5 << 20));
    assert_failed(&failure(Reply::raw_sse(line)).await, ErrorKind::TooLarge, "716800 bytes");
}

#[tokio::test]
async fn cancelled_in_the_middle() {
    let reply = Reply::text("one two three");
    let at = reply.offset_after("model-1", "two ");
    let reply = reply.stall_after(at + 40);
    let server = Server::start(move |_, _| reply.clone());
    let provider = openai::connect(config(&server.url())).unwrap();
    let (live, cancel) = (Recorder::default(), CancellationToken::new());
    let request = hello();
    let asking = provider.call(&request, &live, &cancel);
    let stopping = async {
        while live.pieces().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        cancel.cancel();
    };
    // The provider's own limits are minutes away: only the cancel can end this.
    let (ended, ()) = tokio::join!(asking, stopping);
    let failed = ended.unwrap_err();
    assert_failed(&failed, ErrorKind::Cancelled, "was stopped");
    assert!(failed.usage.unwrap().estimated);
    while server.hung_up() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    let cancelled = provider.call(&hello(), &live, &cancel).await.unwrap_err();
    assert_eq!((cancelled.kind, cancelled.usage), (ErrorKind::Cancelled, None));
    assert_eq!(server.requests().len(), 1, "a call cancelled before it began is not sent");
}

#[test]
fn configurations_that_cannot_work() {
    for url in ["", "localhost:8080", "ftp://x/", "http://"] {
        assert!(matches!(openai::connect(config(url)), Err(ServerConfigError::BaseUrl { .. })), "{url}");
    }
    let mut bad = config("http://localhost/v1");
    bad.headers.push(("x-note".into(), "secret\nvalue".into()));
    let error = openai::connect(bad).unwrap_err();
    assert_eq!(error.to_string(), "provider `mock`: header `x-note` has characters a header cannot have");
    assert!(!format!("{:?}", openai::connect(config("https://localhost/v1"))).contains(KEY));
}

#[tokio::test]
async fn the_server_itself_is_strict() {
    let server = Server::start(|_, _| Reply::text("x"));
    let mut orphan = hello();
    orphan.messages.push(crate::support::message(
        agon::protocol::Role::Tool,
        vec![agon::protocol::Part::Result {
            id: "a".into(),
            name: "f".into(),
            content: "c".into(),
            is_error: false,
        }],
    ));
    let provider = openai::connect(config(&server.url())).unwrap();
    let failed = call(&provider, &orphan).await.0.unwrap_err();
    assert_failed(&failed, ErrorKind::BadRequest, "which nobody asked");
    assert_eq!(server.take_violations().len(), 1);
}

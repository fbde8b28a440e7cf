//! Everything that goes wrong, with its kind and its words.

use super::*;

#[tokio::test]
async fn refusals_by_their_published_words() {
    let error = |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"});
    let rows = [
        (401, error("authentication_error", "invalid x-api-key"), ErrorKind::Auth, "check the key"),
        (
            400,
            error("invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
            ErrorKind::Quota,
            "billing",
        ),
        (404, error("not_found_error", "model: claude-9"), ErrorKind::BadRequest, "the model's name"),
        (429, error("rate_limit_error", "slow down"), ErrorKind::RateLimited, "slow down"),
        (529, error("overloaded_error", "Overloaded"), ErrorKind::Overloaded, "Overloaded"),
        (
            413,
            error("request_too_large", "Request exceeds the maximum size"),
            ErrorKind::ContextOverflow,
            "compact",
        ),
        (
            400,
            error("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
            ErrorKind::ContextOverflow,
            "208310",
        ),
        (
            400,
            error(
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again",
            ),
            ErrorKind::OutputLimit,
            "188240",
        ),
        (
            400,
            error(
                "invalid_request_error",
                "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for claude-haiku-4-5",
            ),
            ErrorKind::OutputLimit,
            "64000",
        ),
    ];
    for (status, body, kind, words) in rows {
        let failed = ask(Reply::status(status, &body.to_string())).await.0.unwrap_err();
        assert_failed(&failed, kind, words);
    }
    let refused = error("invalid_request_error", "`temperature` is deprecated for this model.");
    let server = Server::start(move |_, _| Reply::status(400, &refused.to_string()));
    let mut request = hello();
    request.params.temperature_pm = Some(700);
    request.params.without = vec!["thinking".into()];
    assert_eq!(call(&server, &request).await.0.unwrap_err().refused, ["temperature"]);
    assert!(
        call(&server, &hello()).await.0.unwrap_err().refused.is_empty(),
        "what was not sent cannot be left out"
    );
}

#[tokio::test]
async fn streams_that_break() {
    let all = events("end_turn", &[text_block("one two")]);
    let cut = |bytes: usize| Reply::raw_sse(stream(&all)).cut_after(bytes);
    let at = |words: &str| {
        let body = String::from_utf8(stream(&all)).unwrap();
        body.find(words).unwrap() + words.len()
    };
    assert_failed(
        &ask(cut(at("one"))).await.0.unwrap_err(),
        ErrorKind::Network,
        "in the middle of its answer",
    );
    let ended = Reply::raw_sse(stream(&all[..6]));
    let failed = ask(ended).await.0.unwrap_err();
    assert_failed(&failed, ErrorKind::Network, "ended its stream in the middle of the answer");
    assert!(failed.usage.unwrap().estimated);
    // The reason to stop was given: the answer is whole.
    assert!(ask(cut(at("\"output_tokens\":25}}\n\n"))).await.0.is_ok());
    let mut broken = all[..5].to_vec();
    broken.push(json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}));
    assert_failed(
        &ask(Reply::raw_sse(stream(&broken))).await.0.unwrap_err(),
        ErrorKind::Overloaded,
        "Overloaded",
    );
    let mut newer = all.clone();
    newer.insert(2, json!({"type": "context_note", "note": "an event of a newer API"}));
    assert!(ask(Reply::raw_sse(stream(&newer))).await.0.is_ok());
    assert_failed(&ask(Reply::html()).await.0.unwrap_err(), ErrorKind::BadResponse, "instead of a message");
    assert_failed(
        &ask(Reply::json(&json!({"hello": 1}))).await.0.unwrap_err(),
        ErrorKind::BadResponse,
        "no message",
    );
}

//! What is said of an answer: by another model than the one asked, or of what the log does not hold.

use serde_json::json;

use super::kit::*;
use crate::support::server::{Reply, Server};

#[test]
fn a_text_without_evidence_is_pointed_out_and_is_the_answer_all_the_same() {
    let (env, ran) = against(Reply::text("All 57 tests pass [e99], I ran cargo test"));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "All 57 tests pass [e99], I ran cargo test\n"), "{ran}");
    assert!(ran.stderr.contains("`e99` is no entry of this log"), "{ran}");
    assert!(ran.stderr.contains("no command or check passed"), "{ran}");
    nothing_lost(&env);
}

#[test]
fn a_model_that_answers_for_another_is_shown_on_every_surface() {
    let body = json!({
        "model": "gpt-other",
        "choices": [{"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 1}
    });
    let server = Server::start(move |_, _| Reply::json(&body));
    let env = served(&server);
    let ran = env.run(&["run", "say hello"]);
    assert_eq!(ran.code, 0, "{ran}");
    let words = "mock/any was asked, gpt-other answered";
    assert!(ran.stderr.contains(words), "{ran}");
    assert!(env.run(&["replay", "latest"]).stdout.contains(words));
    for format in ["md", "html", "json"] {
        let report = env.run(&["report", "latest", "--format", format]);
        assert!(report.stdout.contains("gpt-other"), "{format}: {report}");
    }
}

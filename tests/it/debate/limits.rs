//! What a debate sets aside for its calls, by what each may at most answer.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::command::{answer, schema};
use crate::support::env::Env;
use crate::support::panel::{Asked, asked_by};
use crate::support::server::{Reply, Server};

#[test]
fn a_debate_of_a_few_cents_is_not_refused_for_what_its_model_could_write() {
    let server = Server::start(|request, _| answer(request));
    let env = Env::new();
    let url = server.url();
    env.config(&format!(
        "[providers.openai]\nbase_url = \"{url}\"\n[models.\"openai/gpt-5\"]\nstructured = \"words\"\n"
    ));
    let ran = env.run(&["debate", "-m", "openai/gpt-5", "--max-usd", "5", "--rounds", "2", "A?"]);
    assert_eq!(ran.code, 0, "{ran}");
    let limit = |body: &Value| body["max_tokens"].as_u64().unwrap();
    for body in server.bodies() {
        let most = if asked_by(&schema(&body)) == Asked::Verdict { 32_768 } else { 16_384 };
        assert_eq!(limit(&body), most, "{body}");
    }
    // Whole limits would be set aside with a dollar: what is there is divided among those that are asked at once.
    let before = server.bodies().len();
    let low = env.run(&["debate", "-m", "openai/gpt-5", "--max-usd", "0.5", "--rounds", "2", "A?"]);
    assert_eq!(low.code, 0, "{low}");
    let bodies = server.bodies();
    let ballots = bodies[before..].iter().filter(|body| asked_by(&schema(body)) == Asked::Ballot);
    let limits: Vec<u64> = ballots.map(limit).collect();
    assert_eq!(limits.len(), 6, "{low}");
    assert!(limits.iter().all(|most| *most == limits[0] && (4096..16_384).contains(most)), "{limits:?}");
    // Less than a quarter of them is no answer.
    let none = env.run(&["debate", "-m", "openai/gpt-5", "--max-usd", "0.2", "--rounds", "2", "A?"]);
    assert!(none.code == 3 && none.stderr.contains("not one phase can be paid"), "{none}");
}

#[test]
fn a_window_that_is_too_small_for_a_verdict_is_said_before_anything_is_paid() {
    let server = Server::start(|request, _| answer(request));
    let env = Env::new();
    for (context, is_said) in [(4096, true), (8192, false)] {
        env.config(&format!(
            "[providers.mock]\nkind = \"openai\"\nbase_url = \"{}\"\n[models.\"mock/any\"]\ncontext = {context}\n",
            server.url()
        ));
        let ran = env.run(&["debate", "-m", "mock/any", "--rounds", "2", "A?"]);
        assert_eq!(
            ran.stderr.contains("`mock/any` holds 4,096 tokens; a debate may need 8,192"),
            is_said,
            "{ran}"
        );
    }
}

#[test]
fn a_provider_that_tells_one_debater_to_slow_down_holds_all_back_and_loses_none() {
    let began = Arc::new(Mutex::new(Vec::new()));
    let server = {
        let began = Arc::clone(&began);
        Server::start(move |request, n| {
            began.lock().unwrap().push(Instant::now());
            match n {
                1 => Reply::status(429, "{\"error\":{\"message\":\"slow down\"}}")
                    .header("retry-after-ms", "400"),
                _ => answer(request),
            }
        })
    };
    let env = Env::new();
    env.config(&format!(
        "[providers.openai]\nbase_url = \"{}\"\nconcurrent_calls = 1\n[models.\"openai/gpt-5\"]\nstructured = \"words\"\n",
        server.url()
    ));
    let ran = env.run(&["debate", "-m", "openai/gpt-5", "--rounds", "2", "A?"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(!ran.stderr.contains("did not do its part"), "{ran}");
    let began = began.lock().unwrap();
    assert!(began[1] - began[0] >= Duration::from_millis(390), "{:?}", began[1] - began[0]);
}

//! A thousand calls over a server that answers 429, 529 and 500 and cuts its streams at random: none is lost, none counts
//! twice, and the money is the server's own count.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::kit::*;
use crate::support::dice::Dice;
use crate::support::env::Env;
use crate::support::server::{Reply, Server};

/// Sessions at once, and steps of each: with what is tried again, more than a thousand calls.
const SESSIONS: usize = 8;
const STEPS: usize = 90;

/// What the server counted: whole answers, their tokens of input and output.
type Counted = Arc<Mutex<(usize, u64, u64)>>;

/// One answer; two in five are trouble.
fn answer(request: &Value, n: usize, counted: &Counted) -> Reply {
    let mut dice = Dice((n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let done = results(request).len();
    let id = format!("call{done}");
    let (input, output) = (100 + 7 * done as u64, 5 + dice.roll(40));
    let reply = match done {
        STEPS.. => Reply::text("all of it is done"),
        _ => call(&id, "glob", json!({"pattern": format!("{done}.rs")})),
    };
    let reply = reply.with_usage(input, output);
    let refused = |status, words: &str| {
        let body = json!({"error": {"message": words, "type": "error"}}).to_string();
        Reply::status(status, &body).header("content-type", "application/json")
    };
    match dice.roll(20) {
        0 | 1 => refused(429, "slow down").header("retry-after-ms", "5"),
        2 => refused(429, "slow down"),
        3 => refused(529, "overloaded"),
        4 | 5 => refused(500, "something broke"),
        // Before its usage: nobody knows what it cost.
        6 | 7 => reply.cut_after(60 + dice.roll(200) as usize),
        _ => {
            let mut counted = counted.lock().unwrap();
            *counted = (counted.0 + 1, counted.1 + input, counted.2 + output);
            reply
        }
    }
}

fn session(url: &str) -> Vec<Value> {
    let env = Env::new();
    let config = config(url).replace("attempts = 1", "attempts = 12\nbase_ms = 1\ncap_ms = 20");
    env.config(&config);
    let ran =
        env.run(&["run", "look at everything", "--max-steps", "none", "--max-usd", "5", "--sandbox", "none"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "all of it is done\n"), "{ran}");
    nothing_lost(&env);
    entries(&env)
}

fn key(data: &Value) -> (u64, u64) {
    (data["call"].as_u64().unwrap(), data["attempt"].as_u64().unwrap_or(1))
}

#[test]
fn a_thousand_calls_in_a_storm_each_end_once_and_are_paid_once() {
    let counted = Counted::default();
    let server = {
        let counted = Arc::clone(&counted);
        Server::start(move |request, n| answer(request, n, &counted))
    };
    let url = server.url();
    let logs: Vec<Vec<Value>> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..SESSIONS).map(|_| scope.spawn(|| session(&url))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let (mut calls, mut answers, mut input, mut output, mut money) = (0, 0, 0, 0, 0);
    for log in &logs {
        let ordered: Vec<_> = all(log, "model_called").iter().map(|(_, data)| key(data)).collect();
        let mut ends: Vec<_> = [all(log, "model_answered"), all(log, "model_failed")].concat();
        ends.sort_by_key(|(_, data)| key(data));
        let ended: Vec<_> = ends.iter().map(|(_, data)| key(data)).collect();
        let mut expected = ordered.clone();
        expected.sort_unstable();
        assert_eq!(ended, expected, "each attempt has one end");
        expected.dedup();
        assert_eq!(expected.len(), ordered.len(), "no attempt is in the log twice");
        // The reservation before a settlement is that of the same attempt.
        let mut reserved: BTreeMap<u64, u64> = BTreeMap::new();
        let mut settled = 0;
        for event in log.iter().flat_map(|entry| entry["events"].as_array().unwrap()) {
            let data = &event["data"];
            match event["kind"].as_str().unwrap() {
                "budget_reserved" => {
                    let before = reserved.insert(key(data).0, data["micro_usd"].as_u64().unwrap());
                    assert_eq!(before, None, "nothing is set aside twice");
                }
                "budget_settled" => {
                    let most = reserved.remove(&key(data).0).expect("something was set aside");
                    let cost = data["micro_usd"].as_u64().unwrap();
                    assert!(cost <= most, "{data} of {most}");
                    settled += 1;
                    if data["usage"].get("estimated") != Some(&json!(true)) {
                        money += cost;
                        input += data["usage"]["input"].as_u64().unwrap_or(0);
                        output += data["usage"]["output"].as_u64().unwrap_or(0);
                    }
                }
                _ => {}
            }
        }
        assert_eq!((settled, reserved.len()), (ordered.len(), 0), "every attempt is settled");
        answers += all(log, "model_answered").len();
        calls += ordered.len();
    }
    assert_eq!(calls, server.requests().len(), "the log holds what the server got");
    assert!(calls > 1000, "{calls}");
    assert_eq!((answers, input, output), *counted.lock().unwrap(), "the server's own count");
    // A dollar per million tokens of input, two of output.
    assert_eq!(money, input + 2 * output);
}

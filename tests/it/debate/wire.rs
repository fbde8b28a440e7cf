//! What a debate sends and when, as a server sees it: overlap, sealing, names, and how requests grow.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::command::{answer, env, persona_words, schema};
use crate::support::panel::{Asked, DEBATERS, asked_by, marker, statement};
use crate::support::server::{Reply, Server};

fn asked(body: &Value) -> Asked {
    asked_by(&schema(body))
}

/// Everything a request says but who the asked persona is: its own words about itself, and the ballot it wrote.
fn about_others(body: &Value) -> String {
    let mut body = body.clone();
    let messages = body["messages"].as_array_mut().unwrap();
    messages.retain(|message| message["role"] != "system");
    let mut words = body.to_string();
    if let Some(start) = words.find("# Your last ballot") {
        let end = words[start..].find("# Peer A").map_or(words.len(), |end| start + end);
        words.replace_range(start..end, "");
    }
    words.to_lowercase()
}

/// The persona a request is for, by its own text.
fn persona(body: &Value) -> &'static str {
    let system = body["messages"][0].to_string();
    DEBATERS.iter().find(|id| system.contains(persona_words(id))).copied().unwrap_or("moderator")
}

#[test]
fn all_six_calls_of_a_phase_are_under_way_at_once() {
    // No debater is answered before six are asked: one call less at once, and nobody ever gets an answer.
    let barrier = Arc::new(Barrier::new(6));
    let server = Server::start(move |request, _| match asked(request) {
        Asked::Propositions | Asked::Verdict => answer(request),
        Asked::Ballot | Asked::Ratings | Asked::Statement => answer(request).together(&barrier),
    });
    let ran = env(&server).run(&["debate", "Shall we build it?", "--rounds", "2"]);
    assert_eq!(ran.code, 0, "{ran}");
    let order: Vec<Asked> = server.bodies().iter().map(asked).collect();
    let expected = [
        vec![Asked::Ballot; 6],
        vec![Asked::Propositions],
        vec![Asked::Ratings; 6],
        vec![Asked::Statement; 6],
        vec![Asked::Verdict],
    ];
    assert_eq!(order, expected.concat(), "and no set begins before the one before is whole");
}

#[test]
fn sealed_requests_hold_no_words_of_others_and_open_ones_no_names() {
    let server = Server::start(|request, _| answer(request));
    let ran = env(&server).run(&["debate", "Shall we build it?", "--rounds", "3"]);
    assert_eq!(ran.code, 0, "{ran}");
    let mut read = 0;
    for body in server.bodies() {
        let (who, what) = (persona(&body), asked(&body));
        let words = about_others(&body);
        let others = DEBATERS.iter().filter(|id| **id != who);
        let heard = others.clone().filter(|id| words.contains(&marker(id))).count();
        match what {
            Asked::Ballot | Asked::Ratings => assert_eq!(heard, 0, "{who}: {words}"),
            Asked::Statement => assert_eq!(heard, 5, "{who} reads its five peers: {words}"),
            Asked::Propositions | Asked::Verdict => assert_eq!(heard, 6, "{words}"),
        }
        for id in DEBATERS {
            let spaced = id.replace('-', " ");
            assert!(!words.contains(id) && !words.contains(&spaced), "`{id}` is named to {who}: {words}");
        }
        read += heard;
    }
    assert_eq!(read, 6 + 2 * 6 * 5 + 6, "two open phases, and the moderator twice");
}

#[test]
fn what_is_sent_in_a_phase_does_not_grow_so_that_all_of_it_grows_with_the_phases() {
    let count = Mutex::new(0);
    let server = Server::start(move |request, _| match asked(request) {
        Asked::Statement => {
            // Somebody always moves a little, so that nothing ends it early.
            let mut count = count.lock().unwrap();
            *count += 1;
            let rating = if (*count - 1) / 6 % 2 == 0 { 2 } else { 1 };
            let who = persona(request);
            let side = if who == "pragmatist" { -rating } else { rating };
            Reply::text(&statement(who, &"at length ".repeat(60), &[side, 1]).to_string())
        }
        _ => answer(request),
    });
    let ran = env(&server).run(&["debate", "Shall we build it?", "--rounds", "8"]);
    assert_eq!(ran.code, 0, "{ran}");
    for id in DEBATERS {
        let bodies = server.bodies();
        let open = bodies.iter().filter(|body| persona(body) == id && asked(body) == Asked::Statement);
        // The phase that gathers evidence brings the tools' descriptions with it.
        let sizes: Vec<usize> =
            open.filter(|body| body.get("tools").is_none()).map(|body| body.to_string().len()).collect();
        assert_eq!(sizes.len(), 6, "{id}: {sizes:?}");
        let (second, last) = (sizes[1], sizes[5]);
        assert!(last.abs_diff(second) * 10 < second, "{id}, phase by phase: {sizes:?}");
    }
}

#[test]
fn a_refusal_a_bad_ballot_and_a_limit_of_the_provider_are_told_as_what_they_are() {
    let server = Server::start(|request, _| match (persona(request), asked(request)) {
        ("elegance-purist", Asked::Statement) => Reply::text("I would rather not say."),
        ("future-architect", Asked::Statement) => {
            let error = json!({"error": {"message": "your plan allows 3 a minute", "type": "rate_limit"}});
            Reply::status(429, &error.to_string()).header("content-type", "application/json")
        }
        ("devils-advocate", Asked::Statement) => Reply::deltas([json!({"refusal": "I cannot argue that."})]),
        _ => answer(request),
    });
    let env = env(&server);
    env.config(&format!(
        "model = \"mock/any\"\n[retry]\nattempts = 2\nbase_ms = 1\ncap_ms = 1\n[providers.mock]\nkind = \"openai\"\nbase_url = \"{}\"\n",
        server.url()
    ));
    let ran = env.run(&["debate", "Shall we build it?", "--rounds", "2"]);
    assert_eq!(ran.code, 0, "half a panel is a panel: {ran}");
    let shown = env.run(&["debates", "show", "latest", "--json"]);
    let report: Value = serde_json::from_str(&shown.stdout).unwrap();
    let why = |id: &str| {
        let absences = report["absences"].as_array().unwrap();
        let one = absences.iter().find(|one| one["persona"] == id).unwrap_or_else(|| panic!("{id}: {ran}"));
        one["why"].as_str().unwrap().to_owned()
    };
    assert!(why("elegance-purist").starts_with("the answer did not fit its schema"), "{report}");
    assert!(why("future-architect").starts_with("rate limited: "), "{report}");
    assert!(why("future-architect").contains("3 a minute"), "{report}");
    assert_eq!(why("devils-advocate"), "the model refused");
    for form in ["md", "html"] {
        let page = env.run(&["debates", "report", "latest", "--format", form]).stdout;
        assert!(page.contains("your plan allows 3 a minute") && page.contains("the model refused"), "{page}");
    }
}

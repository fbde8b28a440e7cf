//! `agon debate` through the real program: against a server, from the built-in script, and with bad input.

use serde_json::{Value, json};

use crate::support::env::Env;
use crate::support::panel::{Asked, DEBATERS, asked_by, ballot, ratings, statement, verdict};
use crate::support::server::{Reply, Server};

pub(super) fn env(server: &Server) -> Env {
    let env = Env::new();
    env.config(&format!(
        "model = \"mock/any\"\n[providers.mock]\nkind = \"openai\"\nbase_url = \"{}\"\n",
        server.url()
    ));
    env
}

/// The schema in a request's brief, or in its response format.
pub(super) fn schema(request: &Value) -> Value {
    if let Some(schema) = request.pointer("/response_format/json_schema/schema") {
        return schema.clone();
    }
    if let Some(Value::Array(tools)) = request.get("tools")
        && let Some(forced) = tools.iter().find(|tool| tool["function"]["name"] == "answer")
    {
        return forced["function"]["parameters"].clone();
    }
    let text = |message: &Value| match &message["content"] {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<String>(),
        content => content.as_str().unwrap_or_default().to_owned(),
    };
    let messages = request["messages"].as_array().expect("messages");
    let found = messages.iter().rev().find_map(|message| {
        let text = text(message);
        let (_, schema) = text.split_once("fitting this JSON Schema:\n")?;
        serde_json::from_str(schema).ok()
    });
    found.expect("a schema")
}

pub(super) fn answer(request: &Value) -> Reply {
    let system = request["messages"][0].to_string();
    let role = DEBATERS.iter().find(|id| system.contains(persona_words(id))).copied().unwrap_or("moderator");
    let side: i8 = if matches!(role, "pragmatist" | "devils-advocate") { 2 } else { -2 };
    let value = match asked_by(&schema(request)) {
        Asked::Ballot => ballot(role, "mine"),
        Asked::Propositions => json!({"propositions": ["It should be built.", "It should be tested."]}),
        Asked::Ratings => json!({"ratings": ratings(&[side, 1])}),
        Asked::Statement => statement(role, "later", &[side, 1]),
        Asked::Verdict => verdict(&["upheld", "upheld"]),
    };
    Reply::text(&value.to_string()).delay_ms(20)
}

/// Words only one persona's text has.
pub(super) fn persona_words(id: &str) -> &'static str {
    match id {
        "pragmatist" => "on call for them",
        "security-maximalist" => "explain the breach",
        "performance-extremist" => "how long a person has to wait",
        "elegance-purist" => "as their reader",
        "future-architect" => "the ways they open and close",
        _ => "trying to break them",
    }
}

#[test]
fn the_calls_of_a_phase_are_made_at_once_over_http() {
    let server = Server::start(|request, _| answer(request));
    let env = env(&server);
    let ran = env.run(&["debate", "Shall we build it?", "--rounds", "2"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("sealed majority: against, verdict: upheld, differs"), "{ran}");
    // A kept connection is used again as soon as it is free: six of them means that six calls overlapped.
    assert!(server.connections() >= 6, "{} connections", server.connections());
    let bodies = server.bodies();
    assert_eq!(bodies.len(), 6 + 1 + 6 + 6 + 1);
    for body in &bodies[..6] {
        let words = body["messages"].to_string();
        assert_eq!(
            DEBATERS.iter().filter(|id| words.contains(persona_words(id))).count(),
            1,
            "alone: {words}"
        );
    }
    let verified = env.run(&["verify", "latest"]);
    assert_eq!(verified.code, 0, "{verified}");
}

#[test]
fn a_call_that_waits_for_its_place_does_not_run_out_of_time() {
    let server = Server::start(|request, _| answer(request).delay_ms(100));
    let env = env(&server);
    let before = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.config(&format!("{before}concurrent_calls = 1\n[limits]\nmodel_timeout_ms = 500\n"));
    let ran = env.run(&["debate", "Shall we build it?", "--rounds", "2"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(
        server.bodies().len(),
        6 + 1 + 6 + 6 + 1,
        "six calls of 100 ms, one after another, none twice"
    );
    // A kept connection may not be back yet when the next call starts.
    assert!(server.connections() < 6, "{} connections", server.connections());
}

#[test]
fn the_demo_shows_a_flip_a_minority_and_a_verdict_against_the_vote() {
    let env = Env::new();
    let ran = env.run(&["demo", "debate"]);
    assert_eq!(ran.code, 0, "{ran}");
    for expected in [
        "Confidence: 80\u{a0}%, 6 of 6 heard",
        "sealed majority: against, verdict: upheld, differs",
        "A plain vote would have said otherwise on P1, and was tied on P2.",
        "pragmatist, P1 \u{2212}1 \u{2192} +1, in evidence assessment",
        "had said it would move if: One input for which it prints a wrong number",
        "performance-extremist, against the verdict on P1 [e32]",
        "Open risks",
        "at most 3.8",
    ] {
        let flowing = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ").replace('\u{a0}', " ");
        assert!(
            flowing.contains(&expected.replace('\u{a0}', " ")),
            "`{expected}` is missing\n{}",
            ran.stdout
        );
    }
    assert!(
        !ran.stderr.contains("is no tool result"),
        "the cited result is the one that was read\n{}",
        ran.stderr
    );
    let verified = env.run(&["verify", "latest"]);
    assert_eq!(verified.code, 0, "{verified}");
    let shown = env.run(&["debates", "show", "latest"]);
    assert!(shown.code == 0 && shown.stdout.contains("Let minutes_of refuse"), "{shown}");
    assert_eq!(env.run(&["debates"]).stdout.lines().count(), 1);
}

#[test]
fn bad_input_is_bad_usage_and_names_what_is_wrong() {
    let server = Server::start(|_, _| Reply::text("never asked"));
    let env = env(&server);
    env.write("home/personas/broken.md", "---\ndescription: x\n");
    env.write("home/personas/oops.md", "---\ndescription: [oops\n---\nYou err.\n");
    env.write("work/empty.txt", "\n");
    for (arguments, expected) in [
        (
            vec!["debate", "x", "--personas", "pragmatist,securty-maximalist"],
            "did you mean `security-maximalist`?",
        ),
        (vec!["debate", "x", "--personas", "pragmatist"], "at least two"),
        (vec!["debate", "x", "--personas", "pragmatist,pragmatist"], "named twice"),
        (vec!["debate", "x", "--personas", "pragmatist,moderator"], "cannot debate and moderate"),
        (vec!["debate", "x", "--personas", "pragmatist,broken"], "not closed by a line `---`"),
        (vec!["debate", "x", "--rounds", "0"], "2..=12"),
        (vec!["debate", "x", "--rounds", "999"], "2..=12"),
        (vec!["debate", "x", "--scorer", "gut"], "ballots, lexical"),
        (vec!["debate", "x", "--with-model", "pragmatist"], "ID=PROVIDER/MODEL"),
        (vec!["debate", "x", "--with-model", "pragmatst=mock/a"], "did you mean `pragmatist`?"),
        (vec!["debate", "x", "--personas", ","], "`--personas` has an empty name"),
        (vec!["debate", "x", "--personas", "pragmatist,"], "`--personas` has an empty name"),
        (vec!["debate", "x", "--personas", "pragmatist,coder"], "`coder` does work in sessions and squads"),
        (vec!["debate", "x", "--moderator", "reviewer"], "`reviewer` does work in sessions and squads"),
        (
            vec!["debate", "x", "--personas", "pragmatist,oops"],
            "oops.md` cannot be used: line 2: a list that",
        ),
        (
            vec!["debate", "x", "--with-model", "pragmatist=mock/a", "--with-model", "pragmatist=mock/b"],
            "`pragmatist` is given two models: `mock/a` and `mock/b`",
        ),
        (vec!["debate"], "the topic is empty"),
        (vec!["debate", "@empty.txt"], "the topic is empty"),
        (vec!["debate", "@nowhere.txt"], "nowhere.txt"),
    ] {
        let ran = env.run(&arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {ran}");
        assert!(ran.stderr.contains(expected), "{arguments:?}: {ran}");
    }
    assert!(server.requests().is_empty(), "nothing was asked");
}

#[test]
fn a_persona_and_a_moderator_of_ones_own_take_part() {
    let server = Server::start(|request, _| answer(request));
    let env = env(&server);
    env.write("home/personas/gardener.md", "---\nid: gardener\n---\nYou think in seasons.\n");
    let ran = env.run(&["debate", "x", "--personas", "pragmatist,gardener", "--rounds", "2"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(server.bodies().iter().any(|body| body.to_string().contains("You think in seasons.")));
}

#[test]
fn a_topic_of_200_kilobytes_works_or_is_refused_clearly() {
    let server = Server::start(|request, _| answer(request));
    let env = env(&server);
    env.write("work/long.txt", &"A line about the question.\n".repeat(7600));
    let ran = env.run(&["debate", "@long.txt", "--rounds", "2", "--personas", "pragmatist,devils-advocate"]);
    assert!(ran.code == 0 || ran.stderr.contains("context window"), "{ran}");
    let told = ran.stdout.len() + ran.stderr.len();
    assert!(told < 30_000, "the topic is not told whole: {told} bytes\n{ran}");
}

#[test]
fn a_budget_that_cannot_pay_one_phase_ends_with_the_limit_and_no_call() {
    let server = Server::start(|_, _| Reply::text("never asked"));
    let ran = env(&server).run(&["debate", "x", "--max-tokens", "1000"]);
    assert_eq!(ran.code, 3, "{ran}");
    assert!(server.requests().is_empty());
}

#[test]
fn a_broken_persona_is_named_with_its_line_wherever_it_is_asked_for() {
    let env = Env::new();
    env.write("home/personas/gardener.md", "---\ndescription: [oops\n---\nYou err.\n");
    env.write("home/personas/quiet.md", "You say little.\n");
    let shown = env.run(&["personas", "show", "gardener"]);
    assert_eq!(shown.code, 2, "{shown}");
    assert!(shown.stderr.contains("personas/gardener.md` cannot be used: line 2: a list that"), "{shown}");
    for near in ["gardner", "gardeners"] {
        let shown = env.run(&["personas", "show", near]);
        assert!(shown.code == 2 && shown.stderr.contains("did you mean `gardener`?"), "{shown}");
    }
    let list = env.run(&["personas"]);
    assert!(list.stdout.contains("quiet                  no description  ("), "{list}");
    assert!(
        list.stdout.contains("pragmatist ") && list.stderr.contains("gardener.md"),
        "the others load: {list}"
    );
}

#[test]
fn bad_numbers_and_places_are_told_as_what_they_are() {
    let env = Env::new();
    for (flag, wrong) in [
        ("--max-usd", "`-1` is not a number of 0 or more"),
        ("--max-tokens", "it must be a whole number of 1 or more"),
    ] {
        let ran = env.run(&["debate", "x", flag, "-1"]);
        assert_eq!(ran.code, 2, "{ran}");
        assert!(ran.stderr.contains(wrong) && !ran.stderr.contains("-- -1"), "{ran}");
    }
    assert_eq!(env.run(&["demo", "debate"]).code, 0);
    let ran = env.run(&["debates", "report", "latest", "-o", "nowhere/a.html"]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("cannot write `nowhere/a.html`") && !ran.stderr.contains(".agon-"), "{ran}");
}

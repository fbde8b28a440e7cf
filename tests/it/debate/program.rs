//! `agon debate` and `agon debates` as a person uses them: limits, interrupts, lists, and what is said on the way.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::command::{answer, env, schema};
use crate::support::env::Env;
use crate::support::panel::{Asked, asked_by, ratings};
use crate::support::server::{Reply, Server};

fn asked(body: &Value) -> Asked {
    asked_by(&schema(body))
}

fn config(server: &Server, more: &str) -> String {
    format!(
        "model = \"mock/any\"\n{more}\n[providers.mock]\nkind = \"openai\"\nbase_url = \"{}\"\n",
        server.url()
    )
}

/// The limit of steps a debate was held under.
fn max_steps(env: &Env) -> Value {
    let log = env.run(&["sessions", "export", "latest"]).stdout;
    let opened: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    opened["events"][0]["data"]["spec"]["limits"]["max_steps"].clone()
}

#[test]
fn flags_count_more_than_the_environment_then_files_then_the_default() {
    let server = Server::start(|request, _| answer(request));
    let mut env = env(&server);
    let debate = ["debate", "x", "--rounds", "2", "--personas", "pragmatist,devils-advocate"];
    assert_eq!(env.run(&debate).code, 0);
    assert_eq!(max_steps(&env), json!(600), "a debate's own default");
    env.config(&config(&server, "[limits]\nmax_steps = 50"));
    assert_eq!(env.run(&debate).code, 0);
    assert_eq!(max_steps(&env), json!(50), "the configuration counts more than the default");
    env.set("AGON_MAX_STEPS", "40");
    assert_eq!(env.run(&debate).code, 0);
    assert_eq!(max_steps(&env), json!(40));
    let typed = [debate.as_slice(), &["--max-steps", "1"]].concat();
    let ran = env.run(&typed);
    assert_eq!((ran.code, max_steps(&env)), (3, json!(1)), "{ran}");
    assert!(
        ran.stderr.contains("not one phase can be paid: what comes next may bring it to 2 of 1"),
        "{ran}"
    );
    assert!(ran.stderr.contains("--max-steps") && ran.stderr.contains("; or ask fewer: --personas"), "{ran}");
}

pub(super) fn waits_for(what: impl Fn() -> bool) {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !what() {
        assert!(std::time::Instant::now() < patience, "it never came");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn an_interrupt_shows_what_was_reached_and_the_command_it_names_goes_on_from_there() {
    for (stalls, expected) in [
        (Asked::Ballot, "There is no verdict (stopped)"),
        (Asked::Propositions, "What they held\n  pragmatist 70\u{a0}% sure"),
        (Asked::Ratings, "P1  It should be built.\n"),
        (Asked::Statement, "sealed majority: tied\n"),
        (Asked::Verdict, "Did they converge?"),
    ] {
        let patient = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let later = std::sync::Arc::clone(&patient);
        let server = Server::start(move |request, _| match asked(request) == stalls {
            true if !later.load(std::sync::atomic::Ordering::SeqCst) => Reply::text("never").stall_after(0),
            _ => answer(request),
        });
        let env = env(&server);
        let debate = ["debate", "x", "--rounds", "2", "--personas", "pragmatist,elegance-purist"];
        let child = env.command(&debate).spawn().unwrap();
        waits_for(|| server.bodies().iter().any(|body| asked(body) == stalls));
        // A terminal that is closed asks for the end as Ctrl-C does.
        let signal = if stalls == Asked::Ratings { Signal::HUP } else { Signal::INT };
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{stalls:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(expected), "{stalls:?}: {told}");
        assert!(!told.contains("Who was missing"), "nobody is missed because all was stopped: {told}");
        assert_eq!(output.stdout, b"", "{stalls:?}");
        patient.store(true, std::sync::atomic::Ordering::SeqCst);
        let (_, hint) = told.split_once("in a copy: agon ").unwrap_or_else(|| panic!("{told}"));
        let words: Vec<&str> = hint.lines().next().unwrap_or_default().split_whitespace().collect();
        assert_eq!(words[..2], ["debate", "--resume"], "the whole rest of the line is the command: {told}");
        let before = server.bodies().len();
        let forked = env.run(&words);
        assert_eq!(forked.code, 0, "{stalls:?}: {forked}");
        let bodies = server.bodies();
        let again = bodies[before..].iter().filter(|body| asked(body) == stalls).count();
        let of_moderator = matches!(stalls, Asked::Propositions | Asked::Verdict);
        assert_eq!(again, if of_moderator { 1 } else { 2 }, "{stalls:?}: each is asked again once: {forked}");
        assert!(!bodies.iter().any(|body| body.to_string().contains("copy of an earlier one")), "{stalls:?}");
        assert!(forked.stderr.contains('\u{2264}'), "what was cut off is counted: {forked}");
        assert!(forked.stdout.contains("Do it, behind a switch."), "{forked}");
        assert_eq!(env.run(&["verify", "latest"]).code, 0, "{stalls:?}");
    }
}

#[test]
fn a_debate_that_was_killed_is_taken_up_where_it_was() {
    let patient = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let later = std::sync::Arc::clone(&patient);
    let server = Server::start(move |request, _| match asked(request) {
        Asked::Statement if !later.load(std::sync::atomic::Ordering::SeqCst) => {
            Reply::text("never").stall_after(0)
        }
        _ => answer(request),
    });
    let env = env(&server);
    let debate = ["debate", "x", "--rounds", "2", "--personas", "pragmatist,elegance-purist"];
    let mut child = env.command(&debate).spawn().unwrap();
    // Both, or the server might read the second only after the kill.
    waits_for(|| server.bodies().iter().filter(|body| asked(body) == Asked::Statement).count() == 2);
    child.kill().unwrap();
    child.wait().unwrap();
    patient.store(true, std::sync::atomic::Ordering::SeqCst);
    let before = server.bodies().len();
    let ran = env.run(&["debate", "--resume", "latest"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("Do it, behind a switch."), "{ran}");
    let again: Vec<Asked> = server.bodies()[before..].iter().map(asked).collect();
    assert_eq!(again, [Asked::Statement, Asked::Statement, Asked::Verdict], "no ballot is asked for again");
}

#[test]
fn the_list_is_a_line_of_80_columns_for_each_of_ten_debates() {
    let server = Server::start(|request, _| match asked(request) {
        // All alike: not worth a debate, so that ten of them are quick.
        Asked::Ratings => Reply::text(&json!({"ratings": ratings(&[1, 1])}).to_string()),
        _ => answer(request),
    });
    let env = env(&server);
    for n in 0..10 {
        let topic = format!("Question {n}, which is too long to stand whole in a list of eighty columns?");
        let ran = env.run(&["debate", &topic, "--rounds", "2", "--personas", "pragmatist,elegance-purist"]);
        assert_eq!(ran.code, 0, "{ran}");
    }
    let list = env.run(&["debates", "list"]);
    assert_eq!((list.code, list.stderr.as_str()), (0, ""), "{list}");
    let lines: Vec<&str> = list.stdout.lines().collect();
    assert_eq!(lines.len(), 10);
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{list}");
    assert!(lines.iter().all(|line| line.contains("  verdict 75\u{a0}%  2/2 heard  Question ")), "{list}");
    assert!(lines[0].contains("Question 9") && lines[9].contains("Question 0"), "newest first: {list}");
    let ids: std::collections::BTreeSet<&str> = lines.iter().map(|line| &line[..13]).collect();
    assert_eq!(ids.len(), 10, "each line begins with enough of its id: {list}");
    let first = lines[3].split(' ').next().unwrap();
    let shown = env.run(&["debates", "show", first]);
    assert_eq!(shown.code, 0, "{shown}");
    assert!(shown.stdout.starts_with("Question 6, which is too long"), "{shown}");
    assert!(shown.stdout.contains("Not worth a debate: all 2 sealed ratings"), "{shown}");
    let report = env.run(&["debates", "report", first, "-o", "page.html"]);
    assert_eq!(report.code, 0, "{report}");
    let page = std::fs::read_to_string(env.work().join("page.html")).unwrap();
    assert!(page.contains("Question 6") && page.contains("Not worth a debate"), "{page}");
    let json: Value = serde_json::from_str(&env.run(&["debates", "list", "--json"]).stdout).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 10);
    assert_eq!(json[3]["question"].as_str().unwrap().split(',').next(), Some("Question 6"));
}

#[test]
fn what_is_told_live_is_calm_and_opens_no_sealed_ballot() {
    let env = Env::new();
    let ran = env.run(&["demo", "debate", "--workspace", "place"]);
    assert_eq!(ran.code, 0, "{ran}");
    let told = ran.stderr;
    // The score of the sealed ratings stands before the reveal, as in the log, and is told with it.
    let (sealed, open) = told.split_once(" score ").unwrap();
    assert!(open.lines().nth(1).unwrap().contains(" reveal "), "{open}");
    for words in ["Leave it", "P1 +", "P1 \u{2212}", "% sure", "% agreed", "would say"] {
        assert!(!sealed.contains(words), "`{words}` before the ballots are revealed: {sealed}");
    }
    assert_eq!(sealed.matches("cast, sealed").count(), 12, "six ballots, six ratings: {sealed}");
    assert!(!told.contains("\"position\"") && !told.contains("{"), "nobody reads JSON: {told}");
    for words in [
        "pragmatist             holds     P1 \u{2212}1  P2 \u{2212}1  65\u{a0}% sure\n        Leave it as it is",
        "changed on P1: The file shows arithmetic on the raw fields.",
        "pragmatist changed sides on P1, \u{2212}1 \u{2192} +1",
        "score     73\u{a0}% agreed",
        "P1 upheld, P2 rejected. A plain vote would have said otherwise on",
    ] {
        assert!(open.contains(words), "`{words}` is missing: {open}");
    }
    let phases: Vec<&str> = told
        .split("\n\n")
        .skip(1)
        .filter_map(|part| part.lines().next()?.split(" phase ").nth(1).map(str::trim))
        .collect();
    assert_eq!(
        phases,
        ["initial analysis", "counterarguments", "evidence assessment", "synthesis", "verdict"]
    );
    let story = &told[told.find(" question").unwrap()..told.find("\ndone \u{b7} ").unwrap()];
    let wide: Vec<&str> = story.lines().skip(1).filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "wider than a terminal: {wide:#?}");
    let replayed = env.run(&["replay", "latest"]).stdout;
    assert!(replayed.contains("Let minutes_of refuse whatever is not two digits"), "a replay has no summary");
    assert!(!replayed.contains("\"position\""), "{replayed}");
}

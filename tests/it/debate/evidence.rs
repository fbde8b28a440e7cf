//! What a debate's reports say of themselves: citations that lead nowhere, how many were heard, what was reached,
//! and the same names in every form.

use agon::projection::Report;
use agon::projection::report::{html, markdown, plain};
use agon::protocol::event::*;
use agon::protocol::message::Finish;
use serde_json::{Value, json};

use super::{closed, held, interrupted, probes};
use crate::support::panel::*;
use crate::support::world::*;

/// The forms of a report: terminal, Markdown, HTML, JSON.
pub(super) fn forms(world: &World) -> (String, String, String, Value) {
    let report = Report::of(&world.log);
    let json = serde_json::to_value(report.debate().expect("a debate")).unwrap();
    (plain::page(&report), markdown::page(&report, None), html::page(&report, None), json)
}

/// Words as they are said, wherever a line ends.
pub(super) fn flowing(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) fn refused() -> ModelReply {
    reply(vec![], Finish::Refused)
}

#[test]
fn evidence_that_does_not_exist_is_marked_at_the_citation_in_every_form() {
    let world = held(3, 2, &mut |role, asked| match asked {
        Asked::Verdict => {
            let mut said = verdict(&["upheld", "open"]);
            said["rulings"][0]["evidence"] = json!(["e9999", "[e1]", "src/main.rs", ""]);
            said["rulings"][0]["because"] = json!("The file says so [e8888].");
            text(&said.to_string())
        }
        Asked::Statement => {
            let mut said = statement(role, "later", &[2, 1]);
            said["ballot"]["evidence"] = json!([{"reference": "e7777", "shows": "what nobody saw"}]);
            text(&said.to_string())
        }
        Asked::Ratings if role == "pragmatist" => text(&json!({"ratings": ratings(&[-1, 1])}).to_string()),
        _ => stubborn(role, asked),
    });
    let (plain, markdown, html, json) = forms(&world);
    let plain = flowing(&plain);
    for words in
        ["[e9999: not in this log]", "[e1: no tool result of this debate]", "[“src/main.rs”: names no event]"]
    {
        assert!(plain.contains(words), "{words}: {plain}");
    }
    assert!(
        plain.contains("[e8888: not in this log]") && html.contains("[e8888: not in this log]"),
        "{plain}"
    );
    for words in ["(#e9999) **(not in this log)**", "(#e1) **(no tool result of this debate)**"] {
        assert!(markdown.contains(words), "{words}: {markdown}");
    }
    for words in [
        "href=\"#e9999\">e9999</a> <small class=\"doubt\">not in this log</small>",
        "<q class=\"ref\">src/main.rs</q> <small class=\"doubt\">names no event</small>",
        "href=\"#e7777\">e7777</a> <small class=\"doubt\">not in this log</small>",
    ] {
        assert!(html.contains(words), "{words}: {html}");
    }
    let standing = |cited: &Value| cited["standing"].as_str().unwrap_or_default().to_owned();
    let cited = json["propositions"][0]["evidence"].as_array().unwrap();
    let all: Vec<String> = cited.iter().map(standing).collect();
    assert_eq!(all, ["not_in_log", "no_tool_result", "no_reference"], "an empty reference cites nothing");
    assert_eq!(standing(&json["phases"][1]["stands"][0]["evidence"][0]["cites"]), "not_in_log");
    let flags: Vec<String> = world.events().into_iter().filter_map(flag).collect();
    assert_eq!(flags.len(), 3 + 1, "one for each ballot, one for the ruling: {flags:#?}");
    let of_ruling = &flags[3];
    assert!(
        of_ruling.starts_with("the ruling on P1 cites `e9999`, `[e1]`, `src/main.rs`, which are no"),
        "{flags:?}"
    );
}

fn flag(event: ArenaEvent) -> Option<String> {
    match event {
        ArenaEvent::ClaimFlagged(data) => Some(data.reason),
        _ => None,
    }
}

#[test]
fn two_of_six_heard_stands_beside_the_verdict() {
    let world = held(6, 2, &mut |role, asked| match (asked, role) {
        (Asked::Ballot, "pragmatist" | "performance-extremist") => stubborn(role, asked),
        (Asked::Ballot, _) => refused(),
        _ => stubborn(role, asked),
    });
    let (plain, markdown, html, json) = forms(&world);
    assert!(plain.contains("Confidence: 75\u{a0}%, 2 of 6 heard\n"), "{plain}");
    assert!(markdown.contains("Confidence: **75\u{a0}%**, 2 of 6 heard\n"), "{markdown}");
    let fact = html.split_once(" id=\"sure\"").expect("how many were heard").1;
    assert!(
        html.contains("<div class=\"fact warn\" id=\"sure\"") && fact.contains("<p>2 of 6 heard</p>"),
        "{html}"
    );
    assert_eq!(json["heard"], json!({"of": 6, "ever": 2, "to_the_end": 2}));
}

#[test]
fn a_voice_that_rates_for_the_first_time_is_news_and_no_standstill() {
    let world = held(6, 12, &mut |role, asked| match (asked, role) {
        (Asked::Ratings, "security-maximalist" | "performance-extremist") => stubborn(role, asked),
        (Asked::Ratings, _) => refused(),
        _ => stubborn(role, asked),
    });
    // Four voices rate for the first time after the second phase; the third and the fourth stand still.
    assert_eq!(probes(&world).len(), 4, "{}", world.story());
    assert_eq!(probes(&world)[1].movement_pm, Some(0));
}

#[test]
fn what_the_moderator_fails_in_is_named_and_not_the_phase_before() {
    for (fails, step) in [(Asked::Verdict, "verdict"), (Asked::Propositions, "propositions")] {
        let world =
            held(3, 2, &mut |role, asked| if asked == fails { refused() } else { stubborn(role, asked) });
        let report = Report::of(&world.log);
        let absence = &report.debate().unwrap().absences[0];
        assert_eq!((absence.persona.as_str(), absence.phase.as_deref()), ("moderator", Some(step)));
    }
}

#[test]
fn what_a_stopped_debate_reached_is_in_every_form() {
    for (sets, rated) in [(1, false), (2, false), (3, true), (4, true)] {
        let world = interrupted(sets);
        assert_eq!(closed(&world).cause, TurnCause::Interrupted);
        let (plain, markdown, html, _) = forms(&world);
        for (form, heading) in [
            (&plain, "What they held\n"),
            (&markdown, "## What they held\n"),
            (&html, "<h2>What they held</h2>"),
        ] {
            assert!(form.contains(heading) && form.contains(&marker("pragmatist")), "{sets}: {form}");
            assert!(form.contains("6 of 6 heard"), "{sets}: {form}");
            let (shown, said) =
                (form.contains("Where they stood"), form.contains("Where they stood cannot be"));
            assert!(shown && said != rated, "{sets}: {form}");
        }
    }
}

#[test]
fn early_stop_is_told_in_numbers_one_can_read() {
    let mut spec = debate_spec();
    spec.limits.max_tokens = Some(21_000);
    let mut world = World::open(spec);
    world.give(debate_prompt("Shall we?", plan(6, 4)));
    world.debate_to_the_end(&mut |role, asked| {
        let mut said = stubborn(role, asked);
        said.usage.input = 500;
        said
    });
    let told = flowing(&forms(&world).0);
    assert!(told.contains("the limit is 21,000 tokens"), "{told}");
    assert!(told.contains("counterarguments could bring the session to "), "{told}");
}

#[test]
fn propositions_have_the_same_names_in_json_as_in_words() {
    let world = held(4, 2, &mut stubborn);
    let (plain, _, _, json) = forms(&world);
    assert!(plain.contains("  P1  It should be built."), "{plain}");
    assert_eq!(json["propositions"][0]["name"], "P1");
    assert_eq!(json["phases"][0]["stands"][0]["ratings"][1]["proposition"], "P2");
    assert_eq!(json["minority"][0]["propositions"], json!(["P1"]));
}

#[test]
fn typed_answers_can_be_read_in_markdown() {
    let markdown = forms(&held(3, 2, &mut stubborn)).1;
    let (_, log) = markdown.split_once("## From the log").unwrap();
    assert!(log.contains("```text\n{\n  \"position\": \"first"), "{log}");
    assert!(!log.contains("would\\_change") && !log.contains("\\["), "nothing in it is escaped: {log}");
}

#[test]
fn a_question_of_200_kilobytes_is_a_head_with_its_size() {
    let mut world = World::open(debate_spec());
    let question = "Shall we do it?\n".to_owned() + &"A line about the question.\n".repeat(7_600);
    world.give(debate_prompt(&question, plan(2, 2)));
    world.panel_says(&mut |_, _| refused());
    world.panel_says(&mut |_, _| refused());
    let (plain, markdown, html, json) = forms(&world);
    for form in [&plain, &markdown] {
        assert!(form.len() < 12_000, "{} bytes: {form}", form.len());
        assert!(form.contains("The question has 205,215 bytes; this is its beginning."), "{form}");
    }
    assert!(html.contains("<details class=\"whole\"><summary>the whole text"), "the page folds it away");
    assert_eq!(json["question"].as_str().map(str::len), Some(question.len()));
}

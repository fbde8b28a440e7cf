//! What was not voted on is neither decided, nor agreed, nor disagreed: in the events and in every form of a report.

use agon::projection::Report;
use agon::protocol::event::*;
use serde_json::{Value, json};

use super::evidence::{flowing, forms, refused};
use super::{closed, held, interrupted, probes};
use crate::support::panel::*;
use crate::support::world::*;

/// Sealed and later ratings of these voices alone; the moderator gives its verdict or fails.
fn rated_by(raters: &'static [&'static str], with_verdict: bool) -> World {
    held(3, 2, &mut move |role, asked| match asked {
        Asked::Ratings | Asked::Statement if !raters.contains(&role) => refused(),
        Asked::Verdict if !with_verdict => refused(),
        _ => stubborn(role, asked),
    })
}

#[test]
fn nobody_rated_and_no_moderator_decide_nothing_and_every_form_says_so() {
    for (raters, why) in [
        (&[] as &[&str], "nobody had cast a sealed vote that could stand in for one"),
        (&["pragmatist"], "only one had cast a sealed vote, which is no majority"),
    ] {
        let world = rated_by(raters, false);
        assert_eq!((closed(&world).cause, world.count("verdict_reached")), (TurnCause::Incomplete, 0));
        let (plain, markdown, html, json) = forms(&world);
        for form in [flowing(&plain), flowing(&markdown), flowing(&html)] {
            assert!(
                form.contains(&format!("Nothing was decided: the moderator gave no verdict, and {why}.")),
                "{form}"
            );
            for invented in
                ["stands in", "Nobody stands against", "plain vote", "0\u{a0}% sure", "for</span>", ": tied"]
            {
                assert!(!form.contains(invented), "{invented}: {form}");
            }
        }
        assert_eq!((&json["verdict"], &json["talk"]), (&Value::Null, &json!("unknown")));
        assert_eq!(json["state"], json!({"ended": "incomplete"}));
        assert_eq!(json["propositions"][0]["sealed_majority"], Value::Null, "no majority was made up");
    }
}

#[test]
fn a_vote_that_is_tied_on_everything_stands_in_for_no_verdict() {
    let world = held(2, 2, &mut |role, asked| match asked {
        Asked::Verdict => refused(),
        Asked::Ratings => {
            let side = if role == "pragmatist" { 2 } else { -2 };
            text(&json!({"ratings": ratings(&[side, -side])}).to_string())
        }
        _ => stubborn(role, asked),
    });
    assert_eq!((closed(&world).cause, world.count("verdict_reached")), (TurnCause::Incomplete, 0));
    let (plain, ..) = forms(&world);
    assert!(flowing(&plain).contains("the sealed vote was tied on everything."), "{plain}");
}

#[test]
fn a_vote_is_not_compared_with_itself_and_has_no_confidence() {
    let world = held(3, 2, &mut |role, asked| {
        if asked == Asked::Verdict { refused() } else { stubborn(role, asked) }
    });
    let (plain, markdown, html, json) = forms(&world);
    for form in [flowing(&plain), flowing(&markdown), flowing(&html)] {
        assert!(form.contains("This is the plain vote itself"), "{form}");
        assert!(!form.contains("would have said the same"), "{form}");
        assert!(!form.contains("Confidence **") && !form.contains("By the moderator, who"), "{form}");
        assert!(form.contains("against the sealed majority on P1"), "{form}");
    }
    assert_eq!((&json["talk"], &json["verdict"]["confidence_pm"]), (&json!("is_vote"), &Value::Null));
    assert!(!plain.contains(", verdict: ") && json["propositions"][0]["verdict"] == Value::Null, "{plain}");
}

#[test]
fn a_tied_vote_did_not_say_the_same() {
    for (second, talk, words) in [
        (0, "vote_tied", "A plain vote would have decided nothing: it was tied."),
        (1, "same_as_vote", "A plain vote would have said the same on the others, and was tied on P1."),
    ] {
        let world = held(2, 2, &mut |role, asked| match asked {
            Asked::Verdict => text(&verdict(&["open", "upheld"]).to_string()),
            Asked::Ratings | Asked::Statement => {
                let side = if role == "pragmatist" { 2 } else { -2 };
                let all = [side, if second == 0 { -side } else { 1 }];
                match asked {
                    Asked::Ratings => text(&json!({"ratings": ratings(&all)}).to_string()),
                    _ => text(&statement(role, "later", &all).to_string()),
                }
            }
            _ => stubborn(role, asked),
        });
        let (plain, markdown, html, json) = forms(&world);
        for form in [flowing(&plain), flowing(&markdown), flowing(&html)] {
            assert!(form.contains(words), "{form}");
        }
        assert_eq!(json["talk"], talk);
    }
}

#[test]
fn what_could_not_be_compared_is_not_measured_in_any_form() {
    for (raters, votes) in [(&[] as &[&str], Value::Null), (&["pragmatist"], json!(1000))] {
        let world = rated_by(raters, true);
        let probed = probes(&world);
        assert!(probed.iter().all(|probe| probe.score_pm.is_none() && probe.polarisation_pm.is_none()));
        let (plain, markdown, html, json) = forms(&world);
        for form in [&plain, &markdown, &html] {
            assert!(form.contains("not measured"), "{form}");
            assert_eq!(form.matches("not measured").count(), 2, "after each phase: {form}");
            // One voice that rated twice did move, by nothing; that is measured.
            for zero in ["| 0\u{a0}%", ">0\u{a0}%", "   0\u{a0}%"] {
                assert!(form.matches(zero).count() <= raters.len(), "{zero}: {form}");
            }
        }
        let probe = &json["phases"][0]["probe"];
        assert_eq!((&probe["score_pm"], &probe["agreement_pm"]), (&Value::Null, &json!([null, null])));
        assert_eq!(probe["effective_votes_pm"], votes);
        let nobody = flowing(&plain).contains("who stands against the verdict is not known");
        assert_eq!(nobody, raters.is_empty(), "{plain}");
    }
}

#[test]
fn an_empty_last_phase_does_not_undo_what_was_counted_and_only_voters_are_counted() {
    let world = held(4, 2, &mut |role, asked| match (asked, role) {
        (Asked::Ratings, "elegance-purist") | (Asked::Statement, _) => refused(),
        _ => stubborn(role, asked),
    });
    let (plain, markdown, html, _) = forms(&world);
    let words = "at most 1.4 when votes were last cast, in initial analysis, by 1 model family: ";
    for form in [flowing(&plain), flowing(&markdown), flowing(&html)] {
        assert!(form.contains(words) && form.contains(" (3)"), "three of four voted: {form}");
        assert!(!form.contains("at most 0.0"), "{form}");
    }
}

#[test]
fn whoever_is_missing_for_one_reason_in_many_phases_is_one_line() {
    let world = held(4, 4, &mut |role, asked| match (asked, role) {
        (Asked::Statement, "pragmatist" | "elegance-purist") => refused(),
        (Asked::Statement, _) => {
            text(&statement(role, "later", &[if role.len() > 20 { -1 } else { 2 }, 1]).to_string())
        }
        _ => stubborn(role, asked),
    });
    let absences = Report::of(&world.log).debate().unwrap().absences.len();
    assert!(absences >= 4, "{}", world.story());
    let (plain, markdown, html, json) = forms(&world);
    let phases = "in counterarguments, evidence assessment";
    assert_eq!(flowing(&plain).matches(phases).count(), 2, "each on one line: {plain}");
    assert_eq!(markdown.matches(&format!("** {phases}")).count(), 2, "{markdown}");
    assert_eq!(html.matches(&format!("</strong> {phases}")).count(), 2, "{html}");
    assert_eq!(json["absences"].as_array().unwrap().len(), absences, "programs get each");
}

#[test]
fn agreement_of_others_while_the_dissenter_is_absent_ends_nothing() {
    // The dissenter rates the sealed ballot against, and then falls silent.
    let world = held(4, 4, &mut |role, asked| match (asked, role) {
        (Asked::Ratings, "pragmatist") => text(&json!({"ratings": ratings(&[-2, -2])}).to_string()),
        (Asked::Statement, "pragmatist") => refused(),
        (Asked::Ratings, _) => text(&json!({"ratings": ratings(&[2, 1])}).to_string()),
        (Asked::Statement, _) => text(&statement(role, "yes", &[2, 1]).to_string()),
        _ => stubborn(role, asked),
    });
    let agreed: Vec<_> = probes(&world).iter().map(|probe| probe.score_pm >= Some(800)).collect();
    assert_eq!(agreed[1..3], [true, true], "those who spoke agree twice");
    let reasons: Vec<String> = world
        .events()
        .into_iter()
        .filter_map(|event| match event {
            ArenaEvent::DebateShortened(data) => Some(data.reason),
            _ => None,
        })
        .collect();
    assert!(reasons.iter().all(|reason| !reason.contains("agreement")), "{reasons:?}");
}

#[test]
fn a_gate_needs_the_ratings_of_all_who_have_a_ballot() {
    let world = held(3, 2, &mut |role, asked| match (asked, role) {
        (Asked::Ratings, "pragmatist") => refused(),
        (Asked::Ratings, _) => text(&json!({"ratings": ratings(&[2, 1])}).to_string()),
        _ => stubborn(role, asked),
    });
    assert_eq!(world.count("debate_gated"), 0, "the silent one may be the dissenter");
}

#[test]
fn what_stopped_calls_took_is_told_as_the_most_it_can_be() {
    let world = interrupted(3);
    let report = Report::of(&world.log);
    assert_eq!(report.session.total.cut_off, 6);
    let (plain, markdown, html, _) = forms(&world);
    for form in [flowing(&plain), flowing(&markdown), flowing(&html)] {
        assert!(form.contains("6 calls were cut off: what is marked \u{2264} is the most"), "{form}");
        assert!(form.contains("\u{2264}"), "{form}");
    }
    // The same log without its end, as after a kill.
    let stopped = |event: &ArenaEvent| matches!(event, ArenaEvent::InterruptRequested(_));
    let end = world.log.iter().position(|entry| entry.events.iter().any(stopped)).unwrap();
    let killed = Report::of(&world.log[..end]);
    assert_eq!(killed.session.total.cut_off, 6);
    assert_eq!(killed.session.total.output, report.session.total.output, "the same most");
}

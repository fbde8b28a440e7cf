//! Debates as a pure state machine: sealed, anonymous, bounded, and with an end whatever fails.

mod again;
mod chat;
mod command;
mod evidence;
mod examples;
pub mod golden;
mod limits;
mod program;
mod properties;
mod record;
mod refused;
mod scorers;
mod undecided;
mod wire;

use agon::protocol::ballot::names::named;
use agon::protocol::effect::OutcomeBody;
use agon::protocol::event::*;
use agon::protocol::message::{Finish, Usage};
use serde_json::json;

use crate::support::panel::*;
use crate::support::world::*;

fn open(n: usize, rounds: u32) -> World {
    let mut world = World::open(debate_spec());
    world.give(debate_prompt("Shall we build it?", plan(n, rounds)));
    world
}

fn held(n: usize, rounds: u32, says: &mut dyn FnMut(&str, Asked) -> ModelReply) -> World {
    let mut world = open(n, rounds);
    world.debate_to_the_end(says);
    world
}

/// Six debaters and three rounds, interrupted after some sets of calls.
fn interrupted(sets: usize) -> World {
    let mut world = open(6, 3);
    for _ in 0..sets {
        world.panel_says(&mut stubborn);
    }
    world.interrupt_debate();
    world
}

fn closed(world: &World) -> TurnClosed {
    world.session.last_turn().expect("a turn").clone()
}

fn verdict_reached(world: &World) -> VerdictReached {
    let found = world.events().into_iter().find_map(|event| match event {
        ArenaEvent::VerdictReached(data) => Some(data),
        _ => None,
    });
    found.expect("a verdict")
}

fn probes(world: &World) -> Vec<ConvergenceProbed> {
    let probe = |event| match event {
        ArenaEvent::ConvergenceProbed(data) => Some(data),
        _ => None,
    };
    world.events().into_iter().filter_map(probe).collect()
}

#[test]
fn a_debate_goes_through_its_phases_to_a_verdict() {
    let mut world = open(6, 3);
    let sets = world.debate_to_the_end(&mut stubborn);
    let sizes: Vec<usize> = sets.iter().map(Vec::len).collect();
    assert_eq!(sizes, [6, 1, 6, 6, 6, 1], "all calls of a phase at once");
    assert_eq!(
        world.phases(),
        ["initial-analysis", "counterarguments", "evidence-assessment", "verdict"],
        "{}",
        world.story()
    );
    assert_eq!(closed(&world).cause, TurnCause::Done);
    let verdict = verdict_reached(&world);
    assert_eq!((verdict.upheld, verdict.differs), (vec![1, 1], vec![0]), "the vote was against the first");
    assert_eq!(world.count("dissent_recorded"), 4);
    assert_eq!(world.count("ballots_revealed"), 1);
    assert_eq!(probes(&world).len(), 3);
    assert_eq!(probes(&world)[0].effective_votes_pm, Some(1500), "six voices of one model");
}

#[test]
fn first_ballots_and_first_ratings_are_made_alone() {
    let mut world = open(6, 2);
    let first = world.panel_says(&mut |role, asked| match role {
        // One answers something unusable: its repair is sealed as well.
        "pragmatist" => text("no json"),
        _ => stubborn(role, asked),
    });
    let repaired = world.panel_says(&mut stubborn);
    assert_eq!(repaired.len(), 1);
    for request in first.iter().chain(&repaired) {
        let words = said(request);
        for other in DEBATERS.iter().filter(|id| **id != request.spark) {
            assert!(!words.contains(&marker(other)), "{words}");
            assert!(!words.contains(other), "{words}");
        }
        assert!(!words.contains("Peer "), "{words}");
    }
    world.panel_says(&mut stubborn);
    for request in world.panel_says(&mut stubborn) {
        assert_eq!(asked(&request), Asked::Ratings);
        let words = said(&request);
        assert_eq!(words.matches("zq").count(), 1, "its own ballot and no other: {words}");
        assert!(words.contains("It should be built."));
    }
    assert_eq!(world.count("ballots_revealed"), 1, "revealed once all have rated, and not before");
}

#[test]
fn peers_have_letters_and_an_order_of_their_own_for_each_reader() {
    let mut world = open(6, 2);
    let sets = world.debate_to_the_end(&mut |role, asked| match asked {
        // Names in every spelling, and a letter of an earlier round.
        Asked::Ballot => text(
            &ballot(role, "as the Devil's Advocate and a security maximalist, unlike PRAGMATIST, say")
                .to_string(),
        ),
        _ => stubborn(role, asked),
    });
    for request in sets.iter().flatten().filter(|request| asked(request) != Asked::Ballot) {
        let mut words = said(request).to_lowercase();
        // What a debater wrote itself it may read again as it is.
        if let (Some(start), Some(_)) = (words.find("# your last ballot"), words.find("# peer a")) {
            let end = words.find("# peer a").unwrap_or(words.len());
            words.replace_range(start..end, "");
        } else if let Some(start) = words.find("# your last ballot") {
            words.truncate(start);
        }
        for id in DEBATERS {
            assert!(!words.contains(id) && !words.contains(&id.replace('-', " ")), "{id} in {words}");
        }
        assert!(!words.contains("devil"), "{words}");
    }
    let orders: Vec<RoundOpened> = world
        .events()
        .into_iter()
        .filter_map(|event| match event {
            ArenaEvent::RoundOpened(round) if round.ask == Ask::Statement => Some(round),
            _ => None,
        })
        .collect();
    let round = &orders[0];
    assert!(round.order.iter().all(|order| order.peers.len() == 5 && !order.peers.contains(&order.spark)));
    let firsts: std::collections::BTreeSet<_> = round.order.iter().map(|order| order.peers[0]).collect();
    assert!(firsts.len() > 1, "not everybody begins with the same peer");
    let letters = "Peer A against Peer E";
    let told = named(letters, round, round.order[0].spark);
    assert!(DEBATERS.iter().filter(|id| told.contains(**id)).count() == 2, "{told}");
}

#[test]
fn letters_of_a_peer_are_translated_for_each_reader() {
    let mut world = open(3, 3);
    let sets = world.debate_to_the_end(&mut |role, asked| match (role, asked) {
        ("pragmatist", Asked::Statement) => {
            text(&statement("pragmatist", "I mean Peer A here", &[2, 1]).to_string())
        }
        _ => stubborn(role, asked),
    });
    let rounds: Vec<RoundOpened> = world
        .events()
        .into_iter()
        .filter_map(|event| match event {
            ArenaEvent::RoundOpened(round) if round.ask == Ask::Statement => Some(round),
            _ => None,
        })
        .collect();
    let by = |round: &RoundOpened, name: &str| {
        round.debaters.iter().find(|one| one.name == name).map(|one| one.spark).expect("a debater")
    };
    let writer = by(&rounds[0], "pragmatist");
    let meant = rounds[0].order.iter().find(|order| order.spark == writer).expect("an order").peers[0];
    let last = &sets[sets.len() - 2];
    let mut told = 0;
    for request in last.iter().filter(|request| request.spark != "pragmatist") {
        let reader = by(&rounds[1], &request.spark);
        let order = rounds[1].order.iter().find(|order| order.spark == reader).expect("an order");
        let expected = match order.peers.iter().position(|peer| *peer == meant) {
            Some(0) => "I mean Peer A here",
            Some(_) => "I mean Peer B here",
            None => "I mean you here",
        };
        assert!(said(request).contains(expected), "{expected}: {}", said(request));
        told += 1;
    }
    assert_eq!(told, 2);
}

#[test]
fn what_a_debater_is_sent_does_not_grow_with_the_phases() {
    let mut world = open(6, 12);
    // Somebody always moves a little, so that nothing stops the debate early.
    let mut turn = 0;
    let sets = world.debate_to_the_end(&mut |role, asked| match asked {
        Asked::Statement => {
            turn += 1;
            let rating = if ((turn - 1) / 6) % 2 == 0 { 2 } else { 1 };
            let side = if role == "pragmatist" { -rating } else { rating };
            text(&statement(role, &"long ".repeat(100), &[side, 1]).to_string())
        }
        _ => stubborn(role, asked),
    });
    let sizes: Vec<usize> = sets
        .iter()
        .filter(|set| asked(&set[0]) == Asked::Statement)
        .map(|set| set.iter().map(|request| said(request).len()).max().unwrap_or_default())
        .collect();
    assert_eq!(sizes.len(), 11);
    let (second, last) = (sizes[1], sizes[10]);
    assert!(last.abs_diff(second) < second / 5, "phase by phase: {sizes:?}");
}

#[test]
fn a_debater_that_fails_is_absent_and_neither_a_vote_nor_a_text() {
    let mut says = |role: &str, asked| match role {
        "elegance-purist" | "future-architect" | "devils-advocate" => reply(vec![], Finish::Refused),
        _ => stubborn(role, asked),
    };
    let mut world = open(6, 2);
    let sets = world.debate_to_the_end(&mut says);
    assert_eq!(sets[2].len(), 3, "whoever has no ballot is not asked for ratings");
    assert_eq!(world.count("role_failed"), 3);
    assert_eq!(closed(&world).cause, TurnCause::Done, "half the panel is a panel");
    let revealed = world.events().into_iter().find_map(|event| match event {
        ArenaEvent::BallotsRevealed(data) => Some(data),
        _ => None,
    });
    let revealed = revealed.expect("revealed");
    assert_eq!((revealed.ballots.len(), revealed.majority), (3, vec![1, 1]));
    for request in sets.iter().flatten() {
        assert!(!said(request).contains("it failed") && !said(request).contains(&marker("elegance-purist")));
    }
}

#[test]
fn an_absence_in_a_later_phase_keeps_the_last_ballot_and_counts_no_vote() {
    let mut calls = 0;
    let mut world = open(3, 3);
    world.debate_to_the_end(&mut |role, asked| {
        if role == "pragmatist" && asked == Asked::Statement {
            calls += 1;
            if calls == 1 {
                return reply(vec![], Finish::Refused);
            }
        }
        stubborn(role, asked)
    });
    assert_eq!(calls, 2, "it is asked again in the next phase");
    let probes = probes(&world);
    assert_eq!(probes[1].effective_votes_pm, Some(1250), "two of three voices");
    assert_eq!(probes[2].effective_votes_pm, Some(1363));
}

#[test]
fn a_ballot_that_is_no_ballot_is_repaired_once_and_then_absent() {
    for bad in [
        "I would rather not say.".to_owned(),
        "{}".to_owned(),
        ballot("x", "y").to_string().replace("70", "170"),
        json!({"position": " ", "confidence": 1, "claims": ["a"], "evidence": [], "would_change": "b"})
            .to_string(),
    ] {
        let mut times = 0;
        let world = held(3, 2, &mut |role, asked| {
            if role == "pragmatist" && asked == Asked::Ballot {
                times += 1;
                return text(&bad);
            }
            stubborn(role, asked)
        });
        assert_eq!((times, world.count("answer_rejected")), (2, 2), "{bad}");
        assert_eq!(world.count("role_failed"), 1);
        assert_eq!(closed(&world).cause, TurnCause::Done);
    }
}

#[test]
fn ratings_must_cover_every_proposition_once_and_in_range() {
    for bad in [ratings(&[1]), ratings(&[1, 1, 1]), ratings(&[3, 1]), json!([])] {
        let mut times = 0;
        let world = held(3, 2, &mut |role, asked| match (role, asked) {
            ("pragmatist", Asked::Ratings) if times == 0 => {
                times += 1;
                text(&json!({"ratings": bad}).to_string())
            }
            _ => stubborn(role, asked),
        });
        assert_eq!((world.count("answer_rejected"), world.count("role_failed")), (1, 0), "{bad}");
    }
}

#[test]
fn without_a_list_of_the_moderator_the_positions_serve() {
    let world = held(3, 2, &mut |role, asked| match asked {
        Asked::Propositions => reply(vec![], Finish::Refused),
        Asked::Ratings => text(&json!({"ratings": ratings(&[2, -1, 0])}).to_string()),
        Asked::Statement => text(&statement(role, "later", &[2, -1, 0]).to_string()),
        Asked::Verdict => text(&verdict(&["upheld", "open", "rejected"]).to_string()),
        Asked::Ballot => stubborn(role, asked),
    });
    let stated = world.events().into_iter().find_map(|event| match event {
        ArenaEvent::PropositionsStated(data) => Some(data),
        _ => None,
    });
    let stated = stated.expect("propositions");
    assert_eq!((stated.count, stated.source.len()), (3, 3));
    assert_eq!(closed(&world).cause, TurnCause::Done);
}

#[test]
fn without_a_verdict_the_sealed_majority_stands_and_is_said_to() {
    let world = held(3, 2, &mut |role, asked| match asked {
        Asked::Verdict => reply(vec![], Finish::Refused),
        _ => stubborn(role, asked),
    });
    assert_eq!(closed(&world).cause, TurnCause::Incomplete);
    let verdict = verdict_reached(&world);
    assert_eq!((verdict.upheld, verdict.confidence_pm), (vec![1, 1], 0));
    let revealed = world.session.event(verdict.source).map(ArenaEvent::kind);
    assert!(revealed.is_none_or(|kind| kind == "ballots_revealed"));
    assert!(
        world
            .events()
            .iter()
            .any(|event| matches!(event, ArenaEvent::RoleFailed(data) if data.role == "moderator"))
    );
}

#[test]
fn a_question_on_which_all_agree_is_not_worth_a_debate() {
    let world = held(6, 4, &mut |role, asked| match asked {
        Asked::Ratings => text(&json!({"ratings": ratings(&[2, -1])}).to_string()),
        _ => stubborn(role, asked),
    });
    assert_eq!(world.phases(), ["initial-analysis", "verdict"]);
    assert_eq!(world.count("debate_gated"), 1);
    assert_eq!(closed(&world).cause, TurnCause::Done);
}

#[test]
fn a_debate_stops_early_when_agreement_holds_or_nothing_moves() {
    let agreeing = held(3, 12, &mut |role, asked| match asked {
        Asked::Statement => text(&statement(role, "agreed", &[2, 1]).to_string()),
        Asked::Ratings if role == "pragmatist" => text(&json!({"ratings": ratings(&[-1, 1])}).to_string()),
        _ => stubborn(role, asked),
    });
    let shortened = |world: &World| {
        let found = world.events().into_iter().find_map(|event| match event {
            ArenaEvent::DebateShortened(data) => Some(data.reason),
            _ => None,
        });
        found.expect("shortened")
    };
    // The first probe that agrees collapsed without a reason, so it takes two more.
    assert!(probes(&agreeing)[1].collapse);
    let reason = shortened(&agreeing);
    assert!(reason.starts_with("agreement of the same 3 voices held for two phases ("), "{reason}");
    assert_eq!(probes(&agreeing).len(), 4);
    let still = held(6, 12, &mut stubborn);
    assert_eq!(shortened(&still), "nothing moved in two phases");
    assert_eq!(probes(&still).len(), 3);
}

#[test]
fn a_flip_is_recorded_with_its_direction_and_its_reason_prevents_a_collapse() {
    let world = held(3, 2, &mut |role, asked| match (role, asked) {
        ("performance-extremist", Asked::Statement) => {
            let mut said = statement(role, "moved", &[1, 1]);
            said["changes"] = json!([{"proposition": 1, "because": "the measurement I asked for"}]);
            text(&said.to_string())
        }
        _ => stubborn(role, asked),
    });
    let probe = &probes(&world)[1];
    assert_eq!((probe.flips.len(), probe.flips[0].from, probe.flips[0].to), (1, -2, 1));
    assert!(!probe.collapse);
}

#[test]
fn all_failing_is_a_failed_turn_and_costs_no_further_call() {
    let mut world = open(6, 4);
    let sets = world.debate_to_the_end(&mut |_, _| reply(vec![], Finish::Refused));
    assert_eq!(sets.len(), 1);
    assert_eq!((closed(&world).cause, world.count("verdict_reached")), (TurnCause::Refused, 0));
}

#[test]
fn a_budget_that_cannot_pay_one_phase_is_refused_by_name_before_any_call() {
    let mut spec = debate_spec();
    spec.limits.max_tokens = Some(5000);
    let mut world = World::open(spec);
    let decided = world.give(debate_prompt("Shall we?", plan(6, 4)));
    assert!(world.models().is_empty());
    assert!(!decided.iter().any(|event| event.kind() == "model_called"));
    let limit = decided.iter().find_map(|event| match event {
        ArenaEvent::LimitReached(data) => Some(data.clone()),
        _ => None,
    });
    let limit = limit.expect("a limit");
    assert_eq!((limit.limit, limit.max), (LimitKind::Tokens, 5000));
    assert_eq!(closed(&world).cause, TurnCause::Limit);
    world.check();
}

#[test]
fn a_budget_that_ends_midway_still_leads_to_a_verdict() {
    let mut spec = debate_spec();
    // Ballots, propositions and ratings use little; the worst case of a phase of six does not fit any more.
    spec.limits.max_tokens = Some(21_000);
    let mut world = World::open(spec);
    world.give(debate_prompt("Shall we?", plan(6, 4)));
    world.debate_to_the_end(&mut |role, asked| {
        let mut said = stubborn(role, asked);
        said.usage = Usage { input: 500, output: 100, estimated: true, ..Usage::default() };
        said
    });
    assert_eq!(world.count("debate_shortened"), 1, "{}", world.story());
    assert_eq!(world.phases(), ["initial-analysis", "verdict"]);
    assert_eq!(closed(&world).cause, TurnCause::Limit);
    assert!(closed(&world).answer.is_some());
}

#[test]
fn an_interrupt_ends_it_at_once_with_what_was_reached() {
    for sets in 0..6 {
        let world = interrupted(sets);
        assert_eq!(closed(&world).cause, TurnCause::Interrupted, "after {sets} sets\n{}", world.story());
        assert_eq!(world.count("ballots_revealed"), usize::from(sets > 0));
    }
}

#[test]
fn evidence_is_read_in_its_phase_only_and_cited_by_reference() {
    let mut world = open(2, 3);
    let mut looked = std::collections::BTreeSet::new();
    let mut shown = Vec::new();
    while world.session.has_open_turn() {
        for (call, attempt, request) in world.models() {
            let tools: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
            let gathers = said(&request).contains("Phase: evidence-assessment");
            assert_eq!(tools, if gathers { vec!["look"] } else { vec![] }, "only what reads, only then");
            let answer = if gathers && looked.insert(request.spark.clone()) {
                calls(&[("look", json!({"path": "a"})), ("put", json!({"path": "a"}))])
            } else if gathers {
                let text_of = said(&request);
                let at = text_of.find("] done").expect("a result");
                let reference = &text_of[text_of[..at].rfind('[').expect("a reference") + 1..at];
                let mut said = statement(&request.spark, "seen", &[2, 1]);
                said["ballot"]["evidence"] = json!([
                    {"reference": reference, "shows": "it is there"}, {"reference": "e999", "shows": "nothing"}
                ]);
                text(&said.to_string())
            } else {
                if asked(&request) == Asked::Verdict {
                    shown.push(said(&request));
                }
                match asked(&request) {
                    Asked::Ratings => {
                        let side = if request.spark == "pragmatist" { 2 } else { -2 };
                        text(&json!({"ratings": ratings(&[side, 1])}).to_string())
                    }
                    what => stubborn(&request.spark, what),
                }
            };
            world.answer(call, attempt, OutcomeBody::ModelAnswered(answer));
        }
        world.run_tools();
        world.check();
    }
    assert_eq!(looked.len(), 2);
    assert_eq!(world.count("claim_flagged"), 2, "a reference nobody was given is flagged");
    assert!(shown[0].contains("# Evidence the ballots cite") && shown[0].contains("] done"), "{}", shown[0]);
    world.every_use_ends_once();
}

#[test]
fn a_debater_looks_at_files_though_an_earlier_turns_spark_had_its_name() {
    let mut world = World::open(debate_spec());
    world.prompt("First a small thing.");
    world.model_says(text("done"));
    let mut plan = plan(2, 3);
    plan.personas[0] = "solo".to_owned();
    world.give(debate_prompt("Shall we build it?", plan));
    let sets = world.debate_to_the_end(&mut stubborn);
    let looks = |role: &str| sets.iter().flatten().any(|it| it.spark == role && !it.tools.is_empty());
    assert!(looks("solo") && looks(DEBATERS[1]), "{}", world.story());
}

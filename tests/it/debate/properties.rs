//! Random debates fold, verify, resume and fork at every step; the order in which answers come in changes no count.

use agon::protocol::effect::{ModelContext, TimerOrder};
use std::sync::Arc;

use agon::arena::replay;
use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::message::Finish;
use agon::protocol::spec::{DebatePlan, Setting};
use agon::session::Session;
use serde_json::json;

use crate::support::forked;
use crate::support::panel::*;
use crate::support::world::*;

/// How many cases are tried: few by default, many with `AGON_TEST_LONG`.
fn long(few: u64, many: u64) -> u64 {
    if std::env::var_os("AGON_TEST_LONG").is_some() { many } else { few }
}

fn random_debate(seed: u64) -> (World, Dice) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut spec = debate_spec();
    if dice.roll(3) == 0 {
        spec.limits.max_seconds = Some(60);
    }
    if dice.roll(4) == 0 {
        spec.limits.max_tokens = Some(4000 + dice.roll(60_000));
    }
    if dice.roll(5) == 0 {
        spec.limits.max_steps = 5 + dice.roll(40) as u32;
    }
    spec.models[0].structured = match dice.roll(3) {
        0 => agon::protocol::message::Structured::ResponseFormat,
        1 => agon::protocol::message::Structured::ForcedTool,
        _ => agon::protocol::message::Structured::Words,
    };
    let scorer = if dice.roll(2) == 0 { "ballots" } else { "lexical" };
    let (voices, rounds) = (2 + dice.roll(3) as usize, 2 + dice.roll(4) as u32);
    let plan = DebatePlan { scorer: scorer.to_owned(), ..plan(voices, rounds) };
    let mut world = World::open(spec);
    world.give(debate_prompt("Shall we?", plan));
    (world, dice)
}

fn random_ratings(dice: &mut Dice, count: usize) -> Vec<i8> {
    (0..count).map(|_| dice.roll(5) as i8 - 2).collect()
}

/// How many propositions a request numbers.
fn stated(words: &str) -> usize {
    let Some(list) = words.split("# The propositions\n\n").nth(1) else { return 2 };
    list.lines().take_while(|line| line.starts_with(|c: char| c.is_ascii_digit())).count()
}

fn random_reply(request: &agon::protocol::Request, dice: &mut Dice) -> ModelReply {
    match dice.roll(40) {
        0 => return text("no json"),
        1 => return text(""),
        2 => return reply(vec![], Finish::Refused),
        3 if !request.tools.is_empty() => return calls(&[("put", json!({"path": "a"}))]),
        4..=9 if !request.tools.is_empty() => return calls(&[("look", json!({"path": "a"}))]),
        _ => {}
    }
    let count = stated(&said(request));
    let value = match asked(request) {
        Asked::Ballot => ballot(&request.spark, if dice.roll(2) == 0 { "yes" } else { "no" }),
        Asked::Propositions => {
            let list: Vec<String> = (0..=dice.roll(4)).map(|n| format!("proposition {n}")).collect();
            json!({"propositions": list})
        }
        Asked::Ratings => json!({"ratings": ratings(&random_ratings(dice, count))}),
        Asked::Statement => statement(&request.spark, "now", &random_ratings(dice, count)),
        Asked::Verdict => {
            let stances: Vec<&str> =
                (0..count).map(|_| ["upheld", "rejected", "open"][dice.roll(3) as usize]).collect();
            verdict(&stances)
        }
    };
    text(&value.to_string())
}

fn outcome(effect: &Effect, cancelled: bool, dice: &mut Dice) -> Option<OutcomeBody> {
    Some(match effect {
        Effect::Model { .. } if cancelled => OutcomeBody::ModelFailed(failure(ErrorKind::Cancelled)),
        Effect::Model { context: ModelContext { request, .. }, .. } => match dice.roll(25) {
            0 => OutcomeBody::ModelFailed(failure(ErrorKind::Overloaded)),
            1 => OutcomeBody::ModelFailed(failure(ErrorKind::Auth)),
            _ => OutcomeBody::ModelAnswered(random_reply(request, dice)),
        },
        Effect::Timer { .. } => OutcomeBody::TimerFired(TimerFired { active_ms: 9000 }),
        other => return succeed(other),
    })
}

fn step(world: &mut World, dice: &mut Dice) {
    let open = world.session.outstanding();
    let roll = dice.roll(200);
    if open.is_empty() || roll == 0 {
        world.give(match dice.roll(4) {
            0 => ArenaEvent::InterruptRequested(InterruptRequested { spark: None, call: None }),
            1 => {
                let spark = Some(agon::protocol::SparkId(1 + dice.roll(4) as u32));
                ArenaEvent::InterruptRequested(InterruptRequested { spark, call: None })
            }
            _ => ArenaEvent::SteeringGiven(SteeringGiven { spark: None, text: "hear me".to_owned() }),
        });
        return;
    }
    // Clocks fire seldom, so that debates have time for something.
    let chosen = open[dice.roll(open.len() as u64) as usize];
    let Some(effect) = world.session.effect(chosen.call) else { return };
    if matches!(effect, Effect::Timer { order: TimerOrder { ms: 60_000, .. }, .. }) && dice.roll(50) > 0 {
        return;
    }
    if let Some(body) = outcome(&effect, chosen.cancelled, dice) {
        world.answer(chosen.call.0, chosen.attempt, body);
    }
}

fn to_the_end(world: &mut World, dice: &mut Dice) {
    for _ in 0..3000 {
        if !world.session.has_open_turn() {
            world.every_use_ends_once();
            return;
        }
        step(world, dice);
    }
    panic!("the debate does not end: {:?}\n{}", world.session.outstanding(), world.story());
}

#[test]
fn random_debates_fold_verify_and_end() {
    let mut verdicts = 0;
    for seed in 0..long(12, 40) {
        let (mut world, mut dice) = random_debate(seed);
        for _ in 0..60 {
            step(&mut world, &mut dice);
            world.check();
        }
        to_the_end(&mut world, &mut dice);
        let found = replay::verify(&world.log);
        assert!(found.holds(true), "seed {seed}: {:#?}", found.differences.first());
        verdicts += world.count("verdict_reached");
    }
    assert!(verdicts > long(3, 12) as usize, "most random debates reach a verdict: {verdicts}");
}

#[test]
fn a_debate_resumes_at_every_step_and_still_ends() {
    for seed in 500..500 + long(3, 6) {
        let (mut whole, mut dice) = random_debate(seed);
        to_the_end(&mut whole, &mut dice);
        for cut in 1..=whole.log.len() {
            let log: Vec<_> = whole.log[..cut].iter().map(Arc::clone).collect();
            let mut world = World::resumed(log);
            world.check();
            to_the_end(&mut world, &mut dice);
            let found = replay::verify(&world.log);
            assert!(found.holds(true), "seed {seed} cut {cut}: {:#?}", found.differences.first());
        }
    }
}

#[test]
fn a_debate_forks_at_every_step_on_another_model_and_still_ends() {
    for seed in 700..700 + long(2, 4) {
        let (mut whole, mut dice) = random_debate(seed);
        to_the_end(&mut whole, &mut dice);
        for cut in 1..=whole.log.len() {
            let log: Vec<_> = whole.log[..cut].iter().map(Arc::clone).collect();
            let mut world = World { session: Session::fold(&log).unwrap(), log };
            let models = &world.session.spec().unwrap().models;
            let spec = models.iter().find(|model| model.name == "mock/b").unwrap().clone();
            world.give(ArenaEvent::SessionForked(SessionForked {
                changed: vec![Setting::Model { spec, default: true }],
                change: Some("model".into()),
                ..forked(cut as u64 - 1)
            }));
            world.check();
            for (_, _, request) in world.models() {
                assert_eq!(request.model, "mock/b");
            }
            to_the_end(&mut world, &mut dice);
            assert!(replay::verify(&world.log).holds(true), "seed {seed} cut {cut}");
        }
    }
}

/// What was counted, without the places it stands in.
fn counts(world: &World) -> Vec<String> {
    let tell = |event: &ArenaEvent| match event {
        ArenaEvent::ConvergenceProbed(data) => Some(format!(
            "{} {:?} {:?} {:?} {:?} {:?} {} {:?}",
            data.phase,
            data.score_pm,
            data.agreement_pm,
            data.polarisation_pm,
            data.movement_pm,
            data.flips,
            data.collapse,
            data.effective_votes_pm
        )),
        ArenaEvent::BallotsRevealed(data) => Some(format!("majority {:?}", data.majority)),
        ArenaEvent::VerdictReached(data) => Some(format!("verdict {:?} {:?}", data.upheld, data.differs)),
        ArenaEvent::RoundOpened(data) => Some(format!("order {:?}", data.order)),
        _ => None,
    };
    world.events().iter().filter_map(tell).collect()
}

#[test]
fn the_order_in_which_answers_come_in_changes_no_count() {
    let held = |seed: u64| {
        let mut world = World::open(debate_spec());
        world.give(debate_prompt("Shall we?", plan(6, 4)));
        let mut dice = Dice(seed);
        while world.session.has_open_turn() {
            let open = world.models();
            let (call, attempt, request) = open[dice.roll(open.len() as u64) as usize].clone();
            let said = stubborn(&request.spark, asked(&request));
            world.answer(call, attempt, OutcomeBody::ModelAnswered(said));
        }
        assert!(replay::verify(&world.log).holds(true));
        counts(&world)
    };
    let first = held(1);
    assert!(first.len() > 8, "{first:?}");
    for seed in 2..20 {
        assert_eq!(held(seed), first, "seed {seed}");
    }
}

#[test]
fn a_changed_scorer_is_caught_at_its_first_differing_probe() {
    use agon::session::convergence::{Panel, Scored, Scorers};
    fn always_agreed(_: &Panel) -> Scored {
        Scored { score_pm: Some(1000), parts: vec![("hope".to_owned(), 1000)] }
    }
    let scorers = || Scorers::default().with("ballots", always_agreed);
    let mut world = World::open(debate_spec());
    world.session = Session::fold(&world.log).unwrap().with_scorers(scorers());
    world.give(debate_prompt("Shall we?", plan(3, 3)));
    while world.session.has_open_turn() {
        world.panel_says(&mut stubborn);
    }
    let probed = world
        .log
        .iter()
        .position(|entry| entry.events.iter().any(|event| matches!(event, ArenaEvent::ConvergenceProbed(_))));
    let found = replay::verify(&world.log);
    assert_eq!(found.differences.first().map(|difference| difference.seq), probed.map(|seq| seq as u64));
    assert!(replay::verify_with(&world.log, &scorers()).holds(true), "the same scorer gives the same probes");
}

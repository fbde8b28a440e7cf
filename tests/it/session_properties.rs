//! Random sessions fold, verify, resume and fork at every step.

use agon::protocol::effect::ModelContext;
use std::collections::BTreeMap;
use std::sync::Arc;

use agon::arena::replay;
use agon::protocol::RULES;
use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::spec::{Policy, SandboxSpec, Setting, SubagentLimits};
use agon::session::Session;

use crate::support::forked;
use crate::support::world::*;

fn random_world(seed: u64, steps: u64) -> (World, Dice) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut spec = spec_with_inside();
    if dice.roll(2) == 0 {
        spec.policy = allow_all();
    }
    if dice.roll(4) == 0 {
        spec.gates = vec!["one".to_owned(), "two".to_owned()];
    }
    if dice.roll(3) == 0 {
        spec.limits.max_seconds = Some(60);
    }
    if dice.roll(3) == 0 {
        spec.limits.max_tokens = Some(3000 + dice.roll(9000));
    }
    if dice.roll(3) == 0 {
        spec.limits.turn.max_tokens = Some(2000 + dice.roll(6000));
    }
    if dice.roll(3) == 0 {
        spec.limits.spark.max_micro_usd = Some(1500 + dice.roll(6000));
    }
    // A third of the sessions are squads'.
    if dice.roll(3) == 0 {
        crate::support::squad::staff(&mut spec, &mut dice);
        if dice.roll(2) == 0 {
            spec.cache = crate::support::cache::cache();
        }
        if dice.roll(2) == 0 {
            spec.workspace.sandbox =
                SandboxSpec { kind: "local".to_owned(), gaps: vec![], ..SandboxSpec::default() };
        }
    }
    if dice.roll(4) == 0 {
        spec.models[0].context = 3000;
    }
    spec.limits.max_steps = 3 + dice.roll(12) as u32;
    let depth = dice.roll(3) as u32;
    spec.limits.subagents = SubagentLimits { total: 3, at_once: 2, depth, max_steps: 4 };
    let mut world = World::open(spec);
    world.prompt("begin");
    for _ in 0..steps {
        random_step(&mut world, &mut dice);
    }
    (world, dice)
}

/// Answers whatever is open until nothing is, so that the turn must have come to an end.
fn drive_to_the_end(world: &mut World) {
    for _ in 0..200 {
        world.run_tools();
        let asks = world.session.open_asks();
        if let Some((call, digest)) = asks.into_iter().next() {
            let choice = agon::protocol::Choice::Once;
            world.give(ArenaEvent::ApprovalAnswered(ApprovalAnswered {
                call,
                digest,
                choice,
                by: "t".into(),
            }));
            continue;
        }
        let asks = |open: &agon::session::Ordered| {
            matches!(world.session.effect(open.call), Some(Effect::Question { .. }))
        };
        if let Some(open) = world.session.outstanding().into_iter().find(asks) {
            let (text, by) = ("yes".to_owned(), "t".to_owned());
            world.give(ArenaEvent::QuestionAnswered(QuestionAnswered { call: open.call, text, by }));
            continue;
        }
        let next = world.session.outstanding().into_iter().find_map(|open| {
            match world.session.effect(open.call)? {
                Effect::Model { .. } if open.cancelled => {
                    Some((open, OutcomeBody::ModelFailed(failure(ErrorKind::Cancelled))))
                }
                Effect::Model { context: ModelContext { request, .. }, .. } => {
                    Some((open, OutcomeBody::ModelAnswered(crate::support::squad::fitting(&request))))
                }
                _ => None,
            }
        });
        match next {
            Some((open, body)) => {
                world.answer(open.call.0, open.attempt, body);
            }
            None if world.session.has_open_turn() => {
                let timer = world
                    .session
                    .outstanding()
                    .into_iter()
                    .find(|open| matches!(world.session.effect(open.call), Some(Effect::Timer { .. })));
                let Some(timer) = timer else { break };
                let fired = OutcomeBody::TimerFired(TimerFired { active_ms: 1 });
                world.answer(timer.call.0, timer.attempt, fired);
            }
            None => break,
        }
    }
    assert!(
        !world.session.has_open_turn(),
        "the turn is over: {:?}\n{}",
        world.session.outstanding(),
        world.story()
    );
    world.every_use_ends_once();
}

#[test]
fn random_sessions_fold_and_verify_at_every_step() {
    for seed in 0..200 {
        let (mut world, mut dice) = random_world(seed, 0);
        for _ in 0..40 {
            random_step(&mut world, &mut dice);
            world.check();
        }
        let found = replay::verify(&world.log);
        assert!(found.holds(true), "seed {seed}: {found:#?}");
    }
}

#[test]
fn thousands_of_random_sessions_verify_and_end() {
    for seed in 1000..2000 {
        let (mut world, _) = random_world(seed, 30);
        let found = replay::verify(&world.log);
        assert!(found.holds(true), "seed {seed}: {:#?}", found.differences.first());
        if world.session.sealed().is_none() {
            drive_to_the_end(&mut world);
        }
    }
}

/// Tokens and money, used and set aside, of one node of the tree.
#[derive(Default)]
struct Node {
    used: (u64, u64),
    aside: BTreeMap<u64, (u64, u64)>,
}

impl Node {
    fn committed(&self) -> (u64, u64) {
        self.aside.values().fold(self.used, |sum, more| (sum.0 + more.0, sum.1 + more.1))
    }
}

#[test]
fn whatever_happens_no_call_is_ordered_that_a_budget_on_its_way_up_does_not_cover() {
    let (mut held, mut refused) = (0, 0);
    for seed in 0..150 {
        let (world, _) = random_world(seed, 40);
        let limits = match &world.log[0].events[0] {
            ArenaEvent::SessionOpened(data) => data.spec.limits.clone(),
            other => panic!("{other:?}"),
        };
        // Node 0 is the session, 1 the open turn; the sparks follow.
        let mut nodes: BTreeMap<u64, Node> = BTreeMap::new();
        let mut payers: BTreeMap<u64, u64> = BTreeMap::new();
        let mut set_aside = BTreeMap::new();
        for event in world.log.iter().flat_map(|entry| &entry.events) {
            match event {
                ArenaEvent::TurnOpened(_) => drop(nodes.remove(&1)),
                ArenaEvent::BudgetReserved(data) => {
                    set_aside.insert(data.call.0, (data.tokens, data.micro_usd));
                }
                ArenaEvent::ModelCalled(data) => {
                    let (call, spark) = (data.call.0, 2 + u64::from(data.spark.0));
                    let more = set_aside[&call];
                    payers.insert(call, spark);
                    for (node, budget) in [(0, limits.session()), (1, limits.turn), (spark, limits.spark)] {
                        let node = nodes.entry(node).or_default();
                        node.aside.insert(call, more);
                        let (tokens, money) = node.committed();
                        assert!(budget.max_tokens.is_none_or(|max| tokens <= max), "{}", world.story());
                        assert!(budget.max_micro_usd.is_none_or(|max| money <= max), "{}", world.story());
                        held += usize::from(!budget.is_open());
                    }
                }
                ArenaEvent::BudgetSettled(data) => {
                    for node in [0, 1, payers[&data.call.0]] {
                        let node = nodes.entry(node).or_default();
                        node.aside.remove(&data.call.0);
                        node.used.0 += data.usage.total();
                        node.used.1 += data.micro_usd;
                    }
                }
                ArenaEvent::CallLost(data) => {
                    for node in nodes.values_mut() {
                        node.aside.remove(&data.call.0);
                    }
                }
                ArenaEvent::LimitReached(_) => refused += 1,
                _ => {}
            }
        }
    }
    assert!(held > 100 && refused > 10, "{held} calls were held to a budget, {refused} refused");
}

#[test]
fn a_session_resumes_at_every_step_and_still_ends() {
    for seed in 5000..5060 {
        let (whole, _) = random_world(seed, 40);
        for cut in 1..=whole.log.len() {
            let log: Vec<_> = whole.log[..cut].iter().map(Arc::clone).collect();
            let mut world = World::resumed(log);
            world.check();
            drive_to_the_end(&mut world);
            let found = replay::verify(&world.log);
            assert!(found.holds(true), "seed {seed} cut {cut}: {:#?}", found.differences.first());
        }
    }
}

#[test]
fn a_session_forks_at_every_step_on_another_model_and_still_ends() {
    for seed in 7000..7030 {
        let (whole, _) = random_world(seed, 40);
        for cut in 1..=whole.log.len() {
            let log: Vec<_> = whole.log[..cut].iter().map(Arc::clone).collect();
            let mut world = World { session: Session::fold(&log).unwrap(), log };
            let spec =
                world.session.spec().unwrap().models.iter().find(|m| m.name == "mock/b").unwrap().clone();
            let change = Setting::Model { spec, default: true };
            world.give(ArenaEvent::SessionForked(SessionForked {
                changed: vec![change],
                change: Some("model".into()),
                ..forked(cut as u64 - 1)
            }));
            world.check();
            for open in world.session.outstanding() {
                if let Some(Effect::Model { context: ModelContext { request, .. }, .. }) =
                    world.session.effect(open.call)
                {
                    assert_eq!(request.model, "mock/b", "what the header names is what runs");
                }
            }
            drive_to_the_end(&mut world);
            assert!(replay::verify(&world.log).holds(true), "seed {seed} cut {cut}");
        }
    }
}

#[test]
fn a_changed_decision_is_named_by_its_seq() {
    let (whole, _) = random_world(42, 30);
    let mut log = whole.log.clone();
    let at =
        log.iter().position(|e| e.events.iter().any(|e| matches!(e, ArenaEvent::ModelCalled(_)))).unwrap();
    let mut entry = (*log[at]).clone();
    for event in &mut entry.events {
        if let ArenaEvent::ModelCalled(called) = event {
            called.params.max_output = Some(1);
        }
    }
    log[at] = Arc::new(entry);
    let found = replay::verify(&log);
    assert!(!found.holds(false));
    assert_eq!(found.differences[0].seq, at as u64);
}

/// Takes a random session up as one from elsewhere, under a policy that asks about everything but looking, and answers
/// whatever is open but questions: nothing the log ordered, allowed or granted is carried out.
#[test]
fn nothing_that_a_foreign_log_allows_is_carried_out() {
    for seed in 9000..9016 {
        let (whole, _) = random_world(seed, 40);
        for cut in 1..=whole.log.len() {
            for is_copy in [false, true] {
                let log: Vec<_> = whole.log[..cut].iter().map(Arc::clone).collect();
                let mut world = World { session: Session::fold(&log).unwrap(), log };
                let spec = world.session.spec().unwrap();
                let mut changed = vec![Setting::Policy(Policy::default())];
                if let Some(mut blueprint) = spec.blueprint.clone() {
                    blueprint.checks.clear();
                    blueprint.roles.iter_mut().for_each(|role| role.sandbox = None);
                    changed.push(Setting::Blueprint(blueprint));
                }
                let (program, foreign) = ("t".to_owned(), true);
                world.give(match is_copy {
                    true => ArenaEvent::SessionForked(SessionForked { changed, ..forked(cut as u64 - 1) }),
                    false => ArenaEvent::SessionResumed(SessionResumed {
                        rules: RULES,
                        program,
                        changed,
                        active_ms: 10,
                        foreign,
                    }),
                });
                for _ in 0..60 {
                    acts_on_nothing(&world, seed, cut);
                    let open = world.session.outstanding().into_iter().find_map(|open| {
                        let effect = world.session.effect(open.call)?;
                        let body = match &effect {
                            Effect::Model { .. } => None,
                            _ => world.succeed(&effect),
                        };
                        Some((open, body?))
                    });
                    let Some((open, body)) = open else { break };
                    world.answer(open.call.0, open.attempt, body);
                }
                world.check();
                if cut == whole.log.len() {
                    assert!(replay::verify(&world.log).holds(true), "seed {seed} cut {cut}");
                }
            }
        }
    }
}

fn acts_on_nothing(world: &World, seed: u64, cut: usize) {
    for open in world.session.outstanding() {
        let effect = world.session.effect(open.call).unwrap();
        let acts = match &effect {
            Effect::Tool { context: call, .. } => call.tool != "look",
            Effect::Check { .. } | Effect::Patch { .. } | Effect::CachePut { .. } => true,
            _ => false,
        };
        assert!(!acts, "seed {seed} cut {cut}: {effect:?}\n{}", world.story());
    }
}

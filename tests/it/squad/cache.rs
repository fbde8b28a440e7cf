//! The team cache in the pure session: what is looked up, what is used, what is stored, and why not.

use agon::protocol::effect::CacheGetOrder;
use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::message::{Part, Role};
use agon::protocol::spec::*;
use agon::protocol::{Choice, StopCause};
use serde_json::json;

use super::{all_words, asked, cause, events, plan_and_code, whole};
use crate::support::cache::{cache, hit, missed, print};
use crate::support::squad::*;
use crate::support::world::*;

/// A squad with the cache on, its task given, its workspace recorded and fingerprinted.
pub(super) fn printed(change: impl FnOnce(&mut Spec)) -> World {
    let mut world = recorded(change);
    answer(&mut world, is_print, print("before"));
    world
}

/// The same before the fingerprint.
fn recorded(change: impl FnOnce(&mut Spec)) -> World {
    let mut spec = with_blueprint(spec(), blueprint(&[]));
    spec.policy = allow_all();
    spec.cache = cache();
    change(&mut spec);
    let mut world = World::open(spec);
    world.prompt("Mend the clock.");
    answer(&mut world, is_checkpoint, checkpointed("tree"));
    world
}

/// The same with a run found that changed these files.
fn found(paths: &[&str], change: impl FnOnce(&mut Spec)) -> World {
    let mut world = printed(change);
    let found = OutcomeBody::CacheHit(hit(&key(&world), paths));
    answer(&mut world, is_get, found);
    world
}

/// A squad whose run was not found, with its lead asked for the plan.
fn begun() -> World {
    let mut world = printed(|_| {});
    let get = missed(&key(&world), "absent");
    answer(&mut world, is_get, get);
    world
}

fn is_print(effect: &Effect) -> bool {
    matches!(effect, Effect::Fingerprint { .. })
}

fn is_checkpoint(effect: &Effect) -> bool {
    matches!(effect, Effect::Checkpoint { .. })
}

pub(super) fn is_get(effect: &Effect) -> bool {
    matches!(effect, Effect::CacheGet { .. })
}

fn is_put(effect: &Effect) -> bool {
    matches!(effect, Effect::CachePut { .. })
}

fn is_patch(effect: &Effect) -> bool {
    matches!(effect, Effect::Patch { .. })
}

pub(super) fn key(world: &World) -> String {
    match world.the(is_get).2 {
        Effect::CacheGet { order: CacheGetOrder { key }, .. } => key,
        _ => unreachable!(),
    }
}

pub(super) fn answer(
    world: &mut World,
    which: impl Fn(&Effect) -> bool,
    body: OutcomeBody,
) -> Vec<ArenaEvent> {
    let (call, attempt, _) = world.the(which);
    world.answer(call, attempt, body)
}

fn patched(world: &mut World) {
    answer(
        world,
        is_patch,
        OutcomeBody::PatchApplied(PatchApplied { paths: vec!["f".to_owned()], removed: vec![] }),
    );
}

pub(super) fn skips(world: &World) -> Vec<(CacheStep, String)> {
    let skip = |event: &ArenaEvent| match event {
        ArenaEvent::CacheSkipped(data) => Some((data.step, data.reason.clone())),
        _ => None,
    };
    events(world).filter_map(skip).collect()
}

/// Plans, works, reviews and answers, up to the end of the turn or to what is stored.
fn work(world: &mut World) {
    plan_and_code(world);
    world.run_tools();
    asked(world, "reviewer");
    world.model_says(approve(&[]));
    asked(world, "coordinator");
    world.model_says(crate::support::squad::answer("It goes.", &[], &[]));
}

fn put_outcome(world: &mut World, ok: bool) {
    let (call, attempt, effect) = world.the(is_put);
    assert!(world.session.has_open_turn(), "the turn ends once the run was stored");
    let failed = EffectFailed { status: FailStatus::Failed, error: "no room".to_owned() };
    let body = if ok { world.succeed(&effect).unwrap() } else { OutcomeBody::EffectFailed(failed) };
    world.answer(call, attempt, body);
}

#[test]
fn a_run_that_is_found_is_applied_and_answers_without_a_model() {
    let mut world = found(&["f"], |_| {});
    patched(&mut world);
    assert_eq!(cause(&world), TurnCause::Done);
    let answer = world.session.last_turn().unwrap().answer.unwrap();
    assert!(matches!(events_at(&world, answer), ArenaEvent::CacheHit(_)));
    assert!(!events(&world).any(|event| matches!(event, ArenaEvent::ModelCalled(_))));
    world.run_tools();
    whole(&world);
    // The next turn remembers what was asked and answered.
    world.prompt("And now?");
    answer_next(&mut world);
    let (_, _, request) = world.model();
    let said = all_words(&request);
    assert!(said.contains("Mend the clock.") && said.contains("It was mended before."), "{said}");
    let recalled = request.messages.iter().find(|message| message.role == Role::Assistant).unwrap();
    assert!(matches!(&recalled.parts[0], Part::Text { text } if text.contains("mended before")));
    whole(&world);
}

fn answer_next(world: &mut World) {
    if world.session.outstanding().iter().any(|open| is_checkpoint(&world.session.effect(open.call).unwrap()))
    {
        answer(world, is_checkpoint, checkpointed("after"));
    }
    answer(world, is_print, print("after"));
    let get = missed(&key(world), "absent");
    answer(world, is_get, get);
}

fn events_at(world: &World, at: agon::protocol::EventRef) -> &ArenaEvent {
    &world.log[usize::try_from(at.seq).unwrap()].events[usize::from(at.i)]
}

#[test]
fn a_run_that_changed_nothing_needs_no_patch() {
    let world = found(&[], |spec| spec.policy = Policy::default());
    assert_eq!(cause(&world), TurnCause::Done);
    whole(&world);
}

#[test]
fn what_would_be_written_is_asked_about_whole() {
    let asks = |spec: &mut Spec| spec.policy = Policy::default();
    let mut world = found(&["f"], asks);
    let (call, digest) = world.session.open_asks().remove(0);
    assert!(world.session.waits_for_people(false));
    let yes = |choice| {
        ArenaEvent::ApprovalAnswered(ApprovalAnswered {
            call,
            digest: digest.clone(),
            choice,
            by: "t".into(),
        })
    };
    world.give(yes(Choice::Once));
    patched(&mut world);
    assert_eq!(cause(&world), TurnCause::Done);
    whole(&world);

    let mut world = found(&["f"], asks);
    world.give(yes(Choice::Deny("I want it new".into())));
    assert_eq!(skips(&world), [(CacheStep::Use, "t said no: I want it new".to_owned())]);
    asked(&world, "coordinator");
    whole(&world);
}

#[test]
fn a_run_that_does_not_fit_is_a_miss_that_says_why() {
    let deny = |spec: &mut Spec| {
        let no = Rule {
            name: "no f".into(),
            path: Some("f".into()),
            action: Action::Deny,
            ..spec.policy.rules[0].clone()
        };
        spec.policy.rules.push(no);
    };
    let world = found(&["f"], deny);
    assert_eq!(skips(&world)[0].1, "the policy forbids to write `f` (rule `no f`)");
    asked(&world, "coordinator");
    whole(&world);

    let mut world = found(&["f"], |_| {});
    let refused = PatchRefused { path: "f".into(), reason: "it differs".into() };
    answer(&mut world, is_patch, OutcomeBody::PatchRefused(refused));
    asked(&world, "coordinator");
    whole(&world);
}

#[test]
fn a_run_is_stored_before_its_turn_ends_and_a_put_that_fails_is_no_failure() {
    for ok in [true, false] {
        let mut world = begun();
        work(&mut world);
        put_outcome(&mut world, ok);
        assert_eq!(cause(&world), TurnCause::Done);
        assert_eq!(skips(&world), []);
        whole(&world);
    }
}

#[test]
fn an_interrupt_while_a_run_is_stored_loses_nothing() {
    let mut world = begun();
    work(&mut world);
    world.give(ArenaEvent::InterruptRequested(InterruptRequested { spark: None, call: None }));
    assert!(world.session.has_open_turn());
    let cancelled = EffectFailed { status: FailStatus::Cancelled, error: "cancelled".into() };
    answer(&mut world, is_put, OutcomeBody::EffectFailed(cancelled));
    assert_eq!(cause(&world), TurnCause::Done);
    whole(&world);
}

#[test]
fn waiting_for_another_run_can_be_interrupted() {
    let mut world = printed(|_| {});
    let (call, attempt, _) = world.the(is_get);
    world.give(ArenaEvent::StopRequested(StopRequested { cause: StopCause::Interrupted }));
    assert!(world.session.ordered(agon::protocol::CallId(call)).unwrap().cancelled);
    world.answer(call, attempt, missed("k", "absent"));
    assert_eq!(world.session.sealed(), Some(StopCause::Interrupted));
    whole(&world);
}

#[test]
fn a_run_that_says_nothing_of_the_next_is_not_stored_and_says_why() {
    let steer = |world: &mut World| {
        world.give(ArenaEvent::SteeringGiven(SteeringGiven { spark: None, text: "gently".into() }));
        world.model_says(text("A plan, before it was heard."));
    };
    let settings = |world: &mut World| {
        let limits = Limits { max_steps: 50, ..Limits::default() };
        world.give(ArenaEvent::SettingsChanged(SettingsChanged { changed: vec![Setting::Limits(limits)] }));
    };
    type Disturb<'a> = &'a dyn Fn(&mut World);
    let cases: [(Disturb<'_>, &str); 2] =
        [(&steer, "it was steered"), (&settings, "settings changed while it worked")];
    for (disturb, reason) in cases {
        let mut world = begun();
        disturb(&mut world);
        work(&mut world);
        assert_eq!(skips(&world), [(CacheStep::Store, reason.to_owned())]);
        assert_eq!(cause(&world), TurnCause::Done);
        whole(&world);
    }
}

#[test]
fn commands_outside_a_confining_sandbox_are_not_stored_and_inside_they_are() {
    for (kind, gaps, stored) in
        [("none", vec![], false), ("local", vec!["a gap".to_owned()], false), ("local", vec![], true)]
    {
        let mut world = printed(|spec| {
            spec.workspace.sandbox = SandboxSpec { kind: kind.into(), gaps, ..SandboxSpec::default() }
        });
        let get = missed(&key(&world), "absent");
        answer(&mut world, is_get, get);
        world.model_says(text("The plan."));
        world.model_says(calls(&[("run", json!({})), ("put", json!({"path": "f"}))]));
        world.run_tools();
        world.model_says(text("Done."));
        world.run_tools();
        world.model_says(approve(&[]));
        world.model_says(crate::support::squad::answer("It goes.", &[], &[]));
        match stored {
            true => put_outcome(&mut world, true),
            false => assert_eq!(skips(&world)[0].1, "a command ran outside a confining sandbox"),
        }
        assert_eq!(cause(&world), TurnCause::Done);
        whole(&world);
    }
}

#[test]
fn checks_that_nothing_confines_make_every_lookup_idle() {
    let mut spec = with_blueprint(spec(), blueprint(&["make test"]));
    spec.cache = cache();
    let mut world = World::open(spec);
    world.prompt("Mend the clock.");
    assert_eq!(skips(&world), [(CacheStep::Lookup, "its checks run outside a confining sandbox".to_owned())]);
    asked(&world, "coordinator");
    world.run_tools();
    whole(&world);
}

#[test]
fn a_file_that_somebody_else_changed_meanwhile_is_not_stored_as_the_squads() {
    let mut world = begun();
    world.model_says(text("The plan."));
    world.model_says(calls(&[("put", json!({"path": "g"}))]));
    world.run_tools();
    world.model_says(text("Done."));
    world.run_tools();
    world.model_says(approve(&[]));
    world.model_says(crate::support::squad::answer("It goes.", &[], &[]));
    assert_eq!(
        skips(&world),
        [(CacheStep::Store, "`f` may have been changed by another process".to_owned())]
    );
    whole(&world);
}

#[test]
fn a_lookup_that_was_interrupted_continues_and_a_run_that_was_found_is_judged_again() {
    let resume = |world: &mut World| {
        let (rules, program) = (agon::protocol::RULES, "t".into());
        world.give(ArenaEvent::SessionResumed(SessionResumed {
            rules,
            program,
            changed: vec![],
            active_ms: 0,
            foreign: false,
        }));
        answer(world, is_checkpoint, checkpointed("tree"));
    };
    let mut world = printed(|_| {});
    resume(&mut world);
    let get = missed(&key(&world), "absent");
    answer(&mut world, is_get, get);
    work(&mut world);
    put_outcome(&mut world, true);
    assert_eq!(cause(&world), TurnCause::Done);

    let mut world = found(&["f"], |spec| spec.policy = Policy::default());
    let (first, _) = world.session.open_asks().remove(0);
    resume(&mut world);
    let (second, _) = world.session.open_asks().remove(0);
    assert_ne!(first, second, "a yes to the first says nothing any more");
    whole(&world);

    let mut world = found(&["f"], |spec| spec.policy = Policy::default());
    world.give(ArenaEvent::SessionResumed(SessionResumed {
        rules: agon::protocol::RULES,
        program: "t".into(),
        changed: vec![],
        active_ms: 0,
        foreign: false,
    }));
    answer(&mut world, is_checkpoint, checkpointed("changed meanwhile"));
    assert_eq!(skips(&world), [(CacheStep::Use, "the workspace was changed by another process".to_owned())]);
    asked(&world, "coordinator");
    whole(&world);
}

#[test]
fn a_squad_with_a_tool_that_is_not_agons_own_is_neither_looked_up_nor_stored() {
    let world = recorded(|spec| spec.tools[0].source = Some("tracker".to_owned()));
    let reason = "the tool `look` is not agon's own and may answer otherwise next time".to_owned();
    assert_eq!(skips(&world), [(CacheStep::Lookup, reason)]);
    asked(&world, "coordinator");
    whole(&world);
}

#[test]
fn a_run_of_a_model_that_nobody_knows_is_neither_looked_up_nor_stored() {
    let world = recorded(|spec| spec.cache = Some(CacheSpec::default()));
    assert_eq!(skips(&world), [(CacheStep::Lookup, "it is not known what answers as `mock/a`".to_owned())]);
    let mut world = world;
    world.run_tools();
    work(&mut world);
    world.run_tools();
    assert_eq!(cause(&world), TurnCause::Done);
    assert!(!events(&world).any(|event| matches!(event, ArenaEvent::CacheStored(_))));
    whole(&world);
}

#[test]
fn a_run_whose_answer_the_log_contradicts_is_not_stored() {
    let mut world = begun();
    world.model_says(text("The plan."));
    world.model_says(text("Done."));
    let (call, attempt, _) = world.the(|effect| matches!(effect, Effect::Diff { .. }));
    let unchanged = DiffTaken { diff: String::new(), files: vec![], ..diff("tree") };
    world.answer(call, attempt, OutcomeBody::DiffTaken(unchanged));
    world.model_says(approve(&[]));
    world.model_says(crate::support::squad::answer("It goes.", &[("changed", "e3")], &[]));
    assert_eq!(cause(&world), TurnCause::Incomplete);
    let reason = "the log contradicts what the answer claims".to_owned();
    assert_eq!(skips(&world), [(CacheStep::Store, reason)]);
    whole(&world);
}

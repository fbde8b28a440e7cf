//! What somebody other than the squad changes while it works: checks, people, other programs.

use agon::protocol::effect::DiffOrder;
use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::spec::*;
use serde_json::json;

use super::cache::{answer, is_get, key, printed, record, skips};
use super::{asked, cause, plan_and_code, whole};
use crate::support::cache::missed;
use crate::support::squad::{approve, blueprint, check, diff};
use crate::support::world::*;

/// A squad in a confining sandbox with these checks, up to the reviewer's word.
fn checked(before: OutcomeBody, left: Option<DiffTaken>) -> World {
    let mut world = printed(|spec| {
        spec.workspace.sandbox = SandboxSpec { kind: "local".into(), ..SandboxSpec::default() };
        spec.blueprint = Some(blueprint(&["make test"]));
    });
    let get = missed(&key(&world), "absent");
    answer(&mut world, is_get, get);
    record(&mut world);
    plan_and_code(&mut world);
    answer(&mut world, |effect| matches!(effect, Effect::Diff { .. }), OutcomeBody::DiffTaken(diff("tree")));
    answer(
        &mut world,
        |effect| matches!(effect, Effect::Check { .. }),
        OutcomeBody::CheckRan(check("make test", 0)),
    );
    answer(&mut world, |effect| matches!(effect, Effect::Checkpoint { .. }), before);
    if let Some(left) = left {
        answer(&mut world, |effect| matches!(effect, Effect::Diff { .. }), OutcomeBody::DiffTaken(left));
    }
    world
}

fn left(files: &[&str], removed: &[&str]) -> DiffTaken {
    let list = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    DiffTaken {
        from: "tree2".into(),
        to: "tree3".into(),
        diff: "x".into(),
        files: list(files),
        added: vec![],
        removed: list(removed),
        undone: vec![],
    }
}

#[test]
fn what_a_person_removes_while_the_reviewer_thinks_is_not_stored_as_the_squads() {
    let mut world = checked(checkpointed("tree2"), None);
    asked(&world, "reviewer");
    world.model_says(approve(&[]));
    world.model_only_says(crate::support::squad::answer("It goes.", &[], &[]));
    look(&mut world, "tree2", "without precious", &["precious"]);
    look(&mut world, "tree", "without precious", &["f", "precious"]);
    let reason = "the workspace was changed by another process while the squad worked".to_owned();
    assert_eq!(skips(&world), [(CacheStep::Store, reason)]);
    assert_eq!(cause(&world), TurnCause::Done);
    whole(&world);
}

/// The workspace is looked at: what differs from a recorded tree.
fn look(world: &mut World, expected: &str, to: &str, files: &[&str]) {
    match world.the(|effect| matches!(effect, Effect::Diff { .. })).2 {
        Effect::Diff { order: DiffOrder { from, .. }, .. } => assert_eq!(from, expected, "{}", world.story()),
        _ => unreachable!(),
    }
    let taken = DiffTaken { from: expected.into(), to: to.into(), ..left(files, &[]) };
    answer(world, |effect| matches!(effect, Effect::Diff { .. }), OutcomeBody::DiffTaken(taken));
}

#[test]
fn work_that_somebody_undid_after_the_checks_is_not_done_and_not_stored() {
    let mut world = checked(checkpointed("tree2"), None);
    world.model_says(approve(&[]));
    world.model_only_says(crate::support::squad::answer("It goes.", &[], &[]));
    assert!(world.session.has_open_turn(), "the answer stands once the workspace was looked at");
    look(&mut world, "tree2", "tree", &["f"]);
    look(&mut world, "tree", "tree", &[]);
    assert_eq!(cause(&world), TurnCause::Incomplete);
    let reason = "`f` was changed by another process after the checks".to_owned();
    assert_eq!(skips(&world), [(CacheStep::Store, reason)]);
    let mut sheet = agon::projection::squad::SquadSheet::default();
    world.log.iter().for_each(|entry| sheet.apply(entry));
    let said = sheet.words(r#"{"answer":"It goes.","claims":[],"open":[]}"#);
    assert!(said.ends_with("\n\nChanged by another process after the checks: `f`."), "{said}");
    assert_eq!(sheet.lacks().unwrap(), "`f` was changed by another process after the checks");
    whole(&world);
}

#[test]
fn an_interrupt_while_the_workspace_is_looked_at_ends_the_turn_as_interrupted() {
    let mut world = checked(checkpointed("tree2"), None);
    world.model_says(approve(&[]));
    world.model_only_says(crate::support::squad::answer("It goes.", &[], &[]));
    world.give(ArenaEvent::InterruptRequested(InterruptRequested { spark: None }));
    let cancelled = EffectFailed { status: FailStatus::Cancelled, error: "cancelled".into() };
    let look = |effect: &Effect| matches!(effect, Effect::Diff { .. });
    answer(&mut world, look, OutcomeBody::EffectFailed(cancelled));
    assert_eq!(cause(&world), TurnCause::Interrupted);
    whole(&world);
}

/// A coder that only wrote `f` with its tools, in a workspace in which somebody else changed `note.txt` meanwhile.
fn written_beside_somebody_else(tool: &str) -> World {
    let mut world = super::squad(blueprint(&[]));
    world.model_says(text("The plan."));
    world.model_says(calls(&[(tool, json!({"path": "f"}))]));
    world.run_tools();
    world.model_says(text("Done."));
    let both = DiffTaken { files: vec!["f".into(), "note.txt".into()], ..diff("tree") };
    answer(&mut world, |effect| matches!(effect, Effect::Diff { .. }), OutcomeBody::DiffTaken(both));
    world
}

#[test]
fn what_no_tool_of_the_squad_wrote_is_somebody_elses_in_brief_claims_and_ending() {
    let mut world = written_beside_somebody_else("put");
    let said = asked(&world, "reviewer");
    let words = "Not the work of `coder`, changed meanwhile by another process: `note.txt`.";
    assert!(said.contains(words), "{said}");
    world.model_says(approve(&[]));
    assert!(asked(&world, "coordinator").contains(words));
    let claim = |text: &str| json!({"kind": "changed", "text": text, "evidence": ["e3"]});
    let typed = json!({"answer": "Both.", "claims": [claim("note.txt was changed"), claim("f was changed")], "open": []});
    world.model_says(text(&typed.to_string()));
    assert_eq!(super::flags(&world), [(0, "`note.txt` was changed by another process".to_owned())]);
    assert_eq!(cause(&world), TurnCause::Done);
    let mut sheet = agon::projection::squad::SquadSheet::default();
    let mut board = agon::projection::board::Board::default();
    for entry in &world.log {
        sheet.apply(entry);
        board.apply(entry);
    }
    let said = sheet.words(&typed.to_string());
    assert!(said.contains("\n\nChanged meanwhile by another process: `note.txt`."), "{said}");
    assert!(!board.changed.contains("note.txt"), "{:?}", board.changed);
    whole(&world);
}

#[test]
fn once_a_command_ran_nobody_says_whose_a_change_was() {
    let world = written_beside_somebody_else("run");
    assert!(!asked(&world, "reviewer").contains("somebody else"), "{}", world.story());
    whole(&world);
}

#[test]
fn a_check_that_leaves_files_is_told_to_the_others_and_its_run_is_not_stored() {
    let mut world = checked(checkpointed("tree3"), Some(left(&["junk"], &[])));
    let said = asked(&world, "reviewer");
    assert!(said.contains("what changed while the checks ran: a check or another process did it"), "{said}");
    world.model_says(approve(&[]));
    world.model_says(crate::support::squad::answer("It goes.", &[], &[]));
    let reason = "the workspace changed after the last diff: by a check or by another process".to_owned();
    assert_eq!(skips(&world), [(CacheStep::Store, reason)]);
    assert_eq!(cause(&world), TurnCause::Done, "leaving files is no failure of the work");
    whole(&world);
}

#[test]
fn a_check_that_undoes_the_work_leaves_the_squad_not_done() {
    let back = DiffTaken { from: "tree".into(), to: "tree3".into(), ..DiffTaken::default() };
    for (left, whole_diff) in [(left(&["f"], &[]), back.clone()), (left(&["f"], &["f"]), back)] {
        let mut world = checked(checkpointed("tree3"), Some(left));
        match world.the(|effect| matches!(effect, Effect::Diff { .. })).2 {
            Effect::Diff { order: DiffOrder { from, .. }, .. } => assert_eq!(from, "tree"),
            _ => unreachable!(),
        }
        answer(
            &mut world,
            |effect| matches!(effect, Effect::Diff { .. }),
            OutcomeBody::DiffTaken(whole_diff),
        );
        world.model_says(approve(&[]));
        world.model_says(crate::support::squad::answer("It goes.", &[], &[]));
        assert_eq!(cause(&world), TurnCause::Incomplete);
        let reason = "a check or another process undid the work in `f`".to_owned();
        assert_eq!(skips(&world), [(CacheStep::Store, reason)]);
        whole(&world);
    }
}

#[test]
fn what_somebody_else_changes_between_two_calls_of_the_squad_is_seen_before_the_next_one_writes() {
    let mut world = printed(|_| {});
    let get = missed(&key(&world), "absent");
    answer(&mut world, is_get, get);
    record(&mut world);
    world.model_says(text("The plan."));
    world.model_says(calls(&[("put", json!({"path": "f"}))]));
    world.run_tools();
    // A person edits a file while the coder thinks; then the coder writes again.
    world.model_says(calls(&[("put", json!({"path": "f"}))]));
    let (call, attempt, effect) = world.the(|effect| matches!(effect, Effect::Prepare { .. }));
    let body = world.succeed(&effect).unwrap();
    world.answer(call, attempt, body);
    answer(&mut world, |effect| matches!(effect, Effect::Checkpoint { .. }), checkpointed("edited by hand"));
    world.run_tools();
    world.model_says(text("Done."));
    world.run_tools();
    world.model_says(approve(&[]));
    world.model_says(crate::support::squad::answer("It goes.", &[], &[]));
    let reason = "the workspace was changed by another process while the squad worked".to_owned();
    assert_eq!(skips(&world), [(CacheStep::Store, reason)]);
    whole(&world);
}

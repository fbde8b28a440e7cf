//! What somebody other than the squad changes while it works: checks, people, other programs.

use agon::protocol::effect::DiffOrder;
use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::spec::*;
use serde_json::json;

use super::cache::{answer, is_get, key, printed, skips};
use super::{asked, cause, plan_and_code, whole};
use crate::support::cache::missed;
use crate::support::squad::{approve, blueprint, check, diff};
use crate::support::world::*;

/// A squad in a confining sandbox with a check, up to the reviewer's word on what the work shows.
fn checked(work: DiffTaken) -> World {
    let mut world = printed(|spec| {
        spec.workspace.sandbox = SandboxSpec { kind: "local".into(), ..SandboxSpec::default() };
        spec.blueprint = Some(blueprint(&["make test"]));
    });
    let get = missed(&key(&world), "absent");
    answer(&mut world, is_get, get);
    plan_and_code(&mut world);
    let ran = OutcomeBody::CheckRan(check("make test", 0));
    answer(&mut world, |effect| matches!(effect, Effect::Check { .. }), ran);
    answer(&mut world, is_diff, OutcomeBody::DiffTaken(work));
    world
}

fn is_diff(effect: &Effect) -> bool {
    matches!(effect, Effect::Diff { .. })
}

fn names(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

/// The workspace is compared for the last time: what differs from the beginning, and from what was shown.
fn look(world: &mut World, files: &[&str], touched: &[&str]) {
    match world.the(is_diff).2 {
        Effect::Diff { order: DiffOrder { from, shown, .. }, .. } => {
            assert_eq!((from.as_str(), shown.as_deref()), ("tree", Some("tree2")), "{}", world.story());
        }
        _ => unreachable!(),
    }
    let (files, touched) = (names(files), names(touched));
    let (from, to) = ("tree".into(), "touched".into());
    let taken = DiffTaken { from, to, files, touched, ..DiffTaken::default() };
    answer(world, is_diff, OutcomeBody::DiffTaken(taken));
}

fn judged(world: &World) -> WorkJudged {
    let judged = super::events(world).filter_map(|event| match event {
        ArenaEvent::WorkJudged(judged) => Some(judged.clone()),
        _ => None,
    });
    judged.last().unwrap()
}

#[test]
fn what_a_person_removes_while_the_reviewer_thinks_is_not_stored_as_the_squads() {
    let mut world = checked(diff("tree"));
    asked(&world, "reviewer");
    world.model_says(approve(&[]));
    world.model_only_says(crate::support::squad::answer("It goes.", &[], &[]));
    look(&mut world, &["f", "precious"], &["precious"]);
    let reason = "the workspace was changed by another process while the squad worked".to_owned();
    assert_eq!(skips(&world), [(CacheStep::Store, reason)]);
    assert_eq!(cause(&world), TurnCause::Done);
    assert_eq!((judged(&world).own, judged(&world).unknown), (names(&["f"]), names(&["precious"])));
    whole(&world);
}

#[test]
fn work_that_another_process_undid_after_the_checks_is_not_done_and_not_stored() {
    let mut world = checked(diff("tree"));
    world.model_says(approve(&[]));
    world.model_only_says(crate::support::squad::answer("It goes.", &[], &[]));
    assert!(world.session.has_open_turn(), "the answer stands once the workspace was compared");
    look(&mut world, &[], &["f"]);
    assert_eq!(cause(&world), TurnCause::Incomplete);
    let reason = "`f` was changed by a check or by another process after it was written".to_owned();
    assert_eq!(skips(&world), [(CacheStep::Store, reason.clone())]);
    let mut sheet = agon::projection::squad::SquadSheet::default();
    world.log.iter().for_each(|entry| sheet.apply(entry));
    let said = sheet.words(r#"{"answer":"It goes.","claims":[],"open":[]}"#);
    assert!(said.ends_with("\n\nWork that was undone: `f`."), "{said}");
    assert_eq!(sheet.lacks().unwrap(), reason);
    whole(&world);
}

#[test]
fn an_interrupt_while_the_workspace_is_compared_ends_the_turn_as_interrupted() {
    let mut world = checked(diff("tree"));
    world.model_says(approve(&[]));
    world.model_only_says(crate::support::squad::answer("It goes.", &[], &[]));
    world.give(ArenaEvent::InterruptRequested(InterruptRequested { spark: None, call: None }));
    let cancelled = EffectFailed { status: FailStatus::Cancelled, error: "cancelled".into() };
    answer(&mut world, is_diff, OutcomeBody::EffectFailed(cancelled));
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
    let claim =
        |file: &str| json!({"kind": "changed", "text": "changed", "files": [file], "evidence": ["e3"]});
    let typed = json!({"answer": "Both.", "claims": [claim("note.txt"), claim("f")], "open": []});
    world.model_says(text(&typed.to_string()));
    assert_eq!(super::flags(&world), [(0, "`note.txt` was changed by another process".to_owned())]);
    assert_eq!(cause(&world), TurnCause::Incomplete, "the log contradicts the claim");
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
    assert!(!asked(&world, "reviewer").contains("another process"), "{}", world.story());
    whole(&world);
}

#[test]
fn what_a_check_or_somebody_else_left_is_unknown_and_its_run_is_not_stored() {
    let mut world = checked(DiffTaken { files: names(&["f", "junk"]), ..diff("tree") });
    let said = asked(&world, "reviewer");
    assert!(said.contains("Changed by a check or by another process: `junk`."), "{said}");
    world.model_says(approve(&[]));
    world.model_says(crate::support::squad::answer("It goes.", &[], &[]));
    assert_eq!((judged(&world).own, judged(&world).unknown), (names(&["f"]), names(&["junk"])));
    let reason = "`junk` may have been changed by another process".to_owned();
    assert_eq!(skips(&world), [(CacheStep::Store, reason)]);
    assert_eq!(cause(&world), TurnCause::Done, "leaving files is no failure of the work");
    whole(&world);
}

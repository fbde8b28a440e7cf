//! The demos as the real engine once recorded them: an old log must load, fold and verify whatever became of agon.

use std::sync::Arc;

use agon::arena::replay;
use agon::protocol::effect::OutcomeBody;
use agon::protocol::event::{ArenaEvent, Class, PromptGiven, TurnCause};
use agon::protocol::spec::Mode;
use agon::protocol::{Entry, RULES};
use agon::session::Session;

use super::world::{World, text};

/// One spark at a task.
pub fn run() -> Vec<Arc<Entry>> {
    read(include_str!("../../golden/earlier/demo-run.jsonl"))
}

/// A squad whose first attempt is sent back.
pub fn squad() -> Vec<Arc<Entry>> {
    read(include_str!("../../golden/earlier/demo-squad.jsonl"))
}

/// Six personas on a question.
pub fn debate() -> Vec<Arc<Entry>> {
    read(include_str!("../../golden/earlier/demo-debate.jsonl"))
}

/// A demo as the present rules recorded it: `bash tests/golden/record` makes them when the rules are raised.
pub fn present(demo: &str) -> Vec<Arc<Entry>> {
    let file = crate::house::package().join(format!("tests/golden/rules-{RULES}/demo-{demo}.jsonl"));
    read(&std::fs::read_to_string(&file).unwrap())
}

fn read(log: &str) -> Vec<Arc<Entry>> {
    log.lines().map(|line| Arc::new(serde_json::from_str(line).unwrap())).collect()
}

#[test]
fn logs_of_earlier_rules_fold_and_their_differing_decisions_are_counted() {
    let mut counts = Vec::new();
    for (name, log) in [("run", run()), ("squad", squad()), ("debate", debate())] {
        assert!(
            log.iter().flat_map(|entry| &entry.events).all(|event| event.class() != Class::Unknown),
            "{name}"
        );
        let session = Session::fold(&log).unwrap();
        assert_eq!(session.last_turn().map(|turn| turn.cause), Some(TurnCause::Done), "{name}");
        let found = replay::verify(&log);
        assert!(found.holds(false), "{name}: {:#?}", found.differences.first());
        assert_eq!(found.entries, log.len() as u64, "{name}");
        counts.push(format!("{name}: {} of {} entries", found.differences.len(), found.entries));
    }
    insta::assert_snapshot!("decisions_that_differ_from_earlier_rules", counts.join("\n"));
}

#[test]
fn the_logs_of_the_present_rules_verify_strictly() {
    for demo in ["run", "squad", "debate"] {
        let log = present(demo);
        let found = replay::verify(&log);
        assert!(found.holds(true), "{demo}: {:#?}", found.differences.first());
        assert_eq!(found.entries, log.len() as u64, "{demo}");
    }
}

#[test]
fn a_session_of_earlier_rules_resumes_and_works_on() {
    for (name, log) in [("run", run()), ("squad", squad()), ("debate", debate())] {
        let mut world = World::resumed(log);
        world.check_fold();
        let given = PromptGiven {
            text: "and more".into(),
            mode: Mode::Solo,
            changed: vec![],
            schema: None,
            by: None,
        };
        world.give(ArenaEvent::PromptGiven(given));
        world.run_tools();
        let (call, attempt, _) = world.model();
        world.answer(call, attempt, OutcomeBody::ModelAnswered(text("done")));
        world.run_tools();
        let last = world.session.last_turn().map(|turn| turn.cause);
        assert_eq!((world.session.has_open_turn(), last), (false, Some(TurnCause::Done)), "{name}");
        assert!(replay::verify(&world.log).holds(false), "{name}");
    }
}

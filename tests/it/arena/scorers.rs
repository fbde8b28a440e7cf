//! Scorers a program registers: they open, resume and verify, and are refused by name where they are missing.

use std::sync::Arc;

use agon::arena::{ArenaError, replay};
use agon::assembly::{Running, WireError};
use agon::protocol::event::TurnCause;
use agon::protocol::spec::{DebatePlan, Mode, PersonaSpec};
use agon::protocol::{ArenaEvent, Command, Entry};
use agon::session::convergence::{Panel, Scored, Scorers};
use agon::{Arena, ArenaBuilder};

use super::kit::{Place, closed, log, until};

/// 7 for each voice that is heard.
fn heads(panel: &Panel) -> Scored {
    let heard = panel.voters.iter().filter(|voter| voter.now.is_some()).count() as u32;
    Scored { score_pm: Some(7 * heard), parts: vec![("heads".to_owned(), heard)] }
}

const BALLOT: &str =
    r#"{"position": "P", "confidence": 80, "claims": ["c"], "evidence": [], "would_change": "w"}"#;
const VERDICT: &str = r#"{"answer": "A", "rulings": [{"proposition": 1, "stance": "upheld", "because": "b", "evidence": []}], "confidence": 80, "minority": "", "risks": []}"#;

fn ratings(rating: i8) -> String {
    format!(r#"{{"ratings": [{{"proposition": 1, "rating": {rating}, "confidence": 80}}]}}"#)
}

fn statement(rating: i8) -> String {
    let ratings = ratings(rating);
    let ratings = ratings.trim_start_matches('{');
    format!(r#"{{"ballot": {BALLOT}, "changes": [], {ratings}"#)
}

/// Ann is for it and Ben against. Their statements never come in time for a test that stops before.
fn script(delay_ms: u32) -> String {
    let mut rows = String::new();
    let mut row = |spark: &str, text: &str, delay_ms: u32| {
        rows += &format!("[[answer]]\nspark = \"{spark}\"\ntext = '{text}'\ndelay_ms = {delay_ms}\n");
    };
    for (spark, rating) in [("ann", 2), ("ben", -2)] {
        row(spark, BALLOT, 0);
        row(spark, &ratings(rating), 0);
        row(spark, &statement(rating), delay_ms);
    }
    row("cat", r#"{"propositions": ["It should be."]}"#, 0);
    row("cat", VERDICT, 0);
    rows
}

/// Answers only for those who have not answered yet.
fn rest() -> String {
    let rows = [("ann", statement(2)), ("ben", statement(-2)), ("cat", VERDICT.to_owned())];
    let rows = rows.map(|(spark, text)| format!("[[answer]]\nspark = \"{spark}\"\ntext = '{text}'\n"));
    rows.concat()
}

fn personas(builder: ArenaBuilder) -> ArenaBuilder {
    ["ann", "ben", "cat"]
        .into_iter()
        .fold(builder, |builder, id| builder.persona(PersonaSpec::with_text(id, "You think.")))
}

async fn debate(arena: &Arena) {
    let plan = DebatePlan {
        personas: vec!["ann".into(), "ben".into()],
        moderator: "cat".into(),
        rounds: 2,
        scorer: "heads".into(),
        models: vec![],
    };
    let command = Command::Prompt { text: "Shall it be?".into(), mode: Mode::Debate(plan), schema: None };
    arena.submit(command).await.unwrap();
}

fn scores(log: &[Entry]) -> Vec<u32> {
    let score = |event: &ArenaEvent| match event {
        ArenaEvent::ConvergenceProbed(data) => data.score_pm,
        _ => None,
    };
    log.iter().flat_map(|entry| &entry.events).filter_map(score).collect()
}

/// A debate that was left after its first probe.
async fn left_in_the_middle(place: &Place) -> String {
    let builder = personas(place.scripted(&script(600_000))).scorer("heads", heads);
    let Running { arena, id, .. } = builder.open().await.unwrap();
    debate(&arena).await;
    until(&arena, |event| matches!(event, ArenaEvent::ConvergenceProbed(_)).then_some(())).await;
    arena.stop_hard().await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scorer_of_ones_own_opens_and_resumes() {
    let place = Place::new();
    let id = left_in_the_middle(&place).await;
    let builder = place.scripted(&rest()).scorer("heads", heads);
    let running = builder.resume(&id).await.unwrap();
    assert!(running.has_open_turn);
    assert_eq!(closed(&running.arena).await.cause, TurnCause::Done);
    let whole = log(&running.arena);
    assert_eq!(scores(&whole), [14, 14], "scored by it before and after");
    let whole: Vec<Arc<Entry>> = whole.into_iter().map(Arc::new).collect();
    assert!(replay::verify_with(&whole, &Scorers::default().with("heads", heads)).holds(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_with_a_scorer_that_is_not_there_is_refused_by_name() {
    let place = Place::new();
    let id = left_in_the_middle(&place).await;
    let refused = place.scripted(&rest()).resume(&id).await.err().expect("refused");
    match &refused {
        WireError::Arena(ArenaError::NoScorer(1, name)) => assert_eq!(name, "heads"),
        other => panic!("{other:?}"),
    }
    assert!(refused.to_string().contains("scored by `heads`"), "{refused}");
    let running = place.scripted(&rest()).scorer("heads", heads).resume(&id).await.unwrap();
    let so_far: Vec<Arc<Entry>> = log(&running.arena).into_iter().map(Arc::new).collect();
    let found = replay::verify(&so_far);
    assert_eq!(found.no_scorer, Some((1, "heads".to_owned())));
    assert!(!found.holds(false) && found.differences.is_empty(), "refused, and not said to differ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_names_no_scorer_of_the_arena_is_refused_before_any_call() {
    let place = Place::new();
    let running = personas(place.scripted(&script(0))).open().await.unwrap();
    let plan = DebatePlan {
        personas: vec!["ann".into(), "ben".into()],
        moderator: "cat".into(),
        rounds: 2,
        scorer: "heads".into(),
        models: vec![],
    };
    let command = Command::Prompt { text: "Shall it be?".into(), mode: Mode::Debate(plan), schema: None };
    let refused = running.arena.submit(command).await.unwrap_err().to_string();
    assert!(refused.contains("no scorer is called `heads`"), "{refused}");
}

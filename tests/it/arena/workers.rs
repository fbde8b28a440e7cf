//! Workers that misbehave, behind the port: whatever they say or keep back, each call has one recorded outcome.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agon::arena::Arena;
use agon::assembly::{ArenaBuilder, Running};
use agon::ports::{Sink, Workers};
use agon::protocol::event::{ErrorKind, ToolStatus, ToolUse, TurnCause};
use agon::protocol::spec::{Limits, RetrySpec};
use agon::protocol::{
    ArenaEvent, CallId, CallKind, Command, Effect, Entry, EventRef, Lane, Outcome, OutcomeBody, StopCause,
    Work,
};
use tokio_stream::StreamExt;

use super::kit::*;
use crate::support::world;

/// What the worker does with its only call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    AnswersTwice,
    AnswersForAnother,
    AnswersSomethingElse,
    DropsItsSink,
    Panics,
    KeepsSilent,
    TalksOutOfTurn,
}

/// Asks no model.
struct Worker {
    manner: Manner,
    kept: Mutex<Vec<(Work, Arc<dyn Sink>)>>,
    cancels: AtomicU32,
}

fn answer(work: &Work, words: &str) -> Outcome {
    let body = OutcomeBody::ModelAnswered(world::text(words));
    Outcome { call: work.call, attempt: work.attempt, body }
}

impl Workers for Worker {
    fn start(&self, work: Work, sink: Arc<dyn Sink>) {
        match self.manner {
            Manner::AnswersTwice => {
                sink.end(answer(&work, "first"));
                sink.end(answer(&work, "second"));
                sink.end(answer(&work, "third"));
            }
            Manner::AnswersForAnother => {
                sink.end(Outcome { call: CallId(work.call.0 - 1), ..answer(&work, "mine") });
            }
            Manner::AnswersSomethingElse => {
                let Effect::Model { order, .. } = &work.effect else { panic!("only models are asked here") };
                assert_eq!(order.model, "mock/any");
                let body = OutcomeBody::TimerFired(agon::protocol::event::TimerFired { active_ms: 1 });
                sink.end(Outcome { body, ..answer(&work, "") });
            }
            Manner::DropsItsSink => {}
            Manner::Panics => panic!("this worker is broken"),
            Manner::KeepsSilent => {
                sink.push(Lane::Text, "I was about");
                self.kept.lock().unwrap().push((work, sink));
            }
            Manner::TalksOutOfTurn => {
                sink.push(Lane::Stdout, "a model has no such lane");
                sink.push(Lane::Text, "the key is sw0rdfish-123");
                sink.end(answer(&work, "the key is sw0rdfish-123"));
            }
        }
    }

    fn cancel(&self, _: CallId, _: u32) {
        self.cancels.fetch_add(1, Ordering::SeqCst);
    }
}

fn builder(place: &Place, manner: Manner) -> (ArenaBuilder, Arc<Worker>) {
    let worker = Worker { manner, kept: Mutex::default(), cancels: AtomicU32::new(0) };
    let worker = Arc::new(worker);
    let builder = place.scripted("").retry(RetrySpec { attempts: 1, ..RetrySpec::default() });
    (builder.workers(CallKind::Model, Arc::clone(&worker) as Arc<dyn Workers>), worker)
}

async fn open(place: &Place, manner: Manner) -> (Running, Arc<Worker>) {
    let (builder, worker) = builder(place, manner);
    (builder.open().await.unwrap(), worker)
}

/// Every outcome that was recorded of model calls, and whether it counted.
fn recorded(log: &[Entry]) -> Vec<(String, bool)> {
    let words = |entry: &Entry| match entry.fact()? {
        ArenaEvent::ModelAnswered(data) => Some(data.body.text()),
        ArenaEvent::ModelFailed(data) => Some(data.body.message.clone()),
        _ => None,
    };
    log.iter().filter_map(|entry| Some((words(entry)?, !entry.is_void()))).collect()
}

async fn stopped(arena: &Arena) -> Vec<Entry> {
    arena.submit(Command::Stop { cause: StopCause::Finished }).await.unwrap();
    arena.ended().await;
    log(arena)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_worker_that_answers_often_the_first_counts_and_one_more_is_recorded_as_ignored() {
    let place = Place::new();
    let (running, _) = open(&place, Manner::AnswersTwice).await;
    prompt(&running.arena, "hello").await;
    assert_eq!(closed(&running.arena).await.cause, TurnCause::Done);
    until(&running.arena, |event| matches!(event, ArenaEvent::OutcomeIgnored(_)).then_some(())).await;
    let log = stopped(&running.arena).await;
    assert_eq!(recorded(&log), [("first".to_owned(), true), ("second".to_owned(), false)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_answer_to_the_call_fails_it_and_touches_no_other() {
    for (manner, why) in [
        (Manner::AnswersForAnother, "its worker answered for attempt 1 of call-"),
        (Manner::AnswersSomethingElse, "its worker answered with what was not ordered"),
        (Manner::DropsItsSink, "its worker ended without an outcome"),
        (Manner::Panics, "its worker ended without an outcome"),
    ] {
        let place = Place::new();
        // The turn's timer is the call before: nobody may answer for it.
        let limits = Limits { max_seconds: Some(600), ..Limits::default() };
        let running = builder(&place, manner).0.limits(limits).open().await.unwrap();
        let log = whole_turn(&running, "hello").await;
        let recorded = recorded(&log);
        assert_eq!(recorded.len(), 1, "{recorded:?}");
        assert!(recorded[0].0.contains(why) && recorded[0].1, "{recorded:?}");
        assert!(!log.iter().any(|entry| matches!(entry.fact(), Some(ArenaEvent::TimerFired(_)))));
        let closed = log.iter().flat_map(|entry| &entry.events).find_map(|event| match event {
            ArenaEvent::TurnClosed(data) => Some(data.cause),
            _ => None,
        });
        assert_eq!(closed, Some(TurnCause::ModelFailed));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_ignores_its_deadline_is_given_up_and_what_it_says_later_is_ignored() {
    let place = Place::new();
    let (builder, worker) = builder(&place, Manner::KeepsSilent);
    let limits = Limits { model_timeout_ms: 50, ..Limits::default() };
    let running = builder.limits(limits).open().await.unwrap();
    prompt(&running.arena, "hello").await;
    assert_eq!(closed(&running.arena).await.cause, TurnCause::ModelFailed);
    assert_eq!(worker.cancels.load(Ordering::SeqCst), 2, "told to stop, then given up");
    let failed = until(&running.arena, |event| match event {
        ArenaEvent::ModelFailed(data) => Some(data.body.clone()),
        _ => None,
    })
    .await;
    assert_eq!((failed.kind, failed.said.as_str()), (ErrorKind::Timeout, "I was about"));
    let (work, sink) = worker.kept.lock().unwrap().pop().unwrap();
    sink.end(answer(&work, "at last"));
    until(&running.arena, |event| matches!(event, ArenaEvent::OutcomeIgnored(_)).then_some(())).await;
    let log = stopped(&running.arena).await;
    assert_eq!(recorded(&log).last(), Some(&("at last".to_owned(), false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_ignores_its_cancel_does_not_hold_the_turn() {
    let place = Place::new();
    let (running, worker) = open(&place, Manner::KeepsSilent).await;
    prompt(&running.arena, "hello").await;
    while worker.kept.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.arena.submit(Command::Interrupt { spark: None }).await.unwrap();
    assert_eq!(closed(&running.arena).await.cause, TurnCause::Interrupted);
    let log = stopped(&running.arena).await;
    assert_eq!(recorded(&log), [("it did not stop within 5 s".to_owned(), true)]);
    // A session is over whatever a worker still holds.
    assert_eq!(worker.kept.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_says_is_raw_and_leaves_redacted_and_on_its_own_lanes() {
    let place = Place::new();
    let (builder, _) = builder(&place, Manner::TalksOutOfTurn);
    let running = builder.secret("KEY", "sw0rdfish-123").open().await.unwrap();
    let mut heard = running.arena.subscribe().signals;
    let log = whole_turn(&running, "hello").await;
    assert_eq!(recorded(&log), [("the key is [secret:KEY]".to_owned(), true)]);
    let signal = heard.next().await.unwrap();
    assert_eq!((signal.lane, signal.text.as_str()), (Lane::Text, "the key is [secret:KEY]"));
    assert!(!String::from_utf8_lossy(&place.log_bytes()).contains("sw0rdfish"));
}

/// Has everything done somewhere else: only text crosses.
struct Remote(Mutex<Option<Arc<dyn Sink>>>, Arc<Mutex<Vec<String>>>);

impl Workers for Remote {
    fn start(&self, work: Work, sink: Arc<dyn Sink>) {
        let sent = serde_json::to_string(&work).unwrap();
        let work: Work = serde_json::from_str(&sent).unwrap();
        self.1.lock().unwrap().push(sent);
        let Effect::Model { context, .. } = &work.effect else { panic!("only models are asked here") };
        let words = format!("{} messages", context.request.messages.len());
        let back = serde_json::to_string(&answer(&work, &words)).unwrap();
        sink.end(serde_json::from_str(&back).unwrap());
        *self.0.lock().unwrap() = Some(sink);
    }

    fn cancel(&self, _: CallId, _: u32) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn work_and_outcome_cross_a_wire_as_text() {
    let place = Place::new();
    let sent = Arc::new(Mutex::new(Vec::new()));
    let remote = Arc::new(Remote(Mutex::default(), Arc::clone(&sent)));
    let running = place.scripted("").workers(CallKind::Model, remote).open().await.unwrap();
    let log = whole_turn(&running, "hello").await;
    assert_eq!(recorded(&log), [("2 messages".to_owned(), true)]);
    let sent = sent.lock().unwrap();
    assert!(sent.len() == 1 && sent[0].contains(r#""effect":{"model":{"order":"#), "{sent:?}");
}

/// Runs tools, and says so of another call and in another's name.
struct Liar;

impl Workers for Liar {
    fn start(&self, work: Work, sink: Arc<dyn Sink>) {
        let other = ToolUse { answer: EventRef::fact(0), part: 9 };
        let mut end = world::resolved(other, ToolStatus::Ok, "a long word ".repeat(200).as_str());
        end.by = Some("fork".to_owned());
        sink.end(Outcome { call: work.call, attempt: work.attempt, body: OutcomeBody::ToolResolved(end) });
    }

    fn cancel(&self, _: CallId, _: u32) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tool_came_to_is_recorded_of_the_call_that_was_ordered_and_cut_for_the_model() {
    let place = Place::new();
    let runs = Arc::new(AtomicU32::new(0));
    let odd = Arc::new(Odd(Habit::Panics, Arc::clone(&runs)));
    let script = odd_script("a long word");
    let running =
        place.scripted(&script).tool(odd).workers(CallKind::Tool, Arc::new(Liar)).open().await.unwrap();
    let log = whole_turn(&running, "try it").await;
    let events = || log.iter().flat_map(|entry| &entry.events);
    let invoked = events().find_map(|event| match event {
        ArenaEvent::ToolInvoked(data) => Some(data.tool_use),
        _ => None,
    });
    let end = events().find_map(|event| match event {
        ArenaEvent::ToolResolved(data) => Some(&data.body),
        _ => None,
    });
    let end = end.unwrap();
    assert_eq!((Some(end.tool_use), end.by.as_deref()), (invoked, None));
    assert!(end.content.len() < 1200 && end.blob.as_ref().is_some_and(|blob| blob.bytes == 2400), "{end:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 0, "the arena's own worker is not asked");
}

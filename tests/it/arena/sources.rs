//! Sources of tools in a running session: asked as each turn begins, waited for a moment, gone when they are gone.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agon::arena::replay;
use agon::assembly::Running;
use agon::ports::{Preparation, Sandbox, Tool, ToolEnd, ToolSource};
use agon::protocol::effect::ToolCall;
use agon::protocol::spec::{Risk, ToolSpec};
use agon::protocol::{ArenaEvent, Command, Entry, StopCause};
use serde_json::json;

use super::kit::*;

/// What a source does when it is asked.
#[derive(Clone, Copy)]
enum Mood {
    Offers,
    Fails,
    Hangs,
}

struct Tracker(Mutex<Mood>);

#[async_trait::async_trait]
impl ToolSource for Tracker {
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, String> {
        let mood = *self.0.lock().unwrap();
        match mood {
            Mood::Offers => Ok(vec![Arc::new(Close)]),
            Mood::Fails => Err("connection refused".to_owned()),
            Mood::Hangs => std::future::pending().await,
        }
    }
}

struct Close;

#[async_trait::async_trait]
impl Tool for Close {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new("tracker_close", "Closes an issue.", json!({"type": "object"}), Risk::Read)
    }

    async fn prepare(&self, _: &ToolCall, _: &dyn Sandbox) -> Result<Preparation, String> {
        Ok(Preparation::new("close it", Risk::Read, |_| Box::pin(async { ToolEnd::ok("it is closed") })))
    }
}

fn has_closed(log: &[Entry]) -> usize {
    log.iter().flat_map(|entry| &entry.events).filter(|event| event.kind() == "turn_closed").count()
}

async fn turn(running: &Running, text: &str) -> Vec<Entry> {
    let before = has_closed(&log(&running.arena));
    prompt(&running.arena, text).await;
    for _ in 0..1000 {
        let log = log(&running.arena);
        if has_closed(&log) > before {
            return log;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the turn did not end: {:#?}", log(&running.arena));
}

/// Names of the tools of each request.
fn offered(log: &[Entry]) -> Vec<Vec<String>> {
    let event = |at: agon::protocol::EventRef| log.get(at.seq as usize)?.events.get(usize::from(at.i));
    let called = log.iter().flat_map(|entry| &entry.events).filter_map(|event| match event {
        ArenaEvent::ModelCalled(called) => Some(called),
        _ => None,
    });
    let requests = called.map(|called| agon::protocol::expand::expand(called, &event).unwrap());
    requests.map(|request| request.tools.iter().map(|tool| tool.name.clone()).collect()).collect()
}

const SCRIPT: &str = "[[answer]]\ncalls = [{ tool = \"tracker_close\" }]\n[[answer]]\nexpect = \"it is closed\"\n\
                      text = \"closed\"\n[[answer]]\ncalls = [{ tool = \"tracker_close\" }]\n[[answer]]\n\
                      expect = \"there is no tool `tracker_close`\"\ntext = \"gone\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_a_source_come_and_go_from_turn_to_turn() {
    let place = Place::new();
    let tracker = Arc::new(Tracker(Mutex::new(Mood::Offers)));
    let running = place
        .scripted(SCRIPT)
        .source("tracker", Arc::clone(&tracker) as Arc<dyn ToolSource>)
        .offered(["read_file", "tracker_*"])
        .open()
        .await
        .unwrap();
    let first = turn(&running, "close it").await;
    assert_eq!(ends(&first), [("Ok".to_owned(), "it is closed".to_owned())]);
    assert_eq!(offered(&first), vec![vec!["read_file".to_owned(), "tracker_close".to_owned()]; 2]);
    *tracker.0.lock().unwrap() = Mood::Fails;
    let log = turn(&running, "close it again").await;
    assert_eq!(ends(&log).len(), 1, "nothing was run without the source");
    assert_eq!(offered(&log)[2..], [["read_file"], ["read_file"]]);
    assert!(log.iter().flat_map(|entry| &entry.events).any(
        |event| matches!(event, ArenaEvent::EffectFailed(data) if data.body.error == "connection refused")
    ));
    running.arena.submit(Command::Stop { cause: StopCause::Finished }).await.unwrap();
    running.arena.ended().await;
    let log: Vec<Arc<Entry>> = super::kit::log(&running.arena).into_iter().map(Arc::new).collect();
    assert!(replay::verify(&log).holds(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_does_not_answer_holds_no_turn_up() {
    let place = Place::new();
    let tracker = Arc::new(Tracker(Mutex::new(Mood::Hangs)));
    let script = "[[answer]]\ntext = \"without it\"\n";
    let running = place.scripted(script).source("tracker", tracker).open().await.unwrap();
    let begun = Instant::now();
    let log = turn(&running, "go").await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(offered(&log)[0].iter().all(|tool| tool != "tracker_close"));
    running.arena.submit(Command::Stop { cause: StopCause::Finished }).await.unwrap();
    running.arena.ended().await;
}

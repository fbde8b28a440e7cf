//! Whole turns through the arena: commands, approvals, interrupts, secrets.

use std::sync::Arc;

use agon::protocol::event::{PauseCause, TurnCause};
use agon::protocol::spec::{Limits, ModelSpec, Policy};
use agon::protocol::{ArenaEvent, Choice, Command, Entry, StopCause};
use agon::{ArenaBuilder, Ending};
use tokio_stream::StreamExt;

use super::kit::*;
use crate::support::world::allow_all;

const WRITES: &str = "[[answer]]\ncalls = [{ tool = \"write_file\", args = { path = \"a.txt\", content = \"new\" } }]\n\
    [[answer]]\ntext = \"written\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_nobody_can_give_pauses_and_one_that_is_given_is_acted_upon() {
    let place = Place::new();
    let running = place.scripted(WRITES).policy(Policy::default()).open().await.unwrap();
    prompt(&running.arena, "write").await;
    assert_eq!(running.arena.ended().await, Ending::Paused);
    let last = log(&running.arena).pop().unwrap();
    assert!(
        matches!(&last.events[..], [ArenaEvent::SessionPaused(data)] if data.cause == PauseCause::Approval)
    );
    assert!(!place.work().join("a.txt").exists());
    let gone = running.arena.submit(Command::Stop { cause: StopCause::Quit }).await;
    assert_eq!(gone.unwrap_err().to_string(), "the session has ended");

    let place = Place::new();
    let running = place.scripted(WRITES).policy(Policy::default()).attended().open().await.unwrap();
    prompt(&running.arena, "write").await;
    let (call, digest) = until(&running.arena, |event| match event {
        ArenaEvent::ApprovalRequested(ask) => Some((ask.call, ask.digest.clone())),
        _ => None,
    })
    .await;
    let answer = |digest: String| Command::Answer { call, digest, choice: Choice::Once, by: "ann".into() };
    let wrong = running.arena.submit(answer("0".repeat(64))).await.unwrap_err();
    assert!(wrong.to_string().contains("other content"), "{wrong}");
    running.arena.submit(answer(digest)).await.unwrap();
    assert_eq!(closed(&running.arena).await.cause, TurnCause::Done);
    assert_eq!(std::fs::read_to_string(place.work().join("a.txt")).unwrap(), "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_between_the_approval_and_the_run_is_not_overwritten() {
    let place = Place::new();
    let running = place.scripted(WRITES).policy(Policy::default()).attended().open().await.unwrap();
    prompt(&running.arena, "write").await;
    let (call, digest) = until(&running.arena, |event| match event {
        ArenaEvent::ApprovalRequested(ask) => Some((ask.call, ask.digest.clone())),
        _ => None,
    })
    .await;
    // Another process writes into the workspace while the person looks at the diff.
    std::fs::write(place.work().join("a.txt"), "theirs").unwrap();
    running
        .arena
        .submit(Command::Answer { call, digest, choice: Choice::Once, by: "ann".into() })
        .await
        .unwrap();
    closed(&running.arena).await;
    assert_eq!(std::fs::read_to_string(place.work().join("a.txt")).unwrap(), "theirs");
    let ends = ends(&log(&running.arena));
    assert_eq!(ends[0].0, "Failed", "{ends:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_and_entries_reach_a_subscriber_and_refusals_their_caller() {
    let place = Place::new();
    let script = "[[answer]]\ntext = \"one two three\"\ndelay_ms = 30\n";
    let running = place.scripted(script).open().await.unwrap();
    let mut news = running.arena.subscribe();
    let refused = running.arena.submit(Command::Interrupt { spark: None }).await.unwrap_err();
    assert_eq!(refused.to_string(), "no turn is open; there is nothing to interrupt");
    prompt(&running.arena, "count").await;
    closed(&running.arena).await;
    let mut heard = String::new();
    while heard.len() < "one two three".len() {
        let signal = news.signals.next().await.unwrap();
        assert_eq!(signal.offset as usize, heard.len());
        heard.push_str(&signal.text);
    }
    assert_eq!(heard, "one two three");
    let seqs: Vec<u64> =
        [news.entries.next().await.unwrap().seq, news.entries.next().await.unwrap().seq].into();
    assert_eq!(seqs, [1, 2], "the refused wish is in the log, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_not_there_is_named() {
    let place = Place::new();
    let builder = ArenaBuilder::new(place.work(), place.state()).model(ModelSpec::named("nobody/m"));
    let running = builder.open().await.unwrap();
    let log = whole_turn(&running, "hello").await;
    let words = format!("{log:?}");
    assert!(words.contains("no provider `nobody` is configured for model `nobody/m`"), "{words}");
    let error = ArenaBuilder::new(place.work(), place.state()).open().await.err().unwrap();
    assert_eq!(error.to_string(), "no model is named for this session");
    let gone = place.work().join("gone");
    let error = ArenaBuilder::new(&gone, place.state()).model(ModelSpec::named("m/m")).open().await;
    assert!(error.err().unwrap().to_string().contains(&gone.display().to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_stops_a_command_that_runs() {
    let place = Place::new();
    let script = "[[answer]]\ncalls = [{ tool = \"bash\", args = { command = \"sleep 600\" } }]\n";
    let limits = Limits { max_seconds: Some(1), ..Limits::default() };
    let running = place.scripted(script).limits(limits).open().await.unwrap();
    prompt(&running.arena, "wait").await;
    assert_eq!(closed(&running.arena).await.cause, TurnCause::Limit);
    assert_eq!(ends(&log(&running.arena))[0].0, "Cancelled");
}

const CANARY: &str = "canary-4711-do-not-tell";

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_stands_nowhere_but_in_the_workspace() {
    let place = Place::new();
    std::fs::write(place.work().join("key.txt"), format!("line one\nKEY={CANARY}\n")).unwrap();
    std::fs::write(place.work().join("half.txt"), &CANARY[..10]).unwrap();
    std::fs::write(place.work().join("rest.txt"), &CANARY[10..]).unwrap();
    // In the prompt, in a file, in a command line and its output (plain, encoded, in two pieces), in the
    // model's own words and arguments, in an error text, and in output that is too long for the log.
    let script = format!(
        r#"
[[answer]]
text = "I know {CANARY} well."
calls = [{{ tool = "read_file", args = {{ path = "key.txt" }} }}]

[[answer]]
calls = [{{ tool = "bash", args = {{ command = "cat key.txt; base64 key.txt; od -An -tx1 key.txt | tr -d ' \\n'" }} }}]

[[answer]]
calls = [{{ tool = "bash", args = {{ command = "cat half.txt; sleep 0.2; cat rest.txt" }} }}]

[[answer]]
calls = [{{ tool = "bash", args = {{ command = "yes \"$(cat key.txt)\" | head -n 9000" }} }}]

[[answer]]
calls = [{{ tool = "read_file", args = {{ path = "{CANARY}.txt" }} }}, {{ tool = "bash", raw = "{{broken {CANARY}" }}]

[[answer]]
error = {{ kind = "auth", message = "the key {CANARY} is refused" }}
"#
    );
    let running = place.scripted(&script).secret("KEY", CANARY).open().await.unwrap();
    let mut news = running.arena.subscribe();
    let listening = tokio::spawn(async move {
        let mut heard = String::new();
        while let Some(signal) = news.signals.next().await {
            heard.push_str(&signal.text);
        }
        heard
    });
    let log = whole_turn(&running, &format!("the key is {CANARY}")).await;
    let calls = ends(&log);
    assert!(calls.len() >= 4, "the tools really ran: {calls:?}");
    assert!(calls.iter().all(|(_, content)| !content.contains("4711")), "{calls:?}");
    assert!(calls[1].1.contains("[secret:KEY]"), "{calls:?}");
    drop(running);
    let heard = listening.await.unwrap();
    assert!(heard.contains("[secret:KEY]") && !heard.contains("4711"), "signals: {heard}");
    let bytes = place.log_bytes();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.matches("[secret:KEY]").count() > 5, "log and blobs were read");
    assert_eq!(text.matches("4711-do").count(), 0, "log, blobs and index");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_the_turn_and_the_next_task_is_taken() {
    let place = Place::new();
    let script = "[[answer]]\ncalls = [{ tool = \"bash\", args = { command = \"echo on; sleep 600\" } }]\n\
        [[answer]]\nexpect = [\"cancelled\", \"go on\"]\ntext = \"going on\"\n";
    let running = place.scripted(script).policy(allow_all()).open().await.unwrap();
    prompt(&running.arena, "wait").await;
    until(&running.arena, |event| matches!(event, ArenaEvent::ToolInvoked(_)).then_some(())).await;
    running.arena.submit(Command::Interrupt { spark: None }).await.unwrap();
    assert_eq!(closed(&running.arena).await.cause, TurnCause::Interrupted);
    prompt(&running.arena, "go on").await;
    let turns = |log: &[agon::protocol::Entry]| {
        let events = log.iter().flat_map(|entry| &entry.events);
        events.filter(|event| matches!(event, ArenaEvent::TurnClosed(_))).count()
    };
    while turns(&log(&running.arena)) < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let arena = Arc::new(running.arena);
    arena.submit(Command::Stop { cause: StopCause::Finished }).await.unwrap();
    assert!(matches!(arena.ended().await, Ending::Sealed(Some(end)) if end.cause == TurnCause::Done));
}

#[test]
fn a_long_log_is_taken_up_without_being_held() {
    let recorded = include_str!("../../golden/earlier/demo-debate.jsonl");
    let mut taken_up = agon::arena::Recorded::default();
    let mut seen = Vec::new();
    for line in crate::support::long::entries(recorded, 3_000) {
        let entry: Arc<Entry> = Arc::new(serde_json::from_value(line).unwrap());
        taken_up.apply(&entry);
        seen.push(Arc::downgrade(&entry));
    }
    let held = seen.iter().filter(|entry| entry.strong_count() > 0).count();
    assert_eq!(taken_up.session().next_seq(), seen.len() as u64);
    assert!(held < 150, "{held} of {} entries are held", seen.len());
}

/// What a program of one's own resumes of a log from elsewhere has the builder's prices, retries and limits.
#[tokio::test(flavor = "multi_thread")]
async fn a_builder_takes_nothing_that_a_foreign_log_grants() {
    use agon::protocol::spec::{Limits, ModelSpec, Price, RetrySpec};
    let place = Place::new();
    let script = "[[answer]]\ntext = \"done\"\n";
    let price = |input| Some(Price { input, cached: input, written: None, output: input });
    let model = |input| ModelSpec { price: price(input), ..ModelSpec::named("mock/any") };
    let plain = || agon::ArenaBuilder::new(place.work(), place.state());
    let provider = || Arc::new(agon::provider::script::Script::from_toml("mock", script).unwrap());
    let builder = |input| plain().provider("mock", provider()).model(model(input));
    let wide = Limits { max_steps: 1_000_000, max_micro_usd: None, ..Limits::default() };
    let retry = RetrySpec { attempts: 1_000_000, ..RetrySpec::default() };
    let running = builder(0).limits(wide.clone()).retry(retry.clone()).open().await.unwrap();
    let id = running.id.clone();
    running.arena.stop_hard().await;
    drop(running);
    let limits = || Limits { max_micro_usd: Some(7), ..Limits::default() };
    for is_own in [true, false] {
        if !is_own {
            std::fs::remove_file(place.state().join("sessions").join(&id).join("own")).unwrap();
            assert!(
                plain().provider("mock", provider()).resume(&id).await.is_err(),
                "its models are not the builder's"
            );
        }
        let running = builder(9).limits(limits()).offered(["files"]).resume(&id).await.unwrap();
        let spec = running.arena.spec().await.unwrap();
        assert_eq!(spec.offered, Some(vec!["files".to_owned()]), "the builder offers no more");
        let (wanted, retries, paid) = match is_own {
            true => (wide.clone(), retry.clone(), price(0)),
            false => (limits(), RetrySpec::default(), price(9)),
        };
        assert_eq!((spec.limits, spec.retry, spec.models[0].price), (wanted, retries, paid), "own: {is_own}");
        running.arena.stop_hard().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_cannot_be_hidden_is_refused_by_name() {
    let place = Place::new();
    for (value, why) in [("abc123", "shorter than 8 bytes"), ("correcthorse", "only lower-case letters")] {
        let error = place.scripted("").secret("DB_PASSWORD", value).open().await.map(drop).unwrap_err();
        let words = error.to_string();
        assert!(words.contains("`DB_PASSWORD`") && words.contains(why) && !words.contains(value), "{words}");
    }
}

//! Tools, providers and disks that fail: each becomes one recorded outcome, and the session lives or says why not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use agon::arena::{ArenaPorts, Attendance};
use agon::assembly::SystemClock;
use agon::bus::Bus;
use agon::eventlog::SessionStore;
use agon::ports::{AppendError, EventLog, FileChange, Head, Preparation, Sandbox, Tool, ToolEnd, Workspace};
use agon::protocol::effect::{DiffOrder, Order, ToolCall};
use agon::protocol::event::{
    DiffTaken, PauseCause, TurnCause, WorkspaceCheckpointed, WorkspaceFingerprinted,
};
use agon::protocol::spec::{Blueprint, Limits, Mode, ModelSpec, Risk, RoleSpec, ToolSpec};
use agon::protocol::{ArenaEvent, Command, Entry, StopCause};
use agon::provider::script::Script;
use agon::sandbox::Unconfined;
use agon::toolvault::ToolVault;
use agon::workspace::WorkspaceStore;
use agon::{Arena, ArenaBuilder, Ending};

use super::kit::*;
use crate::support::squad::{persona, role};
use crate::support::world;

fn odd(habit: Habit) -> (Arc<Odd>, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    (Arc::new(Odd(habit, Arc::clone(&runs))), runs)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_panics_ends_its_call_and_not_the_session() {
    let place = Place::new();
    let running = place.with(Arc::new(Broken::default())).open().await.unwrap();
    prompt(&running.arena, "hello").await;
    let failed = until(&running.arena, |event| match event {
        ArenaEvent::ModelFailed(data) => Some(data.body.message.clone()),
        _ => None,
    })
    .await;
    assert!(failed.contains("this provider is broken"), "{failed}");
    // It is no wish of anybody's to stop, so the call is repeated like any other that broke.
    assert_eq!(closed(&running.arena).await.cause, TurnCause::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_panics_is_an_answer_the_model_sees() {
    let place = Place::new();
    let (tool, runs) = odd(Habit::Panics);
    let running = place.scripted(&odd_script("this tool is broken")).tool(tool).open().await.unwrap();
    let log = whole_turn(&running, "try it").await;
    assert_eq!(ends(&log)[0].0, "Lost", "{:?}", ends(&log));
    assert!(
        log.iter().any(|e| matches!(&e.events[0], ArenaEvent::ModelAnswered(a) if a.body.text() == "I saw"))
    );
    assert_eq!(runs.load(Ordering::SeqCst), 1);

    let place = Place::new();
    let (tool, runs) = odd(Habit::PanicsWhenPreparing);
    let running = place.scripted(&odd_script("cannot even look")).tool(tool).open().await.unwrap();
    let log = whole_turn(&running, "try it").await;
    assert_eq!((ends(&log), runs.load(Ordering::SeqCst)), (vec![], 0));
    assert!(
        log.iter().any(|e| matches!(&e.events[0], ArenaEvent::ModelAnswered(a) if a.body.text() == "I saw"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_never_ends_is_cut_at_its_deadline() {
    let place = Place::new();
    let (tool, _) = odd(Habit::WaitsUntilTold);
    let limits = Limits { tool_timeout_ms: 50, ..Limits::default() };
    let script = odd_script("no answer within");
    let running = place.scripted(&script).limits(limits).tool(tool).open().await.unwrap();
    let log = whole_turn(&running, "try it").await;
    assert_eq!(ends(&log), [("Failed".to_owned(), "no answer within 5 s".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_tool_has_a_grace_and_then_is_let_go() {
    let place = Place::new();
    let (tool, runs) = odd(Habit::Deaf);
    let running = place.scripted(&odd_script("x")).tool(tool).open().await.unwrap();
    prompt(&running.arena, "try it").await;
    while runs.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.arena.submit(Command::Interrupt { spark: None }).await.unwrap();
    assert_eq!(closed(&running.arena).await.cause, TurnCause::Interrupted);
    let ends = ends(&log(&running.arena));
    assert_eq!(ends, [("Lost".to_owned(), "it did not stop within 5 s".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_stops_when_told_says_what_happened() {
    let place = Place::new();
    let (tool, runs) = odd(Habit::WaitsUntilTold);
    let running = place.scripted(&odd_script("x")).tool(tool).open().await.unwrap();
    prompt(&running.arena, "try it").await;
    while runs.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.arena.submit(Command::Stop { cause: StopCause::Interrupted }).await.unwrap();
    assert!(matches!(running.arena.ended().await, Ending::Sealed(_)));
    let log = log(&running.arena);
    assert_eq!(ends(&log), [("Cancelled".to_owned(), "stopped half way".to_owned())]);
    let last = log.last().unwrap();
    assert!(matches!(last.events[0], ArenaEvent::ToolResolved(_)), "sealed in the entry of the last outcome");
    assert!(matches!(last.events.last(), Some(ArenaEvent::SessionSealed(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hard_stop_waits_for_nothing_and_leaves_a_log_that_resumes() {
    let place = Place::new();
    let marker = place.work().join("still-there");
    let script = "[[answer]]\ncalls = [{ tool = \"bash\", args = { command = \"trap '' INT TERM; sleep 2; touch still-there\" } }]\n";
    let running = place.scripted(script).open().await.unwrap();
    prompt(&running.arena, "wait").await;
    until(&running.arena, |event| matches!(event, ArenaEvent::ToolInvoked(_)).then_some(())).await;
    let before = log(&running.arena).len();
    let asked = Instant::now();
    running.arena.stop_hard().await;
    println!("the hard stop took {:?}", asked.elapsed());
    assert_eq!(running.arena.ended().await, Ending::Stopped);
    assert_eq!(log(&running.arena).len(), before, "nothing more is recorded");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(!marker.exists(), "the command was ended with its arena");
    let entries: Vec<Arc<Entry>> = log(&running.arena).into_iter().map(Arc::new).collect();
    assert!(agon::session::Session::fold(&entries).unwrap().has_open_turn());
}

/// The diff of a large file replaced by another is longer than a line of the log may be.
#[tokio::test(flavor = "multi_thread")]
async fn a_diff_too_long_for_the_log_is_an_answer_and_not_the_end_of_the_session() {
    let place = Place::new();
    let old: String = (0..40_000).map(|n| format!("old {n:06}\n")).collect();
    let new: String = (0..40_000).map(|n| format!("new {n:06}\\n")).collect();
    std::fs::write(place.work().join("big.txt"), old).unwrap();
    let script = format!(
        "[[answer]]\ncalls = [{{ tool = \"read_file\", args = {{ path = \"big.txt\" }} }}]\n\
         [[answer]]\ncalls = [{{ tool = \"write_file\", args = {{ path = \"big.txt\", content = \"{new}\" }} }}]\n\
         [[answer]]\ntext = \"I saw\"\n"
    );
    let running = place.scripted(&script).open().await.unwrap();
    let log = whole_turn(&running, "replace it").await;
    let answered =
        log.iter().any(|e| matches!(&e.events[0], ArenaEvent::ModelAnswered(a) if a.body.text() == "I saw"));
    assert!(answered, "{:?}", running.arena.ended().await);
    let refused = log.iter().flat_map(|entry| &entry.events).find_map(|event| match event {
        ArenaEvent::ToolRefused(data) => Some(data.text.clone()),
        _ => None,
    });
    let refused = refused.unwrap_or_default();
    assert!(refused.contains("to show for approval") && refused.contains("smaller steps"), "{refused}");
    assert!(std::fs::read_to_string(place.work().join("big.txt")).unwrap().starts_with("old"));
}

/// A tool of somebody's own whose text the log cannot hold.
struct Wordy;

#[async_trait::async_trait]
impl Tool for Wordy {
    fn spec(&self) -> ToolSpec {
        let schema = serde_json::json!({"type": "object"});
        ToolSpec { output_cap: u32::MAX, ..ToolSpec::new("wordy", "Says much.", schema, Risk::Read) }
    }

    async fn prepare(&self, _: &ToolCall, _: &dyn Sandbox) -> Result<Preparation, String> {
        let said = "word ".repeat(200_000);
        Ok(Preparation::new("", Risk::Read, move |_| Box::pin(async move { ToolEnd::ok(said) })))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_too_long_for_the_log_is_an_answer_and_not_the_end_of_the_session() {
    let place = Place::new();
    let script = "[[answer]]\ncalls = [{ tool = \"wordy\" }]\n\
                  [[answer]]\nexpect = \"a log entry may have\"\ntext = \"I saw\"\n";
    let script = Arc::new(Script::from_toml("mock", script).unwrap());
    // A window that would hold it, so that nothing but the log's own limit stands against it.
    let model = ModelSpec { context: 10_000_000, ..ModelSpec::named("mock/any") };
    let builder = ArenaBuilder::new(place.work(), place.state()).provider("mock", script).model(model);
    let running = builder.policy(world::allow_all()).tool(Arc::new(Wordy)).open().await.unwrap();
    let log = whole_turn(&running, "talk").await;
    assert_eq!(ends(&log)[0].0, "Failed", "{:?}", running.arena.ended().await);
    assert!(
        matches!(running.arena.ended().await, Ending::Sealed(Some(closed)) if closed.cause == TurnCause::Done)
    );
}

/// A squad whose coder makes more files than the entry of a diff can name.
#[tokio::test(flavor = "multi_thread")]
async fn a_diff_that_names_too_many_files_is_none_and_not_the_end_of_the_session() {
    let place = Place::new();
    let make = "mkdir many; cd many; i=0; while [ $i -lt 2500 ]; do \
                : >a-file-with-a-name-of-well-over-a-hundred-and-fifty-letters-because-so-many-of-them-would-otherwise-be-needed-\
to-fill-an-entry-of-the-log-with-nothing-but-names-$i; i=$((i+1)); done";
    let script = format!(
        "[[answer]]\nspark = \"lead\"\nnth = 1\ntext = \"make them\"\n\
         [[answer]]\nspark = \"coder\"\nnth = 1\ncalls = [{{ tool = \"bash\", args = {{ command = \"{make}\" }} }}]\n\
         [[answer]]\nspark = \"coder\"\nnth = 2\ntext = \"made\"\n\
         [[answer]]\nspark = \"lead\"\nnth = 2\nexpect = \"could not be compared\"\n\
         text = '{{\"answer\": \"made\", \"claims\": [], \"open\": []}}'\n"
    );
    let coder = RoleSpec { tools: Some(vec!["bash".to_owned()]), ..role("coder", &["lead"]) };
    let roles = vec![role("lead", &[]), coder];
    let blueprint = Blueprint { name: "makers".to_owned(), lead: None, roles, checks: vec![] };
    let builder = place.scripted(&script).persona(persona("lead")).persona(persona("coder"));
    let running = builder.blueprint(blueprint).open().await.unwrap();
    let (text, mode) = ("make files".to_owned(), Mode::Squad);
    running.arena.submit(Command::Prompt { text, mode, schema: None }).await.unwrap();
    let closed = tokio::select! {
        closed = closed(&running.arena) => closed,
        ending = running.arena.ended() => panic!("{ending:?}"),
    };
    assert_eq!(closed.cause, TurnCause::Done);
    assert_eq!(std::fs::read_dir(place.work().join("many")).unwrap().count(), 2500);
    let told =
        log(&running.arena).iter().flat_map(|entry| entry.events.clone()).find_map(|event| match event {
            ArenaEvent::EffectFailed(data) => Some(data.body.error),
            _ => None,
        });
    assert!(told.is_some_and(|told| told.contains("a log entry may have")));
}

/// A real log that refuses from its n-th append on.
struct Refusing {
    log: Arc<dyn EventLog>,
    left: AtomicU64,
    error: AppendError,
    /// The refusal is a single one: a disk with room for one last entry.
    once: bool,
}

#[async_trait::async_trait]
impl EventLog for Refusing {
    async fn append(&self, entries: Vec<Arc<Entry>>) -> Result<Head, AppendError> {
        match self.left.load(Ordering::SeqCst) {
            0 => Err(self.error.clone()),
            left => {
                self.left.store(left - 1, Ordering::SeqCst);
                if left == 1 && self.once {
                    self.left.store(1000, Ordering::SeqCst);
                    return Err(self.error.clone());
                }
                self.log.append(entries).await
            }
        }
    }

    fn visit(&self, from: u64, visit: &mut dyn FnMut(&[u8]) -> bool) -> std::io::Result<()> {
        self.log.visit(from, visit)
    }

    async fn put_blob(&self, bytes: Vec<u8>) -> std::io::Result<String> {
        self.log.put_blob(bytes).await
    }

    fn blob(&self, sha256: &str) -> Option<Vec<u8>> {
        self.log.blob(sha256)
    }

    fn head(&self) -> Head {
        self.log.head()
    }
}

/// A real workspace whose look never ends, as one of a file system that does not answer.
struct Stuck(WorkspaceStore);

#[async_trait::async_trait]
impl Workspace for Stuck {
    async fn fingerprint(&self) -> Result<WorkspaceFingerprinted, String> {
        self.0.fingerprint().await
    }

    async fn checkpoint(&self) -> Result<WorkspaceCheckpointed, String> {
        std::future::pending().await
    }

    async fn diff(&self, order: &DiffOrder) -> Result<DiffTaken, String> {
        self.0.diff(order).await
    }

    async fn changes(&self, from: &str) -> Result<Vec<FileChange>, String> {
        self.0.changes(from).await
    }

    async fn content(&self, sha256: &str) -> Result<Vec<u8>, String> {
        self.0.content(sha256).await
    }
}

/// One interrupt, or the turn's own limit, ends it; what was being recorded has five more seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_the_workspace_that_never_ends_holds_neither_an_interrupt_nor_a_limit_up() {
    for limit in [None, Some(1)] {
        let place = Place::new();
        let log: Arc<dyn EventLog> =
            Arc::new(SessionStore::new(place.state()).create(&uuid::Uuid::now_v7().to_string()).unwrap());
        let workspace = Arc::new(Stuck(WorkspaceStore::open(&place.work(), &place.state()).unwrap()));
        let arena = Arc::new(on(&place, log, workspace, limit).await);
        prompt(&arena, "write").await;
        until(&arena, |event| match event {
            ArenaEvent::EffectOrdered(data) if matches!(data.effect, Order::Checkpoint(_)) => Some(()),
            _ => None,
        })
        .await;
        if limit.is_none() {
            arena.submit(Command::Interrupt { spark: None }).await.unwrap();
        }
        let cause = closed(&arena).await.cause;
        assert_eq!(cause, if limit.is_none() { TurnCause::Interrupted } else { TurnCause::Limit });
        arena.submit(Command::Stop { cause: StopCause::Finished }).await.unwrap();
        let ending = tokio::time::timeout(Duration::from_secs(60), arena.ended()).await;
        assert!(matches!(ending, Ok(Ending::Sealed(_))), "{ending:?}");
        let log = log_of(&arena);
        assert!(agon::arena::replay::verify(&log).holds(true), "the log is whole and true");
    }
}

fn log_of(arena: &Arena) -> Vec<Arc<Entry>> {
    log(arena).into_iter().map(Arc::new).collect()
}

/// An arena on a log that refuses after so many appends; the model wants a file written.
async fn on_a_bad_disk(place: &Place, appends: u64, error: AppendError, once: bool) -> Arena {
    let id = uuid::Uuid::now_v7().to_string();
    let log: Arc<dyn EventLog> = Arc::new(SessionStore::new(place.state()).create(&id).unwrap());
    let log = Arc::new(Refusing { log, left: AtomicU64::new(appends), error, once });
    let workspace = Arc::new(WorkspaceStore::open(&place.work(), &place.state()).unwrap());
    on(place, log, workspace, None).await
}

/// An arena on this log and this look at its workspace.
async fn on(
    place: &Place,
    log: Arc<dyn EventLog>,
    workspace: Arc<dyn Workspace>,
    max_seconds: Option<u64>,
) -> Arena {
    let script = "[[answer]]\ncalls = [{ tool = \"bash\", args = { command = \"echo x >> ran\" } }]\n[[answer]]\ntext = \"ok\"\n";
    let script: Arc<dyn agon::ports::Provider> = Arc::new(Script::from_toml("mock", script).unwrap());
    let sandbox = Arc::new(Unconfined::open(&place.work()).unwrap());
    let vault = ToolVault::builtin().unwrap();
    let mut spec = world::spec();
    spec.workspace.root = place.work().display().to_string();
    spec.policy = world::allow_all();
    spec.tools = vault.specs();
    let ports = ArenaPorts {
        log,
        bus: Arc::new(Bus::new()),
        vault: Arc::new(vault),
        sandbox: sandbox.clone(),
        places: Arc::default(),
        checks: Arc::new(agon::sandbox::SandboxChecks::new(sandbox)),
        workspace,
        cache: None,
        providers: BTreeMap::from([("mock".to_owned(), script)]),
        provider_limits: BTreeMap::new(),
        scorers: agon::session::convergence::Scorers::default(),
        learnings: None,
        workers: BTreeMap::new(),
        clock: Arc::new(SystemClock),
        secrets: Vec::new(),
        attended: Attendance::Unattended,
    };
    spec.limits.max_seconds = max_seconds;
    Arena::open(uuid::Uuid::now_v7().to_string(), spec, ports).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_entry_a_full_disk_refuses_nothing_that_it_orders_is_done() {
    let full = AppendError::Full("no space left on device".to_owned());
    let mut finished = false;
    for appends in 2..20 {
        let place = Place::new();
        let arena = on_a_bad_disk(&place, appends, full.clone(), false).await;
        prompt(&arena, "write").await;
        let arena = Arc::new(arena);
        let other = Arc::clone(&arena);
        let stopper = tokio::spawn(async move {
            closed(&other).await;
            let _ = other.submit(Command::Stop { cause: StopCause::Finished }).await;
        });
        let ending = arena.ended().await;
        stopper.abort();
        let log = log(&arena);
        let invoked = log.iter().flat_map(|e| &e.events).any(|e| matches!(e, ArenaEvent::ToolInvoked(_)));
        assert!(!place.work().join("ran").exists() || invoked, "it ran and was never ordered");
        match ending {
            Ending::Failed(error) => assert_eq!(error, full),
            Ending::Sealed(_) => finished = true,
            other => panic!("{other:?}"),
        }
        if finished {
            break;
        }
    }
    assert!(finished, "with enough room it ends as usual");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_still_takes_the_entry_that_says_so() {
    let place = Place::new();
    let full = AppendError::Full("no space left on device".to_owned());
    let arena = on_a_bad_disk(&place, 3, full.clone(), true).await;
    prompt(&arena, "write").await;
    assert_eq!(arena.ended().await, Ending::Failed(full));
    let log = log(&arena);
    let last = log.last().unwrap();
    assert!(
        matches!(&last.events[0], ArenaEvent::SessionPaused(data) if data.cause == PauseCause::Disk),
        "{last:?}"
    );
    assert!(!place.work().join("ran").exists());
    let entries: Vec<Arc<Entry>> = log.into_iter().map(Arc::new).collect();
    assert!(agon::arena::replay::verify(&entries).holds(true), "the log is whole and true");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poisoned_log_ends_the_arena_and_tells_whoever_asked() {
    let place = Place::new();
    let poisoned = AppendError::Poisoned("fdatasync failed".to_owned());
    let arena = on_a_bad_disk(&place, 1, poisoned.clone(), false).await;
    let mode = agon::protocol::spec::Mode::Solo;
    let told =
        arena.submit(Command::Prompt { text: "write".to_owned(), mode, schema: None }).await.unwrap_err();
    assert!(told.to_string().contains("fdatasync failed"), "{told}");
    assert_eq!(arena.ended().await, Ending::Failed(poisoned));
    assert_eq!(log(&arena).len(), 1);
}

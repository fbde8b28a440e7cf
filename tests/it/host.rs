//! The use cases in process: front ends that answer, go away and come back; the workspace's lock; handles.

use std::sync::Arc;

use agon::config::{Config, Environment, Places};
use agon::host::{Answers, Changes, CommandError, Consented, Person, Question, Update, Updates, WireError};
use agon::ports::{Preparation, Sandbox, Tool, ToolEnd};
use agon::protocol::effect::ToolCall;
use agon::protocol::event::PauseCause;
use agon::protocol::need::Need;
use agon::protocol::spec::{Action, Mode, PermissionLevel, Policy, Risk, Rule, ToolSpec};
use agon::protocol::{ArenaEvent, Choice, Command, Entry, StopCause};
use agon::{Ending, Handle, Host};

use futures_util::FutureExt as _;

use crate::arena::kit::Place;
use crate::support::env::Env;

const WRITES: &str = "[[answer]]\ncalls = [{ tool = \"write_file\", args = { path = \"a.txt\", content = \"new\" } }]\n\
    [[answer]]\ntext = \"written\"\n[[answer]]\ntext = \"again\"\n";

fn host(place: &Place) -> Host {
    Host::at(&Places::beneath(&place.state()))
}

async fn open(place: &Place, host: &Host) -> Handle {
    let builder = place.scripted(WRITES).policy(Policy::default());
    host.open_built(builder, Answers::People).await.unwrap()
}

fn task(text: &str) -> Command {
    Command::Prompt { text: text.to_owned(), mode: Mode::Solo, schema: None }
}

fn answer(handle: &Handle, by: &str) -> Command {
    let ask = handle.asks().remove(0);
    Command::Answer { call: ask.call, digest: ask.digest, choice: Choice::Once, by: by.to_owned() }
}

/// Listens until an event comes; gives every entry until then.
async fn until(updates: &mut Updates, is_it: impl Fn(&ArenaEvent) -> bool) -> Vec<Arc<Entry>> {
    let mut heard = Vec::new();
    loop {
        match updates.next().await.unwrap() {
            Update::Entries(entries) => heard.extend(entries),
            Update::Ended(ending) => panic!("it ended: {ending:?}"),
            Update::Signal(_) | Update::NotTaken(_) => {}
        }
        if heard.iter().flat_map(|entry| &entry.events).any(&is_it) {
            return heard;
        }
    }
}

fn is_asked(event: &ArenaEvent) -> bool {
    matches!(event, ArenaEvent::ApprovalRequested(_))
}

fn is_closed(event: &ArenaEvent) -> bool {
    matches!(event, ArenaEvent::TurnClosed(_))
}

/// Opens a session and waits for its approval.
async fn asking(place: &Place, host: &Host) -> (Handle, Updates) {
    let handle = open(place, host).await;
    let mut updates = handle.subscribe(0);
    handle.command(task("write")).await.unwrap();
    until(&mut updates, is_asked).await;
    (handle, updates)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_front_ends_the_first_answer_counts() {
    let place = Place::new();
    let host = host(&place);
    let (handle, mut ann) = asking(&place, &host).await;
    let mut bob = host.handle(handle.id()).unwrap().subscribe(0);
    until(&mut bob, is_asked).await;
    let of_ann = answer(ann.handle(), "ann");
    let of_bob = answer(bob.handle(), "bob");
    let late = of_bob.clone();
    // At the same time, so that either of them may be the first.
    let (one, two) = tokio::join!(ann.handle().command(of_ann), bob.handle().command(of_bob));
    let refused: Vec<CommandError> = [one, two].into_iter().filter_map(Result::err).collect();
    assert!(matches!(&refused[..], [CommandError::AlreadyAnswered(_)]), "{refused:?}");
    let refused = bob.handle().command(late).await.unwrap_err();
    assert!(refused.to_string().ends_with("is already answered"), "{refused}");
    let heard = until(&mut ann, is_closed).await;
    until(&mut bob, is_closed).await;
    let answers = heard.iter().flat_map(|entry| entry.effective()).filter_map(|(_, event)| match event {
        ArenaEvent::ApprovalAnswered(data) => Some(data.by.as_str()),
        _ => None,
    });
    assert_eq!(answers.count(), 1);
    assert_eq!(std::fs::read_to_string(place.work().join("a.txt")).unwrap(), "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_front_end_gets_the_entry_itself_and_none_reads_it_again() {
    let place = Place::new();
    let host = host(&place);
    let (handle, mut ann) = asking(&place, &host).await;
    let mut bob = handle.subscribe(handle.head().count);
    // Nothing more is recorded before the answer: from here on both hear the bus.
    while ann.next().now_or_never().is_some() {}
    while bob.next().now_or_never().is_some() {}
    handle.command(answer(&handle, "ann")).await.unwrap();
    let (of_ann, of_bob) = tokio::join!(until(&mut ann, is_closed), until(&mut bob, is_closed));
    assert!(of_ann.len() > 2 && of_bob.len() > 2, "{of_ann:?}");
    assert!(of_ann.iter().zip(&of_bob).all(|(one, other)| Arc::ptr_eq(one, other)), "one was made again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_front_end_that_goes_away_answers_nothing() {
    let place = Place::new();
    let host = host(&place);
    let (handle, first) = asking(&place, &host).await;
    let mut second = handle.subscribe(handle.head().count);
    // One leaves in peace while another listens, which stops nothing; a third is gone without a word.
    assert!(first.leave().await.is_empty());
    drop(handle.subscribe(0));
    assert_eq!(handle.asks().len(), 1);
    assert!(!place.work().join("a.txt").exists());
    assert!(handle.has_open_turn());
    second.handle().command(answer(&handle, "second")).await.unwrap();
    until(&mut second, is_closed).await;
    assert!(place.work().join("a.txt").exists());
    // The last one ends it.
    let last = second.leave().await;
    let sealed = |event: &ArenaEvent| matches!(event, ArenaEvent::SessionSealed(data) if data.cause == StopCause::Finished);
    assert!(last.iter().flat_map(|entry| &entry.events).any(sealed), "{last:?}");
    assert!(host.open_sessions().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_answered_by_the_next_process() {
    for is_orderly in [true, false] {
        let place = Place::new();
        let (handle, updates) = asking(&place, &host(&place)).await;
        let id = handle.id().to_owned();
        match is_orderly {
            true => handle.pause().await,
            false => handle.cut_off().await,
        }
        let last = handle.read(handle.head().count - 1..u64::MAX).unwrap().pop().unwrap();
        let paused = |event: &ArenaEvent| matches!(event, ArenaEvent::SessionPaused(data) if data.cause == PauseCause::Quit);
        assert_eq!(last.events.iter().any(paused), is_orderly);
        drop((handle, updates));

        let next = host(&place);
        let builder = place.scripted("[[answer]]\ntext = \"written\"\n").policy(Policy::default());
        let handle = next.resume_built(builder, &id, Answers::People).await.unwrap();
        let mut updates = handle.subscribe(0);
        while handle.asks().is_empty() {
            updates.next().await.unwrap();
        }
        assert!(handle.has_open_turn());
        let yes = answer(&handle, "next");
        handle.command(yes.clone()).await.unwrap();
        until(&mut updates, is_closed).await;
        assert!(place.work().join("a.txt").exists());
        assert!(matches!(handle.command(yes).await, Err(CommandError::AlreadyAnswered(_))));
        updates.leave().await;
    }
}

/// Where no person can be asked.
pub struct NoPerson;

impl Person for NoPerson {
    type Failure = WireError;

    fn name(&self) -> String {
        "nobody".to_owned()
    }

    async fn agrees(&self, _: Question) -> Result<Consented, WireError> {
        Ok(Consented::No)
    }
}

/// Works in a copy where another agon is at work, and agrees to nothing else.
struct Copies;

impl Person for Copies {
    type Failure = WireError;

    fn name(&self) -> String {
        "ann".to_owned()
    }

    async fn agrees(&self, question: Question) -> Result<Consented, WireError> {
        Ok(if matches!(question, Question::Busy { .. }) { Consented::InCopy } else { Consented::No })
    }
}

/// A configuration with a script for a model.
fn configured(env: &Env) -> Config {
    env.config(
        "model = \"mock/any\"\nsandbox.kind = \"none\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n",
    );
    env.write("home/mock.toml", "[[answer]]\ntext = \"one\"\n[[answer]]\ntext = \"two\"\n");
    let home = ("AGON_HOME".to_owned(), env.home().display().to_string());
    let environment: Environment = [home].into_iter().collect();
    Config::load(environment, &env.work().canonicalize().unwrap(), &[]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_at_level_plan_works_beside_one_that_writes_and_is_raised_only_when_that_has_ended() {
    let env = Env::new();
    let config = configured(&env);
    let model = "mock/any".parse().unwrap();
    let plans = Changes { permission: Some(PermissionLevel::Plan), ..Changes::default() };
    let raised = Changes { permission: Some(PermissionLevel::Edits), ..Changes::default() };
    let (here, elsewhere) = (Host::at(config.places()), Host::at(config.places()));
    let writes =
        here.open((&config, &model), &Changes::default(), (Answers::People, &NoPerson)).await.unwrap();
    let looks = elsewhere.open((&config, &model), &plans, (Answers::People, &NoPerson)).await.unwrap();
    let mut updates = looks.subscribe(0);
    looks.command(task("look")).await.unwrap();
    until(&mut updates, is_closed).await;
    let refused = looks.prompt(&config, &raised, task("write")).await.unwrap_err();
    assert!(matches!(refused, CommandError::Wire(WireError::Busy { .. })), "{refused}");
    writes.leave().await;
    looks.prompt(&config, &raised, task("write")).await.unwrap();
    until(&mut updates, is_closed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_another_agon_is_at_work_a_session_works_in_a_copy_that_comes_home() {
    let env = Env::new();
    let config = configured(&env);
    env.write("work/notes.txt", "of now\n");
    let (model, changes) = ("mock/any".parse().unwrap(), Changes::default());
    let (here, elsewhere) = (Host::at(config.places()), Host::at(config.places()));
    let earlier = here.open((&config, &model), &changes, (Answers::People, &NoPerson)).await.unwrap();
    earlier.leave().await;
    let begun = earlier.id().to_owned();
    drop(earlier);
    let writes = here.open((&config, &model), &changes, (Answers::People, &NoPerson)).await.unwrap();
    let copy = elsewhere.open((&config, &model), &changes, (Answers::People, &Copies)).await.unwrap();
    assert!(copy.notes()[0].contains("agon apply fork-1"), "{:?}", copy.notes());
    assert_ne!(copy.workspace(), writes.workspace());
    assert_eq!(std::fs::read_to_string(copy.workspace().join("notes.txt")).unwrap(), "of now\n");
    let mut updates = copy.subscribe(0);
    copy.command(task("write")).await.unwrap();
    until(&mut updates, is_closed).await;
    std::fs::write(copy.workspace().join("notes.txt"), "of the copy\n").unwrap();
    // What was begun in the workspace works in a copy as well.
    let again = elsewhere.resume((&config, &begun), &changes, (Answers::People, &Copies)).await.unwrap();
    assert!(again.workspace() != writes.workspace() && again.workspace() != copy.workspace());
    for handle in [&writes, &again, &copy] {
        handle.leave().await;
    }
    let applied = here.apply("fork-1", None, false).await.unwrap();
    assert!(applied.is_whole(), "{applied:?}");
    assert_eq!(std::fs::read_to_string(env.work().join("notes.txt")).unwrap(), "of the copy\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workspace_is_locked_for_a_turn_and_no_longer() {
    let env = Env::new();
    let config = configured(&env);
    let (model, changes) = ("mock/any".parse().unwrap(), Changes::default());
    let open = async |host: &Host| host.open((&config, &model), &changes, (Answers::People, &NoPerson)).await;
    let (here, elsewhere) = (Host::at(config.places()), Host::at(config.places()));
    let first = open(&here).await.unwrap();
    let mut updates = first.subscribe(0);
    let refused = open(&elsewhere).await.err().unwrap();
    assert!(matches!(refused, WireError::Busy { .. }), "{refused}");
    first.command(task("begin")).await.unwrap();
    until(&mut updates, is_closed).await;

    // Between two turns another session may write, and then this one has to wait.
    let second = open(&elsewhere).await.unwrap();
    let refused = first.command(task("go on")).await.unwrap_err();
    assert!(matches!(refused, CommandError::Wire(WireError::Busy { .. })), "{refused}");
    second.leave().await;
    // A task that is refused lets go again.
    let refused = first.command(task(&"x".repeat(1 << 20))).await.unwrap_err();
    assert!(matches!(refused, CommandError::Submit(_)), "{refused}");
    let third = open(&elsewhere).await.unwrap();
    third.leave().await;
    first.command(task("go on")).await.unwrap();
    until(&mut updates, is_closed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_outlives_its_session() {
    let place = Place::new();
    let host = host(&place);
    let (handle, mut updates) = asking(&place, &host).await;
    let yes = answer(&handle, "late");
    handle.command(Command::Stop { cause: StopCause::Quit }).await.unwrap();
    let ending = loop {
        if let Update::Ended(ending) = updates.next().await.unwrap() {
            break ending;
        }
    };
    assert!(matches!(ending, Ending::Sealed(Some(_))), "{ending:?}");
    // The end is said as often as somebody asks, also to a front end that comes later.
    assert!(matches!(updates.next().await.unwrap(), Update::Ended(_)));
    let mut later = handle.subscribe(0);
    let Update::Entries(all) = later.next().await.unwrap() else { panic!("the record comes first") };
    assert_eq!(all.len() as u64, handle.head().count);
    assert!(matches!(later.next().await.unwrap(), Update::Ended(_)));
    assert!(host.handle(handle.id()).is_none());
    assert!((handle.asks().is_empty(), handle.spec().await.is_none()) == (true, true));
    for command in [task("more"), yes] {
        let gone = handle.command(command).await.unwrap_err();
        assert_eq!(gone.to_string(), "the session has ended");
    }
    handle.pause().await;
    assert!(later.leave().await.is_empty());
}

/// A tool that connects to a host, or runs outside of the sandbox.
struct Door(Need);

#[async_trait::async_trait]
impl Tool for Door {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new("door", "Goes out.", serde_json::json!({"type": "object"}), Risk::Execute)
    }

    async fn prepare(&self, _: &ToolCall, _: &dyn Sandbox) -> Result<Preparation, String> {
        let prepared =
            Preparation::new("out", Risk::Execute, |_| Box::pin(async { ToolEnd::failed("went out") }));
        Ok(prepared.needing(self.0.clone()))
    }
}

/// How a session ends in which this need is met by `--yes`, and what its log holds.
async fn with_yes(need: Need, rules: Vec<Rule>, level: PermissionLevel) -> (Ending, Vec<ArenaEvent>) {
    let place = Place::new();
    let script = "[[answer]]\ncalls = [{ tool = \"door\", args = {} }]\n[[answer]]\ntext = \"done\"\n";
    let builder =
        place.scripted(script).policy(Policy { rules }).permission(level).tool(Arc::new(Door(need)));
    let answers = Answers::Yes { by: "--yes".to_owned(), people: false };
    let handle = host(&place).open_built(builder, answers).await.unwrap();
    let mut updates = handle.subscribe(0);
    handle.command(task("go out")).await.unwrap();
    let mut events = Vec::new();
    loop {
        match updates.next().await.unwrap() {
            Update::Entries(entries) => events.extend(entries.iter().flat_map(|entry| entry.events.clone())),
            Update::Ended(ending) => return (ending, events),
            Update::Signal(_) | Update::NotTaken(_) => {}
        }
        if events.iter().any(is_closed) {
            // A session that ended meanwhile needs no stop.
            let _ = handle.command(Command::Stop { cause: StopCause::Finished }).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn yes_opens_no_door_and_a_rule_that_names_the_need_does() {
    for need in [Need::Host("index.example.org".to_owned()), Need::Port(5432), Need::Unconfined] {
        let name = need.name().into_owned();
        for level in PermissionLevel::ALL {
            let (ending, events) = with_yes(need.clone(), vec![], level).await;
            assert!(
                !events.iter().any(|event| matches!(event, ArenaEvent::ToolInvoked(_))),
                "{name} {level:?}"
            );
            let asked = events.iter().find_map(|event| match event {
                ArenaEvent::ApprovalRequested(data) => Some(data.opens.clone()),
                _ => None,
            });
            match level {
                PermissionLevel::Plan => assert!(matches!(ending, Ending::Sealed(_)), "{name}: denied"),
                _ => assert_eq!((ending, asked), (Ending::Paused, Some(vec![name.clone()])), "{level:?}"),
            }
        }
        let rule = Rule { needs: vec![name.clone()], ..Rule::named("--allow", Action::Allow) };
        let (ending, events) = with_yes(need, vec![rule], PermissionLevel::Ask).await;
        assert!(matches!(ending, Ending::Sealed(_)), "{name}: {ending:?}");
        assert!(events.iter().any(|event| matches!(event, ArenaEvent::ToolInvoked(_))), "{name}");
    }
    let (ending, events) = with_yes(Need::Git, vec![], PermissionLevel::Ask).await;
    assert!(matches!(ending, Ending::Sealed(_)), "what stays in the sandbox is answered: {ending:?}");
    assert!(events.iter().any(|event| matches!(event, ArenaEvent::ToolInvoked(_))));
}

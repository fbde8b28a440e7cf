//! A pure world around a session: answers its effects, checks after every step what must always hold.

use agon::protocol::effect::{CheckOrder, DiffOrder, GateOrder, MentionOrder, ModelContext};
use agon::protocol::effect::{Effect, Outcome, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::message::{Args, Finish, Part, Request, Usage};
use agon::protocol::need::Need;
use agon::protocol::spec::*;
use agon::protocol::{CallId, Choice, Entry, Fact, Input, RULES, StopCause};
use agon::session::Session;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::dice::random_calls;
pub use super::dice::{Dice, host_asked};
pub use super::requests::well_formed;

use super::requests;

/// A spec with two models, one persona and three tools: `look` (read), `put` (write), `run` (execute).
pub fn spec() -> Spec {
    let tool = |name: &str, risk, repeatable| {
        let spec = ToolSpec::new(name, format!("the tool {name}"), json!({"type": "object"}), risk);
        ToolSpec { repeatable, output_cap: 1000, ..spec }
    };
    let model = |name: &str, fallbacks: &[&str]| ModelSpec {
        name: name.to_owned(),
        family: None,
        context: 20_000,
        max_output: 1000,
        price: Some(Price { input: 1_000_000, cached: 500_000, written: None, output: 2_000_000 }),
        structured: Default::default(),
        temperature_pm: None,
        refuses: vec![],
        images: false,
        fallbacks: fallbacks.iter().map(|s| (*s).to_owned()).collect(),
        fallbacks_on: BTreeMap::new(),
    };
    Spec {
        program: "agon test".to_owned(),
        seed: 7,
        workspace: WorkspaceSpec {
            root: "/w".to_owned(),
            git_head: None,
            sandbox: SandboxSpec { kind: "none".to_owned(), ..SandboxSpec::default() },
            places: vec![],
        },
        models: vec![model("mock/a", &["mock/b"]), model("mock/b", &[])],
        personas: vec![PersonaSpec::with_text("solo", "You work.")],
        tools: vec![
            tool("look", Risk::Read, true),
            tool("put", Risk::Write, false),
            tool("run", Risk::Execute, false),
        ],
        offered: None,
        sources: vec![],
        gates: vec![],
        effort: None,
        policy: Policy::default(),
        permission: Default::default(),
        limits: Limits::default(),
        retry: RetrySpec::default(),
        instructions: vec![Instruction { path: "AGENTS.md".to_owned(), text: "Be kind.".to_owned() }],
        blueprint: None,
        cache: None,
    }
}

/// The same with the tools that agon answers itself.
pub fn spec_with_inside() -> Spec {
    let inside = agon::toolvault::ToolVault::builtin().unwrap().specs().into_iter();
    let inside = inside.filter(|tool| tool.inside.is_some());
    Spec { tools: spec().tools.into_iter().chain(inside).collect(), ..spec() }
}

/// A policy that allows everything.
pub fn allow_all() -> Policy {
    let rule = Rule::named("all", Action::Allow);
    Policy { rules: vec![rule] }
}

/// A session and its log.
pub struct World {
    pub session: Session,
    pub log: Vec<Arc<Entry>>,
}

impl World {
    /// Opens a session with this spec.
    pub fn open(spec: Spec) -> World {
        let mut world = World { session: Session::new(), log: Vec::new() };
        let id = "00000000-0000-7000-8000-000000000001".to_owned();
        world.give(ArenaEvent::SessionOpened(Box::new(SessionOpened { id, rules: RULES, spec })));
        world
    }

    /// Feeds a fact and gives its decisions.
    pub fn give(&mut self, event: ArenaEvent) -> Vec<ArenaEvent> {
        let fact = Fact::new(event).expect("a fact");
        let entry = self.session.handle(Input { at: 1_000_000 + self.log.len() as u64 * 1000, fact });
        self.log.push(Arc::clone(&entry));
        if entry.events.iter().any(|event| matches!(event, ArenaEvent::TurnClosed(_))) {
            self.nothing_of_the_turn_is_open();
        }
        entry.decisions().to_vec()
    }

    /// A turn that has closed leaves nothing running but the record of what it left, and what was told to stop.
    fn nothing_of_the_turn_is_open(&self) {
        for open in self.session.outstanding() {
            let is_left = match self.session.effect(open.call) {
                Some(Effect::Mention { .. }) => open.cancelled,
                effect => matches!(effect, Some(Effect::Checkpoint { .. })),
            };
            assert!(is_left, "{open:?} outlives its turn\n{}", self.story());
        }
    }

    pub fn prompt(&mut self, text: &str) -> Vec<ArenaEvent> {
        self.give(ArenaEvent::PromptGiven(PromptGiven {
            text: text.to_owned(),
            mode: self.mode(),
            changed: vec![],
            schema: None,
            by: None,
        }))
    }

    /// A session with a blueprint works as a squad.
    pub fn mode(&self) -> Mode {
        let squad = self.session.spec().is_some_and(|spec| spec.blueprint.is_some());
        if squad { Mode::Squad } else { Mode::Solo }
    }

    pub fn answer(&mut self, call: u64, attempt: u32, body: OutcomeBody) -> Vec<ArenaEvent> {
        self.give(Outcome { call: CallId(call), attempt, body }.into_event())
    }

    /// The only outstanding call of a kind.
    pub fn the(&self, which: impl Fn(&Effect) -> bool) -> (u64, u32, Effect) {
        let mut found: Vec<_> = self
            .session
            .outstanding()
            .into_iter()
            .filter_map(|o| Some((o.call.0, o.attempt, self.session.effect(o.call)?)))
            .filter(|(_, _, effect)| which(effect))
            .collect();
        assert_eq!(found.len(), 1, "outstanding: {:?}", self.session.outstanding());
        found.remove(0)
    }

    pub fn model(&self) -> (u64, u32, Request) {
        match self.the(|e| matches!(e, Effect::Model { .. })) {
            (call, attempt, Effect::Model { context: ModelContext { request, .. }, .. }) => {
                (call, attempt, request)
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn model_fails(&mut self, kind: ErrorKind) -> Vec<ArenaEvent> {
        let (call, attempt, _) = self.model();
        self.answer(call, attempt, OutcomeBody::ModelFailed(failure(kind)))
    }

    /// Answers every prepare, checkpoint and tool call with success until only others are left.
    pub fn run_tools(&mut self) {
        loop {
            let next = self.session.outstanding().into_iter().find_map(|o| {
                let effect = self.session.effect(o.call)?;
                let body = self.succeed(&effect)?;
                Some((o.call.0, o.attempt, body))
            });
            let Some((call, attempt, body)) = next else { return };
            self.answer(call, attempt, body);
        }
    }

    /// A successful outcome for everything but models, asks and timers; a call that may write leaves another tree.
    pub fn succeed(&self, effect: &Effect) -> Option<OutcomeBody> {
        let writes = |event: &ArenaEvent| match event {
            ArenaEvent::ToolInvoked(_) => true,
            ArenaEvent::DiffTaken(data) => data.body.to == "tree2",
            _ => false,
        };
        match effect {
            Effect::Checkpoint { .. } if self.log.iter().any(|entry| entry.events.iter().any(writes)) => {
                Some(checkpointed("tree2"))
            }
            other => succeed(other),
        }
    }

    /// What must hold after any step.
    pub fn check(&self) {
        requests::as_recorded(&self.session);
        self.check_fold();
    }

    /// The same for a log whose requests have the digests of earlier rules.
    pub fn check_fold(&self) {
        let folded = Session::fold(&self.log).expect("entries follow one another");
        assert_eq!(folded.outstanding(), self.session.outstanding(), "fold and handle agree on what is open");
        for open in self.session.outstanding() {
            let effect = self.session.effect(open.call).expect("every open call has an effect");
            assert_eq!(folded.effect(open.call).as_ref(), Some(&effect), "the same effect after a fold");
            assert_eq!(folded.request_digests(open.call), self.session.request_digests(open.call));
            let sent = serde_json::to_string(&effect).unwrap();
            assert_eq!(serde_json::from_str::<Effect>(&sent).unwrap(), effect, "it can cross a wire");
            if let Effect::Model { context: ModelContext { request, .. }, .. } = &effect {
                requests::well_formed(request);
            }
        }
        let lines: Vec<String> = self.log.iter().map(|e| serde_json::to_string(&**e).unwrap()).collect();
        for (line, entry) in lines.iter().zip(&self.log) {
            let back: Entry = serde_json::from_str(line).unwrap();
            assert_eq!(&back, &**entry, "an entry survives its line");
        }
    }

    /// The log in one line an entry, for messages.
    pub fn story(&self) -> String {
        let kinds = |entry: &Entry| {
            entry.events.iter().map(|e| format!("{} {}", e.kind(), e.data())).collect::<Vec<_>>()
        };
        let line = |entry: &Arc<Entry>| {
            let events: Vec<String> =
                kinds(entry).into_iter().map(|text| text.chars().take(140).collect()).collect();
            format!("{}: {}", entry.seq, events.join("\n      "))
        };
        self.log.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Every tool call of every answer has exactly one end, or the turn is still open.
    pub fn every_use_ends_once(&self) {
        let mut ends: BTreeMap<ToolUse, u32> = BTreeMap::new();
        let mut asked: Vec<ToolUse> = Vec::new();
        // What a summary asks for is never done, and its answer never sent back.
        let mut summaries: Vec<CallId> = Vec::new();
        for entry in &self.log {
            for (at, event) in entry.effective() {
                match event {
                    ArenaEvent::ModelCalled(data) if data.purpose == Purpose::Compact => {
                        summaries.push(data.call)
                    }
                    ArenaEvent::ModelAnswered(data) if summaries.contains(&data.call) => {}
                    ArenaEvent::ModelAnswered(data) => {
                        for (part, piece) in data.body.message.iter().enumerate() {
                            if matches!(piece, Part::Call { .. }) {
                                asked.push(ToolUse { answer: at, part: part as u16 });
                            }
                        }
                    }
                    ArenaEvent::ToolResolved(data) => *ends.entry(data.body.tool_use).or_default() += 1,
                    ArenaEvent::ToolAnswered(data) => *ends.entry(data.tool_use).or_default() += 1,
                    ArenaEvent::ToolRefused(data) => *ends.entry(data.tool_use).or_default() += 1,
                    ArenaEvent::CallLost(CallLost { tool_use: Some(id), .. }) => {
                        *ends.entry(*id).or_default() += 1
                    }
                    _ => {}
                }
            }
        }
        for id in asked {
            assert_eq!(ends.remove(&id), Some(1), "{id:?} has one end\n{}", self.story());
        }
        assert!(ends.is_empty(), "ends without a call: {ends:?}");
    }
}

pub fn text(words: &str) -> ModelReply {
    reply(vec![Part::Text { text: words.to_owned() }], Finish::Stop)
}

/// An answer that calls tools: name and arguments.
pub fn calls(list: &[(&str, serde_json::Value)]) -> ModelReply {
    let parts = list
        .iter()
        .enumerate()
        .map(|(i, (name, args))| Part::Call {
            id: format!("id{i}"),
            name: (*name).to_owned(),
            args: Args::Json(args.clone()),
        })
        .collect();
    reply(parts, Finish::ToolCalls)
}

pub fn reply(message: Vec<Part>, finish: Finish) -> ModelReply {
    let usage = Usage { input: 100, output: 10, ..Usage::default() };
    ModelReply { message, usage, model: "a-1".to_owned(), finish, waited_ms: 0 }
}

pub fn failure(kind: ErrorKind) -> ModelFailed {
    ModelFailed::new(kind, "it failed".to_owned())
}

/// What a tool call would do in this world.
pub fn plan_for(call: &agon::protocol::effect::ToolCall) -> Plan {
    let risk = match call.tool.as_str() {
        "look" => Risk::Read,
        "put" => Risk::Write,
        _ => Risk::Execute,
    };
    let path = call.args.get("path").and_then(|p| p.as_str()).unwrap_or("f").to_owned();
    let base = PathBase { path, sha256: None };
    let need = match risk {
        Risk::Read => Need::Read(base),
        Risk::Write => Need::Write(base),
        _ => Need::Command("make".to_owned()),
    };
    Plan {
        needs: vec![need],
        cwd: String::new(),
        preview: "what it would do".to_owned(),
        risk,
        digest: format!("digest of {:?}", call.args),
    }
}

pub fn checkpointed(tree: &str) -> OutcomeBody {
    let tree = tree.to_owned();
    OutcomeBody::WorkspaceCheckpointed(WorkspaceCheckpointed { tree, files: 1, skipped: vec![] })
}

/// A successful outcome for everything but models, asks and timers.
pub fn succeed(effect: &Effect) -> Option<OutcomeBody> {
    Some(match effect {
        Effect::Prepare { context: call, .. } => OutcomeBody::ToolPrepared(ToolPrepared {
            tool_use: call.tool_use,
            result: PrepareResult::Ready(plan_for(call)),
        }),
        Effect::Tool { context: call, .. } => {
            OutcomeBody::ToolResolved(resolved(call.tool_use, ToolStatus::Ok, "done"))
        }
        Effect::Checkpoint { .. } => checkpointed("tree"),
        Effect::Mention { order: MentionOrder { place }, .. } => {
            OutcomeBody::MentionExpanded(super::squad::mentioned(place))
        }
        Effect::Gate { order, .. } => {
            let GateOrder { gate, tool_use, digest, .. } = order.clone();
            OutcomeBody::GateAnswered(GateAnswered { gate, tool_use, digest, verdict: Verdict::Pass })
        }
        Effect::Diff { order: DiffOrder { from, .. }, .. } => {
            OutcomeBody::DiffTaken(super::squad::diff(from))
        }
        Effect::Check { order: CheckOrder { command }, .. } => {
            OutcomeBody::CheckRan(super::squad::check(command, 0))
        }
        other => return super::cache::succeed(other),
    })
}

pub fn resolved(tool_use: ToolUse, status: ToolStatus, content: &str) -> ToolResolved {
    let (content, seen, notes) = (content.to_owned(), vec![], vec![]);
    ToolResolved {
        tool_use,
        status,
        content,
        exit: None,
        ms: 3,
        seen,
        parts: vec![],
        notes,
        blob: None,
        by: None,
    }
}

/// One random step: mostly an outcome of something open, sometimes a wish, sometimes nonsense.
pub fn random_step(world: &mut World, dice: &mut Dice) {
    let open = world.session.outstanding();
    let roll = dice.roll(100);
    if roll < 12 || open.is_empty() {
        world.give(random_wish(world, dice));
    } else if roll < 15 {
        let body = OutcomeBody::TimerFired(TimerFired { active_ms: 5 });
        world.answer(dice.roll(40), dice.roll(3) as u32, body);
    } else {
        let chosen = open[dice.roll(open.len() as u64) as usize];
        let effect = world.session.effect(chosen.call).expect("an effect");
        if let Effect::Tool { order, .. } = &effect
            && dice.roll(4) == 0
        {
            let host = ["a.example", "b.example"][dice.roll(2) as usize];
            world.give(host_asked(chosen.call, order.tool_use, host));
        } else if let Some(body) = random_outcome(&effect, dice, chosen.cancelled) {
            world.answer(chosen.call.0, chosen.attempt, body);
        } else {
            if matches!(effect, Effect::Question { .. }) {
                let (call, text) = (chosen.call, ["yes", " "][usize::from(dice.roll(5) == 0)].to_owned());
                world.give(ArenaEvent::QuestionAnswered(QuestionAnswered { call, text, by: "t".into() }));
                return;
            }
            for (call, digest) in world.session.open_asks() {
                let choice = match dice.roll(4) {
                    0 => Choice::Deny("not now".to_owned()),
                    1 => Choice::Session,
                    _ => Choice::Once,
                };
                let digest = if dice.roll(10) == 0 { "other".to_owned() } else { digest };
                world.give(ArenaEvent::ApprovalAnswered(ApprovalAnswered {
                    call,
                    digest,
                    choice,
                    by: "t".into(),
                }));
            }
        }
    }
}

fn random_wish(world: &World, dice: &mut Dice) -> ArenaEvent {
    match dice.roll(9) {
        0..=3 => ArenaEvent::PromptGiven(PromptGiven {
            text: ["do it", "do it as in @src/a.rs:1-2 and @b.rs"][dice.roll(2) as usize].to_owned(),
            mode: world.mode(),
            changed: vec![],
            schema: None,
            by: None,
        }),
        4 | 5 => ArenaEvent::SteeringGiven(SteeringGiven { spark: None, text: "mind the gap".to_owned() }),
        6 => {
            let spark = world.log.iter().rev().flat_map(|entry| &entry.events).find_map(ArenaEvent::spark);
            let spark = spark.filter(|_| dice.roll(2) == 0);
            ArenaEvent::InterruptRequested(InterruptRequested { spark, call: None })
        }
        7 => {
            let spec = world.session.spec().expect("open").models[1].clone();
            let changed = vec![Setting::Model { spec, default: true }];
            ArenaEvent::SettingsChanged(SettingsChanged { changed })
        }
        _ => match dice.roll(4) {
            0 => ArenaEvent::StopRequested(StopRequested { cause: StopCause::Finished }),
            _ => {
                ArenaEvent::SteeringGiven(SteeringGiven { spark: None, text: "see @c.rs and @d/".to_owned() })
            }
        },
    }
}

fn random_outcome(effect: &Effect, dice: &mut Dice, cancelled: bool) -> Option<OutcomeBody> {
    Some(match effect {
        Effect::Model { .. } if cancelled => OutcomeBody::ModelFailed(failure(ErrorKind::Cancelled)),
        Effect::Model { context: ModelContext { request, .. }, .. }
            if request.params.schema.is_some() && dice.roll(2) == 0 =>
        {
            OutcomeBody::ModelAnswered(super::squad::typed(request, dice))
        }
        Effect::Model { .. } => match dice.roll(12) {
            0 => OutcomeBody::ModelFailed(failure(ErrorKind::Overloaded)),
            1 => OutcomeBody::ModelFailed(failure(ErrorKind::Auth)),
            2 => OutcomeBody::ModelFailed(failure(ErrorKind::ContextOverflow)),
            3 => OutcomeBody::ModelAnswered(text("done")),
            4 => OutcomeBody::ModelAnswered(text("")),
            _ => OutcomeBody::ModelAnswered(random_calls(dice)),
        },
        Effect::Prepare { context: call, .. } => match dice.roll(8) {
            0 => OutcomeBody::ToolPrepared(ToolPrepared {
                tool_use: call.tool_use,
                result: PrepareResult::Unfit("missing field `path`".to_owned()),
            }),
            1 => {
                OutcomeBody::EffectFailed(EffectFailed { status: FailStatus::Failed, error: "no".to_owned() })
            }
            _ => return succeed(effect),
        },
        Effect::Gate { order, .. } if dice.roll(3) == 0 => {
            let GateOrder { gate, tool_use, digest, .. } = order.clone();
            let verdict =
                [Verdict::Deny("no".into()), Verdict::Ask("look".into())][dice.roll(2) as usize].clone();
            OutcomeBody::GateAnswered(GateAnswered { gate, tool_use, digest, verdict })
        }
        Effect::Tool { context: call, .. } => {
            let status = match dice.roll(5) {
                0 => ToolStatus::Failed,
                1 if cancelled => ToolStatus::Cancelled,
                _ => ToolStatus::Ok,
            };
            let content = "x".repeat(dice.roll(2000) as usize + 1);
            OutcomeBody::ToolResolved(resolved(call.tool_use, status, &content))
        }
        Effect::Checkpoint { .. } if dice.roll(5) == 0 => {
            OutcomeBody::EffectFailed(EffectFailed { status: FailStatus::Failed, error: "full".to_owned() })
        }
        Effect::Checkpoint { .. } => checkpointed(&format!("tree{}", dice.roll(3))),
        Effect::Timer { .. } => OutcomeBody::TimerFired(TimerFired { active_ms: 9000 }),
        Effect::Mention { .. } | Effect::Diff { .. } | Effect::Check { .. } | Effect::Gate { .. }
            if dice.roll(5) == 0 =>
        {
            OutcomeBody::EffectFailed(EffectFailed { status: FailStatus::Failed, error: "gone".to_owned() })
        }
        Effect::Check { order: CheckOrder { command }, .. } if dice.roll(3) == 0 => {
            OutcomeBody::CheckRan(super::squad::check(command, 1))
        }
        Effect::Ask { .. } | Effect::Question { .. } => return None,
        other => return super::cache::random(other, dice).or_else(|| succeed(other)),
    })
}

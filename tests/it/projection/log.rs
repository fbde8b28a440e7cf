//! Logs made by hand: the turn walked through in the design, a hostile one, and samples of every kind.

mod samples;

use agon::protocol::command::Choice;
use agon::protocol::effect::{Bare, PrepareOrder, TimerOrder};
use agon::protocol::effect::{Order, TimerPurpose};
use agon::protocol::event::*;
use agon::protocol::message::{Args, Finish, Params, Part, Usage};
use agon::protocol::need::Need;
use agon::protocol::spec::{
    Action, DebatePlan, Limits, Mode, ModelSpec, PersonaSpec, Policy, Price, RetrySpec, Risk, SandboxSpec,
    Spec, WorkspaceSpec,
};
use agon::protocol::{ArenaEvent as E, CallId, Entry, EventRef, Fact, SparkId, StopCause};
use serde_json::json;

/// 2026-01-02 12:04:30 UTC.
pub const T0: u64 = 1_767_355_470_000_000;

const SPARK: SparkId = SparkId(1);

/// An entry one second after the one before it; an hour lies between entry 7 and 8.
pub fn entry(seq: u64, fact: E, decisions: Vec<E>) -> Entry {
    let away = if seq >= 8 { 3_600_000_000 } else { 0 };
    Entry::new(seq, T0 + seq * 1_000_000 + away, Fact::new(fact).unwrap(), decisions)
}

fn fact(seq: u64) -> EventRef {
    EventRef::fact(seq)
}

fn answered<T>(call: u64, body: T) -> Answered<T> {
    Answered { call: CallId(call), attempt: 1, body }
}

fn the_use(part: u16) -> ToolUse {
    ToolUse { answer: fact(2), part }
}

pub fn paused(cause: PauseCause) -> E {
    E::SessionPaused(SessionPaused { cause })
}

pub fn resumed() -> E {
    E::SessionResumed(SessionResumed {
        rules: 1,
        program: "agon 0.1.0".into(),
        changed: vec![],
        active_ms: 7_000,
        foreign: false,
    })
}

fn spec() -> Spec {
    Spec {
        program: "agon 0.1.0".into(),
        seed: 7,
        workspace: WorkspaceSpec {
            root: "/work/demo".into(),
            git_head: None,
            sandbox: SandboxSpec { kind: "local".into(), ..SandboxSpec::default() },
            places: vec![],
        },
        models: vec![ModelSpec {
            name: "mock/any".into(),
            family: None,
            context: 32_000,
            max_output: 4_000,
            price: Some(Price { input: 1, cached: 1, written: None, output: 1 }),
            structured: Default::default(),
            temperature_pm: None,
            refuses: vec![],
            images: false,
            fallbacks: vec![],
            fallbacks_on: Default::default(),
        }],
        personas: vec![PersonaSpec {
            id: "pragmatist".into(),
            description: String::new(),
            stance: None,
            model: None,
            fallbacks: None,
            tools: None,
            temperature_pm: None,
            effort: None,
            text: "You are practical.".into(),
        }],
        tools: vec![],
        offered: None,
        sources: vec![],
        gates: vec![],
        effort: None,
        policy: Policy::default(),
        permission: Default::default(),
        limits: Limits::default(),
        retry: RetrySpec::default(),
        instructions: vec![],
        blueprint: None,
        cache: None,
    }
}

fn opened() -> E {
    E::SessionOpened(Box::new(SessionOpened {
        id: "0198c7d2-0000-7000-8000-000000000001".into(),
        rules: 1,
        spec: spec(),
    }))
}

fn prompt(text: &str, mode: Mode) -> E {
    E::PromptGiven(PromptGiven { text: text.into(), mode, changed: vec![], schema: None, by: None })
}

fn ignited(spark: u32, role: &str) -> E {
    E::SparkIgnited(SparkIgnited {
        spark: SparkId(spark),
        role: role.into(),
        persona: "pragmatist".into(),
        model: "mock/any".into(),
        ..SparkIgnited::default()
    })
}

fn called(call: u64) -> E {
    E::ModelCalled(Box::new(ModelCalled {
        call: CallId(call),
        attempt: 1,
        spark: SPARK,
        purpose: Purpose::Think,
        model: "mock/any".into(),
        params: Params::default(),
        digest: "req".into(),
        parts: Parts::default(),
        tools: vec![],
    }))
}

fn ordered(call: u64, attempt: u32, spark: Option<SparkId>, effect: Order) -> E {
    E::EffectOrdered(EffectOrdered { call: CallId(call), attempt, spark, effect })
}

fn clock(attempt: u32) -> E {
    ordered(1, attempt, None, Order::Timer(TimerOrder { ms: 600_000, purpose: TimerPurpose::TurnLimit }))
}

fn reserved(call: u64) -> E {
    E::BudgetReserved(BudgetReserved { call: CallId(call), tokens: 5_000, micro_usd: 50_000 })
}

fn settled(call: u64, usage: Usage, micro_usd: u64) -> E {
    E::BudgetSettled(BudgetSettled { call: CallId(call), attempt: 1, usage, micro_usd })
}

fn usage(input: u64, cached: u64, output: u64) -> Usage {
    Usage { input, cached, output, ..Usage::default() }
}

fn reply(call: u64, message: Vec<Part>, usage: Usage, finish: Finish) -> E {
    E::ModelAnswered(answered(
        call,
        ModelReply { message, usage, model: "any-1".into(), finish, waited_ms: 0 },
    ))
}

fn text(text: &str) -> Part {
    Part::Text { text: text.into() }
}

fn tool_call(name: &str, args: serde_json::Value) -> Part {
    Part::Call { id: "x".into(), name: name.into(), args: Args::Json(args) }
}

fn prepared(call: u64, part: u16, command: Option<&str>, path: Option<&str>, digest: &str) -> E {
    let plan = Plan {
        needs: path
            .map(|path| Need::Read(PathBase { path: path.into(), sha256: None }))
            .into_iter()
            .chain(command.map(|line| Need::Command(line.to_owned())))
            .collect(),
        cwd: String::new(),
        preview: command.unwrap_or_default().into(),
        risk: if command.is_some() { Risk::Execute } else { Risk::Read },
        digest: digest.into(),
    };
    E::ToolPrepared(answered(
        call,
        ToolPrepared { tool_use: the_use(part), result: PrepareResult::Ready(plan) },
    ))
}

fn judged(part: u16, seq: u64, action: Action, rule: &str) -> E {
    E::PolicyDecided(PolicyDecided {
        tool_use: the_use(part),
        prepared: fact(seq),
        action,
        rule: rule.into(),
    })
}

fn invoked(call: u64, part: u16, seq: u64, digest: &str) -> E {
    E::ToolInvoked(ToolInvoked {
        call: CallId(call),
        attempt: 1,
        spark: SPARK,
        tool_use: the_use(part),
        prepared: fact(seq),
        digest: digest.into(),
    })
}

fn resolved(call: u64, part: u16, status: ToolStatus, exit: Option<i32>, content: &str) -> E {
    E::ToolResolved(answered(
        call,
        ToolResolved {
            tool_use: the_use(part),
            notes: Vec::new(),
            status,
            content: content.into(),
            exit,
            ms: 12,
            seen: vec![],
            parts: vec![],
            blob: None,
            by: None,
        },
    ))
}

fn asked() -> E {
    E::ApprovalRequested(ApprovalRequested {
        call: CallId(6),
        attempt: 1,
        spark: SPARK,
        tool_use: the_use(2),
        prepared: fact(4),
        digest: "d4".into(),
        opens: vec![],
    })
}

fn approved() -> E {
    E::ApprovalAnswered(ApprovalAnswered {
        call: CallId(6),
        digest: "d4".into(),
        choice: Choice::Once,
        by: "anna".into(),
    })
}

fn checkpointed(call: u64) -> E {
    E::WorkspaceCheckpointed(answered(
        call,
        WorkspaceCheckpointed { tree: "tree".into(), files: 3, skipped: vec![] },
    ))
}

/// An answer to the open approval whose digest is wrong, and its refusal.
pub fn void_answer(seq: u64) -> Entry {
    let refused = InputRefused { reason: "the digest is not the one that is asked about".into() };
    entry(seq, approved(), vec![E::InputRefused(refused)])
}

/// The turn of the design: a read, a command that needs approval, a kill, a resume.
pub fn walked_turn() -> Vec<Entry> {
    let mut log = before_the_kill();
    log.extend(after_the_kill());
    log
}

fn before_the_kill() -> Vec<Entry> {
    let prepare =
        |call, part| ordered(call, 1, Some(SPARK), Order::Prepare(PrepareOrder { tool_use: the_use(part) }));
    let says = vec![
        text("I will look first."),
        tool_call("read_file", json!({"path": "src/main.rs"})),
        tool_call("bash", json!({"command": "sh check.sh"})),
    ];
    let first = usage(1200, 800, 35);
    vec![
        entry(0, opened(), vec![]),
        entry(
            1,
            prompt("Fix the failing check.", Mode::Solo),
            vec![E::TurnOpened(TurnOpened { turn: 1 }), ignited(1, "solo"), clock(1), reserved(2), called(2)],
        ),
        entry(
            2,
            reply(2, says, first, Finish::ToolCalls),
            vec![settled(2, first, 12_300), prepare(3, 1), prepare(4, 2)],
        ),
        entry(
            3,
            prepared(3, 1, None, Some("src/main.rs"), "d3"),
            vec![judged(1, 3, Action::Allow, "reads"), invoked(5, 1, 3, "d3")],
        ),
        entry(
            4,
            prepared(4, 2, Some("sh check.sh"), None, "d4"),
            vec![judged(2, 4, Action::Ask, "commands"), asked()],
        ),
        entry(5, resolved(5, 1, ToolStatus::Ok, None, "fn main() {\n}\n"), vec![]),
        entry(6, approved(), vec![ordered(7, 1, None, Order::Checkpoint(Bare))]),
        entry(7, checkpointed(7), vec![invoked(8, 2, 4, "d4")]),
    ]
}

fn after_the_kill() -> Vec<Entry> {
    let lost = E::CallLost(CallLost {
        call: CallId(8),
        tool_use: Some(the_use(2)),
        text: "agon was ended while this ran; its outcome is unknown".into(),
    });
    let notice = E::NoticeGiven(NoticeGiven {
        spark: SPARK,
        notice: Notice::Workspace,
        text: "1 file changed while agon was away: check.sh".into(),
    });
    let fingerprint = WorkspaceFingerprinted { fingerprint: "f".into(), files: 3, git: None, ignored: None };
    let second = usage(1400, 1200, 20);
    let cancelled = E::CallCancelled(CallCancelled { call: CallId(1), reason: "the turn is over".into() });
    let completed = SparkCompleted { spark: SPARK, cause: TurnCause::Done, answer: Some(fact(11)) };
    let closed = TurnClosed { turn: 1, cause: TurnCause::Done, answer: Some(fact(11)) };
    let answer = text("The check fails in line 3:\n\n- `test` misses a quote");
    let sealed = SessionSealed {
        cause: StopCause::Finished,
        turns: 1,
        last: Some(TurnCause::Done),
        tokens: 2655,
        micro_usd: 20_000,
    };
    vec![
        entry(
            8,
            resumed(),
            vec![
                lost,
                clock(2),
                ordered(9, 1, None, Order::Checkpoint(Bare)),
                ordered(10, 1, None, Order::Fingerprint(Bare)),
            ],
        ),
        entry(9, checkpointed(9), vec![]),
        entry(
            10,
            E::WorkspaceFingerprinted(answered(10, fingerprint)),
            vec![notice, reserved(11), called(11)],
        ),
        entry(
            11,
            reply(11, vec![answer], second, Finish::Stop),
            vec![settled(11, second, 7_700), cancelled, E::SparkCompleted(completed), E::TurnClosed(closed)],
        ),
        entry(
            12,
            E::StopRequested(StopRequested { cause: StopCause::Finished }),
            vec![E::SessionSealed(sealed)],
        ),
    ]
}

/// The same log without a price for its model.
pub fn without_price(mut log: Vec<Entry>) -> Vec<Entry> {
    for event in log.iter_mut().flat_map(|entry| &mut entry.events) {
        match event {
            E::SessionOpened(data) => data.spec.models.iter_mut().for_each(|model| model.price = None),
            E::BudgetSettled(data) => data.micro_usd = 0,
            _ => {}
        }
    }
    log
}

/// A turn whose every text tries to drive the terminal.
pub fn hostile_turn() -> Vec<Entry> {
    let evil = "a\x1B[2J\x1B]0;t\x07\u{9B}31m\u{202E}b\x08\nc\r\n";
    let says = vec![
        text(evil),
        Part::Reasoning { text: evil.into(), opaque: None },
        tool_call(evil, json!({"command": evil})),
    ];
    let unknown = E::Unknown { kind: evil.into(), raw: json!({ "x": evil }) };
    let mut prepared = prepared(3, 2, Some(evil), None, evil);
    if let E::ToolPrepared(data) = &mut prepared
        && let PrepareResult::Ready(plan) = &mut data.body.result
    {
        plan.preview = evil.into();
    }
    vec![
        entry(1, prompt(evil, Mode::Squad), vec![ignited(1, evil), called(2)]),
        entry(2, reply(2, says, usage(1, 0, 1), Finish::Other(evil.into())), vec![]),
        entry(4, prepared, vec![judged(2, 4, Action::Ask, evil), asked()]),
        entry(5, resolved(5, 2, ToolStatus::Failed, Some(1), evil), vec![unknown]),
    ]
}

/// A debate whose one debater is still at its sealed ballot.
pub fn debate_until_ballots() -> Vec<Entry> {
    let plan = DebatePlan {
        personas: vec!["pragmatist".into(), "security-maximalist".into()],
        moderator: "moderator".into(),
        rounds: 4,
        scorer: "ballots".into(),
        models: vec![],
    };
    vec![
        entry(0, opened(), vec![]),
        entry(
            1,
            prompt("Shall we?", Mode::Debate(plan)),
            vec![E::TurnOpened(TurnOpened { turn: 1 }), ignited(1, "pragmatist"), called(1)],
        ),
    ]
}

pub fn ballot_answered(seq: u64) -> Entry {
    let cast = BallotCast {
        spark: SPARK,
        source: fact(seq),
        phase: "initial-analysis".into(),
        confidence_pm: 755,
        sealed: true,
    };
    let rating = Rating { proposition: 0, rating: 2, confidence_pm: 900 };
    let rated = RatingsCast {
        spark: SPARK,
        source: fact(seq),
        phase: "initial-analysis".into(),
        sealed: true,
        ratings: vec![rating],
    };
    let decisions = vec![E::BallotCast(cast), E::RatingsCast(rated)];
    let ballot = r#"{"position": "I am for it", "confidence": 75, "claims": ["Why not?"], "evidence": [], "would_change": "A reason."}"#;
    entry(seq, reply(1, vec![text(ballot)], usage(9, 0, 9), Finish::Stop), decisions)
}

pub fn ballots_revealed(seq: u64) -> Entry {
    let revealed = BallotsRevealed { ballots: vec![EventRef { seq: seq - 1, i: 1 }], majority: vec![1] };
    let fired = E::TimerFired(answered(90, TimerFired { active_ms: 1 }));
    entry(seq, fired, vec![E::BallotsRevealed(revealed)])
}

/// Events of the logs above and one of each further kind that a view treats on its own.
pub fn every_event() -> Vec<E> {
    let mut logs = walked_turn();
    logs.extend(hostile_turn());
    logs.extend(debate_until_ballots());
    logs.extend([ballot_answered(3), ballots_revealed(4), void_answer(5)]);
    let mut events: Vec<E> = logs.into_iter().flat_map(|entry| entry.events).collect();
    events.extend([paused(PauseCause::Disk), E::OutcomeIgnored(OutcomeIgnored { reason: "late".into() })]);
    events.extend(samples::trouble());
    events.extend(samples::teamwork());
    events
}

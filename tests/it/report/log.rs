//! A debate made by hand: six personas, four phases, a flip with its condition, an absence, a minority, and a
//! sealed majority that differs from the verdict.

use std::sync::Arc;

use agon::protocol::event::*;
use agon::protocol::message::{Args, Finish, Params, Part, Usage};
use agon::protocol::spec::*;
use agon::protocol::{ArenaEvent as E, CallId, Entry, EventRef, Fact, SparkId, StopCause};
use serde_json::{Value, json};

/// 2026-01-02 12:04:30 UTC.
const T0: u64 = 1_767_355_470_000_000;

pub const PERSONAS: [&str; 6] = [
    "pragmatist",
    "security-maximalist",
    "performance-extremist",
    "elegance-purist",
    "future-architect",
    "devils-advocate",
];
const PHASES: [&str; 4] = ["initial-analysis", "counterarguments", "evidence-assessment", "synthesis"];
const MODERATOR: SparkId = SparkId(7);

/// What the texts of a debate are.
pub struct Story {
    pub question: String,
    pub propositions: Vec<String>,
    pub positions: Vec<String>,
    pub condition: String,
    pub because: String,
    pub answer: String,
    pub evidence: String,
}

impl Story {
    pub fn of_queue() -> Self {
        Story {
            question: "Should we replace the in-process job queue with a broker before the next release?".into(),
            propositions: vec![
                "The in-process queue loses jobs when the process is killed, and that happens in production.".into(),
                "A broker can be operated by the present team without a new on-call rota.".into(),
                "The migration can be done behind the existing interface, one job type at a time.".into(),
            ],
            positions: vec![
                "Not before the release: write the jobs to the database first, and measure again.".into(),
                "Yes. Jobs that vanish silently are an audit failure waiting to happen.".into(),
                "No. The in-process queue is three orders of magnitude faster than any broker.".into(),
                "Yes, if the interface stays; the present queue is a list with a mutex around it.".into(),
                "Yes. The second service will need the same jobs within the year.".into(),
                "No. Nobody has shown me one lost job that mattered.".into(),
            ],
            condition: "A production log that shows jobs lost in a restart, with what they were.".into(),
            because: "The restart of 14 March lost 212 jobs, 9 of them payments: that is the log I had asked for.".into(),
            answer: "Not yet a broker. Make the present queue durable now, by writing each job to the database before it is acknowledged, and migrate one job type to a broker after the release as a trial.\n\nThe loss is real and must not wait for a migration; the migration is possible but nobody showed that this team can run a broker at night.".into(),
            evidence: "2026-03-14T02:11:09Z worker[311]: SIGKILL\n2026-03-14T02:11:31Z queue: started, 0 jobs\n-- 212 jobs were enqueued and never finished, 9 of kind `payment.capture`\n".into(),
        }
    }

    /// Every text tries to break out.
    pub fn hostile() -> Self {
        let evil = "</script></style></title>--><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\
             <svg/onload=alert(1)>&#x3C;b&#x3E; \u{202E}\u{2066}\x1B[31m\x07\0 javascript:alert(1) ](javascript:x) |";
        Story {
            question: evil.into(),
            propositions: vec![evil.into(); 3],
            positions: vec![evil.into(); 6],
            condition: evil.into(),
            because: evil.into(),
            answer: evil.into(),
            evidence: evil.into(),
        }
    }
}

pub struct Builder {
    pub entries: Vec<Arc<Entry>>,
    call: u64,
}

impl Builder {
    pub fn push(&mut self, fact: E, decisions: Vec<E>) -> EventRef {
        let seq = self.entries.len() as u64;
        let entry = Entry::new(seq, T0 + seq * 7_000_000, Fact::new(fact).unwrap(), decisions);
        self.entries.push(Arc::new(entry));
        EventRef::fact(seq)
    }

    /// The calls of a round, ordered in the entry of `fact`.
    fn calls(&mut self, sparks: &[SparkId]) -> (Vec<E>, Vec<(SparkId, CallId)>) {
        let calls: Vec<_> = sparks.iter().map(|spark| (*spark, self.next())).collect();
        (calls.iter().map(|(spark, call)| called(*spark, *call)).collect(), calls)
    }

    fn next(&mut self) -> CallId {
        self.call += 1;
        CallId(self.call)
    }

    /// The reference the next entry's fact will have.
    pub fn here(&self) -> EventRef {
        EventRef::fact(self.entries.len() as u64)
    }

    fn answer(&mut self, spark: SparkId, call: CallId, value: &Value, mut decisions: Vec<E>) -> EventRef {
        let usage = Usage {
            input: 1_840 + u64::from(spark.0) * 37,
            output: 190 + u64::from(spark.0),
            ..Usage::default()
        };
        decisions.insert(0, E::BudgetSettled(BudgetSettled { call, attempt: 1, usage, micro_usd: 2_120 }));
        let text = Part::Text { text: value.to_string() };
        let body = ModelReply {
            message: vec![text],
            usage,
            model: model_of(spark).into(),
            finish: Finish::Stop,
            waited_ms: 0,
        };
        self.push(E::ModelAnswered(Answered { call, attempt: 1, body }), decisions)
    }
}

fn model_of(spark: SparkId) -> &'static str {
    if spark.0.is_multiple_of(2) { "mock/large" } else { "mock/small" }
}

fn called(spark: SparkId, call: CallId) -> E {
    E::ModelCalled(Box::new(ModelCalled {
        call,
        attempt: 1,
        spark,
        purpose: Purpose::Think,
        model: model_of(spark).into(),
        params: Params::default(),
        digest: "d".into(),
        parts: Parts::default(),
        tools: vec![],
    }))
}

fn spec() -> Spec {
    let model = |name: &str, family: &str| ModelSpec {
        name: name.into(),
        family: Some(family.into()),
        context: 32_000,
        max_output: 4_000,
        price: Some(Price { input: 1, cached: 1, written: None, output: 1 }),
        structured: Default::default(),
        temperature_pm: None,
        refuses: vec![],
        images: false,
        fallbacks: vec![],
        fallbacks_on: Default::default(),
    };
    let persona = |id: &&str| PersonaSpec {
        id: (*id).into(),
        description: String::new(),
        stance: Some("what works".into()),
        model: None,
        fallbacks: None,
        tools: None,
        temperature_pm: None,
        effort: None,
        text: "You are one of six.".into(),
    };
    Spec {
        program: "agon 0.1.0".into(),
        seed: 7,
        workspace: WorkspaceSpec {
            root: "/work/shop".into(),
            git_head: None,
            sandbox: SandboxSpec { kind: "local".into(), ..SandboxSpec::default() },
            places: vec![],
        },
        models: vec![model("mock/small", "ash"), model("mock/large", "birch")],
        personas: PERSONAS.iter().map(persona).collect(),
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

fn sparks() -> Vec<SparkId> {
    (1..=6).map(SparkId).collect()
}

/// Ratings of the three propositions by each persona in each phase; none is an absence.
fn rated(phase: usize, spark: SparkId) -> Option<[i8; 3]> {
    let table: [[Option<[i8; 3]>; 6]; 4] = [
        [
            Some([0, 1, 1]),
            Some([2, 1, 1]),
            Some([-1, -1, 1]),
            Some([1, 1, 2]),
            Some([1, 2, 2]),
            Some([-2, -1, -1]),
        ],
        [
            Some([1, 0, 1]),
            Some([2, 1, 1]),
            Some([-1, -2, 1]),
            Some([1, 1, 2]),
            Some([1, 2, 2]),
            Some([-2, -1, 0]),
        ],
        [Some([2, -1, 2]), Some([2, 1, 2]), Some([1, -2, 1]), None, Some([2, 1, 2]), Some([1, -2, 1])],
        [
            Some([2, -1, 2]),
            Some([2, 0, 2]),
            Some([1, -2, 2]),
            Some([2, -1, 2]),
            Some([2, 1, 2]),
            Some([2, -2, 1]),
        ],
    ];
    table[phase][spark.0 as usize - 1]
}

fn ratings(phase: usize, spark: SparkId) -> Option<Vec<Rating>> {
    let confidence = 550 + 60 * phase as u32 + 25 * spark.0;
    let row = rated(phase, spark)?;
    let rating = |(proposition, rating): (u32, i8)| Rating { proposition, rating, confidence_pm: confidence };
    Some((0..).zip(row).map(rating).collect())
}

fn ballot(story: &Story, spark: SparkId, cites: Option<EventRef>) -> Value {
    let reference = cites.map(|at| at.to_string()).unwrap_or_default();
    json!({
        "position": story.positions[spark.0 as usize - 1], "confidence": 60 + spark.0,
        "claims": ["The first reason, in a sentence.", "A second one."],
        "evidence": [{"reference": reference, "shows": "What the log of the restart shows."}],
        "would_change": story.condition,
    })
}

/// The whole debate.
pub fn debate(story: &Story) -> Vec<Arc<Entry>> {
    let mut log = Builder { entries: vec![], call: 0 };
    opening(&mut log, story);
    let stated = sealed_phase(&mut log, story);
    let proof = the_proof(&mut log, story);
    for phase in 1..PHASES.len() {
        open_phase(&mut log, story, phase, proof);
    }
    closing(&mut log, story, stated, proof);
    log.entries
}

fn opening(log: &mut Builder, story: &Story) {
    let opened = SessionOpened { id: "0198c7d2-0000-7000-8000-000000000004".into(), rules: 1, spec: spec() };
    log.push(E::SessionOpened(Box::new(opened)), vec![]);
    let plan = DebatePlan {
        personas: PERSONAS.map(str::to_owned).to_vec(),
        moderator: "moderator".into(),
        rounds: 4,
        scorer: "ballots".into(),
        models: vec![],
    };
    let prompt = PromptGiven {
        text: story.question.clone(),
        mode: Mode::Debate(plan),
        changed: vec![],
        schema: None,
        by: None,
    };
    let ignited = |(spark, name): (u32, &str)| {
        E::SparkIgnited(SparkIgnited {
            spark: SparkId(spark),
            role: name.into(),
            persona: name.into(),
            model: "mock/small".into(),
            ..SparkIgnited::default()
        })
    };
    let mut decisions = vec![E::TurnOpened(TurnOpened { turn: 1 })];
    decisions.extend((1..).zip(PERSONAS).map(ignited));
    decisions.push(ignited((MODERATOR.0, "moderator")));
    log.push(E::PromptGiven(prompt), decisions);
}

fn tick(log: &mut Builder, decisions: Vec<E>) -> EventRef {
    let call = log.next();
    log.push(E::TimerFired(Answered { call, attempt: 1, body: TimerFired { active_ms: 1 } }), decisions)
}

/// A set of calls; every reader has the others in the order of their numbers.
fn round(phase: &str, number: u32, ask: &str, readers: &[SparkId]) -> E {
    let others = |reader: SparkId| sparks().into_iter().filter(|one| *one != reader).collect::<Vec<_>>();
    let order: Vec<_> = readers.iter().map(|one| json!({"spark": one, "peers": others(*one)})).collect();
    let names = sparks().into_iter().zip(PERSONAS);
    let debaters: Vec<_> = names.map(|(spark, name)| json!({"spark": spark, "name": name})).collect();
    let value = json!({"round": number, "phase": phase, "ask": ask, "order": order, "debaters": debaters});
    E::RoundOpened(serde_json::from_value(value).unwrap())
}

fn sealed_phase(log: &mut Builder, story: &Story) -> EventRef {
    let (mut decisions, calls) = log.calls(&sparks());
    decisions.insert(0, round(PHASES[0], 1, "ballot", &sparks()));
    tick(log, decisions);
    let mut ballots = Vec::new();
    for (spark, call) in calls {
        let (source, phase) = (log.here(), PHASES[0].to_owned());
        let cast = BallotCast { spark, source, phase, confidence_pm: 600 + 10 * spark.0, sealed: true };
        let at = log.answer(spark, call, &ballot(story, spark, None), vec![E::BallotCast(cast)]);
        ballots.push(EventRef { seq: at.seq, i: 2 });
    }
    let (mut calls_of, calls) = log.calls(&[MODERATOR]);
    calls_of.insert(0, round("propositions", 2, "propositions", &[MODERATOR]));
    tick(log, calls_of);
    let stated = PropositionsStated { source: vec![log.here()], count: 3 };
    let list = json!({ "propositions": story.propositions });
    let at = log.answer(MODERATOR, calls[0].1, &list, vec![E::PropositionsStated(stated)]);
    let (mut decisions, calls) = log.calls(&sparks());
    decisions.insert(0, round(PHASES[0], 3, "ratings", &sparks()));
    tick(log, decisions);
    for (spark, call) in calls {
        rate(log, &json!({"ratings": []}), 0, spark, call, true, None);
    }
    let revealed = BallotsRevealed { ballots, majority: vec![1, 1, 1] };
    tick(log, vec![probe(0, 540, vec![480, 560, 690], 610, 0, vec![]), E::BallotsRevealed(revealed)]);
    at
}

fn rate(
    log: &mut Builder,
    value: &Value,
    phase: usize,
    spark: SparkId,
    call: CallId,
    sealed: bool,
    ballot: Option<E>,
) {
    let (source, name) = (log.here(), PHASES[phase].to_owned());
    let ratings = ratings(phase, spark).unwrap_or_default();
    let cast = E::RatingsCast(RatingsCast { spark, source, phase: name, sealed, ratings });
    log.answer(spark, call, value, ballot.into_iter().chain([cast]).collect());
}

/// The pragmatist reads the log of the restart.
fn the_proof(log: &mut Builder, story: &Story) -> EventRef {
    let (decisions, calls) = log.calls(&[SparkId(1)]);
    tick(log, decisions);
    let ask = Part::Call {
        id: "x".into(),
        name: "read_file".into(),
        args: Args::Json(json!({"path": "logs/2026-03-14.log"})),
    };
    let usage = Usage { input: 900, output: 20, ..Usage::default() };
    let body = ModelReply {
        message: vec![ask],
        usage,
        model: "mock/small".into(),
        finish: Finish::ToolCalls,
        waited_ms: 0,
    };
    let asked = log.push(E::ModelAnswered(Answered { call: calls[0].1, attempt: 1, body }), vec![]);
    let tool_use = ToolUse { answer: asked, part: 0 };
    let call = log.next();
    let invoked =
        ToolInvoked { call, attempt: 1, spark: SparkId(1), tool_use, prepared: asked, digest: "d".into() };
    tick(log, vec![E::ToolInvoked(invoked)]);
    let resolved = ToolResolved {
        tool_use,
        notes: Vec::new(),
        status: ToolStatus::Ok,
        content: story.evidence.clone(),
        exit: None,
        ms: 3,
        seen: vec![],
        parts: vec![],
        blob: None,
        by: None,
    };
    log.push(E::ToolResolved(Answered { call, attempt: 1, body: resolved }), vec![])
}

fn open_phase(log: &mut Builder, story: &Story, phase: usize, proof: EventRef) {
    let (mut decisions, calls) = log.calls(&sparks());
    decisions.insert(0, round(PHASES[phase], phase as u32 + 3, "statement", &sparks()));
    tick(log, decisions);
    for (spark, call) in calls {
        if rated(phase, spark).is_none() {
            let failed =
                ModelFailed::new(ErrorKind::Overloaded, "the provider answered 503 three times".into());
            let role = RoleFailed { role: PERSONAS[3].into(), spark, cause: TurnCause::ModelFailed };
            log.push(E::ModelFailed(Answered { call, attempt: 1, body: failed }), vec![E::RoleFailed(role)]);
            continue;
        }
        let changes = match (phase, spark.0) {
            (2, 6) => json!([{"proposition": 1, "because": story.because}]),
            (2, 1) => {
                json!([{"proposition": 2, "because": "Peer C runs two brokers and was paged eleven times in a month."}])
            }
            _ => json!([]),
        };
        let value = json!({"ballot": ballot(story, spark, Some(proof)), "ratings": [], "changes": changes});
        let confidence_pm = 620 + 40 * phase as u32;
        let name = PHASES[phase].to_owned();
        let cast = BallotCast { spark, source: log.here(), phase: name, confidence_pm, sealed: false };
        rate(log, &value, phase, spark, call, false, Some(E::BallotCast(cast)));
    }
    let flip = |spark, proposition, from, to| Flip { spark: SparkId(spark), proposition, from, to };
    let measured = match phase {
        1 => probe(1, 520, vec![500, 430, 700], 640, 120, vec![]),
        2 => probe(
            2,
            690,
            vec![880, 410, 860],
            380,
            460,
            vec![flip(1, 1, 0, -1), flip(3, 0, -1, 1), flip(6, 0, -2, 1)],
        ),
        _ => probe(3, 760, vec![960, 470, 930], 300, 140, vec![flip(4, 1, 1, -1)]),
    };
    tick(log, vec![measured]);
}

fn probe(
    phase: usize,
    score_pm: u32,
    agreement_pm: Vec<u32>,
    polarisation_pm: u32,
    movement_pm: u32,
    flips: Vec<Flip>,
) -> E {
    let value = json!({
        "phase": PHASES[phase], "scorer": "ballots", "score_pm": score_pm, "agreement_pm": agreement_pm,
        "polarisation_pm": polarisation_pm, "movement_pm": movement_pm, "flips": flips,
        "collapse": phase == 3, "effective_votes_pm": 2_400,
    });
    E::ConvergenceProbed(serde_json::from_value(value).unwrap())
}

fn closing(log: &mut Builder, story: &Story, stated: EventRef, proof: EventRef) {
    let last_of = |log: &Builder, spark: u32| {
        let cast = |entry: &&Arc<Entry>| {
            entry
                .events
                .iter()
                .any(|event| matches!(event, E::BallotCast(cast) if cast.spark == SparkId(spark)))
        };
        log.entries.iter().rev().find(cast).map(|entry| EventRef { seq: entry.seq, i: 2 }).unwrap()
    };
    let (mut decisions, calls) = log.calls(&[MODERATOR]);
    decisions.insert(0, round("verdict", 7, "verdict", &[MODERATOR]));
    tick(log, decisions);
    let ruling = |proposition: u32, stance: &str, because: &str, evidence: Vec<EventRef>| json!({"proposition": proposition, "stance": stance, "because": because, "evidence": evidence});
    let value = json!({
        "answer": story.answer,
        "rulings": [
            ruling(1, "upheld", "The log of the restart shows it.", vec![proof]),
            ruling(2, "rejected", "Four of six say no after the evidence, Debaters A and C among them, and nobody named who would answer the pager.", vec![]),
            ruling(3, "upheld", "Nobody disputes it.", vec![stated]),
        ],
        "confidence": 74,
        "minority": "The two who would move now hold that a team learns to run a broker only by running one, and that each month of waiting makes the interface harder to change.",
        "risks": ["The database becomes the bottleneck at four times today's load.", "The trial is never started, because the pain is gone."],
    });
    let source = log.here();
    let verdict = VerdictReached { source, upheld: vec![1, -1, 1], confidence_pm: 740, differs: vec![1] };
    let dissent = DissentRecorded { spark: SparkId(5), propositions: vec![1], source: last_of(log, 5) };
    let closed = TurnClosed { turn: 1, cause: TurnCause::Done, answer: Some(source) };
    let decisions = vec![E::VerdictReached(verdict), E::DissentRecorded(dissent), E::TurnClosed(closed)];
    log.answer(MODERATOR, calls[0].1, &value, decisions);
    let sealed = SessionSealed {
        cause: StopCause::Finished,
        turns: 1,
        last: Some(TurnCause::Done),
        tokens: 90_000,
        micro_usd: 72_080,
    };
    log.push(E::StopRequested(StopRequested { cause: StopCause::Finished }), vec![E::SessionSealed(sealed)]);
}

//! One event of each further kind that a view treats on its own, in no order a session would write.

use super::*;

/// What goes wrong.
pub fn trouble() -> Vec<E> {
    let failed = ModelFailed {
        retry_after_ms: Some(500),
        waited_ms: 3,
        said: "As far as I can".into(),
        ..ModelFailed::new(ErrorKind::RateLimited, "too many requests".into())
    };
    let retry =
        RetryScheduled { call: CallId(2), attempt: 2, timer: CallId(20), delay_ms: 500, reason: fact(2) };
    let forked = SessionForked {
        id: "fork".into(),
        rules: 1,
        parent: "parent".into(),
        seq: 3,
        head: "h".into(),
        workspace: "/work/fork".into(),
        tree: None,
        changed: vec![],
        change: Some("model".into()),
        active_ms: 0,
        awaits: None,
        goes_on: false,
        foreign: false,
    };
    let fallback = FallbackTaken { spark: SPARK, from: "a/b".into(), to: "c/d".into(), reason: fact(2) };
    let dropped = ParamsDropped {
        call: CallId(2),
        spark: SPARK,
        model: "a/b".into(),
        names: vec!["temperature".into()],
        reason: fact(2),
    };
    let refused = ToolRefused { tool_use: the_use(2), reason: RefusalReason::Policy, text: "no".into() };
    vec![
        E::ModelFailed(answered(2, failed)),
        E::RetryScheduled(retry),
        E::SessionForked(forked),
        E::ParamsDropped(dropped),
        E::FallbackTaken(fallback),
        E::ToolRefused(refused),
        E::LimitReached(LimitReached::new(LimitKind::Seconds, u64::MAX, u64::MAX)),
        E::AnswerRejected(AnswerRejected {
            spark: SPARK,
            call: CallId(2),
            errors: vec!["x".into()],
            repair: true,
        }),
        E::EffectFailed(answered(7, EffectFailed { status: FailStatus::Failed, error: "no".into() })),
        E::BudgetSettled(BudgetSettled {
            call: CallId(2),
            attempt: 1,
            usage: usage(u64::MAX, u64::MAX, u64::MAX),
            micro_usd: u64::MAX,
        }),
    ]
}

/// What squads do.
pub fn teamwork() -> Vec<E> {
    let finding = Finding {
        id: "F1".into(),
        severity: Severity::Blocker,
        file: Some("a.rs".into()),
        line: Some(3),
        problem: "wrong".into(),
        fix: None,
    };
    let critique = CritiqueIssued {
        spark: SPARK,
        source: fact(2),
        verdict: Judgement::RequestChanges,
        findings: vec![finding],
    };
    let check = CheckRan {
        command: "sh check.sh".into(),
        exit: None,
        output: "x\n".repeat(100),
        ms: 7,
        notes: Vec::new(),
    };
    let diff = DiffTaken {
        from: "a".into(),
        to: "b".into(),
        diff: "+x".into(),
        files: vec!["a.rs".into()],
        ..DiffTaken::default()
    };
    vec![
        E::PhaseShifted(PhaseShifted { from: None, to: "review".into() }),
        E::CritiqueIssued(critique),
        E::FindingClosed(FindingClosed { id: "F1".into(), source: fact(2) }),
        E::CheckRan(answered(7, check)),
        E::DiffTaken(answered(8, diff)),
        E::CodeProposed(CodeProposed { spark: SPARK, diff: Some(fact(4)), checks: vec![fact(3)] }),
        E::RoleFailed(RoleFailed { role: "coder".into(), spark: SPARK, cause: TurnCause::Limit }),
    ]
}

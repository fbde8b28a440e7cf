//! What fits into a line of the log: a longer command is refused, a longer outcome gives way to one that says so.

use crate::ports::CacheMiss;
use crate::protocol::event::{
    ArenaEvent, CacheMissed, CheckRan, EffectFailed, ErrorKind, FailStatus, ModelFailed, PrepareResult,
    ToolPrepared, ToolResolved, ToolStatus,
};
use crate::protocol::{Outcome, OutcomeBody};

/// Bytes a fact may have, so that the decisions beside it still fit into its line.
const MOST: usize = 700 * 1024;

/// A command's fact, refused before the session sees it when it is too long.
pub(super) fn command(fact: ArenaEvent) -> Result<ArenaEvent, String> {
    match bytes_over(&fact) {
        None => Ok(fact),
        Some(bytes) => Err(format!("it has {bytes} bytes as a log entry; at most {MOST} fit")),
    }
}

/// An outcome's fact. A session whose log cannot take the answer to a call could never go on.
pub(super) fn outcome(outcome: Outcome) -> ArenaEvent {
    let (call, attempt) = (outcome.call, outcome.attempt);
    let fact = outcome.into_event();
    match bytes_over(&fact) {
        None => fact,
        Some(bytes) => Outcome { call, attempt, body: instead(fact, bytes) }.into_event(),
    }
}

fn bytes_over(fact: &ArenaEvent) -> Option<usize> {
    // Protocol values always serialise.
    let bytes = serde_json::to_vec(fact).map(|json| json.len()).unwrap_or_default();
    (bytes > MOST).then_some(bytes)
}

/// What stands for an outcome that is too long.
fn instead(fact: ArenaEvent, bytes: usize) -> OutcomeBody {
    use {ArenaEvent as E, OutcomeBody as B};
    let told = format!("what came of it has {bytes} bytes; a log entry may have {MOST}");
    match fact {
        E::ModelAnswered(data) => {
            let message = format!("the answer has {bytes} bytes; a log entry may have {MOST}");
            let (usage, waited_ms) = (Some(data.body.usage), data.body.waited_ms);
            let failed = ModelFailed::new(ErrorKind::TooLarge, message);
            B::ModelFailed(ModelFailed { usage, waited_ms, ..failed })
        }
        E::ModelFailed(data) => {
            B::ModelFailed(ModelFailed { message: told, said: String::new(), ..data.body })
        }
        E::ToolPrepared(data) => {
            let result = PrepareResult::Unfit(told);
            B::ToolPrepared(ToolPrepared { tool_use: data.body.tool_use, result })
        }
        E::ToolResolved(data) => B::ToolResolved(ToolResolved {
            status: ToolStatus::Failed,
            content: told,
            seen: Vec::new(),
            notes: Vec::new(),
            ..data.body
        }),
        E::CheckRan(data) => B::CheckRan(CheckRan { output: told, notes: Vec::new(), ..data.body }),
        E::CacheHit(data) => {
            let reason = CacheMiss::Unusable("the run does not fit into a log entry".to_owned()).to_string();
            B::CacheMissed(CacheMissed { key: data.body.key, reason })
        }
        _ => B::EffectFailed(EffectFailed { status: FailStatus::Failed, error: told }),
    }
}

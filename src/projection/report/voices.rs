//! Who wrote which answer to which set of calls, and what went wrong with a call; judges nothing.

use std::collections::BTreeMap;

use crate::projection::phrases;
use crate::protocol::ballot::names;
use crate::protocol::event::{RoleFailed, RoundOpened, TurnCause};
use crate::protocol::{ArenaEvent, EventRef, SparkId};

use super::Log;

/// What is remembered of a debate's calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Voices {
    /// The last `round_opened`.
    round: Option<EventRef>,
    /// Each answer with the round it was given in and who gave it.
    answers: BTreeMap<EventRef, (EventRef, SparkId)>,
    /// What last went wrong with each spark in this round: `model_failed` or `answer_rejected`.
    trouble: BTreeMap<SparkId, EventRef>,
    /// The last `limit_reached`.
    limit: Option<EventRef>,
}

impl Voices {
    /// Folds one event.
    pub(super) fn apply(&mut self, log: &Log<'_>, at: EventRef, event: &ArenaEvent) {
        use ArenaEvent as E;
        match event {
            E::RoundOpened(_) => {
                self.round = Some(at);
                self.trouble.clear();
            }
            E::ModelAnswered(data) => {
                if let (Some(round), Some(spark)) = (self.round, log.calls.get(&data.call)) {
                    self.answers.insert(at, (round, *spark));
                }
            }
            E::ModelFailed(data) => {
                if let Some(spark) = log.calls.get(&data.call) {
                    self.trouble.insert(*spark, at);
                }
            }
            E::AnswerRejected(data) => _ = self.trouble.insert(data.spark, at),
            E::LimitReached(_) => self.limit = Some(at),
            // What a chat says before or after a debate answers no round.
            E::TurnOpened(_) => self.round = None,
            _ => {}
        }
    }

    /// Words of an answer with names where its writer knew only letters.
    pub(super) fn named(&self, log: &Log<'_>, source: Option<EventRef>, text: &str) -> String {
        match source.and_then(|source| self.round_of(log, source)) {
            Some((round, writer)) => names::named(text, round, writer),
            None => text.to_owned(),
        }
    }

    /// Who is meant by the letters in an answer; none when it holds none.
    pub(super) fn legend(&self, log: &Log<'_>, source: EventRef, text: &str) -> Option<String> {
        let (round, writer) = self.round_of(log, source)?;
        Some(names::legend(text, round, writer)).filter(|legend| !legend.is_empty())
    }

    fn round_of<'l>(&self, log: &Log<'l>, source: EventRef) -> Option<(&'l RoundOpened, SparkId)> {
        let (round, writer) = self.answers.get(&source)?;
        match log.event(*round)? {
            ArenaEvent::RoundOpened(round) => Some((round, *writer)),
            _ => None,
        }
    }

    /// Why somebody was absent: not only that the call failed, but how.
    pub(super) fn why(&self, log: &Log<'_>, failed: &RoleFailed) -> String {
        let cause = phrases::turn_cause(failed.cause);
        let trouble = self.trouble.get(&failed.spark).and_then(|at| log.event(*at));
        let limit = self.limit.and_then(|at| log.event(at));
        match (failed.cause, trouble, limit) {
            (TurnCause::ModelFailed, Some(ArenaEvent::ModelFailed(data)), _) => {
                format!(
                    "{}: {}",
                    phrases::error_kind(data.body.kind),
                    phrases::start(&data.body.message, 300)
                )
            }
            (TurnCause::BadAnswer, Some(ArenaEvent::AnswerRejected(data)), _) => {
                format!("{cause}: {}", faults(&data.errors))
            }
            (TurnCause::Limit, _, Some(ArenaEvent::LimitReached(data))) => {
                format!("{cause}: {}", phrases::limit(data.limit, data.used, data.max))
            }
            _ => cause.to_owned(),
        }
    }
}

/// What is wrong with an answer in a line: a fault that comes again at other places of a list is told once, and of
/// many faults the first two. The log has all of them.
fn faults(errors: &[String]) -> String {
    const TOLD: usize = 2;
    let place = |error: &str| -> String { error.chars().filter(|c| !c.is_ascii_digit()).collect() };
    let mut kinds: Vec<(String, &str)> = Vec::new();
    for error in errors {
        // What would have been right is for the model.
        let words = error.split_once(" (known: ").map_or(error.as_str(), |(words, _)| words);
        if kinds.iter().all(|(known, _)| *known != place(words)) {
            kinds.push((place(words), words));
        }
    }
    let told: Vec<String> = kinds.iter().take(TOLD).map(|(_, fault)| phrases::start(fault, 120)).collect();
    let more = match errors.len().saturating_sub(told.len()) {
        0 => String::new(),
        more => format!(", and {} more", phrases::grouped(more as u64)),
    };
    format!("{}{more}", told.join("; "))
}

#[cfg(test)]
mod tests {
    use super::faults;

    #[test]
    fn a_wall_of_faults_is_one_plain_line() {
        let of =
            |errors: &[&str]| faults(&errors.iter().map(|error| (*error).to_owned()).collect::<Vec<_>>());
        let all: Vec<String> = (0..7).map(|n| format!("`ratings/{n}/rating` must be at most 2")).collect();
        assert_eq!(faults(&all), "`ratings/0/rating` must be at most 2, and 6 more");
        assert_eq!(of(&["unknown field `mood` (known: `position`, `claims`)"]), "unknown field `mood`");
        assert_eq!(of(&["a", "b", "c", "d"]), "a; b, and 2 more");
        assert_eq!(of(&["a", "b"]), "a; b");
    }
}

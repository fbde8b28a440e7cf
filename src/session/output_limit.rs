//! How much output each kind of answer may have: sent as the request's limit, and set aside for it in budgets.
//!
//! A model's own limit, 128,000 tokens for gpt-5, costs as much to set aside as a hundred ballots. These limits leave
//! room for an answer of its kind and for the thinking before it, which providers count as output.

use crate::protocol::SparkId;
use crate::protocol::event::Ask;
use crate::protocol::spec::{Mode, ModelSpec};

use super::Session;

/// A ballot, ratings, a statement, the propositions.
const BALLOT: u64 = 16_384;

/// A verdict, a plan, a review, an adviser's account, the lead's answer.
const ACCOUNT: u64 = 32_768;

/// Into how many parts a limit is divided where a budget does not pay for whole ones, and how few of them an answer needs.
pub(super) const WHOLE: u64 = 64;
pub(super) const LEAST: u64 = 16;

/// A summary, in place of what it covers.
const SUMMARY: u64 = 8_192;

/// The least that is worth asking for as a summary.
const LEAST_SUMMARY: u64 = 512;

impl Session {
    /// The most output tokens of a spark's next answer.
    pub(super) fn output_limit(&self, id: SparkId, model: &ModelSpec) -> u64 {
        let purpose = match self.turn.as_ref().map(|turn| &turn.mode) {
            Some(Mode::Debate(_)) => self.debate.as_ref().map(|debate| of_ask(debate.ask, debate.parts)),
            // Whoever writes files puts them whole into its calls.
            Some(Mode::Squad) => self.role_may_write(id).is_some_and(|writes| !writes).then_some(ACCOUNT),
            Some(Mode::Solo | Mode::Unknown(_)) | None => None,
        };
        purpose.map_or(model.max_output, |most| most.min(model.max_output))
    }

    /// The room a request leaves for its answer: as it should be, and the least with which it is still sent.
    pub(super) fn rooms(&self, id: SparkId, model: &ModelSpec) -> [u64; 2] {
        let room = self.output_limit(id, model).min(model.context / 4);
        [room, room.min(of_summary(model))]
    }
}

/// The most output tokens of what a debate asks for, of which it gets so many parts.
pub(super) fn of_ask(ask: Ask, parts: u64) -> u64 {
    let whole = match ask {
        Ask::Ballot | Ask::Propositions | Ask::Ratings | Ask::Statement => BALLOT,
        Ask::Verdict | Ask::Unknown(_) => ACCOUNT,
    };
    whole * parts / WHOLE
}

/// The most output tokens of a summary: an eighth of a small window, for it must leave room for the work.
pub(super) fn of_summary(model: &ModelSpec) -> u64 {
    SUMMARY.min(model.max_output).min((model.context / 8).max(LEAST_SUMMARY))
}

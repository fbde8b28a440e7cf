//! A failed model call's second chance: when it is repeated, and how a refused size is made to fit.

use std::sync::Arc;

use super::Session;
use super::budget::LEAST_OUTPUT;
use super::state::Conversation;
use crate::protocol::effect::{ModelOrder, Order};
use crate::protocol::event::{ArenaEvent, ErrorKind, ModelFailed};
use crate::protocol::expand::digest_of;
use crate::protocol::spec::RetrySpec;
use crate::protocol::{CallId, EventRef};

/// Attempts while a server loads its model, and the most milliseconds between two of them: about five minutes,
/// as long as the first token is waited for.
const LOADING: (u32, u64) = (60, 6_000);

/// Attempts while a provider says that calls come too fast and no other model takes over, and the longest time it may ask
/// for, in milliseconds: its limit slows the session down and ends nothing.
const LIMITED: (u32, u64) = (30, 300_000);

/// Attempts while a provider has trouble and no other model takes over: about a minute, as a restart takes.
const OVERLOADED: u32 = 8;

/// A smaller window than this was not understood.
const LEAST_CONTEXT: u64 = 256;

impl Session {
    /// How long to wait before the same request is sent again; none when it is not.
    pub(super) fn retry_delay(&self, call: CallId, attempt: u32, failed: &ModelFailed) -> Option<u64> {
        let mut retry = self.spec.as_ref().map(|spec| spec.retry.clone()).unwrap_or_default();
        if failed.kind == ErrorKind::Loading && retry.attempts > 1 {
            let (attempts, cap_ms) = LOADING;
            retry = RetrySpec {
                attempts: attempts.max(retry.attempts),
                cap_ms: cap_ms.min(retry.cap_ms),
                ..retry
            };
        }
        let mut longest = retry.cap_ms;
        let spark = self.failed.as_ref().and_then(|(_, open)| open.spark);
        let is_alone = spark.is_some_and(|id| self.next_model(id, failed.kind).is_none());
        if failed.kind == ErrorKind::RateLimited && is_alone && retry.attempts > 1 {
            retry.attempts = retry.attempts.max(LIMITED.0);
            longest = longest.max(LIMITED.1);
        }
        if failed.kind == ErrorKind::Overloaded && is_alone && retry.attempts > 1 {
            retry.attempts = retry.attempts.max(OVERLOADED);
        }
        let asked = failed.retry_after_ms;
        let may = failed.kind.is_retryable() && attempt < retry.attempts;
        (may && asked.is_none_or(|asked| asked <= longest)).then(|| self.delay(&retry, call, attempt, asked))
    }

    /// Doubles from the first delay, at least what the provider asks, with jitter of up to half that is a
    /// function of the session's seed.
    fn delay(&self, retry: &RetrySpec, call: CallId, attempt: u32, asked: Option<u64>) -> u64 {
        let doubled = retry.base_ms.saturating_mul(1 << (attempt - 1).min(20)).min(retry.cap_ms);
        let seed = self.spec.as_ref().map(|spec| spec.seed).unwrap_or_default();
        let draw = digest_of(&("retry", seed, call, attempt));
        let draw = u64::from_str_radix(draw.get(..8).unwrap_or("0"), 16).unwrap_or_default();
        let jitter = draw % (doubled / 2 + 1);
        match asked {
            Some(asked) => asked.max(doubled).saturating_add(jitter),
            None => doubled / 2 + jitter,
        }
    }

    /// The refused request again with as much output as the provider says there is room for: its messages, input
    /// and output. None where that is too little, or no less than was asked for.
    pub(super) fn with_less_output(
        &self,
        called: EventRef,
        failed: &ModelFailed,
    ) -> Option<(Conversation, u64, u64)> {
        let limits = failed.limits.as_deref().filter(|_| failed.kind == ErrorKind::OutputLimit)?;
        let Some((_, open)) = &self.failed else { return None };
        let Some(ArenaEvent::ModelCalled(called)) = self.event(called) else { return None };
        let row = self.model_spec(&called.model)?;
        let input = limits.input.unwrap_or(self.input_estimate(self.sparks.get(&called.spark)?));
        let asked = called.params.max_output.unwrap_or(row.max_output);
        let room = row.context.saturating_sub(input.saturating_add(1));
        let output = row.max_output.min(room).min(asked);
        (output < asked && output >= LEAST_OUTPUT.min(asked)).then(|| (open.request.clone(), input, output))
    }

    /// What a provider said of a model's size holds for the rest of the session, where it is less than was thought.
    pub(super) fn fold_limits(&mut self, failed: &ModelFailed) {
        let Some(limits) = &failed.limits else { return };
        let Some((_, open)) = &self.failed else { return };
        let Order::Model(ModelOrder { model, .. }) = &open.order else { return };
        let models = self.spec.as_mut().map(|spec| &mut Arc::make_mut(spec).models);
        for row in models.into_iter().flatten().filter(|row| row.name == *model) {
            row.context =
                limits.context.filter(|n| *n >= LEAST_CONTEXT).unwrap_or(row.context).min(row.context);
            row.max_output = limits.output.filter(|n| *n > 0).unwrap_or(row.max_output).min(row.max_output);
        }
    }
}

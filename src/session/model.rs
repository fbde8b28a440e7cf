//! Model calls: the next step, its limits and reservation, and what follows when a call fails.

use crate::protocol::effect::{ModelOrder, Order, TimerPurpose};
use crate::protocol::event::{
    ArenaEvent, BudgetReserved, BudgetSettled, CallLost, ContextCompacted, ErrorKind, FallbackTaken,
    LimitKind, LimitReached, ModelCalled, ModelFailed, ModelReply, Notice, ParamsDropped, Purpose,
    RetryScheduled, Selected, TurnCause,
};
use crate::protocol::message::{Params, Usage};
use crate::protocol::spec::{Mode, ModelSpec};
use crate::protocol::{CallId, EventRef, SparkId};

use super::Session;
use super::budget::cost;
use super::state::{Conversation, Spark};

/// Follows what arrived of an answer that was cut off.
pub(super) const UNPAID: &str = "not repeated: the budget does not cover another attempt";
const INTERRUPTED: &str = "Your answer was interrupted here, before it was complete.";

impl Session {
    /// The row of a model.
    pub(super) fn model_spec(&self, name: &str) -> Option<&ModelSpec> {
        self.spec.as_ref()?.models.iter().find(|model| model.name == name)
    }

    /// A spark's next step: a model call, a summary first when it does not fit, or the end at a limit.
    pub(super) fn think(&mut self, id: SparkId) {
        if self.is_stopping(id) {
            return self.wind_down();
        }
        let Some(spec) = self.spec.clone() else { return };
        let steps = u64::from(self.turn.as_ref().map(|turn| turn.steps).unwrap_or_default());
        let max_steps = u64::from(spec.limits.max_steps);
        if steps >= max_steps {
            return self.reach(LimitReached::new(LimitKind::Steps, steps, max_steps));
        }
        if let Some(cause) = self.own_limit(id) {
            return self.end_spark(id, cause);
        }
        self.ask_for_last_words(id);
        let Some(spark) = self.sparks.get(&id) else { return };
        let Some(model) = self.model_spec(&spark.model) else {
            return self.end_spark(id, TurnCause::ModelFailed);
        };
        for room in self.rooms(id, model) {
            if self.fits(id, room) {
                break;
            }
            if let Some((model, end)) = self.compactable(id, room) {
                return self.order_summary(id, &model, end);
            }
        }
        let least = self.rooms(id, model)[1];
        if !self.fits(id, least) {
            return self.drop_oldest(id);
        }
        let input = self.input_estimate(spark);
        let output = self.output_limit(id, model).min(model.context.saturating_sub(input));
        let request = self.next_request(spark);
        self.order_model_call(id, Purpose::Think, request, input, output);
    }

    /// True when a spark's next request fits into its model's window, with so much room for an answer.
    pub(super) fn fits(&self, id: SparkId, room: u64) -> bool {
        let Some(spark) = self.sparks.get(&id) else { return false };
        let Some(model) = self.model_spec(&spark.model) else { return false };
        self.input_estimate(spark).saturating_add(room) <= model.context
    }

    /// Reserves the worst case and orders the call, with less output when that is what the budget leaves.
    pub(super) fn order_model_call(
        &mut self,
        id: SparkId,
        purpose: Purpose,
        request: Conversation,
        input: u64,
        output: u64,
    ) {
        let Some(model) = self.sparks.get(&id).and_then(|s| self.model_spec(&s.model)).cloned() else {
            return;
        };
        let output = match self.affordable(id, &model, input, output) {
            Ok(output) => output,
            Err(reached) => return self.not_covered(id, reached),
        };
        let Some(spark) = self.sparks.get(&id) else { return };
        let has_tools = purpose != Purpose::Compact || !spark.called_in_summary;
        let offered = || self.offered_to(spark).filter(move |_| has_tools);
        let tools: Vec<Selected> = offered().map(|tool| tool.place.clone()).collect();
        let digests: Vec<&str> = offered().map(|tool| tool.digest.as_str()).collect();
        let schema =
            if purpose == Purpose::Think { self.answer_schema(id, &model, !tools.is_empty()) } else { None };
        let call = self.new_call();
        let mut called = ModelCalled {
            call,
            attempt: 1,
            spark: id,
            purpose,
            model: model.name.clone(),
            params: Params {
                temperature_pm: self.temperature(spark, &model),
                max_output: Some(output),
                schema,
                thinking: self.must_not_think(spark).then_some(false),
                effort: self.effort(id),
                without: model.refuses.clone(),
            },
            digest: String::new(),
            parts: request.relative(spark.sent.as_ref()),
            tools,
        };
        match request.chain(&|at| self.event(at)) {
            Ok(chain) => called.digest = chain.request(&called.model, &called.params, &digests),
            // Only a log that was made by hand can get here; the request could not be sent either.
            Err(_) => return self.end_spark(id, TurnCause::ContextFull),
        }
        let usage = Usage::at_most(input, output);
        self.emit(ArenaEvent::BudgetReserved(BudgetReserved {
            call,
            tokens: usage.total(),
            micro_usd: cost(model.price.as_ref(), &usage),
        }));
        self.emit(ArenaEvent::ModelCalled(Box::new(called)));
    }

    fn temperature(&self, spark: &Spark, model: &ModelSpec) -> Option<u32> {
        if model.refuses("temperature") {
            return None;
        }
        let personas = &self.spec.as_ref()?.personas;
        let persona = personas.iter().find(|persona| persona.id == spark.persona);
        persona.and_then(|persona| persona.temperature_pm).or(model.temperature_pm)
    }

    /// A thinking part that redaction had to drop would be refused by its provider: thinking goes off.
    fn must_not_think(&self, spark: &Spark) -> bool {
        spark.said.lacks_thinking()
            || spark.fresh.iter().any(|item| item.lacks_thinking(&|at| self.event(at)))
    }

    /// Settles an answered or failed attempt.
    pub(super) fn settle(&mut self, call: CallId, attempt: u32, model: &str, usage: Usage) {
        let micro_usd = cost(self.model_spec(model).and_then(|m| m.price.as_ref()), &usage);
        self.emit(ArenaEvent::BudgetSettled(BudgetSettled { call, attempt, usage, micro_usd }));
    }

    /// What follows from a model's answer.
    pub(super) fn on_answer(&mut self, at: EventRef, answered: &AnsweredCall) {
        self.settle(answered.call, answered.attempt, &answered.model, answered.usage);
        match answered.purpose {
            Purpose::Think => self.observe(answered.spark, at),
            Purpose::Compact => self.on_summary(at, answered),
            Purpose::Unknown(_) => {}
        }
    }

    fn on_summary(&mut self, at: EventRef, answered: &AnsweredCall) {
        let id = answered.spark;
        if self.is_stopping(id) {
            return self.wind_down();
        }
        let covers = self.covered(id, &answered.model, &answered.request.parts());
        if !answered.has_text && answered.had_tools {
            // Small models go on with the work where they are to sum it up.
            return self.compact(id);
        }
        if !answered.has_text || covers.is_empty() {
            return self.drop_oldest(id);
        }
        self.emit(ArenaEvent::ContextCompacted(ContextCompacted { spark: id, summary: at, covers }));
        // What it covers is not summarised again: where it freed too little, what is oldest goes.
        self.think(id);
    }

    /// What follows from a failed model call: wait and repeat, summarise, another model, or the end.
    pub(super) fn on_failure(&mut self, at: EventRef, call: CallId, attempt: u32, failed: &ModelFailed) {
        let Some((_, open)) = &self.failed else { return };
        let Order::Model(ModelOrder { called, model, purpose }) = open.order.clone() else { return };
        let (Some(id), cancelled) = (open.spark, open.cancelled) else { return };
        self.settle(call, attempt, &model, failed.usage.unwrap_or_default());
        if cancelled || self.is_stopping(id) || failed.kind == ErrorKind::Cancelled {
            self.keep_said(id, purpose, failed);
            return self.after_cancel(id);
        }
        if let Some(delay_ms) = self.retry_delay(call, attempt, failed) {
            let timer = self.new_call();
            let attempt = attempt.saturating_add(1);
            let retry = RetryScheduled { call, attempt, timer, delay_ms, reason: at };
            self.emit(ArenaEvent::RetryScheduled(retry));
            return;
        }
        if let Some(names) = self.new_refusals(called, failed) {
            self.emit(ArenaEvent::ParamsDropped(ParamsDropped { call, spark: id, model, names, reason: at }));
            return match purpose {
                Purpose::Think | Purpose::Unknown(_) => self.think(id),
                Purpose::Compact => self.compact(id),
            };
        }
        if let Some((request, input, output)) = self.with_less_output(called, failed) {
            return self.order_model_call(id, purpose, request, input, output);
        }
        let too_large = matches!(failed.kind, ErrorKind::ContextOverflow | ErrorKind::OutputLimit);
        if too_large && purpose == Purpose::Think {
            return self.compact(id);
        }
        self.keep_said(id, purpose, failed);
        self.fall_back(id, at, failed.kind);
    }

    /// What arrived of an answer that no further attempt will complete stays in the conversation.
    fn keep_said(&mut self, id: SparkId, purpose: Purpose, failed: &ModelFailed) {
        let converses = self.turn.as_ref().is_some_and(|turn| matches!(turn.mode, Mode::Solo | Mode::Squad));
        if converses && purpose == Purpose::Think && !failed.said.trim().is_empty() {
            self.notice(id, Notice::Interrupted, INTERRUPTED);
        }
    }

    /// The refused parameters this call was still made with; none when leaving them out was tried already.
    fn new_refusals(&self, called: EventRef, failed: &ModelFailed) -> Option<Vec<String>> {
        let Some(ArenaEvent::ModelCalled(called)) = self.event(called) else { return None };
        let without = &called.params.without;
        let new: Vec<String> =
            failed.refused.iter().filter(|name| !without.contains(name)).cloned().collect();
        (!new.is_empty()).then_some(new)
    }

    /// A call that was told to stop has stopped. One that stopped unasked ends its spark.
    fn after_cancel(&mut self, id: SparkId) {
        match self.is_stopping(id) {
            true => self.wind_down(),
            false => self.end_spark(id, TurnCause::Interrupted),
        }
    }

    /// The model that takes over from a spark's own after such a failure: by its row for this kind, else by the role, the
    /// persona, or the row for any.
    pub(super) fn next_model(&self, id: SparkId, kind: ErrorKind) -> Option<String> {
        let spark = self.sparks.get(&id)?;
        let row = self.model_spec(&spark.model)?;
        let role = || self.role(id).and_then(|(squad, i)| squad.roles.get(i)?.spec.fallbacks.as_ref());
        let persona = || {
            let personas = &self.spec.as_ref()?.personas;
            personas.iter().find(|persona| persona.id == spark.persona)?.fallbacks.as_ref()
        };
        let own = row.fallbacks_on.get(&kind).or_else(role).or_else(persona).unwrap_or(&row.fallbacks);
        let known = |name: &&String| self.model_spec(name).is_some();
        let untried = |name: &&String| **name != spark.model && !spark.given_up.contains(name);
        own.iter().filter(untried).find(known).cloned()
    }

    fn fall_back(&mut self, id: SparkId, reason: EventRef, kind: ErrorKind) {
        let Some(from) = self.sparks.get(&id).map(|spark| spark.model.clone()) else { return };
        match self.next_model(id, kind) {
            Some(to) => {
                self.emit(ArenaEvent::FallbackTaken(FallbackTaken { spark: id, from, to, reason }));
                self.think(id);
            }
            None => self.end_spark(id, TurnCause::ModelFailed),
        }
    }

    /// Repeats a model call whose retry timer has fired. It is the same request, so it cannot be made smaller.
    pub(super) fn repeat_model_call(&mut self, call: CallId) {
        let Some(open) = self.calls.get(&call) else { return };
        let Order::Model(order) = &open.order else { return };
        let attempt = open.attempt.saturating_add(1);
        let Some((spark, tokens, micro_usd)) = self.worst_again(call) else {
            return self.lose_unpaid(call, "not repeated: the log does not say for whom it was");
        };
        let Some(ArenaEvent::ModelCalled(called)) = self.event(order.called).cloned() else { return };
        if let Some(reached) = self.over_budget(&[(spark, tokens, micro_usd)]).into_iter().next() {
            self.lose_unpaid(call, UNPAID);
            return self.not_covered(spark, reached);
        }
        self.emit(ArenaEvent::BudgetReserved(BudgetReserved { call, tokens, micro_usd }));
        self.emit(ArenaEvent::ModelCalled(Box::new(ModelCalled { attempt, ..*called })));
    }

    pub(super) fn lose_unpaid(&mut self, call: CallId, text: &str) {
        self.emit(ArenaEvent::CallLost(CallLost { call, tool_use: None, text: text.to_owned() }));
    }

    /// What a call that is sent once more may cost at worst: for whom, tokens, millionths of a dollar.
    pub(super) fn worst_again(&self, call: CallId) -> Option<(SparkId, u64, u64)> {
        let Order::Model(order) = &self.calls.get(&call)?.order else { return None };
        let Some(ArenaEvent::ModelCalled(called)) = self.event(order.called) else { return None };
        let input = self.input_estimate(self.sparks.get(&called.spark)?);
        let usage = Usage::at_most(input, called.params.max_output.unwrap_or_default());
        let price = self.model_spec(&called.model).and_then(|model| model.price);
        Some((called.spark, usage.total(), cost(price.as_ref(), &usage)))
    }

    /// The model call, if any, that waits for a timer.
    pub(super) fn waiting_for(&self, fired: CallId) -> Option<CallId> {
        self.calls.iter().find(|(_, call)| call.timer == Some(fired)).map(|(id, _)| *id)
    }

    /// What a timer is for.
    pub(super) fn timer_purpose(&self, timer: CallId) -> Option<TimerPurpose> {
        match &self.calls.get(&timer)?.order {
            Order::Timer(order) => Some(order.purpose),
            _ => None,
        }
    }
}

/// What must be known of a model call when its answer is looked at, since the fold closes it.
pub(super) struct AnsweredCall {
    /// The call.
    pub call: CallId,
    /// The attempt that answered.
    pub attempt: u32,
    /// The spark.
    pub spark: SparkId,
    /// What for.
    pub purpose: Purpose,
    /// The model that was asked.
    pub model: String,
    /// What was sent.
    pub request: Conversation,
    /// Tokens used.
    pub usage: Usage,
    /// True when there is text in the answer.
    pub has_text: bool,
    /// True when the model could have called a tool.
    pub had_tools: bool,
}

impl AnsweredCall {
    /// Reads it off the open call before the fold.
    pub fn before(session: &Session, call: CallId, attempt: u32, reply: &ModelReply) -> Option<Self> {
        let open = session.calls.get(&call)?;
        let Order::Model(order) = &open.order else { return None };
        Some(AnsweredCall {
            call,
            attempt,
            spark: open.spark?,
            purpose: order.purpose,
            model: order.model.clone(),
            request: open.request.clone(),
            usage: reply.usage,
            has_text: !reply.text().trim().is_empty(),
            had_tools: matches!(session.event(order.called), Some(ArenaEvent::ModelCalled(called)) if !called.tools.is_empty()),
        })
    }
}

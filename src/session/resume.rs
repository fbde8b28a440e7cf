//! Taking a session up again, after a crash or as a fork: every open call is settled by its kind.

use crate::protocol::effect::{OnResume, Order, PrepareOrder, PreparedUse, TimerOrder, TimerPurpose};
use crate::protocol::event::{
    ArenaEvent, CallCancelled, CallLost, EffectOrdered, Notice, NoticeGiven, ToolUse,
};
use crate::protocol::message::Usage;
use crate::protocol::spec::Setting;
use crate::protocol::{CallId, EventRef, SparkId};

use super::Session;
use super::background::GONE;
use super::model::UNPAID;
use super::state::{Call, UseState};

const LOST: &str = "agon was stopped while this ran; whether it had any effect is not known. Look before you \
repeat it.";

/// How a session is taken up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakeUp {
    /// In the same place.
    Resume,
    /// As a copy in another workspace. One call may stay open: its outcome comes next. Where it goes on
    /// for a parent that was ended, what that had under way was paid for nowhere else.
    Fork { awaits: Option<CallId>, goes_on: bool },
}

impl TakeUp {
    fn is_fork(self) -> bool {
        matches!(self, TakeUp::Fork { .. })
    }

    fn leaves_open(self, id: CallId) -> bool {
        matches!(self, TakeUp::Fork { awaits: Some(call), .. } if call == id)
    }

    /// True where the parent counts what it had under way.
    fn is_paid_elsewhere(self) -> bool {
        matches!(self, TakeUp::Fork { goes_on: false, .. })
    }
}

impl Session {
    /// Settles every open call, then lets the sparks go on.
    pub(super) fn take_up(&mut self, how: TakeUp, changed: &[Setting], active_ms: u64) {
        let is_of_requests = |setting: &Setting| {
            matches!(setting, Setting::Model { .. } | Setting::Persona { .. } | Setting::RoleModel { .. })
        };
        // A call that a log from elsewhere holds names a model and parameters of its own.
        let changes_requests = self.foreign_words || changed.iter().any(is_of_requests);
        if how.is_fork() {
            self.say_moved();
        }
        let open: Vec<(CallId, Call)> = self.calls.iter().map(|(id, call)| (*id, call.clone())).collect();
        if self.debate.is_some() && !changes_requests {
            self.settle_set(&open, how);
        }
        for (id, call) in open {
            self.settle_call(id, &call, how, changes_requests, active_ms);
        }
        if self.turn.as_ref().is_some_and(|turn| turn.timer.is_none()) {
            self.order_time_limit(active_ms);
        }
        self.prepare_again();
        self.tell_of_ended();
        if self.turn.is_some() && self.checkpoints.tree.is_some() {
            self.record_workspace();
        }
        self.record_base();
        self.go_on();
    }

    /// The calls of a set that was cut off are sent again all of them or none: half a set is paid for in vain.
    fn settle_set(&mut self, open: &[(CallId, Call)], how: TakeUp) {
        let models = open.iter().filter(|(_, call)| !call.cancelled && matches!(call.order, Order::Model(_)));
        let again: Vec<&(CallId, Call)> = models.filter(|(id, _)| !how.leaves_open(*id)).collect();
        for (id, call) in &again {
            self.settle_unknown(*id, call, how);
        }
        let ids: Vec<CallId> = again.iter().map(|(id, _)| *id).collect();
        let worst: Vec<_> = ids.iter().filter_map(|id| self.worst_again(*id)).collect();
        let reached = self.over_budget(&worst).into_iter().find(|reached| reached.spark.is_none());
        if let Some(reached) = reached {
            for (id, call) in again {
                if let Some(timer) = call.timer {
                    self.cancel_silently(timer);
                }
                self.lose_unpaid(*id, UNPAID);
            }
            self.reach(reached);
        }
    }

    /// Sparks that can still read files, and so may have seen some that are not those they would see now.
    fn readers(&self) -> Vec<SparkId> {
        let debate = self.debate.as_ref().filter(|_| self.turn.is_some());
        let reads = |id: SparkId| debate.is_none_or(|debate| !debate.tools_of(id).is_empty());
        let open = self.sparks.iter().filter(|(id, spark)| spark.completed.is_none() && reads(**id));
        open.map(|(id, _)| *id).collect()
    }

    fn say_moved(&mut self) {
        for spark in self.readers() {
            let text = "This session is a copy of an earlier one and works in a directory of its own from here on. \
                        Read files again before you rely on what you saw.";
            self.notice(spark, Notice::Moved, text);
        }
    }

    pub(super) fn notice(&mut self, spark: SparkId, notice: Notice, text: &str) -> EventRef {
        self.emit(ArenaEvent::NoticeGiven(NoticeGiven { spark, notice, text: text.to_owned() }))
    }

    fn settle_call(&mut self, id: CallId, call: &Call, how: TakeUp, changes_requests: bool, active_ms: u64) {
        if !self.calls.contains_key(&id) || how.leaves_open(id) {
            return;
        }
        if call.cancelled {
            if !call.is_waiting() {
                self.settle_unknown(id, call, how);
            }
            return self.lose(id, call);
        }
        let resume = call.order.row().map_or(OnResume::Lose, |row| row.on_resume);
        match (&call.order, resume) {
            (Order::Model(_), _) if changes_requests => {
                call.timer.into_iter().for_each(|timer| self.cancel_silently(timer));
                self.settle_unknown(id, call, how);
                self.lose(id, call);
            }
            // One that waits for its retry is repeated when the timer fires.
            (Order::Model(_), _) if call.is_waiting() => {}
            (Order::Model(_), OnResume::Again) => {
                self.settle_unknown(id, call, how);
                let worst: Vec<_> = self.worst_again(id).into_iter().collect();
                match self.over_budget(&worst).iter().any(|reached| reached.spark.is_some()) {
                    // Once all calls are settled its spark may ask for less, or ends.
                    true => self.lose_unpaid(id, UNPAID),
                    false => self.repeat_model_call(id),
                }
            }
            (_, OnResume::Withdraw) => self.cancel_silently(id),
            (_, OnResume::Keep) => {}
            (Order::Tool(one), OnResume::IfRepeatable) => self.look_again(id, call, one.tool_use),
            (_, OnResume::Again) if !self.is_stale_cache_call(id) => self.order_again(id, call, active_ms),
            _ => self.lose(id, call),
        }
    }

    fn look_again(&mut self, id: CallId, call: &Call, tool_use: ToolUse) {
        let repeatable = self.use_mut(tool_use).is_some_and(|one| one.repeatable);
        match call.spark.filter(|spark| repeatable && !self.is_stopping(*spark)) {
            Some(spark) => {
                self.cancel_silently(id);
                self.order(Some(spark), Order::Prepare(PrepareOrder { tool_use }));
            }
            None => self.lose(id, call),
        }
    }

    fn order_again(&mut self, id: CallId, call: &Call, active_ms: u64) {
        let effect = match &call.order {
            // Time limits go on with what remains of them.
            Order::Timer(TimerOrder { purpose: TimerPurpose::TurnLimit, .. }) => {
                let Some(limit) = self.spec.as_ref().and_then(|spec| spec.limits.max_seconds) else {
                    return self.cancel_silently(id);
                };
                let ms = limit.saturating_mul(1000).saturating_sub(active_ms);
                Order::Timer(TimerOrder { ms, purpose: TimerPurpose::TurnLimit })
            }
            other => other.clone(),
        };
        let attempt = call.attempt.saturating_add(1);
        self.emit(ArenaEvent::EffectOrdered(EffectOrdered { call: id, attempt, spark: call.spark, effect }));
    }

    /// Nobody knows what a call that was cut off cost: the whole reservation counts. A copy pays nothing for
    /// what its parent had under way and counts itself, nor anybody for what was never sent.
    fn settle_unknown(&mut self, id: CallId, call: &Call, how: TakeUp) {
        let Order::Model(order) = &call.order else { return };
        let Some(ArenaEvent::ModelCalled(called)) = self.event(order.called) else { return };
        let (model, output) = (called.model.clone(), called.params.max_output.unwrap_or_default());
        let Some((tokens, _)) = self.ledger.reserved_for(id) else { return };
        let price = self.model_spec(&model).and_then(|spec| spec.price);
        let worst = Usage::at_most(tokens.saturating_sub(output), output);
        // Where writing to a cache is not billed apart, nothing is said to be written.
        let is_apart = price.is_some_and(|price| price.written.is_some());
        let worst = if is_apart { worst } else { Usage { written: 0, ..worst } };
        let usage = if how.is_paid_elsewhere() || call.unsent { Usage::default() } else { worst };
        let usage = Usage { estimated: true, ..usage };
        self.settle(id, call.attempt, &model, usage);
    }

    fn lose(&mut self, id: CallId, call: &Call) {
        let tool_use = match &call.order {
            Order::Tool(PreparedUse { tool_use, .. }) => Some(*tool_use),
            _ => None,
        };
        let text = if matches!(call.order, Order::Background(_)) { GONE } else { LOST };
        self.emit(ArenaEvent::CallLost(CallLost { call: id, tool_use, text: text.to_owned() }));
        tool_use.into_iter().for_each(|ended| self.withdraw_asks(ended));
    }

    fn cancel_silently(&mut self, call: CallId) {
        let reason = "withdrawn; it will be prepared again".to_owned();
        self.emit(ArenaEvent::CallCancelled(CallCancelled { call, reason }));
    }

    /// Looks again at every call that was not started: a plan and a yes that a log holds are no reason to start it.
    fn prepare_again(&mut self) {
        let again: Vec<(SparkId, ToolUse)> = self
            .sparks
            .iter()
            .flat_map(|(id, spark)| spark.uses.iter().map(move |one| (*id, one)))
            .filter(|(id, one)| match one.state {
                UseState::Prepared | UseState::Allowed => !self.is_stopping(*id),
                _ => false,
            })
            .map(|(id, one)| (id, one.id))
            .collect();
        for (id, tool_use) in again {
            self.order(Some(id), Order::Prepare(PrepareOrder { tool_use }));
        }
    }

    /// Lets every spark do what it was about to do.
    pub(super) fn go_on(&mut self) {
        if self.checkpoints.is_comparing() {
            return;
        }
        let open: Vec<SparkId> =
            self.sparks.iter().filter(|(_, s)| s.completed.is_none()).map(|(id, _)| *id).collect();
        for id in open {
            let idle = self.sparks.get(&id).is_some_and(|spark| spark.uses.is_empty());
            if idle && !self.has_model_call(id) && self.is_at_work(id) {
                self.think(id);
            }
        }
        self.wind_down();
        self.advance();
    }

    /// The workspace was recorded after a resume: tell the sparks when it is not what it was.
    pub(super) fn on_compared(&mut self, before: &str, now: &str) {
        if before != now {
            for spark in self.readers() {
                let text = "The workspace is not as it was last recorded: another process changed it, or a call that was cut \
                            off did. Read files again before you rely on what you saw.";
                self.notice(spark, Notice::Workspace, text);
            }
        }
        self.go_on();
    }
}

//! How sparks, turns and sessions end: one cause from a closed list at every end, nothing left running.

use crate::protocol::effect::{Bare, Order, TimerOrder, TimerPurpose};
use crate::protocol::event::{
    ArenaEvent, CallCancelled, RefusalReason, SessionSealed, SparkCompleted, TurnCause, TurnClosed,
};
use crate::protocol::{CallId, EventRef, SparkId};

use super::Session;
use super::state::UseState;

impl Session {
    /// Why a spark must not begin anything new, if so.
    pub(super) fn stop_cause(&self, id: SparkId) -> Option<TurnCause> {
        let turn = self.turn.as_ref();
        let spark = self.sparks.get(&id);
        turn.and_then(|turn| turn.stopping)
            .or(spark.and_then(|spark| spark.stopping))
            .or(self.stopping.map(|_| TurnCause::Stopped))
            .or_else(|| self.delegated(id).and_then(|delegated| self.stop_cause(delegated.parent)))
    }

    /// Why the turn is to end, if it is.
    pub(super) fn turn_stop(&self) -> Option<TurnCause> {
        let turn = self.turn.as_ref()?;
        turn.stopping.or(self.stopping.map(|_| TurnCause::Stopped))
    }

    pub(super) fn is_stopping(&self, id: SparkId) -> bool {
        self.stop_cause(id).is_some()
    }

    /// Ends what is to end: refuses calls that have not started, tells running ones to stop, and closes
    /// each spark, the turn and the session as soon as nothing of theirs is awaited.
    pub(super) fn wind_down(&mut self) {
        self.cancel_proofs();
        for id in self.open_sparks() {
            let Some(cause) = self.stop_cause(id) else { continue };
            self.refuse_unstarted(id, cause);
            self.cancel_calls(|call| call == Some(id), "the spark is stopping");
            if !self.calls.values().any(|call| call.spark == Some(id)) && !self.has_subagents(id) {
                self.end_spark(id, cause);
            }
        }
        self.stop_reading();
        self.stop_storing();
        self.close_stopped_turn();
        self.seal_if_over();
    }

    /// What proves the work of a role that has failed has nobody at work any more: told to stop first, so that
    /// the turn waits for it.
    fn cancel_proofs(&mut self) {
        if self.turn_stop().is_some() {
            let ended: Vec<SparkId> =
                self.sparks.iter().filter(|(_, s)| s.completed.is_some()).map(|(id, _)| *id).collect();
            self.cancel_calls(|call| call.is_some_and(|id| ended.contains(&id)), "the turn is stopping");
        }
    }

    /// True when nothing is awaited that belongs to the open turn: its time limit and a checkpoint may outlast it.
    pub(super) fn is_turn_quiet(&self) -> bool {
        self.calls.values().all(|call| match &call.order {
            Order::Checkpoint(Bare) | Order::Tools(_) | Order::Background(_) => true,
            Order::Timer(TimerOrder { purpose, .. }) => *purpose != TimerPurpose::Retry,
            _ => false,
        })
    }

    fn refuse_unstarted(&mut self, id: SparkId, cause: TurnCause) {
        let asks: Vec<CallId> = self
            .calls
            .iter()
            .filter(|(_, call)| {
                let waits = matches!(call.order, Order::Ask(_) | Order::Question(_) | Order::Gate(_));
                call.spark == Some(id) && waits
            })
            .map(|(ask, _)| *ask)
            .collect();
        for call in asks {
            self.cancel(call, "the spark is stopping");
        }
        let reason = match cause {
            TurnCause::Limit => RefusalReason::Limit,
            _ => RefusalReason::Cancelled,
        };
        let uses = self.sparks.get(&id).map(|spark| spark.uses.clone()).unwrap_or_default();
        for one in uses {
            if matches!(one.state, UseState::Waiting | UseState::Prepared | UseState::Allowed) {
                self.refuse(one.id, reason, "cancelled before it was started".to_owned());
            }
        }
    }

    /// Tells calls to stop. A checkpoint under way is left to finish: it is short, and a fork needs it.
    fn cancel_calls(&mut self, which: impl Fn(Option<SparkId>) -> bool, reason: &str) {
        let running: Vec<CallId> = self
            .calls
            .iter()
            .filter(|(_, call)| which(call.spark) && !call.cancelled)
            .filter(|(_, call)| !matches!(call.order, Order::Checkpoint(Bare)))
            .map(|(id, _)| *id)
            .collect();
        for call in running {
            self.cancel(call, reason);
        }
    }

    /// Tells one call to stop; a retry timer goes with the model call that waited for it.
    pub(super) fn cancel(&mut self, call: CallId, reason: &str) {
        if self.calls.get(&call).is_none_or(|open| open.cancelled) {
            return;
        }
        self.emit(ArenaEvent::CallCancelled(CallCancelled { call, reason: reason.to_owned() }));
    }

    /// A spark ends; in a solo turn the turn ends with it.
    pub(super) fn end_spark(&mut self, id: SparkId, cause: TurnCause) {
        let Some(spark) = self.sparks.get(&id).filter(|spark| spark.completed.is_none()) else { return };
        let answer = spark.answer;
        if self.is_absence(id, cause) {
            return self.absent(id, cause);
        }
        let delegated = spark.delegated.as_ref().map(|delegated| delegated.tool_use);
        let ended = self.emit(ArenaEvent::SparkCompleted(SparkCompleted { spark: id, cause, answer }));
        match delegated {
            Some(tool_use) => self.report_back(tool_use, ended),
            None => self.spark_ended(id, cause, answer),
        }
    }

    /// Closes the turn and what only it waited for.
    pub(super) fn close_turn(&mut self, cause: TurnCause, answer: Option<EventRef>) {
        let Some(turn) = self.turn.as_ref() else { return };
        let (number, timer) = (turn.number, turn.timer);
        if let Some(timer) = timer {
            self.cancel(timer, "the turn has ended");
        }
        self.forget_reading();
        self.emit(ArenaEvent::TurnClosed(TurnClosed { turn: number, cause, answer }));
        self.seal_if_over();
    }

    /// Ends a turn or a stopped session that waits for nothing, where a driver would wait for ever. Only a log that this
    /// program did not write leads there: one with decisions missing, doubled or about things that never were.
    pub(super) fn end_if_nothing_is_awaited(&mut self) {
        if !self.calls.is_empty() || (self.turn.is_none() && self.stopping.is_none()) {
            return;
        }
        for id in self.open_sparks() {
            // The turn may end with the first of them, and a subagent's end lets its parent go on.
            if self.turn.is_some() && self.calls.is_empty() {
                self.end_spark(id, TurnCause::Stopped);
            }
        }
        if self.calls.is_empty() {
            self.close_turn(TurnCause::Stopped, None);
            self.seal_if_over();
        }
    }

    /// Seals a stopped session once nothing is awaited.
    pub(super) fn seal_if_over(&mut self) {
        let Some(cause) = self.stopping else { return };
        if self.sealed.is_some() || self.turn.is_some() {
            return;
        }
        self.cancel_calls(|_| true, "the session is stopping");
        if self.calls.is_empty() {
            self.emit(ArenaEvent::SessionSealed(SessionSealed {
                cause,
                turns: self.turns,
                last: self.last_turn.as_ref().map(|turn| turn.cause),
                tokens: self.ledger.tokens,
                micro_usd: self.ledger.micro_usd,
            }));
        }
    }
}

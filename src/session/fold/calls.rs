//! The fold of calls and tool calls: ordered, looked at, asked about, run, ended; decides nothing.

use crate::protocol::effect::{
    Bare, GateOrder, Order, PrepareOrder, PreparedUse, QuestionOrder, TimerOrder, TimerPurpose,
};
use crate::protocol::event::{
    Answered, ApprovalAnswered, ApprovalRequested, CallLost, EffectFailed, EffectOrdered, ModelReply,
    PolicyDecided, PrepareResult, ToolInvoked, ToolPrepared, ToolResolved, ToolUse,
};
use crate::protocol::message::{Part, Role};
use crate::protocol::spec::{Action, Risk, Rule};
use crate::protocol::{CallId, Choice, EventRef};
use crate::session::Session;
use crate::session::policy::Grant;
use crate::session::state::{Item, Use, UseState};

impl Session {
    pub(super) fn uses_of(&self, at: EventRef, reply: &ModelReply) -> Vec<Use> {
        (0u16..)
            .zip(&reply.message)
            .filter_map(|(part, piece)| match piece {
                Part::Call { name, .. } => Some((part, name)),
                _ => None,
            })
            .map(|(part, name)| {
                let tool = self.places.tools.get(name).map(|tool| &tool.spec);
                Use {
                    id: ToolUse { answer: at, part },
                    tool: name.clone(),
                    risk: tool.map(|tool| tool.risk),
                    repeatable: tool.is_some_and(|tool| tool.repeatable),
                    state: UseState::Waiting,
                    plan: None,
                    ruling: Action::Allow,
                    stopped_by: None,
                }
            })
            .collect()
    }

    pub(super) fn fold_ordered(&mut self, data: &EffectOrdered) {
        match &data.effect {
            Order::Prepare(PrepareOrder { tool_use }) => {
                // After a resume a call that ran is looked at again, and judged like a new one.
                if let Some(UseState::Running(call)) = self.use_mut(*tool_use).map(|one| one.state) {
                    self.close(call);
                }
                self.set_use(*tool_use, UseState::Preparing(data.call));
            }
            Order::Gate(order) => self.set_use(order.tool_use, UseState::Gated),
            Order::Question(order) => self.set_use(order.tool_use, UseState::Asking(data.call)),
            Order::Checkpoint(Bare) => self.checkpoints.pending = Some(data.call),
            Order::Mention(_) => self.fold_reading(data.call),
            Order::Timer(TimerOrder { purpose: TimerPurpose::TurnLimit, .. }) => {
                if let Some(turn) = self.turn.as_mut() {
                    turn.timer = Some(data.call);
                }
            }
            _ => {}
        }
    }

    pub(super) fn fold_prepared(&mut self, at: EventRef, data: &Answered<ToolPrepared>) {
        self.close(data.call);
        self.set_use(data.body.tool_use, UseState::Prepared);
        if let PrepareResult::Ready(plan) = &data.body.result
            && let Some(one) = self.use_mut(data.body.tool_use)
        {
            one.plan = Some((at, plan.digest.clone()));
            // A tool may find out that this call does less or more than the tool in general.
            one.risk = Some(plan.risk);
        }
    }

    pub(super) fn fold_ruling(&mut self, data: &PolicyDecided) {
        let Some(one) = self.use_mut(data.tool_use) else { return };
        (one.ruling, one.stopped_by) = (data.action, None);
        if data.action == Action::Allow {
            one.state = UseState::Allowed;
        }
    }

    pub(super) fn fold_asked(&mut self, data: &ApprovalRequested) {
        // A call that runs and asks for a connection goes on running.
        if !self.use_mut(data.tool_use).is_some_and(|one| matches!(one.state, UseState::Running(_))) {
            self.set_use(data.tool_use, UseState::Asking(data.call));
        }
    }

    pub(super) fn fold_approval(&mut self, data: &ApprovalAnswered) {
        let Some(call) = self.calls.remove(&data.call) else { return };
        let Order::Ask(PreparedUse { tool_use, prepared, .. }) = call.order else { return };
        // A recorded run that is applied is no tool's call, and grants none.
        let shown = self.asked(tool_use).zip(self.plan(prepared));
        let granted = match &data.choice {
            Choice::Rule(rule) => Some((**rule).clone()),
            Choice::Session => shown.map(|((tool, _), plan)| {
                Rule::granting(format!("granted for this session: {tool}"), tool, plan)
            }),
            Choice::Once | Choice::Deny(_) | Choice::Unknown(_) => None,
        };
        // A connection is the same whatever confines what asks for it.
        let connects = shown.is_some_and(|(_, plan)| plan.connection().is_some());
        let rights = call.spark.filter(|_| !connects).and_then(|spark| self.rights(spark));
        let shelter = rights.map(|rights| rights.shelter).unwrap_or_default();
        self.grants.extend(granted.map(|rule| Grant { rule, shelter }));
        let state = match &data.choice {
            Choice::Deny(_) | Choice::Unknown(_) => UseState::Prepared,
            Choice::Once | Choice::Session | Choice::Rule(_) => UseState::Allowed,
        };
        self.leave_ask(tool_use, UseState::Asking(data.call), state);
    }

    /// What an ask was about goes on, unless it is somewhere else: it runs, or has ended.
    fn leave_ask(&mut self, tool_use: ToolUse, from: UseState, to: UseState) {
        if let Some(one) = self.use_mut(tool_use).filter(|one| one.state == from) {
            one.state = to;
        }
    }

    pub(super) fn fold_invoked(&mut self, data: &ToolInvoked) {
        self.set_use(data.tool_use, UseState::Running(data.call));
        if self.use_mut(data.tool_use).is_some_and(|one| one.may_change()) {
            self.checkpoints.touch();
        }
    }

    pub(super) fn fold_resolved(&mut self, at: EventRef, data: &Answered<ToolResolved>) {
        self.fold_given_anew(at, data.body.by.as_deref());
        let spark = self.calls.remove(&data.call).and_then(|call| call.spark);
        let risk = self.use_mut(data.body.tool_use).and_then(|one| one.risk);
        if let Some(spark) = spark.and_then(|id| self.sparks.get_mut(&id)) {
            let files = || data.body.seen.iter().map(|file| (file.path.clone(), file.sha256.clone()));
            spark.seen.extend(files());
            spark.written.extend(files().filter(|_| risk == Some(Risk::Write)));
        }
        self.last_proof.fold_tool(at.seq, risk, &data.body);
        self.close_use(data.body.tool_use, at);
        self.fold_debate_result(at);
    }

    pub(super) fn fold_lost(&mut self, at: EventRef, data: &CallLost) {
        let lost = self.calls.remove(&data.call).map(|call| call.order);
        if let Some(Order::Prepare(PrepareOrder { tool_use })) = lost {
            self.set_use(tool_use, UseState::Prepared);
        }
        if self.checkpoints.pending == Some(data.call) {
            self.checkpoints.pending = None;
        }
        match data.tool_use {
            Some(tool_use) => self.close_use(tool_use, at),
            None => self.ledger.release(data.call),
        }
    }

    pub(super) fn fold_checkpoint(&mut self, call: CallId, tree: Option<&str>) {
        self.close(call);
        if self.checkpoints.pending == Some(call) {
            self.checkpoints.pending = None;
        }
        (self.checkpoints.fresh, self.checkpoints.in_turn, self.checkpoints.touched) = (true, true, false);
        self.checkpoints.compare = None;
        if let Some(tree) = tree {
            self.checkpoints.tree = Some(tree.to_owned());
        }
    }

    pub(super) fn fold_effect_failed(&mut self, at: EventRef, data: &Answered<EffectFailed>) {
        let call = data.call;
        let order = self.calls.get(&call).map(|call| call.order.clone());
        match order {
            // A workspace that cannot be recorded can still be worked in; a fork will say what it lacks.
            Some(Order::Checkpoint(Bare)) => self.fold_checkpoint(call, None),
            Some(Order::Prepare(PrepareOrder { tool_use })) => {
                self.close(call);
                self.set_use(tool_use, UseState::Prepared);
            }
            Some(Order::Gate(_)) => self.fold_gate(at, call, Action::Deny),
            Some(Order::Question(QuestionOrder { tool_use })) => {
                self.close(call);
                self.set_use(tool_use, UseState::Waiting);
            }
            Some(Order::Mention(_)) => self.fold_unread(at, data),
            Some(Order::Tools(order)) => self.fold_unlisted(&order.source, data),
            _ => self.close(call),
        }
    }

    pub(super) fn fold_timer(&mut self, timer: CallId) {
        self.close(timer);
        for call in self.calls.values_mut() {
            call.timer = call.timer.filter(|waited| *waited != timer);
        }
        if let Some(turn) = self.turn.as_mut()
            && turn.timer == Some(timer)
        {
            turn.timer = None;
        }
    }

    /// A cancelled ask or timer is closed by it; anything else is still waited for.
    pub(super) fn fold_cancelled(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        call.cancelled = true;
        match call.order.clone() {
            Order::Ask(PreparedUse { tool_use, .. }) | Order::Question(QuestionOrder { tool_use }) => {
                self.close(id);
                self.leave_ask(tool_use, UseState::Asking(id), UseState::Waiting);
            }
            Order::Gate(GateOrder { tool_use, .. }) => {
                self.close(id);
                self.set_use(tool_use, UseState::Waiting);
            }
            Order::Timer(_) => self.fold_timer(id),
            Order::Model(_) if call.is_waiting() => {
                self.close(id);
                self.ledger.release(id);
            }
            _ => {}
        }
    }

    pub(in crate::session) fn use_mut(&mut self, id: ToolUse) -> Option<&mut Use> {
        self.sparks.values_mut().flat_map(|spark| &mut spark.uses).find(|one| one.id == id)
    }

    pub(super) fn set_use(&mut self, id: ToolUse, state: UseState) {
        if let Some(one) = self.use_mut(id) {
            one.state = state;
        }
    }

    /// Gives a tool call its one end. Once all calls of the answer have theirs, the results join the
    /// conversation in the order the model asked.
    pub(super) fn close_use(&mut self, id: ToolUse, at: EventRef) {
        self.set_use(id, UseState::Closed(at));
        let Some(spark) = self.owner(id).and_then(|owner| self.sparks.get_mut(&owner)) else { return };
        if !spark.uses.iter().all(Use::is_closed) {
            return;
        }
        for one in &spark.uses {
            if let UseState::Closed(end) = one.state {
                spark.fresh.push(Item::of(Role::Tool, end));
            }
        }
    }
}

//! Gates: they judge a prepared call after the policy and before a person. A gate may deny a call or have it asked about,
//! never allow what is asked about.

use crate::protocol::effect::{GateOrder, Order};
use crate::protocol::event::{ArenaEvent, RefusalReason, ToolUse};
use crate::protocol::spec::Action;
use crate::protocol::{CallId, EventRef, SparkId};

use super::Session;
use super::state::UseState;

impl Session {
    /// Asks every gate about a prepared call; false where there is none.
    pub(super) fn order_gates(
        &mut self,
        id: SparkId,
        tool_use: ToolUse,
        (prepared, digest): (EventRef, &str),
    ) -> bool {
        let gates = self.spec.as_ref().map(|spec| spec.gates.clone()).unwrap_or_default();
        for gate in &gates {
            let (gate, digest) = (gate.clone(), digest.to_owned());
            self.order(Some(id), Order::Gate(GateOrder { gate, tool_use, prepared, digest }));
        }
        !gates.is_empty()
    }

    /// A verdict. The strictest one counts, once all are there.
    pub(super) fn fold_gate(&mut self, at: EventRef, call: CallId, action: Action) {
        let Some(Order::Gate(order)) = self.calls.remove(&call).map(|call| call.order) else { return };
        let is_of_it =
            |order_of: &Order| matches!(order_of, Order::Gate(one) if one.tool_use == order.tool_use);
        let is_last = !self.calls.values().any(|call| is_of_it(&call.order));
        let Some(one) = self.use_mut(order.tool_use) else { return };
        if action > one.ruling {
            (one.ruling, one.stopped_by) = (action, Some(at));
        }
        if is_last {
            one.state = if one.ruling == Action::Allow { UseState::Allowed } else { UseState::Prepared };
        }
    }

    /// What follows from a verdict.
    pub(super) fn on_gated(&mut self, tool_use: ToolUse) {
        let Some(id) = self.owner(tool_use) else { return };
        if self.is_stopping(id) {
            return self.wind_down();
        }
        let judged = self.use_mut(tool_use).filter(|one| one.state == UseState::Prepared);
        match judged.map(|one| (one.ruling, one.stopped_by, one.plan.clone())) {
            Some((Action::Ask, _, Some((prepared, digest)))) => self.ask(id, tool_use, prepared, digest),
            Some((_, by, _)) => {
                let words = by.and_then(|at| self.verdict_in_words(at)).unwrap_or_default();
                self.refuse(tool_use, RefusalReason::Policy, words);
            }
            None => {}
        }
        self.advance();
    }

    fn verdict_in_words(&self, at: EventRef) -> Option<String> {
        Some(match self.event(at)? {
            ArenaEvent::GateAnswered(data) => {
                let why = data.body.verdict.why();
                format!("the gate `{}` denies this: {why}; do not try to get around it", data.body.gate)
            }
            ArenaEvent::EffectFailed(data) => {
                format!("a gate gave no verdict, so this was not run: {}", data.body.error)
            }
            _ => return None,
        })
    }
}

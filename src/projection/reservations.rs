//! Which spark each running model call is paid for, and what is set aside; prices nothing itself.

use std::collections::BTreeMap;

use crate::protocol::message::Usage;
use crate::protocol::spec::{Price, Setting};
use crate::protocol::{ArenaEvent, CallId, SparkId};

/// Who a model call is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payer {
    /// The spark.
    pub spark: SparkId,
    /// What the model costs; none when the session does not know.
    pub price: Option<Price>,
    /// The most tokens its answer may have.
    pub max_output: u64,
}

/// The running and just ended model calls, with their reservations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations {
    /// Models of the session, and their prices where they are known.
    prices: BTreeMap<String, Option<Price>>,
    /// The last call of each spark; earlier ones are settled.
    calls: BTreeMap<CallId, Payer>,
    /// Tokens and millionths of a dollar set aside.
    reserved: BTreeMap<CallId, (u64, u64)>,
}

impl Reservations {
    /// Drops the settled calls of sparks before this one.
    pub fn forget(&mut self, oldest: SparkId) {
        self.calls.retain(|_, payer| payer.spark >= oldest);
    }

    /// Folds one event.
    pub fn apply(&mut self, event: &ArenaEvent) {
        use ArenaEvent as E;
        self.change(event.changed());
        match event {
            E::SessionOpened(data) => {
                let rows = data.spec.models.iter().map(|model| (model.name.clone(), model.price));
                self.prices.extend(rows);
            }
            E::ModelCalled(data) => {
                self.calls.retain(|call, payer| *call == data.call || payer.spark != data.spark);
                let price = self.prices.get(&data.model).copied().flatten();
                let max_output = data.params.max_output.unwrap_or_default();
                let payer = Payer { spark: data.spark, price, max_output };
                self.calls.insert(data.call, payer);
            }
            E::BudgetReserved(data) => {
                self.reserved.insert(data.call, (data.tokens, data.micro_usd));
            }
            E::BudgetSettled(data) => {
                self.reserved.remove(&data.call);
            }
            _ => {}
        }
    }

    /// Who a call is for, until its spark's next call.
    pub fn payer(&self, call: CallId) -> Option<&Payer> {
        self.calls.get(&call)
    }

    /// The most a running call may take: its tokens, and millionths of a dollar; none when nothing is set aside for it.
    pub fn worst(&self, call: CallId) -> Option<(Usage, u64)> {
        let (tokens, micro_usd) = *self.reserved.get(&call)?;
        let output = self.calls.get(&call).map_or(0, |payer| payer.max_output.min(tokens));
        Some((Usage { input: tokens - output, output, ..Usage::default() }, micro_usd))
    }

    /// The running calls for which something is set aside.
    pub fn running(&self) -> impl Iterator<Item = CallId> + '_ {
        self.reserved.keys().copied()
    }

    fn change(&mut self, changed: &[Setting]) {
        for setting in changed {
            if let Setting::Model { spec, .. } = setting {
                self.prices.insert(spec.name.clone(), spec.price);
            }
        }
    }
}

/// Two usages together; estimated as soon as one of them is.
pub fn sum(a: Usage, b: Usage) -> Usage {
    Usage {
        input: a.input.saturating_add(b.input),
        cached: a.cached.saturating_add(b.cached),
        written: a.written.saturating_add(b.written),
        output: a.output.saturating_add(b.output),
        reasoning: a.reasoning.saturating_add(b.reasoning),
        estimated: a.estimated || b.estimated,
    }
}

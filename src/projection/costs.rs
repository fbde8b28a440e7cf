//! The cost sheet: calls, tokens, money and time per spark, model and role; knows no price list.

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::effect::Order;
use crate::protocol::event::{BudgetSettled, ErrorKind};
use crate::protocol::message::Usage;
use crate::protocol::{ArenaEvent, CallId, Entry, SparkId};

use super::calls::{OpenCall, OpenCalls, WorkClock, was_away};
use super::phrases;
use super::reservations::{Reservations, sum};

/// What was used by one spark, model, role, or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Model calls.
    pub calls: u32,
    /// Attempts of them, the first ones included.
    pub attempts: u32,
    /// Attempts that failed.
    pub failures: u32,
    /// Tokens of settled attempts; `estimated` when any of them was.
    pub usage: Usage,
    /// Settled attempts that were cut off with the program: nobody knows what they took, and the whole reservation
    /// is booked, so that these tokens and this money are the most it can have been.
    pub unknown: u32,
    /// Attempts that somebody stopped, or that still ran when the log ended: nobody knows what they took.
    pub cut: u32,
    /// What those may have taken beside what is counted above, at most.
    pub beyond: Usage,
    /// The same in millionths of a dollar.
    pub beyond_micro_usd: u64,
    /// Calls among those whose price is not known.
    pub beyond_unpriced: u32,
    /// Millionths of a dollar of settled attempts, where the price is known.
    pub micro_usd: u64,
    /// Millionths of a dollar that the providers' caches saved; below 0 where writing them cost more.
    pub saved_micro_usd: i64,
    /// Settled attempts without a known price.
    pub unpriced: u32,
    /// Milliseconds of model calls, from the entries' times; calls at once count each.
    pub model_ms: u64,
    /// Tool calls that were started.
    pub tool_calls: u32,
    /// Tool calls that were refused instead.
    pub tool_refusals: u32,
    /// Milliseconds of tool calls, from the entries' times; calls at once count each.
    pub tool_ms: u64,
}

/// The costs of one spark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SparkCosts {
    /// Its role.
    pub role: String,
    /// Its persona.
    pub persona: String,
    /// The model it used last.
    pub model: String,
    /// The turn it began to work in.
    pub turn: u32,
    /// The spark whose subagent it is.
    pub parent: Option<SparkId>,
    /// What it used.
    pub tally: Tally,
}

/// What a row of the sheet is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One turn: a squad, a debate, or a spark on its own.
    Turn(u32),
    /// One spark.
    Spark(SparkId),
    /// One spark with all of its subagents.
    WithSubagents(SparkId),
    /// One role.
    Role(String),
    /// One model.
    Model(String),
    /// Everything.
    Total,
}

/// One row of the sheet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostRow {
    /// What it is about.
    pub scope: Scope,
    /// What was used.
    pub tally: Tally,
}

/// The cost sheet of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Everything.
    pub total: Tally,
    /// Per spark.
    pub sparks: BTreeMap<SparkId, SparkCosts>,
    /// Per turn: who worked, and what that used.
    pub turns: BTreeMap<u32, (&'static str, Tally)>,
    /// Per model that was called.
    pub models: BTreeMap<String, Tally>,
    /// Per role.
    pub roles: BTreeMap<String, Tally>,
    /// How long the session was at work.
    pub work: WorkClock,
    /// Who was asked to work on the last prompt.
    worker: &'static str,
    calls: OpenCalls,
    ledger: Reservations,
    /// Calls that somebody stopped, until they are settled.
    stopped: BTreeSet<CallId>,
}

impl Tally {
    /// What stands before its tokens: nothing where providers counted them, `~` before estimates, `≤` where only
    /// the most they can have been is known.
    pub fn about(&self) -> &'static str {
        phrases::about(self.unknown, self.usage.estimated)
    }

    /// Its money, with `≤` where only the most it can have been is known.
    pub fn money(&self) -> String {
        phrases::money_at_most(self.micro_usd, self.unpriced, self.unknown)
    }

    /// Its tokens in little room: `≤34k`.
    pub fn short_tokens(&self) -> String {
        format!("{}{}", self.about(), phrases::short_count(self.usage.total()))
    }

    /// The most it can have been: what calls that were cut off may have taken is counted in.
    #[must_use]
    pub fn at_most(mut self) -> Tally {
        self.usage = sum(self.usage, self.beyond);
        self.micro_usd = self.micro_usd.saturating_add(self.beyond_micro_usd);
        self.unknown += self.cut;
        self.unpriced += self.beyond_unpriced;
        (self.cut, self.beyond, self.beyond_micro_usd, self.beyond_unpriced) = (0, Usage::default(), 0, 0);
        self
    }

    /// Counts a call that was cut off after `used`, and may have taken `worst`. What was used is counted already,
    /// with its price or without.
    fn cut_off(&mut self, worst: (Usage, u64), used: (Usage, u64), priced: bool) {
        self.beyond_unpriced += u32::from(!priced && used.0.total() == 0);
        let input = worst.0.input.saturating_sub(used.0.input);
        let output = worst.0.output.saturating_sub(used.0.output);
        self.cut += 1;
        self.beyond = sum(self.beyond, Usage { input, output, ..Usage::default() });
        let micro_usd = worst.1.saturating_sub(used.1);
        self.beyond_micro_usd = self.beyond_micro_usd.saturating_add(micro_usd);
    }

    /// Both together.
    fn and(mut self, other: &Tally) -> Tally {
        self.calls += other.calls;
        self.attempts += other.attempts;
        self.failures += other.failures;
        self.usage = sum(self.usage, other.usage);
        self.unknown += other.unknown;
        self.cut += other.cut;
        self.beyond = sum(self.beyond, other.beyond);
        self.beyond_micro_usd = self.beyond_micro_usd.saturating_add(other.beyond_micro_usd);
        self.beyond_unpriced += other.beyond_unpriced;
        self.micro_usd = self.micro_usd.saturating_add(other.micro_usd);
        self.saved_micro_usd = self.saved_micro_usd.saturating_add(other.saved_micro_usd);
        self.unpriced += other.unpriced;
        self.model_ms = self.model_ms.saturating_add(other.model_ms);
        self.tool_calls += other.tool_calls;
        self.tool_refusals += other.tool_refusals;
        self.tool_ms = self.tool_ms.saturating_add(other.tool_ms);
        self
    }
}

impl Costs {
    /// Costs by role, in the order roles first came to work; what a role used in later turns is added to its row.
    pub fn by_role(&self) -> Vec<SparkCosts> {
        let mut rows: Vec<SparkCosts> = Vec::new();
        for spark in self.sparks.values() {
            match rows.iter_mut().find(|row| row.role == spark.role) {
                Some(row) => {
                    *row = SparkCosts { tally: row.tally.and(&spark.tally), ..spark.clone() };
                }
                None => rows.push(spark.clone()),
            }
        }
        rows
    }

    /// What a spark used with all of its subagents; none for one that has none.
    pub fn with_subagents(&self, spark: SparkId) -> Option<Tally> {
        let mut all = self.sparks.get(&spark)?.tally;
        let mut below = std::collections::BTreeSet::from([spark]);
        // Subagents begin after the spark they work for.
        for (id, costs) in self.sparks.range(spark..) {
            if costs.parent.is_some_and(|parent| below.contains(&parent)) {
                below.insert(*id);
                all = all.and(&costs.tally);
            }
        }
        (below.len() > 1).then_some(all)
    }

    /// Drops the rows of sparks before this one; the totals, the models and the roles keep what they used.
    pub fn forget(&mut self, oldest: SparkId) {
        self.sparks.retain(|spark, _| *spark >= oldest);
        self.ledger.forget(oldest);
    }

    /// Folds one entry.
    pub fn apply(&mut self, entry: &Entry) {
        let away = was_away(entry);
        self.work.tick(entry, &self.calls);
        for (from, event) in entry.effective() {
            if let ArenaEvent::ToolRefused(data) = event
                && let Some(spark) = self.calls.tool(data.tool_use).and_then(|face| face.spark)
            {
                self.book_spark(spark, |tally| tally.tool_refusals += 1);
            }
            let closed = self.calls.apply(entry.at, from, event);
            if let ArenaEvent::BudgetSettled(data) = event {
                self.count_cut(data);
            }
            self.ledger.apply(event);
            self.count(event, away);
            if let Some(closed) = closed {
                self.count_end(&closed, event, entry.at.saturating_sub(closed.since) / 1_000);
            }
        }
    }

    /// The sheet: the sparks of the only turn, or a row for each of several; roles where one of them had several sparks,
    /// models, then everything.
    pub fn rows(&self) -> Vec<CostRow> {
        let sparks = self.sparks.keys().flat_map(|spark| self.rows_of_spark(*spark));
        let sparks = sparks.filter(|_| self.turns.len() < 2);
        let turns = self.turns.iter().map(|(turn, (_, tally))| (Scope::Turn(*turn), *tally));
        let turns = turns.filter(|_| self.turns.len() > 1);
        // A role of one spark would only say the same again.
        let roles = self.roles.iter().filter(|_| self.roles.len() < self.sparks.len());
        let roles = roles.map(|(role, tally)| (Scope::Role(role.clone()), *tally));
        let models = self.models.iter().map(|(model, tally)| (Scope::Model(model.clone()), *tally));
        let rows = turns.chain(sparks).chain(roles).chain(models).chain([(Scope::Total, self.total)]);
        rows.map(|(scope, tally)| CostRow { scope, tally }).collect()
    }

    /// The sheet of one turn: its sparks, then the whole turn. None without such a turn.
    pub fn rows_of(&self, turn: u32) -> Option<Vec<CostRow>> {
        let (_, whole) = self.turns.get(&turn)?;
        let sparks = self.sparks.iter().filter(|(_, costs)| costs.turn == turn);
        let rows = sparks.flat_map(|(spark, _)| self.rows_of_spark(*spark));
        let rows = rows.map(|(scope, tally)| CostRow { scope, tally });
        Some(rows.chain([CostRow { scope: Scope::Turn(turn), tally: *whole }]).collect())
    }

    /// A spark's own row, then that of all that works for it.
    fn rows_of_spark(&self, spark: SparkId) -> impl Iterator<Item = (Scope, Tally)> {
        let own = self.sparks.get(&spark).map(|costs| (Scope::Spark(spark), costs.tally));
        own.into_iter().chain(self.with_subagents(spark).map(|all| (Scope::WithSubagents(spark), all)))
    }

    /// The sheet of an agent by its role or number (`spark-3`), then their sum. None without such an agent.
    pub fn rows_of_agent(&self, name: &str) -> Option<Vec<CostRow>> {
        let is_meant = |id: &SparkId| {
            self.sparks.get(id).is_some_and(|costs| costs.role == name) || id.to_string() == name
        };
        let sparks = self.sparks.iter().filter(|(id, _)| is_meant(id));
        let mut rows: Vec<CostRow> =
            sparks.map(|(id, costs)| CostRow { scope: Scope::Spark(*id), tally: costs.tally }).collect();
        let sum = rows.iter().fold(Tally::default(), |sum, row| sum.and(&row.tally));
        if rows.len() > 1 {
            rows.push(CostRow { scope: Scope::Role(name.to_owned()), tally: sum });
        }
        (!rows.is_empty()).then_some(rows)
    }

    /// A turn's name: its number and who worked in it.
    pub fn turn_name(&self, turn: u32) -> String {
        let worker = self.turns.get(&turn).map(|(worker, _)| *worker).unwrap_or_default();
        format!("turn {turn} {worker}").trim_end().to_owned()
    }

    fn count(&mut self, event: &ArenaEvent, away: bool) {
        use ArenaEvent as E;
        match event {
            E::PromptGiven(data) => self.worker = phrases::mode(&data.mode),
            E::TurnOpened(data) => self.turns.entry(data.turn).or_default().0 = self.worker,
            E::SparkIgnited(data) => {
                let turn = self.turns.last_key_value().map_or(0, |(turn, _)| *turn);
                let costs = self.sparks.entry(data.spark).or_default();
                costs.role.clone_from(&data.role);
                costs.persona.clone_from(&data.persona);
                costs.model.clone_from(&data.model);
                costs.turn = turn;
                costs.parent = data.delegated.as_ref().map(|delegated| delegated.parent);
            }
            E::ModelCalled(data) => {
                self.sparks.entry(data.spark).or_default().model.clone_from(&data.model);
                self.book_call(data.call, |tally| {
                    tally.calls += u32::from(data.attempt <= 1);
                    tally.attempts += 1;
                });
            }
            E::ModelFailed(data) => {
                if data.body.kind == ErrorKind::Cancelled {
                    self.stopped.insert(data.call);
                }
                self.book_call(data.call, |tally| tally.failures += 1);
            }
            E::BudgetSettled(data) => self.settle(data, away),
            E::ToolInvoked(data) => self.book_spark(data.spark, |tally| tally.tool_calls += 1),
            _ => {}
        }
    }

    /// Counts what still runs as cut off, for a log at its end: no longer waited for.
    #[must_use]
    pub fn at_the_end(mut self) -> Self {
        for call in self.ledger.running().collect::<Vec<_>>() {
            if let Some(worst) = self.ledger.worst(call) {
                let priced = self.is_priced(call);
                self.book_call(call, |tally| tally.cut_off(worst, (Usage::default(), 0), priced));
            }
        }
        self
    }

    fn is_priced(&self, call: CallId) -> bool {
        self.ledger.payer(call).is_none_or(|payer| payer.price.is_some())
    }

    /// What a provider says it counted is what a stopped call took; an estimate is the least of it.
    fn count_cut(&mut self, data: &BudgetSettled) {
        let is_known = data.usage.total() > 0 && !data.usage.estimated;
        if self.stopped.remove(&data.call)
            && !is_known
            && let Some(worst) = self.ledger.worst(data.call)
        {
            let priced = self.is_priced(data.call);
            self.book_call(data.call, |tally| tally.cut_off(worst, (data.usage, data.micro_usd), priced));
        }
    }

    fn settle(&mut self, data: &BudgetSettled, away: bool) {
        let priced = self.is_priced(data.call);
        // Of nothing there is no estimate.
        let estimated = data.usage.estimated && data.usage.total() > 0;
        let usage = Usage { estimated, ..data.usage };
        let price = self.ledger.payer(data.call).and_then(|payer| payer.price);
        let saved = price.map_or(0, |price| price.saved(&usage));
        self.book_call(data.call, |tally| {
            tally.usage = sum(tally.usage, usage);
            tally.unknown += u32::from(away && estimated);
            tally.micro_usd = tally.micro_usd.saturating_add(data.micro_usd);
            tally.saved_micro_usd = tally.saved_micro_usd.saturating_add(saved);
            tally.unpriced += u32::from(!priced && data.usage.total() > 0);
        });
    }

    /// A lost call has no length: nobody knows when it ended.
    fn count_end(&mut self, closed: &OpenCall, event: &ArenaEvent, ms: u64) {
        let (Some(spark), false) = (closed.spark, matches!(event, ArenaEvent::CallLost(_))) else { return };
        match &closed.order {
            Order::Model(_) => {
                self.book_spark(spark, |tally| tally.model_ms = tally.model_ms.saturating_add(ms))
            }
            Order::Tool(_) => {
                self.book_spark(spark, |tally| tally.tool_ms = tally.tool_ms.saturating_add(ms))
            }
            _ => {}
        }
    }

    fn book_call(&mut self, call: CallId, change: impl Fn(&mut Tally)) {
        match self.ledger.payer(call).map(|payer| payer.spark) {
            Some(spark) => self.book_spark(spark, change),
            None => change(&mut self.total),
        }
    }

    /// Books under the spark, its role, the model it uses and the total.
    fn book_spark(&mut self, spark: SparkId, change: impl Fn(&mut Tally)) {
        change(&mut self.total);
        let Some(costs) = self.sparks.get_mut(&spark) else { return };
        change(&mut costs.tally);
        if let Some((_, turn)) = self.turns.get_mut(&costs.turn) {
            change(turn);
        }
        change(self.roles.entry(costs.role.clone()).or_default());
        change(self.models.entry(costs.model.clone()).or_default());
    }
}

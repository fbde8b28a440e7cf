//! Budgets as a tree: a call is booked on its spark, on the sparks that began it, on the turn and on the session, and each
//! of them must be able to pay for it.

use super::Session;
use super::budget::{LEAST_OUTPUT, cost};
use crate::protocol::SparkId;
use crate::protocol::event::{ArenaEvent, LimitKind, LimitReached, TurnCause};
use crate::protocol::message::Usage;
use crate::protocol::spec::{Budget, ModelSpec};

/// One node of the tree: what is used and set aside there, and what it may use.
struct Account {
    committed: (u64, u64),
    budget: Budget,
    /// What its limits of tokens and money are called.
    limits: (LimitKind, LimitKind),
    spark: Option<SparkId>,
}

impl Account {
    fn reached(&self, limit: LimitKind, used: u64, max: u64) -> LimitReached {
        LimitReached { spark: self.spark, ..LimitReached::new(limit, used, max) }
    }

    /// The limits that what is committed does not fit into.
    fn over(&self) -> impl Iterator<Item = LimitReached> {
        let ((tokens, money), budget) = (self.committed, self.budget);
        let rows = [(self.limits.0, tokens, budget.max_tokens), (self.limits.1, money, budget.max_micro_usd)];
        rows.into_iter().filter_map(|(limit, used, max)| {
            max.filter(|max| used > *max).map(|max| self.reached(limit, used, max))
        })
    }
}

impl Session {
    /// Where a call of this spark is booked: the session first.
    fn accounts(&self, id: SparkId) -> Vec<Account> {
        let limits = self.spec.as_ref().map(|spec| spec.limits.clone()).unwrap_or_default();
        let all = self.ledger.committed();
        let before = self.turn.as_ref().map_or(all, |turn| turn.spent_before);
        let mut accounts = vec![
            Account {
                committed: all,
                budget: limits.session(),
                limits: (LimitKind::Tokens, LimitKind::MicroUsd),
                spark: None,
            },
            Account {
                committed: (all.0.saturating_sub(before.0), all.1.saturating_sub(before.1)),
                budget: limits.turn,
                limits: (LimitKind::TurnTokens, LimitKind::TurnMicroUsd),
                spark: None,
            },
        ];
        accounts.extend(self.lineage(id).into_iter().map(|spark| Account {
            committed: self.ledger.committed_by(spark),
            budget: limits.spark,
            limits: (LimitKind::SparkTokens, LimitKind::SparkMicroUsd),
            spark: Some(spark),
        }));
        accounts
    }

    /// The sparks whose budgets a call of this one uses: itself first, then those that it works for.
    pub(super) fn lineage(&self, id: SparkId) -> Vec<SparkId> {
        std::iter::successors(Some(id), |id| self.delegated(*id).map(|own| own.parent)).collect()
    }

    /// How much output every budget leaves for a call, or the limit that refuses it.
    pub(super) fn affordable(
        &self,
        id: SparkId,
        model: &ModelSpec,
        input: u64,
        output: u64,
    ) -> Result<u64, LimitReached> {
        let (mut output, least) = (output, LEAST_OUTPUT.min(output));
        for account in self.accounts(id) {
            if let Some(max) = account.budget.max_tokens {
                let used = account.committed.0.saturating_add(input);
                let worst = used.saturating_add(least);
                if worst > max {
                    return Err(account.reached(account.limits.0, worst, max));
                }
                output = output.min(max - used);
            }
            if let (Some(max), Some(price)) = (account.budget.max_micro_usd, &model.price) {
                let used = account.committed.1;
                let worst = |output| cost(Some(price), &Usage::at_most(input, output));
                if used.saturating_add(worst(least)) > max {
                    return Err(account.reached(account.limits.1, used.saturating_add(worst(least)), max));
                }
                let left = u128::from(max - used - worst(0)) * 1_000_000;
                let priced = left.checked_div(u128::from(price.output)).unwrap_or(u128::from(output));
                output = output.min(u64::try_from(priced).unwrap_or(u64::MAX)).max(least);
            }
        }
        Ok(output)
    }

    /// The limits that calls of so many tokens and so much money do not fit into, all at once.
    pub(super) fn over_budget(&self, worst: &[(SparkId, u64, u64)]) -> Vec<LimitReached> {
        let mut accounts: Vec<Account> = Vec::new();
        for (spark, tokens, micro_usd) in worst {
            for account in self.accounts(*spark) {
                let is_same =
                    |known: &Account| (known.limits, known.spark) == (account.limits, account.spark);
                let at = accounts.iter().position(is_same).unwrap_or(accounts.len());
                if at == accounts.len() {
                    accounts.push(account);
                }
                if let Some(Account { committed, .. }) = accounts.get_mut(at) {
                    committed.0 = committed.0.saturating_add(*tokens);
                    committed.1 = committed.1.saturating_add(*micro_usd);
                }
            }
        }
        accounts.iter().flat_map(Account::over).collect()
    }

    /// A limit ends the turn: nothing new is ordered, what runs is told to stop.
    pub(super) fn reach(&mut self, reached: LimitReached) {
        self.emit(ArenaEvent::LimitReached(reached));
        self.wind_down();
    }

    /// A call that some budget does not cover ends its spark where that is a spark's own, else the turn.
    pub(super) fn not_covered(&mut self, id: SparkId, reached: LimitReached) {
        if reached.spark.is_none() {
            return self.reach(reached);
        }
        self.emit(ArenaEvent::LimitReached(reached));
        self.end_spark(id, TurnCause::Limit);
    }
}

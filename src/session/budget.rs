//! Tokens and money: what was used, what is set aside, what a call may cost; integers only.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::protocol::event::BudgetSettled;
use crate::protocol::message::Usage;
use crate::protocol::spec::Price;
use crate::protocol::{CallId, SparkId};

/// Output tokens below which a call is not worth making.
pub const LEAST_OUTPUT: u64 = 256;

/// Tokens per thousand bytes before any usage was seen: a little more than English text needs.
const FIRST_RATIO: u64 = 300;

/// Tokens a message costs beside its text.
const PER_MESSAGE: u64 = 4;

/// What a session has used and set aside.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// Tokens used.
    pub tokens: u64,
    /// Millionths of a dollar used.
    pub micro_usd: u64,
    /// What each spark used with all that it began: tokens, millionths of a dollar.
    sparks: BTreeMap<SparkId, (u64, u64)>,
    /// Worst cases set aside: for whom, tokens, millionths of a dollar.
    reserved: BTreeMap<CallId, (Vec<SparkId>, u64, u64)>,
    /// Tokens per thousand bytes of each model, from its last recorded usage.
    ratios: BTreeMap<String, u64>,
    /// The last of them, for models that answered nothing yet.
    ratio: u64,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger {
            tokens: 0,
            micro_usd: 0,
            sparks: BTreeMap::new(),
            reserved: BTreeMap::new(),
            ratios: BTreeMap::new(),
            ratio: FIRST_RATIO,
        }
    }
}

impl Ledger {
    /// Sets the worst case of a call aside.
    pub fn reserve(&mut self, call: CallId, tokens: u64, micro_usd: u64) {
        self.reserved.insert(call, (Vec::new(), tokens, micro_usd));
    }

    /// Says whose budgets a call uses.
    pub fn book(&mut self, call: CallId, sparks: Vec<SparkId>) {
        if let Some((whose, ..)) = self.reserved.get_mut(&call) {
            *whose = sparks;
        }
    }

    /// Gives back what was set aside for a call that cost nothing.
    pub fn release(&mut self, call: CallId) {
        self.reserved.remove(&call);
    }

    /// Replaces what was set aside by what was used.
    pub fn settle(&mut self, settled: &BudgetSettled) {
        let (tokens, micro_usd) = (settled.usage.total(), settled.micro_usd);
        let (sparks, ..) = self.reserved.remove(&settled.call).unwrap_or_default();
        for spark in sparks {
            let used = self.sparks.entry(spark).or_default();
            *used = (used.0.saturating_add(tokens), used.1.saturating_add(micro_usd));
        }
        self.tokens = self.tokens.saturating_add(tokens);
        self.micro_usd = self.micro_usd.saturating_add(micro_usd);
    }

    /// Estimated tokens per thousand bytes: one number, or one for each model where several have answered.
    pub fn ratios(&self) -> Value {
        if self.ratios.len() > 1 { json!(self.ratios) } else { self.ratio.into() }
    }

    fn ratio_of(&self, model: &str) -> u64 {
        self.ratios.get(model).copied().unwrap_or(self.ratio)
    }

    /// What is set aside for a call.
    pub fn reserved_for(&self, call: CallId) -> Option<(u64, u64)> {
        self.reserved.get(&call).map(|(_, tokens, micro_usd)| (*tokens, *micro_usd))
    }

    /// Tokens and millionths of a dollar used and set aside.
    pub fn committed(&self) -> (u64, u64) {
        self.with_reserved((self.tokens, self.micro_usd), |_| true)
    }

    /// The same of one spark and all that it began.
    pub fn committed_by(&self, spark: SparkId) -> (u64, u64) {
        let used = self.sparks.get(&spark).copied().unwrap_or_default();
        self.with_reserved(used, |sparks| sparks.contains(&spark))
    }

    fn with_reserved(&self, used: (u64, u64), is_meant: impl Fn(&[SparkId]) -> bool) -> (u64, u64) {
        let reserved = self.reserved.values().filter(|(sparks, ..)| is_meant(sparks));
        reserved.fold(used, |sum, (_, tokens, money)| {
            (sum.0.saturating_add(*tokens), sum.1.saturating_add(*money))
        })
    }

    /// Learns from recorded usage how many tokens this session's bytes are for a model.
    pub fn calibrate(&mut self, model: &str, bytes: u64, usage: &Usage) {
        if !usage.estimated && usage.input > 0 && bytes > 0 {
            self.ratio = (usage.input.saturating_mul(1000) / bytes).clamp(100, 1000);
            self.ratios.insert(model.to_owned(), self.ratio);
        }
    }

    /// Bytes of text that are about this many tokens of a model, or of the one that makes the most of them.
    pub fn bytes_of(&self, model: Option<&str>, tokens: u64) -> u64 {
        let most = || self.ratios.values().copied().max().unwrap_or(self.ratio);
        tokens.saturating_mul(1000) / model.map_or_else(most, |model| self.ratio_of(model)).max(1)
    }

    /// Estimates the tokens of a text spread over messages.
    pub fn estimate(&self, model: &str, bytes: u64, messages: u64) -> u64 {
        bytes
            .saturating_mul(self.ratio_of(model))
            .div_ceil(1000)
            .saturating_add(messages.saturating_mul(PER_MESSAGE))
    }
}

/// Millionths of a dollar for a call, rounded up; 0 when the price is unknown.
pub fn cost(price: Option<&Price>, usage: &Usage) -> u64 {
    let Some(price) = price else { return 0 };
    let cached = usage.cached.min(usage.input);
    let written = usage.written.min(usage.input - cached);
    // Nothing is set aside for less than fresh input costs.
    let of_written = price.written.unwrap_or(price.input).max(price.input);
    let exact = u128::from(usage.input - cached - written) * u128::from(price.input)
        + u128::from(cached) * u128::from(price.cached)
        + u128::from(written) * u128::from(of_written)
        + u128::from(usage.output) * u128::from(price.output);
    u64::try_from(exact.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_costs_what_the_table_says_rounded_up() {
        let price = Price { input: 2_500_000, cached: 1_250_000, written: None, output: 10_000_000 };
        let usage = Usage { input: 1000, cached: 400, output: 10, ..Usage::default() };
        // 600 × 2.5 + 400 × 1.25 + 10 × 10 = 2,100 µ$
        assert_eq!(cost(Some(&price), &usage), 2100);
        assert_eq!(cost(Some(&price), &Usage { output: 1, ..Usage::default() }), 10);
        assert_eq!(cost(Some(&Price { input: 1, cached: 1, written: None, output: 1 }), &usage), 1);
        assert_eq!(cost(None, &usage), 0);
        // 300 × 2.5 + 400 × 1.25 + 300 × 3.125 + 10 × 10 = 2,287.5 µ$
        let priced = Price { written: Some(3_125_000), ..price };
        let writing = Usage { written: 300, ..usage };
        assert_eq!(cost(Some(&priced), &writing), 2288);
        assert_eq!(cost(Some(&price), &writing), 2100, "without a price of its own it is fresh input");
        assert!(cost(Some(&priced), &Usage::at_most(1000, 10)) >= cost(Some(&priced), &writing));
    }

    #[test]
    fn estimates_follow_recorded_usage_but_not_absurd_usage() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.estimate("p/m", 1000, 1), 304);
        ledger.calibrate("p/m", 1000, &Usage { input: 250, ..Usage::default() });
        assert_eq!(ledger.estimate("p/m", 1000, 1), 254);
        ledger.calibrate("p/m", 1000, &Usage { input: 900_000, ..Usage::default() });
        assert_eq!(ledger.estimate("p/m", 1000, 0), 1000);
        ledger.calibrate("p/m", 1000, &Usage { input: 5, estimated: true, ..Usage::default() });
        assert_eq!(ledger.estimate("p/m", 1000, 0), 1000);
        // Another model begins with what was seen last, and then has a number of its own.
        assert_eq!(ledger.estimate("p/other", 1000, 0), 1000);
        ledger.calibrate("p/other", 1000, &Usage { input: 250, ..Usage::default() });
        assert_eq!((ledger.estimate("p/other", 1000, 0), ledger.estimate("p/m", 1000, 0)), (250, 1000));
        assert_eq!((ledger.bytes_of(Some("p/other"), 250), ledger.bytes_of(None, 250)), (1000, 250));
    }
}

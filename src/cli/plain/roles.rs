//! The table of a squad's roles at its end: model, tokens, money, tool calls, time, share; folds nothing.

use super::summary::aligned;
use crate::projection::costs::{Costs, SparkCosts, Tally};
use crate::projection::phrases;
use crate::projection::safe_text::safe_line;

/// One row a role, then the total; empty when no spark worked. Refused tool calls count as calls; `≤` stands before
/// what a call that was cut off can have taken at most.
///
/// The share is of the money where every price is known and something was paid, else of the tokens; its heading says
/// which.
pub fn role_table(costs: &Costs) -> String {
    if costs.sparks.is_empty() {
        return String::new();
    }
    let headings =
        ["role", "model", "in", "out", "cost", "tools", "time", share_of(costs)].map(str::to_owned);
    let mut table = vec![headings];
    table.extend(costs.by_role().iter().map(|spark| row(spark, costs)));
    let total = SparkCosts { role: "all".to_owned(), tally: costs.total, ..SparkCosts::default() };
    table.push(row(&total, costs));
    aligned(&table, 2)
}

fn row(spark: &SparkCosts, costs: &Costs) -> [String; 8] {
    let (tally, total) = (&spark.tally.at_most(), &costs.total.at_most());
    let about = tally.about();
    [
        safe_line(&spark.role).into_owned(),
        safe_line(&spark.model).into_owned(),
        format!("{about}{}", phrases::grouped(tally.usage.input)),
        format!("{about}{}", phrases::grouped(tally.usage.output)),
        tally.money(),
        phrases::grouped(u64::from(tally.tool_calls + tally.tool_refusals)),
        phrases::duration(tally.model_ms + tally.tool_ms),
        format!("{} %", share(tally, total)),
    ]
}

fn is_by_money(total: &Tally) -> bool {
    total.unpriced == 0 && total.micro_usd > 0
}

fn share_of(costs: &Costs) -> &'static str {
    if is_by_money(&costs.total.at_most()) { "cost share" } else { "token share" }
}

/// Per cent, rounded to the nearest.
fn share(part: &Tally, total: &Tally) -> u64 {
    let of = |tally: &Tally| if is_by_money(total) { tally.micro_usd } else { tally.usage.total() };
    match of(total) {
        0 => 0,
        whole => (of(part) * 100 + whole / 2) / whole,
    }
}

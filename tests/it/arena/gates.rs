//! Gates of a program, registered at assembly: real workers that judge real calls.

use std::sync::Arc;

use agon::ports::{Sink, Workers};
use agon::protocol::event::{GateAnswered, RefusalReason, Verdict};
use agon::protocol::{ArenaEvent, CallId, CallKind, Effect, Entry, Outcome, OutcomeBody, Work};

use super::kit::*;

const TWO_WRITES: &str = "[[answer]]\ncalls = [{ tool = \"write_file\", args = { path = \"good.txt\", content = \"new\" } }, \
    { tool = \"write_file\", args = { path = \"bad.txt\", content = \"new\" } }]\n[[answer]]\ntext = \"done\"\n";

/// Lets nothing through that names `bad`; may answer for another call.
struct Guard {
    strays: bool,
}

impl Workers for Guard {
    fn start(&self, work: Work, sink: Arc<dyn Sink>) {
        let Effect::Gate { order, context } = work.effect else { panic!("only gates are asked here") };
        let is_bad = context.plan.paths().any(|base| base.path.contains("bad"));
        let verdict = if is_bad { Verdict::Deny("bad is bad".to_owned()) } else { Verdict::Pass };
        let digest = if self.strays { "of another".to_owned() } else { order.digest };
        let body = GateAnswered { tool_use: order.tool_use, gate: order.gate, digest, verdict };
        sink.end(Outcome { call: work.call, attempt: work.attempt, body: OutcomeBody::GateAnswered(body) });
    }

    fn cancel(&self, _: CallId, _: u32) {}
}

fn refused(log: &[Entry]) -> Vec<(RefusalReason, &str)> {
    let events = log.iter().flat_map(|entry| &entry.events);
    let refused = events.filter_map(|event| match event {
        ArenaEvent::ToolRefused(data) => Some((data.reason, data.text.as_str())),
        _ => None,
    });
    refused.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_of_a_program_stops_what_it_denies_and_nothing_else() {
    let place = Place::new();
    let builder =
        place.scripted(TWO_WRITES).gate("guard").workers(CallKind::Gate, Arc::new(Guard { strays: false }));
    let log = whole_turn(&builder.open().await.unwrap(), "write").await;
    let words = "the gate `guard` denies this: bad is bad; do not try to get around it";
    assert_eq!(refused(&log), [(RefusalReason::Policy, words)]);
    assert!(place.work().join("good.txt").exists() && !place.work().join("bad.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_nobody_carries_out_or_that_judges_another_call_lets_nothing_through() {
    for strays in [None, Some(true)] {
        let place = Place::new();
        let builder = place.scripted(TWO_WRITES).gate("guard");
        let builder = match strays {
            Some(strays) => builder.workers(CallKind::Gate, Arc::new(Guard { strays })),
            None => builder,
        };
        let log = whole_turn(&builder.open().await.unwrap(), "write").await;
        assert_eq!(refused(&log).len(), 2, "{log:#?}");
        assert!(!place.work().join("good.txt").exists());
    }
}

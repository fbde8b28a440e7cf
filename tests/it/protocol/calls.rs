//! Walks the table of calls: every row is whole, and orders, outcomes and facts agree with it.

use std::collections::BTreeSet;

use agon::protocol::effect::{CALLS, Failure, Order, Outcome};
use agon::protocol::event::CATALOGUE;
use agon::protocol::{ArenaEvent, CallId, CallKind, Entry, EventRef, Lane};
use serde_json::{Value, json};

use super::{assert_round_trip, sample_of};

const AT: EventRef = EventRef { seq: 7, i: 1 };

/// Orders of every row, out of generated events.
fn orders() -> Vec<Order> {
    let ordering = CATALOGUE.iter().filter(|kind| {
        let event = assert_round_trip(&sample_of(kind.kind, 1));
        event.orders(AT).is_some()
    });
    let samples =
        ordering.flat_map(|kind| (0..200).map(|seed| assert_round_trip(&sample_of(kind.kind, seed))));
    let mut orders: Vec<Order> = Vec::new();
    for order in samples.map(|event| event.orders(AT).unwrap().order) {
        let kind = |order: &Order| order.row().map(|row| row.kind);
        if orders.iter().all(|known| kind(known) != kind(&order)) {
            orders.push(order);
        }
    }
    assert_eq!(orders.len(), CALLS.len(), "every row is ordered by some event: {orders:?}");
    orders
}

fn fact(call: u64, body: agon::protocol::OutcomeBody) -> ArenaEvent {
    Outcome { call: CallId(call), attempt: 2, body }.into_event()
}

#[test]
fn every_row_says_everything_in_words() {
    let words: BTreeSet<&str> = CALLS.iter().map(|row| row.word).collect();
    assert_eq!(words.len(), CALLS.len(), "words are unique");
    for (i, row) in CALLS.iter().enumerate() {
        assert_eq!(row.kind as usize, i, "`{}` is found by its kind", row.word);
        assert!(row.doc.trim().ends_with('.'), "`{}`: {}", row.word, row.doc);
        for words in [row.doing, row.task] {
            assert!(!words.trim().is_empty() && words.matches("{}").count() <= 1, "`{}`: {words}", row.word);
        }
    }
}

#[test]
fn an_order_is_found_under_its_word() {
    for order in orders() {
        let row = order.row().unwrap();
        let text = serde_json::to_string(&order).unwrap();
        assert!(text.trim_matches(['{', '"']).starts_with(row.word), "{text}");
    }
}

#[test]
fn what_is_recorded_where_a_worker_gives_nothing_answers_the_order() {
    let hows = [Failure::Unread, Failure::TimedOut, Failure::TooLong, Failure::Unstoppable, Failure::Broken];
    for (order, how) in orders().iter().flat_map(|order| hows.map(|how| (order, how))) {
        let body = order.failed(how, "why".to_owned());
        let is_ask = matches!(order, Order::Ask(_));
        assert_eq!(order.fits(&body), !is_ask, "only people answer an ask: {order:?}");
        let fact = fact(3, body);
        assert_eq!(fact.answers(), Some((CallId(3), 2)));
        assert_eq!(order.takes(&fact), !is_ask);
        assert!(fact.data().to_string().contains("why"), "{fact:?}");
    }
}

#[test]
fn every_fact_with_a_call_answers_one_row_and_no_other() {
    let orders = orders();
    let mut answered: BTreeSet<CallKind> = BTreeSet::new();
    for kind in CATALOGUE {
        let event = assert_round_trip(&sample_of(kind.kind, 2));
        let takers = orders.iter().filter(|order| order.takes(&event));
        let takers: Vec<CallKind> = takers.filter_map(|order| Some(order.row()?.kind)).collect();
        match (event.answers().is_some(), kind.kind) {
            (true, "effect_failed") => assert!(takers.len() > 1),
            (true, _) => assert_eq!(takers.len(), 1, "`{}` answers {takers:?}", kind.kind),
            (false, _) => assert!(takers.is_empty(), "`{}` answers {takers:?}", kind.kind),
        }
        answered.extend(takers);
    }
    let unanswered = CALLS.iter().filter(|row| !answered.contains(&row.kind));
    assert_eq!(unanswered.map(|row| row.kind).collect::<Vec<_>>(), [CallKind::Ask]);
}

#[test]
fn an_outcome_that_crossed_a_wire_is_the_same_fact() {
    let mut crossed = 0;
    for (kind, seed) in CATALOGUE.iter().flat_map(|kind| (0..20).map(move |seed| (kind.kind, seed))) {
        let sample = sample_of(kind, seed);
        let event = assert_round_trip(&sample);
        if event.answers().is_none() {
            continue;
        }
        let data = &sample["data"];
        let sent = json!({"call": data["call"], "attempt": data["attempt"], "body": {kind: data["body"]}});
        let outcome: Outcome = serde_json::from_str(&sent.to_string()).unwrap();
        let again: Outcome = serde_json::from_str(&serde_json::to_string(&outcome).unwrap()).unwrap();
        assert_eq!(again, outcome);
        assert_eq!(again.into_event(), event);
        crossed += 1;
    }
    assert_eq!(crossed, 19 * 20);
}

fn ordered(effect: &str) -> Result<ArenaEvent, serde_json::Error> {
    let data = format!(r#"{{"kind":"effect_ordered","data":{{"call":1,"attempt":1,"effect":{effect}}}}}"#);
    let event: ArenaEvent = serde_json::from_str(&data)?;
    assert_eq!(serde_json::to_string(&event).unwrap(), data, "as it came");
    Ok(event)
}

#[test]
fn an_order_of_a_newer_program_is_kept_and_never_started() {
    for effect in [r#"{"brew":{"cups":1.50}}"#, r#""rest""#, r#"{"model":{"called":"e1"}}"#] {
        let event = ordered(effect).unwrap();
        let word = effect.trim_matches(['{', '"']).split('"').next().unwrap();
        let entry = serde_json::to_vec(&Entry::made(0, 0, vec![event.clone()])).unwrap();
        assert_eq!(Entry::read(&entry).unwrap().newer().unwrap(), format!("`{word}` of Order"));
        let order = event.orders(AT).unwrap().order;
        assert!(order.row().is_none() && !order.speaks(Lane::Text));
        assert!(!order.takes(&fact(1, order.failed(Failure::Broken, String::new()))));
    }
}

#[test]
fn a_known_order_with_broken_data_is_damage() {
    for effect in [
        r#"{"check":{}}"#,
        r#""check""#,
        r#"{"checkpoint":{"more":1}}"#,
        r#"{"check":{"command":"x"},"timer":{}}"#,
        "{}",
        "3",
    ] {
        assert!(ordered(effect).is_err(), "{effect}");
    }
    let entry = Entry::made(0, 0, vec![ordered(r#""checkpoint""#).unwrap()]);
    assert_eq!(Entry::read(&serde_json::to_vec(&entry).unwrap()).unwrap().newer(), None);
}

#[test]
fn the_schema_of_orders_names_the_plain_rows_and_no_other() {
    let schema = schemars::schema_for!(Order).to_value();
    let word = |one: &Value| one["const"].as_str().or(one["required"][0].as_str()).unwrap().to_owned();
    let listed: Vec<String> = schema["oneOf"].as_array().unwrap().iter().map(word).collect();
    let plain = CALLS.iter().filter(|row| !matches!(row.word, "model" | "tool" | "ask"));
    assert_eq!(listed, plain.map(|row| row.word.to_owned()).collect::<Vec<_>>());
}

//! Holds the event catalogue against its documentation, its JSON Schema and its own round trip through text.

mod calls;
mod newer;
mod request_digest;
mod samples;

use std::sync::LazyLock;

use agon::projection::telling::{Scene, line_of};
use agon::protocol::event::CATALOGUE;
use agon::protocol::{ArenaEvent, Class, Entry, EventRef, FORMAT, Fact};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::house::package;
use samples::Samples;

const BEGIN: &str =
    "<!-- generated from src/protocol/event.rs; AGON_UPDATE=1 cargo test protocol:: writes it again -->";
const END: &str = "<!-- end of the generated part -->";

fn entry_schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| schemars::schema_for!(Entry).to_value());
    &SCHEMA
}

/// The part of the schema that describes one kind.
fn kind_schema<'a>(schema: &'a Value, kind: &str) -> &'a Value {
    let kinds = schema["$defs"]["ArenaEvent"]["oneOf"].as_array().unwrap();
    kinds.iter().find(|one| one["properties"]["kind"]["const"] == kind).unwrap()
}

/// `call`, `attempt?`, …: the fields of an event's data; an answer's body is spread out in parentheses.
fn fields(schema: &Value, data: &Value) -> String {
    let target = samples::resolved(schema, data);
    let required: Vec<&str> =
        target["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = target["properties"].as_object().unwrap();
    let named = properties.iter().map(|(name, property)| match name.as_str() {
        "body" => format!("`body` ({})", fields(schema, property)),
        name if required.contains(&name) => format!("`{name}`"),
        name => format!("`{name}`?"),
    });
    named.collect::<Vec<_>>().join(", ")
}

fn generated_table() -> String {
    let schema = entry_schema();
    let mut table = String::from("| kind | | meaning | data |\n|---|---|---|---|\n");
    for event in CATALOGUE {
        let letter = match event.class {
            Class::Fact => "F",
            Class::Decision => "D",
            Class::Unknown => panic!("`{}` is neither fact nor decision", event.kind),
        };
        let data = &kind_schema(schema, event.kind)["properties"]["data"];
        let (kind, doc, fields) = (event.kind, event.doc.trim(), fields(schema, data));
        table.push_str(&format!("| `{kind}` | {letter} | {doc} | {fields} |\n"));
    }
    table
}

#[test]
fn the_catalogue_is_documented() {
    let path = package().join("docs/events.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once(BEGIN).unwrap();
    let (table, tail) = rest.split_once(END).unwrap();
    let fresh = generated_table();
    if std::env::var_os("AGON_UPDATE").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}\n\n{fresh}\n{END}{tail}")).unwrap();
        return;
    }
    assert_eq!(
        table.trim(),
        fresh.trim(),
        "docs/events.md is old; AGON_UPDATE=1 cargo test protocol:: writes it"
    );
}

#[test]
fn every_kind_has_one_full_sentence() {
    for event in CATALOGUE {
        let doc = event.doc.trim();
        assert!(doc.ends_with('.') && doc.split_whitespace().count() >= 3, "`{}`: {doc}", event.kind);
        assert!(!doc.contains('|'), "`{}`: a `|` breaks the table", event.kind);
    }
}

fn sample_of(kind: &str, seed: u64) -> Value {
    let schema = entry_schema();
    let data = &kind_schema(schema, kind)["properties"]["data"];
    json!({"kind": kind, "data": Samples::new(schema, seed).value(data)})
}

/// Text → event → text → event: the second pair equals the first, and the kind is known.
fn assert_round_trip(value: &Value) -> ArenaEvent {
    let event: ArenaEvent =
        serde_json::from_str(&value.to_string()).unwrap_or_else(|e| panic!("{e}: {value}"));
    let text = serde_json::to_string(&event).unwrap();
    let again: ArenaEvent = serde_json::from_str(&text).unwrap();
    assert_eq!(again, event);
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    assert_eq!(event.kind(), value["kind"]);
    assert!(!matches!(event, ArenaEvent::Unknown { .. }), "`{}` is in the catalogue", event.kind());
    event
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_fits_the_schema_is_read_and_written_alike(seed: u64) {
        let schema = entry_schema();
        let validator = jsonschema::validator_for(schema).unwrap();
        for kind in CATALOGUE {
            let event = assert_round_trip(&sample_of(kind.kind, seed));
            let entry = json!({"v": FORMAT, "seq": seed, "at": 0, "events": [event]});
            prop_assert!(validator.is_valid(&entry), "{}", entry);
        }
    }
}

#[test]
fn every_event_is_about_something_in_words() {
    for kind in CATALOGUE {
        let told: Vec<String> = (0..20)
            .map(|seed| line_of(&assert_round_trip(&sample_of(kind.kind, seed)), &Scene::of(&|_| None)))
            .collect();
        let is_data = |text: &String| text.starts_with('{') || text.contains("\":");
        assert!(!told.iter().any(is_data), "`{}`: {told:?}", kind.kind);
        assert!(!told.iter().all(String::is_empty), "`{}`: {told:?}", kind.kind);
    }
}

#[test]
fn the_schema_refuses_what_is_no_event() {
    let validator = jsonschema::validator_for(entry_schema()).unwrap();
    let with = |event: Value| json!({"v": 2, "seq": 0, "at": 0, "events": [event]});
    assert!(validator.is_valid(&with(json!({"kind": "turn_opened", "data": {"turn": 1}}))));
    for bad in [
        json!({"kind": "turn_opened", "data": {"turn": "one"}}),
        json!({"kind": "turn_opened", "data": {}}),
        json!({"kind": "turn_opened"}),
        json!({"kind": "no_such_kind", "data": {}}),
    ] {
        assert!(!validator.is_valid(&with(bad.clone())), "{bad}");
    }
}

#[test]
fn numbers_of_others_keep_their_text() {
    let args = r#"{"price":1.50,"big":123456789012345678901234567890,"tiny":1e-400,"neg":-0.0,"z":1,"a":2}"#;
    let text = format!(
        concat!(
            r#"{{"kind":"model_answered","data":{{"call":7,"attempt":1,"body":{{"message":"#,
            r#"[{{"call":{{"id":"x","name":"f","args":{{"json":{args}}}}}}}],"#,
            r#""usage":{{"input":1,"cached":0,"output":2,"reasoning":0,"estimated":false}},"#,
            r#""model":"m","finish":"tool_calls","waited_ms":0}}}}}}"#
        ),
        args = args
    );
    let event: ArenaEvent = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&event).unwrap(), text);
}

/// The only liberty serde_json takes: the spelling of an exponent. Digits and value stay.
#[test]
fn exponents_are_spelled_in_one_way() {
    for written in ["1e2", "1E2", "1e+2", "1E+2"] {
        let value: Value = serde_json::from_str(written).unwrap();
        assert_eq!(value.to_string(), "1e+2", "{written}");
    }
}

#[test]
fn kinds_of_a_newer_program_are_kept_as_they_came() {
    let text = r#"{"kind":"tea_served","data":[{"z":1.0,"a":1e+2},null]}"#;
    let event: ArenaEvent = serde_json::from_str(text).unwrap();
    assert_eq!((event.kind(), event.class()), ("tea_served", Class::Unknown));
    assert_eq!(serde_json::to_string(&event).unwrap(), text);
    assert!(Fact::new(event).is_err(), "an unknown kind is never fed");
}

#[test]
fn the_kind_stands_before_the_data() {
    for kind in CATALOGUE {
        let event = assert_round_trip(&sample_of(kind.kind, 1));
        let head = format!("{{\"kind\":\"{}\",\"data\":", kind.kind);
        assert!(serde_json::to_string(&event).unwrap().starts_with(&head));
    }
    for bad in [
        r#"{"data":{"turn":1},"kind":"turn_opened"}"#,
        r#"{"kind":"turn_opened"}"#,
        r#"{"kind":"turn_opened","data":{"turn":1},"more":1}"#,
    ] {
        assert!(serde_json::from_str::<ArenaEvent>(bad).is_err(), "{bad}");
    }
}

#[test]
fn an_entry_begins_with_its_only_fact() {
    let event = |kind: &str| assert_round_trip(&sample_of(kind, 3));
    assert!(Fact::new(event("turn_opened")).is_err(), "a decision is no fact");
    let fact = Fact::new(event("prompt_given")).unwrap();
    let entry = Entry::new(4, 99, fact, vec![event("turn_opened"), event("spark_ignited")]);
    let text = serde_json::to_string(&entry).unwrap();
    assert!(text.starts_with(r#"{"v":2,"seq":4,"at":99,"events":[{"kind":"prompt_given","data":"#));
    assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry);
    let refs: Vec<EventRef> = entry.effective().map(|(at, _)| at).collect();
    assert_eq!(refs, [0, 1, 2].map(|i| EventRef { seq: 4, i }));
}

#[test]
fn an_ignored_fact_has_no_effect() {
    let event = |kind: &str| assert_round_trip(&sample_of(kind, 5));
    for marker in ["outcome_ignored", "input_refused"] {
        let entry = Entry::new(1, 0, Fact::new(event("model_answered")).unwrap(), vec![event(marker)]);
        assert!(entry.is_void());
        let kinds: Vec<&str> = entry.effective().map(|(_, event)| event.kind()).collect();
        assert_eq!(kinds, [marker]);
    }
}

//! Puts an unknown variant into every enum and an unknown field into every struct of recorded logs, one at a time: the
//! log is newer from there on, never damaged, never continued; a known name with broken data stays damage.

use std::collections::BTreeMap;
use std::path::PathBuf;

use agon::eventlog::chain::Link;
use agon::eventlog::{LOG_NAME, LogError, SessionStore};
use agon::protocol::event::CATALOGUE;
use agon::protocol::{Entry, FORMAT, RULES};
use serde_json::{Value, json};

use super::samples::resolved;
use super::{entry_schema, kind_schema, sample_of};
use crate::house::package;

const OTHER: &str = "019aa000-0000-7000-8000-000000000002";

/// Something a newer program may have written, by the type and place it is written into.
#[derive(Default)]
struct Changes {
    /// Log, entry and entry's new text for what is newer.
    newer: BTreeMap<String, (usize, usize, Value)>,
    /// The same for what is broken.
    broken: BTreeMap<String, Value>,
}

/// Where in an entry a walk is.
struct Place<'a> {
    log: usize,
    seq: usize,
    entry: &'a Value,
    pointer: String,
    /// The type and the way to it within that.
    name: String,
}

impl Place<'_> {
    fn changed(&self, value: Value) -> Value {
        let mut entry = self.entry.clone();
        *entry.pointer_mut(&self.pointer).unwrap() = value;
        entry
    }

    fn then(&self, step: &str, schema: &Value) -> Place<'_> {
        let named = schema.get("$ref").and_then(Value::as_str).map(str::to_owned);
        let name = named.unwrap_or_else(|| format!("{}/{step}", self.name));
        Place { pointer: format!("{}/{step}", self.pointer), name, ..*self }
    }
}

impl Changes {
    fn note(&mut self, place: &Place<'_>, what: &str, value: Value) {
        let change = || (place.log, place.seq, place.changed(value));
        self.newer.entry(format!("{} {what}", place.name)).or_insert_with(change);
    }

    fn walk(&mut self, schema: &Value, value: &Value, place: &Place<'_>) {
        let root = entry_schema();
        let target = resolved(root, schema);
        if let Some(choices) = target.get("anyOf").and_then(Value::as_array) {
            let real = choices.iter().find(|one| one["type"] != "null").filter(|_| !value.is_null());
            let named = real.and_then(|real| real.get("$ref")).and_then(Value::as_str);
            let name = named.map_or_else(|| place.name.clone(), str::to_owned);
            let inner = Place { name, pointer: place.pointer.clone(), ..*place };
            return real.into_iter().for_each(|real| self.walk(real, value, &inner));
        }
        if target.get("oneOf").is_some() || target.get("enum").is_some() {
            return self.variant(target, value, place);
        }
        match (&target["type"], value) {
            (_, Value::Object(_)) if target.get("properties").is_some() => self.fields(target, value, place),
            (_, Value::Array(items)) => {
                for (i, item) in items.iter().enumerate() {
                    let of = target.pointer(&format!("/prefixItems/{i}")).or(target.get("items"));
                    of.into_iter().for_each(|of| self.walk(of, item, &place.then(&i.to_string(), of)));
                }
            }
            _ => {}
        }
    }

    fn variant(&mut self, target: &Value, value: &Value, place: &Place<'_>) {
        self.note(place, "word", json!("made_up_later"));
        self.note(place, "data", json!({ "made_up_later": { "cups": [1.5] } }));
        let of = |word: &str| {
            let choices = target["oneOf"].as_array().into_iter().flatten();
            choices.filter_map(|one| one.pointer(&format!("/properties/{word}"))).next()
        };
        let Some((word, data)) = value.as_object().and_then(|map| map.iter().next()) else { return };
        let inner = of(word).unwrap_or_else(|| panic!("`{word}` is in the schema of {}", place.name));
        self.walk(inner, data, &place.then(word, inner));
        let two = json!({ word: data, "made_up_later": 1 });
        self.broken.entry(format!("{} two", place.name)).or_insert_with(|| place.changed(two));
    }

    fn fields(&mut self, target: &Value, value: &Value, place: &Place<'_>) {
        let mut more = value.clone();
        more["made_up_later"] = json!({ "cups": [1.5] });
        self.note(place, "field", more);
        for (name, field) in target["properties"].as_object().unwrap() {
            let Some(inner) = value.get(name) else { continue };
            self.walk(field, inner, &place.then(name, field));
            let plain = resolved(entry_schema(), field)["type"].as_str();
            if let Some("integer" | "boolean" | "string") = plain {
                let mut bad = value.clone();
                bad[name] = json!([]);
                self.broken.entry(format!("{}.{name}", place.name)).or_insert_with(|| place.changed(bad));
            }
        }
    }
}

/// The lines of this rules number's golden logs and of the earlier ones.
fn logs() -> Vec<Vec<String>> {
    let folders = [format!("tests/golden/rules-{RULES}"), "tests/golden/earlier".to_owned()];
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in folders {
        files.extend(std::fs::read_dir(package().join(folder)).unwrap().map(|file| file.unwrap().path()));
    }
    files.sort();
    let read = |file: &PathBuf| std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect();
    files.iter().map(read).collect()
}

fn changes(logs: &[Vec<String>]) -> Changes {
    let mut found = Changes::default();
    for (log, lines) in logs.iter().enumerate() {
        for (seq, line) in lines.iter().enumerate() {
            let mut entry: Value = serde_json::from_str(line).unwrap();
            entry.as_object_mut().unwrap().shift_remove("h");
            for (i, event) in entry["events"].as_array().unwrap().iter().enumerate() {
                let kind = event["kind"].as_str().unwrap();
                let schema = &kind_schema(entry_schema(), kind)["properties"]["data"];
                let (pointer, name) = (format!("/events/{i}/data"), kind.to_owned());
                found.walk(schema, &event["data"], &Place { log, seq, entry: &entry, pointer, name });
            }
        }
    }
    found
}

/// The log with this entry in the place of its own, chained anew.
fn rechained(lines: &[String], seq: usize, entry: &Value) -> Vec<u8> {
    let first: Value = serde_json::from_str(&lines[0]).unwrap();
    let mut link = Link::root(first["events"][0]["data"]["id"].as_str().unwrap());
    let mut log = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let changed = entry.to_string();
        let body = if at == seq { &changed[..changed.len() - 1] } else { &line[..line.len() - 51] };
        link = link.next(body.as_bytes());
        log.extend_from_slice(body.as_bytes());
        link.close(&mut log);
    }
    log
}

#[test]
fn what_a_newer_program_adds_anywhere_makes_a_log_newer_and_nothing_else() {
    let logs = logs();
    let found = changes(&logs);
    assert!(found.newer.len() > 100, "{} places", found.newer.len());
    for (place, (log, seq, entry)) in &found.newer {
        let lines = &logs[*log];
        let folder = tempfile::tempdir().unwrap();
        let store = SessionStore::new(folder.path());
        let first: Value = serde_json::from_str(&lines[0]).unwrap();
        let id = first["events"][0]["data"]["id"].as_str().unwrap();
        let bytes = rechained(lines, *seq, entry);
        let own = folder.path().join("sessions").join(id);
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join(LOG_NAME), &bytes).unwrap();
        let session = store.find(id).unwrap();

        let read: Vec<Entry> =
            store.read(&session).unwrap().map(|one| one.unwrap_or_else(|e| panic!("{place}: {e}"))).collect();
        assert_eq!(read.len(), lines.len(), "{place}");
        let newer = read.iter().position(|entry| entry.newer().is_some());
        assert_eq!(newer, Some(*seq), "{place}");
        let refused = store.open(&session, &mut |_| {}).err();
        assert!(matches!(refused, Some(LogError::Newer { seq: at, .. }) if at == *seq as u64), "{place}");
        assert_eq!(std::fs::read(&session.log).unwrap(), bytes, "{place}: nothing is appended");

        let target = folder.path().join("copy.jsonl");
        store.export(&session, &target).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), bytes, "{place}");
        let fork = store.fork(&session, *seq as u64, OTHER, &mut |_| {});
        assert!(matches!(fork, Err(LogError::Newer { .. })), "{place}");
        if let Some(before) = seq.checked_sub(1) {
            drop(store.fork(&session, before as u64, OTHER, &mut |_| {}).unwrap());
            let copy = std::fs::read(&store.find(OTHER).unwrap().log).unwrap();
            assert!(bytes.starts_with(&copy) && copy.ends_with(b"\n"), "{place}");
            assert_eq!(copy.iter().filter(|byte| **byte == b'\n').count(), *seq, "{place}");
        }
    }
}

/// Entries of every kind, made from the schema, so that types no golden log holds are changed as well.
fn made() -> Vec<Vec<String>> {
    let entry = |kind: &str, seed| {
        let event = sample_of(kind, seed);
        json!({ "v": FORMAT, "seq": 0, "at": 0, "events": [event], "h": "" }).to_string()
    };
    CATALOGUE.iter().map(|kind| (0..40).map(|seed| entry(kind.kind, seed)).collect()).collect()
}

#[test]
fn every_type_of_the_schema_can_grow() {
    let found = changes(&made());
    for (place, (.., entry)) in &found.newer {
        let read =
            Entry::read(entry.to_string().as_bytes()).unwrap_or_else(|e| panic!("{place}: {e}: {entry}"));
        assert!(read.newer().is_some_and(|what| what.contains("made_up_later")), "{place}: {entry}");
    }
    for (name, definition) in entry_schema()["$defs"].as_object().unwrap() {
        let is_open = definition.get("oneOf").is_some() || definition.get("properties").is_some();
        let place = format!("#/$defs/{name} ");
        let is_seen = found.newer.keys().any(|changed| changed.starts_with(&place));
        let is_data = CATALOGUE
            .iter()
            .any(|kind| kind_schema(entry_schema(), kind.kind)["properties"]["data"]["$ref"] == place.trim());
        assert!(is_seen || !is_open || is_data || name == "ArenaEvent", "{name} is never changed");
    }
    assert!(found.broken.len() > 150, "{} places", found.broken.len());
    for (place, entry) in found.broken {
        assert!(Entry::read(entry.to_string().as_bytes()).is_err(), "{place}: {entry}");
    }
}

#[test]
fn a_known_name_with_broken_data_is_damage() {
    let found = changes(&logs());
    assert!(found.broken.len() > 150, "{} places", found.broken.len());
    for (place, entry) in found.broken {
        assert!(Entry::read(entry.to_string().as_bytes()).is_err(), "{place}: {entry}");
    }
}

//! Long sessions out of a short one: its turns again and again, every reference, call and spark moved on.

use serde_json::Value;

/// Entries of a recorded session repeated until there are at least `least`; the first entry stays the only opening.
pub fn entries(recorded: &str, least: u64) -> impl Iterator<Item = Value> {
    let lines: Vec<Value> = recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ends = |line: &Value| line["events"][0]["kind"] == "stop_requested";
    let last = lines.iter().position(ends).unwrap_or(lines.len());
    let turn: Vec<Value> = lines[1..last].to_vec();
    let rounds = least.saturating_sub(1).div_ceil(turn.len() as u64);
    let length = turn.len() as u64;
    let repeated = (0..rounds).flat_map(move |round| {
        let by = Shift { seq: round * length, call: round * 1_000, spark: round };
        turn.clone().into_iter().map(move |mut entry| {
            by.entry(&mut entry);
            entry
        })
    });
    std::iter::once(lines[0].clone()).chain(repeated)
}

/// What is added to positions, calls and sparks.
#[derive(Clone, Copy)]
struct Shift {
    seq: u64,
    call: u64,
    spark: u64,
}

impl Shift {
    fn entry(self, entry: &mut Value) {
        entry["seq"] = (entry["seq"].as_u64().unwrap() + self.seq).into();
        entry["at"] = (entry["at"].as_u64().unwrap() + self.seq * 1_000_000).into();
        entry.as_object_mut().unwrap().remove("h");
        self.value(&mut entry["events"]);
    }

    fn value(self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::String(text) => {
                if let Some(moved) = self.reference(text) {
                    *text = moved;
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    match (name.as_str(), field.as_u64()) {
                        ("call" | "timer", Some(call)) => *field = (call + self.call).into(),
                        ("spark", Some(spark)) => *field = (spark + self.spark).into(),
                        ("turn", Some(turn)) => *field = (turn + self.spark).into(),
                        _ => self.value(field),
                    }
                }
            }
            _ => {}
        }
    }

    /// `e12` and `e12.1` of this turn; the opening stays where it is.
    fn reference(self, text: &str) -> Option<String> {
        let rest = text.strip_prefix('e')?;
        let (seq, event) = rest.split_once('.').map_or((rest, None), |(seq, event)| (seq, Some(event)));
        let seq: u64 = seq.parse().ok().filter(|seq| *seq > 0)?;
        Some(match event {
            Some(event) => format!("e{}.{event}", seq + self.seq),
            None => format!("e{}", seq + self.seq),
        })
    }
}

//! Numbers as wire formats write them.

use serde_json::{Number, Value};

/// A count, also as `10.0` or `"10"`; none for what is no count (`-1`).
pub(super) fn counted(value: &Value) -> Option<u64> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.trim().to_owned(),
        _ => return None,
    };
    let whole = text.split_once('.').filter(|(_, rest)| rest.bytes().all(|b| b == b'0'));
    whole.map_or(text.as_str(), |(whole, _)| whole).parse().ok()
}

/// 700 becomes `0.7`, without a detour over floats.
pub(super) fn per_mille(value: u32) -> Option<Number> {
    let text = format!("{}.{:03}", value / 1000, value % 1000);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperatures() {
        for (value, text) in [(0, "0"), (700, "0.7"), (1000, "1"), (1250, "1.25"), (5, "0.005")] {
            assert_eq!(per_mille(value).unwrap().to_string(), text);
        }
    }
}

//! Typed answers of models as text for people: labels out of field names, nothing invented, nothing left out.

use serde_json::Value;

use super::report::wording;
use crate::protocol::text::unfenced;

/// Fields whose text needs no label: they are what the answer says.
const PLAIN: [&str; 6] = ["answer", "position", "plan", "summary", "text", "opening"];

/// Levels of nesting that are laid out; deeper ones are written as JSON.
const DEEPEST: usize = 4;

/// A JSON object, fenced or not, as Markdown; none for any other text. What rates or rules on one of these propositions
/// is told with its words.
pub fn readable(text: &str, propositions: &[String]) -> Option<String> {
    let body = unfenced(text);
    if !body.starts_with('{') {
        return None;
    }
    let value = serde_json::from_str::<Value>(body).ok().filter(Value::is_object)?;
    let mut out = String::new();
    object(&value, 0, propositions, &mut out);
    Some(out.trim_end().to_owned())
}

fn object(value: &Value, depth: usize, propositions: &[String], out: &mut String) {
    for (name, field) in value.as_object().into_iter().flatten() {
        let label = match name.as_str() {
            "would_change" => "would change its mind".to_owned(),
            name => name.replace('_', " "),
        };
        match field {
            Value::Null => {}
            Value::Array(items) if items.is_empty() => {}
            Value::String(text) if text.trim().is_empty() => {}
            Value::String(text) if PLAIN.contains(&name.as_str()) => {
                out.push_str(&format!("{}\n\n", text.trim()))
            }
            Value::Array(items) => {
                out.push_str(&format!("**{label}**\n\n"));
                items.iter().for_each(|item| bullet(item, propositions, out));
                out.push('\n');
            }
            Value::Object(_) if depth < DEEPEST => object(field, depth + 1, propositions, out),
            other => out.push_str(&format!("**{label}** {}\n\n", inline(other))),
        }
    }
}

fn bullet(item: &Value, propositions: &[String], out: &mut String) {
    let text = stand(item, propositions).unwrap_or_else(|| inline(item)).replace('\n', "\n  ");
    out.push_str(&format!("- {text}\n"));
}

/// What is said of a proposition that is known: its number, a rating and how sure, the proposition, what else there is.
fn stand(item: &Value, propositions: &[String]) -> Option<String> {
    let number = u32::try_from(item.get("proposition")?.as_u64()?).ok()?.checked_sub(1)?;
    let proposition = propositions.get(usize::try_from(number).ok()?)?.trim();
    let rating = item.get("rating").and_then(Value::as_i64).and_then(|rating| i8::try_from(rating).ok());
    let sure = item.get("confidence").and_then(Value::as_u64).filter(|_| rating.is_some());
    let stance = match (rating.map(wording::rating), sure) {
        (Some(rating), Some(sure)) => format!(" {rating}, {sure} % sure:"),
        (Some(rating), None) => format!(" {rating}:"),
        (None, _) => ":".to_owned(),
    };
    let mut rest = item.as_object()?.clone();
    rest.retain(|name, _| match name.as_str() {
        "proposition" => false,
        "rating" => rating.is_none(),
        "confidence" => sure.is_none(),
        _ => true,
    });
    let rest = inline(&Value::Object(rest));
    let rest = if rest.is_empty() { rest } else { format!(" — {rest}") };
    Some(format!("{}{stance} {proposition}{rest}", wording::name(number)))
}

/// A value on a line: of an object its longest text first, then the rest with labels.
fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Array(items) => items.iter().map(inline).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let longest = fields
                .iter()
                .filter_map(|(name, field)| Some((name, field.as_str()?)))
                .max_by_key(|(_, text)| text.len());
            let rest = fields.iter().filter(|(name, field)| {
                let is_empty = field.is_null() || field.as_array().is_some_and(Vec::is_empty);
                Some(*name) != longest.map(|(name, _)| name) && !is_empty
            });
            let rest: Vec<String> =
                rest.map(|(name, field)| format!("{} {}", name.replace('_', " "), inline(field))).collect();
            let text = longest.map_or("", |(_, text)| text.trim());
            match (text.is_empty(), rest.is_empty()) {
                (_, true) => text.to_owned(),
                (true, false) => rest.join(", "),
                (false, false) => format!("{text} ({})", rest.join(", ")),
            }
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn an_answer_is_read_and_nothing_of_it_is_lost() {
        let text = r#"```json
{"answer": "It works.", "claims": [{"kind": "changed", "text": "a.sh was changed", "evidence": ["e5"]}],
 "open": ["F3"], "ballot": {"confidence": 80, "position": "Yes."}, "nothing": [], "sure": true}
```"#;
        let whole = "It works.\n\n**claims**\n\n- a.sh was changed (kind changed, evidence e5)\n\n**open**\n\n- F3\n\n**confidence** 80\n\nYes.\n\n**sure** true";
        assert_eq!(readable(text, &[]).as_deref(), Some(whole));
        assert_eq!(["words", "[1]", "{ not json"].map(|text| readable(text, &[])), [None, None, None]);
    }

    #[test]
    fn what_rates_a_proposition_is_told_with_its_words() {
        let text = r#"{"ratings": [{"proposition": 1, "rating": -1, "confidence": 75, "reason": "a case"}, {"proposition": 3, "rating": 2}]}"#;
        let told = readable(text, &["It refuses.".to_owned(), "It asks.".to_owned()]).unwrap();
        let lines: Vec<&str> = told.lines().skip(2).collect();
        assert_eq!(lines, ["- P1 \u{2212}1, 75 % sure: It refuses. — a case", "- proposition 3, rating 2"]);
    }
}

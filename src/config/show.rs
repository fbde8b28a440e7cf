//! The merged configuration as a table for people and as JSON; hides what may be a key.

use serde_json::json;

use crate::config::layer::Leaf;
use crate::config::providers::{is_secret_header, without_credentials};
use crate::config::{Config, KeyPath, Source};

/// One value as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The key with its tables.
    pub key: String,
    /// The value as TOML, or `(hidden)`.
    pub value: String,
    /// Where it came from.
    pub source: String,
}

/// Every value with its source, by key.
pub fn values(config: &Config) -> Vec<Shown> {
    let shown = config.layer().0.iter().map(|(key, leaf)| Shown {
        key: key.to_string(),
        value: value_text(key, leaf),
        source: leaf.sources.iter().map(Source::to_string).collect::<Vec<_>>().join(" + "),
    });
    shown.collect()
}

/// The values as lines, keys and values in columns.
pub fn as_text(config: &Config) -> String {
    let values = values(config);
    let width =
        |of: fn(&Shown) -> &str| values.iter().map(|shown| of(shown).chars().count()).max().unwrap_or(0);
    let (keys, texts) = (width(|shown| &shown.key), width(|shown| &shown.value).min(48));
    let line = |Shown { key, value, source }: &Shown| match in_lines(value) {
        None => format!("{key:keys$} = {value:texts$}  # {source}\n"),
        Some(lines) => format!("{key:keys$} = {:texts$}  # {source}\n{lines}]\n", "["),
    };
    values.iter().map(line).collect()
}

/// Columns from which on a list is shown in lines of its own.
const LONG: usize = 160;

/// A long list's items, indented. What is within an item is never broken.
fn in_lines(value: &str) -> Option<String> {
    let items = value.strip_prefix("[\"")?.strip_suffix("\"]").filter(|items| items.len() > LONG)?;
    let mut lines = String::new();
    let mut width = 0;
    for item in items.split("\", \"") {
        let item = format!("\"{item}\",");
        let begins = width == 0 || width + 1 + item.len() > 100;
        lines += match (begins, width) {
            (true, 0) => "    ",
            (true, _) => "\n    ",
            _ => " ",
        };
        width = if begins { 4 } else { width + 1 } + item.len();
        lines += &item;
    }
    Some(lines + "\n")
}

/// The values as JSON: an object of `value` and `source` by key.
pub fn as_json(config: &Config) -> serde_json::Value {
    let pairs = values(config).into_iter();
    pairs.map(|shown| (shown.key, json!({ "value": shown.value, "source": shown.source }))).collect()
}

fn value_text(key: &KeyPath, leaf: &Leaf) -> String {
    match (key.words().as_slice(), leaf.value.as_str()) {
        (["providers", _, "headers", name], _) if is_secret_header(name) => "(hidden)".to_owned(),
        (["providers", _, "base_url"], Some(url)) => {
            toml::Value::String(without_credentials(url)).to_string()
        }
        _ => leaf.value.to_string(),
    }
}

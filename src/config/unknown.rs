//! Finds keys that no configuration has, by walking a file beside the published JSON Schema.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;
use toml::de::{DeTable, DeValue};

use crate::config::ConfigError;
use crate::config::layer::{KeyPath, line_of};

/// A key that no configuration has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKey {
    /// The key with its tables.
    pub key: KeyPath,
    /// Its line, from 1.
    pub line: usize,
    /// The known key of the same table that looks most like it.
    pub suggestion: Option<String>,
    /// The table it belongs into, where that is another one.
    pub belongs: Option<String>,
}

/// Gives the line of every key, or an error: `Err(Ok(_))` names unknown keys, `Err(Err(_))` is not TOML.
pub(super) fn check(
    text: &str,
    path: &Path,
) -> Result<BTreeMap<KeyPath, usize>, Result<ConfigError, toml::de::Error>> {
    let table = DeTable::parse(text).map_err(Err)?;
    let schema = crate::config::schema();
    let mut walk = Walk { text, root: &schema, lines: BTreeMap::new(), unknown: Vec::new() };
    walk.table(table.get_ref(), &schema, &KeyPath::default());
    match walk.unknown.is_empty() {
        true => Ok(walk.lines),
        false => Err(Ok(ConfigError::Unknown { path: path.to_owned(), keys: walk.unknown })),
    }
}

struct Walk<'a> {
    text: &'a str,
    root: &'a Json,
    lines: BTreeMap<KeyPath, usize>,
    unknown: Vec<UnknownKey>,
}

impl<'a> Walk<'a> {
    fn table(&mut self, table: &DeTable<'_>, schema: &'a Json, at: &KeyPath) {
        let schema = self.resolve(schema);
        let named = schema.get("properties").and_then(Json::as_object);
        let any = schema.get("additionalProperties").filter(|schema| schema.is_object());
        for (word, value) in table {
            let key = at.then(word.get_ref());
            let line = line_of(self.text, word.span().start);
            match named.and_then(|named| named.get(word.get_ref().as_ref())).or(any) {
                Some(inner) => self.value(value.get_ref(), inner, &key),
                None => {
                    let known = named.into_iter().flat_map(|named| named.keys());
                    let suggestion = closest(word.get_ref(), known.map(String::as_str));
                    let belongs = self.of_a_model(&key);
                    self.unknown.push(UnknownKey { key: key.clone(), line, suggestion, belongs });
                }
            }
            self.lines.insert(key, line);
        }
    }

    /// The table of a model, for a key that somebody gave to its provider.
    fn of_a_model(&self, key: &KeyPath) -> Option<String> {
        let words = key.words();
        let ["providers", provider, word] = words.as_slice() else { return None };
        let models = self.resolve(self.root.pointer("/properties/models")?);
        let model = self.resolve(models.get("additionalProperties")?);
        model.get("properties")?.get(*word)?;
        Some(format!("models.\"{provider}/NAME\""))
    }

    fn value(&mut self, value: &DeValue<'_>, schema: &'a Json, at: &KeyPath) {
        match value {
            DeValue::Table(table) if self.resolve(schema).is_object() => self.table(table, schema, at),
            DeValue::Array(items) => {
                let Some(item) = self.resolve(schema).get("items") else { return };
                for value in items {
                    self.value(value.get_ref(), item, at);
                }
            }
            _ => {}
        }
    }

    /// Follows references and the non-null side of an optional value.
    fn resolve(&self, schema: &'a Json) -> &'a Json {
        if let Some(reference) = schema.get("$ref").and_then(Json::as_str) {
            let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            return target.map_or(schema, |target| self.resolve(target));
        }
        let sides = schema.get("anyOf").and_then(Json::as_array);
        let real =
            sides.and_then(|sides| sides.iter().find(|side| side.get("type") != Some(&Json::from("null"))));
        real.map_or(schema, |side| self.resolve(side))
    }
}

/// The word that looks most like `word`, if any looks like it at all.
pub fn closest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let scored = known.map(|candidate| (strsim::jaro_winkler(word, candidate), candidate));
    let best = scored.filter(|(score, _)| *score > 0.75).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, candidate)| candidate.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(text: &str) -> Vec<(String, usize, Option<String>)> {
        match check(text, Path::new("config.toml")) {
            Err(Ok(ConfigError::Unknown { keys, .. })) => {
                keys.into_iter().map(|k| (k.key.to_string(), k.line, k.suggestion)).collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn unknown_keys_are_found_at_every_depth_with_a_suggestion() {
        let text = "modle = \"a/b\"\n[limits]\nmax_step = 1\n[providers.x]\napi_key = \"s\"\n\
                    [[policy.rules]]\nname = \"r\"\nactoin = \"deny\"\n[models.\"a/b\".price]\ninptu = 1\n";
        let expected = [
            ("modle", 1, Some("model")),
            ("limits.max_step", 3, Some("max_steps")),
            ("providers.x.api_key", 5, Some("api_key_env")),
            ("policy.rules.actoin", 8, Some("action")),
            ("models.\"a/b\".price.inptu", 10, Some("input")),
        ];
        let expected = expected.map(|(k, line, s)| (k.to_owned(), line, s.map(str::to_owned)));
        assert_eq!(unknown(text), expected);
    }

    #[test]
    fn what_belongs_to_a_model_is_sent_there() {
        let text = "[providers.my]\nstructured = \"words\"\n[providers.my.price]\ninput = 1\n";
        let Err(Ok(ConfigError::Unknown { keys, .. })) = check(text, Path::new("c.toml")) else {
            panic!("unknown keys")
        };
        let told: Vec<_> = keys.iter().map(|key| key.belongs.as_deref()).collect();
        assert_eq!(told, [Some("models.\"my/NAME\""); 2]);
    }

    #[test]
    fn names_of_providers_models_and_headers_are_free() {
        assert_eq!(
            unknown("[providers.anything.headers]\nX-Anything = \"a\"\n[models.\"q/w\"]\ncontext = 1\n"),
            []
        );
    }

    #[test]
    fn a_word_that_looks_like_nothing_gets_no_suggestion() {
        assert_eq!(closest("zzz", ["model", "persona"].into_iter()), None);
    }
}

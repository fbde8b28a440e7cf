//! Layers of values, each value with the place it came from; knows keys and lines, not what they mean.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use crate::config::ConfigError;
use crate::config::file::ConfigFile;
use crate::config::unknown;
use crate::protocol::complaint::plain;

/// The most a configuration file may hold, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// A key with its tables, printed dotted and quoted as TOML writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPath(pub Vec<String>);

impl KeyPath {
    /// A path of plain words.
    pub fn of(words: &[&str]) -> Self {
        KeyPath(words.iter().map(|word| (*word).to_owned()).collect())
    }

    /// The path one step deeper.
    pub fn then(&self, word: &str) -> Self {
        let mut words = self.0.clone();
        words.push(word.to_owned());
        KeyPath(words)
    }

    /// The words as string slices, for matching.
    pub fn words(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, word) in self.0.iter().enumerate() {
            let dot = if i == 0 { "" } else { "." };
            let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            match !word.is_empty() && word.chars().all(bare) {
                true => write!(f, "{dot}{word}")?,
                false => write!(f, "{dot}{}", Value::String(word.clone()))?,
            }
        }
        Ok(())
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// The user's or the project's file.
    File {
        /// The file.
        path: PathBuf,
        /// The line of the value, from 1.
        line: usize,
    },
    /// An environment variable.
    Environment(&'static str),
    /// A flag of the command line.
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::File { path, line } => write!(f, "{}:{line}", path.display()),
            Source::Environment(name) => f.write_str(name),
            Source::Flag(name) => f.write_str(name),
        }
    }
}

/// A value and where it came from; lists that add up over layers have several sources.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// The value.
    pub value: Value,
    /// Where it came from, lowest layer first.
    pub sources: Vec<Source>,
}

/// The values of one layer, or of several merged ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer(pub BTreeMap<KeyPath, Leaf>);

impl Layer {
    /// Reads a file. `None` when there is none; damage and unknown keys are errors that name file and line.
    pub fn read(path: &Path) -> Result<Option<Self>, ConfigError> {
        let Some(text) = read_bounded(path)? else { return Ok(None) };
        Layer::parse(&text, path).map(Some)
    }

    /// Takes the text of a file apart.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let damaged = |error: toml::de::Error| ConfigError::Damaged {
            path: path.to_owned(),
            line: error.span().map_or(1, |span| line_of(text, span.start)),
            // Only the message: the full error shows the line, which may hold a secret.
            message: plain(error.message()),
        };
        let lines = unknown::check(text, path).map_err(|error| error.unwrap_or_else(damaged))?;
        toml::from_str::<ConfigFile>(text).map_err(|error| named(damaged(error), &lines))?;
        let table: Table = toml::from_str(text).map_err(damaged)?;
        let mut layer = Layer::default();
        layer.flatten(&KeyPath::default(), table, &|key| Source::File {
            path: path.to_owned(),
            line: lines.get(key).copied().unwrap_or(1),
        });
        Ok(layer)
    }

    /// The default values.
    pub fn defaults() -> Result<Self, ConfigError> {
        let table = Table::try_from(ConfigFile::defaults())
            .map_err(|error| ConfigError::Internal(error.to_string()))?;
        let mut layer = Layer::default();
        layer.flatten(&KeyPath::default(), table, &|_| Source::Default);
        Ok(layer)
    }

    /// Sets one value.
    pub fn set(&mut self, key: KeyPath, value: Value, source: Source) {
        self.0.insert(key, Leaf { value, sources: vec![source] });
    }

    /// Lays `upper` over this layer: its values win; lists that add up are added to those below.
    pub fn cover(&mut self, upper: Layer) {
        for (key, leaf) in upper.0 {
            match (self.0.get_mut(&key), leaf.value) {
                (Some(Leaf { value: Value::Array(below), sources }), Value::Array(above))
                    if adds_up(&key) =>
                {
                    below.extend(above);
                    sources.extend(leaf.sources);
                }
                (_, value) => {
                    self.0.insert(key, Leaf { value, sources: leaf.sources });
                }
            }
        }
    }

    /// The values as one typed whole.
    pub fn typed(&self) -> Result<ConfigFile, ConfigError> {
        let mut root = Table::new();
        for (key, leaf) in &self.0 {
            let Some((last, tables)) = key.0.split_last() else { continue };
            let mut table = &mut root;
            for word in tables {
                let next = table.entry(word.clone()).or_insert_with(|| Value::Table(Table::new()));
                let Value::Table(next) = next else {
                    return Err(ConfigError::Internal(format!("`{key}` is a key under a plain value")));
                };
                table = next;
            }
            table.insert(last.clone(), leaf.value.clone());
        }
        ConfigFile::deserialize(root).map_err(|error| ConfigError::Internal(error.message().to_owned()))
    }

    fn flatten(&mut self, prefix: &KeyPath, table: Table, source: &dyn Fn(&KeyPath) -> Source) {
        for (word, value) in table {
            let key = prefix.then(&word);
            match value {
                Value::Table(inner) if !is_whole(&key) => self.flatten(&key, inner, source),
                value => self.set(key.clone(), value, source(&key)),
            }
        }
    }
}

/// The same error with the key it is about, where that stands alone on its line.
fn named(error: ConfigError, lines: &BTreeMap<KeyPath, usize>) -> ConfigError {
    let ConfigError::Damaged { path, line, message } = error else { return error };
    let mut keys = lines.iter().filter(|(_, at)| **at == line).map(|(key, _)| key);
    let message = match (keys.next(), keys.next()) {
        (Some(key), None) => format!("`{key}`: {message}"),
        _ => message,
    };
    ConfigError::Damaged { path, line, message }
}

/// Lists whose layers add up instead of replacing each other.
fn adds_up(key: &KeyPath) -> bool {
    let lists = [
        ["policy", "rules"],
        ["redaction", "ignore"],
        ["names", "protected"],
        ["names", "secret"],
        ["names", "except"],
        ["workspace", "allow"],
    ];
    lists.iter().any(|list| key.words() == list)
}

/// Tables whose keys only make sense together, so that layers replace them whole.
fn is_whole(key: &KeyPath) -> bool {
    matches!(key.words()[..], ["models", _, "price"] | ["mcp", _])
}

/// The line of a byte, from 1.
pub(super) fn line_of(text: &str, byte: usize) -> usize {
    text.as_bytes().iter().take(byte).filter(|byte| **byte == b'\n').count() + 1
}

/// Reads an ordinary file of bounded size; `None` when there is none.
pub(super) fn read_bounded(path: &Path) -> Result<Option<String>, ConfigError> {
    match crate::library::read_text(path, MAX_FILE) {
        Ok(text) => Ok(text),
        Err(error) => Err(ConfigError::File(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(text: &str, name: &str) -> Layer {
        Layer::parse(text, Path::new(name)).unwrap()
    }

    #[test]
    fn the_upper_layer_wins_and_each_value_keeps_its_source() {
        let mut below = layer("model = \"a/b\"\n[limits]\nmax_steps = 5\nmax_seconds = 9\n", "user");
        below.cover(layer("\n[limits]\nmax_steps = 3\n", "project"));
        let steps = &below.0[&KeyPath::of(&["limits", "max_steps"])];
        assert_eq!(steps.value, Value::Integer(3));
        assert_eq!(steps.sources, [Source::File { path: "project".into(), line: 3 }]);
        assert_eq!(
            below.0[&KeyPath::of(&["model"])].sources,
            [Source::File { path: "user".into(), line: 1 }]
        );
        assert_eq!(below.typed().unwrap().limits.unwrap().max_seconds, Some(9));
    }

    #[test]
    fn rules_of_all_layers_add_up() {
        let rule = |name| format!("[[policy.rules]]\nname = \"{name}\"\naction = \"deny\"\n");
        let mut below = layer(&rule("one"), "user");
        below.cover(layer(&rule("two"), "project"));
        let names: Vec<_> =
            below.typed().unwrap().policy.unwrap().rules.into_iter().map(|r| r.name).collect();
        assert_eq!(names, ["one", "two"]);
        assert_eq!(below.0[&KeyPath::of(&["policy", "rules"])].sources.len(), 2);
    }

    #[test]
    fn prices_are_replaced_whole() {
        let mut below = layer("[models.\"a/b\"]\nprice = { input = 1, cached = 0.5, output = 2 }\n", "user");
        below.cover(layer("[models.\"a/b\".price]\ninput = 3\noutput = 4\n", "project"));
        let price = below.typed().unwrap().models["a/b"].price.unwrap();
        assert_eq!((price.input.0, price.cached), (3_000_000, None));
    }

    #[test]
    fn keys_print_as_toml_writes_them() {
        assert_eq!(KeyPath::of(&["models", "a/b", "context"]).to_string(), "models.\"a/b\".context");
    }
}

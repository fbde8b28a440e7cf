//! Reads and writes what agon has learnt about models: from their servers' errors, what servers last said of them, and the
//! windows it had to assume.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::layer::read_bounded;
use crate::config::written::{alone, replace};
use crate::config::{ConfigError, ModelName};
use crate::protocol::spec::Price;

const HEAD: &str = "\
# What agon has learnt about models from their servers, and the windows it assumes and has shown a note of.
# agon writes this file. Delete a table, or the whole file, and agon learns it again.
";

/// One model at one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    /// Scheme, host and port of the server that said so. What it said does not count for another one.
    server: String,
    /// Parameters the model refuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    refuses: Vec<String>,
    /// The window that agon assumes, of which the user was shown a note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    assumed: Option<u64>,
    /// What the server last said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told: Option<Told>,
}

/// What a server said of a model, for when it is too slow to say it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// Input and output together, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Most output of one answer, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// It takes images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
    /// Its price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// The rows, by `PROVIDER/MODEL`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learnt(BTreeMap<String, Row>);

impl Learnt {
    /// Reads the file; without one nothing was learnt yet.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let Some(text) = read_bounded(file)? else { return Ok(Learnt::default()) };
        toml::from_str(&text).map(Learnt).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let message = format!("{}; delete the file, agon learns it again", error.message());
            ConfigError::Damaged { path: file.to_owned(), line, message }
        })
    }

    /// The parameters a model is known to refuse at this server.
    pub fn refuses(&self, model: &ModelName, server: &str) -> &[String] {
        self.row(model, server).map(|row| row.refuses.as_slice()).unwrap_or_default()
    }

    /// What this server last said of a model.
    pub fn told(&self, model: &ModelName, server: &str) -> Option<&Told> {
        self.row(model, server)?.told.as_ref()
    }

    /// True where this server was asked of the model before.
    pub fn is_known(&self, model: &ModelName, server: &str) -> bool {
        self.row(model, server).is_some_and(|row| row.told.is_some() || row.assumed.is_some())
    }

    fn row(&self, model: &ModelName, server: &str) -> Option<&Row> {
        self.0.get(&model.to_string()).filter(|row| row.server == server)
    }

    /// The window that was assumed of a model at this server.
    pub fn assumed(&self, model: &str, server: &str) -> Option<u64> {
        self.0.get(model).filter(|row| row.server == server)?.assumed
    }

    /// Adds parameters to a model's row.
    pub fn keep(file: &Path, model: &str, server: &str, names: &[String]) -> Result<(), ConfigError> {
        Learnt::change(file, model, server, |row| {
            let new: Vec<String> = names.iter().filter(|name| !row.refuses.contains(name)).cloned().collect();
            row.refuses.extend_from_slice(&new);
            !new.is_empty()
        })
        .map(|_| ())
    }

    /// Keeps what the server says of a model.
    pub fn keep_told(file: &Path, model: &str, server: &str, told: Told) -> Result<(), ConfigError> {
        Learnt::change(file, model, server, |row| row.told.replace(told) != Some(told)).map(|_| ())
    }

    /// Keeps that this window is assumed; false when that was kept before.
    pub fn assume(file: &Path, model: &str, server: &str, context: u64) -> Result<bool, ConfigError> {
        Learnt::change(file, model, server, |row| row.assumed.replace(context) != Some(context))
    }

    /// Changes a model's row, and says whether `change` did. The file is replaced at once, so that no reader sees half of
    /// it.
    fn change(
        file: &Path,
        model: &str,
        server: &str,
        change: impl FnOnce(&mut Row) -> bool,
    ) -> Result<bool, ConfigError> {
        let failed = |source| ConfigError::Write { path: file.to_owned(), source };
        let _alone = alone(file).map_err(failed)?;
        let mut learnt = Learnt::read(file)?;
        let row = learnt.0.entry(model.to_owned()).or_default();
        if row.server != server {
            *row = Row { server: server.to_owned(), ..Row::default() };
        }
        if !change(row) {
            return Ok(false);
        }
        let table = toml::to_string(&learnt.0).map_err(|error| ConfigError::Internal(error.to_string()))?;
        replace(file, &format!("{HEAD}\n{table}")).map_err(failed)?;
        Ok(true)
    }
}

/// Scheme, host and port of a base URL.
pub fn server_of(base_url: &str) -> String {
    reqwest::Url::parse(base_url)
        .map_or_else(|_| base_url.to_owned(), |url| url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learnt_counts_for_its_server_alone_and_adds_up() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("models-learnt.toml");
        assert_eq!(Learnt::read(&file).unwrap(), Learnt::default());
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Learnt::keep(&file, "p/m/x", "http://a:1", &names(&["temperature"])).unwrap();
        Learnt::keep(&file, "p/m/x", "http://a:1", &names(&["max_tokens", "temperature"])).unwrap();
        let model = "p/m/x".parse().unwrap();
        let learnt = Learnt::read(&file).unwrap();
        assert_eq!(learnt.refuses(&model, "http://a:1"), names(&["temperature", "max_tokens"]));
        assert!(learnt.refuses(&model, "http://b:1").is_empty());
        Learnt::keep(&file, "p/m/x", "http://b:1", &names(&["max_tokens"])).unwrap();
        assert_eq!(Learnt::read(&file).unwrap().refuses(&model, "http://b:1"), names(&["max_tokens"]));
        // A note is shown once for each number.
        let assume = |context| Learnt::assume(&file, "p/m/x", "http://b:1", context).unwrap();
        assert_eq!([assume(4096), assume(4096), assume(8192)], [true, false, true]);
        assert_eq!(Learnt::read(&file).unwrap().refuses(&model, "http://b:1"), names(&["max_tokens"]));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_file_is_named_with_its_line_and_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("models-learnt.toml");
        std::fs::write(&file, "# a\n[\"p/m\"\n").unwrap();
        let error = Learnt::read(&file).unwrap_err().to_string();
        assert!(error.contains("models-learnt.toml` line 2") && error.contains("delete the file"), "{error}");
    }

    #[test]
    fn a_server_is_its_address_without_path_user_or_query() {
        assert_eq!(server_of("https://u:p@api.openai.com/v1?key=x"), "https://api.openai.com");
        assert_eq!(server_of("http://127.0.0.1:8080/v1"), "http://127.0.0.1:8080");
    }
}

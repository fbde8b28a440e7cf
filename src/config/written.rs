//! Writes files of the configuration: whole or not at all, the user's own words kept.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use toml::{Table, Value};

use crate::config::{ConfigError, ModelName};

/// A first configuration. `MODEL` is the one that was chosen.
const FIRST: &str = include_str!("first.toml");

/// Keeps other agons away from the files of a folder until it is dropped: for a file that is read, changed and written
/// again. A file system without locks has none.
pub(super) fn alone(file: &Path) -> io::Result<File> {
    let folder = file.parent().unwrap_or(file);
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let folder = File::open(folder)?;
    let _ = flock(&folder, FlockOperation::LockExclusive);
    Ok(folder)
}

/// Replaces a file at once, so that no reader sees half of it. Only the user can read a new one. What a link names is
/// replaced, not the link.
pub(super) fn replace(file: &Path, text: &str) -> io::Result<()> {
    let resolved = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let folder = resolved.parent().unwrap_or(&resolved);
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut whole = tempfile::Builder::new().prefix(".agon-").tempfile_in(folder)?;
    whole.write_all(text.as_bytes())?;
    if let Ok(before) = std::fs::metadata(&resolved) {
        whole.as_file().set_permissions(before.permissions())?;
    }
    whole.as_file().sync_all()?;
    whole.persist(&resolved).map(drop).map_err(|error| error.error)
}

/// Writes the model of new sessions into the user's configuration: a first one with comments, or the one that is there
/// with this line alone changed. True for a first one.
pub fn choose(file: &Path, model: &ModelName) -> Result<bool, ConfigError> {
    let before = crate::config::layer::read_bounded(file)?;
    let text = match &before {
        None => FIRST.replace("\"MODEL\"", &quoted(model)),
        Some(text) => with_model(text, model).ok_or_else(|| ConfigError::NotWritten {
            path: file.to_owned(),
            what: "model".to_owned(),
            line: format!("model = {}", quoted(model)),
        })?,
    };
    replace(file, &text).map_err(|source| ConfigError::Write { path: file.to_owned(), source })?;
    Ok(before.is_none())
}

fn quoted(model: &ModelName) -> String {
    Value::String(model.to_string()).to_string()
}

/// A configuration with another `model`; none where that cannot be done without touching anything else.
fn with_model(text: &str, model: &ModelName) -> Option<String> {
    let line = format!("model = {}", quoted(model));
    let is_table = |line: &&str| line.trim_start().starts_with('[');
    let sets_model = |line: &str| {
        line.trim_start().strip_prefix("model").is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    let place = text.lines().take_while(|line| !is_table(line)).position(sets_model);
    let mut lines: Vec<&str> = text.lines().collect();
    match place {
        Some(at) => *lines.get_mut(at)? = &line,
        None => lines.insert(0, &line),
    }
    let new = lines.join("\n") + "\n";
    let table = |text: &str| {
        let mut table: Table = toml::from_str(text).ok()?;
        let model = table.remove("model");
        Some((model, table))
    };
    let ((_, rest), (set, new_rest)) = (table(text)?, table(&new)?);
    (set == Some(Value::String(model.to_string())) && rest == new_rest).then_some(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layer;

    fn model() -> ModelName {
        "ollama/qwen3:8b".parse().unwrap()
    }

    #[test]
    fn the_first_configuration_is_valid_with_and_without_its_comments() {
        let first = FIRST.replace("MODEL", "openai/gpt-5");
        let layer = Layer::parse(&first, Path::new("c")).unwrap();
        assert_eq!(layer.typed().unwrap().model.as_deref(), Some("openai/gpt-5"));
        let setting = |line: &str| line.starts_with('[') || line.contains(" = ");
        let all: Vec<&str> = first
            .lines()
            .map(|line| line.strip_prefix("# ").filter(|l| setting(l)).unwrap_or(line))
            .collect();
        let everything = Layer::parse(&all.join("\n"), Path::new("c")).unwrap();
        assert!(everything.0.len() > 8, "{}", all.join("\n"));
    }

    #[test]
    fn only_the_model_of_a_configuration_is_changed() {
        let rows = [
            ("", "model = \"ollama/qwen3:8b\"\n"),
            ("# mine\nmodel = 'a/b' # old\nx = 1\n", "# mine\nmodel = \"ollama/qwen3:8b\"\nx = 1\n"),
            ("[a]\nmodel = \"a/b\"\n", "model = \"ollama/qwen3:8b\"\n[a]\nmodel = \"a/b\"\n"),
            ("model_x = 1\n[a]\n", "model = \"ollama/qwen3:8b\"\nmodel_x = 1\n[a]\n"),
        ];
        for (before, after) in rows {
            assert_eq!(with_model(before, &model()).as_deref(), Some(after), "{before}");
        }
        // A text in which the line is no setting.
        assert_eq!(with_model("x = \"\"\"\nmodel = 1\n\"\"\"\n", &model()), None);
        assert_eq!(with_model("not toml", &model()), None);
    }

    #[test]
    fn a_linked_configuration_stays_linked() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("dotfiles.toml"), folder.path().join("config.toml"));
        std::fs::write(&real, "persona = \"solo\"\n").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(!choose(&link, &model()).unwrap());
        assert!(link.is_symlink());
        assert!(std::fs::read_to_string(&real).unwrap().starts_with("model = "));
    }
}

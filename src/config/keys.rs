//! Keys of providers that agon keeps for the user: one file that only the user can read, a row a provider.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::layer::read_bounded;
use crate::config::written::replace;
use crate::config::{ConfigError, Secret};

const HEAD: &str = "\
# Keys of providers, for your eyes only. `agon keys set` and `agon keys rm` write this file.
";

/// The longest key that is kept, in bytes.
const LONGEST: usize = 8 << 10;

/// One key, and the server it belongs to.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// Scheme, host and port. The key is sent to no other.
    server: String,
    key: String,
}

/// Where a provider's key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A variable of the environment.
    Variable(String),
    /// The file of this module.
    Stored,
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::Variable(name) => write!(f, "`{name}` is set"),
            KeySource::Stored => f.write_str("a key is stored"),
        }
    }
}

/// The keys, by provider.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keys {
    rows: BTreeMap<String, Row>,
    /// Permissions of the file, where others than the user can read it.
    open_to_others: Option<u32>,
}

impl Keys {
    /// Reads the file; without one there are no keys. An error never repeats what the file holds.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let Some(text) = read_bounded(file)? else { return Ok(Keys::default()) };
        let rows = toml::from_str(&text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let message =
                "a table for each provider is expected, with `server` and `key`; `agon keys set` writes it";
            ConfigError::Damaged { path: file.to_owned(), line, message: message.to_owned() }
        })?;
        let mode = std::fs::metadata(file).map_or(0, |data| data.permissions().mode() & 0o777);
        Ok(Keys { rows, open_to_others: (mode & 0o077 != 0).then_some(mode) })
    }

    /// The key of a provider, if it was kept for this server.
    pub fn of(&self, provider: &str, server: &str) -> Option<Secret> {
        let row = self.rows.get(provider).filter(|row| row.server == server)?;
        Some(Secret::new(row.key.as_str()))
    }

    /// Providers with the server that each key is for.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rows.iter().map(|(provider, row)| (provider.as_str(), row.server.as_str()))
    }

    /// Provider and key, for blanking them out.
    pub(super) fn secrets(&self) -> impl Iterator<Item = (String, String)> {
        self.rows.iter().map(|(provider, row)| (provider.clone(), row.key.clone()))
    }

    /// What is wrong with the file, for the person.
    pub(super) fn warning(&self, file: &Path) -> Option<String> {
        let file = file.display();
        self.open_to_others
            .map(|mode| format!("others can read your keys in `{file}` (mode {mode:o}): chmod 600 '{file}'"))
    }

    /// Keeps a key, in place of the one before.
    pub fn set(file: &Path, provider: &str, server: &str, key: &Secret) -> Result<(), ConfigError> {
        let mut keys = Keys::read(file)?;
        let row = Row { server: server.to_owned(), key: key.reveal().to_owned() };
        keys.rows.insert(provider.to_owned(), row);
        keys.write(file)
    }

    /// Removes a key; false when there was none.
    pub fn remove(file: &Path, provider: &str) -> Result<bool, ConfigError> {
        let mut keys = Keys::read(file)?;
        match keys.rows.remove(provider) {
            Some(_) => keys.write(file).map(|()| true),
            None => Ok(false),
        }
    }

    fn write(&self, file: &Path) -> Result<(), ConfigError> {
        let table = toml::to_string(&self.rows).map_err(|error| ConfigError::Internal(error.to_string()))?;
        let written = replace(file, &format!("{HEAD}\n{table}"));
        written.map_err(|source| ConfigError::Write { path: file.to_owned(), source })
    }
}

impl fmt::Debug for Keys {
    /// Names only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.rows.keys()).finish()
    }
}

/// A key out of what was typed or piped: without the blanks, quotes and line end around it.
pub fn key_of(typed: &str) -> Result<Secret, &'static str> {
    let key = typed.trim();
    let key = ['"', '\''].into_iter().fold(key, |key, quote| {
        key.strip_prefix(quote).and_then(|key| key.strip_suffix(quote)).unwrap_or(key)
    });
    let is_line = key.split_once('=').is_some_and(|(name, value)| {
        let word = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || matches!(c, '_' | ' ');
        name.contains('_') && name.trim_start_matches("export ").chars().all(word) && !value.is_empty()
    });
    match key {
        "" => Err("no key was given"),
        _ if is_line => Err("this is a line that sets a variable: give what follows `=` alone"),
        key if key.len() > LONGEST => Err("this is longer than any key"),
        key if !key.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err("a key has no spaces, line breaks or characters other than ASCII")
        }
        key => Ok(Secret::new(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_for_its_server_alone_in_a_file_for_its_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state/keys.toml");
        Keys::set(&file, "xai", "https://api.x.ai", &Secret::new("k-1")).unwrap();
        Keys::set(&file, "xai", "https://api.x.ai", &Secret::new("k-2")).unwrap();
        let keys = Keys::read(&file).unwrap();
        assert_eq!(keys.of("xai", "https://api.x.ai"), Some(Secret::new("k-2")));
        assert_eq!(keys.of("xai", "https://evil"), None);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!((keys.warning(&file), format!("{keys:?}")), (None, "[\"xai\"]".to_owned()));
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(Keys::read(&file).unwrap().warning(&file).unwrap().contains("(mode 644)"));
        assert!(Keys::remove(&file, "xai").unwrap());
        assert!(!Keys::remove(&file, "xai").unwrap());
        assert_eq!(Keys::read(&file).unwrap().all().count(), 0);
    }

    #[test]
    fn no_error_repeats_what_the_file_holds() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.toml");
        for text in
            ["xai = \"sk-secret\"", "[xai]\nserver = \"a\"\nkey = sk-secret\n", "[xai]\nkey = \"sk-secret\""]
        {
            std::fs::write(&file, text).unwrap();
            let error = format!("{:?}", Keys::read(&file).unwrap_err());
            assert!(!error.contains("sk-secret") && error.contains("keys.toml"), "{error}");
        }
    }

    #[test]
    fn what_is_pasted_is_a_key_or_says_why_not() {
        for (typed, key) in
            [(" sk-1\n", "sk-1"), ("\"sk-1\"", "sk-1"), ("'sk-1'\r\n", "sk-1"), ("QUJD_x==", "QUJD_x==")]
        {
            assert_eq!(key_of(typed), Ok(Secret::new(key)), "{typed:?}");
        }
        for bad in [
            "",
            " \n",
            "\"\"",
            "a\nb",
            "a b",
            "schlüssel",
            "a\u{1b}b",
            "XAI_API_KEY=sk-1",
            "export XAI_API_KEY=sk-1",
            &"k".repeat(LONGEST + 1),
        ] {
            assert!(key_of(bad).is_err(), "{bad:?}");
        }
    }
}

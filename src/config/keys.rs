//! Keys of providers that agon keeps for the user: one file that only the user can read, a row a provider, and the
//! system's keychain for the keys themselves where this program can use it.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::keychain::{self, Act};
use crate::config::layer::read_bounded;
use crate::config::written::{alone, replace};
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
    /// None where the system's keychain has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

/// Where a key was put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// In the system's keychain.
    Keychain,
    /// In the file; with the reason where this program can use a keychain and this one refused.
    File(Option<String>),
}

/// Where a provider's key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A variable of the environment.
    Variable(String),
    /// The file of this module, or the keychain.
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

type Rows = BTreeMap<String, Row>;

/// The keys, by provider.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keys {
    rows: Rows,
    warnings: Vec<String>,
}

impl Keys {
    /// Reads the file, and the keychain for what the file says is there; without a file there are no keys. An error never
    /// repeats what the file holds.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let (mut rows, mut warnings) = (rows(file)?, Vec::new());
        let mode = std::fs::metadata(file).map_or(0, |data| data.permissions().mode() & 0o777);
        if mode & 0o077 != 0 {
            let file = file.display();
            let words = format!("others can read your keys in `{file}` (mode {mode:o}): chmod 600 '{file}'");
            warnings.push(words);
        }
        for (provider, row) in rows.iter_mut().filter(|(_, row)| row.key.is_none()) {
            match keychain::ask(&entry(file, provider), Act::Read) {
                Ok(key) => row.key = key.map(|key| key.reveal().to_owned()),
                Err(why) => warnings.push(format!(
                    "the system's keychain does not give the key of `{provider}`: {why}; `agon keys set {provider}` stores it again"
                )),
            }
        }
        Ok(Keys { rows, warnings })
    }

    /// The key of a provider, if it was kept for this server.
    pub fn of(&self, provider: &str, server: &str) -> Option<Secret> {
        let row = self.rows.get(provider).filter(|row| row.server == server)?;
        row.key.as_deref().map(Secret::new)
    }

    /// Providers with the server that each key is for.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let known = self.rows.iter().filter(|(_, row)| row.key.is_some());
        known.map(|(provider, row)| (provider.as_str(), row.server.as_str()))
    }

    /// Provider and key, for blanking them out.
    pub(super) fn secrets(&self) -> impl Iterator<Item = (String, String)> {
        self.rows.iter().filter_map(|(provider, row)| Some((provider.clone(), row.key.clone()?)))
    }

    /// What is wrong with the file or the keychain, for the person.
    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Keeps a key, in place of the one before: in the keychain, else in the file.
    pub fn set(file: &Path, provider: &str, server: &str, key: &Secret) -> Result<Kept, ConfigError> {
        change(file, |rows| {
            let kept = match keychain::ask(&entry(file, provider), Act::Keep(key.clone())) {
                Ok(_) => Kept::Keychain,
                Err(why) => Kept::File(keychain::IS_BUILT.then_some(why)),
            };
            let in_file = matches!(kept, Kept::File(_)).then(|| key.reveal().to_owned());
            rows.insert(provider.to_owned(), Row { server: server.to_owned(), key: in_file });
            kept
        })
    }

    /// Removes a key; false when there was none.
    pub fn remove(file: &Path, provider: &str) -> Result<bool, ConfigError> {
        let removed = change(file, |rows| rows.remove(provider))?;
        if removed.as_ref().is_some_and(|row| row.key.is_none()) {
            let refused = |why| ConfigError::Keychain { provider: provider.to_owned(), why };
            keychain::ask(&entry(file, provider), Act::Remove).map_err(refused)?;
        }
        Ok(removed.is_some())
    }
}

/// What the file holds.
fn rows(file: &Path) -> Result<Rows, ConfigError> {
    let Some(text) = read_bounded(file)? else { return Ok(Rows::new()) };
    toml::from_str(&text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let message =
            "a table for each provider is expected, with `server` and `key`; `agon keys set` writes it";
        ConfigError::Damaged { path: file.to_owned(), line, message: message.to_owned() }
    })
}

/// Reads the file, changes it and writes it again while no other agon does.
fn change<T>(file: &Path, change: impl FnOnce(&mut Rows) -> T) -> Result<T, ConfigError> {
    let failed = |source| ConfigError::Write { path: file.to_owned(), source };
    let _alone = alone(file).map_err(failed)?;
    let mut rows = rows(file)?;
    let changed = change(&mut rows);
    let table = toml::to_string(&rows).map_err(|error| ConfigError::Internal(error.to_string()))?;
    replace(file, &format!("{HEAD}\n{table}")).map_err(failed)?;
    Ok(changed)
}

/// What a key is called in the keychain: another home of agon has keys of its own.
fn entry(file: &Path, provider: &str) -> String {
    format!("{provider} ({})", file.display())
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

// With the feature they would write into the keychain of whoever runs them.
#[cfg(not(feature = "keychain"))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_for_its_server_alone_in_a_file_for_its_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state/keys.toml");
        Keys::set(&file, "xai", "https://api.x.ai", &Secret::new("k-1")).unwrap();
        let set = Keys::set(&file, "xai", "https://api.x.ai", &Secret::new("k-2")).unwrap();
        let keys = Keys::read(&file).unwrap();
        assert_eq!(keys.of("xai", "https://api.x.ai"), Some(Secret::new("k-2")));
        assert_eq!(keys.of("xai", "https://evil"), None);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(keys.warnings().is_empty() && matches!(set, Kept::File(_)));
        assert_eq!(format!("{keys:?}"), "[\"xai\"]");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(Keys::read(&file).unwrap().warnings()[0].contains("(mode 644)"));
        assert!(Keys::remove(&file, "xai").unwrap());
        assert!(!Keys::remove(&file, "xai").unwrap());
        assert_eq!(Keys::read(&file).unwrap().all().count(), 0);
    }

    #[test]
    fn keys_that_are_set_at_once_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state/keys.toml");
        let names: Vec<String> = (0..16).map(|nth| format!("p{nth}")).collect();
        std::thread::scope(|all| {
            for name in &names {
                all.spawn(|| Keys::set(&file, name, "https://a", &Secret::new("k")).unwrap());
            }
        });
        assert_eq!(Keys::read(&file).unwrap().all().count(), names.len());
    }

    #[test]
    fn a_key_in_a_keychain_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.toml");
        std::fs::write(&file, "[xai]\nserver = \"https://api.x.ai\"\n").unwrap();
        let keys = Keys::read(&file).unwrap();
        assert_eq!((keys.of("xai", "https://api.x.ai"), keys.all().count()), (None, 0));
        assert!(
            keys.warnings().iter().any(|words| words.contains("the key of `xai`")),
            "{:?}",
            keys.warnings()
        );
        let error = Keys::remove(&file, "xai").unwrap_err().to_string();
        assert!(error.contains("keeps the key of `xai`") && !Keys::remove(&file, "xai").unwrap(), "{error}");
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

//! Which values of the environment are blanked out of all that is recorded and shown, by the names of their variables.

use std::collections::BTreeSet;
use std::path::Path;

use crate::config::Environment;

/// How names end that commonly hold secrets, in whatever case and whatever number follows.
const ENDINGS: [&str; 14] = [
    "AUTH",
    "CREDENTIAL",
    "CREDENTIALS",
    "KEY",
    "KEYS",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PASSWORDS",
    "SECRET",
    "SECRETS",
    "TOKEN",
    "TOKENS",
];

/// A value that no provider names is blanked out from this length on, in bytes.
const SHORTEST: usize = 16;

/// A value that a provider names is blanked out from this length on, in bytes.
const SHORTEST_NAMED: usize = 8;

/// The variables whose names commonly hold secrets: those that are blanked out, and those that are not.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    /// Name and value.
    pub taken: Vec<(String, String)>,
    /// Name, and why its value is left as it is.
    pub left_out: Vec<(String, &'static str)>,
}

impl Secrets {
    /// Looks at every variable. `named` are those that a provider names for its key; `ignored` those that the
    /// configuration leaves out.
    pub fn of(environment: &Environment, named: &BTreeSet<&str>, ignored: &[String]) -> Self {
        let mut secrets = Secrets::default();
        for name in environment.names() {
            let Some(value) = environment.get(name).map(str::trim) else { continue };
            let plain = name.trim_end_matches(|c: char| c == '_' || c.is_ascii_digit()).to_ascii_uppercase();
            let tells = named.contains(name) || ENDINGS.iter().any(|ending| plain.ends_with(ending));
            // Whatever an address is called by, the password in it is one; the rest of it may be shown.
            let (value, is_named) = match password(value) {
                Some(password) => (password, true),
                None if tells => (value.to_owned(), named.contains(name)),
                None => continue,
            };
            let value = value.as_str();
            let why = match ignored.iter().any(|ignored| ignored == name) {
                true => Some("named in [redaction] ignore"),
                false if is_named => harmless_named(value),
                false => harmless(value),
            };
            match why {
                Some(why) => secrets.left_out.push((name.to_owned(), why)),
                None => secrets.taken.push((name.to_owned(), value.to_owned())),
            }
        }
        secrets
    }
}

impl std::fmt::Debug for Secrets {
    /// Names only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let taken = self.taken.iter().map(|(name, _)| name).collect::<Vec<_>>();
        f.debug_struct("Secrets").field("taken", &taken).field("left_out", &self.left_out).finish()
    }
}

/// The password of an address.
fn password(value: &str) -> Option<String> {
    let url = reqwest::Url::parse(value).ok().filter(reqwest::Url::has_host)?;
    url.password().filter(|password| !password.is_empty()).map(str::to_owned)
}

/// Why a value that a provider names is not blanked out, if so: words of the log itself would be.
fn harmless_named(value: &str) -> Option<&'static str> {
    match value {
        value if value.len() < SHORTEST_NAMED => Some("shorter than 8 bytes"),
        value if is_word(value) => Some("only lower-case letters"),
        _ => None,
    }
}

/// What the arena takes for a word and not for a secret.
fn is_word(value: &str) -> bool {
    value.len() < 24 && value.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Why a value is no secret, if it is none.
fn harmless(value: &str) -> Option<&'static str> {
    let is_url = reqwest::Url::parse(value).is_ok_and(|url| url.has_host() && url.username().is_empty());
    match value {
        value if value.len() < SHORTEST => Some("shorter than 16 bytes"),
        value if is_word(value) || value.bytes().all(|byte| byte.is_ascii_lowercase()) => {
            Some("only lower-case letters")
        }
        value if value.parse::<f64>().is_ok() => Some("a number"),
        _ if is_url => Some("an address without a password"),
        value if Path::new(value).exists() => Some("a path that exists"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(pairs: &[(&str, &str)], ignored: &[&str]) -> (Vec<String>, Vec<(String, &'static str)>) {
        let environment =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let ignored: Vec<String> = ignored.iter().map(|name| (*name).to_owned()).collect();
        let found = Secrets::of(&environment, &BTreeSet::from(["MY_PROVIDER", "OPENAI_API_KEY"]), &ignored);
        (found.taken.into_iter().map(|(name, _)| name).collect(), found.left_out)
    }

    #[test]
    fn values_are_taken_by_the_names_of_their_variables_used_or_not() {
        let long = "0123456789abcdef";
        let pairs = [
            ("ANTHROPIC_API_KEY", long),
            ("github_token", long),
            ("DB_PASSWORD", "pass word with spaces"),
            ("API_KEY_2", long),
            ("AWS_CREDENTIALS", "https://user@host/0123456"),
            ("DATABASE_URL", "postgres://ann:s3cret-pw@host/db"),
            ("DB_PASSWD", long),
            ("NPM_AUTH", long),
            ("SIGNING_PASSPHRASE", "pass phrase with spaces"),
            ("GH_TOKENS", long),
            ("MY_PROVIDER", "12345678"),
            ("OPENAI_API_KEY", "abcdefg1"),
            ("KEYBOARD", long),
            ("HOME", "/root/0123456789abcdef"),
        ];
        let taken = [
            "ANTHROPIC_API_KEY",
            "API_KEY_2",
            "AWS_CREDENTIALS",
            "DATABASE_URL",
            "DB_PASSWD",
            "DB_PASSWORD",
            "GH_TOKENS",
            "MY_PROVIDER",
            "NPM_AUTH",
            "OPENAI_API_KEY",
            "SIGNING_PASSPHRASE",
            "github_token",
        ];
        assert_eq!(secrets(&pairs, &[]), (taken.map(str::to_owned).to_vec(), vec![]));
    }

    #[test]
    fn what_is_no_secret_is_left_out_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a-long-enough-name").display().to_string();
        std::fs::write(&path, "").unwrap();
        let pairs = [
            ("A_KEY", "short-15-bytes!"),
            ("B_KEY", &*path),
            ("C_TOKEN", "https://host/path?q=0123"),
            ("D_SECRET", "1234567890123456789"),
            ("E_PASSWORD", "correcthorsebatterystaple"),
            ("F_KEY", "0123456789abcdef"),
            ("MY_PROVIDER", "a_plain_word"),
            ("OPENAI_API_KEY", "1234567"),
            ("TEST_DB", "postgres://postgres:postgres@localhost/db"),
        ];
        let why = [
            ("A_KEY", "shorter than 16 bytes"),
            ("B_KEY", "a path that exists"),
            ("C_TOKEN", "an address without a password"),
            ("D_SECRET", "a number"),
            ("E_PASSWORD", "only lower-case letters"),
            ("F_KEY", "named in [redaction] ignore"),
            ("MY_PROVIDER", "only lower-case letters"),
            ("OPENAI_API_KEY", "shorter than 8 bytes"),
            ("TEST_DB", "only lower-case letters"),
        ];
        let left_out = why.map(|(name, why)| (name.to_owned(), why)).to_vec();
        assert_eq!(secrets(&pairs, &["F_KEY"]), (vec![], left_out));
    }
}

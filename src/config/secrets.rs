//! Which values of the environment and of the configuration are blanked out of all that is recorded and shown.

use std::collections::BTreeSet;
use std::path::Path;

use crate::arena::unfit_to_hide;
use crate::config::{Config, Connection, Environment, McpTable, providers};

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

/// What commonly holds secrets, by name: what is blanked out, and what is not.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    /// Name and value.
    pub taken: Vec<(String, String)>,
    /// Name, and why its value is left as it is.
    pub left_out: Vec<(String, &'static str)>,
}

impl Config {
    /// The values that are blanked out: of the environment, the stored keys, and what the tables of all providers hold. A
    /// session may go over to any of them while it runs.
    pub fn secrets(&self) -> Secrets {
        let ignored = self.file.redaction.as_ref().map_or(&[][..], |table| &table.ignore);
        let mut secrets = Secrets::of(&self.environment, &self.secret_names(), ignored);
        for (name, value) in self.keys.secrets() {
            secrets.add(&name, &value, unfit_to_hide, ignored);
        }
        for (provider, table) in &self.file.providers {
            for password in table.base_url.iter().flat_map(|url| passwords(url)) {
                secrets.add(&format!("{provider} base_url"), &password, unfit_to_hide, ignored);
            }
            let headers = table.headers.iter().filter(|(name, _)| providers::is_secret_header(name));
            for (name, value) in headers {
                let name = format!("{provider} {name}");
                secrets.add(&name, value, unfit_to_hide, ignored);
                // `Bearer abc` and `name=abc` would otherwise hide only the pair, not the token alone.
                let parts = value
                    .split([' ', ';'])
                    .flat_map(|part| [Some(part), part.split_once('=').map(|pair| pair.1)]);
                for token in parts.flatten().filter(|token| unfit_to_hide(token).is_none()) {
                    secrets.add(&name, token, unfit_to_hide, ignored);
                }
            }
        }
        secrets
    }

    /// Variables that the configuration names as keys: of providers, and those that servers are given.
    fn secret_names(&self) -> BTreeSet<&str> {
        let of_servers = self.file.mcp.values().flat_map(McpTable::passed_on);
        providers::key_names(&self.file.providers).into_iter().chain(of_servers).collect()
    }

    /// Those of them that requests to one provider carry.
    pub fn sent_secrets(&self, provider: &str) -> Vec<(String, String)> {
        let Ok(Connection::Http { key, headers, base_url, .. }) = self.connection(provider) else {
            return Vec::new();
        };
        let mut sent = passwords(&base_url);
        sent.extend(key.map(|key| key.reveal().to_owned()));
        sent.extend(headers.into_values());
        let mut secrets = self.secrets().taken;
        secrets.retain(|(_, value)| sent.iter().any(|text| text.contains(value)));
        secrets
    }
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
            let passwords = passwords(value);
            let is_named = named.contains(name);
            match passwords.is_empty() {
                false => passwords.iter().for_each(|one| secrets.add(name, one, unfit_to_hide, ignored)),
                true if is_named => secrets.add(name, value, unfit_to_hide, ignored),
                true if tells => secrets.add(name, value, harmless, ignored),
                true => {}
            }
        }
        secrets
    }

    /// Takes a value, or the reason why it is left as it is.
    fn add(&mut self, name: &str, value: &str, fault: fn(&str) -> Option<&'static str>, ignored: &[String]) {
        let why = match ignored.iter().any(|ignored| ignored == name) {
            true => Some("named in [redaction] ignore"),
            false => fault(value),
        };
        let (name, value) = (name.to_owned(), value.to_owned());
        match why {
            Some(why) if self.left_out.contains(&(name.clone(), why)) => {}
            Some(why) => self.left_out.push((name, why)),
            None if self.taken.contains(&(name.clone(), value.clone())) => {}
            None => self.taken.push((name, value)),
        }
    }
}

impl std::fmt::Debug for Secrets {
    /// Names only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let taken = self.taken.iter().map(|(name, _)| name).collect::<Vec<_>>();
        f.debug_struct("Secrets").field("taken", &taken).field("left_out", &self.left_out).finish()
    }
}

/// The password of an address, as it is written there and as it is meant: programs log the one and send the other.
fn passwords(value: &str) -> Vec<String> {
    let Ok(url) = reqwest::Url::parse(value) else { return Vec::new() };
    let Some(parsed) = url.password().filter(|_| url.has_host()) else { return Vec::new() };
    // Only in addresses of the web is a backslash a slash.
    let ends = |c: char| matches!(c, '/' | '?' | '#') || c == '\\' && url.is_special();
    let written = value.split_once("://").and_then(|(_, rest)| {
        let (userinfo, _) = rest.split(ends).next()?.rsplit_once('@')?;
        userinfo.split_once(':').map(|(_, password)| password).filter(|password| !password.is_empty())
    });
    let written = written.unwrap_or(parsed);
    let mut both = vec![written.to_owned(), decoded(written)];
    both.dedup();
    both
}

/// A text without percent-encoding.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend(before.bytes());
        let byte = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(b'%'));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    bytes.extend(rest.bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Why a value is no secret, if it is none.
fn harmless(value: &str) -> Option<&'static str> {
    let is_url = reqwest::Url::parse(value).is_ok_and(|url| url.has_host() && url.username().is_empty());
    match value {
        value if value.len() < SHORTEST => Some("shorter than 16 bytes"),
        value if value.bytes().all(|byte| byte.is_ascii_lowercase()) => Some("only lower-case letters"),
        value if value.parse::<f64>().is_ok() => Some("a number"),
        _ if is_url => Some("an address without a password"),
        value if Path::new(value).is_absolute() && Path::new(value).exists() => Some("a path that exists"),
        value => unfit_to_hide(value),
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
    fn the_password_of_an_address_is_hidden_as_it_is_written_and_as_it_is_meant() {
        for (address, both) in [
            ("postgres://ann:p%40ss%2Fword1@host/db", vec!["p%40ss%2Fword1", "p@ss/word1"]),
            ("redis://:pass|word^1@host", vec!["pass|word^1"]),
            ("https://ann:a@b:c%zz@host?x=@y", vec!["a@b:c%zz"]),
            ("postgres://ann:pa\\ss-word1@host/db", vec!["pa\\ss-word1"]),
            ("https:/ann:s3cret%2Dpw@host", vec!["s3cret%2Dpw", "s3cret-pw"]),
            ("https://ann@host:80/a:b@c", vec![]),
            ("https://host/p", vec![]),
        ] {
            assert_eq!(passwords(address), both, "{address}");
        }
        let environment =
            Environment::from_iter([("DB".to_owned(), "postgres://ann:p%40ss%2Fword1@host/db".to_owned())]);
        let taken = Secrets::of(&environment, &BTreeSet::new(), &[]).taken;
        assert_eq!(
            taken.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>(),
            ["p%40ss%2Fword1", "p@ss/word1"]
        );
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
            ("G_KEY", "src/config/secrets.rs"),
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
        // A relative path is one in some folder only.
        assert!(Path::new("src/config/secrets.rs").exists());
        assert_eq!(secrets(&pairs, &["F_KEY"]), (vec!["G_KEY".to_owned()], left_out));
    }
}

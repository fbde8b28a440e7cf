//! The names of files that need care: secret ones and protected ones, read from `names.toml`, which is part of the
//! program.

use std::sync::LazyLock;

use serde::Deserialize;

/// The names of instruction files: in a folder the first one that is there is read.
pub const INSTRUCTION_FILES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// The lists.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Names {
    /// Globs of files that commonly hold passwords or keys.
    pub secret: Vec<String>,
    /// Globs of files among them that hold none.
    pub except: Vec<String>,
    /// Names that no tool writes.
    pub protected: Vec<Protected>,
}

/// Protected names with one reason.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Protected {
    /// Why, for people and models.
    pub why: String,
    /// Each `name` or `folder/name`.
    pub names: Vec<String>,
}

static STANDARD: LazyLock<Names> = LazyLock::new(|| {
    toml::from_str(include_str!("names.toml")).unwrap_or_else(|error| Names::everything(&error.to_string()))
});

impl Names {
    /// The lists that ship with the program.
    pub fn standard() -> &'static Names {
        &STANDARD
    }

    /// A list that cannot be read closes everything rather than nothing.
    fn everything(why: &str) -> Names {
        let why = format!("agon's list of names cannot be read: {why}");
        Names {
            secret: vec!["*".to_owned()],
            except: Vec::new(),
            protected: vec![Protected { why, names: vec!["*".to_owned()] }],
        }
    }

    /// Every protected name.
    pub fn all_protected(&self) -> impl Iterator<Item = &str> {
        self.protected.iter().flat_map(|group| group.names.iter().map(String::as_str))
    }
}

/// Why a text cannot be a protected name: it has at most a folder and a name, each to the letter.
pub fn complaint_about(name: &str) -> Option<&'static str> {
    let parts: Vec<&str> = name.split('/').collect();
    let is_part = |part: &&str| !part.is_empty() && *part != "." && *part != "..";
    match () {
        () if !parts.iter().all(is_part) => Some("it has an empty part, or one that leads elsewhere"),
        () if parts.len() > 2 => Some("it may have one folder and a name"),
        () if name.contains(['*', '?', '[', '{', '\\']) => Some("it is a name to the letter, no pattern"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_lists_can_be_read_and_name_everything_once() {
        let names: Names = toml::from_str(include_str!("names.toml")).unwrap();
        assert_eq!(&names, Names::standard());
        let all: Vec<&str> = names.all_protected().chain(names.secret.iter().map(String::as_str)).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        for name in names.all_protected() {
            assert_eq!(complaint_about(name), None, "{name}");
            assert_eq!(name.to_lowercase(), name);
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for name in ["", "a//b", "/a", "a/", "../a", "a/b/c", "*.md", "a/."] {
            assert!(complaint_about(name).is_some(), "{name}");
        }
    }
}

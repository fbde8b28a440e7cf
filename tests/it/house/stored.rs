//! Refuses a type of the log that a newer program could not extend without being called damaged.

use super::{Source, none_broken, snippet, sources};

/// Enums that are never read from a log: commands and effects in memory, live signals, what models answer.
const NOT_STORED: &[&str] = &["Command", "Effect", "OutcomeBody", "Lane", "ClaimKind", "Stance"];

/// Files of types that models write: a field they may not have is an error there.
const TYPED_ANSWERS: &[&str] = &["src/protocol/typed.rs", "src/protocol/ballot.rs", "src/protocol/inside.rs"];

/// Enums that serde reads by itself, and fields that are refused or read into one another.
fn check_stored(file: &Source) -> Vec<String> {
    let lines: Vec<&str> = file.text.lines().collect();
    let is_hand_made = file.path == "src/protocol/stored.rs";
    let mut broken = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let words = line.trim();
        let mut say = |why: &str| broken.push(format!("{}:{}: {why}", file.path, at + 1));
        if words.starts_with("#[serde(") && !is_hand_made {
            for word in ["untagged", "flatten", "other)"] {
                if words.contains(word) {
                    say("`untagged`, `flatten` and `other` take damage for the unknown");
                }
            }
            if words.contains("deny_unknown_fields") && !TYPED_ANSWERS.contains(&file.path.as_str()) {
                say("a field of a newer program is no damage");
            }
        }
        let Some(name) = words.strip_prefix("pub enum ").and_then(|rest| rest.split([' ', '<']).next())
        else {
            continue;
        };
        let above = lines[..at].iter().rev().take_while(|line| line.trim().starts_with(['#', '/']));
        let is_read = above.into_iter().any(|line| line.contains("Deserialize"));
        if is_read && !NOT_STORED.contains(&name) {
            say("an enum of the log is declared by `stored!`");
        }
    }
    broken
}

#[test]
fn what_a_log_holds_can_grow() {
    none_broken(sources("src/protocol").iter().flat_map(check_stored).collect());
}

#[test]
fn types_that_cannot_grow_are_found() {
    for text in [
        "#[derive(Clone, Deserialize)]\n#[serde(rename_all = \"snake_case\")]\npub enum Tea { Green }",
        "#[serde(deny_unknown_fields)]\npub struct Cup {}",
        "    #[serde(flatten)]\n    rest: Map,",
        "#[serde(untagged)]",
    ] {
        assert_eq!(check_stored(&snippet("src/protocol/event/tea.rs", text)).len(), 1, "{text}");
    }
    let good = "stored! {\n    /// A tea.\n    pub enum Tea of Word {\n        Green,\n    }\n}\npub enum Pot { Full }";
    assert_eq!(check_stored(&snippet("src/protocol/event/tea.rs", good)), Vec::<String>::new());
}

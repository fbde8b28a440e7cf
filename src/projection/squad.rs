//! What a squad's answer is to a reader: its words, what is open, what the log does not bear out, who is missing.

use serde_json::Value;

use super::words;
use crate::protocol::event::{ClaimFlagged, TurnCause};
use crate::protocol::spec::Mode;
use crate::protocol::typed::SquadAnswer;
use crate::protocol::{ArenaEvent, Entry, EventRef};

/// The squad of the last prompt, as far as its answer needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SquadSheet {
    /// True when the last prompt was a squad's.
    pub is_squad: bool,
    /// Claims that are not borne out.
    pub flags: Vec<ClaimFlagged>,
    /// Roles that did not do their part, and why.
    pub missing: Vec<(String, TurnCause)>,
    /// A run that was found in the team cache, and what its own log did not bear out.
    recorded: Option<(EventRef, Vec<ClaimFlagged>)>,
}

impl SquadSheet {
    /// Folds one entry.
    pub fn apply(&mut self, entry: &Entry) {
        for (at, event) in entry.effective() {
            match event {
                ArenaEvent::PromptGiven(data) => {
                    *self = SquadSheet { is_squad: data.mode == Mode::Squad, ..SquadSheet::default() };
                }
                ArenaEvent::ClaimFlagged(data) => self.flags.push(data.clone()),
                ArenaEvent::CacheHit(data) => self.recorded = Some((at, data.body.flags.clone())),
                ArenaEvent::TurnClosed(data) => {
                    let used = self.recorded.take_if(|(hit, _)| data.answer == Some(*hit));
                    self.flags.extend(used.into_iter().flat_map(|(_, flags)| flags));
                }
                ArenaEvent::RoleFailed(data) => self.missing.push((data.role.clone(), data.cause)),
                _ => {}
            }
        }
    }

    /// The answer for a reader: Markdown, or only the JSON where one was asked for by a schema. Words of a role
    /// that are no typed answer stay as they are.
    pub fn words(&self, text: &str) -> String {
        let Ok(answer) = serde_json::from_str::<SquadAnswer>(text) else {
            return text.trim_end().to_owned() + &self.missing_words();
        };
        let mut out = match &answer.answer {
            Value::String(words) => words.trim_end().to_owned(),
            other => return serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
        };
        if !answer.open.is_empty() {
            out.push_str("\n\nOpen:");
            out.extend(answer.open.iter().map(|open| format!("\n- {}", open.trim())));
        }
        if !self.flags.is_empty() {
            out.push_str("\n\nClaimed, but not borne out by the log:");
            for flag in &self.flags {
                let claim = usize::try_from(flag.claim).ok().and_then(|i| answer.claims.get(i));
                let claim = claim.map(|claim| claim.text.as_str()).unwrap_or_default();
                out.push_str(&format!("\n- \"{}\": {}", claim.trim(), flag.reason));
            }
        }
        out + &self.missing_words()
    }

    /// Who did not do their part, in one line; none when everybody did.
    pub fn missing_line(&self) -> Option<String> {
        let one = |(role, cause): &(String, TurnCause)| format!("{role}: {}", words::turn_cause(*cause));
        let line = self.missing.iter().map(one).collect::<Vec<_>>().join(", ");
        (!line.is_empty()).then_some(line)
    }

    fn missing_words(&self) -> String {
        if self.missing.is_empty() {
            return String::new();
        }
        let one = |(role, cause): &(String, TurnCause)| format!("\n- {role}: {}", words::turn_cause(*cause));
        format!("\n\nMissing:{}", self.missing.iter().map(one).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::EventRef;

    #[test]
    fn flags_and_gaps_are_part_of_what_is_read() {
        let flag = ClaimFlagged {
            source: EventRef::fact(9),
            claim: 0,
            reason: "the check of e7 did not pass".into(),
        };
        let sheet = SquadSheet {
            is_squad: true,
            flags: vec![flag],
            missing: vec![("reviewer".to_owned(), TurnCause::Refused)],
            ..SquadSheet::default()
        };
        let typed = r#"{"answer":"Done.\n","claims":[{"kind":"checks_pass","text":"tests pass","evidence":["e7"]}],"open":["F2"]}"#;
        let words = sheet.words(typed);
        assert!(words.starts_with("Done.\n\nOpen:\n- F2\n\nClaimed, but not borne out by the log:\n- \"tests pass\": the check of e7"), "{words}");
        assert!(words.contains("\n\nMissing:\n- reviewer: "), "{words}");
        let schema = r#"{"answer":{"n":3},"claims":[],"open":[]}"#;
        assert_eq!(sheet.words(schema), "{\n  \"n\": 3\n}");
    }
}

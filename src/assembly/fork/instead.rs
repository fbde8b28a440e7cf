//! Finds the one fact a fork gives again and makes the fact that stands in its place; starts and copies nothing.

use crate::assembly::WireError;
use crate::eventlog::EntryReader;
use crate::protocol::event::ToolStatus;
use crate::protocol::text::{MOST_SHOWN, cut_middle};
use crate::protocol::{ArenaEvent, CallId};

/// Marks a fact as the fork's.
const BY: &str = "fork";

/// The one fact a fork gives again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instead {
    /// This prompt, in place of the last one up to the entry of the fork.
    Prompt(String),
    /// What a tool is to have said, with success.
    Result {
        /// The entry of the result it replaces.
        seq: u64,
        /// What stands there instead; cut in its middle beyond 64 KiB.
        content: String,
    },
    /// The model's answer in the entry of the fork, unchanged: what follows from it is decided again.
    Answer,
}

/// What stands in the place of a fact of the parent.
pub(super) struct Replaced {
    /// The last entry that is copied.
    pub after: u64,
    /// The new fact.
    pub fact: ArenaEvent,
    /// The call it answers.
    pub awaits: Option<CallId>,
}

impl Instead {
    /// What is different, for people.
    pub(super) fn in_words(&self) -> Option<&'static str> {
        match self {
            Instead::Prompt(_) => Some("prompt"),
            Instead::Result { .. } => Some("a tool's result"),
            Instead::Answer => None,
        }
    }

    /// Finds what it replaces in the parent, up to its entry `last`.
    pub(super) fn find(&self, mut parent: EntryReader, last: u64) -> Result<Replaced, WireError> {
        let mut found = None;
        while let Some(entry) = parent.next_entry()? {
            if entry.seq > last {
                break;
            }
            let Some(after) = entry.seq.checked_sub(1).filter(|_| !entry.is_void()) else { continue };
            match (self, entry.fact()) {
                (Instead::Prompt(text), Some(ArenaEvent::PromptGiven(given))) => {
                    let mut given = given.clone();
                    given.text.clone_from(text);
                    given.by = Some(BY.to_owned());
                    found = Some(Replaced { after, fact: ArenaEvent::PromptGiven(given), awaits: None });
                }
                (Instead::Result { seq, content }, Some(ArenaEvent::ToolResolved(resolved)))
                    if entry.seq == *seq =>
                {
                    let mut resolved = resolved.clone();
                    let awaits = Some(resolved.call);
                    resolved.body.content = cut_middle(content, MOST_SHOWN).0;
                    resolved.body.blob = None;
                    (resolved.body.status, resolved.body.exit) = (ToolStatus::Ok, None);
                    resolved.body.by = Some(BY.to_owned());
                    found = Some(Replaced { after, fact: ArenaEvent::ToolResolved(resolved), awaits });
                }
                (Instead::Answer, Some(fact @ ArenaEvent::ModelAnswered(answer))) if entry.seq == last => {
                    found = Some(Replaced { after, fact: fact.clone(), awaits: Some(answer.call) });
                }
                _ => {}
            }
        }
        found.ok_or_else(|| {
            WireError::NothingToReplace(match self {
                Instead::Prompt(_) => format!("no prompt was given up to entry {last}"),
                Instead::Result { seq, .. } => format!("entry {seq} is no result of a tool"),
                Instead::Answer => format!("entry {last} is no answer of a model"),
            })
        })
    }
}
